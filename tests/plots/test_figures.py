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


@pytest.mark.long
@pytest.mark.parametrize("plot", [rank, trace])
def test_chains_are_shown_on_identified_quantities_only(plot, draws):
    figure = plot(draws)
    found = assert_drawn(figure, "eigenvalue 1", "b")
    assert any("R-hat" in text for text in found) == (plot is trace)
    assert "W" not in found


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


def two_curves():
    """Curves of heights 1 and 3, with limits."""
    knots, heights = (
        np.array([[0.0, 2.0], [5.0, 9.0]]),
        np.array([[0.5, 0.5], [2.0, 1]]),
    )
    draws = [SplineCityBlock(knots, h * heights) for h in (0.5, 1.0, 1.5)]
    posterior = PosteriorMetric(draws, "intervals", pairs_independent=True)
    return curves(draws[1], posterior)


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
