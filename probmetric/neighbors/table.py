"""Neighbours as a data frame: one row for each query and neighbour."""

from typing import Any

import numpy as np
import pandas as pd

from probmetric.data import inputs
from probmetric.data.choose import picked
from probmetric.data.source import Source, is_source
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import MetricDraws, check_features, check_metric
from probmetric.neighbors.search import nearest


def neighbor_table(
    metric: Any,
    points: Any,
    k: int,
    *,
    queries: Any = None,
    labels: Any = None,
) -> pd.DataFrame:
    """Find the k nearest points of each query and return them as a table.

    Memory in numbers of 8 bytes, beside that of ``nearest``: m k² under a posterior.

    Parameters
    ----------
    metric : Metric or PosteriorMetric
    points : array of shape (n, d), or Source
        Rows of a source are read in parts, once a metric; those found once more.
    k : int
        1 ≤ k ≤ n, or n - 1 without ``queries``.
    queries : array of shape (m, d), optional
        Without them, the points, none its own neighbour. Needed with a source.
    labels : array of shape (n,), optional
        Of the points. Those of a source are its own.

    Returns
    -------
    DataFrame
        Columns ``query`` and ``neighbor`` (index labels of a DataFrame, otherwise rows
        counted from 0), ``rank`` from 1,
        ``dissimilarity``, and ``distance`` where the metric is one. Under a posterior
        the dissimilarity is the mean over draws (of E[M] for Mahalanobis kinds), there
        is no ``distance``, and ``probability`` is the share of draws in which the
        neighbour is among the k nearest. ``label`` of the neighbour, where labels are
        given.

    Raises
    ------
    ValueError
        As ``nearest``, and for labels of another shape.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.neighbors import neighbor_table
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> metric = pm.Mahalanobis(np.diag([1.0, 3.0]))
    >>> table = neighbor_table(metric, points, 1, labels=["a", "b", "c"])
    >>> print(table[["query", "neighbor", "distance", "label"]].to_string(index=False))
     query  neighbor  distance label
         0         1       1.0     b
         1         0       1.0     a
         2         0       3.0     a
    """
    check_metric(metric, "a metric or draws of one")
    check_columns(metric, points=points, queries=queries)
    if is_source(points):
        return _of_source(metric, points, k, queries, labels)
    P = inputs.points(points, "points")
    check_features(metric, points=P)
    if labels is not None and np.shape(labels) != P.shape[:1]:
        raise ValueError(
            f"labels: expected one a point, shape ({len(P)},), got {np.shape(labels)}"
        )
    Q = P if queries is None else inputs.points(queries, "queries")
    own = queries is None
    draws = isinstance(metric, MetricDraws)
    single = metric.mean_metric() if draws else metric
    D, index = nearest(single, Q, P, k, exclude_self=own)
    columns = _columns(D, index)
    if metric.is_distance and not draws:
        rows = Q[columns["query"]], P[columns["neighbor"]]
        columns["distance"] = np.asarray(metric.distance(*rows))
    if draws:
        columns["probability"] = _shares(metric, Q, P, index, own).ravel()
    if labels is not None:
        columns["label"] = np.asarray(labels)[index].ravel()
    columns["query"] = _index_labels(points if own else queries, columns["query"])
    columns["neighbor"] = _index_labels(points, columns["neighbor"])
    return pd.DataFrame(columns)


def _index_labels(X: Any, rows: np.ndarray) -> Any:
    """Return the index labels of a DataFrame's rows; of an array, their numbers."""
    return X.index.take(rows) if isinstance(X, pd.DataFrame) else rows


def _columns(D: np.ndarray, index: np.ndarray) -> dict[str, Any]:
    """Return the columns that every table has."""
    m, k = index.shape
    return {
        "query": np.repeat(np.arange(m), k),
        "rank": np.tile(np.arange(1, k + 1), m),
        "neighbor": index.ravel(),
        "dissimilarity": D.ravel(),
    }


def _of_source(
    metric: Any, source: Source, k: int, queries: Any, labels: Any
) -> pd.DataFrame:
    """Return the table of neighbours among rows that are read in parts."""
    if queries is None or labels is not None:
        raise ValueError(
            "queries, labels: expected queries with a source, and its own labels, got "
            + ("no queries" if queries is None else "labels")
        )
    Q = inputs.points(queries, "queries")
    draws = isinstance(metric, MetricDraws)
    single: Any = metric.mean_metric() if draws else metric
    D, index = nearest(single, Q, source, k)
    columns = _columns(D, index)
    wanted = metric.is_distance and not draws
    found = picked(source, index.ravel(), features=wanted)
    at = np.searchsorted(found.rows, index.ravel())
    if wanted:
        pairs = Q[columns["query"]], found.X[at]
        columns["distance"] = np.asarray(single.distance(*pairs))
    if draws:
        columns["probability"] = _shares(metric, Q, source, index, False).ravel()
    if found.labels is not None:
        columns["label"] = found.labels[at]
    columns["query"] = _index_labels(queries, columns["query"])
    return pd.DataFrame(columns)


def _shares(
    posterior: MetricDraws, Q: np.ndarray, P: Any, index: np.ndarray, own: bool
) -> np.ndarray:
    """Return the share of draws in which each found neighbour (m, k) is one."""
    found = np.zeros(index.shape)
    draws = posterior.metrics()
    for draw in draws:
        near = nearest(draw, Q, P, index.shape[1], exclude_self=own)[1]
        found += (index[:, :, None] == near[:, None, :]).any(-1)
    return found / len(draws)
