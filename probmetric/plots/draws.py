"""Figures of draws: the matrix, eigenvalues, and comparisons of chains."""

from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probmetric.arguments import check_within_0_1
from probmetric.plots.style import (
    BESIDE,
    COLORS,
    Panels,
    blank,
    feature_scale,
    heatmap,
    linear_metric,
    matrix_side,
    named_features,
    names_of,
    posterior,
    shade,
    shown_once,
    stacked,
    styled,
)
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import ArrayLike, DrawsLike


def _interval(values: np.ndarray, prob: float) -> np.ndarray:
    check_within_0_1(prob=prob)
    return np.quantile(values, [(1 - prob) / 2, (1 + prob) / 2], axis=0)


@styled
def metric(
    learned: object,
    *,
    axes: Panels | None = None,
) -> Figure:
    """Draw the matrix M of a metric as a heat map, or mean and sd of M over draws.

    Each entry is multiplied by the standard deviations of its two features. These are
    known for a learner that standardizes, and for draws that store the points.
    Otherwise entries are in input units. Do not use standard deviations over draws to
    make intervals, because intervals of entries are not calibrated.

    Parameters
    ----------
    learned : estimator, Mahalanobis, PosteriorMetric, DataTree or Dataset
        Learner or metric with one matrix M, or draws: a ``PosteriorMetric``, or the
        result of ``sample`` with draws of ``M`` (chain, draw, feature, feature_bis).
    axes : sequence of Axes, optional
        One axis for a learner or a metric, two axes for draws.

    See Also
    --------
    matrix : Matrix of a metric for points, and the number of directions that matter.

    Examples
    --------
    >>> import probmetric as pm
    >>> figure = pm.plots.metric(pm.Mahalanobis(np.diag([2.0, 1.0])))
    >>> figure.axes[0].images[0].get_array().tolist()
    [[4.0, 0.0], [0.0, 1.0]]
    """
    several = isinstance(learned, PosteriorMetric | xr.DataTree | xr.Dataset)
    if isinstance(learned, xr.DataTree | xr.Dataset):
        M = posterior(learned, "M")["M"]
        values, names, title = stacked(M), names_of(M), "Posterior mean of the metric"
    else:
        draws = learned.draws if isinstance(learned, PosteriorMetric) else [learned]
        metrics = [linear_metric(draw) for draw in draws]
        values = np.stack([np.asarray(m.matrix, float) for m in metrics])
        names = named_features(None, values[0], learned if several else metrics[0])
        title = "Mean of the metric over draws" if several else "The metric's matrix"
    scale, unit = feature_scale(learned, len(names))
    values, title = values * np.outer(scale, scale), f"{title},\n{unit}"
    side = matrix_side(len(names))
    if not several:
        figure, axis = blank(size=(side + BESIDE, side + BESIDE), axes=axes)
        heatmap(axis, values[0], names, title, width=False)
        return figure
    size = (side + BESIDE, 2 * side + BESIDE)
    figure, (first, second) = blank(2, size=size, down=True, axes=axes)
    heatmap(first, values.mean(0), names, title, width=False)
    heatmap(second, values.std(0), names, "Standard deviation over draws", width=True)
    if axes is None:
        first.set_xticks([])  # Shared with the panel below.
    else:
        second.set_yticks([])  # The user's axes are usually side by side.
    return figure


@styled
def eigenvalues(
    draws: DrawsLike,
    *,
    prob: float = 0.9,
    reference: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a forest plot of the eigenvalues of M over draws.

    Use this figure to see how many directions matter. M is the matrix of the metric.
    Eigenvalues of the fitted M (``reference``) may be outside most lines. This is not
    an error. M = WᵀW is quadratic in the linear map W, so the variance of W over draws
    increases the eigenvalues of the mean of M. On average, the eigenvalues of a draw
    are more spread out than the eigenvalues of this mean.

    Parameters
    ----------
    draws : DataTree or Dataset
        Posterior draws of ``M``.
    prob : float, default=0.9
        Fraction of the draws inside a thin line. A thick line contains half of them.
    reference : array of shape (d, d), optional
        M of the fit (at the posterior mode of W), in input units. Drawn as diamonds.

    Examples
    --------
    >>> import probmetric as pm
    >>> M = np.tile(np.diag([4.0, 1.0]), (2, 50, 1, 1))
    >>> draws = xr.Dataset({"M": (("chain", "draw", "feature", "feature_bis"), M)})
    >>> pm.plots.eigenvalues(draws).axes[0].lines[0].get_xdata().tolist()
    [4.0, 1.0]
    """
    M = posterior(draws, "M")["M"]
    d = M.shape[-1]
    scale, unit = feature_scale(draws, d)
    units = np.outer(scale, scale)
    values = np.linalg.eigvalsh(stacked(M) * units)[:, ::-1]
    low, high = _interval(values, prob)
    # A rank-deficient M has eigenvalues of the size of rounding errors.
    floor = np.median(values, 0).max() * 1e-6
    d = max(1, int(np.sum(high > floor)))  # They decrease, and so do the limits.
    values, low, high = values[:, :d], low[:d], high[:d]
    size = (6.4, float(np.clip(0.28 * d + 1.3, 2.6, 9)))
    figure, axis = blank(size=size, axes=ax)
    rows, inner = np.arange(d), np.maximum(_interval(values, 0.5), floor)
    axis.hlines(rows, np.maximum(low, floor), high, color=COLORS[0], lw=1.2)
    axis.hlines(rows, *inner, color=COLORS[0], lw=4.5)
    median = np.maximum(np.median(values, 0), floor)
    axis.plot(median, rows, "o", ms=4.5, color=shade(0.0), mec=COLORS[0], label="draws")
    marked = [(stacked(M).mean(0), "s", "mean over draws, E[M]", COLORS[2])]
    if reference is not None:
        marked += [(np.asarray(reference), "D", "M at the mode of W", COLORS[5])]
    for matrix, marker, label, color in marked:
        point = np.linalg.eigvalsh(matrix * units)[::-1][:d]
        visible = point > floor
        style = {"ms": 5.5, "mfc": "none", "mec": color, "label": label}
        axis.plot(point[visible], rows[visible], marker, **style)
    axis.legend(loc="upper left")
    axis.set_xscale("log")
    axis.invert_yaxis()
    axis.set_yticks(rows, [str(k + 1) for k in rows])
    axis.set_ylabel("eigenvalue, largest first")
    axis.set_xlabel(f"size, {unit} (median; 50% and {prob:.0%} of the draws)")
    axis.set_title("Eigenvalues of the metric: how many directions matter")
    return figure


def _identified(draws: DrawsLike) -> xr.Dataset:
    sampled, dims = posterior(draws), ("chain", "draw")
    quantities: dict[str, xr.DataArray] = {}
    if "b" in sampled and {*sampled["b"].dims} == {*dims}:
        quantities["b"] = sampled["b"]
    if "M" in sampled:
        M = sampled["M"].transpose(*dims, ...)
        scale, _ = feature_scale(draws, M.shape[-1])
        largest = np.linalg.eigvalsh(M.to_numpy() * np.outer(scale, scale))[..., ::-1]
        for k in range(min(3, largest.shape[-1])):
            quantities[f"eigenvalue {k + 1}"] = xr.DataArray(largest[..., k], dims=dims)
    if not quantities:
        raise ValueError(
            f"draws must contain b or M, got {', '.join(map(str, sampled))}"
        )
    return xr.Dataset(quantities).assign_coords(
        {dim: sampled[dim].to_numpy() for dim in dims}
    )


def _through_arviz(
    plot: Callable[..., az.PlotCollection],
    draws: DrawsLike,
    row: float,
    **layout: int,
) -> tuple[Any, xr.Dataset]:
    """Return an ArviZ figure of the identified quantities, and the quantities."""
    shown = _identified(draws)
    tree = xr.DataTree.from_dict({"posterior": shown})
    figure = plot(tree, backend="matplotlib", **layout).viz["figure"].item()
    shown_once(figure).set_layout_engine("constrained")
    rows = figure.axes[0].get_gridspec().nrows
    figure.set_size_inches(8.0, row * rows + 0.3)
    return figure, shown


def rank(draws: DrawsLike) -> Figure:
    """Draw ArviZ's rank plot of b and of the largest eigenvalues of M.

    Each line is the deviation of a chain's ranks from uniform ranks. The deviation is
    near 0 if chains agree. A small p-value (before ArviZ 1.3: a line outside the band)
    is *not* evidence that chains differ, because the test assumes independent draws.
    Use R-hat and effective sample sizes instead (``sampling.diagnose``).
    """
    n = posterior(draws).sizes.get("chain", 0)
    if n < 2:
        raise ValueError(f"draws must have at least 2 chains, got {n}")
    figure, _ = _through_arviz(az.plot_rank, draws, 2.2, col_wrap=2)
    figure.supylabel("excess over uniform", fontsize=10)
    return figure


def trace(draws: DrawsLike) -> Figure:
    """Draw ArviZ's traces and densities by chain, with R-hat and bulk ESS as titles."""
    figure, shown = _through_arviz(az.plot_trace_dist, draws, 1.6)
    for name, axis in zip(shown, figure.axes[::2], strict=True):
        r, n = float(az.rhat(shown[name])), float(az.ess(shown[name]))
        axis.set_xlabel("")
        axis.set_title(f"{name}: R-hat {r:.3f}, bulk ESS {n:.0f}", fontsize=9)
    return figure
