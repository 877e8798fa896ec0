"""Exact nearest neighbours under any metric, in memory that does not grow with m · n.

Order is by (dissimilarity, index): of equally near points the lower index comes first,
also at the boundary between the k-th and the next. Scikit-learn promises neither, so
its searches only *shortlist* here; the figures that decide are recomputed.

Mahalanobis kinds go through scikit-learn's exact search (``neighbors.linear``), every
other kind through tiles of its own ``pairwise`` (``neighbors.scan``); both files state
their memory as a formula. Together they hold the data, (m + n) d numbers, and the
answer, 2 m k, and beside these nothing that grows with m or with m · n.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_counts
from probmetric.compilation import bound_programs
from probmetric.data import inputs
from probmetric.data.source import Source, is_source, n_features, n_rows
from probmetric.linalg_scaled import represented
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import check_columns
from probmetric.metric.mahalanobis import check_factor
from probmetric.metric.protocol import MetricDraws, check_features, check_metric
from probmetric.neighbors.linear import nearest_linear
from probmetric.neighbors.range import refuse_far, refuse_lost
from probmetric.neighbors.scan import Prepare, nearest_scanned, ready_alone
from probmetric.neighbors.shortlist import nearest_shortlisted
from probmetric.neighbors.stream import nearest_streamed
from probmetric.precision import in_native_order
from probmetric.typing import ArrayLike

TILE = 1024
"""Side of a tile: 3 · 1024² numbers are 25 MB, well inside a laptop's memory."""

type Nearest = tuple[Float[np.ndarray, "m k"], Int[np.ndarray, "m k"]]
type Found = tuple[
    Float[np.ndarray, "m k"], Int[np.ndarray, "m k"], Int[np.ndarray, "m k"]
]


def nearest(
    metric: Dissimilarity | Any,
    queries: ArrayLike,
    points: ArrayLike | Source,
    k: int,
    *,
    exclude_self: bool | ArrayLike = False,
    shortlist: int | None = None,
    tile: int = TILE,
) -> Nearest:
    """Find the k nearest points of each query; exactly, unless asked otherwise.

    Parameters
    ----------
    metric : Metric
        Any kind; it need be neither symmetric nor a distance. One of your own needs
        no more than a ``probmetric.metric.Dissimilarity``.
    queries, points : arrays of shape (m, d), (n, d)
        Finite numbers. Points may be a ``Source``: they are read once, in blocks, by
        all processes of ``distributed`` in shares; neighbours and dissimilarities are
        those of the same points in memory, bit for bit.
    k : int
        1 ≤ k ≤ n, or n - 1 with ``exclude_self``.
    exclude_self : bool or array of shape (m,) of integers, default False
        The queries *are* the points: row i must not find point i (a duplicate of it
        elsewhere counts as a neighbour). Of queries that are some of the points: which
        ones, by number.
    shortlist : int, optional
        For local Mahalanobis metrics: rerank only that many candidates, the nearest
        under the metric's base. Not exact: see ``neighbors.shortlist_recall``.
    tile : int, default 1024
        Queries and points taken at a time, t. Memory beside data and answer, in numbers
        of 8 bytes: max(8 t², k' (d + 3)) under Mahalanobis kinds, k' > k candidates of
        a query; 9 t² and what ``pairwise`` needs for t² pairs under others, or 9 k'
        where that is more.

    Returns
    -------
    dissimilarities : NumPy array of shape (m, k), float64
        Ascending. Squared distances for Mahalanobis kinds.
    indices : NumPy array of shape (m, k), intp
        Of equal dissimilarities the lowest index comes first.

    Raises
    ------
    ValueError
        For shapes that do not fit, numbers that are not finite, k out of range, or
        a metric that returns NaN; and for dissimilarities of neighbours beyond what
        float64 holds (squares of distances above 1e154, or below 1e-154 but not 0).

    Notes
    -----
    Under Mahalanobis kinds the scale of features and metric is free: neighbours are
    those of the same data at scale 1. Other kinds refuse squares that float64 does not
    hold, and points far from scale 1 that are all equally near; where float64 rounds
    the dissimilarities of some points to one number these are ties.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> metric = pm.Mahalanobis(np.diag([1.0, 3.0]))
    >>> _, index = nearest(metric, np.array([[0.0, 0.4]]), points, 2)
    >>> index.tolist()
    [[0, 1]]
    """
    check_columns(metric, queries=queries, points=points)
    Q = inputs.points(queries, "queries")
    if is_source(points):
        source: Any = points
        shape = n_rows(source), n_features(source)
        own = _own(exclude_self, Q.shape, shape)
        if shortlist is not None:
            raise ValueError(
                "shortlist: expected None with a source, whose points are read once, "
                f"got {shortlist}"
            )
        k, tile = _check(metric, Q, shape, k, own, tile)
        if not isinstance(metric, Mahalanobis):
            refuse_far(metric, Q, "queries")
        return nearest_streamed(metric, Q, source, k, own, tile)
    rows: Any = points
    P = inputs.points(rows, "points")
    own = _own(exclude_self, Q.shape, P.shape)
    D, index, e = found_but_own(metric, Q, P, k, own, shortlist=shortlist, tile=tile)
    return represented(D, e, "points", "dissimilarities"), index


def _own(
    given: bool | ArrayLike, queries: tuple[int, ...], points: tuple[int, ...]
) -> Int[np.ndarray, "m"] | None:
    """Return the point that each query is, or None."""
    if isinstance(given, bool | np.bool_):
        if not given:
            return None
        if queries != points:
            raise ValueError(
                "exclude_self: expected queries that are the points themselves, got "
                f"shapes {queries} and {points}"
            )
        return np.arange(queries[0])
    own = np.asarray(given)
    if (
        own.shape != queries[:1]
        or not np.issubdtype(own.dtype, np.integer)
        or not ((own >= 0) & (own < points[0])).all()
    ):
        raise ValueError(
            f"exclude_self: expected True, False or {queries[0]} row numbers below "
            f"{points[0]}, got {own.dtype} of shape {own.shape}"
        )
    return own.astype(np.intp)


def found_but_own(
    metric: Any,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    own: Int[np.ndarray, "m"] | None,
    *,
    shortlist: int | None = None,
    tile: int = TILE,
    prepare: Prepare = ready_alone,
) -> Found:
    """Find neighbours where query i must not find point ``own[i]``; see `nearest`.

    Dissimilarities are D · 2**exponents: orders and distances are right also where
    float64 does not hold the squares. ``prepare`` is asked for what a tile of queries
    shares, where points are scanned.
    """
    metric, Q, P = in_native_order((metric, Q, P))
    k, tile = _check(metric, Q, P.shape, k, own, tile)
    if isinstance(metric, Mahalanobis) and shortlist is None:
        return nearest_linear(metric, Q, P, k, own, tile)
    refuse_far(metric, Q, "queries")
    if shortlist is not None:
        D, index = nearest_shortlisted(metric, Q, P, k, own, tile, shortlist)
    else:
        D, index = nearest_scanned(metric, Q, P, k, own, tile, prepare)
    refuse_lost(metric, Q, P, D, index)
    return D, index, np.zeros(D.shape, int)


def _check(
    metric: Any,
    Q: Float[np.ndarray, "m d"],
    shape: tuple[int, ...],
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
) -> tuple[int, int]:
    """Return k and tile, or raise for a posterior, or features or k that do not fit."""
    if isinstance(metric, MetricDraws):
        raise ValueError(
            "metric: expected a single metric, got a posterior: use neighbor_table "
            "(probmetric.neighbors), which takes it, its neighbor_probability, or "
            "nearest under a draw or under mean_metric()"
        )
    check_metric(metric)
    bound_programs()
    n, d = shape
    limit = n - (own is not None)
    k, tile = check_counts(k=k, tile=tile)
    if k > limit:
        raise ValueError(f"k: expected 1 to {limit} for {n} points, got {k}")
    if Q.shape[1] != d:
        raise ValueError(
            f"queries: expected the points' {d} features, got {Q.shape[1]}"
        )
    check_dimension(metric, Q, "queries")
    return k, tile


def check_dimension(
    metric: Dissimilarity, X: Float[np.ndarray, "n d"], name: str
) -> None:
    """Raise for points that do not have the metric's features."""
    if isinstance(metric, Mahalanobis):
        factor = np.asarray(check_factor(metric.factor))
        if not np.isfinite(factor).all():
            raise ValueError("metric: expected a finite factor, got NaN or infinity")
    check_features(metric, **{name: X})
