"""A shortlist for local metrics: the m nearest under the base metric, reranked.

A local metric weighs directions of its frame differently at every query, near the base
metric FᵀF; scikit-learn finds the m nearest under FᵀF in one space for all queries, and
the local metric orders these exactly, by differences. The answer is *not* exact: a
point near under the query's matrix may be far under FᵀF. ``shortlist_recall`` says how
much is missed; the default of ``nearest`` is the exact search.

Memory in numbers of 8 bytes, for a shortlist of m and tiles of t: 2 m for each query,
``nearest_linear``'s 8 t², and 2 t m' d where t m' ≤ t² candidates are reranked at a
time.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_counts
from probmetric.data.inputs import real
from probmetric.metric import LocalMahalanobis, Mahalanobis
from probmetric.neighbors.linear import nearest_linear
from probmetric.neighbors.scan import nearest_scanned, refuse_nan
from probmetric.typing import Array

type Nearest = tuple[Float[np.ndarray, "m k"], Int[np.ndarray, "m k"]]


def nearest_shortlisted(
    metric: Any,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
    shortlist: int,
) -> Nearest:
    """Find k among the ``shortlist`` nearest under the base metric.

    Other arguments as `found_but_own`, checked there.

    Raises
    ------
    ValueError
        For another kind of metric, or fewer candidates than k or more than points.
    """
    if not isinstance(metric, LocalMahalanobis):
        raise ValueError(
            "shortlist: expected None or a LocalMahalanobis metric, whose base metric "
            f"gives the candidates, got {type(metric).__name__}"
        )
    (shortlist,) = check_counts(shortlist=shortlist)
    limit = len(P) - (own is not None)
    if not k <= shortlist <= limit:
        raise ValueError(
            f"shortlist: expected k = {k} to {limit} for {len(P)} points, got "
            f"{shortlist}"
        )
    base = Mahalanobis(np.asarray(metric.frame, np.float64))
    found = nearest_linear(base, Q, P, shortlist, own, tile)[1]
    D, step = np.empty((len(Q), k)), max(1, tile**2 // max(tile, shortlist))
    near = np.empty((len(Q), k), np.intp)
    for start in range(0, len(Q), step):
        rows = slice(start, start + step)
        exact = np.asarray(metric.refine(Q[rows], P, found[rows]))
        refuse_nan(np.isnan(exact).any(), Q, P)
        order = np.lexsort((found[rows], exact))[:, :k]
        D[rows] = np.take_along_axis(exact, order, 1)
        near[rows] = np.take_along_axis(found[rows], order, 1)
    return D, near


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
    """Return the share of the exact k nearest that a shortlist finds.

    Parameters
    ----------
    metric : LocalMahalanobis
    queries, points : arrays of shape (m, d), (n, d)
    k, shortlist : int
        As ``nearest``.
    n_queries : int, default 200
        Queries drawn, without replacement, for the comparison.
    seed : int, default 0
    tile : int, default 1024

    Returns
    -------
    float in [0, 1]
        1 where the shortlist missed nothing.

    Raises
    ------
    ValueError
        As ``nearest``, and for n_queries < 1.

    Examples
    --------
    Between two classes, side by side, steps along the first feature are longer than
    the base metric says: of the query's two neighbours a shortlist of two misses one.

    >>> import numpy as np
    >>> from probmetric.densities import ClassDensities
    >>> from probmetric.metric import local_metric
    >>> from probmetric.neighbors import shortlist_recall
    >>> one, centres = np.ones((2, 1)), np.array([[[-1.0, 0.0]], [[1.0, 0.0]]])
    >>> factors = np.broadcast_to(np.eye(2), (2, 1, 2, 2))
    >>> classes = ClassDensities(np.log([0.5, 0.5]), 0 * one, centres, factors, 0 * one)
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
