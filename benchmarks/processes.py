"""One process on one core against several, each on one: `nearest` and LCA's anchors.

    python benchmarks/processes.py [PROCESSES] [ROWS]

Prints seconds of wall and of processor, by process, with the load of the machine: on
one that is not idle they say nothing.
"""

import os
import subprocess
import sys
import time

import numpy as np

D, QUERIES = 16, 500


def rows(n):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, n)
    return rng.normal(size=(n, D)) + y[:, None], y


def timed(name, work):
    start, cpu = time.perf_counter(), time.process_time()
    work()
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    rank = os.environ.get("PROBMETRIC_RANK", "0")
    print(f"{name}: process {rank}: {wall:.2f} s, processor {used:.2f} s", flush=True)


def copy(n):
    import probmetric as pm

    X, y = rows(n)
    with pm.distributed():
        source = pm.open(X, label=y)
        metric = pm.Mahalanobis(np.eye(D))
        pm.nearest(metric, X[:5], pm.open(X[:5000]), 5)  # Compiled, and connected.
        timed("nearest", lambda: pm.nearest(metric, X[:QUERIES], source, 5))
        timed("anchors", lambda: pm.LCA(n_anchors=2000).fit(source))


def measure(size, n):
    cores = sorted(os.sched_getaffinity(0))
    print(f"{size} process(es), {n} rows, load {os.getloadavg()[0]:.1f}", flush=True)
    port = 20_000 + os.getpid() % 20_000
    started = []
    for rank in range(size):
        alone = {
            "PROBMETRIC_COORDINATOR": f"127.0.0.1:{port}",
            "PROBMETRIC_PROCESSES": str(size),
            "PROBMETRIC_RANK": str(rank),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, __file__, "copy", str(n)]
        started.append(subprocess.Popen(command, env={**os.environ, **alone}))
        os.sched_setaffinity(started[-1].pid, {cores[rank % len(cores)]})
    for process in started:
        process.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["copy"]:
        copy(int(sys.argv[2]))
    else:
        most = int(sys.argv[1]) if len(sys.argv) > 1 else 2
        n = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
        for size in (1, most):
            measure(size, n)
