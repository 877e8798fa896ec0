"""Jackknife: refits without some of the points, and their limits.

*Quarters.* The points are divided at random into four quarters, stratified by class,
and the model is fitted again without each quarter. This is repeated ``REPEATS`` times.
Let θ_(k) be the statistic of refit k, and θ̄ the mean over refits. The variance of the
statistic θ̂ of the fit to all points is

    V = 3/g Σ_k (θ_(k) - θ̄)²,         g = 4 · REPEATS.                             (1)

This is the delete-d jackknife. A refit without a fraction q = ¼ of the points has the
variance q/(1 - q) V around θ̂ (Shao and Wu). Many learners use nearest pairs, and
settings chosen by folds. Leaving out one point hardly changes these pairs and settings.
Leaving out a quarter changes them as a new sample does, so (1) is preferred to (2).
If n points are in C classes (of two or more points), a fit has n - C deviations from
class means, and a refit has 3n/4 - C. So (1) is too large. This argument gives the
factor 1 - 4C/(3n), with which intervals covered too rarely. V is multiplied by a larger
factor that was chosen by coverage (see Benchmarks: intervals):

    (1 - 4C/(3n)) / (1 - C/n).                                                     (3)

*Groups.* Statistics that are smooth in the points, such as the heights of GDM, need
fewer refits, one without each of g groups:

    V = (g - 1)/g Σ_k (θ_(k) - θ̄)².                                               (2)

For statistics of pairs of points, (2) is on average too large rather than too small
(Efron and Stein). g is n, or ``N_GROUPS`` for more than ``MOST_ALONE`` points.

The limits are θ̂ ± t √V. The t quantile has min(n - C, g - 1) degrees of freedom for
Eq. (1) with n points in C classes, and g - 1 for Eq. (2).

References
----------
Efron and Stein, "The jackknife estimate of variance", Ann. Statist. 9 (1981).
Shao and Wu, "A general theory for jackknife variance estimation", Ann. Statist. 17
(1989).
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

from probmetric.arguments import check_within_0_1
from probmetric.neighbors.strength import deal

QUARTERS = 4
"""Number of parts of the points. Each refit leaves out one part."""

REPEATS = 13
"""Number of divisions into quarters."""

FACTOR = (QUARTERS - 1) / (QUARTERS * REPEATS - 1)
"""Ratio of V in Eq. (1) to V in Eq. (2) for the same refits."""


def factor_of(counts: Int[np.ndarray, "C"]) -> float:
    """Return ``FACTOR`` times Eq. (3) for classes with these numbers of points."""
    counts = counts[counts > 1]
    if len(counts) == 0:
        return FACTOR
    share = len(counts) / counts.sum()
    return FACTOR * (1 - 4 / 3 * share) / (1 - share)


MOST_ALONE = 100
"""Maximum number of points for which each group has one point."""

N_GROUPS = 50
"""Number of groups for more than ``MOST_ALONE`` points."""


def groups_of(codes: Int[np.ndarray, "n"], seed: int = 0) -> Int[np.ndarray, "n"]:
    """Assign each point to one of the jackknife groups 0..g-1.

    Up to ``MOST_ALONE`` points, each group has one point. For more points there are
    ``N_GROUPS`` random groups, stratified by the classes ``codes``.
    """
    n = len(codes)
    if n <= MOST_ALONE:
        return np.arange(n)
    order = np.lexsort((np.random.default_rng(seed).random(n), codes))
    group = np.empty(n, int)
    group[order] = np.arange(n) % N_GROUPS
    return group


def quarters(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    seed: int = 0,
    groups: Int[np.ndarray, "n"] | None = None,
) -> Iterator[Bool[np.ndarray, "n"]]:
    """Yield the points of each refit of Eq. (1): all points except a quarter.

    Quarters are stratified by class, and do not depend on the order of the points. The
    only point (or group) of a class is never left out. Points of a group are left out
    together. A group of several classes counts as the class that is in the fewest
    groups, also in Eq. (3).
    """
    for repeat in range(seed * REPEATS, (seed + 1) * REPEATS):
        part = deal(X, codes, QUARTERS, repeat, groups=groups)
        for k in range(QUARTERS):
            yield part != k


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
    values: Float[np.ndarray, "r *m"],
    prob: float,
    factor: float = 1.0,
    df: int | None = None,
) -> Float[np.ndarray, "2 *m"]:
    """Compute limits value ± t √V; ``values[0]`` is from the fit to all points.

    t has ``df`` degrees of freedom, by default the number of refits minus 1. If any
    value is infinite, the limits are infinite.
    """
    prob = checked_prob(prob)
    value, left_out = np.asarray(values[0]), values[1:]
    g, finite = len(left_out), np.isfinite(values).all(0)
    left_out = np.where(finite, left_out, 0.0)
    variance = (g - 1) / g * np.sum((left_out - left_out.mean(0)) ** 2, 0)
    half = quantile_of_t(prob, df or g - 1) * np.sqrt(factor * variance)
    half = np.where(np.isfinite(value) & ~finite, np.inf, half)
    return np.stack([value - half, value + half])


def positive_limits(
    values: Float[np.ndarray, "r *m"],
    prob: float,
    factor: float = 1.0,
    df: int | None = None,
) -> Float[np.ndarray, "2 *m"]:
    """Compute limits on the log scale; 0 and infinity if only the fit is zero."""
    zero = values[0] == 0
    ends = limits(np.log(np.maximum(values, np.finfo(float).tiny)), prob, factor, df)
    with np.errstate(over="ignore"):  # No upper limit if a refit is zero.
        low, high = np.where(zero, 0.0, np.exp(ends))
    high = np.where(zero & (values[1:] != 0).any(0), np.inf, high)
    return np.stack([np.minimum(low, values[0]), np.maximum(high, values[0])])
