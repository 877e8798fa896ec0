"""One process on one core against several, each on one: passes, neighbours, anchors.

    python benchmarks/processes.py [--rows N] [--processes P] [--work ...] [--write]

Work: ``mixture``, 20 steps of EM (k = 8), a pass each: the difference of fits of 21
steps and of one, which have the same start; ``nearest``, 500 queries; ``anchors``, a
fit of LCA to 2000 anchors; ``fit``, start of the processes, imports and a two-stage fit
of 20 steps, to the end of the last process. The rows, d = 16, are one ``.npy`` file.
``mixture`` and ``nearest`` are timed after a first pass by every process, so that
imports and compiling are not counted; a first pass over few rows has no part for some
process, on which the imports would then fall.

For each configuration: seconds of wall, and of processor by process. Speed-up is wall
against one process on one core, and says something on an idle machine alone (the load
is printed); "by processor" is the same of the process that used most, which other work
on the machine disturbs less. The last configuration is one process with all cores.
Asked: at least 1.8 for ``mixture`` and ``nearest`` on two, 1.6 for ``fit``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

D, QUERIES, PASSES, K = 16, 500, 20, 8
WORK = ("mixture", "nearest", "anchors", "fit")


def write(folder, n):
    """Write rows and labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, n)
    X = rng.normal(size=(n, D))
    X += y[:, None]
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", y)


def mixture(source, steps=PASSES + 1):
    """Fit the mixture in so many steps of EM."""
    import probmetric as pm

    pm.TwoStageMixture(K, max_iter=steps, tol=1e-300, n_starts=1, random_state=0).fit(
        source
    )


def nearest(source):
    """Search for 500 queries."""
    import probmetric as pm

    queries = np.random.default_rng(2).normal(size=(QUERIES, D)) + 1
    pm.nearest(pm.Mahalanobis(np.eye(D)), queries, source, 5)


def anchors(source):
    """Fit LCA to 2000 anchors."""
    import probmetric as pm

    pm.LCA(n_anchors=2000).fit(source)


def seconds(work):
    """Return seconds of wall and of processor."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return np.array([time.perf_counter() - start, time.process_time() - cpu])


def copy(folder, name):
    """Be one of the processes; print who, and the seconds."""
    warnings.simplefilter("ignore")
    import probmetric as pm

    with pm.distributed() as together:
        source = pm.open(folder / "x.npy", label=folder / "y.npy")
        if name == "mixture":
            mixture(source, 1)
            once = seconds(lambda: mixture(source, 1))
            wall, used = seconds(lambda: mixture(source)) - once
        elif name == "nearest":
            nearest(source)
            wall, used = seconds(lambda: nearest(source))
        elif name == "anchors":
            wall, used = seconds(lambda: anchors(source))
        else:
            wall, _ = seconds(lambda: mixture(source, PASSES))
            used = time.process_time()
        print(json.dumps([together.rank, wall, used]), flush=True)


def measure(folder, name, size, cores):
    """Return wall seconds and seconds of processor by process."""
    port = 20_000 + os.getpid() % 20_000
    started, began = [], time.perf_counter()
    for rank in range(size):
        own = cores if size == 1 else [cores[rank % len(cores)]]
        alone = {
            "PROBMETRIC_COORDINATOR": f"127.0.0.1:{port}",
            "PROBMETRIC_PROCESSES": str(size),
            "PROBMETRIC_RANK": str(rank),
            "OMP_NUM_THREADS": str(len(own)),
        }
        command = [sys.executable, __file__, "--copy", name, "--folder", str(folder)]
        process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, own)), *command],
            env={**os.environ, **alone},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
    said = [process.communicate()[0] for process in started]
    ended = time.perf_counter() - began
    lines = [line for text in said for line in text.splitlines() if line[:1] == "["]
    found = sorted(json.loads(line) for line in lines if line[1:2].isdigit())
    if len(found) < size:
        raise SystemExit(f"{name}: a process ended without a figure")
    wall = ended if name == "fit" else max(wall for _, wall, _ in found)
    return wall, [used for *_, used in found]


def table(folder, names, n, size):
    """Measure all; return the lines of the table."""
    cores = sorted(os.sched_getaffinity(0))
    lines = [
        f"{n:,} rows, d = {D}; {len(cores)} cores. Seconds; load is that of the",
        "machine when a line was begun, 0 being idle.",
        "",
        "| work | processes | cores | load | wall | processor, by process | speed-up | "
        "by processor |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        first = None
        configurations = {1: cores[:1], size: cores[:size], 0: cores}
        for count, own in configurations.items():
            load = os.getloadavg()[0]
            wall, used = measure(folder, name, count or 1, own)
            first = first or (wall, max(used))
            speed = f"{first[0] / wall:.2f} | {first[1] / max(used):.2f}"
            if not count:
                speed = f"{first[0] / wall:.2f} | –"
            lines.append(
                f"| {name} | {count or 1} | {len(own)} | {load:.1f} | {wall:.2f} | "
                f"{', '.join(f'{s:.2f}' for s in used)} | {speed} |"
            )
            print(lines[-1], flush=True)
    return lines


def main():
    """Write rows, measure, keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", nargs="*", default=WORK, choices=WORK)
    parser.add_argument("--write", action="store_true", help="keep results/")
    parser.add_argument("--copy", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.copy:
        copy(options.folder, options.copy)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        write(Path(name), options.rows)
        lines = table(Path(name), options.work, options.rows, options.processes)
    if options.write:
        head = ["# One process against several", "", "`benchmarks/processes.py`.", ""]
        path = Path(__file__).parent / "results" / "processes.md"
        path.write_text("\n".join([*head, *lines, ""]))


if __name__ == "__main__":
    main()
