"""Figure of a generalized dissimilarity model: its curves, tallest first."""

from collections.abc import Sequence
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probmetric.arguments import check_number
from probmetric.plots.style import COLORS, Panels, blank, readable, shown_once, styled
from probmetric.posterior.curves import Curves

ACROSS, MOST = 3, 9
"""Maximum number of panels per row, and in total."""
LETTERS = 22
"""Maximum number of letters in a line of a panel's title."""


@styled
def curves(
    found: Curves,
    names: Sequence[str] | None = None,
    *,
    most: int = MOST,
    axes: Panels | None = None,
) -> Figure:
    """Draw the curve of each covariate over its range, tallest first.

    Use this figure to see which covariates matter, and at which values. All panels have
    the same vertical scale, so heights can be compared. A curve is steep where the
    dissimilarity of sites changes most with the covariate. Bands have their nominal
    coverage at each value separately, not for the whole curve.

    Parameters
    ----------
    found : Curves
        Result of ``GDM.curves`` or ``pm.posterior.curves``, with or without limits.
    names : sequence of d str, optional
        Names of the covariates. Default: ``found.names``, or x0, x1, ...
    most : int ≥ 1, default=9
        Maximum number of curves to draw.
    axes : sequence of Axes, optional
        Axes to draw in, one per curve. Default: a new figure with three panels per row.

    Examples
    --------
    >>> from probmetric.metric import SplineCityBlock
    >>> from probmetric.posterior import curves as curves_of
    >>> knots, heights = np.array([[[0.0, 2.0], [5.0, 9.0]], [[0.0, 1.0], [2.0, 1.0]]])
    >>> figure = curves(curves_of(SplineCityBlock(knots, heights)), ["rain", "pH"])
    >>> [axis.get_title("left") for axis in figure.axes]
    ['pH: 3', 'rain: 1']
    """
    d = len(found.s)
    names = found.names if names is None else names
    names = [f"x{f}" for f in range(d)] if names is None else list(names)
    if len(names) != d:
        raise ValueError(
            f"names must have {d} entries, one per covariate, got {len(names)}"
        )
    most = check_number("most", most, 1, whole=True)
    order = np.argsort(-found.s[:, -1], kind="stable")[:most]
    shown = readable(names)
    figure, panels = _panels(len(order), axes)
    top = found.s if found.upper is None else found.upper
    high = max(float(top[order].max()), 1e-12)
    for axis, f in zip(panels, order, strict=True):
        if found.lower is not None and found.upper is not None:
            limits = found.lower[f], found.upper[f]
            axis.fill_between(found.x[f], *limits, color=COLORS[0], alpha=0.25, lw=0)
        axis.plot(found.x[f], found.s[f], color=COLORS[0])
        title = fill(f"{shown[f]}: {found.s[f, -1]:.2g}", LETTERS)
        axis.set(ylim=(0, 1.05 * high), title=title)
        axis.locator_params(axis="x", nbins=4)
    panels[0].set(ylabel="curve s(x)")
    return figure


def _panels(n: int, axes: Panels | None) -> tuple[Figure, list[Axes]]:
    if axes is not None or n <= ACROSS:
        figure, row = blank(n, size=(0.4 + 2.8 * n, 2.8), sharey=True, axes=axes)
        return figure, list(np.ravel(row))
    down = -(-n // ACROSS)
    size = (0.4 + 2.8 * ACROSS, 2.6 * down)
    figure = shown_once(plt.figure(figsize=size, layout="compressed"))
    grid = list(np.ravel(figure.subplots(down, ACROSS, sharey=True)))
    for empty in grid[n:]:
        empty.remove()
    return figure, grid[:n]
