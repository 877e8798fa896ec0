"""Figures of checks: agreement with sampling, predictive checks, calibration, SBC."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binom, binomtest

from probmetric.arguments import check_number
from probmetric.data import inputs
from probmetric.data.containers import Pairs
from probmetric.plots.style import (
    COLORS,
    Panels,
    beside,
    blank,
    ink,
    marks,
    posterior,
    readable,
    stacked,
    styled,
)
from probmetric.posterior.bands import band as simultaneous
from probmetric.posterior.bands import binned, merged
from probmetric.typing import ArrayLike, DrawsLike, no_type_check

DASHES = ("-", "--", ":")
VERDICT_COLORS = {"agree": COLORS[0], "disagree": COLORS[5], "inconclusive": COLORS[6]}
VERDICT_MARKERS = {"agree": "o", "disagree": "X", "inconclusive": "s"}


@styled
def agreement(
    compared: xr.Dataset,
    *,
    title: str | None = None,
    axes: Panels | None = None,
) -> Figure:
    """Draw the result of ``compare``: z of each quantity, and the detectable shift.

    The left panel shows z, the difference between reference and draws divided by its
    Monte Carlo error. Dashed lines are critical values that allow for the number of
    quantities. The right panel shows the smallest shift, in posterior standard
    deviations, that the comparison can detect. A quantity is inconclusive if this shift
    exceeds the tolerance (dashed).
    Infinite values are drawn at the edge. Constants have no z: they are drawn at 0 if
    they agree, otherwise at the edge.

    Parameters
    ----------
    compared : Dataset
        Result of ``probmetric.compare``.
    title : str, optional
        Title. Default: the verdict and the number of quantities.
    axes : sequence of 2 Axes, optional

    Examples
    --------
    >>> import probmetric as pm
    >>> a = np.random.default_rng(0).normal(size=(4, 2000))
    >>> draws = xr.Dataset({"a": (("chain", "draw"), a)})
    >>> agreement(pm.checks.compare({"a": 0.0}, draws)).get_suptitle()
    'Closed form against sampling: agree (1 quantity)'
    """
    if "z" not in compared or "verdict" not in compared:
        raise ValueError(
            f"compared must be the result of probmetric.compare, got {compared!r}"
        )
    names = [str(name) for name in compared["entry"].to_numpy()]
    verdicts = compared["verdict"].to_numpy().astype(str)
    rows, many = np.arange(len(names)), len(names) > 45
    height = float(np.clip(0.21 * len(names) + 1.6, 2.8, 9.5))
    figure, (left, right) = blank(
        2, size=(7.4, height), sharey=True, ratios=[1.9, 1], axes=axes
    )
    critical, tol = float(compared.attrs["z_crit"]), float(compared.attrs["tol"])
    z, detectable = compared["z"].to_numpy(), compared["detectable"].to_numpy()
    extent = 1.15 * max(critical, *np.abs(z[np.isfinite(z)]))
    end = 1.15 * max(tol, *detectable[np.isfinite(detectable)])
    left.set_xlim(-extent, extent)
    right.set_xlim(0, end)
    gap = compared["estimate"].to_numpy() - compared["reference"].to_numpy()
    z_of_constants = np.copysign(np.where(verdicts == "disagree", np.inf, 0.0), gap)
    z = np.where(np.isnan(z) & (verdicts != "inconclusive"), z_of_constants, z)
    z, detectable = np.clip(z, -extent, extent), np.minimum(detectable, end)
    left.axvspan(-critical, critical, color=COLORS[4], alpha=0.12, lw=0)
    left.axvline(0, color="grey", lw=0.8)
    for side in (-critical, critical):
        left.axvline(side, color="grey", ls="--", lw=1)
    right.axvline(tol, color="grey", ls="--", lw=1)
    for verdict, color in VERDICT_COLORS.items():
        chosen = verdicts == verdict
        if chosen.any():
            size, label = 14 if many else 28, f"{verdict} ({chosen.sum()})"
            style = {"color": color, "marker": VERDICT_MARKERS[verdict], "s": size}
            for axis, values in ((left, z), (right, detectable)):
                axis.scatter(
                    values[chosen], rows[chosen], label=label, clip_on=False, **style
                )
    if many:
        left.set_yticks([])
        left.set_ylabel(f"{len(names)} quantities")
    else:
        left.set_yticks(rows, readable(names), fontsize=7.5)
    left.set_ylim(len(names) - 0.4, -0.6)
    alpha = float(compared.attrs["alpha"])
    left.set_xlabel(
        "z = difference / Monte Carlo error\n"
        f"(dashed: ±{critical:.2f}, {alpha:.0%} family-wise)"
    )
    right.set_xlabel(f"detectable shift, in sd\n(dashed: tolerance {tol:g})")
    right.locator_params(axis="x", nbins=4)
    title = title or (
        f"Closed form against sampling: {compared.attrs['verdict']} "
        f"({len(names)} {'quantity' if len(names) == 1 else 'quantities'})"
    )
    if axes is None:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        entries = left.get_legend_handles_labels()
        figure.legend(*entries, loc="outside lower left", ncols=len(VERDICT_COLORS))
    else:
        left.set_title(title)
        right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _replicated_shares(
    M: Float[np.ndarray, "s d d"],
    b: Float[np.ndarray, "s"],
    delta: Float[np.ndarray, "N d"],
    which: Int[np.ndarray, "N"],
    rng: np.random.Generator,
    trials: Int[np.ndarray, "N"] | None = None,
) -> Float[np.ndarray, "s bins"]:
    """Simulate pair labels under each draw, and return the share of y=1 by bin."""
    counts = np.bincount(which, trials)
    shares = np.empty((len(M), len(counts)))
    for s, (matrix, intercept) in enumerate(zip(M, b, strict=True)):
        t = intercept + 0.5 * np.sum((delta @ matrix) * delta, 1)
        P = np.exp(-t)
        y = rng.random(len(t)) < P if trials is None else rng.binomial(trials, P)
        shares[s] = np.bincount(which, y) / counts
    return shares


@styled
def predictive_check(
    draws: DrawsLike,
    pairs: Pairs,
    *,
    prior: DrawsLike | None = None,
    bins: int = 10,
    max_draws: int = 200,
    seed: int = 0,
    ax: Axes | None = None,
) -> Figure:
    """Draw observed and simulated fractions of *same* pairs, by distance.

    Use this figure to see if the model could have produced the labels of the pairs.
    Labels are simulated under each posterior draw. 95% of the simulated curves are
    inside the band at all distances. If the model is right, the observed curve is
    inside with a probability above 95%, because the model was fitted to the same data.
    ``check_model`` corrects the probability by refits.

    Parameters
    ----------
    draws : DataTree or Dataset
        Posterior draws of ``M`` and ``b``, as from ``sample``. The probability that two
        points with difference δ are *same* is exp(-(b + ½ δᵀMδ)).
    pairs : Pairs
        Observed pairs with labels ``y``, or with counts of judgments.
    prior : DataTree or Dataset, optional
        Prior draws of ``M`` and ``b``. Default: the group ``prior`` of ``draws``, if
        any.
    bins : int, default=10
        Number of bins of the distance under the posterior mean of M. Bins have equal
        numbers of pairs.
    max_draws : int, default=200
        Maximum number of draws, evenly spaced. One dataset is simulated per draw.
    seed : int, default=0
        Seed for the simulated labels.

    Examples
    --------
    >>> import probmetric as pm
    >>> M = np.ones((2, 50, 1, 1)), np.full((2, 50), 0.1)
    >>> dims = ("chain", "draw", "feature", "feature_bis")
    >>> draws = xr.Dataset({"M": (dims, M[0]), "b": (dims[:2], M[1])})
    >>> i = np.arange(50)
    >>> pairs = pm.data.Pairs(np.arange(100.0)[:, None], i, i + 50, i % 2)
    >>> figure = pm.plots.predictive_check(draws, pairs)
    >>> figure.axes[0].get_xlabel()
    'distance under the posterior mean metric'
    """
    if getattr(pairs, "_fields", None) != Pairs._fields:
        raise ValueError(f"pairs must be Pairs, got {type(pairs).__name__}")
    if pairs.y is None:
        raise ValueError("pairs must have observed labels, got y=None.")
    fitted = posterior(draws, "M", "b")
    sources = [("posterior", fitted, COLORS[0])]
    if prior is None and isinstance(draws, xr.DataTree) and "prior" in draws.children:
        prior = draws["prior"].to_dataset()
    if prior is not None:
        sources.insert(0, ("prior", posterior(prior, "M", "b"), COLORS[6]))
    X, y = inputs.points(pairs.X, "pairs.X"), inputs.real(pairs.y, "pairs.y")
    if not np.isfinite(y).all():
        raise ValueError(
            "pairs.y must be 0, 1 or counts, got NaN. Remove pairs without a label."
        )
    trials = None if pairs.trials is None else np.asarray(pairs.trials)
    delta = X[np.asarray(pairs.i)] - X[np.asarray(pairs.j)]
    mean = stacked(fitted["M"]).mean(0)
    distance = np.sqrt(np.maximum(np.sum((delta @ mean) * delta, 1), 0))
    which, centers = binned(distance, bins)
    figure, axis = blank(size=(6.8, 4.1), axes=ax)
    rng = np.random.default_rng(seed)
    low = high = np.empty(0)
    for name, source, color in sources:
        M, b = stacked(source["M"]), stacked(source["b"])
        chosen = np.unique(np.linspace(0, len(M) - 1, max_draws).astype(int))
        shares = _replicated_shares(M[chosen], b[chosen], delta, which, rng, trials)
        low, high = np.clip(simultaneous(shares, 0.95), 0, 1)
        axis.fill_between(centers, low, high, color=color, alpha=0.28, lw=0)
        axis.plot(centers, shares.mean(0), color=color, label=f"{name} predictive")
    observed = np.bincount(which, y) / np.bincount(which, trials)
    # The last source is the posterior: low and high are its band.
    outside = int(np.sum((observed < low) | (observed > high)))
    label = f"observed ({outside} of {len(observed)} outside)"
    axis.plot(centers, observed, "o", color=ink(), ms=5, label=label)
    axis.set(ylim=(-0.03, 1.03), ylabel="fraction of same pairs")
    axis.set_xlabel("distance under the posterior mean metric")
    axis.set_title("Would the model have produced these pair labels?")
    axis.legend()
    return figure


def _frequencies(
    stated: np.ndarray, which: np.ndarray, prob: float
) -> tuple[np.ndarray, np.ndarray]:
    rng, counts = np.random.default_rng(0), np.bincount(which)
    shares = [
        np.bincount(which, rng.random(len(stated)) < stated) / counts
        for _ in range(2000)
    ]
    low, high = np.clip(simultaneous(np.array(shares), prob), 0, 1)
    return low, high


@styled
def calibration(
    y: ArrayLike | Mapping[str, ArrayLike],
    probability: ArrayLike | Mapping[str, ArrayLike],
    *,
    bins: int = 10,
    label: str = "P(same)",
    band: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a calibration curve: observed frequency against predicted probability.

    The curve of calibrated probabilities is near the diagonal. Bars are 95% confidence
    intervals of the frequency (Wilson). Bars and bands assume independent outcomes, and
    are too narrow for pairs that share points. Up to 64 curves have different colors
    and markers.

    Parameters
    ----------
    y : array of shape (n,), or mapping of str to such arrays
        Outcomes, 0 or 1. Use a mapping if curves have different outcomes.
    probability : array of shape (n,), or mapping of str to such arrays
        Predicted probabilities, without NaN. Use a mapping for several named curves.
    bins : int, default=10
        Number of bins, with equal numbers of points. If many probabilities are equal,
        bins differ in size. A bin with less than half the usual number is merged with
        its neighbor.
    label : str
        Label of the horizontal axis.
    band : float in (0, 1), optional
        Probability that a curve of calibrated probabilities is inside a band around the
        diagonal, in all bins together. The legend shows the number of bins outside the
        band. Default: no band.

    Examples
    --------
    >>> import probmetric as pm
    >>> happened, stated = [1, 0, 0, 0, 0, 1, 1, 1, 1, 0], np.repeat([0.2, 0.8], 5)
    >>> figure = pm.plots.calibration(happened, stated, bins=2, label="P(rain)")
    >>> figure.axes[0].containers[0][0].get_ydata().round(3).tolist()
    [0.2, 0.8]
    """
    if band is not None:
        check_number("band", band, 0, 1, open_low=True)
    curves = probability if isinstance(probability, Mapping) else {"": probability}
    happened = y if isinstance(y, Mapping) else dict.fromkeys(curves, y)
    if happened.keys() != curves.keys():
        raise ValueError(
            f"y must have the same names as probability, {[*curves]}, got {[*happened]}"
        )
    place, width = beside([f"{name} (10 of 10 outside)" for name in curves])
    figure, axis = blank(size=(4.9 + width, 4.6), axes=ax)
    axis.plot([0, 1], [0, 1], color="grey", lw=1, ls="--")
    shown = zip(curves.items(), readable(curves), marks(len(curves)), strict=True)
    for (key, stated), name, (color, marker) in shown:
        y, stated = np.asarray(happened[key]), np.asarray(stated, float)
        if not np.isin(y, (0, 1)).all():
            raise ValueError(f"y must be 0 or 1, got {np.unique(y)[:5]}")
        if stated.shape != y.shape or stated.size == 0:
            raise ValueError(
                f"probability must have the shape of y, {y.shape}, and not be empty, "
                f"got shape {stated.shape}."
            )
        if (bad := ~((stated >= 0) & (stated <= 1))).any():
            of = f" in {key!r}" if key else ""
            raise ValueError(
                f"probability must be in [0, 1], got {stated[bad][0]:g}{of}. Remove "
                "outcomes without a valid probability."
            )
        few = len(stated) / (2 * bins)
        which = merged(binned(stated, bins)[0], np.ones((len(stated), 1)), few)
        hits, counts = np.bincount(which, y), np.bincount(which)
        centers = np.bincount(which, stated) / counts
        share = hits / counts
        limits = np.array(
            [
                binomtest(int(h), int(n)).proportion_ci(method="wilson")
                for h, n in zip(hits, counts, strict=True)
            ]
        ).T
        error = np.abs(limits - share)
        if band is not None:
            low, high = _frequencies(stated, which, band)
            axis.fill_between(centers, low, high, color=color, alpha=0.28, lw=0)
            outside = int(np.sum((share < low) | (share > high)))
            name = f"{name} ({outside} of {len(share)} outside)".lstrip()
        style = {"fmt": f"{marker}-", "ms": 4.5, "capsize": 2, "color": color}
        axis.errorbar(centers, share, error, label=name or None, **style)
    if len(curves) > 1 or band is not None:
        axis.legend(**place)
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axis.set(xlabel=f"stated {label}", ylabel="observed frequency")
    axis.set_title("Calibration: on the diagonal is right")
    return figure


@styled
def model_check(verdict: Any, *, axes: Panels | None = None) -> Figure:
    """Draw the result of ``check_model`` for pairs: fractions of *same* pairs.

    Each panel shows the observed and the predicted fraction of *same* pairs, in bins of
    the distance or of the predicted probability. If the model is right, the observed
    fractions are inside the band, in all bins, with probability 95%. ``verdict`` is the
    result of ``check_model``.

    Examples
    --------
    >>> import pandas as pd
    >>> import probmetric as pm
    >>> from probmetric.checks.criticism import Finding, ModelVerdict, Part
    >>> bins = {"at": [1.0, 2.0], "observed": [0.8, 0.3], "expected": [0.7, 0.2]}
    >>> bins = pd.DataFrame(bins | {"low": [0.6, 0.1], "high": [0.9, 0.4], "pairs": 50})
    >>> finding = Finding("predictive", 1.0, 0.4, 0.1, 1.0, "as stated", "", bins)
    >>> verdict = ModelVerdict("lca", (Part(finding, 0.4, "adequate"),))
    >>> pm.plots.model_check(verdict).axes[0].get_title("left")
    'predictive: adequate'
    """
    shown = [p for p in verdict.parts if p.finding.bins is not None]
    if not shown:
        raise ValueError(
            "verdict must have a part with bins, got none. Use the result of "
            "check_model for pairs."
        )
    size = (4.6 * len(shown), 4.1)
    figure, panels = blank(len(shown), size=size, sharey=True, axes=axes)
    for axis, part in zip(np.atleast_1d(panels), shown, strict=True):
        name, table = part.finding.part, part.finding.bins.sort_values("at")
        at, band = table["at"], (table["low"], table["high"])
        axis.fill_between(at, *band, color=COLORS[0], alpha=0.28, lw=0)
        axis.plot(at, table["expected"], color=COLORS[0], label="stated, 95% band")
        axis.plot(at, table["observed"], "o", color=ink(), ms=5, label="observed")
        axis.set(ylim=(-0.03, 1.03), title=f"{name}: {part.verdict}")
        axis.set_xlabel("stated P(same)" if name == "calibration" else "distance")
        axis.legend()
    np.atleast_1d(panels)[0].set_ylabel("fraction of same pairs")
    return figure


@no_type_check
@styled
def sbc(found: Any) -> Figure:
    """Draw the result of ``probmetric.sbc`` (simulation-based calibration).

    The rank of a quantity is the number of posterior draws below its true value. Over
    simulated data sets, ranks are uniform if the sampler is right. Each line is the
    cumulative distribution of the ranks of one quantity, minus the uniform one. If the
    sampler is right, the line is inside the band with probability 99% at each rank.
    Quantities with the verdict *disagree* in ``found.table`` are red. Results for
    deliberately wrong posteriors (``found.controls``) are not drawn.

    Examples
    --------
    This example uses ranks made by hand, not a result of ``pm.sbc(model, data)``. The
    ranks of sigma are too low:

    >>> from types import SimpleNamespace
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
