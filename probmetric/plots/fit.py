"""Figures of one learned metric: its matrix, and how well it separates classes."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probmetric.metric import Dissimilarity
from probmetric.plots.style import (
    BESIDE,
    COLORS,
    Panels,
    blank,
    heatmap,
    matrix_side,
    styled,
)
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.stack import over_draws
from probmetric.typing import ArrayLike

MOST_PAIRS = 20_000


@styled
def matrix(
    M: Float[np.ndarray, "d d"],
    scale: Float[np.ndarray, "d"],
    names: tuple[str, ...],
    *,
    axes: Panels | None = None,
) -> Figure:
    """Draw a metric's matrix per standard deviation, and its eigenvalues.

    Parameters
    ----------
    M : array of shape (d, d)
        In input units.
    scale : array of shape (d,)
        Standard deviation of each feature.
    names : tuple of d str
    axes : sequence of 2 Axes, optional
        Where to draw. Default: a new figure.
    """
    values = M * np.outer(scale, scale)
    side = matrix_side(len(values))
    share = np.linalg.eigvalsh(values)[::-1][:20] / np.trace(values)
    bars = 0.18 * len(share) + 0.9
    size, ratios = (side + BESIDE, side + BESIDE - 0.7 + bars), [side + 1.6, bars]
    figure, (first, second) = blank(2, size=size, down=True, ratios=ratios, axes=axes)
    title = "The metric's matrix,\nper sd of each feature"
    heatmap(first, values, names, title, width=False)
    second.barh(np.arange(len(share)) + 1, np.maximum(share, 0), color=COLORS[0])
    second.invert_yaxis()
    second.set_yticks(np.arange(len(share)) + 1)
    second.set(ylabel="direction", xlabel="share of the trace")
    second.set_title("How many directions matter")
    return figure


@styled
def pair_histogram(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    y: ArrayLike,
    *,
    seed: int = 0,
    ax: Axes | None = None,
) -> Figure:
    """Draw dissimilarities of pairs of one class and of two, up to 20 000 pairs.

    Parameters
    ----------
    metric : Metric
        Any kind.
    X : array of shape (n, d)
    y : array of shape (n,)
    seed : int, default=0
        Of the choice of pairs.
    ax : Axes, optional
        Where to draw. Default: a new figure.
    """
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, len(X), (2, MOST_PAIRS))
    i, j = i[i != j], j[i != j]
    D = over_draws(between_rows, [metric], X[i], X[j])[0]
    what = "distance" if metric.is_distance else "dissimilarity"
    if not metric.is_distance and D.min() >= 0:  # Squares: a few would fill the axis.
        D, what = np.sqrt(D), "dissimilarity, its root,"
    same = np.asarray(y)[i] == np.asarray(y)[j]
    low, high = np.quantile(D, [0.0, 0.995])
    bins = np.linspace(low, high, 41)
    figure, axis = blank(size=(6.6, 3.2), axes=ax)
    for kind, color, words in ((same, COLORS[0], "one class"),
                               (~same, COLORS[5], "two classes")):  # fmt: skip
        if kind.any():
            axis.hist(D[kind], bins, density=True, alpha=0.55, color=color, label=words)
    axis.set_xlabel(f"learned {what} of a pair (the largest 0.5 % are not shown)")
    axis.set(ylabel="density", title="Pairs of training points")
    axis.legend()
    return figure
