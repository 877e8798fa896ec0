"""Ctrl-C ends a run with code 130, and every file is whole."""

import signal
import subprocess
import sys
import time

import pytest

from probmetric import load_metric
from tests.cli.runs import no_debris, write_data

HEAD = """
import signal, sys
# A shell starts background processes with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
WHILE_FITTING = """
from probmetric.cli import fit
from probmetric.__main__ import main
fit.fit_named = lambda *_: signal.raise_signal(signal.SIGINT)
main()
"""


def python(code, *words):
    """Run code in a new process."""
    return subprocess.run(
        [sys.executable, "-c", HEAD + code, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))["csv"]


@pytest.mark.long
def test_an_interrupted_fit_ends_with_130_and_writes_nothing(data, tmp_path):
    done = python(WHILE_FITTING, "fit", "lda", "--data", data, "--out", tmp_path)
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1].startswith("probmetric: interrupted")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_interrupt_outside_a_command_ends_with_130():
    code = "from probmetric.interrupts import run_command\n"
    code += "run_command(lambda: signal.raise_signal(signal.SIGINT))"
    done = python(code)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "probmetric: interrupted\n"


def test_an_interrupt_ends_code_that_python_cannot_interrupt():
    # A mutex that is locked twice: as XLA, it waits without Python's lock.
    code = """
import ctypes, threading
from probmetric import interrupts
interrupts.LIMIT = 0.1
def command():
    mutex, lock = ctypes.create_string_buffer(64), ctypes.CDLL(None).pthread_mutex_lock
    here = threading.get_ident(), signal.SIGINT
    threading.Timer(0.1, signal.pthread_kill, here).start()
    lock(mutex), lock(mutex)
interrupts.run_command(command)
"""
    done = python(code)
    assert done.returncode == 130, done.stderr
    assert done.stderr == "probmetric: interrupted\n"


@pytest.fixture
def heard():
    """Let children receive SIGINT, which a shell's background processes ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("heard")
def test_a_fit_interrupted_at_any_moment_leaves_whole_files(data, tmp_path):
    words = [sys.executable, "-m", "probmetric", "fit", "lca", "--data", data, "--out"]
    began = time.monotonic()
    subprocess.run([*words, tmp_path / "whole"], check=True, capture_output=True)
    seconds = time.monotonic() - began
    for share in (0.2, 0.5, 0.8, 0.95):
        out = tmp_path / str(share)
        process = subprocess.Popen(
            [*words, out], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            process.communicate(timeout=share * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
        # An extension module that is interrupted while it loads may abort.
        aborted = process.returncode < 0
        assert aborted or process.returncode in (0, 1, 130)
        assert not out.exists() or no_debris(out)
        if process.returncode == 0:
            load_metric(out / "metric.npz")
