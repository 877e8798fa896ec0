"""One self-contained HTML page to explore a learned metric with the mouse.

The page holds Plotly and everything it shows: it needs no network and no kernel. Its
views are linked: a click on a point asks for the neighbours of that point, a click on
an entry of the matrix colours the points by that feature.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from probmetric.arguments import check_count
from probmetric.data import inputs
from probmetric.data.inputs import check_one_kind, label_codes
from probmetric.files import replacing
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import check_features
from probmetric.neighbors.search import nearest
from probmetric.posterior.draws import draws_to_metric
from probmetric.posterior.interval_metric import IntervalMetric
from probmetric.posterior.intervals import between_rows
from probmetric.posterior.metric import PosteriorMetric
from probmetric.posterior.stack import over_draws
from probmetric.provenance import need
from probmetric.typing import ArrayLike, Names

MOST_POINTS = 2000
"""Points of a page, at most: each is a query among all others."""
MOST_FEATURES = 64
"""Features up to which the matrix is shown."""
LEAST = 0.01
"""Probability of being a neighbour from which a point is shown as one."""
MOST_NEIGHBORS = 5
"""Times k: as many neighbours of a point are shown, at most; the rest is counted."""

SYMBOLS = dict(zip("osD^vPX*.", (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star",
    "circle",
), strict=True))  # fmt: skip
"""Plotly's names of the markers of ``plots``."""


class Page(NamedTuple):
    """A page of HTML that needs no other file; a notebook shows it.

    Attributes
    ----------
    html : str

    Examples
    --------
    >>> Page("<p>distances</p>").html
    '<p>distances</p>'
    """

    html: str

    def save(self, path: str | Path) -> None:
        """Write the page to a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Ends in .html; a file that is there is replaced.

        Raises
        ------
        ValueError
            For another ending.
        """
        if Path(path).suffix.lower() != ".html":
            raise ValueError(
                f"path: expected a file ending in .html, got {str(path)!r}"
            )
        with replacing(Path(path)) as part:
            part.write_text(self.html, encoding="utf-8", errors="backslashreplace")

    def __repr__(self) -> str:
        return f"Page({len(self.html) / 1e6:.1f} MB of HTML; .save(path) writes it)"

    def _repr_html_(self) -> str:
        source = self.html.replace("&", "&amp;").replace('"', "&quot;")
        style = "width:100%;height:900px;border:0"
        return f'<iframe title="explorer" srcdoc="{source}" style="{style}"></iframe>'


def explore(
    learned: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    k: int = 10,
    feature_names: Names | None = None,
    target_names: Names | None = None,
    title: str = "Who is near whom, and how sure that is",
) -> Page:
    """Return a page to explore points under a learned metric.

    Needs the extra ``explore`` (in a checkout: ``pip install '.[explore]'``). Plotly
    becomes a part of the page: 5 MB, and no network.

    Parameters
    ----------
    learned : estimator, Metric, PosteriorMetric, IntervalMetric or DataTree
        A fit, a metric of any kind, or draws of one; a DataTree is one of ``sample``.
    X : array of shape (n, d)
        At most 2000 points. Each is a query among the others.
    y : array of shape (n,)
        Classes: for colours, and for votes of the neighbours.
    k : int, default=10
        Neighbours that vote, 1 ≤ k < n.
    feature_names : sequence of d str, optional
        Default: those of X, or of the fit, where these have names.
    target_names : sequence of str, optional
        Name of each class code.
    title : str

    Returns
    -------
    Page
        ``.save(path)`` writes it; a notebook shows it as the value of a cell.

    Raises
    ------
    ValueError
        More than 2000 points, as ``nearest``, and for names or labels of another
        number.
    TypeError
        For what is no metric.
    ImportError
        Without the extra.

    Notes
    -----
    Of a metric with ``transform`` the plane is that of the first two principal
    components of the transformed points, and its share of the squared distance is
    stated; of another it is that of the points in standard deviations, which does not
    show the metric. Neighbours are always those under the whole metric.

    Under draws, a neighbour's probability is the share of draws in which it is
    among the k nearest, and a class's the mean share of the k votes. Without draws
    the votes are those of one metric, and not calibrated. Points below .01, and
    those beyond the 5k most probable, are counted together. A distance has limits
    (nominal 90 %) where ``learned`` was made for intervals. Standard deviations of
    the matrix are over draws and no intervals. The points are those that it was
    learned from, as a rule: how it does on others is another question
    (``evaluate``).

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> X, y = np.arange(12.0).reshape(6, 2), [0, 0, 0, 1, 1, 1]
    >>> page = pm.explore(pm.Mahalanobis(np.eye(2)), X, y, k=2)
    >>> page.html.startswith("<!DOCTYPE html>")
    True
    """
    need("explore", "explore", "plotly", "jinja2", "matplotlib")
    from plotly.offline import get_plotlyjs  # pyright: ignore

    from probmetric.plots.style import class_names, marks, metric_of, named_features

    given = X
    check_one_kind(y)
    metric: Any = metric_of(learned)
    if isinstance(metric, xr.DataTree):
        metric = draws_to_metric(metric, "prediction")
    if not hasattr(metric, "is_distance"):
        raise TypeError(
            "learned: expected a fitted estimator, a metric, or draws of one, got "
            f"{type(learned).__name__}"
        )
    check_columns(metric, X=X)
    X = inputs.points(X, "X")
    check_features(metric, X=X)
    if len(X) > MOST_POINTS:
        raise ValueError(
            f"X: expected at most {MOST_POINTS} points on a page, got {len(X)}; choose "
            "some of them, such as rng.choice(len(X), 2000, replace=False)"
        )
    k = check_count("k", k, len(X) - 1, "points beside the query")
    y = np.asarray(y)
    label_codes(y)
    if y.shape != (len(X),):
        raise ValueError(f"y: expected one a point, shape ({len(X)},), got {y.shape}")
    names = named_features(feature_names, given, learned)
    codes, classes = class_names(y, target_names)
    shown = _neighbors(metric, X, codes, len(classes), k)
    points, words = _points(metric, X)
    told = {
        "x": points[:, 0],
        "y": points[:, 1],
        "words": words,
        "codes": codes,
        "classes": classes,
        "marks": [(color, SYMBOLS[marker]) for color, marker in marks(len(classes))],
        "X": X,
        "names": names,
        "k": k,
        **shown,
        "matrix": _matrix(metric, X),
    }
    return Page(
        _template().render(
            title=title,
            told=_json(told),
            plotly=str(get_plotlyjs()),
            about=_about(metric, X),
        )
    )


def _template() -> Any:
    """Return the page's template."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("probmetric.report"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("explore.html.j2")


def _json(told: Any) -> str:
    """Return JSON that can stand within a script: numbers of five digits."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return plain(value.tolist())
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [plain(v) for v in value]
        if isinstance(value, float):
            return float(f"{value:.5g}") if np.isfinite(value) else None
        return value

    return json.dumps(plain(told), separators=(",", ":")).replace("<", "\\u003c")


def _points(metric: Any, X: np.ndarray) -> tuple[np.ndarray, str]:
    """Return points in the plane (n, 2), and what the plane is."""
    from probmetric.plots.space import plane

    one = _single(metric)
    if hasattr(one, "transform"):
        Z, share = plane(np.asarray(one.transform(X)))
        return Z, f"plane of {share.sum():.0%} of the squared distance"
    spread = X.std(0)
    Z, share = plane(X / np.where(spread > 0, spread, 1.0))
    return Z, (
        f"plane of {share.sum():.0%} of the variance of the features: it does not show "
        "this metric, which has no one plane"
    )


def _about(metric: Any, X: np.ndarray) -> str:
    """Return what is shown, in words."""
    points = f"{len(X)} points of {X.shape[1]} features"
    if isinstance(metric, PosteriorMetric):
        kind = type(metric.draws[0]).__name__
        return (
            f"{points}; {metric.n_draws} draws of {kind} ({metric.source}), made for "
            f"{metric.purpose}"
        )
    if isinstance(metric, IntervalMetric):
        kind = type(metric.metric).__name__
        return f"{points}; {kind}, and {len(metric.left_out)} refits without some"
    return f"{points}; {type(metric).__name__}, without draws"


def _single(metric: Any) -> Any:
    """Return one metric: the fit, or that of the mean dissimilarity over draws."""
    if isinstance(metric, IntervalMetric):
        return metric.metric
    return metric.mean_metric() if isinstance(metric, PosteriorMetric) else metric


def _neighbors(
    metric: Any, X: np.ndarray, codes: np.ndarray, n_classes: int, k: int
) -> dict[str, Any]:
    """Return each point's neighbours, how probable and how far, and their votes."""
    one = _single(metric)
    if isinstance(metric, PosteriorMetric):
        P = metric.neighbor_probability(X, X, k, exclude_self=True)
    else:
        P = np.zeros((len(X), len(X)))
        np.put_along_axis(P, nearest(one, X, X, k, exclude_self=True)[1], 1.0, 1)
    votes = P @ np.eye(n_classes)[codes] / k
    # As many as any query has above LEAST, the most probable first, then the nearest.
    width = min(int((P >= LEAST).sum(1).max()), MOST_NEIGHBORS * k)
    order = nearest(one, X, X, len(X) - 1, exclude_self=True)[1]
    by = np.argsort(-np.take_along_axis(P, order, 1), 1, kind="stable")[:, :width]
    index = np.take_along_axis(order, by, 1)
    shares = np.take_along_axis(P, index, 1)
    shares = np.where(shares >= LEAST, shares, 0.0)
    far, limits = _how_far(metric, one, X, index)
    return {
        "draws": isinstance(metric, PosteriorMetric),
        "index": index,
        "probability": shares,
        "others": k - shares.sum(1),
        "far": far,
        "limits": limits,
        "what": "distance" if one.is_distance else "dissimilarity",
        "votes": votes,
    }


def _how_far(
    metric: Any, one: Dissimilarity, X: np.ndarray, index: np.ndarray
) -> tuple[np.ndarray, Any]:
    """Return how far each neighbour is (n, width), and limits where there are some."""
    rows = np.repeat(np.arange(len(X)), index.shape[1])
    A, B = X[rows], X[index.ravel()]
    far = over_draws(between_rows, [one], A, B)[0].reshape(index.shape)
    if getattr(metric, "purpose", "") != "intervals":
        return far, None
    found = metric.interval(A, B)
    return far, [np.asarray(limit).reshape(index.shape) for limit in found]


def _matrix(metric: Any, X: np.ndarray) -> Any:
    """Return M per standard deviation of each feature, and its sd over draws."""
    one = _single(metric)
    d = X.shape[1]
    if not isinstance(one, Mahalanobis) or d > MOST_FEATURES:
        return None
    units = np.outer(*2 * [X.std(0)])
    M = np.asarray(one.factor.T @ one.factor, float) * units
    if not isinstance(metric, PosteriorMetric):
        return {"M": M, "sd": None}
    every: Any = metric.metrics()
    factors = np.stack([np.asarray(draw.factor, float) for draw in every])
    drawn = np.einsum("spi,spj->sij", factors, factors) * units
    return {"M": M, "sd": drawn.std(0)}
