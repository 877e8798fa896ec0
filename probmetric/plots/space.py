"""Figures of points under a metric: embeddings, classes, neighbours."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from probmetric.neighbors.search import nearest
from probmetric.plots.style import COLORS, blank, class_names, metric_of, styled
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, Names


def plane(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two principal components (n, 2) and their shares of variance."""
    centred = Z - Z.mean(0)
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    share = singular**2 / max(float(np.sum(singular**2)), np.finfo(float).tiny)
    if len(axes) < 2:
        return np.column_stack([centred @ axes[0], np.zeros(len(Z))]), np.r_[share, 0.0]
    return centred @ axes[:2].T, share[:2]


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
    """Draw the data in the plane that shows most of the learned distance.

    Parameters
    ----------
    learned : estimator or Mahalanobis
        What has ``transform``: the plane is spanned by the first two principal
        components of the transformed points.
    X : array of shape (n, d)
    y : array of shape (n,)
        Classes, for the colours.
    links : int, default=0
        Draw each point's links to this many nearest neighbours under the *whole*
        metric, grey to the same class and red to another.
    target_names : sequence of str, optional
        Name of each class code.
    title : str
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import probmetric as pm
    >>> data = pm.datasets.load("iris")
    >>> metric = pm.LDA().fit(data.X, data.y).get_metric()
    >>> figure = pm.plots.embedding(
    ...     metric, data.X, data.y, links=3, target_names=data.target_names
    ... )
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['setosa (50)', 'versicolor (50)', 'virginica (50)']
    """
    metric = metric_of(learned)
    if not hasattr(metric, "transform"):
        raise ValueError(
            f"learned: expected a metric with transform, got {type(metric).__name__}"
        )
    X, y = np.asarray(X, float), np.asarray(y)
    codes, labels = class_names(y, target_names)
    Z, share = plane(np.asarray(metric.transform(X)))
    figure, axis = blank(size=(6.6, 4.8), axes=ax)
    if links:
        _, index = nearest(metric, X, X, links, exclude_self=True)
        rows = np.repeat(np.arange(len(X)), links)
        ends = index.ravel()
        segments = np.stack([Z[rows], Z[ends]], axis=1)
        for same, color, width in ((True, "#bbbbbb", 0.5), (False, COLORS[5], 0.9)):
            chosen = list(segments[(codes[rows] == codes[ends]) == same])
            lines = LineCollection(chosen, colors=color, linewidths=width, zorder=1)
            axis.add_collection(lines)
        crossing = float(np.mean(codes[rows] != codes[ends]))
        axis.set_xlabel(
            f"links to the {links} nearest neighbours; red: to another class "
            f"({crossing:.1%})"
        )
    for c, name in enumerate(labels):
        chosen = codes == c
        axis.scatter(
            *Z[chosen].T,
            s=18,
            color=COLORS[c % len(COLORS)],
            marker="osD^vPX*"[c % 8],
            edgecolor="white",
            linewidth=0.4,
            label=f"{name} ({chosen.sum()})",
            zorder=2,
        )
    axis.set_aspect("equal", adjustable="datalim")
    axis.set(xticks=[], yticks=[])
    axis.set_title(f"{title}\n(plane of {share.sum():.0%} of the squared distance)")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@styled
def class_probabilities(
    probabilities: ArrayLike,
    *,
    classes: Names,
    truth: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw one query's class probabilities, with their spread over draws.

    Parameters
    ----------
    probabilities : array of shape (s, c)
        The query's class probabilities under each draw of the metric.
    classes : sequence of c str
    truth : str, optional
        The class that the query has, named in the title.
    title : str, optional
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        Bars are means over draws, which is what the classifier states; dots are
        single draws, the line holds 90 % of them.

    Examples
    --------
    Two draws say .9 and .7 of the first class: its bar is their mean.

    >>> import probmetric as pm
    >>> figure = pm.plots.class_probabilities(
    ...     [[0.9, 0.1], [0.7, 0.3]], classes=["left", "right"], truth="left"
    ... )
    >>> axis = figure.axes[0]
    >>> axis.get_title("left")
    'Class of one query (truth: left)'
    >>> [round(float(bar.get_width()), 3) for bar in axis.patches]
    [0.8, 0.2]
    """
    values = np.asarray(probabilities, float)
    if values.ndim != 2 or values.shape[1] != len(classes):
        raise ValueError(
            f"probabilities: expected shape (s, {len(classes)}), got {values.shape}"
        )
    figure, axis = blank(size=(6.0, 1.1 + 0.42 * len(classes)), axes=ax)
    rows = np.arange(len(classes))
    colors = [COLORS[c % len(COLORS)] for c in rows]
    axis.barh(rows, values.mean(0), color=colors, alpha=0.75, height=0.62)
    if len(values) > 1:
        low, high = np.quantile(values, [0.05, 0.95], axis=0)
        axis.hlines(rows, low, high, color="black", lw=1.1)
        offsets = np.random.default_rng(0).uniform(-0.2, 0.2, values.shape)
        axis.scatter(values, rows + offsets, s=2.5, color="black", alpha=0.25, lw=0)
    axis.set_yticks(rows, [str(c) for c in classes])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.02)
    axis.set_xlabel(
        "probability\n(bar: mean over draws; line: 90 % of draws; dots: single draws)"
    )
    default = "Class of one query" + ("" if truth is None else f" (truth: {truth})")
    axis.set_title(title or default)
    return figure


@styled
def neighbor_probabilities(
    posterior: PosteriorMetric,
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
    """Draw the probable neighbours of a query, with their probabilities.

    Parameters
    ----------
    posterior : PosteriorMetric
        Draws of a metric.
    query : array of shape (d,)
    points : array of shape (n, d)
    k : int
        How many neighbours count.
    top : int, default=12
        Candidates to show, the most probable first.
    names : sequence of n str, optional
        Name of each point. Default: its row.
    y : array of shape (n,), optional
        Classes, for the colours.
    target_names : sequence of str, optional
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        The whisker is the binomial standard error of a share of draws.

    Examples
    --------
    The points are at 1 on either axis; of three draws one finds the second nearer.

    >>> import numpy as np
    >>> import probmetric as pm
    >>> draws = [pm.Mahalanobis(np.diag([1.0, s])) for s in (0.5, 1.5, 2.0)]
    >>> figure = pm.plots.neighbor_probabilities(
    ...     pm.PosteriorMetric(draws, "prediction"), [0.0, 0.0], np.eye(2), 1
    ... )
    >>> axis = figure.axes[0]
    >>> [label.get_text() for label in axis.get_yticklabels()]
    ['0', '1']
    >>> [round(float(bar.get_width()), 3) for bar in axis.patches]
    [0.667, 0.333]
    """
    query, points = np.asarray(query, float), np.asarray(points, float)
    n_draws = posterior.n_draws
    share = posterior.neighbor_probability(query[None], points, k)[0]
    order = np.argsort(-share, kind="stable")[: min(top, int(np.sum(share > 0)))]
    given = [str(j) for j in range(len(points))] if names is None else list(names)
    colors, shown = [COLORS[0]] * len(order), {}
    if y is not None:
        codes, labels = class_names(np.asarray(y), target_names)
        colors = [COLORS[codes[j] % len(COLORS)] for j in order]
        shown = {labels[c]: COLORS[c % len(COLORS)] for c in np.unique(codes[order])}
    figure, axis = blank(size=(6.2, 1.3 + 0.27 * len(order)), axes=ax)
    rows = np.arange(len(order))
    error = np.sqrt(share * (1 - share) / n_draws)[order]
    axis.barh(
        rows, share[order], color=colors, xerr=error, ecolor="#555555", height=0.7
    )
    axis.set_yticks(rows, [str(given[j]) for j in order])
    axis.set_ylabel("point")
    axis.invert_yaxis()
    axis.set_xlim(0, 1.02)
    axis.set_xlabel(
        f"probability of being among the {k} nearest\n(bar: share of {n_draws} draws; "
        "whisker: its standard error)"
    )
    axis.set_title("Neighbours of one query")
    for name, color in shown.items():
        axis.barh([0], [0], color=color, label=name)
    if shown:
        axis.legend(loc="lower right")
    return figure
