"""Approximate neighbors under local metrics: rerank candidates of the base metric.

A local metric has a different matrix at every query, near its base metric FᵀF (F is the
matrix ``frame``). Scikit-learn finds the m nearest points under FᵀF for all queries.
The local metric then orders these candidates exactly, by differences. The result is
*not* exact: a point that is near under the query's matrix may be far under FᵀF.
``shortlist_recall`` measures the share of neighbors that are found.

Memory in numbers of 8 bytes for a shortlist of m and tiles of t: 2 m per query, 8 t²
for ``nearest_linear``, and 2 t m' d for t m' ≤ t² candidates reranked at a time.
"""

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_counts
from probmetric.data.inputs import real
from probmetric.metric import Dissimilarity, LocalMahalanobis, Mahalanobis
from probmetric.neighbors.linear import Nearest, nearest_linear
from probmetric.neighbors.scan import nearest_scanned, refuse_nan
from probmetric.typing import Array


def nearest_shortlisted(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    excluded: Int[np.ndarray, "m"] | None,
    tile: int,
    shortlist: int,
) -> Nearest:
    """Find k neighbors among the ``shortlist`` nearest points under the base metric."""
    if not isinstance(metric, LocalMahalanobis):
        raise ValueError(
            "shortlist must be None unless metric is a LocalMahalanobis, got "
            f"{shortlist} with {type(metric).__name__}. Omit it."
        )
    (shortlist,) = check_counts(shortlist=shortlist)
    limit = len(P) - (excluded is not None)
    if not k <= shortlist <= limit:
        raise ValueError(
            f"shortlist must be k = {k} to {limit} for {len(P)} points, got {shortlist}"
        )
    base = Mahalanobis(np.asarray(metric.frame, np.float64))
    candidates = nearest_linear(base, Q, P, shortlist, excluded, tile)[1]
    D, index = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, tile**2 // max(tile, shortlist))
    for start in range(0, len(Q), step):
        rows = slice(start, start + step)
        exact = np.asarray(metric.refine(Q[rows], P, candidates[rows]))
        refuse_nan(np.isnan(exact).any(), Q, P)
        order = np.lexsort((candidates[rows], exact))[:, :k]
        D[rows] = np.take_along_axis(exact, order, 1)
        index[rows] = np.take_along_axis(candidates[rows], order, 1)
    return D, index


def shortlist_recall(
    metric: LocalMahalanobis,
    queries: Float[Array, "m d"],
    points: Float[Array, "n d"],
    k: int,
    shortlist: int,
    *,
    n_queries: int = 200,
    seed: int = 0,
    tile: int = 1024,
) -> float:
    """Compute the share of the exact k nearest points that a shortlist finds.

    Parameters
    ----------
    metric, queries, points, k, shortlist, tile
        As in ``nearest``. The metric must be a ``LocalMahalanobis``.
    n_queries : int, default=200
        Number of queries to compare, drawn without replacement.
    seed : int, default=0
        Seed of the choice of queries.

    Returns
    -------
    float in [0, 1]
        Share of the exact neighbors that are in the result with a shortlist.

    Raises
    ------
    ValueError
        If ``nearest`` raises ValueError, or n_queries < 1.

    Examples
    --------
    Two classes are separated along the first feature. Between them, a step along the
    first feature is longer than under the base metric. A shortlist of two points misses
    one of the query's two neighbors.

    >>> import numpy as np
    >>> from probmetric.densities.classes import ClassDensities
    >>> from probmetric.metric.local import local_metric
    >>> from probmetric.neighbors import shortlist_recall
    >>> ones, centers = np.ones((2, 1)), np.array([[[-1.0, 0.0]], [[1.0, 0.0]]])
    >>> factors = np.broadcast_to(np.eye(2), (2, 1, 2, 2))
    >>> classes = ClassDensities(np.log([.5, .5]), 0 * ones, centers, factors, 0 * ones)
    >>> metric = local_metric(classes, rule="fisher", gamma=0.5)
    >>> query, points = np.zeros((1, 2)), np.array([[1.0, 0], [0, 1.1], [0, 1.2]])
    >>> [shortlist_recall(metric, query, points, 2, m) for m in (2, 3)]
    [0.5, 1.0]
    """
    n_queries, k, tile = check_counts(n_queries=n_queries, k=k, tile=tile)
    Q, P = real(queries, "queries"), real(points, "points")
    rows = np.random.default_rng(seed).permutation(len(Q))[:n_queries]
    short = nearest_shortlisted(metric, Q[rows], P, k, None, tile, shortlist)[1]
    exact = nearest_scanned(metric, Q[rows], P, k, None, tile)[1]
    hits = [np.isin(a, b).sum() for a, b in zip(exact, short, strict=True)]
    return float(np.sum(hits) / exact.size)
