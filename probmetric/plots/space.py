"""Figures of points under a metric: embeddings and neighbors."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy.stats import chi2

from probmetric.arguments import check_within_0_1
from probmetric.linalg import row_signs
from probmetric.metric.feature_names import names_of
from probmetric.neighbors.search import nearest
from probmetric.plots.style import (
    COLORS,
    blank,
    class_marks,
    ink,
    labeled,
    legend_columns,
    linear_metric,
    marks,
    metric_of,
    readable,
    styled,
)
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.intervals import aligned
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Names


def directions(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return principal components (n, k), and shares of the squared distance (k,)."""
    centered = Z - Z.mean(0)
    _, singular, axes = np.linalg.svd(centered, full_matrices=False)
    share = singular**2 / max(float(np.sum(singular**2)), np.finfo(float).tiny)
    return centered @ axes.T, share


def plane(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two principal components (n, 2) and their shares of variance."""
    components, share = directions(Z)
    if len(share) < 2:
        components = np.column_stack([components[:, 0], np.zeros(len(Z))])
        return components, np.r_[share, 0.0]
    return components[:, :2], share[:2]


@styled
def embedding(
    learned: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    links: int = 0,
    target_names: Names | None = None,
    title: str = "The data, as the metric sees them",
    ax: Axes | None = None,
) -> Figure:
    """Draw the first two principal components of the transformed points.

    No other plane shows a larger fraction of the learned squared distances. The first
    64 classes have distinct colors and markers. All others are called "other classes".

    Parameters
    ----------
    learned : estimator or metric with ``transform``
    X, y : arrays of shape (n, d), (n,)
    links : int, default=0
        Number of nearest neighbors (at most n - 1) to link to each point by a line. The
        line is thin if both points have the same class, otherwise thick. Neighbors are
        computed in all dimensions, not in the plane.
    target_names : sequence of str, optional
        Name of each class code.
    title : str
    ax : Axes, optional

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = data = pm.datasets.load("iris")
    >>> lda, names = pm.LDA().fit(X, y), data.target_names
    >>> figure = pm.plots.embedding(lda, X, y, links=3, target_names=names)
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['setosa (50)', 'versicolor (50)', 'virginica (50)']
    """
    metric = metric_of(learned)
    if not hasattr(metric, "transform"):
        raise ValueError(
            "learned must be a metric with a method transform, got "
            f"{type(metric).__name__}"
        )
    X, codes, labels = labeled(metric, X, y, target_names)
    Z, share = plane(np.asarray(metric.transform(X)))
    columns, width = legend_columns(labels)
    figure, axis = blank(size=(max(6.6, 4.6 + width), 4.8), axes=ax)
    links = min(links, len(X) - 1)
    if links:
        _, index = nearest(metric, X, X, links, exclude_self=True)
        rows = np.repeat(np.arange(len(X)), links)
        ends = index.ravel()
        segments = np.stack([Z[rows], Z[ends]], axis=1)
        for same, color, width in ((True, "#bbbbbb", 0.5), (False, ink(), 1.4)):
            chosen = list(segments[(codes[rows] == codes[ends]) == same])
            lines = LineCollection(chosen, colors=color, linewidths=width, zorder=1)
            axis.add_collection(lines)
        crossing = float(np.mean(codes[rows] != codes[ends]))
        ends_at = f"{links} nearest neighbors" if links > 1 else "nearest neighbor"
        axis.set_xlabel(
            f"links to the {ends_at}; thick: to another class ({crossing:.1%})"
        )
    for chosen, name, color, marker in class_marks(codes, labels):
        style = {"s": 18, "color": color, "marker": marker, "zorder": 2}
        style |= {"edgecolor": "white", "linewidth": 0.4}
        axis.scatter(*Z[chosen].T, label=f"{name} ({chosen.sum()})", **style)
    axis.set_aspect("equal", adjustable="datalim")
    axis.set(xticks=[], yticks=[])
    axis.set_title(f"{title}\n(plane of {share.sum():.0%} of the squared distance)")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), ncols=columns)
    return figure


@styled
def neighbor_probabilities(
    posterior: PosteriorMetric | IntervalMetric,
    query: ArrayLike,
    points: ArrayLike,
    k: int,
    *,
    top: int = 12,
    names: Names | None = None,
    y: ArrayLike | None = None,
    target_names: Names | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the most probable neighbors of a query, with their probabilities.

    A bar is the probability that a point is among the k nearest
    (``neighbor_probability``).

    Parameters
    ----------
    posterior : PosteriorMetric or IntervalMetric
        Draws of the metric, or a metric with refits. Draws for prediction raise
        ValueError.
    query, points : arrays of shape (d,), (n, d)
    k : int
        Number of neighbors.
    top : int, default=12
        Number of points to show, the most probable neighbors first.
    names : sequence of n str, optional
        Name of each point. Default: row numbers.
    y, target_names : optional
        Classes of the points (for the colors), and names of the class codes.

    Examples
    --------
    The first point is (1, 0) and the second point is (0, 1). The second point is nearer
    to the origin under one of three draws:

    >>> import probmetric as pm
    >>> draws = [pm.Mahalanobis(np.diag([1.0, s])) for s in (0.5, 1.5, 2.0)]
    >>> posterior = pm.posterior.PosteriorMetric(draws, "intervals")
    >>> figure = pm.plots.neighbor_probabilities(posterior, [0.0, 0.0], np.eye(2), 1)
    >>> [round(float(bar.get_width()), 3) for bar in figure.axes[0].patches]
    [0.667, 0.333]
    """
    query = np.asarray(query, float)
    classes = np.zeros(len(np.asarray(points)), int) if y is None else y
    points, codes, labels = labeled(posterior, points, classes, target_names, "points")
    share = posterior.neighbor_probability(query[None], points, k)[0]
    order = np.argsort(-share, kind="stable")[: min(top, int(np.sum(share > 0)))]
    named = [str(j) for j in range(len(points))] if names is None else list(names)
    colors, shown = [COLORS[0]] * len(order), [str(named[j]) for j in order]
    if y is not None:
        colors = [marks(len(labels))[codes[j]][0] for j in order]
        shown = [f"{named[j]}: {labels[codes[j]]}" for j in order]
    figure, axis = blank(size=(6.2, 1.3 + 0.27 * len(order)), axes=ax)
    rows = np.arange(len(order))
    axis.barh(rows, share[order], color=colors, height=0.7)
    axis.set_yticks(rows, readable(shown))
    axis.set_ylabel("point")
    axis.invert_yaxis()
    axis.set_xlim(0, 1.02)
    axis.set_xlabel(f"probability of being among the {k} nearest")
    axis.set_title("Neighbors of one query")
    return figure


@styled
def objects(
    learned: object,
    *,
    names: Sequence[str] | None = None,
    prob: float = 0.9,
    ax: Axes | None = None,
) -> Figure:
    """Draw a map of objects, with a probability ellipse for each if there are draws.

    The data determine distances between objects, but not rotation or reflection of the
    map. Draws are therefore rotated to fit their mean. An ellipse contains about a
    fraction ``prob`` of an object's draws. With few judgments, ellipses are too small
    (see Benchmarks: triplets). With more than two components, the map shows the first
    two principal components.

    Parameters
    ----------
    learned : TripletEmbedding, Mahalanobis or PosteriorMetric
        Fitted learner, its metric, or its ``posterior_metric``.
    names : sequence of str of length n, optional
        Names of the objects. Default: the names or numbers in the fit.
    prob : float in (0, 1), default=0.9
        Probability of the ellipses.

    Examples
    --------
    >>> import probmetric as pm
    >>> triplets = [["a", "b", "d"], ["b", "a", "d"], ["c", "d", "a"], ["d", "c", "b"]]
    >>> places = pm.TripletEmbedding(1).fit(triplets)
    >>> figure = pm.plots.objects(places)
    >>> sorted(text.get_text() for text in figure.axes[0].texts)
    ['a', 'b', 'c', 'd']
    """
    check_within_0_1(prob=prob)
    metrics = learned.draws if isinstance(learned, PosteriorMetric) else [learned]
    Z = np.stack([np.asarray(linear_metric(m).factor, float) for m in metrics])
    Z -= Z.mean(2, keepdims=True)
    Z = aligned(Z, Z[0])
    Z = aligned(Z, Z.mean(0))
    # The axes and signs of ``TripletEmbedding.embedding_``.
    U, size, axes = np.linalg.svd(Z.mean(0).T, full_matrices=False)
    Z = np.asarray(row_signs(U.T))[:2] * (axes[:2] @ Z)
    if Z.shape[1] == 1:
        Z = np.concatenate([Z, np.zeros_like(Z)], 1)
    place = Z.mean(0).T
    several = isinstance(learned, PosteriorMetric)
    known = names_of(learned if several else linear_metric(learned))
    shown = [*(names or known or range(len(place)))]
    if len(shown) != len(place):
        raise ValueError(f"names must have {len(place)} entries, got {len(shown)}.")
    figure, axis = blank(size=(5.6, 5.2), axes=ax)
    axis.scatter(*place.T, s=14, color=COLORS[0], zorder=3)
    for k, (xy, name) in enumerate(zip(place, readable(shown), strict=True)):
        axis.annotate(name, xy, (3, 3), textcoords="offset points", fontsize=9)
        if len(Z) > 2:
            values, vectors = np.linalg.eigh(np.cov(Z[:, :, k].T))
            w, h = 2 * np.sqrt(np.maximum(values, 0) * chi2.ppf(prob, 2))
            angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
            axis.add_patch(Ellipse(xy, w, h, angle=angle, color=COLORS[0], alpha=0.15))
    axis.set_aspect("equal", adjustable="datalim")
    share = float(np.sum(size[:2] ** 2) / max(np.sum(size**2), np.finfo(float).tiny))
    axis.set(xlabel="first axis", ylabel="second axis")
    ellipses = f"\nellipses: {prob:.0%} of the draws" * (len(Z) > 2)
    axis.set_title(
        f"Map of the objects ({share:.0%} of the squared distances){ellipses}"
    )
    return figure
