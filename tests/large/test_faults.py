"""Faults of a cluster, a client or a disk: the same bits, or one clear error."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import probmetric as pm
from probmetric.cli.workers import LOOPBACK, SETTINGS
from probmetric.large import checkpointed, engine, passes
from tests.large.test_engine import fits, kinds

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dask")]

KINDS = "moments", "points", "groups", "anchors", "scan", "evaluate"
PASSES_BEFORE_DEATH = 3


@contextmanager
def connected(n_workers=2):
    """Start workers that are processes of one thread."""
    settings = {
        "distributed.scheduler.worker-ttl": "10s",
        "distributed.worker.preload": [__spec__.name],
    }
    with (
        dask.config.set(SETTINGS | settings),
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit="2GB",
            dashboard_address=f"{LOOPBACK}:0",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with connected() as client:
        yield client


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    import pandas as pd

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 2_000)
    X = rng.normal(size=(len(y), 3)) + 2 * y[:, None]
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(kind=y)
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    frame.to_parquet(path, row_group_size=100)
    return path


def source(path):
    return pm.open(path, label="kind")


def fits_here(path):
    """Fit in the process of a worker, which has one thread, without a cluster."""
    return fits(source(path))


@pytest.fixture(scope="module")
def reference(client, path):
    """Return the results of one process."""
    return client.submit(fits_here, path).result()


def arm(number):
    """Send a signal to this worker in its next task."""

    def task():
        os.kill(os.getpid(), number)

    engine._task = task


@pytest.mark.parametrize(
    ("number", "name"),
    [
        *[(signal.SIGKILL, name) for name in KINDS],
        (signal.SIGTERM, "groups"),
        (signal.SIGSTOP, "groups"),
        *[
            pytest.param(number, name, marks=pytest.mark.study)
            for number in (signal.SIGTERM, signal.SIGSTOP)
            for name in kinds(None)
        ],
    ],
)
def test_a_worker_that_is_lost_in_a_pass_changes_no_bit(
    client, path, reference, number, name
):
    client.wait_for_workers(2, timeout=90)
    processes = client.run(os.getpid)
    worker = min(processes, key=processes.get)  # Nannies watch it for some time.
    client.run(arm, number, workers=[worker])
    for _ in range(10):  # In a short pass the other worker may do all tasks.
        with pm.distributed(client):
            found = np.asarray(kinds(source(path))[name]())
        assert found.tobytes() == reference[name].tobytes()
        client.wait_for_workers(2, timeout=90)
        if processes[worker] not in client.run(os.getpid).values():
            break
    else:
        pytest.fail("The worker was not lost.")


@pytest.mark.study
@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_the_number_of_workers_changes_no_bit(path, reference, n_workers):
    with connected(n_workers) as client, pm.distributed(client):
        found = fits(source(path))
    for name, values in reference.items():
        assert found[name].tobytes() == values.tobytes(), name


def greedy(item):
    """Fill the memory of a worker."""
    held = []
    while True:
        held.append(np.ones(1 << 23))
        time.sleep(0.01)


def test_workers_without_enough_memory_are_one_error(client, path, monkeypatch):
    client.wait_for_workers(2, timeout=90)
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pm.distributed(client), pytest.raises(RuntimeError, match="out of memory"):
        list(engine.run(greedy, [0]))


def test_a_fit_whose_client_was_killed_resumes(client, path, reference):
    folder = path.parent / "killed"
    words = [sys.executable, "-m", __spec__.name, path, folder]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(list(folder.glob("pass_*"))) == PASSES_BEFORE_DEATH
    with pm.distributed(client), checkpointed(folder, resume=True):
        found = kinds(source(path))["points"]()
    assert len(list(folder.glob("pass_*"))) > PASSES_BEFORE_DEATH
    assert found.tobytes() == reference["points"].tobytes()


def main(path, folder):
    """Fit, and be killed when the next pass would be stored."""
    write = passes._write

    def written(folder, index, *given):
        if index == PASSES_BEFORE_DEATH:
            os.kill(os.getpid(), signal.SIGKILL)
        write(folder, index, *given)

    passes._write = written
    with connected() as client, pm.distributed(client), checkpointed(folder):
        kinds(source(path))["points"]()


def test_a_full_disk_is_one_error_and_the_fit_resumes(client, path, reference):
    folder, fit = path.parent / "full", kinds(source(path))["points"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pm.distributed(client):
        with checkpointed(folder):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1200, limits[1]))
            try:
                with pytest.raises(OSError, match=r"checkpoint: could not write pass"):
                    fit()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with checkpointed(folder, resume=True):
            assert fit().tobytes() == reference["points"].tobytes()


def test_a_scheduler_that_is_gone_is_one_error():
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    words += ["--host", LOOPBACK, "--port", "0", "--no-dashboard"]
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as scheduler,
    ):
        address = next(x for x in scheduler.stderr if "Scheduler at" in x).split()[-1]
        with distributed.Client(address) as client, pm.distributed(client):
            threading.Timer(0.5, scheduler.kill).start()
            for _ in range(3):  # In a pass, before a pass, and after Dask has given up.
                with pytest.raises(RuntimeError, match="connection to the scheduler"):
                    list(engine.run(abs, [0]))
                time.sleep(1)
            with pytest.raises(RuntimeError, match="connection to the scheduler"):
                engine.hold(abs, [0])
            with pytest.raises(RuntimeError, match="connection to the scheduler"):
                engine.split([0])


if __name__ == "__main__":
    main(*sys.argv[1:])
