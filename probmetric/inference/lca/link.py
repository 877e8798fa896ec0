"""Fit the log-logistic link to labeled pairs by a damped Newton method.

The fit is a logistic regression of y on log D (``metric.link``),

    log odds = a - γ log D,   γ ≥ 0,                                              (1)

with Platt's targets (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2) instead of 1 and 0. With these
targets the slope is finite for separable pairs, and no probability is 0 or 1.

The loss is convex in (a, γ). A Newton step is halved until the loss decreases by a
share of the decrease that the gradient predicts. The method converges from any start.
Full Newton steps can diverge if nearly all P are 0 or 1. If the minimum has γ < 0, the
minimum subject to γ ≥ 0 is at γ = 0.

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
"""Largest last step in log odds; the error after a step is about its square."""

SHARE = 1e-4
"""Share of the predicted decrease of the loss that a step must reach."""

ROUNDING = 1e-13
"""Predicted decrease of the mean loss below which the full step is taken."""


def platt_targets(y: Int[np.ndarray, "N"] | Bool[np.ndarray, "N"]) -> np.ndarray:
    """Return Platt's targets for labels (1 for same, 0 for different)."""
    n = np.bincount(np.asarray(y, int), minlength=2)
    return np.where(y == 1, (n[1] + 1) / (n[1] + 2), 1 / (n[0] + 2))


def odds_of(y: Int[np.ndarray, "N"] | Bool[np.ndarray, "N"]) -> np.ndarray:
    """Return the number of same pairs divided by the number of different pairs."""
    n_same = int(np.sum(y == 1))
    return np.asarray(n_same / (len(y) - n_same))


def log_logistic(
    squared: Float[np.ndarray, "N"],
    y: Int[np.ndarray, "N"] | Bool[np.ndarray, "N"],
    design: str,
) -> LogLogisticLink:
    """Fit Eq. (1) to squared distances and labels; both labels must occur.

    ``design`` is the method that chose the pairs (``LogLogisticLink.pairs``).
    RuntimeError is raised if Newton's method does not converge.
    """
    target = platt_targets(y)
    floor = float(np.min(squared[squared > 0], initial=np.inf))
    floor = floor if np.isfinite(floor) else 1.0
    x = np.log(np.maximum(squared, floor))
    flat = np.array([logit(target.mean()), 0.0])
    center, unit, minimum = x.mean(), 1.0, flat
    if np.ptp(x) != 0:
        unit = x.std()
        minimum = _newton((x - center) / unit, target, flat)
    level, fall = minimum if minimum[1] > 0 else flat
    slope = fall / unit
    return LogLogisticLink(
        np.asarray(level + slope * center),
        np.asarray(slope),
        np.asarray(floor),
        odds_of(y),
        design,
    )


def _newton(z: np.ndarray, target: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return the intercept, and the decrease per unit of z, of least mean loss."""

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
        # The ridge bounds steps if the loss is nearly linear.
        H = np.array([[a, b], [b, c]]) + 1e-12 * np.eye(2)
        step = np.linalg.solve(H, ascent)
        predicted, share = float(ascent @ step), 1.0
        eta, new = loss_at(theta + step)
        if predicted > ROUNDING:
            while not new <= loss - SHARE * share * predicted and share > TOL:
                share /= 2
                eta, new = loss_at(theta + share * step)
        theta, loss = theta + share * step, new
        largest = float(np.abs(step).max())
        if largest < TOL:
            return theta
    raise RuntimeError(
        f"P(same) for new classes: the fit to {len(z)} pairs did not converge in "
        f"{N_STEPS} steps (last step {largest:.3g} in log odds). Remove outliers from "
        "the points."
    )
