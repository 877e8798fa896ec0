"""Shared parts of the figures: palette, blank figures, reading of draws.

Every plot returns its figure, which pyplot knows: ``plt.show()`` shows it in a script
or in the middle of a cell, the last expression of a cell shows it once.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probmetric.typing import Names

Panels = Sequence[Axes] | np.ndarray
"""Axes side by side, as ``plt.subplots`` gives them."""

# Okabe and Ito's eight colours, told apart with every kind of colour vision.
COLORS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#999999",
    "#F0E442",
)

STYLE: Any = {
    "axes.prop_cycle": cycler(color=list(COLORS)),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "figure.dpi": 110,
    "font.size": 9.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
"""Matplotlib's settings of every figure here; ``plt.rcParams.update`` takes them."""


def styled[**P](plot: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw a plot in the package's style, and leave the user's style as it was."""

    @wraps(plot)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with rc_context(STYLE):
            return plot(*args, **kwargs)

    return wrapper


def blank(
    panels: int = 1,
    *,
    size: tuple[float, float],
    down: bool = False,
    sharey: bool = False,
    ratios: Sequence[float | int] | None = None,
    axes: Any = None,
) -> tuple[Any, Any]:
    """Return a figure and its axes, or its one axis; or those given.

    Parameters
    ----------
    down : bool, default=False
        Panels below each other, not side by side.
    ratios : sequence of float, optional
        Of the panels' heights, or of their widths.
    axes : Axes or sequence of Axes, optional
        The user's own, ``panels`` of them, in the place of a new figure.

    Raises
    ------
    ValueError
        When ``axes`` are not as many, or no axes.
    """
    if axes is None:
        figure = shown_once(plt.figure(figsize=size, layout="compressed"))
        if down:
            return figure, figure.subplots(panels, 1, height_ratios=ratios)
        return figure, figure.subplots(1, panels, sharey=sharey, width_ratios=ratios)
    given = [axes] if isinstance(axes, Axes) else list(np.ravel(axes))
    name = "ax" if panels == 1 else "axes"
    if len(given) != panels or not all(isinstance(a, Axes) for a in given):
        raise ValueError(
            f"{name}: expected {panels} of matplotlib's Axes, got {axes!r}"
        )
    return given[0].get_figure(root=True), given[0] if panels == 1 else given


def shown_once(figure: Figure) -> Figure:
    """Let a notebook that shows a figure as a value not show it again with the cell.

    The picture is what the notebook's settings ask for, with words for who does not
    see it.
    """

    def show() -> None:
        from IPython import get_ipython  # pyright: ignore[reportPrivateImportUsage]
        from IPython.display import publish_display_data

        plt.close(figure)
        shell: Any = get_ipython()
        del vars(figure)["_ipython_display_"]
        data, about = shell.display_formatter.format(figure)
        vars(figure)["_ipython_display_"] = show
        pictures = {k: {"alt": words(figure)} for k in data if k.startswith("image/")}
        publish_display_data(
            data, {k: {**about.get(k, {}), **v} for k, v in pictures.items()}
        )

    vars(figure)["_ipython_display_"] = show
    return figure


def words(figure: Figure) -> str:
    """Return the titles and axes of a figure, for who does not see it."""
    said = [figure.get_suptitle()]
    for axis in figure.axes:
        said += [axis.get_title(loc) for loc in ("left", "center", "right")]
        x, y = axis.get_xlabel(), axis.get_ylabel()
        said += [x and f"x: {x}", y and f"y: {y}"]
    return ". ".join(dict.fromkeys(" ".join(s.split()) for s in said if s))


BESIDE = 2.6
"""Inches for the names of features and for the colour bar of a heat map."""


def matrix_side(d: int) -> float:
    """Return the side of a heat map of d features, in inches.

    Names and colours beside it take ``BESIDE``. Shrunk to 500 pixels, as on a page,
    the figure's names are still 6 pixels high.
    """
    return float(np.clip(0.2 * d + 1.8, 3.0, 6.2))


def heatmap(
    axis: Axes, values: np.ndarray, names: Sequence[str], title: str, *, width: bool
) -> None:
    """Draw a matrix (d, d): from zero for widths, else red and blue about zero.

    Features are named where there is room for names, up to 40.
    """
    limit = float(np.abs(values).max())
    colors, low = ("viridis", 0.0) if width else ("RdBu_r", -limit)
    image = axis.imshow(values, cmap=colors, vmin=low, vmax=limit)
    axis.figure.colorbar(image, ax=axis, shrink=0.8)
    axis.set_title(title)
    axis.spines[:].set_visible(False)
    d = len(names)
    if d <= 40:
        size = 9 if d <= 30 else 8
        axis.set_xticks(range(d), names, rotation=90, fontsize=size)
        axis.set_yticks(range(d), names, fontsize=size)
    else:
        axis.set_xlabel("feature")
        axis.set_ylabel("feature")


def metric_of(learned: Any) -> Any:
    """Return the metric of an estimator, or the metric itself."""
    return learned.get_metric() if hasattr(learned, "get_metric") else learned


def posterior(draws: object, *names: str) -> xr.Dataset:
    """Return the posterior of a DataTree, or the Dataset itself, with given variables.

    Raises
    ------
    ValueError
        When there are no draws of an expected variable.
    """
    if isinstance(draws, xr.DataTree):
        if "posterior" not in draws.children:
            raise ValueError(
                f"draws: expected a group 'posterior', got {sorted(draws.children)}"
            )
        draws = draws["posterior"].to_dataset()
    if not isinstance(draws, xr.Dataset):
        raise ValueError(
            f"draws: expected a DataTree or Dataset, got {type(draws).__name__}"
        )
    missing = [name for name in names if name not in draws]
    if missing:
        raise ValueError(
            f"draws: expected {', '.join(missing)}, got {', '.join(map(str, draws))}"
        )
    return draws


def stacked(variable: xr.DataArray) -> np.ndarray:
    """Return draws with chain and draw as one leading axis."""
    ordered = variable.transpose("chain", "draw", ...)
    return ordered.to_numpy().reshape(-1, *ordered.shape[2:])


def feature_scale(draws: object, d: int) -> tuple[np.ndarray, str]:
    """Return what each feature is measured in, shape (d,), and the words for it.

    The standard deviations of the points stored with the draws, so that entries for
    features of different units compare; ones where no points are stored.
    """
    if isinstance(draws, xr.DataTree) and "constant_data" in draws.children:
        data = draws["constant_data"].to_dataset()
        if "X" in data and data["X"].ndim == 2 and data["X"].shape[1] == d:
            spread = data["X"].to_numpy().std(0)
            return np.where(spread > 0, spread, 1.0), "per sd of each feature"
    return np.ones(d), "in input units"


def names_of(variable: xr.DataArray) -> list[str]:
    """Return the names along the last axis: its coordinate, or x0, x1, ..."""
    axis = variable.dims[-1]
    if axis in variable.coords:
        given = [str(name) for name in variable.coords[axis].to_numpy()]
        if not all(name.isdigit() for name in given):
            return given
    return [f"x{k}" for k in range(variable.shape[-1])]


def class_names(
    y: np.ndarray, target_names: Names | None = None
) -> tuple[np.ndarray, list[str]]:
    """Return codes (n,) and a name for each class.

    Whole numbers from 0 are places among the names; other numbers take them in turn.
    """
    classes, codes = np.unique(y, return_inverse=True)
    if target_names is None:
        return codes, [str(c) for c in classes]
    if classes.dtype.kind not in "iufb":
        raise ValueError(
            "target_names: expected none, as the labels are names themselves, got "
            f"{len(target_names)}"
        )
    if len(target_names) < len(classes):
        raise ValueError(
            f"target_names: expected {len(classes)} names, got {len(target_names)}"
        )
    places = np.issubdtype(classes.dtype, np.integer) and classes.min() >= 0
    if places and classes.max() < len(target_names):
        return codes, [str(target_names[int(c)]) for c in classes]
    if len(target_names) != len(classes):
        raise ValueError(
            f"target_names: expected {len(classes)} names, one a class, got "
            f"{len(target_names)}"
        )
    return codes, [str(name) for name in target_names]
