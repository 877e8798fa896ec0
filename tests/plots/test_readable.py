"""Every figure can be read where a page shows it 500 pixels wide."""

import itertools
import re
import sys
from functools import cache
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from matplotlib.text import Text

from probmetric import plots
from probmetric.checks import compare, uniformity
from probmetric.checks.uniformity import Ranks
from probmetric.datasets import load
from probmetric.metric import Mahalanobis
from probmetric.plots.checks import agreement
from probmetric.plots.draws import rank, trace

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import gallery

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


def compared(side):
    sampled = RNG.normal(size=(4, 500, side, side))
    given = xr.Dataset({"M": (("chain", "draw", "i", "j"), sampled)})
    return compare({"M": np.where(np.eye(side) > 0, 0.3, 0)}, given)


def calibration_of(names):
    rows = {name: RNG.integers(0, 40, 200) for name in names}
    ranks = Ranks(rows | {"low": RNG.integers(0, 20, 200)}, 39)
    table = uniformity(ranks)
    return SimpleNamespace(ranks=ranks, table=table, model="m", verdict="disagree")


@cache
def of_data(name):
    """Return what the examples of the gallery show, made from a data set."""
    return gallery.made(load(name))


NAMED = [name for name in gallery.EXAMPLES if name != "objects"]
FIGURES = {
    f"{name}, {data}": lambda n=name, d=data: gallery.run(
        gallery.EXAMPLES[n], of_data(d)
    )
    for data, names in (("wine", NAMED), ("breast_cancer", ["metric"]))
    for name in names
} | {
    "agreement": lambda: agreement(compared(6)),
    "agreement, many": lambda: agreement(compared(13)),
    "det, many": lambda: plots.det(
        np.arange(40_000.0) % 39_989, np.arange(40_000) > 39_700
    ),
    "metric, one": lambda: plots.metric(Mahalanobis(np.diag(1 / SD))),
    "objects": lambda: plots.objects(
        Mahalanobis(np.array([[0, 1, 3, 4.0, 2], [0, 2, 1, 3, 4]])),
        names=WINE.feature_names[:5],
    ),
    "rank": lambda: rank(of_data("wine")["draws"]),
    "sbc, disagree": lambda: plots.sbc(calibration_of("abcde")),
    "sbc, many": lambda: plots.sbc(calibration_of(map(str, range(30)))),
    "trace": lambda: trace(of_data("wine")["draws"]),
}


SEVERAL = {"metric": 2, "matrix": 2, "before_after": 2}
SEVERAL |= {"likelihood_ratios": 3, "curves": 4}
"""Axes of figures that have several, for data of four features."""


ACCEPTED = {n: {*signature(getattr(plots, n)).parameters} for n in gallery.EXAMPLES}


@pytest.mark.parametrize("name", [n for n in ACCEPTED if {"ax", "axes"} & ACCEPTED[n]])
def test_a_figure_is_drawn_on_the_axes_that_it_is_given(name):
    number = SEVERAL.get(name, 1)
    mine = plt.figure(figsize=(9, 4), layout="constrained")
    axes = mine.subplots(1, number, squeeze=False)[0]
    given = {"axes": axes} if "axes" in ACCEPTED[name] else {"ax": axes[0]}
    code = re.sub(r",?\s*\)$", ", **given)", gallery.EXAMPLES[name].strip())
    assert gallery.run(code, of_data("iris") | {"given": given}) is mine
    assert all(axis.has_data() for axis in axes)


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_readable_on_a_page(name):
    assert not unreadable(FIGURES[name]())


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
