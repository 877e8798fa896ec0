"""Compute every kind of pass on 0 to 4 workers, and while faults are injected.

``python workers.py FOLDER NAME`` stores the results in FOLDER/NAME.npz, or prints the
error. NAME is a number of workers, or a fault:

    killed, terminated   a worker gets SIGKILL or SIGTERM, in each kind of pass
    stopped              a worker gets SIGSTOP, and stays stopped
    memory               the workers have too little memory
    scheduler            the scheduler is killed
    client, resumed      this process is killed during a checkpointed fit; the fit again
"""

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

import probmetric as pm
from probmetric.large import checkpointed
from tests.large.test_engine import fits, passes

SIGNALS = {"killed": signal.SIGKILL, "terminated": signal.SIGTERM}
SIGNALS["stopped"] = signal.SIGSTOP
PATIENCE = 600


def stored(folder):
    """Write rows to a file in parts, and open it."""
    import pandas as pd

    path = folder / "rows.parquet"
    if not path.exists():
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 20_000)
        X = rng.normal(size=(len(y), 3)) + 2 * y[:, None]
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=y)
        frame.to_parquet(path, row_group_size=300)
    return pm.open(path, label="kind")


@contextmanager
def signaled(number, pid, begun):
    """Send a signal to a process of a cluster while the block uses it."""

    def send():
        end = time.monotonic() + PATIENCE
        while not begun() and time.monotonic() < end:
            time.sleep(0.005)
        os.kill(pid, number)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


@contextmanager
def cluster(number, **options):
    """Start workers, and use them within the block."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, **options}
    with LocalCluster(n_workers=number, **options) as workers:
        with Client(workers) as client, pm.distributed(client):
            yield client


def with_a_lost_worker(source, number):
    """Compute each kind of pass while a worker gets a signal."""
    from dask import config

    results = {}
    with config.set({"distributed.scheduler.worker-ttl": "10s"}):
        for name, compute in passes(source).items():
            with cluster(2) as client:
                pid = next(iter(client.run(os.getpid).values()))
                with signaled(number, pid, lambda: any(client.processing().values())):
                    results[name] = compute()
    return results


def with_a_lost_scheduler(source):
    """Compute while the scheduler, another process, is killed."""
    import psutil
    from distributed import Client
    from distributed.deploy.subprocess import SubprocessCluster

    with SubprocessCluster(n_workers=1, dashboard_address=None) as workers:
        with Client(workers) as client, pm.distributed(client):
            children = psutil.Process().children()
            scheduler = next(
                p for p in children if "Scheduler" in " ".join(p.cmdline())
            )
            busy = lambda: any(client.processing().values())  # noqa: E731
            with signaled(signal.SIGKILL, scheduler.pid, busy):
                return fits(source)


def main(folder, name):
    source = stored(folder)
    if name in ("client", "resumed"):
        compute = passes(source)["points"]
        third = folder / "checkpoint" / "pass_00002.npz"
        kill = signaled(signal.SIGKILL, os.getpid(), third.exists)
        with kill if name == "client" else nullcontext(), cluster(2):
            with checkpointed(third.parent, resume=name == "resumed"):
                results = {"points": compute()}
    elif name in SIGNALS:
        results = with_a_lost_worker(source, SIGNALS[name])
    elif name == "scheduler":
        results = with_a_lost_scheduler(source)
    elif name == "0":
        results = fits(source)
    else:
        few = {"number": 2, "memory_limit": "150 MB"}
        with cluster(**few) if name == "memory" else cluster(int(name)):
            results = fits(source)
    np.savez(folder / f"{name}.npz", **results)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except RuntimeError as error:
        print(f"RuntimeError: {error}")
