"""Peak memory and CPU of a two-stage fit from files, and of one pass of EM.

    python benchmarks/streaming.py [--rows 1000000 10000000] [--folder DIR] [--passes 9]

k = 8 components, d = 16 features, at most 10 steps of EM, each fit in a fresh process:
from arrays in memory, ``.npy`` files of a million rows, and Parquet files with row
groups of 100 000. Memory is the most resident (Linux's ``VmHWM``; ``ru_maxrss`` of a
child begins at its parent's peak, here that of writing files); CPU is that of ``fit``,
all threads. A fit to files passes over the rows once a step, and four times more: for
the columns, the sample of the start, the objective, the count.
Asked: memory of the two sizes within 10 % and at most 600 MB.

``--passes`` measures one pass instead: CPU nanoseconds a row, all threads, that a fit
of so many steps more takes more, a million rows; beside it ``em_step`` of the same
rows, standardised, called once a step: what a pass does but for reading. A fit to rows
in memory is less than that, as its loop is one program. Each kind runs in a process of
its own, three times in turn. Other work on the machine raises them, mostly alike:
quote ratios. With several cores threads that wait for one another use CPU too, by
chance: run it on one (``taskset -c 0``). Asked: .npy at most 1.15 times a step in
memory, Parquet 1.5.
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

KINDS = ("memory", "npy", "parquet")
PASSES = ("em_step", *KINDS, "npy in float32", "parquet in float32")
PART, D = 1_000_000, 16
RESULTS = Path(__file__).parent / "results"


def write(folder, rows, spread=2.0):
    """Write rows in files of a million, as .npy and as Parquet; return the folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centres = spread * rng.normal(size=(8, D))
    for k, first in enumerate(range(0, rows, PART)):
        n = min(PART, rows - first)
        X = centres[rng.integers(0, 8, n)] + rng.normal(size=(n, D))
        np.save(folder / f"{k:03}.npy", X)
        table = pa.table({f"x{j}": X[:, j] for j in range(D)})
        pq.write_table(table, folder / f"{k:03}.parquet", row_group_size=100_000)
    return folder


def fit(kind, folder, steps):
    """Fit in this process; print the most resident MB, and CPU seconds of the fit."""
    warnings.simplefilter("ignore")
    import probmetric as pm

    if kind == "memory":
        X = np.concatenate([np.load(f) for f in sorted(folder.glob("*.npy"))])
    else:
        X = pm.open(str(folder / f"*.{kind}"))
    model = pm.TwoStageMixture(8, max_iter=steps, n_starts=1, random_state=0)
    started = time.process_time()
    model.fit(X)
    used = time.process_time() - started
    status = Path("/proc/self/status").read_text()
    size = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(json.dumps([size, used, int(model.n_iter_)]))


def steps_alone(X, count):
    """Return the CPU nanoseconds a row of a step of EM, each a call of its own."""
    import jax

    from probmetric.inference import mixture

    with jax.enable_x64(True):
        data = mixture.mixture_data(jax.numpy.asarray((X - X.mean(0)) / X.std(0)))
        params = mixture.start_mixture(data.X[:50_000], data.w[:50_000], 8)
        best = np.inf
        for _ in range(2):
            params, _ = jax.block_until_ready(mixture.em_step(params, data))
            started = time.process_time()
            for _ in range(count):
                params, _ = jax.block_until_ready(mixture.em_step(params, data))
            best = min(best, time.process_time() - started)
    return 1e9 * best / count / len(X)


def passes(kind, folder, count):
    """Fit in this process; print the CPU nanoseconds a row of a step of EM."""
    warnings.simplefilter("ignore")
    import probmetric as pm

    files, *narrow = kind.split(" in ")
    arrays = sorted(folder.glob("*.npy"))
    if kind in ("memory", "em_step"):
        X = np.concatenate([np.load(f) for f in arrays])
        if kind == "em_step":
            print(json.dumps(steps_alone(X, count)))
            return
    else:
        dtype = narrow[0] if narrow else "float64"
        X = pm.open(str(folder / f"*.{files}"), dtype=dtype)
    rows = sum(len(np.load(f, mmap_mode="r")) for f in arrays)

    def spent(steps):
        how = {"max_iter": steps, "n_starts": 1, "random_state": 0, "tol": 1e-300}
        started = time.process_time()
        done = int(pm.TwoStageMixture(8, **how).fit(X).n_iter_)
        return np.array([time.process_time() - started, done])

    spent(1)  # Compiles.
    many, few = (
        min((spent(n) for _ in range(2)), key=lambda one: one[0])
        for n in (1 + count, 1)
    )
    seconds, steps = many - few
    print(json.dumps(1e9 * seconds / steps / rows))


def asked(kind, folder, steps, what="--one"):
    """Do it in a fresh process."""
    words = [__file__, what, kind, "--folder", str(folder), "--steps", str(steps)]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare(count, folder):
    """Measure a pass of every kind, in turn; write the table after each."""
    load, found = os.getloadavg()[0], {}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        rows = write(Path(name), PART, 0.5)  # Near ones: EM goes on.
        for kind in 3 * PASSES:
            ns = asked(kind, rows, count, "--one-pass")
            found.setdefault(kind, []).append(ns)
            print(kind, ns, flush=True)
            load = max(load, os.getloadavg()[0])
            table(found, count, load)


def table(found, count, load):
    """Write the nanoseconds of each kind so far."""
    lines = [
        "# One pass of EM over files",
        "",
        f"`benchmarks/streaming.py --passes {count}`: two-stage mixture, k = 8,",
        "d = 16, a million rows of float64; CPU nanoseconds a row, all threads:",
        "the least of all processes, and each. The load of the two cores",
        f"was up to {load:.0f}; above 2, other work raised them: quote ratios.",
        "",
        "| from | ns a row | of each process | times `em_step` | times memory |",
        "|---|---|---|---|---|",
    ]
    for kind, ns in found.items():
        row = [kind, f"{min(ns):.0f}", ", ".join(f"{one:.0f}" for one in ns)]
        for base in ("em_step", "memory"):
            of = found.get(base)
            row.append(f"{min(ns) / min(of):.2f}" if of else "")
        lines.append(f"| {' | '.join(row)} |")
    (RESULTS / "streaming_pass.md").write_text("\n".join([*lines, ""]))


def main():
    """Write files, measure, keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[PART, 10 * PART])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument("--passes", type=int)
    parser.add_argument("--one")
    parser.add_argument("--one-pass")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    if options.one:
        fit(options.one, options.folder, options.steps)
        return
    if options.one_pass:
        passes(options.one_pass, options.folder, options.steps)
        return
    if options.passes:
        compare(options.passes, options.folder)
        return
    lines = [
        "# Two-stage fits from files",
        "",
        "`benchmarks/streaming.py`: k = 8, d = 16; MB most resident of a fresh",
        "process, CPU seconds of the fit.",
        "",
        "| rows | from | MB | CPU s | steps of EM |",
        "|---|---|---|---|---|",
    ]
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            folder = write(Path(name), rows)
            for kind in options.kinds:
                size, used, steps = asked(kind, folder, options.steps)
                lines.append(
                    f"| {rows:,} | {kind} | {size:.0f} | {used:.1f} | {steps} |"
                )
                print(lines[-1], flush=True)
    (RESULTS / "streaming.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
