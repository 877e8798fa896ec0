"""Which points and pairs are asked, and the sums of what rankings and pairs give.

For points in memory (``evaluate``) and rows of a source (``rows``) alike.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from probmetric.arguments import check_counts
from probmetric.data.choose import sampled_rows
from probmetric.metric import Dissimilarity
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.stack import over_draws

PAIR_TILE = 8192


def asked(R: Int[np.ndarray, "n"], most: int | None, seed: int) -> Int[np.ndarray, "m"]:
    """Return the points that have others of their class, or ``most`` of them.

    Raises
    ------
    ValueError
        Where there is none.
    """
    queries = np.flatnonzero(R > 0)
    if len(queries) == 0:
        raise ValueError("y: expected a class with two points, got none")
    if most is None:
        return queries
    (most,) = check_counts(max_queries=most)
    return queries[sampled_rows(len(queries), most, seed=seed)]


def ranking_sums(
    hit: Bool[np.ndarray, "m k"], depth: Int[np.ndarray, "m"]
) -> Float[np.ndarray, "3"]:
    """Return sums over queries of precision at 1, R-precision, MAP@R.

    Parameters
    ----------
    hit : array of shape (m, k)
        Whether the i-th nearest is of the query's class.
    depth : array of shape (m,)
        R of the query, in 1..k.
    """
    place = np.arange(1, hit.shape[1] + 1)
    within = hit & (place <= depth[:, None])
    precision = np.cumsum(hit, 1) / place
    return np.array(
        [
            hit[:, 0].sum(),
            (within.sum(1) / depth).sum(),
            ((within * precision).sum(1) / depth).sum(),
        ]
    )


def ranking_figures(
    sums: Float[np.ndarray, "3"],
    n_queries: int,
    n_able: int,
    deepest: int,
    max_depth: int | None,
) -> dict[str, float]:
    """Return the figures, and what bound them: queries of those able, depth of R."""
    first, precision, average = (sums / n_queries).tolist()
    figures: dict[str, float] = {
        "precision_at_1": first,
        "r_precision": precision,
        "map_at_r": average,
    }
    if n_queries < n_able:
        figures["queries"] = float(n_queries)
    if max_depth is not None and deepest > max_depth:
        figures["depth"] = float(max_depth)
    return figures


def chosen_pairs(
    n: int, max_pairs: int, seed: int, *, symmetric: bool
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Return pairs i < j of n points, at most so many; both orders if not symmetric."""
    (max_pairs,) = check_counts(max_pairs=max_pairs)
    total = n * (n - 1) // 2
    if total <= max_pairs:
        flat = np.arange(total)
    else:
        rng = np.random.default_rng(seed)
        flat = np.unique(rng.integers(0, total, 2 * max_pairs))
        flat = rng.permutation(flat)[:max_pairs]
    i, j = triangle(flat)
    if not symmetric:
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    return i, j


def triangle(
    flat: Int[np.ndarray, "N"],
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Return the pairs i < j of given numbers: (0, 1), (0, 2), (1, 2), (0, 3), ...

    Examples
    --------
    >>> triangle(np.arange(4))
    (array([0, 0, 1, 0]), array([1, 2, 2, 3]))
    """
    j = ((1 + np.sqrt(1 + 8 * flat.astype(float))) / 2).astype(int)
    # Rounding of the square root, either way; of 10⁹ points by more than one.
    while (high := j * (j - 1) // 2 > flat).any():
        j -= high
    while (low := j * (j + 1) // 2 <= flat).any():
        j += low
    return flat - j * (j - 1) // 2, j


def scored(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    i: Int[np.ndarray, "N"],
    j: Int[np.ndarray, "N"],
) -> tuple[Bool[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Return of pairs of rows whether they are of one class, and their dissimilarity.

    Raises
    ------
    ValueError
        Where they are all of one kind.
    """
    same = codes[i] == codes[j]
    if same.all() or not same.any():
        raise ValueError("y: expected pairs of one class and of two, got only one kind")
    D = np.empty(len(i))
    for start in range(0, len(i), PAIR_TILE):
        # The last tile is filled up with pairs seen before: one shape for jit.
        rows = np.arange(start, start + min(PAIR_TILE, len(i))) % len(i)
        D[rows] = over_draws(between_rows, [metric], X[i[rows]], X[j[rows]])[0]
    return same, D
