"""Figure of a metric whose matrix depends on the point."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from probmetric.plots.style import (
    blank,
    class_marks,
    ink,
    labeled,
    legend_columns,
    metric_of,
    named_features,
    readable,
    styled,
)
from probmetric.typing import ArrayLike, Names

ALIKE = 3
"""Largest ratio of the features' ranges for which both axes have the same scale."""


@styled
def local_ellipses(
    learned: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    at: ArrayLike | None = None,
    features: tuple[int, int] = (0, 1),
    feature_names: Names | None = None,
    target_names: Names | None = None,
    number: int = 25,
    size: float = 0.08,
    ax: Axes | None = None,
) -> Figure:
    """Draw ellipses of equal distance for a metric that depends on the point.

    All points on an ellipse have the same distance from its center. Distances increase
    fastest in the narrow direction of an ellipse. The axes have different scales if the
    range of one feature is more than three times the range of the other.

    Parameters
    ----------
    learned : estimator or metric
        Learner or metric with ``matrix_at(X) -> (n, d, d)``, or with one ``matrix``.
    X, y : arrays of shape (n, d), (n,)
    at : array of shape (m, d), optional
        Centers of the ellipses. Default: ``number`` evenly spaced rows of X.
    features : (int, int), default=(0, 1)
        Column numbers of the two features to draw. All other features have the
        values of the center.
    number : int, default=25
        Number of ellipses.
    size : float, default=0.08
        Radius of the median ellipse, as a fraction of the figure.

    Examples
    --------
    Differences in the second feature count twice as much as in the first feature, so
    the ellipses are twice as wide as high:

    >>> import probmetric as pm
    >>> X = np.random.default_rng(0).random((20, 2))
    >>> metric = pm.Mahalanobis(np.diag([1.0, 2.0]))
    >>> figure = pm.plots.local_ellipses(metric, X, np.repeat([0, 1], 10), number=5)
    >>> ellipse = figure.axes[0].patches[0]
    >>> round(float(ellipse.width / ellipse.height), 6)
    2.0
    """
    metric = metric_of(learned)
    names = named_features(feature_names, X, learned)
    X, codes, labels = labeled(metric, X, y, target_names)
    if not all(0 <= k < len(names) for k in features):
        raise ValueError(
            f"features must be two column numbers from 0 to {len(names) - 1}, got "
            f"{features}"
        )
    chosen = np.unique(np.linspace(0, len(X) - 1, number).astype(int))
    places = X[chosen] if at is None else np.atleast_2d(np.asarray(at, float))
    if hasattr(metric, "matrix_at"):
        matrices = np.asarray(metric.matrix_at(places))
    elif hasattr(metric, "matrix"):
        matrices = np.broadcast_to(metric.matrix, (len(places), *metric.matrix.shape))
    else:
        raise ValueError(
            "learned must be a metric with a method matrix_at or an attribute matrix, "
            f"got {type(metric).__name__}"
        )
    plane = matrices[:, features][:, :, features]
    shown = X[:, list(features)]
    units = np.ptp(shown, axis=0)
    alike = units.min() == 0 or units.max() <= ALIKE * units.min()
    if alike:
        units = np.full(2, units.max() or 1.0)
    values, vectors = np.linalg.eigh(plane * np.outer(units, units))
    values = np.maximum(values, 1e-9 * np.maximum(values.max(1, keepdims=True), 1e-300))
    radii = 1 / np.sqrt(values)
    # Limit very flat balls, one of which could cover the figure.
    radii = np.minimum(radii * size / np.median(radii), 0.5)
    # The axes of the same ellipses in input units.
    turned, halves, _ = np.linalg.svd(units[:, None] * vectors * radii[:, None, :])
    legend, width = legend_columns(labels)
    figure, axis = blank(size=(max(6.4, 4.4 + width), 4.9), axes=ax)
    for rows, name, color, marker in class_marks(codes, labels):
        style = {"s": 12, "alpha": 0.6, "color": color, "marker": marker, "lw": 0}
        axis.scatter(*shown[rows].T, label=name, **style)
    angles = np.degrees(np.arctan2(turned[:, 1, 0], turned[:, 0, 0]))
    for center, (a, b), angle in zip(
        places[:, list(features)], halves, angles, strict=True
    ):
        axis.add_patch(
            Ellipse(center, 2 * a, 2 * b, angle=angle, fill=False, color=ink(), lw=0.9)
        )
    x, y_name = readable([names[k] for k in features])
    axis.set(xlabel=x, ylabel=y_name)
    if alike:
        axis.set_aspect("equal", adjustable="datalim")
    axis.set_title("Balls of the metric: equally far from their centers")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), ncols=legend)
    return figure
