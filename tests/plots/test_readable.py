"""Every figure can be read where a page shows it 500 pixels wide."""

import itertools
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr
from matplotlib.text import Text

from probmetric import plots
from probmetric.checks import ModelVerdict, compare, uniformity
from probmetric.checks.criticism import Finding, Part
from probmetric.checks.uniformity import Ranks
from probmetric.data import Pairs
from probmetric.datasets import load
from probmetric.metric import Mahalanobis, SplineCityBlock
from probmetric.plots.checks import agreement
from probmetric.plots.draws import rank, trace
from probmetric.posterior import PosteriorMetric, curves

PAGE, SMALLEST = 500, 6.0
"""Width of a figure on a page, and the least size of its letters, in pixels."""

WINE = load("wine")
X, y = WINE
D, SD = X.shape[1], X.std(0)
RNG = np.random.default_rng(0)


def within(place, ends):
    """Say whether a place lies between two ends, give or take rounding."""
    low, high = np.sort(ends)
    room = 1e-12 * (high - low)
    return low - room <= place <= high + room


def written(figure):
    """Return the texts of a figure that are drawn, as drawn, with their boxes."""
    figure.set_dpi(PAGE / figure.get_figwidth())
    figure.canvas.draw()
    hidden = {
        id(label)
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks() + axis.get_minor_ticks()
        for label in (tick.label1, tick.label2)
        if not (axes.axison and within(tick.get_loc(), axis.get_view_interval()))
    }
    found = [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and id(text) not in hidden
    ]
    return [(text, text.get_window_extent()) for text in found]


def unreadable(figure):
    """Return what cannot be read: letters too small, texts cut or over each other."""
    texts, said = written(figure), []
    page, scale = figure.bbox, figure.dpi / 72
    for text, box in texts:
        name = text.get_text().replace("\n", " ")
        if text.get_fontsize() * scale < SMALLEST:
            said.append(f"small: {name}")
        if min(box.x0, box.y0) < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1:
            said.append(f"cut: {name}")
    for (one, a), (other, b) in itertools.combinations(texts, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        if across > 1 and down > 1:
            said.append(f"over each other: {one.get_text()}, {other.get_text()}")
    return said


def wishart(names, points):
    d = len(names)
    W = np.linalg.qr(RNG.normal(size=(d, d)))[0] * np.geomspace(2, 0.05, d)[:, None]
    A = (W + 0.15 * RNG.normal(size=(2, 60, d, d))) / points.std(0)
    dims = ("chain", "draw", "feature", "feature_bis")
    M = np.einsum("...pi,...pj->...ij", A, A)
    posterior = xr.Dataset(
        {"M": (dims, M), "b": (dims[:2], RNG.gamma(50, 0.01, (2, 60)))},
        {"chain": [0, 1], "draw": range(60), "feature": names, "feature_bis": names},
    )
    data = xr.Dataset({"X": (("point", "feature"), points)})
    return xr.DataTree.from_dict({"posterior": posterior, "constant_data": data})


def draws():
    return wishart(list(WINE.feature_names), X)


def thirty():
    data = load("breast_cancer")
    return wishart(list(data.feature_names), data.X)


def compared(side):
    sampled = RNG.normal(size=(4, 500, side, side))
    given = xr.Dataset({"M": (("chain", "draw", "i", "j"), sampled)})
    return compare({"M": np.where(np.eye(side) > 0, 0.3, 0)}, given)


def pairs():
    i, j = RNG.integers(len(X), size=(2, 400))
    i, j = i[i != j], j[i != j]
    return Pairs(X, i, j, (y[i] == y[j]).astype(int))


def verdict():
    at = np.linspace(0.05, 0.95, 10)
    share = np.exp(-2 * at)
    bins = pd.DataFrame(
        {"at": at, "observed": share, "expected": share, "low": share * 0.8,
         "high": share * 1.1, "pairs": 40}
    )  # fmt: skip
    found = [
        Finding(part, 1.0, 0.4, 0.1, 1.0, "", "", bins)
        for part in ("predictive", "calibration")
    ]
    return ModelVerdict("lca", tuple(Part(one, 0.4, "adequate") for one in found))


def calibration_of(names):
    rows = {name: RNG.integers(0, 40, 200) for name in names}
    ranks = Ranks(rows | {"low": RNG.integers(0, 20, 200)}, 39)
    table = uniformity(ranks)
    return SimpleNamespace(ranks=ranks, table=table, model="m", verdict="disagree")


def wine_curves():
    """Curves of all features of wine, with limits."""
    knots, rises = np.quantile(X, [0, 0.5, 1], axis=0).T, RNG.uniform(size=(20, D, 3))
    draws = [SplineCityBlock(knots, rise) for rise in rises]
    return curves(draws[0], PosteriorMetric(draws, "intervals", pairs_independent=True))


def posterior():
    metrics = [Mahalanobis(np.diag(s / SD)) for s in RNG.uniform(0.7, 1.3, (20, D))]
    return PosteriorMetric(metrics, "prediction")


P = RNG.random(300)
NAMES = {"feature_names": WINE.feature_names, "target_names": WINE.target_names}
METRIC = Mahalanobis(np.diag(1 / SD))
FIGURES = {
    "agreement": lambda: agreement(compared(6)),
    "agreement, many": lambda: agreement(compared(13)),
    "before_after": lambda: plots.before_after(
        METRIC, X, y, target_names=WINE.target_names
    ),
    "calibration": lambda: plots.calibration(P > 0.5, {"a": P, "b": P**2}, band=0.9),
    "curves": lambda: plots.curves(wine_curves(), WINE.feature_names),
    "det": lambda: plots.det({"learned": P, "flat": P**2}, P > 0.6),
    "likelihood_ratios": lambda: plots.likelihood_ratios(5 * (P - 0.5), P**2 > 0.4),
    "objects": lambda: plots.objects(
        Mahalanobis(np.array([[0, 1, 3, 4.0, 2], [0, 2, 1, 3, 4]])),
        names=WINE.feature_names[:5],
    ),
    "typicality": lambda: plots.typicality(P, P > 0.6),
    "det, many": lambda: plots.det(
        np.arange(40_000.0) % 39_989, np.arange(40_000) > 39_700
    ),
    "eigenvalues": lambda: plots.eigenvalues(draws(), reference=np.diag(1 / SD**2)),
    "embedding": lambda: plots.embedding(
        METRIC, X, y, links=3, target_names=WINE.target_names
    ),
    "importance": lambda: plots.importance(METRIC, WINE.frame),
    "local_ellipses": lambda: plots.local_ellipses(
        METRIC, X, y, features=(0, 12), **NAMES
    ),
    "metric": lambda: plots.metric(draws()),
    "metric, 30 features": lambda: plots.metric(thirty()),
    "model_check": lambda: plots.model_check(verdict()),
    "neighbor_probabilities": lambda: plots.neighbor_probabilities(
        posterior(), X[0], X[1:], 5, y=y[1:], target_names=WINE.target_names
    ),
    "predictive_check": lambda: plots.predictive_check(draws(), pairs()),
    "rank": lambda: rank(draws()),
    "sbc": lambda: plots.sbc(calibration_of("abcde")),
    "sbc, many": lambda: plots.sbc(calibration_of(map(str, range(30)))),
    "trace": lambda: trace(draws()),
    "matrix": lambda: plots.matrix(METRIC, X, feature_names=WINE.feature_names),
    "metric, one": lambda: plots.metric(METRIC),
    "pair_histogram": lambda: plots.pair_histogram(METRIC, X, y),
}


@pytest.fixture(autouse=True)
def let_go():
    yield
    plt.close("all")


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_readable_on_a_page(name):
    assert not unreadable(FIGURES[name]())


def test_every_public_figure_is_looked_at():
    assert {name.split(",")[0] for name in FIGURES} >= {*plots.__all__}


def test_what_cannot_be_read_would_be_named():
    figure, axis = plt.subplots(figsize=(20, 3))
    axis.set_xticks(range(13), WINE.feature_names, fontsize=20)
    axis.set_yticks([], [])
    axis.set_title("letters of ten points in twenty inches", fontsize=10)
    axis.text(1.0, 0.5, "beyond the right side", fontsize=20)
    axis.set_xlim(0, 12)
    axis.text(12, 0.5, "beyond the right side", fontsize=20)
    said = unreadable(figure)
    assert "small: letters of ten points in twenty inches" in said
    assert "cut: beyond the right side" in said
    assert "over each other: alcalinity_of_ash, magnesium" in said


def test_an_ellipse_is_where_the_metric_says_with_features_of_different_units():
    """In wine's input units: alcohol reaches over 4, proline over 1400."""
    A = np.diag(1 / SD) + np.outer(np.eye(D)[0], np.eye(D)[12]) / SD[12] / 2
    metric, at = Mahalanobis(A), X[:1]
    axis = plots.local_ellipses(metric, X, y, at=at, features=(0, 12)).axes[0]
    turn = np.linspace(0, 6, 20)
    unit = np.stack([np.cos(turn), np.sin(turn)], 1)
    on_it = np.repeat(at, 20, 0)
    on_it[:, [0, 12]] = axis.patches[0].get_patch_transform().transform(unit)
    distances = metric.distance(on_it, np.repeat(at, 20, 0))
    np.testing.assert_allclose(distances, distances[0], rtol=1e-10)
    # And it is seen: a hundredth of either axis or more.
    box = axis.patches[0].get_window_extent()
    assert min(box.width / axis.bbox.width, box.height / axis.bbox.height) > 0.01
    assert np.ptp(X[:, 0]) > 0.5 * np.ptp(axis.get_xlim())


def test_no_two_curves_of_ranks_look_the_same():
    found = calibration_of("abcde")
    found.ranks.ranks.update({"low too": RNG.integers(0, 20, 200)})
    found.table = uniformity(found.ranks)
    lines = plots.sbc(found).axes[0].get_lines()[:-1]  # The last one is zero.
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(looks) == len(lines) == 7
