"""Fit, search and evaluate here, and on two workers of which one is killed."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

import probmetric as pm
from tests.large.test_engine import fits


def stored(folder):
    """Write rows to files in parts, and open them."""
    import pandas as pd

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 6_000)
    X = rng.normal(size=(len(y), 3)) + 2 * y[:, None]
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=y)
    frame.to_parquet(folder / "rows.parquet", row_group_size=300)
    return pm.open(folder / "rows.parquet", label="kind")


def killed(client):
    """Kill a worker once it runs tasks."""
    while not any(client.processing().values()):
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def main(folder):
    from distributed import Client, LocalCluster

    source = stored(folder)
    np.savez(folder / "0.npz", **fits(source))
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
        pm.distributed(client),
    ):
        thread = threading.Thread(target=killed, args=(client,))
        thread.start()
        np.savez(folder / "killed.npz", **fits(source))
        thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
