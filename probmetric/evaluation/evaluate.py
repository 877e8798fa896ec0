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

averaged over the queries with R > 0; precision at 1 is the mean of r_1.

Pairs: area under the ROC curve of "same class" against minus the dissimilarity, over
all pairs, or over ``max_pairs`` drawn at random without replacement where there are
more (standard error at most .5 / √(sampled pairs of the rarer kind)).

Under a posterior, retrieval and pairs are those of ``mean_metric()``; probabilities
are averaged over draws by the classifier.

Memory in numbers of 8 bytes: beside the data, 512 · max R for retrieval (512 queries at
a time), 6 · max_pairs + 1024 d for pairs: never n².
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from probmetric.arguments import check_counts
from probmetric.data import inputs
from probmetric.evaluation.verification import verification
from probmetric.metric import Dissimilarity, PairSimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors.search import found_but_own
from probmetric.posterior.intervals import Interval, between_rows
from probmetric.posterior.stack import over_draws
from probmetric.typing import Array, ArrayLike

QUERY_TILE = 512
PAIR_TILE = 8192


def evaluate(
    X: ArrayLike,
    y: ArrayLike,
    *,
    classifier: Any = None,
    metric: Dissimilarity | MetricDraws | None = None,
    n_bins: int = 15,
    max_pairs: int = 200_000,
    seed: int = 0,
) -> dict[str, float]:
    """Evaluate a fitted classifier, a metric, or both on labelled points.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Points that neither was fitted to.
    y : array-like of shape (n,)
        Their classes.
    classifier : fitted classifier, optional
        With ``predict_proba`` and ``classes_``.
    metric : Metric or PosteriorMetric, optional
        Default: the classifier's ``metric_``, if it has one.
    n_bins : int, default 15
        Bins of the calibration error.
    max_pairs : int, default 200000
    seed : int, default 0
        Of the choice of pairs where there are more than ``max_pairs``.

    Returns
    -------
    dict of str to float
        ``accuracy, log_loss, brier, ece`` with a classifier; ``precision_at_1,
        r_precision, map_at_r, pair_roc_auc`` with a metric; ``cllr, cllr_min, eer,
        min_dcf`` of the same pairs with a ``PairSimilarity`` whose score is the log
        likelihood ratio (`verification`).

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
    given, X, y = X, inputs.points(X), np.asarray(y)
    if y.shape != (len(X),):
        raise ValueError(f"y: expected shape ({len(X)},) as X has rows, got {y.shape}")
    if metric is None:
        metric = getattr(classifier, "metric_", None)
    if classifier is None and metric is None:
        raise ValueError("classifier, metric: expected at least one, got neither")
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
        metric = metric.mean_metric() if isinstance(metric, MetricDraws) else metric
        codes = np.unique(y, return_inverse=True)[1]
        figures |= retrieval(metric, X, codes)
        same, D = scored_pairs(metric, X, codes, max_pairs=max_pairs, seed=seed)
        figures["pair_roc_auc"] = float(roc_auc_score(same, -D))
        if isinstance(metric, PairSimilarity) and metric.score == "log_ratio":
            figures |= verification(-D, same)._asdict()
    return figures


def brier_score(codes: Int[Array, "m"], P: Float[Array, "m c"]) -> float:
    """Return the mean squared distance of P from the truth, in [0, 2].

    Examples
    --------
    >>> brier_score(np.array([0, 1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    0.25
    """
    return float(np.mean(np.sum((P - np.eye(P.shape[1])[codes]) ** 2, 1)))


def calibration_error(
    codes: Int[Array, "m"], P: Float[Array, "m c"], *, n_bins: int = 15
) -> float:
    """Return the expected calibration error (1), in [0, 1].

    Examples
    --------
    Sure of .75 and right in three of four:

    >>> P = np.tile([0.75, 0.25], (4, 1))
    >>> calibration_error(np.array([0, 0, 0, 1]), P)
    0.0
    """
    check_counts(n_bins=n_bins)
    confidence, right = P.max(1), P.argmax(1) == codes
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gap = np.bincount(bins, right, n_bins) - np.bincount(bins, confidence, n_bins)
    return float(np.abs(gap).sum() / len(codes))


def retrieval(
    metric: Dissimilarity, X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]
) -> dict[str, float]:
    """Return precision at 1, R-precision and MAP@R (2) of points among each other."""
    R = np.bincount(codes)[codes] - 1
    queries = np.flatnonzero(R > 0)
    if len(queries) == 0:
        raise ValueError("y: expected a class with two points, got none")
    sums = np.zeros(3)
    # Queries of like R together: a tile searches no deeper than it must.
    queries = queries[np.argsort(R[queries], kind="stable")]
    for start in range(0, len(queries), QUERY_TILE):
        some = queries[start : start + QUERY_TILE]
        depth, own = int(R[some].max()), R[some]
        index = found_but_own(metric, X[some], X, depth, some)[1]
        hit = codes[index] == codes[some, None]
        place = np.arange(1, depth + 1)
        within = hit & (place <= own[:, None])
        precision = np.cumsum(hit, 1) / place
        sums += [
            hit[:, 0].sum(),
            (within.sum(1) / own).sum(),
            ((within * precision).sum(1) / own).sum(),
        ]
    names = "precision_at_1", "r_precision", "map_at_r"
    return dict(zip(names, (sums / len(queries)).tolist(), strict=True))


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
    check_counts(max_pairs=max_pairs)
    n = len(X)
    total = n * (n - 1) // 2
    if total <= max_pairs:
        flat = np.arange(total)
    else:
        rng = np.random.default_rng(seed)
        flat = np.unique(rng.integers(0, total, 2 * max_pairs))
        flat = rng.permutation(flat)[:max_pairs]
    j = ((1 + np.sqrt(1 + 8 * flat.astype(float))) / 2).astype(int)
    j -= j * (j - 1) // 2 > flat  # Rounding of the square root, either way.
    j += j * (j + 1) // 2 <= flat
    i = flat - j * (j - 1) // 2
    if not metric.symmetric:
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    same = codes[i] == codes[j]
    if same.all() or not same.any():
        raise ValueError("y: expected pairs of one class and of two, got only one kind")
    D = np.empty(len(i))
    for start in range(0, len(i), PAIR_TILE):
        # The last tile is filled up with pairs seen before: one shape for jit.
        rows = np.arange(start, start + min(PAIR_TILE, len(i))) % len(i)
        D[rows] = over_draws(between_rows, [metric], X[i[rows]], X[j[rows]])[0]
    return same, D


class Coverage(NamedTuple):
    """Share of intervals that hold the truth, and its binomial standard error.

    The standard error takes the intervals as independent. Those of one fit are not:
    give one share a fit to ``coverage`` and use their spread instead.
    """

    share: float
    standard_error: float
    n: int


def coverage(interval: Interval, truth: Float[Array, "..."]) -> Coverage:
    """Return how often lower ≤ truth ≤ upper; shapes as the interval's."""
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
