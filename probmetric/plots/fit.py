"""Figures of one learned metric: its matrix, and the separation of classes."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probmetric.data import inputs
from probmetric.metric.feature_names import check_columns
from probmetric.plots.space import directions
from probmetric.plots.style import (
    BESIDE,
    COLORS,
    Panels,
    blank,
    heatmap,
    labeled,
    linear_metric,
    matrix_side,
    metric_of,
    named_features,
    styled,
)
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.stack import over_draws
from probmetric.typing import ArrayLike, Names

MOST_PAIRS = 20_000
MOST_DIRECTIONS = 20


@styled
def matrix(
    learned: object,
    X: ArrayLike,
    *,
    feature_names: Names | None = None,
    axes: Panels | None = None,
) -> Figure:
    """Draw the matrix M per standard deviation, and how much each direction matters.

    The upper panel shows the entries of M times the standard deviations of both
    features in X. The lower panel shows the eigenvalues of L Cov(X) Lᵀ (M = LᵀL),
    divided by their sum. Each is the contribution of one direction to the mean squared
    distance between two random points. At most 20 directions are shown.

    Parameters
    ----------
    learned : estimator or Mahalanobis
    X : array of shape (n, d)
    feature_names : sequence of d str, optional
        Default: column names of X, or names of the fit.
    axes : sequence of 2 Axes, optional

    Examples
    --------
    The second feature has half the standard deviation of the first, and its differences
    are multiplied by 3:

    >>> import probmetric as pm
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> figure = pm.plots.matrix(pm.Mahalanobis(np.diag([1.0, 3.0])), X)
    >>> [round(float(bar.get_width()), 3) for bar in figure.axes[1].patches]
    [0.692, 0.308]
    """
    metric = linear_metric(learned)
    check_columns(metric, X=X)
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
def pair_histogram(
    learned: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    seed: int = 0,
    ax: Axes | None = None,
) -> Figure:
    """Draw histograms of the dissimilarities within classes and between classes.

    At most 20,000 random pairs (by ``seed``) are used. Both histograms have area 1. The
    largest 0.5% of the distances are not shown. The metric may be of any kind.

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
