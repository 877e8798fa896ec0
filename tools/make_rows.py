"""Make a labeled set of Parquet files, larger than memory if asked, from a seed.

    python tools/make_rows.py FOLDER [--rows 10000000] [--features 16] [--classes 8]

Class c is normal about a centre of its own, with standard deviation 1 in each feature;
centres are normal, with standard deviation 1. Row i is a function of the seed and the
block of 100 000 rows that it lies in: the first rows of a larger set are those of a
smaller one, and ``--first`` goes on after the rows of another, for rows held out.
Files hold a million rows in row groups of one block: no more than a block is held.
Columns: x0, x1, …, and ``kind`` (text).
"""

import argparse
from pathlib import Path

import numpy as np

BLOCK, FILE = 100_000, 1_000_000


def block(number, d, classes, seed):
    """Return the rows of one block and their classes."""
    centres = np.random.default_rng([seed, 0]).normal(size=(classes, d))
    rng = np.random.default_rng([seed, 1, number])
    y = rng.integers(0, classes, BLOCK)
    return centres[y] + rng.normal(size=(BLOCK, d)), y


def write(folder, rows, *, d=16, classes=8, seed=0, first=0):
    """Write the files; return their paths."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if first % BLOCK:
        raise ValueError(f"first must be a multiple of {BLOCK}, got {first}")
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"x{j}" for j in range(d)]
    kinds = pa.array([f"k{c}" for c in range(classes)])
    fields = [(name, pa.float64()) for name in names]
    schema = pa.schema([*fields, ("kind", pa.string())])
    written = []
    for start in range(0, rows, FILE):
        path = folder / f"{(first + start) // BLOCK:06}.parquet"
        with pq.ParquetWriter(path, schema) as out:
            for at in range(start, min(start + FILE, rows), BLOCK):
                m = min(BLOCK, rows - at)
                X, y = block((first + at) // BLOCK, d, classes, seed)
                columns = [*X[:m].T.copy(), kinds.take(pa.array(y[:m]))]
                out.write_table(pa.table(dict(zip(schema.names, columns, strict=True))))
        written.append(path)
    return written


def main():
    """Read the words of the command line and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    o = parser.parse_args()
    more = dict(d=o.features, classes=o.classes, seed=o.seed, first=o.first)
    files = write(o.folder, o.rows, **more)
    print(f"{o.rows:,} rows in {len(files)} files of {o.folder}")


if __name__ == "__main__":
    main()
