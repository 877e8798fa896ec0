"""Two runs never mix: one holds a folder, the other is refused in a sentence."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from probmetric.cli import fit as cli_fit
from probmetric.cli import sample as cli_sample
from probmetric.cli.files import FILES, together
from probmetric.files import LOCK, locked
from tests.cli.runs import no_debris, ran, refused, run, write_data

HOLD = """
import sys
from pathlib import Path
from probmetric.files import locked
with locked(Path(sys.argv[1]), "x"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))["csv"]


@pytest.fixture
def hold():
    """Hold a folder in another process; the process is returned."""
    started = []

    def start(folder):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def while_it_fits(monkeypatch, module, command):
    """Have ``command`` called once a command has claimed its folders, before it fits.

    Returns a list, which then holds what was returned.
    """
    done, learn = [], module.learn

    def learn_after(*arguments):
        done.append(command())
        return learn(*arguments)

    monkeypatch.setattr(module, "learn", learn_after)
    return done


def held_elsewhere(folder):
    """Return what a process says that wants a folder."""
    words = [sys.executable, "-c", HOLD, str(folder)]
    done = subprocess.run(words, input="", capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


def test_a_fit_holds_its_folder_while_it_learns(data, tmp_path, monkeypatch):
    """Of two fits at once the second exits with 2, forced or not: see below."""
    out = tmp_path / "tw"
    done = while_it_fits(monkeypatch, cli_fit, lambda: held_elsewhere(out))
    words = ("fit", "lda", "--data", data, "--label", "kind", "--out", out)
    ran(*words, "--seed", 1)
    assert "locked by another probmetric run" in done[0]
    said = json.loads((out / "summary.json").read_text())
    assert said["seed"] == 1
    names = {path.name for path in out.iterdir()}
    assert names == set(FILES["fit"])


@pytest.mark.long
def test_a_sampler_holds_its_checkpoint_from_before_the_fit(
    data, tmp_path, monkeypatch
):
    """Of two samplers at one checkpoint the second exits with 2: see the next tests."""
    words = (
        *("sample", "lca", "--data", data, "--label", "kind"),
        *("--method", "nuts", "--draws", 4, "--chains", 1),
        *("--set", "n_components=2", "--checkpoint", tmp_path / "ck"),
    )
    other = held_elsewhere
    done = while_it_fits(monkeypatch, cli_sample, lambda: other(tmp_path / "ck"))
    first = run(*words, "--out", tmp_path / "a", "--seed", 1)
    assert first.exit_code == 1, first.output  # So few draws have warnings.
    assert "locked by another probmetric run" in done[0]
    with np.load(next((tmp_path / "ck").glob("block_*.npz"))) as block:
        assert json.loads(str(block["run"]))["seed"] == 1
    assert not (tmp_path / "ck" / LOCK).exists()


@pytest.mark.parametrize("command", ["fit", "evaluate", "validate", "report"])
def test_every_command_refuses_a_folder_that_another_holds(
    command, hold, data, tmp_path
):
    hold(tmp_path)
    words = {
        "fit": ("lda", "--data", data, "--out", tmp_path),
        "evaluate": (
            *("--model", "lda", "--data", data, "--folds", 2, "--out", tmp_path),
        ),
        "validate": ("lda", "--quick", "--out", tmp_path),
        "report": (tmp_path,),
    }
    for force in ((), ("--force",)):
        line = refused(command, *words[command], *force)
        assert "--out: folder" in line
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_lock_does_not_survive_the_process_that_held_it(hold, tmp_path):
    process = hold(tmp_path)
    process.kill()
    process.communicate()
    assert "may be deleted" in (tmp_path / LOCK).read_text()
    with locked(tmp_path, "x"):
        assert f"process {os.getpid()}" in (tmp_path / LOCK).read_text()
    assert not list(tmp_path.iterdir())


def test_files_written_together_appear_together(tmp_path):
    with together(tmp_path) as part:
        (part / "a").write_text("a")
        (part / "b").write_text("b")
        assert [path.is_dir() for path in tmp_path.iterdir()] == [True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert no_debris(tmp_path)
