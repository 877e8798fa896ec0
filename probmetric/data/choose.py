"""Some rows of a source: of given numbers, or a sample by the hash of the number.

Both hold what they return and a block, whatever the number of rows. Every process reads
for itself, and only parts that hold a row that is wanted (of a sample: all parts).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.source import (
    Block,
    Part,
    Source,
    ahead,
    checked,
    most_rows,
    n_features,
    n_rows,
    row_bits,
)


class Chosen(NamedTuple):
    """Rows X (m, d) float64, their labels or None, and their numbers, ascending."""

    X: Float[np.ndarray, "m d"]
    labels: np.ndarray | None
    rows: Int[np.ndarray, "m"]


def sampled(source: Source, most: int, *, seed: int = 0) -> Chosen:
    """Return the rows whose hash of (seed, number) is among the ``most`` smallest.

    All rows, where they are no more than ``most``. One pass over the rows chosen.
    """
    return picked(source, sampled_rows(n_rows(source), most, seed=seed))


def sampled_rows(n: int, most: int, *, seed: int = 0) -> Int[np.ndarray, "m"]:
    """Return the numbers, ascending, of the rows that ``sampled`` takes of n.

    Hashes are made a million at a time.
    """
    if n <= most:
        return np.arange(n)
    rows, bits = np.zeros(0, np.intp), np.zeros(0, np.uint64)
    for first in range(0, n, 1 << 20):
        more = np.arange(first, min(first + (1 << 20), n))
        rows = np.concatenate([rows, more])
        bits = np.concatenate([bits, row_bits(seed, more)])
        if len(rows) > most:
            kept = np.argpartition(bits, most - 1)[:most]
            rows, bits = rows[kept], bits[kept]
    return np.sort(rows)


def picked(
    source: Source, rows: Int[np.ndarray, "m"], *, features: bool = True
) -> Chosen:
    """Return the rows of given numbers, each once, in their order.

    Parameters
    ----------
    source : Source
    rows : array of shape (m,) of integers from 0 to n - 1
        In any order, and repeated or not.
    features : bool, default=True
        Otherwise X has no columns: labels alone are read.

    Raises
    ------
    ValueError
        As ``data.source.filled``.
    """
    rows = np.unique(rows).astype(np.intp)
    d = n_features(source) if features else 0
    X, labels, at = np.empty((len(rows), d)), list[np.ndarray](), 0
    for part, block in ahead(_with_rows(source, rows, features=features)):
        own = rows[(rows >= block.first) & (rows < block.first + len(block.X))]
        checked(block, part, None, source.feature_names)
        X[at : at + len(own)] = block.X[own - block.first]
        if block.labels is not None:
            values, codes = block.labels
            labels.append(values[codes[own - block.first]])
        at += len(own)
    found = None
    if source.labelled:
        found = np.concatenate(labels) if labels else np.zeros(0, int)
    return Chosen(X, found, rows)


def _with_rows(
    source: Source, rows: Int[np.ndarray, "m"], *, features: bool
) -> Iterator[tuple[Part, Block]]:
    """Yield the blocks that hold a row that is wanted."""
    for part in source.parts:
        first, end = np.searchsorted(rows, [part.first, part.first + part.rows])
        if first == end:
            continue
        for block in source.read(
            part, most_rows(n_features(source)), features=features
        ):
            first, end = np.searchsorted(
                rows, [block.first, block.first + len(block.X)]
            )
            if first < end:
                yield part, block


def labels_at(source: Source, rows: Int[np.ndarray, "*m"]) -> np.ndarray:
    """Return the labels of rows of given numbers, in their shape.

    Raises
    ------
    ValueError
        For rows without labels.
    """
    check_labels(source)
    found = picked(source, rows.ravel(), features=False)
    assert found.labels is not None
    return found.labels[np.searchsorted(found.rows, rows)]


def check_labels(source: Source) -> None:
    """Raise for rows without labels."""
    if not source.labelled:
        raise ValueError(
            f"label: expected labels of {source.name}, got none; open it with label="
        )
