"""Scores of a metric, a classifier or an interval, with their definitions.

Classification, of probabilities P (m, c) of the true labels: accuracy; log loss
-mean log P(true); Brier score mean Σ_c (P_c - 1[c true])² in [0, 2]; expected
calibration error over equal bins of the largest probability,

    ECE = Σ_b (m_b / m) |accuracy_b - mean confidence_b|.                          (1)

Retrieval, of each labelled point among the others, as pytorch-metric-learning defines
it. With R the number of other points of the query's class and r_i = 1 if its i-th
nearest neighbour is one of them,

    R-precision = (1/R) Σ_{i≤R} r_i,
    MAP@R       = (1/R) Σ_{i≤R} r_i · (1/i) Σ_{j≤i} r_j,                           (2)

averaged over the queries with R > 0; precision at 1 is the mean of r_1. A ranking is
followed to a bounded depth: where R is more, both are taken at that depth, min(R,
depth) in place of R; and of many points some are asked, by a hash of their number. Both
are said among the figures, ``depth`` and ``queries``, where they bind.

Pairs: area under the ROC curve of "same class" against minus the dissimilarity, over
all pairs, or over ``max_pairs`` drawn at random without replacement where there are
more (standard error at most .5 / √(sampled pairs of the rarer kind)).

Under a posterior, retrieval and pairs are those of ``mean_metric()``; probabilities
are averaged over draws by the classifier.

Of a ``Source`` (``evaluation.rows``) rows are held no more than a block, the queries
and the pairs; the figures are those of the same rows in memory.

Memory in numbers of 8 bytes: beside the data, 512 · depth for retrieval (512 queries at
a time), 6 · max_pairs + 1024 d for pairs: never n².
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from probmetric.arguments import check_counts, check_number
from probmetric.data import inputs
from probmetric.data.source import Source, is_source
from probmetric.evaluation.ranking import (
    asked,
    chosen_pairs,
    ranking_figures,
    ranking_sums,
    scored,
)
from probmetric.evaluation.rows import Limits, compared, predicted, ranked
from probmetric.evaluation.verification import verification
from probmetric.metric import Dissimilarity, PairSimilarity
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors.search import found_but_own
from probmetric.posterior.intervals import Interval
from probmetric.typing import Array, ArrayLike

QUERY_TILE = 512
ROUNDING = 1e-6
"""Tolerance for probabilities that were computed in float32."""


def evaluate(
    X: ArrayLike | Source,
    y: ArrayLike | None = None,
    *,
    classifier: Any = None,
    metric: Dissimilarity | MetricDraws | None = None,
    n_bins: int = 15,
    max_pairs: int = 200_000,
    max_queries: int | None = None,
    max_depth: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Evaluate a fitted classifier, a metric, or both on labelled points.

    Parameters
    ----------
    X : array-like of shape (n, d), or Source
        Points that neither was fitted to. Rows of a source (``pm.open`` with labels)
        are read in parts: once for the classifier, a block at a time, once for
        retrieval, and where they are wanted for queries and pairs. Of several
        processes each does all of it, and searches in shares.
    y : array-like of shape (n,)
        Their classes; None with a source.
    classifier : fitted classifier, optional
        With ``predict_proba`` and ``classes_``.
    metric : Metric or PosteriorMetric, optional
        Default: the classifier's ``metric_``, if it has one.
    n_bins : int, default 15
        Bins of the calibration error.
    max_pairs : int, default 200000
    max_queries : int, optional
        Points that are looked up among the others, at most. Default: 10 000, and 1000
        of a source. The standard error of a figure is at most .5 / √max_queries.
    max_depth : int, default 1000
        Neighbours of a query that are ranked, at most: of points with more than so many
        of their class R-precision and MAP@R are taken at this depth.
    seed : int, default 0
        Of the choice of pairs and queries where there are more.

    Returns
    -------
    dict of str to float
        ``accuracy, log_loss, brier, ece`` with a classifier; ``precision_at_1,
        r_precision, map_at_r, pair_roc_auc`` with a metric; ``cllr, cllr_min, eer,
        min_dcf`` of the same pairs with a ``PairSimilarity`` whose score is the log
        likelihood ratio (`verification`). ``queries``, the number asked, where not all
        were, and ``depth`` where it was less than some R.

    Raises
    ------
    ValueError
        When there is neither; for labels that the classifier does not know; where no
        class has two points.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> learned = pm.LDA().fit(X[::2], y[::2])
    >>> found = evaluate(X[1::2], y[1::2], metric=learned.get_metric())
    >>> bool(found["precision_at_1"] > 0.9)
    True
    """
    if metric is None:
        metric = getattr(classifier, "metric_", None)
    if classifier is None and metric is None:
        raise ValueError("classifier, metric: expected at least one, got neither")
    check_columns(metric, X=X)
    if isinstance(metric, MetricDraws):
        metric = metric.mean_metric()
    max_pairs, max_depth, n_bins = check_counts(
        max_pairs=max_pairs, max_depth=max_depth, n_bins=n_bins
    )
    if is_source(X):
        source: Any = X
        (few,) = check_counts(max_queries=1000 if max_queries is None else max_queries)
        seed = check_number("seed", seed, 0, 2**32 - 1, whole=True)
        how = Limits(n_bins, max_pairs, few, max_depth, seed)
        return _evaluate_rows(source, y, classifier, metric, how)
    few = 10_000 if max_queries is None else max_queries
    given: Any = X
    X, y = inputs.points(given), np.asarray(y)
    if y.shape != (len(X),):
        raise ValueError(f"y: expected shape ({len(X)},) as X has rows, got {y.shape}")
    figures: dict[str, float] = {}
    if classifier is not None:
        classes, P = np.asarray(classifier.classes_), classifier.predict_proba(given)
        unknown = sorted(set(y.tolist()) - set(classes.tolist()))
        if unknown:
            raise ValueError(
                f"y: expected classes the classifier knows, got also {unknown}"
            )
        codes = np.searchsorted(classes, y)
        figures["accuracy"] = float(accuracy_score(codes, P.argmax(1)))
        # A single class is certain; scikit-learn has no loss for it.
        several = len(classes) > 1
        figures["log_loss"] = (
            float(log_loss(codes, P, labels=np.arange(len(classes))))
            if several
            else 0.0
        )
        figures["brier"] = brier_score(codes, P)
        figures["ece"] = calibration_error(codes, P, n_bins=n_bins)
    if metric is not None:
        codes = np.unique(y, return_inverse=True)[1]
        figures |= retrieval(
            metric, X, codes, max_queries=few, max_depth=max_depth, seed=seed
        )
        same, D = scored_pairs(metric, X, codes, max_pairs=max_pairs, seed=seed)
        figures |= pair_figures(metric, same, D)
    return figures


def _evaluate_rows(
    source: Source, y: object, classifier: Any, metric: Any, how: Limits
) -> dict[str, float]:
    """Evaluate on the rows of a source."""
    if y is not None:
        raise ValueError(
            "y: expected None beside a source, whose labels are given as "
            "pm.open(..., label=)"
        )
    figures: dict[str, float] = {}
    if classifier is not None:
        figures |= predicted(source, classifier, how)
    if metric is not None:
        if source.weighted:
            raise ValueError(
                "X: expected a source without weights, of which a metric is judged by "
                f"all rows, got {source.name} with weights; leave weight= out of "
                "pm.open, or judge a classifier alone"
            )
        figures |= ranked(source, metric, how)
        same, D = compared(source, metric, how)
        figures |= pair_figures(metric, same, D)
    return figures


def pair_figures(
    metric: Any, same: Bool[np.ndarray, "N"], D: Float[np.ndarray, "N"]
) -> dict[str, float]:
    """Return the figures of pairs, of one class or of two, and their dissimilarity."""
    figures = {"pair_roc_auc": float(roc_auc_score(same, -D))}
    if isinstance(metric, PairSimilarity) and metric.score == "log_ratio":
        figures |= verification(-D, same)._asdict()
    return figures


def brier_score(codes: ArrayLike, P: ArrayLike) -> float:
    """Return the mean squared distance of P from the truth, in [0, 2].

    Parameters
    ----------
    codes : int array of shape (m,)
        The true class of each point, 0 to c - 1: the columns of ``P``.
    P : array of shape (m, c)
        Probabilities of the classes.

    Raises
    ------
    ValueError
        For other codes, probabilities outside [0, 1], and shapes that do not match.

    Examples
    --------
    >>> brier_score(np.array([0, 1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    0.25
    """
    true, stated = _stated(codes, P)
    return float(np.mean(np.sum((stated - np.eye(stated.shape[1])[true]) ** 2, 1)))


def _stated(
    codes: ArrayLike, P: ArrayLike
) -> tuple[Int[np.ndarray, "m"], Float[np.ndarray, "m c"]]:
    """Return checked class codes and their stated probabilities."""
    stated, true = inputs.real(P, "P"), inputs.real(codes, "codes")
    if stated.ndim != 2 or 0 in stated.shape:
        raise ValueError(f"P must have shape (m, c) with m, c ≥ 1, got {stated.shape}.")
    if not np.all((stated >= -ROUNDING) & (stated <= 1 + ROUNDING)):
        raise ValueError(
            f"P must be probabilities in [0, 1], got {stated.min():g} to "
            f"{stated.max():g}."
        )
    m, c = stated.shape
    if true.shape != (m,):
        raise ValueError(
            f"codes must have shape ({m},) as P has rows, got {true.shape}."
        )
    wrong = true[~np.isin(true, np.arange(c))]
    if len(wrong):
        raise ValueError(
            f"codes must be columns of P (0 to {c - 1}), got {wrong[0]:g}. For labels "
            "use np.searchsorted(classes, labels)."
        )
    return true.astype(int), stated


def calibration_error(codes: ArrayLike, P: ArrayLike, *, n_bins: int = 15) -> float:
    """Return the expected calibration error (1), in [0, 1].

    Parameters
    ----------
    codes : int array of shape (m,)
        The true class of each point, 0 to c - 1: the columns of ``P``.
    P : array of shape (m, c)
        Probabilities of the classes, whose largest is the confidence.
    n_bins : int ≥ 1, default=15
        Bins of equal width over confidences. With few points a bin, chance alone
        makes an error: it falls as n_bins falls and m grows.

    Raises
    ------
    ValueError
        For a number of bins below 1, and as ``brier_score``.

    Examples
    --------
    Sure of .75 and right in three of four:

    >>> P = np.tile([0.75, 0.25], (4, 1))
    >>> calibration_error(np.array([0, 0, 0, 1]), P)
    0.0
    """
    (n_bins,) = check_counts(n_bins=n_bins)
    true, stated = _stated(codes, P)
    confidence, right = stated.max(1), stated.argmax(1) == true
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gap = np.bincount(bins, right, n_bins) - np.bincount(bins, confidence, n_bins)
    return float(np.abs(gap).sum() / len(true))


def _check_length(X: np.ndarray, codes: np.ndarray) -> None:
    if np.shape(codes) != (len(X),):
        raise ValueError(
            f"codes must have shape ({len(X)},) as X has rows, got {np.shape(codes)}."
        )


def retrieval(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    *,
    max_queries: int | None = None,
    max_depth: int | None = None,
    seed: int = 0,
) -> dict[str, float]:
    """Return precision at 1, R-precision and MAP@R (2) of points among each other.

    All points are asked, and R deep, unless told otherwise; ``queries`` and ``depth``
    say where that was so.

    Examples
    --------
    Points 0 and 1.9 of one class, 3 and 4 of another: all but 1.9, which is nearer to 3
    than to 0, have one of their own class for their nearest.

    >>> import numpy as np
    >>> from probmetric.evaluation import retrieval
    >>> from probmetric.metric import Mahalanobis
    >>> line, codes = np.array([[0.0], [1.9], [3.0], [4.0]]), np.array([0, 0, 1, 1])
    >>> retrieval(Mahalanobis(np.eye(1)), line, codes)["precision_at_1"]
    0.75
    """
    _check_length(X, codes)
    R = np.bincount(codes)[codes] - 1
    queries = asked(R, max_queries, seed)
    depths = R[queries] if max_depth is None else np.minimum(R[queries], max_depth)
    sums = np.zeros(3)
    # Queries of like R together: a tile searches no deeper than it must.
    order = np.argsort(depths, kind="stable")
    queries, depths = queries[order], depths[order]
    for start in range(0, len(queries), QUERY_TILE):
        some = queries[start : start + QUERY_TILE]
        own = depths[start : start + QUERY_TILE]
        index = found_but_own(metric, X[some], X, int(own.max()), some)[1]
        sums += ranking_sums(codes[index] == codes[some, None], own)
    able = int(np.count_nonzero(R))
    return ranking_figures(sums, len(queries), able, int(R.max()), max_depth)


def pair_roc_auc(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    *,
    max_pairs: int = 200_000,
    seed: int = 0,
) -> float:
    """Return the area under the ROC curve of "same class", over pairs i < j.

    Both orders of a pair are scored where the metric is not symmetric.

    Examples
    --------
    One pair of a class at distance 1, beside 1.5 and 2.5 of pairs of two: all are told
    apart. With the odd point between the two, both its pairs are nearer than theirs.

    >>> import numpy as np
    >>> from probmetric.evaluation import pair_roc_auc
    >>> from probmetric.metric import Mahalanobis
    >>> metric, codes = Mahalanobis(np.eye(1)), np.array([0, 0, 1])
    >>> pair_roc_auc(metric, np.array([[0.0], [1.0], [2.5]]), codes)
    1.0
    >>> pair_roc_auc(metric, np.array([[0.0], [1.0], [0.4]]), codes)
    0.0
    """
    same, D = scored_pairs(metric, X, codes, max_pairs=max_pairs, seed=seed)
    return float(roc_auc_score(same, -D))


def scored_pairs(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    *,
    max_pairs: int,
    seed: int,
) -> tuple[Bool[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Return of pairs i < j whether they are of one class, and their dissimilarity."""
    _check_length(X, codes)
    i, j = chosen_pairs(len(X), max_pairs, seed, symmetric=metric.symmetric)
    return scored(metric, X, codes, i, j)


class Coverage(NamedTuple):
    """Share of intervals that hold the truth, and its binomial standard error.

    The standard error takes the intervals as independent. Those of one fit are not:
    give one share a fit to ``coverage`` and use their spread instead.

    Examples
    --------
    Of 100 intervals of nominal 90 % 84 hold the truth: 1.6 standard errors too few.

    >>> import numpy as np
    >>> from probmetric.evaluation import coverage
    >>> from probmetric.posterior import Interval
    >>> found = coverage(Interval(np.zeros(100), np.ones(100)), np.arange(100) / 83)
    >>> found.share, round((found.share - 0.9) / found.standard_error, 2)
    (0.84, -1.64)
    """

    share: float
    standard_error: float
    n: int


def coverage(interval: Interval, truth: Float[Array, "..."]) -> Coverage:
    """Return how often lower ≤ truth ≤ upper; shapes as the interval's.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.evaluation import coverage
    >>> from probmetric.posterior import Interval
    >>> interval = Interval(np.zeros(4), np.array([1.0, 2.0, 3.0, 4.0]))
    >>> found = coverage(interval, np.full(4, 1.5))  # The first ends at 1.
    >>> found.share, round(found.standard_error, 3), found.n
    (0.75, 0.217, 4)
    """
    truth = np.asarray(truth)
    if truth.shape != np.shape(interval.lower):
        raise ValueError(
            f"truth: expected the interval's shape {np.shape(interval.lower)}, got "
            f"{truth.shape}"
        )
    inside: Bool[np.ndarray, "..."] = (interval.lower <= truth) & (
        truth <= interval.upper
    )
    share, n = float(inside.mean()), int(inside.size)
    return Coverage(share, float(np.sqrt(share * (1 - share) / n)), n)
