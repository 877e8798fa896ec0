"""The log-logistic link fitted to pairs with labels, by a damped Newton method.

Logistic regression of y on log D (``metric.link``),

    log odds = a - γ log D,   γ ≥ 0,                                              (1)

with Platt's targets (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2) in place of 1 and 0, so that
separable pairs give a finite slope and no probability is 0 or 1.

The loss is convex in (a, γ). A step of Newton's is halved until the loss falls by a
share of what its slope promises, which reaches the minimum from any start: whole steps
need not, where nearly all P are 0 or 1. Where the minimum has γ < 0, that of γ ≥ 0 is
at γ = 0.

References
----------
Platt, "Probabilistic Outputs for Support Vector Machines", 1999.
"""

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, logit

from probmetric.metric.link import LogLogisticLink

N_STEPS = 100

TOL = 1e-8
"""Of the last step, in units of log odds; steps square their error."""

SHARE = 1e-4
"""Of the promised fall of the loss, which a step must keep."""

ROUNDING = 1e-13
"""Promised falls of the mean loss below it are lost in rounding: the step is whole."""


def platt_targets(y: Int[np.ndarray, "N"] | Bool[np.ndarray, "N"]) -> np.ndarray:
    """Return Platt's targets of labels, 1 for the same and 0 for different."""
    n = np.bincount(np.asarray(y, int), minlength=2)
    return np.where(y == 1, (n[1] + 1) / (n[1] + 2), 1 / (n[0] + 2))


def odds_of(y: Int[np.ndarray, "N"] | Bool[np.ndarray, "N"]) -> np.ndarray:
    """Return the number of same pairs to a different one."""
    n_same = int(np.sum(y == 1))
    return np.asarray(n_same / (len(y) - n_same))


def log_logistic(
    squared: Float[np.ndarray, "N"],
    y: Int[np.ndarray, "N"] | Bool[np.ndarray, "N"],
    design: str,
    start: LogLogisticLink | None = None,
) -> LogLogisticLink:
    """Fit Eq. (1) to squared distances and labels of both kinds.

    Parameters
    ----------
    squared, y
        The pairs.
    design
        How they were chosen: ``LogLogisticLink.pairs``.
    start
        A link near that of the pairs, which saves steps.

    Raises
    ------
    RuntimeError
        Where the minimum is not reached.
    """
    target = platt_targets(y)
    floor = float(np.min(squared[squared > 0], initial=np.inf))
    floor = floor if np.isfinite(floor) else 1.0
    x = np.log(np.maximum(squared, floor))
    flat = np.array([logit(target.mean()), 0.0])
    centre, unit, found = x.mean(), 1.0, flat
    if np.ptp(x) != 0:
        unit = x.std()
        near = flat
        if start is not None:
            slope = float(start.slope)
            near = np.array([start.intercept - slope * centre, slope * unit])
        found = _newton((x - centre) / unit, target, near)
    level, fall = found if found[1] > 0 else flat
    slope = fall / unit
    return LogLogisticLink(
        np.asarray(level + slope * centre),
        np.asarray(slope),
        np.asarray(floor),
        odds_of(y),
        design,
    )


def _newton(z: np.ndarray, target: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return the level and fall per unit of z that minimise the mean loss."""

    def loss_at(at: np.ndarray) -> tuple[np.ndarray, float]:
        eta = at[0] - at[1] * z
        return eta, float(np.mean(np.logaddexp(0, eta) - target * eta))

    largest = np.inf
    eta, loss = loss_at(theta)
    for _ in range(N_STEPS):
        P = expit(eta)
        gap, w = target - P, P * (1 - P)
        a, b, c = w.mean(), -np.mean(w * z), np.mean(w * z**2)
        ascent = np.array([gap.mean(), -np.mean(gap * z)])
        # The ridge bounds steps where the loss is all but straight.
        H = np.array([[a, b], [b, c]]) + 1e-12 * np.eye(2)
        step = np.linalg.solve(H, ascent)
        promised, share = float(ascent @ step), 1.0
        eta, new = loss_at(theta + step)
        if promised > ROUNDING:
            while not new <= loss - SHARE * share * promised and share > TOL:
                share /= 2
                eta, new = loss_at(theta + share * step)
        theta, loss = theta + share * step, new
        largest = float(np.abs(step).max())
        if largest < TOL:
            return theta
    raise RuntimeError(
        f"link: expected the log-logistic fit to end in {N_STEPS} steps, got a last "
        f"step of {largest:.3g} in the log odds of {len(z)} pairs"
    )
