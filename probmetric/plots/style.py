"""Shared functions of the figures: palette, empty figures, and reading of draws.

Figures are pyplot figures. ``plt.show()`` shows them in a script or within a notebook
cell. A figure that is the last expression of a cell is shown once.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from cycler import cycler
from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from probmetric.data import inputs
from probmetric.metric.feature_names import check_columns
from probmetric.typing import ArrayLike, Names

Panels = Sequence[Axes] | np.ndarray
"""Axes side by side, as ``plt.subplots`` returns them."""

# Okabe and Ito's eight colors, distinct with every kind of color vision.
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

MARKERS = "osD^vPX*"
MOST_MARKS = len(COLORS) * len(MARKERS)
"""Number of distinct combinations of color and marker."""

INSIDE = 40
"""Maximum number of letters in a name for a legend within the axes."""

NAME = 32
"""Maximum number of letters in a name. Longer names are cut in the middle."""

LEGEND_ROWS = 20
"""Maximum number of classes in a column of a legend."""

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
"""Settings of Matplotlib for all figures, for ``plt.rcParams.update``."""


def styled[**P](plot: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw a plot in the package's style, and restore the user's style."""

    @wraps(plot)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with rc_context(STYLE):
            family = plt.rcParams["font.family"]
            figure = plot(*args, **kwargs)
            if plt.rcParams["font.family"] != family:  # Changed by ``readable``.
                for text in figure.findobj(Text):
                    if text.get_fontfamily() == family:
                        text.set_fontfamily(plt.rcParams["font.family"])
            return figure

    return wrapper


def ink() -> str:
    """Return the color of text in the current style, for lines without a color."""
    return str(plt.rcParams["text.color"])


def shade(share: float) -> tuple[float, ...]:
    """Return the background color mixed with a share of ``ink``."""
    mixed = (1 - share) * np.array(to_rgb(plt.rcParams["figure.facecolor"]))
    return tuple(mixed + share * np.array(to_rgb(ink())))


def marks(n: int) -> list[tuple[str, str]]:
    """Return (color, marker) of n classes: distinct for 64 classes, then dots."""
    c = len(COLORS)
    some = [(COLORS[k % c], MARKERS[(k + k // c) % c]) for k in range(MOST_MARKS)]
    return (some + [(ink(), ".")] * (n - MOST_MARKS))[:n]


def class_marks(
    codes: np.ndarray, labels: Sequence[str]
) -> Iterator[tuple[np.ndarray, str, str, str]]:
    """Yield rows, name, color and marker of 64 classes. All others are merged."""
    shown = readable(labels[:MOST_MARKS])
    for c, (name, (color, marker)) in enumerate(zip(shown, marks(64), strict=False)):
        yield codes == c, name, color, marker
    if (others := len(labels) - MOST_MARKS) > 0:
        words = f"{others} other class{'es' * (others > 1)}"
        yield codes >= MOST_MARKS, words, *marks(MOST_MARKS + 1)[-1]


def legend_columns(labels: Sequence[str]) -> tuple[int, float]:
    """Return the number of columns of a class legend, and its width in inches."""
    n = min(len(labels), MOST_MARKS + 1)
    longest = max(min(len(name), NAME) for name in labels)
    columns = -(-n // LEGEND_ROWS)
    return columns, columns * (1.2 + 0.075 * longest)


def beside(curves: Sequence[str]) -> tuple[dict[str, Any], float]:
    """Return the location of a legend (beside the axes for many or long names)."""
    if len(curves) <= 4 and max(map(len, curves), default=0) <= INSIDE:
        return {}, 0.0
    columns, width = legend_columns(curves)
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": columns}
    return place, width


def readable(names: Iterable[object]) -> list[str]:
    """Return names with at most ``NAME`` letters, all of them in installed fonts.

    Call ``readable`` within ``styled``, because fonts are added to the figure. A letter
    in no installed font is replaced by its code, with a warning.
    """
    texts = [_shortened(str(name)) for name in names]
    fonts, lacking = _fonts_for("".join(sorted(set("".join(texts)))))
    if fonts:
        plt.rcParams["font.family"] = [*plt.rcParams["font.family"], *fonts]
    if not lacking:
        return texts
    letters = "".join(sorted(lacking))
    warnings.warn(
        f"names: no installed font has the letters {letters[:20]!r}. Figures show "
        "codes instead. Install a font with these letters, such as Noto Sans CJK.",
        skip_file_prefixes=(str(Path(__file__).parents[1]),),
    )
    code = {ord(c): c.encode("ascii", "backslashreplace").decode() for c in lacking}
    return [_shortened(text.translate(code)) for text in texts]


def _shortened(text: str) -> str:
    return text if len(text) <= NAME else f"{text[: NAME - 12]}…{text[-11:]}"


def _fonts_for(letters: str) -> tuple[list[str], set[str]]:
    if letters.isascii():
        return [], set()
    path = font_manager.findfont(font_manager.FontProperties())
    lacking = {c for c in letters if c.isprintable() and not _has(path, c)}
    fonts = list[str]()
    for font in font_manager.fontManager.ttflist if lacking else ():
        # Last Resort has a box for every letter.
        if not font.name.startswith("Last Resort"):
            new = {c for c in lacking if _has(font.fname, c)}
            fonts, lacking = fonts + [font.name] * bool(new), lacking - new
    return fonts, lacking


@cache
def _has(path: str, letter: str) -> bool:
    return font_manager.get_font(path).get_char_index(ord(letter)) != 0


def blank(
    panels: int = 1,
    *,
    size: tuple[float, float],
    down: bool = False,
    sharey: bool = False,
    ratios: Sequence[float | int] | None = None,
    axes: Panels | Axes | None = None,
) -> tuple[Figure, Any]:
    """Return a new figure and its axes (one if ``panels`` is 1), or the user's axes.

    Panels are in one row, or in one column if ``down`` is True. ``ratios`` are relative
    widths or heights of the panels.
    """
    if axes is None:
        figure = shown_once(plt.figure(figsize=size, layout="compressed"))
        if down:
            return figure, figure.subplots(panels, 1, height_ratios=ratios)
        return figure, figure.subplots(1, panels, sharey=sharey, width_ratios=ratios)
    several = (
        [axes] if isinstance(axes, Axes) else list(np.ravel(np.asarray(axes, object)))
    )
    name = "ax" if panels == 1 else "axes"
    if len(several) != panels or not all(isinstance(a, Axes) for a in several):
        raise ValueError(f"{name} must be {panels} matplotlib Axes, got {axes!r}")
    figure = several[0].get_figure(root=True)
    assert isinstance(figure, Figure)
    return figure, several[0] if panels == 1 else several


def shown_once(figure: Figure) -> Figure:
    """Show a figure once in a notebook, with alternative text."""

    def show() -> None:
        from IPython import get_ipython  # pyright: ignore[reportPrivateImportUsage]
        from IPython.display import publish_display_data

        plt.close(figure)
        shell = get_ipython()
        assert shell is not None
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
    """Return the titles and axis labels of a figure as alternative text."""
    texts = [figure.get_suptitle()]
    for axis in figure.axes:
        texts += [axis.get_title(loc) for loc in ("left", "center", "right")]
        x, y = axis.get_xlabel(), axis.get_ylabel()
        texts += [x and f"x: {x}", y and f"y: {y}"]
    return ". ".join(dict.fromkeys(" ".join(s.split()) for s in texts if s))


BESIDE = 2.6
"""Width of the feature names and the color bar of a heat map, in inches."""


def matrix_side(d: int) -> float:
    """Return the side of a heat map of d features, in inches, without ``BESIDE``."""
    return float(np.clip(0.2 * d + 1.8, 3.0, 6.2))


def heatmap(
    axis: Axes, values: np.ndarray, names: Sequence[str], title: str, *, width: bool
) -> None:
    """Draw a matrix (d, d), in red and blue, or in colors from zero if ``width``."""
    limit = float(np.abs(values).max())
    colors, low = ("viridis", 0.0) if width else ("RdBu_r", -limit)
    image = axis.imshow(values, cmap=colors, vmin=low, vmax=limit)
    axis.figure.colorbar(image, ax=axis, shrink=0.8)
    axis.set_title(title)
    axis.spines[:].set_visible(False)
    d = len(names)
    if d <= 40:
        size, names = 9 if d <= 30 else 8, readable(names)
        axis.set_xticks(range(d), names, rotation=90, fontsize=size)
        axis.set_yticks(range(d), names, fontsize=size)
    else:
        axis.set_xlabel("feature")
        axis.set_ylabel("feature")


def metric_of(learned: object) -> Any:
    """Return the metric of a fitted learner, or the metric itself."""
    if isinstance(learned, type):
        raise TypeError(
            f"learned must be a fitted learner, got the class {learned.__name__}"
        )
    get_metric = getattr(learned, "get_metric", None)
    return learned if get_metric is None else get_metric()


def linear_metric(learned: object) -> Any:
    """Return the metric of a fitted learner, or raise ValueError without a matrix."""
    metric = metric_of(learned)
    metric = getattr(metric, "metric", metric)  # IntervalMetric has its fit.
    if not hasattr(metric, "transform") or not hasattr(metric, "matrix"):
        raise ValueError(
            "learned must be a fitted learner, a metric with one matrix, or draws of "
            f"such a metric, got {type(metric).__name__}. For a local metric use "
            "pm.plots.local_ellipses, and for a GDM pm.plots.curves."
        )
    if not np.isfinite(metric.matrix).all():
        raise ValueError("learned: the matrix must be finite, got NaN or infinity.")
    return metric


def posterior(draws: object, *names: str) -> xr.Dataset:
    """Return draws as a Dataset with the variables ``names``, or raise ValueError."""
    if isinstance(draws, xr.DataTree):
        if "posterior" not in draws.children:
            raise ValueError(
                f"draws must contain a group 'posterior', got {sorted(draws.children)}"
            )
        draws = draws["posterior"].to_dataset()
    if not isinstance(draws, xr.Dataset):
        raise ValueError(
            f"draws must be a DataTree or Dataset, got {type(draws).__name__}"
        )
    missing = [name for name in names if name not in draws]
    if missing:
        raise ValueError(
            f"draws must contain {', '.join(missing)}, got {', '.join(map(str, draws))}"
        )
    return draws


def stacked(variable: xr.DataArray) -> np.ndarray:
    """Return draws with chain and draw as one leading axis."""
    ordered = variable.transpose("chain", "draw", ...)
    values = ordered.to_numpy()
    if not np.isfinite(values).all():
        raise ValueError(
            f"draws must be finite, got NaN or infinity in {variable.name}. Remove "
            "those draws."
        )
    return values.reshape(-1, *ordered.shape[2:])


def feature_scale(draws: object, d: int) -> tuple[np.ndarray, str]:
    """Return the unit of each feature, and its description.

    The units are the standard deviations of the learner, or of points stored with
    draws. If there are no standard deviations, the units are 1.
    """
    if getattr(draws, "standardize", False) and hasattr(draws, "scale_"):
        return np.asarray(vars(draws)["scale_"], float), "per sd of each feature"
    if isinstance(draws, xr.DataTree) and "constant_data" in draws.children:
        data = draws["constant_data"].to_dataset()
        if "X" in data and data["X"].ndim == 2 and data["X"].shape[1] == d:
            spread = data["X"].to_numpy().std(0)
            return np.where(spread > 0, spread, 1.0), "per sd of each feature"
    return np.ones(d), "in input units"


def names_of(variable: xr.DataArray) -> list[str]:
    """Return the names along the last axis: the axis coordinates, or x0, x1, ..."""
    axis = variable.dims[-1]
    if axis in variable.coords:
        names = [str(name) for name in variable.coords[axis].to_numpy()]
        if not all(name.isdigit() for name in names):
            return names
    return [f"x{k}" for k in range(variable.shape[-1])]


def labeled(
    metric: object,
    X: ArrayLike,
    y: ArrayLike,
    target_names: Names | None = None,
    name: str = "X",
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Check and return points (n, d), class codes (n,) and class names."""
    X = check_columns(metric, **{name: X})[name]
    points, (codes, labels) = inputs.points(X, name), class_names(y, target_names)
    if len(codes) != len(points):
        raise ValueError(f"y must have shape ({len(points)},), got ({len(codes)},).")
    return points, codes, labels


def named_features(names: Names | None, X: ArrayLike, learned: object) -> list[str]:
    """Return feature names: ``names``, or those in X or a fit, or x0, x1, ..."""
    d = np.shape(X)[-1]
    if names is None:
        stored = getattr(X, "columns", getattr(learned, "feature_names_in_", None))
        names = [f"x{k}" for k in range(d)] if stored is None else list(stored)
    if len(names) != d:
        raise ValueError(f"feature_names must have {d} names, got {len(names)}")
    return [str(name) for name in names]


def class_names(
    y: ArrayLike, target_names: Names | None = None
) -> tuple[np.ndarray, list[str]]:
    """Return codes (n,) and a name for each class.

    If the labels are integers from 0, they are indices of ``target_names``. Other
    numbers are assigned to ``target_names`` in ascending order.
    """
    classes, codes = inputs.codes_of(y, "y")
    if target_names is None:
        return codes, [str(c) for c in classes]
    names = [str(name) for name in target_names]
    places = np.issubdtype(classes.dtype, np.integer) and classes.min() >= 0
    if places and classes.max() < len(names):
        return codes, [names[int(c)] for c in classes]
    if classes.dtype.kind not in "iufb":
        raise ValueError(
            "target_names must be None if y contains names, not codes, got "
            f"{len(names)} names."
        )
    if len(names) != len(classes):
        raise ValueError(
            f"target_names must have {len(classes)} names, one per class, got "
            f"{len(names)}."
        )
    return codes, names
