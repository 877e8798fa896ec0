"""Figures of verification: the errors of every threshold on log likelihood ratios."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from probmetric.evaluation.verification import error_rates, verification
from probmetric.plots.style import beside, blank, marks, readable, styled
from probmetric.typing import ArrayLike

TICKS = (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
"""Rates that are written on the axes, where they are within them."""

APART = 0.085
"""Share of an axis from one of them to the next, at least."""


@styled
def det(
    log_ratio: ArrayLike | Mapping[str, ArrayLike],
    same: ArrayLike,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Draw misses against false alarms at every threshold, on normal axes (DET plot).

    Parameters
    ----------
    log_ratio : array-like of shape (N,), or mapping of str to such arrays
        Log likelihood ratios of *same*, as in ``verification``, or any number that is
        larger for pairs that are more alike; a mapping gives several named curves.
    same : array-like of shape (N,), of bool
        Whether the two of a pair are of one source; some are and some are not.
    ax : Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        Both axes are Φ⁻¹ of a rate: scores that are normal in either kind of pairs
        give a straight line, of slope -1 where their variances are equal. Points are
        the equal error rates of ``verification``, on the convex hull, and may lie a
        little below their curve. A rate of 0 or 1 has no place on such axes: it is
        drawn as half a pair of n, 1/(2n) or 1 - 1/(2n). There is no band: pairs that
        share sources are not independent; ``verification_intervals`` has the limits
        of the equal error rate.

    Raises
    ------
    ValueError
        As ``verification``.

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
        raise ValueError("log_ratio: expected a curve or more, got none")
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
    """Return the rates that are far enough from the one before on an axis so wide."""
    shown: list[float] = []
    for rate in rates:
        if not shown or norm.ppf(rate) - norm.ppf(shown[-1]) >= APART * width:
            shown.append(rate)
    return shown
