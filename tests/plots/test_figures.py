"""Every plot shows what it is given: names, counts, verdicts, and never nothing."""

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
from probmetric.evaluation import verification
from probmetric.metric import Mahalanobis
from probmetric.plots.draws import trace
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
