"""Scores of a metric, a classifier or an interval, with their definitions.

Classification scores compare probabilities P (m, c) with true labels. They are the
accuracy, the log loss -mean log P(true), the Brier score mean Σ_c (P_c - 1[c true])² in
[0, 2], and the expected calibration error over equal bins of the largest probability,

    ECE = Σ_b (m_b / m) |accuracy_b - mean confidence_b|.                          (1)

Retrieval scores use each labeled point as a query among the other points, as in
pytorch-metric-learning. Let R be the number of other points of the query's class. Let
r_i be 1 if the i-th nearest neighbor has the query's class, otherwise 0. Then

    R-precision = (1/R) Σ_{i≤R} r_i,
    MAP@R       = (1/R) Σ_{i≤R} r_i · (1/i) Σ_{j≤i} r_j,                           (2)

averaged over the queries with R > 0. Precision at 1 is the mean of r_1. R is at most
``max_depth``. If there are more than ``max_queries`` points, queries are sampled by a
hash of the row number.

The score of pairs is the area under the ROC curve for "same class", with minus the
dissimilarity as the score. It uses all pairs, or ``max_pairs`` sampled without
replacement (standard error at most 0.5 / √(sampled pairs of the rarer kind)). For a
posterior, retrieval and pairs use ``mean_metric()``. Scores on a dataset on disk
(``large.evaluate``) equal the scores on the same rows in memory.

Memory besides the data, in numbers of 8 bytes, is 512 · depth for retrieval (512
queries at a time) and 6 · max_pairs + 1024 d for pairs. No n × n matrix is formed.
"""

from typing import NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.metrics import roc_auc_score

from probmetric.arguments import check_counts
from probmetric.data import inputs
from probmetric.data.chunked import Chunked, chunked
from probmetric.evaluation.ranking import (
    chosen_pairs,
    class_figures,
    class_sums,
    query_rows,
    ranking_figures,
    ranking_sums,
    scored,
)
from probmetric.evaluation.verification import verification, warn_of_calibration
from probmetric.metric import Dissimilarity, PairSimilarity
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors.search import found_but_own
from probmetric.posterior.intervals import Interval
from probmetric.typing import Array, ArrayLike

QUERY_TILE = 512
ROUNDING = 1e-6
"""Tolerance for float32 probabilities outside [0, 1]."""


@runtime_checkable
class Classifier(Protocol):
    """The interface of a fitted classifier with class probabilities."""

    @property
    def classes_(self) -> ArrayLike: ...  # noqa: D102

    def predict_proba(self, X: ArrayLike, /) -> np.ndarray: ...  # noqa: D102


@runtime_checkable
class Typical(Protocol):
    """A classifier with p-values of "this point belongs to some training class"."""

    def typicality(self, X: ArrayLike, /) -> np.ndarray: ...  # noqa: D102


@chunked()
def evaluate(
    X: ArrayLike | Chunked,
    y: ArrayLike | None = None,
    *,
    classifier: Classifier | None = None,
    metric: Dissimilarity | MetricDraws | None = None,
    n_bins: int = 15,
    max_pairs: int = 200_000,
    max_queries: int | None = None,
    max_depth: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Compute scores of a fitted classifier, a metric, or both, on labeled points.

    Parameters
    ----------
    X : array-like of shape (n, d), or Source
        Held-out points, or a labeled dataset on disk (``pm.open``). A dataset is read
        in chunks.
    y : array-like of shape (n,)
        Class labels. Must be None for a dataset on disk.
    classifier : fitted classifier, optional
        Classifier with ``predict_proba`` and ``classes_``.
    metric : Metric or PosteriorMetric, optional
        Metric to evaluate. Default: ``classifier.metric_``, if it exists.
    n_bins : int, default=15
        Number of bins of the calibration error ``ece``.
    max_pairs : int, default=200000
        Maximum number of pairs for ``pair_roc_auc`` and for the scores of
        ``verification``.
    max_queries : int, optional
        Maximum number of points used as queries for retrieval scores. Default: 10,000,
        or 1000 for a dataset on disk. The standard error of a retrieval score is at
        most 0.5 / √max_queries.
    max_depth : int, default=1000
        Maximum number of neighbors of each query, for ``r_precision`` and ``map_at_r``.
    seed : int, default=0
        Seed for the samples of pairs and queries.

    Returns
    -------
    dict of str to float
        Scores by name. With a classifier:

        * ``accuracy``, ``log_loss``, ``brier`` (in [0, 2]) and ``ece``, the expected
          calibration error of the largest probability.
        * ``false_alarms``: fraction of points of training classes that are called
          novel, if ``novelty`` of the classifier is set. Only then may y contain other
          classes.
        * ``caught``: fraction of points of other classes that are called novel. Other
          scores of the classifier ignore points of other classes.

        With a metric:

        * ``precision_at_1``: fraction of points whose nearest neighbor has the same
          class.
        * ``r_precision``: mean fraction of the R nearest neighbors with the same class,
          where R is the number of other points of the class.
        * ``map_at_r``: mean average precision of the R nearest neighbors.
        * ``queries``, ``depth``: the numbers that were used, only if the limits
          ``max_queries`` and ``max_depth`` were reached.
        * ``pair_roc_auc``: area under the ROC curve of pairs for "same class".
        * ``cllr``, ``cllr_min``, ``eer`` and ``min_dcf``: costs of likelihood ratios
          (defined in ``verification``). Only for a ``PairSimilarity`` whose score is
          "log_ratio". Warns if ``cllr`` exceeds ``cllr_min`` by more than 0.05.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> model = pm.LDA().fit(X[::2], y[::2])
    >>> figures = evaluate(X[1::2], y[1::2], metric=model.get_metric())
    >>> bool(figures["precision_at_1"] > 0.9)
    True
    """
    metric = metric_of(classifier, metric)
    X = check_columns(metric, X=X)["X"]
    max_pairs, max_depth, n_bins, few = check_counts(
        max_pairs=max_pairs,
        max_depth=max_depth,
        n_bins=n_bins,
        max_queries=10_000 if max_queries is None else max_queries,
    )
    table = cast("ArrayLike", X)
    X, y = inputs.points(table), np.asarray(y)
    if y.shape != (len(X),):
        raise ValueError(
            f"y must have one label per row of X, shape ({len(X)},), got {y.shape}."
        )
    figures: dict[str, float] = {}
    if classifier is not None:
        classes = np.asarray(classifier.classes_)
        novelty = getattr(classifier, "novelty", None)
        unknown = sorted(set(y.tolist()) - set(classes.tolist()))
        known = np.isin(y, unknown, invert=True)
        if (unknown and novelty is None) or not known.any():
            raise ValueError(
                f"y must contain only classes of the classifier, got {unknown}. To "
                "evaluate points of other classes, set novelty of the classifier."
            )
        P = classifier.predict_proba(table)
        P = _probabilities(P, (len(X), len(classes)))[known]
        rows = np.searchsorted(classes, y[known]), P, np.ones(len(P))
        figures |= class_figures(class_sums([rows], n_bins))
        if isinstance(classifier, Typical) and novelty is not None:
            novel = classifier.typicality(table) <= novelty
            figures["false_alarms"] = float(novel[known].mean())
            if unknown:
                figures["caught"] = float(novel[~known].mean())
    if metric is not None:
        codes = np.unique(y, return_inverse=True)[1]
        figures |= retrieval(
            metric, X, codes, max_queries=few, max_depth=max_depth, seed=seed
        )
        same, D = scored_pairs(metric, X, codes, max_pairs=max_pairs, seed=seed)
        figures |= pair_figures(metric, same, D)
    return figures


def metric_of(
    classifier: Classifier | None, metric: Dissimilarity | MetricDraws | None
) -> Dissimilarity | None:
    """Return the metric to evaluate. Default: the metric of the classifier."""
    if metric is None:
        metric = getattr(classifier, "metric_", None)
    if classifier is None and metric is None:
        raise ValueError("classifier or metric is required, got neither.")
    return metric.mean_metric() if isinstance(metric, MetricDraws) else metric


def pair_figures(
    metric: Dissimilarity, same: Bool[np.ndarray, "N"], D: Float[np.ndarray, "N"]
) -> dict[str, float]:
    """Compute the ROC AUC of pairs, and the costs of log likelihood ratios."""
    figures = {"pair_roc_auc": float(roc_auc_score(same, -D))}
    if isinstance(metric, PairSimilarity) and metric.score == "log_ratio":
        costs = verification(metric.calibrated(-D), same)
        warn_of_calibration(costs)
        figures |= costs._asdict()
    return figures


def _probabilities(P: ArrayLike, shape: tuple[int, int]) -> Float[np.ndarray, "m c"]:
    P = inputs.real(P, "P").astype(float)
    if P.shape != shape:
        raise ValueError(f"predict_proba must return shape {shape}, got {P.shape}.")
    if not np.all((P >= -ROUNDING) & (P <= 1 + ROUNDING)):
        raise ValueError(
            f"predict_proba must return numbers in [0, 1], got {P.min():g} to "
            f"{P.max():g}."
        )
    return P


def retrieval(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    *,
    max_queries: int | None = None,
    max_depth: int | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Compute precision at 1, R-precision and MAP@R, Eq. (2), of labeled points.

    By default every point is a query among the other points, and the depth is R.
    ``queries`` and ``depth`` are returned only if the limits were reached.
    """
    R = np.bincount(codes)[codes] - 1
    queries = query_rows(R, max_queries, seed)
    depths = R[queries] if max_depth is None else np.minimum(R[queries], max_depth)
    sums = np.zeros(3)
    # Sort by depth: each tile is searched only as deep as it needs.
    order = np.argsort(depths, kind="stable")
    queries, depths = queries[order], depths[order]
    for start in range(0, len(queries), QUERY_TILE):
        tile = queries[start : start + QUERY_TILE]
        depth = depths[start : start + QUERY_TILE]
        index = found_but_own(metric, X[tile], X, int(depth.max()), tile)[1]
        sums += ranking_sums(codes[index] == codes[tile, None], depth)
    n_able = int(np.count_nonzero(R))
    return ranking_figures(sums, len(queries), n_able, int(R.max()), max_depth)


def scored_pairs(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    *,
    max_pairs: int,
    seed: int,
) -> tuple[Bool[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Return whether pairs i < j have the same class, and their dissimilarities."""
    i, j = chosen_pairs(len(X), max_pairs, seed, symmetric=metric.symmetric)
    return scored(metric, X, codes, i, j)


class Coverage(NamedTuple):
    """Share of intervals that contain the truth, and its binomial standard error."""

    share: float
    standard_error: float
    n: int


def coverage(interval: Interval, truth: Float[Array, "..."]) -> Coverage:
    """Compute the fraction of intervals that contain the true value.

    ``truth`` must have the shape of the limits. The standard error assumes independent
    intervals, but intervals of one fit are dependent. With several fits, compute one
    fraction for each fit, and use the standard deviation of these fractions.

    Examples
    --------
    >>> interval = Interval(np.zeros(4), np.array([1.0, 2.0, 3.0, 4.0]))
    >>> result = coverage(interval, np.full(4, 1.5))  # The first interval ends at 1.
    >>> result.share, round(result.standard_error, 3), result.n
    (0.75, 0.217, 4)
    """
    truth = np.asarray(truth)
    if truth.shape != np.shape(interval.lower):
        raise ValueError(
            f"truth must have shape {np.shape(interval.lower)}, as the limits of "
            f"interval, got {truth.shape}."
        )
    inside = np.asarray((interval.lower <= truth) & (truth <= interval.upper))
    share, n = float(inside.mean()), int(inside.size)
    return Coverage(share, float(np.sqrt(share * (1 - share) / n)), n)
