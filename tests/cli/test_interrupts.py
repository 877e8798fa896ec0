"""A SIGINT is never lost: whatever drops it, the run ends as interrupted."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from probmetric import load_metric
from probmetric.inference.sampling.checkpoint import plan_blocks, run_blocks
from tests.cli.runs import no_debris, write_data

HEAD = """
import gc, os, signal, sys, threading, time
# A shell starts what runs in the background with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
def ask():
    signal.raise_signal(signal.SIGINT)
def swallowed():
    try:
        ask()
    except BaseException:
        pass
def translated():
    try:
        ask()
    except BaseException:
        raise RuntimeError("the library failed")
def dropped():
    gc.callbacks.append(lambda phase, info: ask() if phase == "start" else None)
    gc.collect()
    gc.callbacks.pop()
class Deleted:
    def __del__(self):
        ask()
def deleted():
    Deleted()
def in_a_thread():
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
"""
IN_TURN = """
import contextlib, io, json
from probmetric.cli import fit as cli_fit
from probmetric.cli.app import main
fit_named, words = cli_fit.fit_named, sys.argv[1:]
for how in map(globals().get, {ways}):
    def interrupted(*arguments):
        how()
        return fit_named(*arguments)
    cli_fit.fit_named, said = interrupted, io.StringIO()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = [*words, "--out", how.__name__]
    with contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as left:
            code = left.code
    print(json.dumps([how.__name__, code, said.getvalue(), os.listdir(how.__name__)]))
sys.exit(code)
"""
# The process ends after the last, whose own exit code is asked for: "swallowed" stays.
WAYS = ["translated", "dropped", "deleted", "in_a_thread", "swallowed"]


def python(code, *words, cwd=None):
    """Run code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", HEAD + code, *map(str, words)],
        capture_output=True,
        cwd=cwd,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))["csv"]


@pytest.fixture(scope="module")
def interrupted(data, tmp_path_factory):
    """Return the process of five commands, and what came of each interrupt."""
    folder = tmp_path_factory.mktemp("interrupted")
    code = IN_TURN.format(ways=WAYS)
    done = python(code, "fit", "lda", "--data", data, cwd=folder)
    told = [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")
    ]
    return done, {how: came for how, *came in told}


@pytest.mark.long
@pytest.mark.parametrize("how", WAYS)
def test_a_command_ends_with_130_whatever_becomes_of_the_exception(how, interrupted):
    done, told = interrupted
    assert done.returncode == 130, done.stderr
    code, said, left_behind = told[how]
    assert code == 130, said
    assert said.splitlines()[-1].startswith("probmetric: interrupted")
    assert "Traceback" not in said + done.stderr
    assert left_behind == []


@pytest.mark.long
def test_an_interrupt_of_the_imports_ends_with_130(tmp_path):
    (tmp_path / "jax.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\n"
        "except BaseException:\n    raise ImportError('jax: no such part')\n"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "from probmetric.__main__ import main; main()"
    done = python(code, "validate", "lca")
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip() == "probmetric: interrupted"


LOADED = """
import enum
call = enum.EnumType.__call__
def asking(cls, *words, **named):
    if words and words[0] == {name!r}:
        enum.EnumType.__call__ = call
        print("asked", file=sys.stderr)
        ask()
    return call(cls, *words, **named)
enum.EnumType.__call__ = asking
{run}
"""
COMMAND = "from probmetric.__main__ import main; main()"
DRAWING = "from probmetric.interrupts import run_command\n"
DRAWING += "run_command(lambda: __import__('matplotlib.figure'))"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "run"),
    [("Signedness", COMMAND), ("RenderMode", DRAWING)],
    ids=["jaxlib", "matplotlib"],
)
def test_an_interrupt_of_the_c_code_of_a_module_waits_for_its_end(
    name, run, data, tmp_path
):
    """Raised there it ends the process: by an abort in jaxlib, a fault in matplotlib.

    Both modules make enumerations by the names given here while they are loaded.
    """
    words = ("fit", "lda", "--data", data, "--out", tmp_path / "run")
    done = python(LOADED.format(name=name, run=run), *words)
    assert done.returncode == 130, done.stderr
    assert "asked" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("probmetric: interrupted")


def test_the_code_is_130_after_an_interrupt_in_a_string_that_is_run(tmp_path):
    """As a module, where Python would otherwise end by the signal itself."""
    code = "from probmetric.interrupts import run_command\n"
    code += "run_command(lambda: exec('ask()', globals()))"
    (tmp_path / "asked.py").write_text(HEAD + code)
    done = subprocess.run(
        [sys.executable, "-m", "asked"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr == "probmetric: interrupted\n"


SCOPE = """
from probmetric.interrupts import check, deferred, noticed
try:
    with noticed():
        {body}
except KeyboardInterrupt:
    print("interrupted")
default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("restored" if default else "not restored")
"""


@pytest.mark.parametrize("how", ["dropped", "deleted"])
def test_an_exception_that_python_drops_is_raised_again_at_once(how):
    """Not only at the end of the block, which here never comes by itself."""
    body = f"{how}()\n        while True: time.sleep(0.01)"
    done = python(SCOPE.format(body=body))
    assert done.stdout == "interrupted\nrestored\n", done.stderr
    assert "ignored" not in done.stderr


def test_a_check_raises_what_a_library_swallowed():
    body = "swallowed(); check(); print('went on')"
    assert python(SCOPE.format(body=body)).stdout == "interrupted\nrestored\n"


def test_what_had_to_wait_and_was_raised_by_a_check_is_not_raised_again():
    """The handler looks at frames alone: here of a function of our own."""
    body = "interrupts.LOADING = (ask.__code__,); ask()\n"
    body += "        try: check()\n        finally: time.sleep(0.2); print('whole')"
    done = python("from probmetric import interrupts\n" + SCOPE.format(body=body))
    assert done.stdout == "whole\ninterrupted\nrestored\n", done.stderr


def test_other_dropped_exceptions_are_still_told():
    body = "gc.callbacks.append(lambda *_: 1 / 0); gc.collect(); gc.callbacks.pop()"
    done = python(SCOPE.format(body=body))
    assert done.stdout == "restored\n"
    assert "ZeroDivisionError" in done.stderr


def test_a_block_that_nobody_interrupts_ends_as_it_would():
    body = "check(); print('done')"
    assert python(SCOPE.format(body=body)).stdout == "done\nrestored\n"


def test_a_short_block_is_finished_first_and_a_second_interrupt_does_not_wait():
    once = "\n        with deferred(): ask(); print('finished')\n        print('on')"
    done = python(SCOPE.format(body=once))
    assert done.stdout == "finished\ninterrupted\nrestored\n"
    twice = "\n        with deferred(): ask(); ask(); print('finished')"
    done = python(SCOPE.format(body=twice))
    assert done.stdout == "interrupted\nrestored\n"


def test_a_handler_of_another_is_left_alone():
    code = "signal.signal(signal.SIGINT, lambda *_: print('theirs'))\n"
    done = python(code + SCOPE.format(body="ask()"))
    assert done.stdout == "theirs\nnot restored\n"


def test_a_file_that_is_being_written_is_finished_first(tmp_path):
    """No half of it, no debris: the interrupt comes after the file is in place."""
    body = (
        "\n        from pathlib import Path"
        "\n        from probmetric.files import replacing"
        "\n        with replacing(Path(sys.argv[1])) as part:"
        "\n            ask(); part.write_text('whole')"
    )
    done = python(SCOPE.format(body=body), tmp_path / "file")
    assert done.stdout == "interrupted\nrestored\n", done.stderr
    assert (tmp_path / "file").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


BLOCKS = """
import numpy as np
from pathlib import Path
from probmetric.inference.sampling.checkpoint import plan_blocks, run_blocks
for how in (swallowed, dropped, translated):
    def advance(state, n, index):
        print(index, end=" ")
        if index == 1:
            how()
            time.sleep(1.0 if how is dropped else 0.0)
        return state, {"x": np.zeros((1, n))}, {}
    print(how.__name__, end=": ")
    try:
        run_blocks(advance, np.zeros(1), plan_blocks(0, 4, 1), label="",
                   folder=Path(sys.argv[1]) / how.__name__, run="{}")
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.long
def test_sampling_from_python_ends_at_the_latest_after_its_block(tmp_path):
    done = python(BLOCKS, tmp_path)
    ways = ["swallowed", "dropped", "translated"]
    assert done.stdout.splitlines() == [f"{how}: 0 1 interrupted" for how in ways], (
        done.stderr
    )
    for how in ways:
        names = sorted(path.name for path in (tmp_path / how).iterdir())
        assert names[0] == "block_00000.npz"
        assert not [name for name in names if name.startswith(".")]


def test_sampling_passes_a_keyboard_interrupt_on(tmp_path):
    def advance(state, n, index):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_blocks(
            advance, np.zeros(1), plan_blocks(0, 2, 1), folder=tmp_path, label=""
        )
    assert not list(tmp_path.iterdir())


@pytest.fixture
def heard():
    """Let children hear SIGINT, which a shell's background processes ignore."""
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
        # Before its first line Python ends by the signal; a fast run may be complete.
        assert process.returncode in (0, 130, -signal.SIGINT)
        assert not out.exists() or no_debris(out)
        if process.returncode == 0:
            load_metric(out / "metric.npz")
