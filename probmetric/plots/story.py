"""Figures of models: the graph, and the ranks of its calibration."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import jax
import numpy as np
import numpyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, FancyBboxPatch
from numpyro.infer.inspect import get_model_relations
from scipy.stats import binom

from probmetric.inference.sampling.target import call_of, cast
from probmetric.plots.style import COLORS, blank, ink, shade, styled
from probmetric.registry import MODELS, model_of
from probmetric.typing import no_type_check

WIDE, HIGH, GAP, BESIDE = 1.38, 0.66, 0.58, 0.26
"""Size of a node, and gaps between layers and columns, in inches."""

MOST = 6
"""Maximum number of columns of a page."""

LONG = 14
"""Letters of a distribution's name that fit a line of a node."""

DASHES = ("-", "--", ":")


@no_type_check
@styled
def story(
    model: str | Callable[..., None],
    data: Any = None,
    *,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> Figure:
    r"""Draw the graph of a NumPyro model: its sites, dependencies and plates.

    Parameters
    ----------
    model : str or callable
        Name of a registered learner with a NumPyro model, such as "lca", or your own
        NumPyro model.
    data : pytree of arrays, optional
        First argument of your own model. A registered model uses its toy problem.
    args, kwargs : optional
        As in ``sample``.

    Returns
    -------
    matplotlib.figure.Figure
        Each NumPyro site is an ellipse with its distribution, gray if observed and
        dashed if deterministic. Arrows connect a site to the sites that depend on it.
        Each plate is a rectangle. Dependencies are computed by NumPyro's
        ``get_model_relations``, which traces the code.

    Raises
    ------
    ValueError
        If a learner has no NumPyro model.
    TypeError
        If the model cannot be called with these arguments.

    Examples
    --------
    >>> import numpyro, numpyro.distributions as dist
    >>> def model(data):
    ...     mu = numpyro.sample("mu", dist.Normal(0, 1))
    ...     numpyro.sample("x", dist.Normal(mu, 1), obs=data)
    >>> figure = story(model, np.zeros(3))
    >>> words = [text.get_text() for text in figure.axes[0].texts]
    >>> sorted(word.split("\n")[0] for word in words if word)
    ['mu', 'x']
    """
    if isinstance(model, str):
        spec = MODELS[model_of(model)]
        if spec.model is None:
            able = [n for n, other in MODELS.items() if other.model is not None]
            raise ValueError(
                f"model must be a learner with a NumPyro model ({', '.join(able)}), "
                f"or your own NumPyro model, got {model!r}"
            )
        toy = spec.toy(0)
        model, data, kwargs = spec.model, toy.data, dict(toy.options)
        if "n_classes" in signature(model).parameters:
            kwargs.setdefault("n_classes", int(np.max(data.y)) + 1)
        args = () if toy.prior is None else (toy.prior,)
    call = call_of(model, data, args, kwargs)
    with jax.enable_x64(True):
        call, named = cast(call, "float64"), cast(dict(kwargs or {}), "float64")
        relations = get_model_relations(model, call, named)
    return _drawn(_sites(relations), relations)


def _sites(relations: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the direct parents of each site.

    NumPyro lists the parents of a deterministic site again for each of its children.
    """
    parents = {name: tuple(above) for name, above in relations["sample_sample"].items()}
    computed = {k for k, v in relations["sample_dist"].items() if v == "Deterministic"}
    for name, above in parents.items():
        through = {up for site in above if site in computed for up in parents[site]}
        parents[name] = tuple(up for up in above if up not in through)
    return parents


def _layers(parents: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return sites by depth: each below its parents, close to its children."""
    depth: dict[str, int] = {}
    for name in parents:  # Models list parents first.
        depth[name] = max(
            (depth[up] + 1 for up in parents[name] if up in depth), default=0
        )
    # Move sites down to just above their first use.
    for name in reversed(list(parents)):
        below = [depth[child] for child, above in parents.items() if name in above]
        if below:
            depth[name] = max(depth[name], min(below) - 1)
    return [
        [n for n in parents if depth[n] == k] for k in range(max(depth.values()) + 1)
    ]


def _places(
    parents: Mapping[str, Sequence[str]], plates: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
    """Return the position of each site: a row for its depth, columns for its plates.

    Sites with the same plates have columns of their own, because a frame must not
    contain other sites. If that makes more than ``MOST`` columns, long layers have
    several rows, every second one shifted.
    """
    within = {n: tuple(p for p in plates if n in plates[p]) for n in parents}
    order = sorted(set(within.values()), key=lambda some: (some[:1], len(some)))
    layers = _layers(parents)
    sets = {w: [[n for n in layer if within[n] == w] for layer in layers]
            for w in order}  # fmt: skip
    wide = sum(max(map(len, rows)) for rows in sets.values()) > MOST
    at, left = dict[str, np.ndarray](), 0.0
    # Number of rows of each layer.
    most = _row_length([*sets.values()]) if wide else MOST
    deep = [
        max(1, *(-(-len(rows[k]) // most) for rows in sets.values()))
        for k in range(len(layers))
    ]
    for rows in sets.values():
        cut: list[tuple[list[str], float, float, int]] = []
        for k, row in enumerate(rows):
            each = len(row) if len(row) <= most else -(-len(row) // deep[k])
            each = max(1, each)
            top, off = sum(deep[:k]), 0.25 * (len(row) > each)
            for at_row, first in enumerate(range(0, len(row), each)):
                aside = off if at_row % 2 else -off
                cut.append((row[first : first + each], top + at_row, aside, each))
        columns = max((n + 2 * abs(off) for *_, off, n in cut), default=0.0)
        for row, depth, off, n in cut:
            for k, name in enumerate(row):
                x = left + k + off + (columns - n) / 2
                at[name] = np.array([x * (WIDE + BESIDE), -depth * (HIGH + GAP)])
        left += columns
    return at


def _row_length(sets: Sequence[Sequence[Sequence[str]]]) -> int:
    """Return the number of sites of a layer in one row, such that all fit a page.

    Examples
    --------
    Six beside one, thirteen beside one, thirteen beside thirteen:

    >>> [_row_length([["a" * n], ["b" * m]]) for n, m in ((6, 1), (13, 1), (13, 13))]
    [4, 4, 2]
    """
    longest = [max(map(len, rows)) for rows in sets]
    for length in range(MOST, 2, -1):
        # Rows of a layer that is cut are shifted by half a column.
        if sum(min(n, length) + 0.5 * (n > length) for n in longest) <= MOST:
            return length
    return 2


def _drawn(
    parents: Mapping[str, Sequence[str]], relations: Mapping[str, Any]
) -> Figure:
    plates = {k: v for k, v in relations["plate_sample"].items() if v}
    plates = dict(sorted(plates.items(), key=lambda plate: len(plate[1])))
    at = _places(parents, dict(reversed(plates.items())))
    across, down = np.ptp(np.stack(list(at.values())), 0) + [WIDE + 0.8, HIGH + 0.9]
    figure, axis = blank(size=(max(across, 3.2), down))
    axis.set_axis_off()
    axis.set_aspect("equal")
    for k, (plate, inside) in enumerate(plates.items()):
        depth = sum(set(other) < set(inside) for other in plates.values())
        _frame(axis, plate, np.array([at[name] for name in inside]), k, depth)
    for name, above in parents.items():
        for up in above:
            _arrow(axis, at[up], at[name])
    for name, place in at.items():
        _node(axis, name, place, relations)
    axis.autoscale_view()
    return figure


def _node(
    axis: Axes, name: str, place: np.ndarray, relations: Mapping[str, Any]
) -> None:
    law = relations["sample_dist"][name]
    observed, computed = name in relations["observed"], law == "Deterministic"
    axis.add_patch(
        Ellipse(
            tuple(place),
            *(WIDE, HIGH),
            facecolor=shade(0.18 * observed),
            edgecolor=ink(),
            linestyle="--" if computed else "-",
            zorder=3,
        )
    )
    words = f"{name}\n{'computed' if computed else _in_lines(law)}"
    axis.text(place[0], place[1], words, ha="center", va="center", fontsize=9, zorder=4)


def _in_lines(law: str) -> str:
    """Break a long name of a distribution at the capital nearest to its middle.

    Examples
    --------
    >>> _in_lines("MultivariateNormal").split()
    ['Multivariate', 'Normal']
    """
    places = [k for k in range(1, len(law)) if law[k].isupper()]
    if len(law) <= LONG or not places:
        return law
    middle = min(places, key=lambda k: abs(k - len(law) / 2))
    return f"{law[:middle]}\n{law[middle:]}"


def _arrow(axis: Axes, begin: np.ndarray, end: np.ndarray) -> None:
    """Draw an arrow from edge to edge of two ellipses."""
    half = np.array([WIDE, HIGH]) / 2
    step = end - begin
    edge = step / np.linalg.norm(step / half)
    arrow = {"arrowstyle": "-|>", "color": shade(0.75), "lw": 0.9}
    arrow |= {"shrinkA": 0, "shrinkB": 0}
    begin, end = begin + edge, end - edge
    axis.annotate("", xy=tuple(end), xytext=tuple(begin), arrowprops=arrow, zorder=2)


def _frame(axis: Axes, plate: str, inside: np.ndarray, k: int, depth: int) -> None:
    """Draw a plate's frame around its sites, smaller ones inside larger ones."""
    pad = 0.12 + 0.07 * depth
    low = inside.min(0) - [WIDE / 2 + pad, HIGH / 2 + pad + 0.16]
    high = inside.max(0) + [WIDE / 2 + pad, HIGH / 2 + pad]
    color = COLORS[k % len(COLORS)]
    box = FancyBboxPatch(
        tuple(low), *(high - low), boxstyle="round,pad=0,rounding_size=.1",
        facecolor="none", edgecolor=color, lw=1.1, zorder=1,
    )  # fmt: skip
    axis.add_patch(box)
    axis.text(
        high[0] - 0.06, low[1] + 0.04, plate, ha="right", va="bottom", fontsize=8.5,
        color=color, zorder=4,
    )  # fmt: skip


@no_type_check
@styled
def sbc(found: Any) -> Figure:
    """Draw the ranks of ``probmetric.sbc``, which are uniform if the sampler is right.

    Parameters
    ----------
    found : Calibration
        Result of ``probmetric.sbc``.

    Returns
    -------
    matplotlib.figure.Figure
        Each line is the empirical distribution function of a quantity's ranks minus the
        uniform distribution function. The band contains 99% of the differences at each
        rank if the sampler is right. Quantities with the verdict *disagree* in
        ``found.table`` are red. Negative controls (``found.controls``) are not drawn.

    Examples
    --------
    The ranks are made by hand instead of ``pm.sbc(model, data)``. The ranks of sigma
    are too low:

    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.checks.uniformity import Ranks
    >>> even = np.repeat(np.arange(40), 10)
    >>> ranks = Ranks({"mu": even, "sigma": even // 2}, n_draws=39)
    >>> table = pm.checks.uniformity(ranks)
    >>> found = {"ranks": ranks, "table": table, "model": "mine", "verdict": "disagree"}
    >>> pm.plots.sbc(SimpleNamespace(**found)).axes[0].get_title("left")
    'mine: disagree (400 simulated worlds)'
    """
    if not hasattr(found, "ranks") or not hasattr(found, "table"):
        raise ValueError(
            f"found must be the result of probmetric.sbc, got {type(found).__name__}"
        )
    ranks, n_draws = found.ranks.ranks, found.ranks.n_draws
    n = found.table.attrs["n_simulations"]
    bad = found.table["entry"].to_numpy()[found.table["verdict"] == "disagree"]
    wrong = {str(entry).split(" of ", 1)[1].removeprefix("ranks of ") for entry in bad}
    u = np.arange(1, n_draws + 1) / (n_draws + 1)
    figure, axis = blank(size=(6.4, 3.8))
    low, high = (binom.ppf(q, n, u) / n - u for q in (0.005, 0.995))
    axis.fill_between(u, low, high, color=COLORS[4], alpha=0.25, lw=0, label="99%")
    few, drawn = len(ranks) <= 7, set[str]()
    for k, (name, row) in enumerate(ranks.items()):
        if name in found.ranks.constants:
            continue
        share = np.searchsorted(np.sort(row), np.arange(1, n_draws + 1)) / n
        color = COLORS[5] if name in wrong else COLORS[k % 4] if few else "0.55"
        label = name if few or name in wrong else None
        # More than four quantities, or several that disagree, differ in line style.
        turn = len(drawn & wrong) if name in wrong else few * (k // 4)
        dash = DASHES[turn % len(DASHES)]
        drawn.add(name)
        axis.plot(u, share - u, color=color, lw=1.1, ls=dash, label=label)
    axis.axhline(0, color=ink(), lw=0.8)
    axis.set(xlabel="share of draws below the truth", ylabel="distribution − uniform")
    axis.set_title(f"{found.model}: {found.verdict} ({n} simulated worlds)")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
