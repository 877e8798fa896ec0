"""Several processes give the bits of one, and none outlives the fault of another."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import probmetric as pm
from probmetric.cli.launch import cores_of, environment, free_port, verdict
from probmetric.large.processes import (
    COORDINATOR,
    RANKS,
    RESTART,
    SIZES,
    _found,
    gather,
)
from tests.processes.several import (
    LAUNCH,
    LIMIT,
    PASSES,
    no_process_left,
    run,
    started,
    suffered,
    survivors,
)
from tests.processes.sums_worker import chains, data, results

pytestmark = pytest.mark.xdist_group("processes")  # One at a time, on any number.
VARIABLES = (COORDINATOR, "SLURM_STEP_NODELIST", *SIZES, *RANKS)


@pytest.fixture
def bare(monkeypatch):
    """Forget what the environment says of other processes."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of a run of one process, from which nothing was taken."""
    folder = tmp_path_factory.mktemp("alone")
    assert run(folder, 1) == (0, "")
    return folder


@pytest.fixture(scope="module")
def alone(whole):
    """Return the result of that run."""
    return np.load(whole / "out.npy")


def same_bits(folder, alone):
    assert np.load(folder / "out.npy").tobytes() == alone.tobytes()


def test_one_process_joins_nothing(bare):
    with pm.distributed() as together:
        assert together == (0, 1)


def test_a_gather_of_one_process_adds_an_axis():
    found = gather({"a": np.arange(3.0), "b": np.int32(7)})
    assert found["a"].shape == (1, 3)
    assert found["b"].tolist() == [7]
    assert found["b"].dtype == np.int32


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({SIZES[0]: "2", RANKS[0]: "1"}, (2, 1)),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}, (4, 3)),
        ({"PMI_SIZE": "3", "PMI_RANK": "0"}, (3, 0)),
        ({"SLURM_NTASKS": "16", "SLURM_PROCID": "15"}, (16, 15)),
        ({SIZES[0]: "8", "JOB_COMPLETION_INDEX": "5"}, (8, 5)),
        ({SIZES[0]: "1", RANKS[0]: "0"}, None),
    ],
)
def test_variables_of_each_launcher_say_who_this_is(bare, variables, names):
    for name, value in {**variables, COORDINATOR: "host:1234"}.items():
        bare.setenv(name, value)
    found = _found(None, None, None)
    if names is None:
        assert found is None
    else:
        assert (found["num_processes"], found["process_id"]) == names


def test_without_a_coordinator_slurm_is_left_to_jax(bare):
    bare.setenv("SLURM_NTASKS", "2")
    assert _found(None, None, None) is None  # sbatch alone, without srun.
    bare.setenv("SLURM_STEP_NODELIST", "node[1-2]")
    assert _found(None, None, None) == {"local_device_ids": None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, 2, 0), "coordinator must be host:port .* got None"),
        (("host:1", 2, 2), "0 ≤ rank < processes"),
        (("host:1", None, 0), "0 ≤ rank < processes"),
        (("host", 2, 0), "coordinator must be host:port, got 'host'"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error(bare, arguments, message):
    with pytest.raises(ValueError, match=message), pm.distributed(*arguments):
        pass


def test_a_variable_that_is_no_number_is_an_error(bare):
    bare.setenv(COORDINATOR, "host:1")
    bare.setenv(SIZES[0], "two")
    with pytest.raises(ValueError, match=r"PROBMETRIC_PROCESSES must .* got 'two'"):
        _found(None, None, None)


def test_patience_is_checked(bare):
    with pytest.raises(ValueError, match="patience"), pm.distributed(patience=0):
        pass


def test_copies_share_the_cores_and_drop_proxies(monkeypatch):
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4})
        shares = [cores_of(rank, 2) for rank in range(2)]
        assert shares == [{0, 1}, {2, 3, 4}]
        assert cores_of(6, 7) == {1}
    monkeypatch.setenv("https_PROXY", "somewhere")
    made = environment(1, 2, 99)
    assert made[COORDINATOR] == "127.0.0.1:99"
    assert not [name for name in made if "proxy" in name.lower()]


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ({0: 0, 1: 0}, (0, 0)),
        ({0: RESTART, 1: 2}, (2, 1)),  # The other lost a process that had an error.
        ({0: -9, 1: RESTART}, (RESTART, 0)),
        ({1: -6}, (RESTART, 1)),
        ({0: 1, 1: 1}, (1, 0)),
        ({0: 1, 1: 2}, (1, 0)),
        ({0: 2, 1: 130}, (130, 1)),
    ],
)
def test_the_code_of_the_whole_is_that_of_the_cause(codes, code):
    assert verdict(codes) == code


@pytest.mark.long
def test_several_processes_with_random_delays_give_the_bits_of_one(tmp_path, alone):
    """Two processes do below, of which one is killed."""
    assert run(tmp_path, size=4) == (0, "")
    same_bits(tmp_path, alone)


@pytest.mark.long
def test_a_killed_process_costs_a_pass_and_changes_nothing(tmp_path, alone):
    code, said = run(tmp_path, fault="kill:1:5")
    assert code == 0
    assert "continuing from the checkpoint" in said
    same_bits(tmp_path, alone)


def went_on(folder, alone, *faults):
    """Run with faults, each of which must cost one start; return what was said."""
    code, said = run(folder, fault=",".join(faults), restarts=len(faults))
    assert code == 0, said
    assert suffered(folder) == sorted(fault.replace(":", "-") for fault in faults)
    assert said.count("restarts left") == len(faults), said
    same_bits(folder, alone)
    return said


@pytest.mark.slow
def test_a_lost_process_is_noticed_and_all_go_on(tmp_path, alone):
    went_on(tmp_path, alone, "kill:1:0", "kill:0:2", "stop:1:4", "stop:0:6")


@pytest.mark.slow
def test_a_stuck_process_is_noticed_and_all_go_on(tmp_path, alone):
    said = went_on(tmp_path, alone, "stuck:0:3", "stuck:1:6")
    assert said.count("no process came within") >= 2


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_of_one_process_ends_all_with_its_code(rank, tmp_path):
    code, said = run(tmp_path, fault=f"raise:{rank}:5", restarts=3)
    assert code == 1
    assert "as planned" in said
    assert "restarts left" not in said


@pytest.mark.slow
def test_processes_that_do_not_agree_end(tmp_path):
    code, said = run(tmp_path, fault="disagree:0:0", restarts=3)
    assert code == 1
    assert "must have the same parameters" in said


def resumed(folder, size, alone, n_passes):
    """Go on from some passes, which stay as they are, with a number of processes."""
    stands = sorted((folder / "ck").glob("pass_*.npz"))
    assert len(stands) == n_passes
    written = [path.stat().st_mtime_ns for path in stands]
    assert run(folder, size, words=["--resume"]) == (0, "")
    same_bits(folder, alone)
    assert [path.stat().st_mtime_ns for path in stands] == written


@pytest.mark.slow
def test_a_killed_run_goes_on_with_another_number_of_processes(tmp_path, alone):
    """With more; those below go on with fewer."""
    assert run(tmp_path, fault="kill:1:5", restarts=0)[0] == RESTART
    resumed(tmp_path, 3, alone, 5)


@pytest.mark.slow
def test_where_every_start_is_lost_the_run_gives_up(tmp_path):
    taken = socket.socket()
    with taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = run_on_port(tmp_path, taken.getsockname()[1], restarts=1)
    assert code == RESTART
    assert "did not meet" in said or "a process was lost" in said


def run_on_port(folder, port, restarts):
    """Run copies whose port is always the same one."""
    from tests.processes import several as helper

    before = helper.LAUNCH
    patch = f"import probmetric.cli.launch as l; l.free_port = lambda: {port}\n"
    helper.LAUNCH = patch + before
    try:
        return run(folder, restarts=restarts)
    finally:
        helper.LAUNCH = before


@pytest.mark.slow
def test_a_full_disk_at_a_checkpoint_is_said_and_loses_nothing(tmp_path, alone):
    code, said = run(tmp_path, fault="full:0:5", restarts=3)
    assert code == 2
    assert "could not write pass 5" in said
    assert "The 5 passes before are valid" in said
    assert len(list((tmp_path / "ck").iterdir())) == 5
    resumed(tmp_path, 1, alone, 5)


@pytest.mark.slow
def test_a_checkpoint_cut_short_is_one_clear_error(tmp_path, whole, alone):
    shutil.copytree(whole / "ck", tmp_path / "ck")
    last = tmp_path / "ck" / f"pass_{PASSES - 1:05d}.npz"
    last.write_bytes(last.read_bytes()[:-100])
    code, said = run(tmp_path, words=["--resume"])
    assert code == 2
    assert "must have a complete pass" in said
    last.unlink()
    resumed(tmp_path, 1, alone, PASSES - 1)


@pytest.mark.slow
def test_two_runs_in_one_folder_are_refused(tmp_path):
    with no_process_left(tmp_path):
        first = started(tmp_path, fault="held:1:5", restarts=0)
        while not suffered(tmp_path):
            assert first.poll() is None
            time.sleep(0.05)
        second = started(tmp_path, words=["--resume"])
        said = second.communicate(timeout=60)[1]
        assert second.returncode == 2
        assert "locked by another" in said
        first.terminate()
        first.communicate(timeout=60)
        assert first.returncode == 128 + signal.SIGTERM
        assert not survivors(tmp_path)


@pytest.mark.slow
def test_copies_end_with_their_launcher(tmp_path):
    with no_process_left(tmp_path):
        launcher = started(tmp_path, fault="stuck:1:5")
        while not suffered(tmp_path):
            assert launcher.poll() is None
            time.sleep(0.05)
        launcher.kill()
        launcher.communicate()
        deadline = time.monotonic() + 60
        while survivors(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not survivors(tmp_path)


def test_a_free_port_is_free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port()))


def launched(size, *words):
    """Run ``sums_worker`` in several processes."""
    code = LAUNCH.replace("resume=True", "resume=False")
    worker = str(Path(__file__).with_name("sums_worker.py"))
    command = [sys.executable, "-c", code, str(size), "0", worker, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * LIMIT)
    assert done.returncode == 0, done.stderr


def stored(path):
    """Return the arrays of a file that is closed again."""
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Return the results of one process."""
    path = tmp_path_factory.mktemp("one") / "one.npz"
    launched(1, "results", path)
    return stored(path)


@pytest.mark.long
@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.study)])
def test_sums_and_a_fit_of_a_source_have_the_bits_of_one_process(size, one, tmp_path):
    launched(size, "results", tmp_path / "several.npz", tmp_path / "ck")
    several = stored(tmp_path / "several.npz")
    assert several.keys() == one.keys()
    for name in one:
        if name in ("map", "error"):  # The solver rounds by its threads.
            np.testing.assert_allclose(several[name], one[name], rtol=1e-9)
        else:
            assert several[name].tobytes() == one[name].tobytes(), name
    # Their passes serve one process: this one, which has other threads.
    passes = sorted((tmp_path / "ck").rglob("*.npz"))
    written = [path.stat().st_mtime_ns for path in passes]
    resumed = results(tmp_path / "ck", resume=True)
    for name, value in resumed.items():  # Refits have no passes of their own.
        np.testing.assert_allclose(value, one[name], rtol=1e-9)
    assert passes
    assert [path.stat().st_mtime_ns for path in passes] == written


@pytest.mark.slow
def test_chains_of_several_processes_are_those_of_one(tmp_path):
    launched(2, "chains", tmp_path / "several.npz", tmp_path / "ck")
    found = stored(tmp_path / "several.npz")
    mean = found["mean"]
    assert mean.shape == (3, 20)
    assert mean.tobytes() == chains()["mean"].tobytes()
    assert len(np.unique(mean[:, -1])) == 3  # No chain is another's copy.
    assert found["resumed"].tobytes() == mean.tobytes()
    assert len([*(tmp_path / "ck").glob("process_[01]/block_00004.npz")]) == 2


@pytest.mark.long
def test_sums_over_bins_are_those_of_all_rows(one):
    X, _ = data()
    np.testing.assert_allclose(one["many_sum"], np.sin(X + 0.5).sum(0), rtol=1e-12)
    assert one["many_n"] == len(X)
