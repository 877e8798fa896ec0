"""Peak memory and CPU of a two-stage fit from files, at a million rows and ten.

    python benchmarks/streaming.py [--rows 1000000 10000000] [--folder DIR]

k = 8 components, d = 16 features, at most 10 steps of EM, each fit in a fresh process:
from arrays in memory, ``.npy`` files of a million rows, and Parquet files with row
groups of 100 000. Memory is the most resident (``ru_maxrss``); CPU is that of ``fit``,
all threads. A fit to files passes over the rows once a step, and four times more: for
the columns, the sample of the start, the objective, the count.
Asked: memory of the two sizes within 10 % and at most 600 MB.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

KINDS = ("memory", "npy", "parquet")
PART, D = 1_000_000, 16


def write(folder, rows):
    """Write rows in files of a million, as .npy and as Parquet; return the folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(8, D))
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
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([size, used, int(model.n_iter_)]))


def asked(kind, folder, steps):
    """Do it in a fresh process."""
    words = [__file__, "--one", kind, "--folder", str(folder), "--steps", str(steps)]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Write files, measure, keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[PART, 10 * PART])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument("--one")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    if options.one:
        fit(options.one, options.folder, options.steps)
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
    path = Path(__file__).parent / "results" / "streaming.md"
    path.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
