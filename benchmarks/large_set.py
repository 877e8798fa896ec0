"""The command line on rows in files, end to end: memory, and seconds of each command.

    python benchmarks/large_set.py [--rows 1000000] [--folder DIR] [--only WORDS ...]

Makes the rows (``tools/make_rows.py``: d = 16, 8 classes, seed 0; as .npy too), and of
the same source 500 queries and 20,000 rows held out. Then each command runs in a
process of its own, one BLAS thread, compiled programs thrown away: seconds of processor
(user and system) and of wall, and MB most resident, by ``wait4``.

Results are stored in ``results/large_set.csv``. Stored results are not measured again,
and a run that was stopped continues. ``--table`` only writes the table. The table has
the load of the machine. With a load above 2 on two cores, wall times are meaningless
and CPU times are too high. ``--only`` selects commands by the beginning of their names
("fit lca"). Files are kept in ``--folder``, if it is set.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from harness import RESULTS, markdown, resumed, write_page

ROOT = Path(__file__).absolute().parents[1]
PART, HELD, QUERIES, AFTER = 1_000_000, 20_000, 500, 100_000_000


def fit(learner, kind, *settings, label=True, drop=False):
    """Return the words of a fit to the rows of one kind of file."""
    words = ["fit", learner, "--data", "rows/*.parquet"]
    if label:
        words += ["--label", "kind"]
    elif drop:
        words += ["--drop", "kind"]
    if kind == "npy":
        words = ["fit", learner, "--data", "rows/x*.npy"]
        words += ["--label", "rows/y*.npy"] if label else []
    words += [word for setting in settings for word in ("--set", setting)]
    return [*words, "--out", f"out/{learner}", "--force"]


def commands():
    """Return the words of every command, by name and kind of file."""
    em = "n_components=8", "max_iter=20", "n_starts=1"
    metric = ["--metric", "out/lda/metric.npz"]
    rows = ["--data", "rows/*.parquet", "--label", "kind"]
    found = {}
    for kind in ("parquet", "npy"):
        points = fit("two_stage", kind, *em, label=False, drop=True)
        found["fit two_stage, points", kind] = points
        found["fit two_stage, groups", kind] = fit("two_stage", kind, *em)
        found["fit lda", kind] = fit("lda", kind, "prior_strength=64")
        found["fit glml", kind] = fit("glml", kind, "gamma=1")
    lca = fit("lca", "parquet", "n_anchors=20000")
    found["fit lca, 20,000 anchors", "parquet"] = lca
    near = ["neighbors", *metric, *rows, "--queries", "queries/*.parquet"]
    found["neighbors, 500 queries", "parquet"] = [*near, "--out", "near.csv", "--force"]
    judged = ["evaluate", *metric, *rows, "--test", "held/*.parquet"]
    found["evaluate, 20,000 held out", "parquet"] = judged
    return found


def make(folder, rows):
    """Write the rows, in both forms, the queries and the rows held out."""
    import pyarrow.parquet as pq

    maker = [sys.executable, str(ROOT / "tools" / "make_rows.py")]
    for name, n, first in (
        ("rows", rows, 0),
        ("held", HELD, AFTER),
        ("queries", QUERIES, AFTER + PART),
    ):
        if not (folder / name).exists():
            part = folder / f"{name}.part"  # What is stopped leaves no set of fewer.
            shutil.rmtree(part, ignore_errors=True)
            words = [part.name, "--rows", str(n), "--first", str(first)]
            subprocess.run([*maker, *words], check=True, cwd=folder)
            part.rename(folder / name)
    for path in sorted((folder / "rows").glob("*.parquet")):
        if (path.parent / f"y{path.stem}.npy").exists():
            continue
        table = pq.read_table(path)
        kind = table["kind"].combine_chunks().dictionary_encode()
        classes = np.array([int(c[1:]) for c in kind.dictionary.to_pylist()])
        X = np.empty((table.num_rows, table.num_columns - 1))
        for j in range(X.shape[1]):
            X[:, j] = table[f"x{j}"].to_numpy()
        np.save(path.parent / f"x{path.stem}.npy", X)
        np.save(path.parent / f"y{path.stem}.npy", classes[kind.indices.to_numpy()])


def measured(words, folder):
    """Run a command; return seconds of processor and wall, MB, and the load."""
    env = {k: v for k, v in os.environ.items() if "COMPILATION_CACHE" not in k}
    env |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, started = os.getloadavg()[0], time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "probmetric", *words],
        cwd=folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    # 1 is a fit whose own checks were not content: EM stopped at its twentieth step.
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)}: {process.returncode}\n{said}")
    return {
        "command": " ".join(words),
        "processor": used.ru_utime + used.ru_stime,
        "wall": wall,
        "megabytes": used.ru_maxrss / 1024,
        "load": max(before, os.getloadavg()[0]),
    }


def tables(table):
    """Return the table, and the commands in full."""
    body = [
        [f"{r.rows:,}", f"`{r.name}`", r.files, f"{r.processor:.1f}", f"{r.wall:.1f}"]
        + [f"{r.megabytes:.0f}", f"{r.load:.1f}"]
        for r in table.sort_values(["rows", "name", "files"]).itertuples(index=False)
    ]
    head = ["rows", "command", "files", "processor s", "wall s", "MB", "load"]
    commands = sorted(set(table["command"][table["files"] == "parquet"]))
    return [
        *markdown(body, head),
        "The commands in full (`.npy` files are named alike):",
        "",
        *(f"    probmetric {text}" for text in commands),
        "",
    ]


def main():
    """Measure what is not stored yet."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[PART])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--make", action="store_true")
    o = parser.parse_args()
    if o.make:
        make(Path.cwd(), *o.rows)
        return
    path = RESULTS / "large_set.csv"
    for rows in [] if o.table else o.rows:
        with tempfile.TemporaryDirectory() as temporary:
            folder = (o.folder or Path(temporary)).absolute() / str(rows)
            folder.mkdir(parents=True, exist_ok=True)
            # In a process of its own: a child's peak is no less than its parent's.
            script = str(Path(__file__).absolute())
            words = [sys.executable, script, "--make", "--rows", str(rows)]
            subprocess.run(words, check=True, cwd=folder)
            cases = (
                ((rows, name, kind), partial(measured, words, folder))
                for (name, kind), words in commands().items()
                if name.startswith(tuple(o.only))
            )
            resumed(path, ["rows", "name", "files"], cases)
    write_page("large_set", tables(pd.read_csv(path)), RESULTS)


if __name__ == "__main__":
    main()
