"""Neighbors as a data frame: one row per query and neighbor."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from probmetric.data import inputs
from probmetric.data.chunked import Chunked, chunked
from probmetric.metric import Dissimilarity
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import (
    MetricDraws,
    Uncertain,
    check_features,
    check_metric,
)
from probmetric.neighbors.search import nearest
from probmetric.typing import ArrayLike, no_type_check


@no_type_check
@chunked("points")
def neighbor_table(
    metric: Dissimilarity | MetricDraws | Uncertain,
    points: ArrayLike | Chunked,
    k: int,
    *,
    queries: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> pd.DataFrame:
    """Find the k nearest points of each query and return them as a table.

    If there are s draws or refits, a table of r rows needs r k bytes and up to 8 r s
    bytes, besides the memory of ``nearest``.

    Parameters
    ----------
    metric : Metric, PosteriorMetric or IntervalMetric
        Metric, draws with ``purpose="intervals"``, or a metric with refits.
    points : array-like of shape (n, d), or dataset on disk
        Points to search. A dataset on disk is read once for each metric, and the rows
        of the neighbors are read once more.
    k : int
        Number of neighbors, 1 ≤ k ≤ n, or at most n - 1 without ``queries``.
    queries : array-like of shape (m, d), optional
        Queries. By default the points are used as queries, and no point is its own
        neighbor. Required for a dataset on disk.
    labels : array-like of shape (n,), optional
        Labels of the points. For a dataset on disk, pass the labels to ``pm.open``
        instead.

    Returns
    -------
    DataFrame
        One row per query and neighbor, with these columns:

        * ``query`` and ``neighbor``: index labels of a DataFrame, otherwise row numbers
          from 0.
        * ``rank``: rank of the neighbor, from 1.
        * ``dissimilarity``: dissimilarity of query and neighbor, such as the squared
          distance (see ``Metric``). For a PosteriorMetric, the mean over draws.
        * ``distance``: distance (not squared). Only if the metric is a distance, and
          not for a PosteriorMetric.
        * ``label``: label of the neighbor. Only if there are labels.
        * ``same_probability``: P(same class). Only with labels and a metric from
          ``probmetric fit --store-votes``. The labels must be classes of that fit.
        * ``lower`` and ``upper``: limits of a 90% interval for the distance. ``upper``
          is infinite if different rows have distance 0 in the fit or in a refit. Only
          for an IntervalMetric.
        * ``probability``: probability of being among the k nearest. Only for a
          PosteriorMetric or an IntervalMetric. A point that is not in the table can
          have a larger probability than a point in the table.

    Examples
    --------
    >>> import probmetric as pm
    >>> metric = pm.Mahalanobis(np.diag([1.0, 3.0]))
    >>> table = neighbor_table(metric, [[0, 0], [1, 0], [0, 1]], 1, labels=list("abc"))
    >>> table["label"].tolist(), table["distance"].tolist()
    (['b', 'a', 'a'], [1.0, 1.0, 3.0])
    """
    if not isinstance(metric, Uncertain):
        check_metric(metric, "a metric or draws of one")
    coded = check_columns(metric, points=points, queries=queries)
    points, queries = coded.values()
    P = inputs.points(cast("ArrayLike", points), "points")
    check_features(metric, points=P)
    if labels is not None and np.shape(labels) != P.shape[:1]:
        raise ValueError(f"labels must have shape ({len(P)},), got {np.shape(labels)}")
    y = None if labels is None else np.asarray(labels)

    def at(index: Int[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray | None]:
        return P[index], None if y is None else y[index]

    return table_of(metric, points, k, queries, at)


def table_of(
    metric: Any,
    points: Any,
    k: int,
    queries: Any,
    at: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]],
) -> pd.DataFrame:
    """Make the table of ``neighbor_table``. ``at`` maps numbers to rows and labels."""
    exclude = queries is None
    rows: Any = points if exclude else queries
    Q = inputs.points(rows, "queries")
    single: Any = metric
    draws = None
    if isinstance(metric, Uncertain):
        draws = metric.neighbor_draws("neighbor_table")
        single = metric.point_metric()
    D, index = nearest(single, Q, points, k, exclude_self=exclude)
    query, neighbor = np.repeat(np.arange(len(Q)), D.shape[1]), index.ravel()
    columns: dict[str, Any] = {
        "query": _index_labels(rows, query),
        "rank": np.tile(np.arange(1, D.shape[1] + 1), len(Q)),
        "neighbor": _index_labels(points, neighbor),
        "dissimilarity": D.ravel(),
    }
    X, labels = at(neighbor)
    if single.is_distance and not isinstance(metric, MetricDraws):
        columns["distance"] = np.asarray(single.distance(Q[query], X))
    if draws is not None and not isinstance(metric, MetricDraws):
        columns["lower"], columns["upper"] = cast(Any, metric).interval(Q[query], X)
    if draws is not None:
        columns["probability"] = _shares(draws, Q, points, index, exclude).ravel()
    if labels is not None:
        columns["label"] = labels
    if labels is not None and hasattr(single, "classifier"):
        P = single.same_probability(Q[query], X, labels=labels)
        columns["same_probability"] = P
    return pd.DataFrame(columns)


def _index_labels(X: object, rows: Int[np.ndarray, "n"]) -> pd.Index | np.ndarray:
    return X.index.take(rows) if isinstance(X, pd.DataFrame) else rows


def _shares(
    draws: Sequence[Dissimilarity],
    Q: Float[np.ndarray, "m d"],
    points: Any,
    index: Int[np.ndarray, "m k"],
    exclude_self: bool,
) -> Float[np.ndarray, "m k"]:
    counts = np.zeros(index.shape)
    for draw in draws:
        near = nearest(draw, Q, points, index.shape[1], exclude_self=exclude_self)[1]
        counts += (index[:, :, None] == near[:, None, :]).any(-1)
    return counts / len(draws)
