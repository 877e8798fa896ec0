"""Detect test rows that were also used for training, by hashes of rows.

``fit`` and ``sample`` store a hash of each training row, at most ``MOST``, with the
metric or the draws. ``evaluate`` compares its rows with these hashes. Only features are
compared, so different objects with the same features are also counted.
"""

import numpy as np
from jaxtyping import Float

from probmetric.data.hash import row_hashes
from probmetric.large.choose import picked, sampled_rows
from probmetric.large.source import Source, n_features, n_rows

MOST = 100_000
"""Largest number of stored hashes."""

AT_ONCE = 1 << 21
"""Numbers read at a time from data on disk."""

ROWS = "row_hashes"
"""Name of the stored hashes: a key in the provenance of a metric, a group in draws."""


def hashes_of(rows: np.ndarray | Source) -> np.ndarray:
    """Return sorted hashes of training rows: at most ``MOST``, a sample on disk."""
    if isinstance(rows, np.ndarray):
        return np.unique(row_hashes(rows))[:MOST]
    numbers = sampled_rows(n_rows(rows), MOST)
    pieces = -(-len(numbers) * n_features(rows) // AT_ONCE)
    some = (picked(rows, part).X for part in np.array_split(numbers, pieces))
    return np.unique(np.concatenate([row_hashes(X) for X in some]))


def describe_overlap(
    judged: Float[np.ndarray, "n d"], learned: np.ndarray, what: str, todo: str
) -> list[str]:
    """Describe how many rows have the hash of a training row, if any."""
    number = int(np.isin(row_hashes(judged), learned).sum())
    if not number:
        return []
    least = "at least " if len(learned) == MOST else ""
    return [f"{least}{number} of {len(judged)} {what} {todo}"]
