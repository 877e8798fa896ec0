"""Two runs never mix: one holds a folder, the other is refused in a sentence."""

import errno
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from probmetric import files
from probmetric.cli import fit as cli_fit
from probmetric.cli import sample as cli_sample
from probmetric.cli.files import FILES, claim, together
from probmetric.files import LOCK, locked
from probmetric.inference.sampling.checkpoint import plan_blocks, run_blocks
from tests.cli.runs import no_debris, refused, run, write_data

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
    first = run(*words, "--seed", 1)
    assert first.exit_code == 0, first.output
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
        *("--method", "bootstrap", "--draws", 4),
        *("--set", "n_components=2", "--checkpoint", tmp_path / "ck"),
    )
    other = held_elsewhere
    done = while_it_fits(monkeypatch, cli_sample, lambda: other(tmp_path / "ck"))
    first = run(*words, "--out", tmp_path / "a", "--seed", 1)
    assert first.exit_code == 0, first.output
    assert "locked by another probmetric run" in done[0]
    with np.load(next((tmp_path / "ck").glob("block_*.npz"))) as block:
        assert json.loads(str(block["run"]))["seed"] == 1
    assert not (tmp_path / "ck" / LOCK).exists()


def test_a_sampler_refuses_a_checkpoint_that_another_holds(hold, data, tmp_path):
    for name in ("ck", "out"):
        (tmp_path / name).mkdir()
    hold(tmp_path / "ck")
    words = ("--checkpoint", tmp_path / "ck", "--method", "bootstrap")
    line = refused("sample", "lca", "--data", data, *words, "--out", tmp_path / "out")
    assert "--checkpoint: folder" in line
    assert not list((tmp_path / "out").iterdir())


def blocks(advance, folder, *, resume=False):
    """Run two blocks of one draw each."""
    return run_blocks(
        advance,
        np.zeros(1),
        plan_blocks(0, 2, 1),
        folder=folder,
        resume=resume,
        run="{}",
        label="",
    )


def one_draw(state, n, index):
    return state, {"x": np.full((1, n), index)}, {}


def test_a_checkpoint_of_a_run_in_another_thread_is_refused(tmp_path):
    said = []

    def second():
        with pytest.raises(ValueError, match=r"checkpoint: folder .* is locked"):
            blocks(one_draw, tmp_path, resume=True)
        said.append("refused")

    def advance(state, n, index):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        return one_draw(state, n, index)

    values, _ = blocks(advance, tmp_path)
    assert said == ["refused"] * 2
    np.testing.assert_array_equal(values["x"], [[0, 1]])


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


def test_the_thread_that_holds_a_folder_may_take_it_again(tmp_path):
    with locked(tmp_path, "x"):
        with locked(tmp_path, "y"):
            pass
        assert (tmp_path / LOCK).exists()
    assert not list(tmp_path.iterdir())


def test_a_lock_that_another_run_deleted_is_made_again(tmp_path, monkeypatch):
    """The other run ends between our opening of its file and our locking of it."""
    take, calls = files._take, []

    def late(file):
        if not calls:
            (tmp_path / LOCK).unlink()
        calls.append(file)
        take(file)

    monkeypatch.setattr(files, "_take", late)
    with locked(tmp_path, "x"):
        assert len(calls) == 2
        assert (tmp_path / LOCK).exists()


def test_a_file_of_another_program_is_not_truncated(tmp_path):
    (tmp_path / LOCK).write_text("a year of work")
    with pytest.raises(ValueError, match=rf"^--out: '.*{LOCK}' is a file of another"):
        claim(tmp_path, ("a",), force=False).__enter__()
    assert (tmp_path / LOCK).read_text() == "a year of work"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no O_NOFOLLOW")
@pytest.mark.parametrize("text", ["", "a year of work", None])
def test_a_lock_does_not_follow_a_link(text, tmp_path):
    target = tmp_path / "target.txt"
    if text is not None:
        target.write_text(text)
    (tmp_path / LOCK).symlink_to(target)
    with pytest.raises(ValueError, match=r"^--out must be a folder to write to"):
        claim(tmp_path, ("a",), force=False).__enter__()
    assert target.read_text() == text if text is not None else not target.exists()


def test_a_folder_in_which_nothing_can_be_locked_is_refused_by_name(
    tmp_path, monkeypatch
):
    def no_locks(file):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(files, "_take", no_locks)
    with (
        pytest.raises(ValueError, match=r"--out must .* can be locked.*No locks"),
        claim(tmp_path, ("a",), force=False),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_files_written_together_appear_together(tmp_path):
    with together(tmp_path) as part:
        (part / "a").write_text("a")
        (part / "b").write_text("b")
        assert [path.is_dir() for path in tmp_path.iterdir()] == [True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert no_debris(tmp_path)
