"""Delete-a-group jackknife: refits without a group of points, and their limits.

Each group of points is left out in turn and the model is fitted again. A learner in
``with_intervals`` is refitted completely. LCA uses the standardization, the prior's W₀
and c, and λ of the fit to all points in every refit. With θ_(k) the estimate without
group k and θ̄ the mean of these estimates, the variance of θ̂ is

    V = (g - 1)/g Σ_k (θ_(k) - θ̄)²,                                               (1)

which for statistics of pairs of points is on average too large rather than too small
(Efron and Stein). The number of refits g is n, or ``N_GROUPS`` for more than
``MOST_ALONE`` points. The limits are θ̂ ± t √V, with t a quantile of Student's t with
g - 1 degrees of freedom.

For points in C classes V is multiplied by (n - 1)/(n - C), because fitting C means uses
C degrees of freedom. The factor matters with two or three points per class.

References
----------
Efron and Stein, "The jackknife estimate of variance", Ann. Statist. 9 (1981).
"""

from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from probmetric.arguments import check_within_0_1
from probmetric.data.hash import canonical_order

MOST_ALONE = 100
"""Maximum number of points for groups of one point."""

N_GROUPS = 50
"""Number of groups for more points."""


def groups_of(
    codes: Int[np.ndarray, "n"],
    seed: int = 0,
    X: Float[np.ndarray, "n d"] | None = None,
) -> Int[np.ndarray, "n"]:
    """Assign each point to one of the jackknife groups 0..g-1.

    Up to ``MOST_ALONE`` points, each group has one point. For more points there are
    ``N_GROUPS`` random groups, stratified by the classes ``codes``. If X is passed, the
    groups do not depend on the order of the rows.
    """
    n = len(codes)
    if n <= MOST_ALONE:
        return np.arange(n)
    rows = np.arange(n) if X is None else canonical_order(X, codes)
    order = rows[np.lexsort((np.random.default_rng(seed).random(n), codes[rows]))]
    group = np.empty(n, int)
    group[order] = np.arange(n) % N_GROUPS
    return group


def factor_of(codes: Int[np.ndarray, "n"]) -> float:
    """Compute (n - 1)/(n - C), the factor of the jackknife variance."""
    return (len(codes) - 1) / (len(codes) - len(np.unique(codes)))


def covariance(left_out: Float[np.ndarray, "g *m p"]) -> Float[np.ndarray, "*m p p"]:
    """Compute the jackknife covariance of vectors, Eq. (1)."""
    g, gap = len(left_out), left_out - left_out.mean(0)
    return (g - 1) / g * np.einsum("g...p,g...q->...pq", gap, gap)


def checked_prob(prob: Any) -> float:
    """Check that a number or 0-d array is in (0, 1), and return it as float."""
    number = prob.item() if getattr(prob, "ndim", None) == 0 else prob
    check_within_0_1(prob=number)
    return float(number)


@cache
def quantile_of_t(prob: float, df: int) -> float:
    """Compute the t with P(|T| ≤ t) = prob for Student's T (df degrees of freedom)."""
    return float(special.stdtrit(df, (1 + prob) / 2))


def limits(
    values: Float[np.ndarray, "r *m"], prob: float, factor: float = 1.0
) -> Float[np.ndarray, "2 *m"]:
    """Compute limits value ± t √V; ``values[0]`` is from the fit to all points.

    If the value is infinite, so are both limits. If the value is finite and a refit is
    infinite, the limits are infinite.
    """
    prob = checked_prob(prob)
    value, left_out = np.asarray(values[0]), values[1:]
    g, finite = len(left_out), np.isfinite(values).all(0)
    left_out = np.where(finite, left_out, 0.0)
    variance = (g - 1) / g * np.sum((left_out - left_out.mean(0)) ** 2, 0)
    half = quantile_of_t(prob, g - 1) * np.sqrt(factor * variance)
    half = np.where(np.isfinite(value) & ~finite, np.inf, half)
    return np.stack([value - half, value + half])


def positive_limits(
    values: Float[np.ndarray, "r *m"],
    prob: float,
    factor: float = 1.0,
    name: str = "values",
) -> Float[np.ndarray, "2 *m"]:
    """Compute limits on the log scale; raise if only the fit (not refits) is zero."""
    zero = values[0] == 0
    if np.any(zero & (values[1:] != 0).any(0)):
        raise ValueError(
            f"{name} must be at a positive distance in the fit, or at zero in every "
            "refit, got distance zero only in the fit. Leave out such pairs."
        )
    ends = limits(np.log(np.maximum(values, np.finfo(float).tiny)), prob, factor)
    with np.errstate(over="ignore"):  # No upper limit if a refit is zero.
        low, high = np.where(zero, 0.0, np.exp(ends))
    return np.stack([np.minimum(low, values[0]), np.maximum(high, values[0])])


def aligned(
    left_out: Float[np.ndarray, "g p d"], factor: Float[np.ndarray, "p d"]
) -> Float[np.ndarray, "g p d"]:
    """Rotate each linear map onto a reference map by orthogonal Procrustes."""
    U, _, Vt = np.linalg.svd(np.einsum("pd,gqd->gpq", factor, left_out))
    return (U @ Vt) @ left_out
