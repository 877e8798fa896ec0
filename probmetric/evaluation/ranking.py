"""Scores of classification, retrieval and pairs, for ``evaluate`` and ``rows``."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Float, Int

from probmetric.arguments import check_counts
from probmetric.data.hash import sampled_rows
from probmetric.metric import Dissimilarity
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.stack import over_draws

PAIR_TILE = 8192

type Classified = tuple[
    Int[np.ndarray, "m"], Float[np.ndarray, "m c"], Float[np.ndarray, "m"]
]
"""True codes, class probabilities, and weights."""


def class_sums(batches: Iterable[Classified], n_bins: int) -> Float[np.ndarray, "_"]:
    """Sum weights, three scores, and two terms of each confidence bin over batches."""
    tiny = np.finfo(float).eps
    total, sums, bins = 0.0, np.zeros(3), np.zeros((2, n_bins))
    for codes, P, w in batches:
        truth, top = P[np.arange(len(P)), codes], P.max(1)
        right = P.argmax(1) == codes
        loss = -np.log(np.clip(truth, tiny, 1 - tiny)) if P.shape[1] > 1 else 0.0
        square = np.sum(P**2, 1) - 2 * truth + 1
        total += w.sum()
        sums += [(w * right).sum(), (w * loss).sum(), (w * square).sum()]
        where = np.minimum((top * n_bins).astype(int), n_bins - 1)
        bins += [np.bincount(where, w * a, n_bins) for a in (right, top)]
    return np.concatenate([[total], sums, bins.ravel()])


def class_figures(sums: Float[np.ndarray, "_"]) -> dict[str, float]:
    """Compute accuracy, log loss, Brier score and ECE from ``class_sums``."""
    total, bins = sums[0], sums[4:].reshape(2, -1)
    accuracy, log_loss, brier = (sums[1:4] / total).tolist()
    ece = float(np.abs(bins[0] - bins[1]).sum() / total)
    return {"accuracy": accuracy, "log_loss": log_loss, "brier": brier, "ece": ece}


def query_rows(
    R: Int[np.ndarray, "n"], max_queries: int | None, seed: int
) -> Int[np.ndarray, "m"]:
    """Choose at most ``max_queries`` points whose class has R > 0 other points."""
    queries = np.flatnonzero(R > 0)
    if len(queries) == 0:
        raise ValueError(
            "y must contain a class with at least two points, got none. Pass class "
            "labels, not identifiers."
        )
    if max_queries is None:
        return queries
    (max_queries,) = check_counts(max_queries=max_queries)
    return queries[sampled_rows(len(queries), max_queries, seed=seed)]


def ranking_sums(
    hit: Bool[np.ndarray, "m k"], depth: Int[np.ndarray, "m"]
) -> Float[np.ndarray, "3"]:
    """Sum precision at 1, R-precision and MAP@R (R is ``depth``) over queries."""
    place = np.arange(1, hit.shape[1] + 1)
    within = hit & (place <= depth[:, None])
    precision = np.cumsum(hit, 1) / place
    r_precision = within.sum(1) / depth
    average = (within * precision).sum(1) / depth
    return np.array([hit[:, 0].sum(), r_precision.sum(), average.sum()])


def ranking_figures(
    sums: Float[np.ndarray, "3"],
    n_queries: int,
    n_able: int,
    deepest: int,
    max_depth: int | None,
) -> dict[str, float]:
    """Compute mean scores, with ``queries`` and ``depth`` if limits were reached."""
    names = ["precision_at_1", "r_precision", "map_at_r"]
    figures = dict(zip(names, map(float, sums / n_queries), strict=True))
    if n_queries < n_able:
        figures["queries"] = float(n_queries)
    if max_depth is not None and deepest > max_depth:
        figures["depth"] = float(max_depth)
    return figures


def chosen_pairs(
    n: int, max_pairs: int, seed: int, *, symmetric: bool
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Choose at most ``max_pairs`` pairs i < j, or in both orders if not symmetric."""
    (max_pairs,) = check_counts(max_pairs=max_pairs)
    total = n * (n - 1) // 2
    if total <= max_pairs:
        flat = np.arange(total)
    else:
        rng = np.random.default_rng(seed)
        flat = np.unique(rng.integers(0, total, 2 * max_pairs))
        flat = rng.permutation(flat)[:max_pairs]
    i, j = triangle(flat)
    return (i, j) if symmetric else (np.append(i, j), np.append(j, i))


def triangle(
    flat: Int[np.ndarray, "N"],
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Convert flat numbers to pairs i < j: (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    j = ((1 + np.sqrt(1 + 8 * flat.astype(float))) / 2).astype(int)
    # The square root is rounded either way, by more than one for 10⁹ points.
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
    """Return whether pairs of rows have the same class, and their dissimilarities."""
    same = codes[i] == codes[j]
    if same.all() or not same.any():
        raise ValueError(
            "y must contain at least two classes, and a class with two points, got "
            "only pairs of one kind."
        )
    D = np.empty(len(i))
    for start in range(0, len(i), PAIR_TILE):
        # The last tile repeats earlier pairs, so that jit sees one shape.
        rows = np.arange(start, start + min(PAIR_TILE, len(i))) % len(i)
        D[rows] = over_draws(between_rows, [metric], X[i[rows]], X[j[rows]])[0]
    return same, D
