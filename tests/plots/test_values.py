"""Numbers and marks in figures equal values that were computed by hand."""

import warnings
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_hex, to_rgb
from scipy.stats import binom, norm

import probmetric as pm
from probmetric import plots
from probmetric.checks.uniformity import Ranks
from probmetric.data import Pairs
from probmetric.plots.checks import agreement
from probmetric.plots.style import NAME, class_marks, readable, styled
from tests.metric_kinds import build

RNG = np.random.default_rng(0)
DIMS = ("chain", "draw", "feature", "feature_bis")
LONG = "a name of which no figure has room for all letters, since they are too many"


@pytest.fixture(autouse=True)
def let_go():
    """Let go of the figures of each test, which pyplot keeps."""
    yield
    plt.close("all")


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


@pytest.mark.parametrize("plot", [plots.embedding, plots.local_ellipses])
def test_ten_classes_have_ten_marks_and_a_whole_legend(plot):
    X, y = points(10)
    figure = plot(pm.Mahalanobis(np.eye(2)), X, y)
    assert len(drawn_marks(figure.axes[0])) == 10
    assert [text.split()[0] for text in legend(figure.axes[0])] == list("0123456789")
    assert_legend_is_whole(figure)


def test_classes_beyond_64_are_other_classes():
    X, y = points(70, each=2)
    names = [f"a rather long class name {k}" for k in range(70)]
    figure = plots.embedding(pm.Mahalanobis(np.eye(2)), X, y, target_names=names)
    assert len(drawn_marks(figure.axes[0])) == 65
    assert legend(figure.axes[0])[-1] == "6 other classes (12)"
    assert_legend_is_whole(figure)
    assert [words for _, words, *_ in class_marks(y, names)][63] == names[63]


def test_whiskers_are_those_of_the_bars_if_order_is_not_index():
    """Shares 0.2, 0.5 and 0.3 of ten draws: the second point comes first."""
    nearest = [0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    draws = [pm.Mahalanobis(np.diag(np.where(np.arange(3) == k, 1, 2.0)))
             for k in nearest]  # fmt: skip
    near = pm.posterior.PosteriorMetric(draws, "prediction")
    axis = plots.neighbor_probabilities(near, np.zeros(3), np.eye(3), 1).axes[0]
    assert [t.get_text() for t in axis.get_yticklabels()] == ["1", "2", "0"]
    np.testing.assert_allclose([bar.get_width() for bar in axis.patches],
                               [0.5, 0.3, 0.2])  # fmt: skip
    (whiskers,) = axis.containers[0].lines[2]
    ends = np.array([segment[:, 0] for segment in whiskers.get_segments()])
    half = np.sqrt([0.025, 0.021, 0.016])
    np.testing.assert_allclose(np.ptp(ends, axis=1) / 2, half)


def test_directions_are_shares_of_the_mean_squared_distance():
    """L Cov(X) Lᵀ = [[2, 3], [3, 18]] has the eigenvalues 10 ± √73."""
    root = np.linalg.cholesky([[2.0, 1.0], [1.0, 2.0]])
    X = np.concatenate([root.T, -root.T]) * np.sqrt(2)
    np.testing.assert_allclose(np.cov(X.T, bias=True), [[2, 1], [1, 2]])
    figure = plots.matrix(pm.Mahalanobis(np.diag([1.0, 3.0])), X)
    widths = [bar.get_width() for bar in figure.axes[1].patches]
    np.testing.assert_allclose(widths, 0.5 + np.array([1, -1]) * np.sqrt(73) / 20)
    np.testing.assert_allclose(
        figure.axes[0].images[0].get_array(), [[2, 0], [0, 18]], atol=1e-12
    )
    assert figure.axes[1].get_title("left") == "How many directions matter"
    i, j = np.divmod(np.arange(16), 4)
    mean_square = np.mean(np.sum(((X[i] - X[j]) * [1, 3]) ** 2, 1))
    np.testing.assert_allclose(mean_square, 2 * 20)


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


def test_a_metric_and_draws_of_one_have_heat_maps():
    one = plots.metric(pm.Mahalanobis(np.array([[1.0, 2.0], [0.0, 1.0]])))
    np.testing.assert_array_equal(one.axes[0].images[0].get_array(), [[1, 2], [2, 5]])
    draws = [pm.Mahalanobis(np.eye(1) * s) for s in (1.0, 1.0, 2.0)]
    several = plots.metric(pm.posterior.PosteriorMetric(draws, "prediction"))
    mean, sd = (axis.images[0].get_array().item() for axis in several.axes[:2])
    np.testing.assert_allclose([mean, sd], [2, np.sqrt(2)])
    jackknife = plots.metric(pm.posterior.IntervalMetric(draws[2], draws[:2]))
    assert jackknife.axes[0].images[0].get_array().item() == 4


def test_the_mean_over_draws_is_no_median():
    """Draws 1, 1 and 4 of M: mean 2, median 1, standard deviation √2."""
    M = xr.DataArray(np.reshape([1.0, 1.0, 4.0], (1, 3, 1, 1)), dims=DIMS)
    draws = xr.Dataset({"M": M})
    first, second = plots.metric(draws).axes[:2]
    assert first.images[0].get_array().item() == 2
    np.testing.assert_allclose(second.images[0].get_array().item(), np.sqrt(2))
    median, mean = plots.eigenvalues(draws).axes[0].lines[:2]
    assert median.get_xdata()[0] == 1
    assert mean.get_xdata()[0] == 2


def test_lines_of_eigenvalues_contain_90_and_50_percent_of_the_draws():
    M = xr.DataArray(np.arange(1.0, 102).reshape(1, 101, 1, 1), dims=DIMS)
    thin, thick = plots.eigenvalues(xr.Dataset({"M": M})).axes[0].collections
    for lines, wanted in ((thin, [6, 96]), (thick, [26, 76])):
        np.testing.assert_allclose(lines.get_segments()[0][:, 0], wanted)


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


def test_counts_are_shares_of_their_judges():
    """Of 2 and 6 judges, 1 and 5 said yes: 6 of 8 in the one bin."""
    M = xr.DataArray(np.zeros((1, 50, 1, 1)), dims=DIMS)
    draws = xr.Dataset({"M": M, "b": (DIMS[:2], np.full((1, 50), np.log(2)))})
    ends = np.array([0, 0]), np.array([1, 1])
    judges = np.array([2, 6])
    pairs = Pairs(np.eye(2, 1), *ends, np.array([1, 5]), trials=judges)
    axis = plots.predictive_check(draws, pairs).axes[0]
    assert axis.lines[-1].get_ydata().tolist() == [0.75]


def test_replicated_labels_have_the_probability_of_half_the_squared_distance():
    """M = 4 at distance 1: P = exp(-(0.1 + 4/2)); 5 sd of 200 × 400 labels."""
    M = xr.DataArray(np.full((1, 200, 1, 1), 4.0), dims=DIMS)
    draws = xr.Dataset({"M": M, "b": (DIMS[:2], np.full((1, 200), 0.1))})
    i = np.arange(400)
    pairs = Pairs(np.repeat([[0.0], [1.0]], 400, 0), i, i + 400, i % 2)
    axis = plots.predictive_check(draws, pairs).axes[0]
    P = np.exp(-2.1)
    limit = 5 * np.sqrt(P * (1 - P) / 80_000)
    assert abs(axis.lines[0].get_ydata()[0] - P) < limit


def test_ends_of_a_det_plot_are_half_a_pair_of_either_kind():
    same = np.arange(22) < 2
    axis = plots.det(np.where(same, 1.0, 0.0) + 0.01 * np.arange(22), same).axes[0]
    x, y = norm.ppf([0.5 / 20, 0.5 / 2])
    np.testing.assert_allclose(axis.get_xlim(), [x - 0.1, -x + 0.1])
    np.testing.assert_allclose(axis.get_ylim(), [y - 0.1, max(-y, 0.1) + 0.1])


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


def test_constants_that_disagree_are_drawn_at_the_edge():
    """Constant draws have no Monte Carlo error, and so no z."""
    constant, shape = np.ones((4, 500)), ("chain", "draw", "i")
    values = np.stack([RNG.normal(size=(4, 500)), constant, constant], -1)
    found = pm.checks.compare(
        {"a": np.array([0.0, 2.0, 1.0])}, xr.Dataset({"a": (shape, values)})
    )
    left = agreement(found).axes[0]
    places = np.concatenate([np.asarray(one.get_offsets()) for one in left.collections])
    shown = dict(places[:, ::-1])
    assert shown[1] == pytest.approx(left.get_xlim()[0])
    assert shown[2] == 0


def one_draw():
    return pm.posterior.PosteriorMetric([pm.Mahalanobis(np.eye(2))], "prediction")


def test_lines_are_visible_on_a_dark_page():
    X = np.eye(2)
    with plt.style.context("dark_background"):
        bars = plots.neighbor_probabilities(one_draw(), X[0], X, 1).axes[0]
    (whiskers,) = bars.collections
    assert to_rgb(whiskers.get_edgecolor()[0]) == (1, 1, 1)


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


@pytest.mark.parametrize(
    ("plot", "arguments", "words"),
    [
        (plots.metric, [np.eye(2)], "learned must .* got ndarray"),
        (plots.metric, [build("LocalMahalanobis")], "learned must .* got LocalM"),
        (plots.metric, [pm.LDA], "learned must .* got the class LDA"),
        (plots.metric, [xr.Dataset({"W": 1})], "draws must have M, got W"),
        (plots.metric, [MISSING], "draws must be finite, got NaN .* in M"),
        (plots.eigenvalues, [MISSING], "draws must be finite, got NaN .* in M"),
        (plots.predictive_check, [JUDGED, HALF], r"pairs\.y .* got NaN"),
        (plots.embedding, [object(), np.eye(2), [0, 1]], "learned must .*got object"),
        (plots.calibration, [[0, 1], [0.1, 1.5]], r"probability must .* got 1\.5"),
        (plots.calibration, [[0], {"a": [np.nan]}], "probability must .* nan in 'a'"),
        (plots.calibration, [[], []], r"probability must .* got shape \(0,\)"),
    ],
)
def test_arguments_are_refused_by_name_and_value(plot, arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        plot(*arguments)


def test_the_figure_of_ranks_names_what_disagrees():
    rng = np.random.default_rng(0)
    rows = {"right": rng.integers(0, 40, 300), "low": rng.integers(0, 20, 300)}
    ranks = Ranks(rows, 39)
    table = pm.checks.uniformity(ranks)
    found = SimpleNamespace(ranks=ranks, table=table, model="m", verdict="disagree")
    axis = pm.plots.sbc(found).axes[0]
    colors = {line.get_label(): line.get_color() for line in axis.get_lines()}
    assert colors["low"] == "#D55E00"
    assert colors["right"] != "#D55E00"
    assert "disagree (300 simulated worlds)" in axis.get_title(loc="left")
    x, y = axis.collections[0].get_paths()[0].vertices.T
    limits = binom.ppf([0.005, 0.995], 300, 0.5) / 300 - 0.5  # Contains 99%.
    np.testing.assert_allclose(np.unique(y[np.isclose(x, 0.5)]), limits)
    with pytest.raises(ValueError, match=r"found must be the result of probmetric.sbc"):
        pm.plots.sbc(table)


def test_bars_of_neighbors_are_labeled_by_class():
    X = np.eye(10)
    near = pm.posterior.PosteriorMetric([pm.Mahalanobis(np.eye(10))], "prediction")
    names = [f"class {k}" for k in range(10)]
    figure = plots.neighbor_probabilities(
        near, X[8] * 0.9, X, 1, y=np.arange(10), target_names=names
    )
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["8: class 8"]


def test_directions_that_are_left_out_are_counted():
    X = RNG.normal(size=(50, 30))
    axis = plots.matrix(pm.Mahalanobis(np.eye(30)), X).axes[1]
    assert len(axis.patches) == 20
    assert "(20 of 30 directions shown)" in axis.get_title("left")


def test_a_font_that_has_the_letters_is_used(monkeypatch):
    def has(path, letter):
        return "DejaVuSerif" in path

    monkeypatch.setattr("probmetric.plots.style._has", has)
    frame = pd.DataFrame(np.eye(2), columns=["ж", "left"])
    figure = plots.importance(pm.Mahalanobis(np.eye(2)), frame)
    labels = figure.axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == ["ж", "left"]
    assert all("DejaVu Serif" in label.get_fontfamily() for label in labels)


def test_importance_is_the_distance_of_one_standard_deviation():
    """√(M_kk) times the standard deviations 2, 1 and 3; off-diagonals do not count."""
    L = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.5]])
    X = np.array([[2.0, 1.0, 3.0], [-2.0, -1.0, -3.0]])
    fits = [pm.Mahalanobis(s * L) for s in (1.0, 0.8, 1.3)]
    metric = pm.posterior.IntervalMetric(fits[0], fits[1:])
    axis = plots.importance(metric, X, prob=0.5).axes[0]
    np.testing.assert_allclose(axis.lines[0].get_xdata(), [np.sqrt(5), 2, 1.5])
    assert [t.get_text() for t in axis.get_yticklabels()] == ["x1", "x0", "x2"]
    (lines,) = axis.collections
    ends = [segment[:, 0] for segment in lines.get_segments()]
    low, high = metric.interval(np.zeros((3, 3)), np.diag([2.0, 1, 3]), prob=0.5)
    np.testing.assert_allclose(ends, np.stack([low, high], 1)[[1, 0, 2]])
    alone = plots.importance(fits[0]).axes[0]
    np.testing.assert_allclose(alone.lines[0].get_xdata(), [np.sqrt(5), 1, 0.5])
    assert not alone.collections


def test_before_and_after_have_the_links_of_their_own_metric():
    """Eight columns of noise hide the classes that the first column separates."""
    y = np.repeat([0, 1], 20)
    X = np.column_stack([y + RNG.normal(size=40) / 9, RNG.normal(size=(40, 8))])
    figure = plots.before_after(pm.Mahalanobis(np.eye(1, 9)), X, y, links=2)
    crossing = []
    for Z in (X / X.std(0), X[:, :1]):
        near = np.argsort(
            np.linalg.norm(Z[:, None] - Z, axis=2) + np.diag([np.inf] * 40), axis=1
        )[:, :2]
        crossing.append(f"({np.mean(y[near] != y[:, None]):.1%})")
    assert crossing[0] != crossing[1] == "(0.0%)"
    assert [axis.get_xlabel().split()[-1] for axis in figure.axes] == crossing


def test_only_the_most_distant_pairs_are_left_out_of_the_histogram():
    """One of 100 points is far: 2% of the pairs have it, more than the 0.5% cut."""
    X = np.append(np.linspace(0, 1, 99), 50.0)[:, None]
    axis = plots.pair_histogram(pm.Mahalanobis(np.eye(1)), X, np.arange(100) % 2).axes[
        0
    ]
    right = max(bar.get_x() + bar.get_width() for bar in axis.patches)
    assert 49 <= right <= 50


def test_codes_are_places_among_the_names():
    X = np.arange(8.0).reshape(4, 2) ** 1.5
    figure = plots.embedding(
        pm.Mahalanobis(np.eye(2)),
        X,
        np.array([0, 2, 2, 2]),
        target_names=["u", "v", "w"],
    )
    assert set(legend(figure.axes[0])) == {"u (1)", "w (3)"}


def test_the_plane_has_the_shares_of_both_of_its_axes():
    """Variances 6, 3 and 1 along the axes: 90% of the squared distance."""
    signs = np.array(list(np.ndindex(2, 2, 2))) * 2 - 1
    X = signs * np.sqrt([6.0, 3.0, 1.0])
    axis = plots.embedding(pm.Mahalanobis(np.eye(3)), X, np.arange(8) % 2).axes[0]
    assert "plane of 90% of the squared distance" in axis.get_title("left")
