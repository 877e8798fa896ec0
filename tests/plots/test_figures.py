"""Every plot shows what it is given: names, counts, verdicts, and never nothing."""

import io
import types

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from IPython.core.formatters import DisplayFormatter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.linalg import orthogonal_procrustes
from scipy.stats import chi2, norm
from sklearn.metrics import det_curve

from probmetric import plots
from probmetric.checks.compare import compare
from probmetric.data.containers import Pairs
from probmetric.datasets import loading as datasets
from probmetric.evaluation import verification
from probmetric.metric import Link, Mahalanobis, SplineCityBlock
from probmetric.plots.checks import agreement
from probmetric.plots.draws import rank, trace
from probmetric.posterior.curves import curves
from probmetric.posterior.metric import PosteriorMetric

NAMES = ["alcohol", "malic acid", "ash"]
RNG = np.random.default_rng(0)


def wishart_draws(chains=4, draws=250):
    W = np.array([[2.0, 0, 0], [0, 1, 0], [0, 0, 0.1]])
    W = W + 0.2 * RNG.standard_normal((chains, draws, 3, 3))
    return xr.Dataset(
        {
            "M": (
                ("chain", "draw", "feature", "feature_bis"),
                np.einsum("...pi,...pj->...ij", W, W),
            ),
            "b": (("chain", "draw"), RNG.gamma(50, 0.01, (chains, draws))),
        },
        {
            "chain": range(chains),
            "draw": range(draws),
            "feature": NAMES,
            "feature_bis": NAMES,
        },
    )


@pytest.fixture(scope="module")
def draws():
    return xr.DataTree.from_dict({"posterior": wishart_draws()})


@pytest.fixture(scope="module")
def compared():
    sampled = xr.Dataset({"a": (("chain", "draw", "i"), RNG.normal(size=(4, 2000, 3)))})
    return compare({"a": np.array([0.0, 0.01, 0.5])}, sampled)


@pytest.fixture(scope="module")
def pairs():
    X = RNG.standard_normal((60, 3))
    i, j = RNG.integers(60, size=(2, 400))
    i, j = i[i != j], j[i != j]
    M = np.diag([4.0, 1, 0.01])
    delta = X[i] - X[j]
    t = 0.5 + 0.5 * np.einsum("ni,ij,nj->n", delta, M, delta)
    y = (RNG.random(len(t)) < np.exp(-t)).astype(int)
    return Pairs(X, i, j, y)


def texts(figure):
    """Every text of a figure that would be drawn."""
    figure.canvas.draw()
    return texts_drawn(figure)


def texts_drawn(figure):
    """Every text of a figure that was drawn."""
    return [
        t.get_text() for t in figure.findobj(match=lambda a: hasattr(a, "get_text"))
    ]


def assert_drawn(figure, *wanted):
    """A figure that is not blank and says what is expected."""
    assert isinstance(figure, Figure)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    assert (pixels < 250).any(axis=-1).mean() > 0.005
    found = texts_drawn(figure)
    for text in wanted:
        assert text in "\n".join(found)
    return found


@pytest.fixture(autouse=True)
def let_go():
    """Let go of the figures of each test, which pyplot keeps."""
    yield
    plt.close("all")


def test_metric_shows_feature_names_and_both_panels(draws):
    figure = plots.metric(draws)
    assert_drawn(figure, *NAMES, "Posterior mean", "Standard deviation")
    images = [axis.images[0] for axis in figure.axes if axis.images]
    M = draws["posterior"]["M"].mean(("chain", "draw")).to_numpy()
    np.testing.assert_allclose(images[0].get_array(), M, rtol=1e-12)


def test_eigenvalues_has_a_row_each_and_the_reference(draws):
    figure = plots.eigenvalues(draws, reference=np.diag([4.0, 1, 0.01]))
    assert_drawn(figure, "Eigenvalues", "M at the mode of W", "mean over draws, E[M]")
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["1", "2", "3"]


def test_agreement_names_each_verdict_with_its_count(compared):
    figure = agreement(compared)
    disagreeing = int((compared["verdict"] == "disagree").sum())
    assert_drawn(figure, f"disagree ({disagreeing})", "a[2]", "family-wise")


def test_calibration_has_no_bin_of_a_handful_where_values_are_equal():
    stated = np.r_[np.linspace(0, 0.9, 50), 0.95, np.full(45, 0.98), np.full(4, 1)]
    axis = plots.calibration(np.ones(100), stated).axes[0]
    shown = axis.containers[0].lines[0].get_xdata()
    # Bins of ten; the sixth would hold .95 alone, and joins the equal values.
    np.testing.assert_allclose(shown[-1], stated[50:].mean())
    assert len(shown) == 6
    # One of 20 points is enough for ten bins: half of the mean size.
    stated = np.r_[np.full(14, 0.1), 0.5, np.full(4, 0.9), 1.0]
    axis = plots.calibration(np.ones(20), stated).axes[0]
    shown = axis.containers[0].lines[0].get_xdata()
    np.testing.assert_allclose(shown, [0.1, 0.5, 0.92])


def test_predictive_check_covers_the_truth_it_was_drawn_from(draws, pairs):
    prior = wishart_draws(1, 50)
    assert_drawn(
        plots.predictive_check(draws, pairs, prior=prior),
        "posterior predictive",
        "prior predictive",
        "observed",
    )


@pytest.mark.long
@pytest.mark.parametrize("plot", [rank, trace])
def test_chains_are_shown_on_identified_quantities_only(plot, draws):
    figure = plot(draws)
    found = assert_drawn(figure, "eigenvalue 1", "b")
    assert any("R-hat" in text for text in found) == (plot is trace)
    assert "W" not in found


def test_embedding_counts_classes_and_links():
    X, y = datasets.load("iris")
    figure = plots.embedding(
        Mahalanobis(np.eye(4)), X, y, links=3, target_names=["a", "b", "c"]
    )
    assert_drawn(figure, "a (50)", "c (50)", "to another class")


def test_neighbor_probabilities_are_shares_of_draws():
    points = np.array([[0.0, 0], [1, 0], [0, 1.05], [9, 9]])
    metrics = [Mahalanobis(np.diag([1.0, s])) for s in (0.5, 0.9, 1.0, 2.0)]
    posterior = PosteriorMetric(metrics, "prediction")
    figure = plots.neighbor_probabilities(
        posterior, np.zeros(2), points, 2, y=[0, 0, 1, 1], names=["p", "q", "r", "s"]
    )
    assert_drawn(figure, "p", "q", "r", "4 draws")
    widths = [bar.get_width() for bar in figure.axes[0].patches][:3]
    # The query's own place always; then (1, 0) if s·1.05 > 1, else (0, 1.05).
    np.testing.assert_allclose(widths, [1, 0.5, 0.5])


def test_each_curve_of_calibration_may_have_its_own_outcomes():
    p = np.linspace(0, 1, 100)
    y = {"right": p > 0.5, "wrong": p < 0.5}
    figure = plots.calibration(y, {"right": p, "wrong": p}, bins=2)
    assert_drawn(figure, "right", "wrong")
    heights = [c[0].get_ydata() for c in figure.axes[0].containers]
    np.testing.assert_array_equal(heights, [[0, 1], [1, 0]])
    with pytest.raises(
        ValueError, match=r"y must have the same names as probability, \['a'\]"
    ):
        plots.calibration(y, {"a": p})


def test_bands_of_calibration_hold_what_is_stated_if_it_is_right():
    p = RNG.random(3000)
    y = (RNG.random(3000) < p).astype(int)
    figure = plots.calibration(y, {"right": p, "wrong": p**2}, band=0.9)
    label = {
        name: text
        for text in texts(figure)
        for name in ("right", "wrong")
        if name in text
    }
    outside = {name: int(text.split("(")[1].split()[0]) for name, text in label.items()}
    # Of ten bins each is outside with probability .1: more than 4, 2e-3.
    assert outside["right"] <= 4
    assert outside["wrong"] >= 7
    assert_drawn(figure, "of 10 outside)")


def test_det_draws_the_errors_of_every_threshold_on_normal_axes():
    same, rng = np.arange(3000) < 1000, np.random.default_rng(0)
    scores = np.where(same, 1.0, -1.0) + rng.standard_normal(3000)
    figure = plots.det({"good": scores, "none": -np.abs(scores)}, same)
    assert_drawn(figure, "good (equal error rate 0.1", "none (equal", "false alarms")
    axis = figure.axes[0]
    x, y = axis.lines[0].get_data()
    alarms, missed, _ = det_curve(same, scores)
    for line, rates in ((x, alarms), (y, missed)):
        # scikit-learn leaves thresholds out at which nothing changes.
        inside = norm.ppf(rates[(rates > 0) & (rates < 1)])
        assert np.min(np.abs(line[:, None] - inside), 0).max() < 1e-9
    # Normal scores of equal variance: Φ⁻¹(miss) = -2 - Φ⁻¹(false alarm).
    middle = np.abs(x + 1) < 0.5
    np.testing.assert_allclose((y + x)[middle], -2, atol=0.25)
    at = axis.lines[1].get_xdata()[0]
    assert norm.cdf(at) == pytest.approx(verification(scores, same).eer)
    assert [t.get_text() for t in axis.get_xticklabels()][:2] == ["0.001", "0.01"]


@pytest.mark.parametrize("scores", [[1.0, 2.0, -1.0, -2.0], [0.0, 0.0, 0.0, 0.0]])
def test_det_draws_no_errors_and_nothing_but_errors(scores):
    axis = plots.det(scores, [1, 1, 0, 0]).axes[0]
    assert np.isfinite(axis.lines[0].get_data()).all()
    assert np.isfinite([axis.get_xlim(), axis.get_ylim()]).all()


def test_typicality_draws_the_share_of_p_values_at_most_each_threshold():
    p, known = np.array([0.02, 0.3, 0.04, 0.5]), np.array([1, 1, 0, 1], bool)
    axis = plots.typicality(p, known, novelty=0.3).axes[0]
    x, share = axis.get_lines()[0].get_data()
    np.testing.assert_array_equal(x[1:], [0.02, 0.3, 0.5])
    np.testing.assert_allclose(share[1:], [1 / 3, 2 / 3, 1])
    legend = [text.get_text() for text in axis.get_legend().get_texts()]
    assert legend == ["known classes (67% novel)", "other classes (100% novel)"]
    with pytest.raises(ValueError, match="must have shape"):
        plots.typicality(p, known[:2])


def test_likelihood_ratios_are_drawn_in_log10_with_their_cost_at_odds_one():
    log_ratio = np.log(10) * np.array([2.0, -1.0, 0.5, 1.0, -2.0, 0.5])
    same = np.array([1, 1, 1, 0, 0, 0], bool)
    figure = plots.likelihood_ratios(log_ratio, same)
    tippett, diagonal, entropy = figure.axes
    one, two = tippett.get_lines()[:2]
    assert one.get_label() == "same source"
    above = {v: float(np.mean([2, -1, 0.5] > v - np.array(1e-9))) for v in (-1, 0.5, 2)}
    for line, shares in ((one, above), (two, {-2: 1.0, 0.5: 2 / 3, 1: 1 / 3})):
        x, y = line.get_data()
        for value, share in shares.items():
            assert max(y[np.isclose(x, value)]) == pytest.approx(share)
    # Sorted: -2 (0), -1 (1), 0.5 (0 and 1), 1 (0), 2 (1): -1 to 1 pool to 2 of 4.
    x, y = diagonal.get_lines()[1].get_data()
    np.testing.assert_allclose(x, [-2, -1, 0.5, 0.5, 1, 2])
    np.testing.assert_allclose(y[1:5], 0, atol=1e-12)
    assert y[0] == diagonal.get_lines()[0].get_xdata()[0]
    costs = verification(log_ratio, same)
    for line, cost in zip(
        entropy.get_lines(), (costs.cllr, costs.cllr_min, 1), strict=False
    ):
        assert line.get_ydata()[60] == pytest.approx(cost)
    # At odds 10 (log10 = 1): P = 10/11, by hand for LR = 1.
    entropy_of_prior = -(10 * np.log2(10 / 11) + np.log2(1 / 11)) / 11
    assert entropy.get_lines()[2].get_ydata()[80] == pytest.approx(entropy_of_prior)


def test_ellipses_of_objects_are_the_covariances_of_aligned_draws():
    rng = np.random.default_rng(0)
    places = np.array([[3.0, -1.0, -3.0, 1.0], [0.0, 0.5, -0.2, 0.7]])
    draws, moved = [], []
    for k in range(60):
        moved.append(places + 0.05 * rng.normal(size=(2, 4)))
        moved[-1] -= moved[-1].mean(1, keepdims=True)
        turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
        draws.append(Mahalanobis(turn @ moved[-1] + 5.0 * (k % 3)))
    metric = PosteriorMetric(draws, "intervals", source="nuts")
    axis = plots.objects(metric, names=["a", "b", "c", "d"], prob=0.5).axes[0]
    assert [text.get_text() for text in axis.texts] == ["a", "b", "c", "d"]
    shown = axis.collections[0].get_offsets()
    mean = np.mean(moved, 0)
    fixed = [orthogonal_procrustes(m.T, mean.T)[0].T @ m for m in moved]
    mean = np.mean(fixed, 0).T
    for i, j in ((0, 1), (0, 2), (1, 3)):
        apart = np.linalg.norm(mean[i] - mean[j])
        assert np.linalg.norm(shown[i] - shown[j]) == pytest.approx(apart, rel=1e-3)
    for k, ellipse in enumerate(axis.patches):
        S = np.cov(np.array(fixed)[:, :, k].T)
        area = 4 * np.sqrt(np.linalg.det(S)) * chi2.ppf(0.5, 2)
        assert ellipse.width * ellipse.height == pytest.approx(area, rel=0.02)


def test_det_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"same .*only one kind"):
        plots.det([1.0, 2.0], [1, 1])
    with pytest.raises(ValueError, match=r"log_ratio .*got none"):
        plots.det({}, [1, 0])


def test_local_ellipses_are_drawn_where_asked():
    X, y = datasets.load("iris")
    local = types.SimpleNamespace(
        matrix_at=lambda P: np.stack([np.diag(1 + p**2) for p in P])
    )
    figure = plots.local_ellipses(local, X, y, number=9, feature_names=list("abcd"))
    assert_drawn(figure, "a", "b", "Balls of the metric")
    assert len(figure.axes[0].patches) == 9


def test_an_ellipse_lies_where_the_metric_is_constant():
    metric = Mahalanobis(
        np.array([[2.0, 1.0], [0.0, 1.0]]), Link(np.array(0.1), np.array(0.5))
    )
    X = RNG.standard_normal((50, 2))
    axis = plots.local_ellipses(metric, X, np.zeros(50), at=np.zeros((1, 2))).axes[0]
    ellipse = axis.patches[0]
    unit = np.array([[np.cos(t), np.sin(t)] for t in np.linspace(0, 6, 20)])
    on_it = ellipse.get_patch_transform().transform(unit)
    distances = metric.distance(on_it, np.zeros_like(on_it))
    np.testing.assert_allclose(distances, distances[0], rtol=1e-10)


@pytest.mark.long
def test_entries_are_per_sd_where_the_points_are_stored(draws):
    X = RNG.standard_normal((40, 3)) * [1, 10, 100]
    data = xr.Dataset({"X": (("point", "feature"), X)})
    tree = xr.DataTree.from_dict({"posterior": wishart_draws(), "constant_data": data})
    figure = plots.metric(tree)
    assert_drawn(figure, "per sd of each feature")
    mean = tree["posterior"]["M"].mean(("chain", "draw")).to_numpy()
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(shown, mean * np.outer(X.std(0), X.std(0)), rtol=1e-12)
    assert_drawn(plots.eigenvalues(tree), "per sd")
    assert_drawn(plots.metric(draws), "in input units")


def two_curves():
    """Curves of heights 1 and 3, with limits."""
    knots, heights = (
        np.array([[0.0, 2.0], [5.0, 9.0]]),
        np.array([[0.5, 0.5], [2.0, 1]]),
    )
    draws = [SplineCityBlock(knots, h * heights) for h in (0.5, 1.0, 1.5)]
    posterior = PosteriorMetric(draws, "intervals", pairs_independent=True)
    return curves(draws[1], posterior)


def test_curves_are_drawn_tallest_first_on_one_scale_with_their_limits():
    figure = plots.curves(two_curves(), ["rain", "pH"])
    assert [axis.get_title("left") for axis in figure.axes] == ["pH: 3", "rain: 1"]
    assert len({axis.get_ylim() for axis in figure.axes}) == 1
    line = figure.axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata()[[0, -1]], [0, 3])
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    # Of three draws: halfway along 90 % of the step between middle and end.
    np.testing.assert_allclose(band[:, 1].max(), 3 * 1.45)
    assert len(plots.curves(two_curves(), most=1).axes) == 1
    with pytest.raises(ValueError, match="names must have 2"):
        plots.curves(two_curves(), ["rain"])


def everything(draws, compared, pairs):
    """Each plot on something small, and how many axes it draws on."""
    X, y = datasets.load("iris")
    two = PosteriorMetric(
        [Mahalanobis(np.eye(4)), Mahalanobis(2 * np.eye(4))], "prediction"
    )
    p = np.linspace(0, 1, 40)
    metric = Mahalanobis(np.eye(4))
    return {
        "agreement": (2, lambda **k: agreement(compared, **k)),
        "predictive_check": (1, lambda **k: plots.predictive_check(draws, pairs, **k)),
        "calibration": (1, lambda **k: plots.calibration(p > 0.5, p, **k)),
        "det": (1, lambda **k: plots.det(p, p > 0.5, **k)),
        "likelihood_ratios": (
            3,
            lambda **k: plots.likelihood_ratios(p - 0.5, p > 0.4, **k),
        ),
        "objects": (1, lambda **k: plots.objects(metric, **k)),
        "typicality": (1, lambda **k: plots.typicality(p, p > 0.5, **k)),
        "curves": (2, lambda **k: plots.curves(two_curves(), **k)),
        "metric": (2, lambda **k: plots.metric(draws, **k)),
        "eigenvalues": (1, lambda **k: plots.eigenvalues(draws, **k)),
        "matrix": (2, lambda **k: plots.matrix(metric, X, **k)),
        "pair_histogram": (1, lambda **k: plots.pair_histogram(metric, X, y, **k)),
        "local_ellipses": (1, lambda **k: plots.local_ellipses(metric, X, y, **k)),
        "embedding": (1, lambda **k: plots.embedding(metric, X, y, links=2, **k)),
        "neighbor_probabilities": (
            1,
            lambda **k: plots.neighbor_probabilities(two, X[0], X, 3, **k),
        ),
    }


def test_every_plot_draws_on_axes_that_it_is_given(draws, compared, pairs):
    for name, (number, plot) in everything(draws, compared, pairs).items():
        mine = plt.figure(figsize=(9, 4), layout="constrained")
        axes = np.atleast_1d(mine.subplots(1, number))
        given = {"ax": axes[0]} if number == 1 else {"axes": axes}
        assert plot(**given) is mine, name
        assert all(axis.has_data() for axis in axes), name
        if number == 2:
            with pytest.raises(ValueError, match="axes must be 2"):
                plot(axes=list(axes)[:1])
        plt.close("all")


def ink_at_the_border(figure):
    """Whether anything is drawn on the outermost pixels of a figure as saved."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=80)
    buffer.seek(0)
    grey = plt.imread(buffer)[..., :3].min(2)
    border = [grey[0], grey[-1], grey[:, 0], grey[:, -1]]
    return any((edge < 0.97).any() for edge in border)


@pytest.mark.long
def test_nothing_is_cut_off(draws, compared, pairs):
    for name, (_, plot) in everything(draws, compared, pairs).items():
        assert not ink_at_the_border(plot()), name
        plt.close("all")
    names = [f"{name}, of the whole leaf" for name in NAMES]
    named = draws["posterior"].to_dataset().assign_coords(feature=names)
    figure = plots.metric(named.assign_coords(feature_bis=names))
    assert not ink_at_the_border(figure)
    figure.axes[0].set_title("a title that no figure holds, " * 20)
    assert ink_at_the_border(figure)


def test_a_figure_is_pyplots_and_shown_once_in_a_notebook(draws, monkeypatch):
    figure = plots.eigenvalues(draws)
    assert plt.get_fignums()  # plt.show() and the end of a cell show it
    formatter, shown = DisplayFormatter(), []
    formatter.formatters["image/png"].for_type(Figure, lambda f: b"picture")
    formatter.active_types = ["image/png"]
    shell = types.SimpleNamespace(display_formatter=formatter)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr(
        "IPython.display.publish_display_data", lambda *about: shown.append(about)
    )
    assert formatter.format(figure) == ({}, {})  # The figure has shown itself.
    ((data, about),) = shown
    assert data["image/png"] == b"picture"
    assert about["image/png"]["alt"].startswith("Eigenvalues of the metric")
    assert not plt.get_fignums()  # nothing left for the end of the cell
    formatter.format(figure)
    assert len(shown) == 2
    trace(draws)
    assert plt.get_fignums()


def test_one_chain_has_nothing_to_be_compared_with():
    with pytest.raises(ValueError, match=r"draws .* 2 chains, got 1"):
        rank(wishart_draws(1, 50))
    assert_drawn(trace(wishart_draws(1, 50)), "bulk ESS")
