"""Delete-a-group jackknife: refits without a group of points, and their limits.

Each group of points is left out in turn and the model is fitted again. A learner in
``with_intervals`` is refitted completely; LCA keeps the standardization, the prior's W₀
and c, and λ of the fit to all points. With θ_(k) the estimate without group k and θ̄
their mean, the variance of θ̂ is

    V = (g - 1)/g Σ_k (θ_(k) - θ̄)²,                                               (1)

which for statistics of pairs of points is too large on average rather than too small
(Efron and Stein). It takes n refits, or ``N_GROUPS`` for more than ``MOST_ALONE``
points. Limits of θ̂ are θ̂ ± t √V with t of g - 1 degrees of freedom.

For points in C classes V is multiplied by (n - 1)/(n - C): C means are fitted, which
use up as many degrees of freedom. This matters with two or three points per class.

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
    """Assign each point to the group 0..g-1 in which it is left out.

    One point per group up to ``MOST_ALONE`` points; otherwise ``N_GROUPS`` random
    groups, stratified by class.

    Parameters
    ----------
    codes : array of shape (n,)
        Classes 0..c-1.
    seed : int, default=0
    X : array of shape (n, d), optional
        Points: groups then do not depend on the order of the rows.

    Examples
    --------
    Few points are left out one by one, many in 50 groups with a share of each class:

    >>> import numpy as np
    >>> from probmetric.posterior import groups_of
    >>> groups_of(np.array([0, 0, 1])).tolist()
    [0, 1, 2]
    >>> codes = np.repeat([0, 1], 100)
    >>> group = groups_of(codes)
    >>> int(group.max()) + 1, codes[group == 0].tolist()
    (50, [0, 0, 1, 1])
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
    """Compute (n - 1)/(n - C), the factor of V."""
    return (len(codes) - 1) / (len(codes) - len(np.unique(codes)))


def covariance(left_out: Float[np.ndarray, "g *m p"]) -> Float[np.ndarray, "*m p p"]:
    """Compute Eq. (1) for vectors."""
    g, gap = len(left_out), left_out - left_out.mean(0)
    return (g - 1) / g * np.einsum("g...p,g...q->...pq", gap, gap)


def checked_prob(prob: Any) -> float:
    """Check that a number or 0-d array is in (0, 1) and that 1 + prob > 1."""
    number = prob.item() if getattr(prob, "ndim", None) == 0 else prob
    check_within_0_1(prob=number)
    if 1 + number == 1:
        raise ValueError(
            f"prob: expected a number of at least {np.finfo(float).eps:.2g}, got "
            f"{number!r}"
        )
    return float(number)


@cache
def quantile_of_t(prob: float, df: int) -> float:
    """Compute the t that |T| with df degrees of freedom exceeds with 1 - prob."""
    return float(special.stdtrit(df, (1 + prob) / 2))


def limits(
    values: Float[np.ndarray, "r *m"], prob: float, factor: float = 1.0
) -> Float[np.ndarray, "2 *m"]:
    """Compute (lower, upper), value ± t √V; ``values[0]`` comes from the fit.

    Infinite values stay; a finite value with an infinite refit has infinite limits.
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
    """Compute limits of numbers ≥ 0 on the log scale; ``name`` is for errors.

    Zeros stay if all refits are zero; raises if only the fit is zero.
    """
    zero = values[0] == 0
    if np.any(zero & (values[1:] != 0).any(0)):
        raise ValueError(
            f"{name} must be at a positive distance in the fit, or at zero in every "
            "refit, got a pair at distance zero only in the fit, which has no interval "
            "on the log scale"
        )
    ends = limits(np.log(np.maximum(values, np.finfo(float).tiny)), prob, factor)
    with np.errstate(over="ignore"):  # No upper limit if a refit is zero.
        low, high = np.where(zero, 0.0, np.exp(ends))
    return np.stack([np.minimum(low, values[0]), np.maximum(high, values[0])])


def aligned(
    left_out: Float[np.ndarray, "g p d"], factor: Float[np.ndarray, "p d"]
) -> Float[np.ndarray, "g p d"]:
    """Rotate maps onto a map, each by orthogonal Procrustes.

    Examples
    --------
    A refit of the same metric in rotated coordinates is rotated back:

    >>> import numpy as np
    >>> from probmetric.posterior import aligned
    >>> factor, turn = np.diag([1.0, 2.0]), np.array([[0.0, -1.0], [1.0, 0.0]])
    >>> aligned(np.stack([turn @ factor]), factor).round(6).tolist()
    [[[1.0, 0.0], [0.0, 2.0]]]
    """
    U, _, Vt = np.linalg.svd(np.einsum("pd,gqd->gpq", factor, left_out))
    return (U @ Vt) @ left_out
