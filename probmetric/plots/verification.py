"""Figures of likelihood ratios, of errors at every threshold, and of novelty."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import expit
from scipy.stats import norm

from probmetric.data import inputs
from probmetric.evaluation.verification import error_rates, pav, verification
from probmetric.plots.style import (
    COLORS,
    Panels,
    beside,
    blank,
    marks,
    readable,
    styled,
)
from probmetric.typing import ArrayLike

TICKS = (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
"""Rates with a tick label, if they are within the axes."""

APART = 0.085
"""Minimum distance between two tick labels, as a fraction of the axis."""


@styled
def det(
    log_ratio: ArrayLike | Mapping[str, ArrayLike],
    same: ArrayLike,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Draw a DET plot (detection error tradeoff): misses against false alarms.

    A curve shows both error rates of "same source" decisions at all thresholds. Lower
    curves are better. Axes are scaled by the normal quantile function. If the scores of
    both kinds of pairs are normal, the curve is a straight line, with slope -1 for
    equal variances.

    A dot marks the equal error rate of ``verification``. The dot is on the convex hull
    of the curve, which may be a little below the curve. Rates of 0 and 1 are drawn at
    1/(2n) and 1 - 1/(2n) for n pairs. There is no band, because pairs that share
    sources are dependent. For intervals use ``verification_intervals``.

    Parameters
    ----------
    log_ratio : array-like of shape (N,), or mapping of str to such arrays
        Log likelihood ratios, as in ``verification``, or another score that is larger
        for more similar pairs. Use a mapping for several named curves.
    same : array-like of shape (N,), of bool
        Whether the two members of a pair have the same source. Both values must occur.

    References
    ----------
    Martin, Doddington, Kamm, Ordowski and Przybocki, "The DET curve in assessment of
    detection task performance", Eurospeech 1997.

    Examples
    --------
    >>> figure = det([2.0, 1.0, -0.5, 0.3, -1.0, -3.0], [1, 1, 1, 0, 0, 0])
    >>> figure.axes[0].get_ylabel()
    'misses: one source called two'
    """
    curves = log_ratio if isinstance(log_ratio, Mapping) else {"": log_ratio}
    if not curves:
        raise ValueError(
            "log_ratio must contain the ratios of at least one method, got none"
        )
    n_same = int(np.sum(np.asarray(same, bool)))
    least = 0.5 / np.array([max(1, np.size(same) - n_same), max(1, n_same)])
    place, width = beside([f"{name} (equal error rate 0.01)" for name in curves])
    figure, axis = blank(size=(4.9 + width, 4.6), axes=ax)
    shown = zip(curves.items(), readable(curves), marks(len(curves)), strict=True)
    for (name, scores), words, (color, marker) in shown:
        try:
            rates, eer = error_rates(scores, same), verification(scores, same).eer
        except ValueError as error:
            raise ValueError(f"{name}: {error}" if name else str(error)) from None
        x, y = (
            norm.ppf(np.clip(r, e, 1 - e)) for r, e in zip(rates, least, strict=True)
        )
        label = f"{words} (equal error rate {eer:.2g})".lstrip()
        axis.plot(x, y, color=color)
        at = norm.ppf(np.clip(eer, least.min(), 0.5))
        axis.plot(at, at, marker, ms=5, color=color)
        axis.plot([], [], color=color, marker=marker, ms=5, label=label)
    ends = norm.ppf(least)
    for low, limit in zip(ends, (axis.set_xlim, axis.set_ylim), strict=True):
        limit(low - 0.1, max(-low, 0.1) + 0.1)
    for low, ticks in zip(least, (axis.set_xticks, axis.set_yticks), strict=True):
        shown = _apart(
            [t for t in TICKS if low <= t <= 1 - low], -2 * float(norm.ppf(low))
        )
        ticks(norm.ppf(shown), [f"{t:.4g}" for t in shown])
    side = (ends.min(), -ends.min())
    axis.plot(side, side, color="grey", lw=1, ls="--", scalex=False, scaley=False)
    axis.set(xlabel="false alarms: two sources called one")
    axis.set(ylabel="misses: one source called two")
    axis.set_title("Errors at every threshold: lower is better")
    axis.legend(**place)
    return figure


def _apart(rates: Sequence[float], width: float) -> list[float]:
    """Drop rates that are too close to the previous rate, on an axis of this width."""
    shown: list[float] = []
    for rate in rates:
        if not shown or norm.ppf(rate) - norm.ppf(shown[-1]) >= APART * width:
            shown.append(rate)
    return shown


@styled
def likelihood_ratios(
    log_ratio: ArrayLike,
    same: ArrayLike,
    *,
    axes: Panels | None = None,
) -> Figure:
    """Draw a Tippett plot, a calibration plot and an empirical cross-entropy plot.

    LR is the likelihood ratio of a pair for "same source" against "different sources".

    * Tippett: fraction of same-source pairs, and of different-source pairs, with a
      log10 LR of at least x.
    * Calibration: log10 LR after isotonic regression (PAV) on these pairs, against the
      log10 LR in ``log_ratio``. Calibrated ratios are near the diagonal. Infinite
      values are drawn at the edge.
    * Empirical cross-entropy (ECE) in bits against the prior log10 odds of "same
      source". Lower is better. The curves are for the ratios, for the ratios after
      isotonic regression, and for LR = 1. The ECE at log10 odds 0 is Cllr, the log
      likelihood ratio cost.

    Parameters
    ----------
    log_ratio : array-like of shape (N,)
        Natural log likelihood ratios of pairs that were not in the fit.
    same : array-like of shape (N,), of bool
        Whether the two members of a pair have the same source. Both values must occur.
    axes : three matplotlib Axes, optional
        Axes to draw in. Default: a new figure.

    References
    ----------
    Ramos and Gonzalez-Rodriguez, "Reliable support: measuring calibration of likelihood
    ratios", Forensic Science International 230, 2013.

    Examples
    --------
    >>> figure = likelihood_ratios([2.0, 1.0, -0.5, 0.3, -3.0], [1, 1, 1, 0, 0])
    >>> [axis.get_title("left") for axis in figure.axes]
    ['Tippett plot', 'Calibration', 'Empirical cross-entropy']
    """
    scores, is_same, calibrated = pav(log_ratio, same)
    stated, best = scores / np.log(10), calibrated / np.log(10)
    figure, (tippett, diagonal, entropy) = blank(
        3, size=(5.4, 10.2), down=True, axes=axes
    )
    for kind, words, color in (
        (is_same, "same source", COLORS[0]),
        (~is_same, "different sources", COLORS[1]),
    ):
        tippett.ecdf(stated[kind], complementary=True, color=color, label=words)
    tippett.axvline(0, color="grey", lw=1, ls=":")
    tippett.set(xlabel="log10 LR", ylabel="share at or above", title="Tippett plot")
    tippett.legend()

    finite = np.r_[best[np.isfinite(best)], stated[np.isfinite(stated)]]
    low, high = finite.min(initial=-1) - 0.3, finite.max(initial=1) + 0.3
    order = np.argsort(stated)
    x, y = (np.clip(v[order], low, high) for v in (stated, best))
    diagonal.plot([low, high], [low, high], color="grey", lw=1, ls="--")
    diagonal.plot(x, y, color=COLORS[0])
    diagonal.set(xlabel="stated log10 LR", ylabel="calibrated to these pairs")
    diagonal.set_title("Calibration")

    odds = np.linspace(-3, 3, 121)
    for values, words, style in (
        (stated, "stated", {"color": COLORS[0]}),
        (best, "calibrated", {"color": COLORS[2], "ls": "--"}),
        (np.zeros_like(stated), "LR = 1", {"color": "grey", "ls": ":"}),
    ):
        entropy.plot(odds, cross_entropy(values, is_same, odds), label=words, **style)
    entropy.set(xlabel="prior log10 odds", ylabel="cross-entropy (bits)")
    entropy.set_ylim(0, min(1.5, entropy.get_ylim()[1]))
    entropy.set_title("Empirical cross-entropy")
    entropy.legend()
    return figure


def cross_entropy(
    log10_ratio: np.ndarray, same: np.ndarray, log10_odds: np.ndarray
) -> np.ndarray:
    """Compute the empirical cross-entropy in bits at each of the prior odds."""
    log_ratio, costs = np.log(10) * log10_ratio, list[float]()
    for shift in np.log(10) * log10_odds:
        miss = np.logaddexp(0, -(log_ratio[same] + shift)).mean()
        alarm = np.logaddexp(0, log_ratio[~same] + shift).mean()
        costs.append(expit(shift) * miss + expit(-shift) * alarm)
    return np.array(costs) / np.log(2)


@styled
def typicality(
    p_values: ArrayLike,
    known: ArrayLike | None = None,
    *,
    novelty: float = 0.05,
    ax: Axes | None = None,
) -> Figure:
    """Draw the fraction of points called novel, against the threshold of the p-value.

    A point is called novel if its p-value is at most the threshold. For points of the
    training classes, the curve should be near the diagonal: at the threshold α, a
    fraction of about α is called novel. For points of other classes, the curve should
    be far above the diagonal.

    Parameters
    ----------
    p_values : array-like of shape (m,)
        Result of ``KNeighborsClassifier.typicality`` for points that were not in the
        fit.
    known : array-like of shape (m,), of bool, optional
        Whether the class of each point is a training class. Default: one curve for all.
    novelty : float in (0, 1), default=0.05
        Threshold to mark in the figure.

    Examples
    --------
    >>> figure = typicality([0.5, 0.01, 0.9, 0.02], [True, False, True, False])
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['known classes (0% novel)', 'other classes (100% novel)']
    """
    p = inputs.real(p_values, "p_values")
    inside = np.ones(len(p), bool) if known is None else np.asarray(known, bool)
    if p.ndim != 1 or inside.shape != p.shape:
        raise ValueError(
            f"p_values and known must have shape (m,), got {p.shape} and {inside.shape}"
        )
    if (bad := ~((p >= 0) & (p <= 1))).any():
        raise ValueError(f"p_values must be in [0, 1], got {p[bad][0]:g}")
    names = ("points",) if known is None else ("known classes", "other classes")
    figure, axis = blank(size=(4.9, 4.2), axes=ax)
    for name, rows, color in zip(names, (inside, ~inside), COLORS[::5], strict=False):
        if rows.any():
            share = f"{name} ({np.mean(p[rows] <= novelty):.0%} novel)"
            axis.ecdf(p[rows], color=color, label=share)
    axis.plot([0, 1], [0, 1], color="grey", lw=1, ls="--")
    axis.axvline(novelty, color="grey", lw=1, ls=":")
    axis.set(xlabel="threshold on the p-value", ylabel="share called novel")
    axis.set_title("Points of none of the classes")
    axis.legend()
    return figure
