"""Figures of one learned metric: the matrix, and the separation of classes."""

from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probmetric.data import inputs
from probmetric.data.factors import Factors, level_names, levels_in
from probmetric.metric import Mahalanobis
from probmetric.metric.feature_names import check_columns, names_of
from probmetric.plots.space import directions, embedding
from probmetric.plots.style import (
    BESIDE,
    COLORS,
    Panels,
    blank,
    feature_scale,
    heatmap,
    labeled,
    legend_columns,
    linear_metric,
    matrix_side,
    metric_of,
    named_features,
    readable,
    styled,
)
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.stack import over_draws
from probmetric.typing import ArrayLike, Names

MOST_PAIRS = 20_000
MOST_DIRECTIONS = 20
MOST_FEATURES = 40


@styled
def matrix(
    learned: object,
    X: ArrayLike,
    *,
    feature_names: Names | None = None,
    axes: Panels | None = None,
) -> Figure:
    """Draw the matrix of a metric, and the contribution of each direction.

    The squared distance of two points with difference δ is δᵀMδ. The upper panel shows
    M for features with standard deviation 1 in X. The lower panel shows the fraction
    that each direction contributes to the mean squared distance between two random
    points. Directions are the principal components of the transformed points. At most
    20 are shown.

    Parameters
    ----------
    learned : estimator or Mahalanobis
    X : array of shape (n, d)
    feature_names : sequence of d str, optional
        Default: column names of X, or feature names of the fit.
    axes : sequence of 2 Axes, optional

    Examples
    --------
    The second feature has half the standard deviation of the first. The metric
    multiplies differences in the second feature by 3:

    >>> import probmetric as pm
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> figure = pm.plots.matrix(pm.Mahalanobis(np.diag([1.0, 3.0])), X)
    >>> [round(float(bar.get_width()), 3) for bar in figure.axes[1].patches]
    [0.692, 0.308]
    """
    metric = linear_metric(learned)
    X = check_columns(metric, X=X)["X"]
    names = named_features(feature_names, X, metric)
    M, points = np.asarray(metric.matrix, float), inputs.points(X, "X")
    _, share = directions(np.asarray(metric.transform(points)))
    shown, scale = share[:MOST_DIRECTIONS], points.std(0)
    side, bars = matrix_side(len(M)), 0.18 * len(shown) + 0.9
    size, ratios = (side + BESIDE, side + BESIDE - 0.7 + bars), [side + 1.6, bars]
    figure, (first, second) = blank(2, size=size, down=True, ratios=ratios, axes=axes)
    title = "The metric's matrix,\nper sd of each feature"
    heatmap(first, M * np.outer(scale, scale), names, title, width=False)
    rows = np.arange(len(shown)) + 1
    second.barh(rows, shown, color=COLORS[0])
    second.invert_yaxis()
    second.set_yticks(rows)
    second.set(ylabel="direction")
    second.set_xlabel("share of the mean squared\ndistance between two points")
    cut = f"\n({len(shown)} of {len(share)} directions shown)"
    second.set_title("How many directions matter" + cut * (len(shown) < len(share)))
    return figure


@styled
def importance(
    learned: object,
    X: ArrayLike | None = None,
    *,
    prob: float = 0.9,
    ax: Axes | None = None,
) -> Figure:
    """Draw a forest plot of the features, by their contribution to the distance.

    The value of a feature is the distance between two points that differ by one
    standard deviation in this feature only. Correlated features can replace each other,
    so their values should be read together. At most 40 features are shown.

    A text or categorical column has one value, √(m/2). Here m is the mean squared
    distance of two points that differ only in this column, with values from two random
    rows. For a numeric column, √(m/2) is the distance of one standard deviation.
    Intervals of text columns are wider than necessary, because they combine the
    intervals of all pairs of values.

    Parameters
    ----------
    learned : estimator, Mahalanobis, IntervalMetric or PosteriorMetric
        Learner or metric with one matrix M. Intervals are drawn as lines for an
        ``IntervalMetric``, and for a ``PosteriorMetric`` with purpose "intervals".
    X : array of shape (n, d), optional
        Points used to compute standard deviations. Default: the standard deviations of
        the fit if the learner standardizes, otherwise 1 (one unit of the feature).
    prob : float, default=0.9
        Nominal coverage of the intervals.

    Examples
    --------
    >>> import probmetric as pm
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> figure = pm.plots.importance(pm.Mahalanobis(np.diag([1.0, 3.0])), X)
    >>> figure.axes[0].lines[0].get_xdata().round(3).tolist()
    [2.121, 1.414]
    """
    several = getattr(learned, "draws", None)
    metric = linear_metric(learned if several is None else several[0])
    d, known = metric.n_features, learned if names_of(learned) else metric
    factors = getattr(learned, "factors_", {})
    sd, unit = feature_scale(learned, d)
    shares = getattr(learned, "mean_", np.zeros(d))
    if X is not None:
        factors = levels_in(names_of(known) or (), X)
        coded = check_columns(known, X=X)
        rows, unit = inputs.points(coded["X"], "X"), "per sd of each feature"
        sd, shares = rows.std(0), rows.mean(0)
        X = coded["X"]
    names = named_features(None, np.empty((0, d)) if X is None else X, known)
    names, owner, first, second, weight = _steps(sd, shares, names, factors)
    metrics = [metric] if several is None else several

    def total(distance: np.ndarray) -> np.ndarray:
        return np.sqrt(np.bincount(owner, weight * distance**2))

    value, ends = over_draws(between_rows, metrics, first, second).mean(0), None
    if getattr(learned, "purpose", None) == "intervals":
        uncertain: Any = learned
        value = uncertain.distance(first, second)
        ends = [total(end) for end in uncertain.interval(first, second, prob=prob)]
    value, d = total(value), len(names)
    order = np.argsort(-value, kind="stable")[:MOST_FEATURES]
    rows = np.arange(len(order))
    figure, axis = blank(size=(6.2, 1.2 + 0.24 * len(order)), axes=ax)
    axis.plot(value[order], rows, "o", color=COLORS[0])
    title = "Distance of one step in each feature"
    if ends is not None:
        axis.hlines(rows, *(end[order] for end in ends), color=COLORS[0])
        title += f"\n(lines: {prob:.0%} intervals)"
    axis.set_yticks(rows, readable(names[k] for k in order))
    axis.set_ylim(len(order) - 0.5, -0.5)
    axis.set_xlim(0, None)
    axis.set_xlabel(f"learned distance, {unit}")
    cut = f"\n({len(order)} of {d} features shown)" if len(order) < d else ""
    axis.set_title(title + cut)
    return figure


def _steps(
    sd: np.ndarray, shares: np.ndarray, names: list[str], factors: Factors
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return names, and for each step: position of the name, two points, weight."""
    of = {c: f for f, levels in factors.items() for c in level_names(f, levels)}
    unit, shown = np.eye(len(names)), list[str]()
    steps: list[tuple[int, np.ndarray, np.ndarray, float]] = []
    for k, column in enumerate(names):
        factor = of.get(column)
        if factor is None:
            steps.append((len(shown), 0 * unit[k], sd[k] * unit[k], 1.0))
            shown.append(column)
        elif factor not in shown:
            block = [m for m, name in enumerate(names) if of.get(name) == factor]
            for a, b in combinations(block, 2):
                weight = float(shares[a] * shares[b])
                steps.append((len(shown), unit[a], unit[b], weight))
            shown.append(factor)
    owner, first, second, weights = map(np.array, zip(*steps, strict=True))
    return shown, owner, first, second, weights


@styled
def before_after(
    learned: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    links: int = 3,
    target_names: Names | None = None,
    axes: Panels | None = None,
) -> Figure:
    """Draw the points under the standardized Euclidean and under the learned metric.

    Each panel shows the points under one metric in two dimensions, with lines to their
    nearest neighbors, as in ``embedding``. A better metric has fewer lines between
    classes. Use points that were not in the fit, otherwise the lower panel is too
    optimistic.

    Parameters
    ----------
    learned, X, y, links, target_names
        As in ``embedding``.
    axes : sequence of 2 Axes, optional

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = pm.datasets.load("iris")
    >>> figure = pm.plots.before_after(pm.LDA().fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> [axis.get_title("left").splitlines()[0] for axis in figure.axes]
    ['Standardized Euclidean distance', 'Learned distance']
    """
    metric = metric_of(learned)
    points, codes, labels = labeled(metric, X, y, target_names)
    scale = points.std(0)
    euclid = Mahalanobis(np.diag(1 / np.where(scale > 0, scale, 1)))
    size = (max(6.6, 4.6 + legend_columns(labels)[1]), 9.6)
    figure, (first, second) = blank(2, size=size, down=True, axes=axes)
    shown: dict[str, Any] = {"links": links, "target_names": labels}
    title = "Standardized Euclidean distance"
    embedding(euclid, points, codes, title=title, ax=first, **shown)
    embedding(learned, X, codes, title="Learned distance", ax=second, **shown)
    return figure


@styled
def pair_histogram(
    learned: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    seed: int = 0,
    ax: Axes | None = None,
) -> Figure:
    """Draw histograms of the dissimilarities within classes and between classes.

    The less the two histograms overlap, the better the metric separates the classes.
    Any kind of metric is supported. At most 20,000 random pairs are used. Both
    histograms have area 1. The largest 0.5% of the values are not shown.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = np.arange(20.0)[:, None], np.repeat(["low", "high"], 10)
    >>> figure = pm.plots.pair_histogram(pm.Mahalanobis(np.eye(1)), X, y)
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['one class', 'two classes']
    """
    metric = metric_of(learned)
    if not hasattr(metric, "is_distance"):
        raise ValueError(
            "learned must be a fitted learner or a metric, got "
            f"{type(metric).__name__}."
        )
    X, codes, _ = labeled(metric, X, y)
    if len(X) < 2:
        raise ValueError(f"X must have at least 2 points, got {len(X)}.")
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, len(X), (2, MOST_PAIRS))
    i, j = i[i != j], j[i != j]
    D = over_draws(between_rows, [metric], X[i], X[j])[0]
    what = "distance" if metric.is_distance else "dissimilarity"
    if not metric.is_distance and D.min() >= 0:  # Squares: a few would fill the axis.
        D, what = np.sqrt(D), "dissimilarity, its root,"
    same = codes[i] == codes[j]
    low, high = np.quantile(D, [0.0, 0.995])
    bins = np.linspace(low, high, 41)
    figure, axis = blank(size=(6.6, 3.2), axes=ax)
    for kind, color, words in ((same, COLORS[0], "one class"),
                               (~same, COLORS[5], "two classes")):  # fmt: skip
        if kind.any():
            axis.hist(D[kind], bins, density=True, alpha=0.55, color=color, label=words)
    axis.set_xlabel(f"learned {what} of a pair (the largest 0.5% are not shown)")
    axis.set(ylabel="density", title="Pairs of training points")
    axis.legend()
    return figure
