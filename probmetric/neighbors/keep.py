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

    Memory: an eighth of a number an entry, and 4 (k + c) a row where c entries of some
    row pass; at worst (every entry below all before it) 4 q (k + p).
    """
    k, p = kept[0].shape[1], D.shape[1]
    if p > 4 * k and np.isnan(kept[0][:, -1]).any():
        # Nothing to compare with yet: a quarter of the tile sets the mark for the rest.
        kept = keep_best(kept, D[:, : p // 4], first)
        return _compared(kept, D[:, p // 4 :], first + p // 4)
    return _compared(kept, D, first)


def _compared(kept: Kept, D: Float[np.ndarray, "q p"], first: int) -> Kept:
    """Sort what lies below the k-th best so far in among the kept."""
    near, index = kept
    (q, k), p = near.shape, D.shape[1]
    # An equal value of a higher column does not enter: strictly below the k-th.
    limit = np.nextafter(near[:, -1], -np.inf)
    limit[np.isnan(limit)] = np.inf
    row, column = np.divmod(np.flatnonzero(D <= limit[:, None]), p)
    if len(row) == 0:
        return kept
    passed = np.bincount(row, minlength=q)
    slot = k + np.arange(len(row)) - np.repeat(np.cumsum(passed) - passed, passed)
    values = np.full((q, k + passed.max()), np.nan)
    columns = np.full(values.shape, HIDDEN)
    values[:, :k], columns[:, :k] = near, index
    values[row, slot], columns[row, slot] = D[row, column], first + column
    order = np.argsort(values, 1, kind="stable")[:, :k]  # NaN comes last.
    return np.take_along_axis(values, order, 1), np.take_along_axis(columns, order, 1)
