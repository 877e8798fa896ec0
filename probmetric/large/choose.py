"""Read some rows of data on disk: by row number, or a sample by hash.

The result and one block are in memory. Only parts with a chosen row are read.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.hash import sampled_rows
from probmetric.large.source import (
    Block,
    Part,
    Source,
    ahead,
    check_labels,
    checked,
    most_rows,
    n_features,
    n_rows,
)


class Chosen(NamedTuple):
    """Rows X (m, d) float64, their labels or None, and their sorted row numbers."""

    X: Float[np.ndarray, "m d"]
    labels: np.ndarray | None
    rows: Int[np.ndarray, "m"]


def sampled(source: Source, most: int, *, seed: int = 0) -> Chosen:
    """Sample the ``most`` rows with smallest hash of (seed, number), in one pass."""
    return picked(source, sampled_rows(n_rows(source), most, seed=seed))


def picked(
    source: Source, rows: Int[np.ndarray, "m"], *, features: bool = True
) -> Chosen:
    """Read rows by sorted, distinct numbers; without ``features`` read only labels."""
    rows = np.unique(rows).astype(np.intp)
    d = n_features(source) if features else 0
    X, labels, at = np.empty((len(rows), d)), list[np.ndarray](), 0
    for part, block in ahead(_with_rows(source, rows, features=features)):
        inside = (rows >= block.first) & (rows < block.first + len(block.X))
        places = rows[inside] - block.first
        checked(block, part, None, source.feature_names)
        X[at : at + len(places)] = block.X[places]
        if block.labels is not None:
            values, codes = block.labels
            labels.append(values[codes[places]])
        at += len(places)
    if not source.labeled:
        return Chosen(X, None, rows)
    return Chosen(X, np.concatenate(labels) if labels else np.zeros(0, int), rows)


def _with_rows(
    source: Source, rows: Int[np.ndarray, "m"], *, features: bool
) -> Iterator[tuple[Part, Block]]:
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
    """Return the labels of rows by row number, or raise if data have no labels."""
    check_labels(source)
    chosen = picked(source, rows.ravel(), features=False)
    assert chosen.labels is not None
    return chosen.labels[np.searchsorted(chosen.rows, rows)]
