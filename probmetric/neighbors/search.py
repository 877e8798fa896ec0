"""Exact nearest neighbors under any metric, in memory that does not grow with m · n.

Neighbors are ordered by (dissimilarity, row number). Among equally near points, the
point with the lower row number comes first, also at rank k.

Mahalanobis metrics use scikit-learn's exact search (``neighbors.linear``). Other
metrics use tiles of ``pairwise`` (``neighbors.scan``). Both modules have formulas for
the working memory, which does not grow with m or m · n. The data, (m + n) d numbers,
and the result, 2 m k numbers, are not included.
"""

from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_counts
from probmetric.compilation import bound_programs
from probmetric.data import inputs
from probmetric.data.chunked import Chunked, chunked
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import check_columns
from probmetric.metric.mahalanobis import check_factor
from probmetric.metric.protocol import MetricDraws, check_features, check_metric
from probmetric.neighbors.linear import Nearest, nearest_linear
from probmetric.neighbors.range import check_found, check_queries, check_size
from probmetric.neighbors.scan import (
    Prepare,
    nearest_scanned,
    nearest_shortlisted,
    ready_alone,
)
from probmetric.precision import in_native_order
from probmetric.typing import ArrayLike

TILE = 1024
"""Side of a tile: 3 · 1024² numbers are 25 MB."""


@chunked("points")
def nearest(
    metric: Dissimilarity | Any,
    queries: ArrayLike,
    points: ArrayLike | Chunked,
    k: int,
    *,
    exclude_self: bool | ArrayLike = False,
    shortlist: int | None = None,
    tile: int = TILE,
) -> Nearest:
    """Find the k nearest points of each query. The search is exact by default.

    Points with equal dissimilarities (in float64) are ordered by row number.

    Parameters
    ----------
    metric : Metric
        Any metric. It may be asymmetric, or a similarity such as ``PairSimilarity``.
        Your own metric requires only the methods of
        ``probmetric.metric.Dissimilarity``.
    queries, points : array-like of shape (m, d), (n, d)
        Finite numbers. ``points`` may be a dataset on disk (``pm.open``), which is read
        once, in blocks. Within ``pm.distributed``, the workers of a cluster share the
        blocks. The results are bitwise equal to results in memory.
    k : int
        Number of neighbors, 1 ≤ k ≤ n, or at most n - 1 with ``exclude_self``.
    exclude_self : bool or array-like of int of shape (m,), default=False
        Use True if queries and points are the same array. Query i then does not return
        point i, but may return other points that are equal to it. With an array, query
        i does not return point ``exclude_self[i]``.
    shortlist : int, optional
        For a faster but approximate search under a ``LocalMahalanobis`` metric: number
        of candidates per query. Only the candidates are compared by the metric. They
        are the nearest points after the linear map ``metric.frame``. To measure the
        recall, compare some queries with an exact search. Default: exact search.
    tile : int, default=1024
        Number of queries, and of points, that are processed at a time. Use a smaller
        number to reduce memory (see Notes).

    Returns
    -------
    dissimilarities : ndarray of shape (m, k)
        Dissimilarities in ascending order (squared distances for Mahalanobis metrics).
    indices : ndarray of shape (m, k)
        Row numbers of the points.

    Raises
    ------
    ValueError
        If shapes do not match, or k is out of range.
        If an entry is not finite.
        If an entry is 1e150 or more, before or after the linear map of the metric.
        If neighbors under a linear map are closer than 1e-150, but not equal.
        If the metric returns NaN or infinity.

    Notes
    -----
    With ``tile`` = t, a Mahalanobis metric stores max(8 t², k' (d + 3)) float64 numbers
    besides data and result. Here k' is k + 1 to 2 k + 8, or more if many points are
    almost equally near. Other metrics store 9 max(t², k') numbers, and need
    the memory of ``pairwise`` for t² pairs.

    Examples
    --------
    >>> import probmetric as pm
    >>> metric = pm.Mahalanobis(np.diag([1.0, 3.0]))
    >>> nearest(metric, [[0.0, 0.4]], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 2)[1]
    array([[0, 1]])
    """
    check_single(metric)
    coded = check_columns(metric, queries=queries, points=points)
    queries, points = coded.values()
    Q, P = (
        inputs.points(cast("ArrayLike", rows), name)
        for name, rows in {"queries": queries, "points": points}.items()
    )
    excluded = excluded_rows(exclude_self, Q.shape, P.shape)
    return found_but_own(metric, Q, P, k, excluded, shortlist=shortlist, tile=tile)


def check_single(metric: object) -> None:
    """Raise ValueError unless ``metric`` is a single metric."""
    if isinstance(metric, MetricDraws):
        raise ValueError(
            "metric must be a single metric, got a posterior. Use "
            "probmetric.neighbors.neighbor_table or neighbor_probability, or pass "
            "mean_metric() or one draw to nearest."
        )
    check_metric(metric)


@chunked("points")
def rows_at(points: Any, index: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n d"]:
    """Return rows by their numbers."""
    return points[index]


def excluded_rows(
    exclude_self: bool | ArrayLike, queries: tuple[int, ...], points: tuple[int, ...]
) -> Int[np.ndarray, "m"] | None:
    """Convert ``exclude_self`` to one row number per query (None if False)."""
    if isinstance(exclude_self, bool | np.bool_):
        if not exclude_self:
            return None
        if queries != points:
            raise ValueError(
                "exclude_self must be False or row numbers if queries are not the "
                f"points, got True for shapes {queries} and {points}"
            )
        return np.arange(queries[0])
    rows = np.asarray(exclude_self)
    if (
        rows.shape != queries[:1]
        or not np.issubdtype(rows.dtype, np.integer)
        or not ((rows >= 0) & (rows < points[0])).all()
    ):
        raise ValueError(
            f"exclude_self must be True, False or an array of {queries[0]} row numbers "
            f"below {points[0]}, one for each query, got {rows.dtype} of shape "
            f"{rows.shape}"
        )
    return rows.astype(np.intp)


def found_but_own(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    excluded: Int[np.ndarray, "m"] | None,
    *,
    shortlist: int | None = None,
    tile: int = TILE,
    prepare: Prepare = ready_alone,
) -> Nearest:
    """Find neighbors as ``nearest``; query i does not return point ``excluded[i]``."""
    metric, Q, P = in_native_order((metric, Q, P))
    k, tile = check_search(metric, Q, P.shape, k, excluded, tile)
    check_queries(metric, Q, "queries")
    check_size(metric, P, "points")
    if shortlist is not None:
        D, index = nearest_shortlisted(metric, Q, P, k, excluded, tile, shortlist)
    elif isinstance(metric, Mahalanobis):
        D, index = nearest_linear(metric, Q, P, k, excluded, tile)
    else:
        D, index = nearest_scanned(metric, Q, P, k, excluded, tile, prepare)
    check_found(metric, Q, P, D, index)
    return D, index


def check_search(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    shape: tuple[int, ...],
    k: int,
    excluded: Int[np.ndarray, "m"] | None,
    tile: int,
) -> tuple[int, int]:
    """Check features, k and tile; return k and tile."""
    bound_programs()
    n, d = shape
    limit = n - (excluded is not None)
    k, tile = check_counts(k=k, tile=tile)
    if k > limit:
        raise ValueError(f"k must be 1 to {limit} for {n} points, got {k}")
    if Q.shape[1] != d:
        raise ValueError(
            f"queries must have the {d} features of the points, got {Q.shape[1]}"
        )
    check_dimension(metric, Q, "queries")
    return k, tile


def check_dimension(metric: object, X: Float[np.ndarray, "n d"], name: str) -> None:
    """Raise ValueError for points with another number of features than the metric."""
    if isinstance(metric, Mahalanobis):
        factor = np.asarray(check_factor(metric.factor))
        if not np.isfinite(factor).all():
            raise ValueError("metric.factor must be finite, got NaN or infinity")
    check_features(metric, **{name: X})
