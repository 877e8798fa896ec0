"""Numbers and marks in figures equal values that were computed by hand."""

import warnings
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_hex, to_rgb

import probmetric as pm
from probmetric import plots
from probmetric.data import Pairs
from probmetric.plots.checks import _replicated_shares
from probmetric.plots.style import NAME, class_marks, readable, styled
from tests.dump import assert_refused
from tests.metric_kinds import build

RNG = np.random.default_rng(0)
DIMS = ("chain", "draw", "feature", "feature_bis")
LONG = "a name of which no figure has room for all letters, since they are too many"


def points(classes, each=3):
    y = np.repeat(np.arange(classes), each)
    return RNG.normal(size=(len(y), 2)), y


def drawn_marks(axis):
    """Return the color and the outline of each scatter of an axis."""
    return {
        (to_hex(one.get_facecolor()[0]), one.get_paths()[0].vertices.tobytes())
        for one in axis.collections
        if len(one.get_offsets())
    }


def legend(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def assert_legend_is_whole(figure):
    figure.canvas.draw()
    box = figure.axes[0].get_legend().get_window_extent()
    page = figure.bbox
    assert box.x0 >= page.x0
    assert box.x1 <= page.x1 + 1
    assert box.y0 >= page.y0 - 1
    assert box.y1 <= page.y1 + 1


def test_classes_beyond_64_are_other_classes():
    X, y = points(70, each=2)
    names = [f"a rather long class name {k}" for k in range(70)]
    figure = plots.embedding(pm.Mahalanobis(np.eye(2)), X, y, target_names=names)
    assert len(drawn_marks(figure.axes[0])) == 65
    assert legend(figure.axes[0])[-1] == "6 other classes (12)"
    assert_legend_is_whole(figure)
    assert [words for _, words, *_ in class_marks(y, names)][63] == names[63]


def test_a_fitted_learner_has_a_heat_map_per_standard_deviation():
    X = RNG.normal(size=(40, 2)) * [1, 10]
    frame, y = pd.DataFrame(X, columns=["length", "width"]), np.arange(40) % 2
    lda = pm.LDA().fit(frame, y)
    figure = plots.metric(lda)
    axis, scale = figure.axes[0], X.std(0)
    expected = lda.get_mahalanobis_matrix() * np.outer(scale, scale)
    np.testing.assert_allclose(axis.images[0].get_array(), expected)
    assert [t.get_text() for t in axis.get_xticklabels()] == ["length", "width"]
    assert axis.get_title("left") == "The metric's matrix,\nper sd of each feature"
    raw = plots.metric(pm.LDA(standardize=False).fit(frame, y)).axes[0]
    assert raw.get_title("left").endswith("in input units")


def test_a_predictive_band_holds_95_percent():
    """P = 1/2 for each of 400 pairs: a share has the sd 0.025, and 95% are in 1.96."""
    M = xr.DataArray(np.zeros((1, 4000, 1, 1)), dims=DIMS)
    draws = xr.Dataset({"M": M, "b": (DIMS[:2], np.full((1, 4000), np.log(2)))})
    i = np.arange(400)
    pairs = Pairs(RNG.normal(size=(800, 1)), i, i + 400, (i % 4 == 0).astype(int))
    axis = plots.predictive_check(draws, pairs, max_draws=4000).axes[0]
    heights = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert abs(np.ptp(heights) / 2 / 0.025 - 1.96) < 0.12
    assert axis.lines[-1].get_ydata().tolist() == [0.25]


@pytest.mark.parametrize("plot", ["calibration", "det"])
def test_nine_curves_have_nine_marks(plot):
    p, same = RNG.random(200), np.arange(200) % 2 == 0
    curves = {f"method {k}": p for k in range(9)}
    if plot == "calibration":
        axis = plots.calibration(same, curves).axes[0]
        lines = [one.lines[0] for one in axis.containers]
    else:
        axis = plots.det(curves, same).axes[0]
        lines = [one for one in axis.lines if one.get_label().startswith("method")]
    looks = {(one.get_color(), one.get_marker()) for one in lines}
    assert len(looks) == len(lines) == 9
    assert len(legend(axis)) == 9
    assert_legend_is_whole(axis.figure)


@pytest.mark.parametrize("plot", [plots.embedding, plots.local_ellipses,
                                  plots.pair_histogram])  # fmt: skip
def test_figures_of_points_refuse_what_is_missing(plot):
    metric, (X, y) = pm.Mahalanobis(np.eye(2)), points(2)
    with pytest.raises(ValueError, match="X must be finite numbers, got NaN"):
        plot(metric, np.where(np.eye(6, 2) > 0, np.nan, X), y)
    with pytest.raises(ValueError, match=r"y must have shape \(6,\), got \(5,\)"):
        plot(metric, X, y[:5])
    with pytest.raises(ValueError, match="y must have a label in every row"):
        plot(metric, X, np.array([None, *y[1:]], object))


@pytest.mark.parametrize("plot", [plots.embedding, plots.local_ellipses,
                                  plots.pair_histogram])  # fmt: skip
def test_figures_of_points_refuse_columns_in_another_order(plot):
    X, y = points(2)
    frame = pd.DataFrame(X, columns=["length", "width"])
    fit = pm.LDA().fit(frame, y)
    with pytest.raises(ValueError, match=r"X must .* in another order"):
        plot(fit, frame[["width", "length"]], y)


def one_draw():
    return pm.posterior.PosteriorMetric([pm.Mahalanobis(np.eye(2))], "intervals")


def test_lines_are_visible_on_a_dark_page():
    metric = pm.Mahalanobis(np.eye(2))
    with plt.style.context("dark_background"):
        axis = plots.embedding(metric, np.eye(2), [0, 1], links=1).axes[0]
    assert to_rgb(axis.collections[1].get_edgecolor()[0]) == (1, 1, 1)


def test_long_names_leave_room_for_the_figure():
    X, y = points(2)
    frame = pd.DataFrame(X, columns=[f"{LONG}, width", f"{LONG}, height"])
    metric, names = pm.Mahalanobis(np.eye(2)), [f"{LONG} 0", f"{LONG} 1"]
    near = one_draw()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for figure in (
            plots.embedding(metric, X, y, target_names=names),
            plots.matrix(metric, frame),
            plots.neighbor_probabilities(near, X[0], X, 2, y=y, target_names=names),
            plots.calibration(y, dict.fromkeys(names, y / 2)),
        ):
            figure.canvas.draw()
    assert NAME == 32
    shown = styled(lambda: readable([f"{LONG} 0", f"{LONG} 1", "short"]))()
    ends = ["a name of which no f… too many 0", "a name of which no f… too many 1"]
    assert shown == [*ends, "short"]


def test_letters_that_no_font_has_are_codes_with_one_plain_warning(monkeypatch):
    monkeypatch.setattr(
        "probmetric.plots.style._has", lambda path, letter: letter < "Ā"
    )
    frame = pd.DataFrame(np.eye(2), columns=["猫", "犬"])
    with pytest.warns(UserWarning, match="letters '犬猫'") as seen:
        figure = plots.importance(pm.Mahalanobis(np.eye(2)), frame)
    assert len(seen) == 1
    axis = figure.axes[0]
    assert [t.get_text() for t in axis.get_yticklabels()] == [r"\u732b", r"\u72ac"]


MISSING = xr.Dataset({"M": (DIMS, np.array([1.0, np.nan]).reshape(1, 2, 1, 1))})
JUDGED = xr.Dataset({"M": (DIMS, np.ones((1, 2, 1, 1))), "b": (DIMS[:2], [[1, 1.0]])})
HALF = Pairs(np.ones((4, 1)), np.array([0]), np.array([1]), np.array([np.nan]))


WRONG = [
    (plots.metric, [np.eye(2)]),
    (plots.metric, [build("LocalMahalanobis")]),
    (plots.metric, [pm.LDA]),
    (plots.metric, [xr.Dataset({"W": 1})]),
    (plots.metric, [MISSING]),
    (plots.eigenvalues, [MISSING]),
    (plots.predictive_check, [JUDGED, HALF]),
    (plots.embedding, [object(), np.eye(2), [0, 1]]),
    (plots.calibration, [[0, 1], [0.1, 1.5]]),
    (plots.calibration, [[0], {"a": [np.nan]}]),
    (plots.calibration, [[], []]),
]


def test_arguments_are_refused_by_name_and_value():
    calls = [partial(plot, *arguments) for plot, arguments in WRONG]
    assert_refused(calls, "plots/refused.txt")


def test_a_font_that_has_the_letters_is_used(monkeypatch):
    def has(path, letter):
        return "DejaVuSerif" in path

    monkeypatch.setattr("probmetric.plots.style._has", has)
    frame = pd.DataFrame(np.eye(2), columns=["ж", "left"])
    figure = plots.importance(pm.Mahalanobis(np.eye(2)), frame)
    labels = figure.axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == ["ж", "left"]
    assert all("DejaVu Serif" in label.get_fontfamily() for label in labels)


def test_the_plane_has_the_shares_of_both_of_its_axes():
    """Variances 6, 3 and 1 along the axes: 90% of the squared distance."""
    signs = np.array(list(np.ndindex(2, 2, 2))) * 2 - 1
    X = signs * np.sqrt([6.0, 3.0, 1.0])
    axis = plots.embedding(pm.Mahalanobis(np.eye(3)), X, np.arange(8) % 2).axes[0]
    assert "plane of 90% of the squared distance" in axis.get_title("left")


def test_replicated_shares_follow_the_model():
    """20,000 labels at squared distance 2 and b = 0.3: P = exp(-1.3), sd 0.0032."""
    delta, which = np.full((20_000, 2), 1.0), np.zeros(20_000, int)
    shares = _replicated_shares(
        np.eye(2)[None], np.array([0.3]), delta, which, np.random.default_rng(0)
    )
    assert abs(shares[0, 0] - np.exp(-1.3)) < 0.016  # five sd
