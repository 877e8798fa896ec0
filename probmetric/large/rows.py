"""Open data that commands read in chunks, and take a sample of the rows.

Globs, folders of Parquet files and ``.npy`` files are always read in chunks. A single
Parquet file is read in chunks if it has more than ``LARGE`` numbers. Smaller Parquet
files, text files and NPZ files are loaded.
"""

from typing import Any, NamedTuple

import numpy as np

from probmetric.data.unlabeled import refuse_unlabeled
from probmetric.datasets.loading import Dataset
from probmetric.datasets.tables import check_no_text, codes
from probmetric.large.choose import picked, sampled
from probmetric.large.files import open as open_files
from probmetric.large.source import (
    Block,
    Labels,
    Source,
    View,
    class_counts,
    n_rows,
)
from probmetric.names import AS_IS, Reading, ending, in_parts, path_of

LARGE = 1 << 24
"""Largest number of values of a Parquet file that is loaded (134 MB in float64)."""


def named(source: Source) -> View:
    """Convert labels to text, like the class names of loaded data."""
    return View(source, _named, source.name, weighted=source.weighted)


def _named(block: Block) -> Block:
    if block.labels is None:
        return block
    names = np.array([str(v) for v in block.labels.values.tolist()], str)
    return block._replace(labels=Labels(names, block.labels.codes))


class Stored(NamedTuple):
    """Metadata of a Parquet file: its columns, and its number of values."""

    columns: list[str]
    size: int


def stored(name: str) -> Stored | None:
    """Return the metadata of a Parquet file; None for other files."""
    path = path_of(name)
    if ending(path) != ".parquet" or not path.is_file():
        return None
    try:
        import pyarrow.parquet as pq

        about: Any = pq.read_metadata(path)
        columns = about.schema.to_arrow_schema().names
    except (ImportError, OSError, ValueError, RuntimeError):
        return None  # ``load`` raises the error.
    # A list column has more values than rows.
    groups = (about.row_group(g) for g in range(about.num_row_groups))
    size = sum(
        group.column(c).num_values for group in groups for c in range(group.num_columns)
    )
    return Stored(columns, size)


def is_large(name: str) -> bool:
    """Return whether a name is a Parquet file of more than ``LARGE`` numbers."""
    about = None if in_parts(name) else stored(name)
    return about is not None and about.size > LARGE


def last_column(name: str, how: Reading) -> str | None:
    """Return the default label column of a Parquet file."""
    about = stored(name)
    left = [] if about is None else [c for c in about.columns if c not in how.drop]
    return left[-1] if left else None


def open_rows(name: str, label: str | None = None, how: Reading = AS_IS) -> Source:
    """Open data on disk. The labels of ``.npy`` files are in a second ``.npy`` file.

    Raises
    ------
    ValueError
        If options of text files are set, and in the same cases as ``pm.open``.
    """
    check_no_text(how, name)
    refuse_unlabeled(how.unlabeled)
    return open_files(name, label=label, features=how.features, drop=how.drop)


def sample_of(source: Source, name: str, most: int, *, seed: int = 0) -> Dataset:
    """Sample at most ``most`` rows by a hash. Without labels there is one class."""
    sample = sampled(source, most, seed=seed)
    y, names = np.zeros(len(sample.X), np.int64), ("",)
    if sample.labels is not None:
        y, names = codes(sample.labels, source.name)
    return Dataset(sample.X, y, source.feature_names, names, name)


def counts(source: Source) -> dict[str, int]:
    """Return the number of rows of each class by name, or {} without labels."""
    if not source.labeled:
        return {}
    values, rows = class_counts(source)
    return dict(zip(map(str, values.tolist()), rows.tolist(), strict=True))


def all_rows(source: Source) -> np.ndarray:
    """Return all rows, such as queries, (n, d)."""
    return picked(source, np.arange(n_rows(source))).X
