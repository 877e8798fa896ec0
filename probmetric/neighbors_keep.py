"""The k best of each row, kept while tiles of columns go by (host, NumPy).

After some tiles few entries of the next one beat the k-th best so far (about k/s of
them after s tiles), so a tile costs one comparison for each entry and a sort of the few
that pass: ``jax.lax.top_k`` on a CPU in float64 sorts everything, at several times the
cost of the matrix product that made the tile.

Order is by (value, column). Tiles must come in ascending order of columns: what was
kept then has the lower columns, and stable sorts do the rest. NaN is "nothing here":
never kept, and the filling of rows that have seen fewer than k entries.
"""

import numpy as np
from jaxtyping import Float, Int

__all__ = ["HIDDEN", "empty", "keep_best"]

HIDDEN = np.iinfo(np.int32).max
"""The index that stands for "not a point": padding, or the query itself."""

type Kept = tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]


def empty(q: int, k: int) -> Kept:
    """Return what is kept before the first tile."""
    return np.full((q, k), np.nan), np.full((q, k), HIDDEN)


def keep_best(kept: Kept, D: Float[np.ndarray, "q p"], first: int) -> Kept:
    """Return the k best of what was kept and a tile whose first column is ``first``.

    Memory: p numbers a row where a row is not full yet, else about a byte an entry;
    and 6 for each entry that passes, at worst (all entries equal) 6 q p.
    """
    near, index = kept
    k = near.shape[1]
    # An equal value of a higher column does not enter: strictly below the k-th.
    limit = np.nextafter(near[:, -1], -np.inf)
    limit[np.isnan(limit)] = np.inf
    new = np.isnan(near[:, -1])
    if new.any() and D.shape[1] > k:
        # fmin: where fewer than k are visible the k-th is NaN, and all may enter.
        limit[new] = np.fmin(np.inf, np.partition(D[new], k - 1, 1)[:, k - 1])
    row, column = np.nonzero(D <= limit[:, None])
    touched = np.unique(row)
    if len(touched) == 0:
        return kept
    place = np.searchsorted(touched, row)
    group = np.concatenate([np.repeat(np.arange(len(touched)), k), place])
    values = np.concatenate([near[touched].ravel(), D[row, column]])
    columns = np.concatenate([index[touched].ravel(), first + column])
    order = np.lexsort((values, group))  # Stable, and NaN comes last.
    starts = np.arange(len(touched)) * k
    starts[1:] += np.cumsum(np.bincount(place))[:-1]
    best = order[starts[:, None] + np.arange(k)]
    near[touched], index[touched] = values[best], columns[best]
    return near, index
