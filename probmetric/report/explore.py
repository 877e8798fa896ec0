"""One self-contained HTML page to explore a learned metric.

The page contains Plotly and all data, and needs neither a network nor a kernel. A click
on a point selects this point as query. A click on a matrix entry colors the points by
the feature of the entry.
"""

import json
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import xarray as xr

from probmetric.arguments import check_count
from probmetric.data import inputs
from probmetric.data.inputs import check_one_kind, label_codes
from probmetric.files import replacing
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import Uncertain, check_features
from probmetric.neighbors.search import nearest
from probmetric.posterior.draws import draws_to_metric
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.metric import PosteriorMetric, has_own_spread
from probmetric.posterior.stack import over_draws
from probmetric.provenance import need
from probmetric.typing import ArrayLike, Names

MOST_POINTS = 2000
"""Maximum number of points. Each point is a query among all other points."""
MOST_FEATURES = 64
"""Maximum number of features for which the matrix is shown."""
MOST_DRAWS = 200
"""Number of draws of a DataTree that are used."""
LEAST = 0.01
"""Minimum probability of the neighbors that are shown."""
MOST_NEIGHBORS = 5
"""Maximum number of neighbors shown, as a multiple of k."""

SYMBOLS = dict(zip("osD^vPX*.", (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star",
    "circle",
), strict=True))  # fmt: skip
"""Plotly's names of the markers of ``plots``."""

type Learned = Dissimilarity | PosteriorMetric | IntervalMetric


class Page(NamedTuple):
    """A self-contained HTML page, which a notebook displays."""

    html: str

    def save(self, path: str | Path) -> None:
        """Write the page to an .html file, atomically."""
        if Path(path).suffix.lower() != ".html":
            raise ValueError(f"path must end in .html, got {str(path)!r}.")
        with replacing(Path(path)) as part:
            part.write_text(self.html, encoding="utf-8", errors="backslashreplace")

    def __repr__(self) -> str:
        return f"Page({len(self.html) / 1e6:.1f} MB of HTML; .save(path) writes it)"

    def _repr_html_(self) -> str:
        source = self.html.replace("&", "&amp;").replace('"', "&quot;")
        style = "width:100%;height:900px;border:0"
        return f'<iframe title="explorer" srcdoc="{source}" style="{style}"></iframe>'


def explore(
    learned: object,
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int = 10,
    feature_names: Names | None = None,
    target_names: Names | None = None,
    title: str = "Nearest neighbors, with uncertainty",
) -> Page:
    """Make a page to explore points under a learned metric.

    Requires the extra ``explore`` (``pip install '.[explore]'``). A notebook displays
    the page, and ``.save(path)`` writes the page to a file. The page contains Plotly
    (5 MB) and needs no network.

    The page has a map of the points. A click on a point shows its neighbors:

    * The map shows the first two principal components of the transformed points, if the
      metric has ``transform``. Otherwise it shows principal components of the
      standardized points, whose distances are not those of the metric. Neighbors are
      always computed with the metric itself.
    * The probability of a neighbor is ``neighbor_probability`` of draws, or of refits
      of a ``Mahalanobis`` metric. At most 5 · k neighbors with probability at least
      0.01 are listed. One number sums the probabilities of all others.
    * The probability of a class is its frequency among the k nearest points, averaged
      over draws or refits. Without them it is not calibrated.
    * Distances have intervals (nominal 90%) if ``learned`` was made for intervals, for
      example by ``posterior_metric("intervals")`` or ``with_intervals``. Draws of
      ``sample`` after a fit of ``LCA`` to labels give none, because their spread is not
      the sampling error.
    * The metric's matrix is shown with standard deviations over draws. Do not use them
      to make intervals, which would not be calibrated.

    To measure performance, use ``evaluate`` with held-out points.

    Parameters
    ----------
    learned : estimator, Metric, PosteriorMetric, IntervalMetric or DataTree
        Fitted estimator, its metric, ``posterior_metric("intervals")``, or the result
        of ``sample``. Draws for prediction raise ValueError.
    X : array of shape (n, d)
        Points, at most 2000. The neighbors of each point are found among the other
        points.
    y : array of shape (n,)
        Class labels, for colors and class probabilities.
    k : int, default=10
        Number of neighbors, with 1 ≤ k < n.
    feature_names, target_names : sequence of str, optional
        Names of the columns (default: names of X or of the fit), and of the classes 0,
        1, ...
    title : str
        Title of the page.

    Examples
    --------
    >>> import probmetric as pm
    >>> X, y = np.arange(12.0).reshape(6, 2), [0, 0, 0, 1, 1, 1]
    >>> page = pm.explore(pm.Mahalanobis(np.eye(2)), X, y, k=2)
    >>> page.html.startswith("<!DOCTYPE html>")
    True
    """
    need("explore", "explore", "plotly", "jinja2", "matplotlib")
    from plotly.offline import get_plotlyjs  # pyright: ignore

    from probmetric.plots.style import class_names, marks, metric_of, named_features
    from probmetric.report.page import template

    table = X
    check_one_kind(y)
    metric = metric_of(learned)
    if isinstance(metric, xr.DataTree):
        metric = draws_to_metric(metric, "intervals", n_draws=MOST_DRAWS)
    if not hasattr(metric, "is_distance"):
        raise TypeError(
            "learned must be a fitted estimator, a metric, or draws of a metric, got "
            f"{type(learned).__name__}."
        )
    metric = cast("Learned", metric)
    table = check_columns(metric, X=X)["X"]
    X = inputs.points(table, "X")
    check_features(metric, X=X)
    if len(X) > MOST_POINTS:
        raise ValueError(
            f"X must have at most {MOST_POINTS} points, got {len(X)}. Sample some, for "
            "example by rng.choice(len(X), 2000, replace=False)."
        )
    k = check_count("k", k, len(X) - 1, "points beside the query")
    y = np.asarray(y)
    label_codes(y)
    if y.shape != (len(X),):
        raise ValueError(
            f"y must have shape ({len(X)},), got {y.shape}. Pass a label for each row "
            "of X."
        )
    codes, classes = class_names(y, target_names)
    plane, caption = _plane(metric, X)
    content = {
        "x": plane[:, 0],
        "y": plane[:, 1],
        "words": caption,
        "codes": codes,
        "classes": classes,
        "marks": [(color, SYMBOLS[marker]) for color, marker in marks(len(classes))],
        "X": X,
        "names": named_features(feature_names, table, learned),
        "k": k,
        **_neighbors(metric, X, codes, len(classes), k),
        "matrix": _matrix(metric, X),
    }
    html = template("explore.html.j2").render(
        title=title,
        data=_json(content),
        plotly=str(get_plotlyjs()),
        about=_about(metric, X),
    )
    return Page(html)


def _json(content: object) -> str:
    def plain(value: object) -> object:
        if isinstance(value, np.ndarray):
            return plain(value.tolist())
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [plain(v) for v in value]
        if isinstance(value, float):
            return float(f"{value:.5g}") if np.isfinite(value) else None
        return value

    return json.dumps(plain(content), separators=(",", ":")).replace("<", "\\u003c")


def _plane(metric: Learned, X: np.ndarray) -> tuple[np.ndarray, str]:
    from probmetric.plots.space import plane

    transform = getattr(_single(metric), "transform", None)
    if transform is not None:
        Z, share = plane(np.asarray(transform(X)))
        return Z, f"plane with {share.sum():.0%} of the squared distance"
    spread = X.std(0)
    Z, share = plane(X / np.where(spread > 0, spread, 1.0))
    return Z, (
        f"plane with {share.sum():.0%} of the variance of the features; its distances "
        "are not the distances of this metric"
    )


def _about(metric: Learned, X: np.ndarray) -> str:
    points = f"{len(X)} points with {X.shape[1]} features"
    if isinstance(metric, PosteriorMetric):
        kind = type(metric.draws[0]).__name__
        return f"{points}; {metric.n_draws} draws of {kind} ({metric.source})"
    if isinstance(metric, IntervalMetric):
        kind = type(metric.metric).__name__
        return f"{points}; {kind}, with {len(metric.left_out)} jackknife refits"
    return f"{points}; {type(metric).__name__}, without draws"


def _single(metric: Learned) -> Dissimilarity:
    return metric.point_metric() if isinstance(metric, Uncertain) else metric


def _neighbors(
    metric: Learned, X: np.ndarray, codes: np.ndarray, n_classes: int, k: int
) -> dict[str, object]:
    single = _single(metric)
    probable = isinstance(metric, PosteriorMetric) or (
        isinstance(metric, IntervalMetric) and isinstance(single, Mahalanobis)
    )
    if probable:
        uncertain = cast("PosteriorMetric | IntervalMetric", metric)
        P = uncertain.neighbor_probability(X, X, k, exclude_self=True)
    else:
        P = np.zeros((len(X), len(X)))
        np.put_along_axis(P, nearest(single, X, X, k, exclude_self=True)[1], 1.0, 1)
    votes = P @ np.eye(n_classes)[codes] / k
    # Sort by probability, then by distance; the widest query sets the width.
    width = min(int((P >= LEAST).sum(1).max()), MOST_NEIGHBORS * k)
    order = nearest(single, X, X, len(X) - 1, exclude_self=True)[1]
    by = np.argsort(-np.take_along_axis(P, order, 1), 1, kind="stable")[:, :width]
    index = np.take_along_axis(order, by, 1)
    shares = np.take_along_axis(P, index, 1)
    shares = np.where(shares >= LEAST, shares, 0.0)
    A, B = X[np.repeat(np.arange(len(X)), width)], X[index.ravel()]
    limits, far = None, over_draws(between_rows, [single], A, B)[0]
    if isinstance(metric, IntervalMetric) or (
        isinstance(metric, PosteriorMetric) and has_own_spread(metric)
    ):
        interval, far = metric.interval(A, B), metric.distance(A, B)
        limits = [np.asarray(limit).reshape(index.shape) for limit in interval]
    return {
        "probable": probable,
        "index": index,
        "probability": shares,
        "others": k - shares.sum(1),
        "far": far.reshape(index.shape),
        "limits": limits,
        "what": "distance" if single.is_distance else "dissimilarity",
        "votes": votes,
    }


def _matrix(metric: Learned, X: np.ndarray) -> dict[str, np.ndarray | None] | None:
    single = _single(metric)
    if not isinstance(single, Mahalanobis) or X.shape[1] > MOST_FEATURES:
        return None
    units = np.outer(X.std(0), X.std(0))
    M = np.asarray(single.factor.T @ single.factor, float) * units
    if not isinstance(metric, PosteriorMetric):
        return {"M": M, "sd": None}
    draws = cast("list[Mahalanobis]", metric.metrics())
    factors = np.stack([np.asarray(draw.factor, float) for draw in draws])
    drawn = np.einsum("spi,spj->sij", factors, factors) * units
    return {"M": M, "sd": drawn.std(0)}
