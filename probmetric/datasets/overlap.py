"""Rows that are judged and were also learned from: found by hashes of rows.

``fit`` and ``sample`` store a hash of each row that they learned from beside the metric
or the draws, of ``MOST`` rows at most. ``evaluate`` compares the rows that it judges.
Rows are compared by their features only: two objects may have the same ones.
"""

import numpy as np
from jaxtyping import Float

from probmetric.data.choose import picked, sampled_rows
from probmetric.data.hash import row_hashes
from probmetric.data.source import Source, n_features, n_rows

MOST = 100_000
"""Rows whose hashes are stored, at most."""

AT_ONCE = 1 << 21
"""Numbers that are read at a time from rows in parts."""

ROWS = "row_hashes"
"""Name of the hashes in the provenance of a metric, and of their group in draws."""


def hashes_of(rows: np.ndarray | Source) -> np.ndarray:
    """Hash rows that are learned from; sorted.

    Of more than ``MOST`` rows the smallest hashes are returned; of more rows in parts
    those of a sample of rows.
    """
    if isinstance(rows, np.ndarray):
        return np.unique(row_hashes(rows))[:MOST]
    numbers = sampled_rows(n_rows(rows), MOST)
    pieces = -(-len(numbers) * n_features(rows) // AT_ONCE)
    some = (picked(rows, part).X for part in np.array_split(numbers, pieces))
    return np.unique(np.concatenate([row_hashes(X) for X in some]))


def describe_overlap(
    judged: Float[np.ndarray, "n d"], learned: np.ndarray, what: str, todo: str
) -> list[str]:
    """Describe how many rows have a hash among those learned from; none: no note."""
    number = int(np.isin(row_hashes(judged), learned).sum())
    if not number:
        return []
    least = "at least " if len(learned) == MOST else ""
    return [f"{least}{number} of {len(judged)} {what} {todo}"]
