"""The delete-a-group jackknife: refits without a part of the points, and their limits.

Each group of points is left out in turn and the fit is made again: a learner given to
``with_intervals`` does everything again; LCA keeps the standardisation, the prior's W₀
and c, and λ of the fit to all points. With θ_(k) the estimate without group k and θ̄
their mean, the variance of θ̂ is

    V = (g - 1)/g Σ_k (θ_(k) - θ̄)²,                                               (1)

which for statistics of pairs of points is too large on average rather than too small
(Efron and Stein), and takes n refits, or ``N_GROUPS`` of more points than
``MOST_ALONE``. Limits of θ̂ are θ̂ ± t √V with t that of g - 1 degrees of freedom.

Of points in C classes V is multiplied by (n - 1)/(n - C): as many means are fitted,
so many degrees of freedom are gone. Two or three points a class need it (ratios among
seven classes, n = 20: .86 covered for .80), elsewhere it changes little.

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
"""Points up to which each is a group of its own."""

N_GROUPS = 50
"""Groups of more points."""


def groups_of(
    codes: Int[np.ndarray, "n"],
    seed: int = 0,
    X: Float[np.ndarray, "n d"] | None = None,
) -> Int[np.ndarray, "n"]:
    """Return the group 0..g-1 in which each point is left out.

    Each alone up to ``MOST_ALONE`` points; of more, ``N_GROUPS`` groups at random, the
    classes spread over them as evenly as can be.

    Parameters
    ----------
    codes : array of shape (n,)
        Classes 0..c-1.
    seed : int, default=0
    X : array of shape (n, d), optional
        Points, so that groups depend only on the set of points and not on their order.

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
    """Return (n - 1)/(n - C), which V is multiplied by."""
    return (len(codes) - 1) / (len(codes) - len(np.unique(codes)))


def covariance(left_out: Float[np.ndarray, "g *m p"]) -> Float[np.ndarray, "*m p p"]:
    """Return Eq. (1) of vectors."""
    g, gap = len(left_out), left_out - left_out.mean(0)
    return (g - 1) / g * np.einsum("g...p,g...q->...pq", gap, gap)


def checked_prob(prob: Any) -> float:
    """Return the probability of an interval; a 0-d array is a number.

    Raises
    ------
    ValueError
        For what is no number in (0, 1), or is so small that 1 + prob is 1.
    """
    number = prob.item() if getattr(prob, "ndim", None) == 0 else prob
    check_within_0_1(prob=number)
    if 1 + number == 1:
        raise ValueError(
            f"prob: expected a number in (0, 1) of at least {np.finfo(float).eps:.2g}, "
            f"got {number!r}"
        )
    return float(number)


@cache
def quantile_of_t(prob: float, df: int) -> float:
    """Return the t that |T| of df degrees of freedom exceeds with 1 - prob."""
    return float(special.stdtrit(df, (1 + prob) / 2))


def limits(
    values: Float[np.ndarray, "r *m"], prob: float, factor: float = 1.0
) -> Float[np.ndarray, "2 *m"]:
    """Return (lower, upper), value ± t √V; the first value is the fit's.

    Infinite ones stay as they are; a finite one of which a refit is not finite has
    infinite limits.
    """
    prob = checked_prob(prob)
    value, left_out = np.asarray(values[0]), values[1:]
    g, known = len(left_out), np.isfinite(values).all(0)
    left_out = np.where(known, left_out, 0.0)
    variance = (g - 1) / g * np.sum((left_out - left_out.mean(0)) ** 2, 0)
    half = quantile_of_t(prob, g - 1) * np.sqrt(factor * variance)
    half = np.where(np.isfinite(value) & ~known, np.inf, half)
    return np.stack([value - half, value + half])


def positive_limits(
    values: Float[np.ndarray, "r *m"],
    prob: float,
    factor: float = 1.0,
    name: str = "values",
) -> Float[np.ndarray, "2 *m"]:
    """Return limits of numbers ≥ 0, made on the scale of logarithms.

    Zeros stay where every refit has them. ``name`` is what an error speaks of.

    Raises
    ------
    ValueError
        Where the fit is 0 and a refit is not: there is no logarithm to start from.
    """
    zero = values[0] == 0
    if np.any(zero & (values[1:] != 0).any(0)):
        raise ValueError(
            f"{name}: expected points that the fit tells apart, or no refit does, got "
            "a pair at distance zero in the fit alone, which has no interval on the "
            "log scale"
        )
    ends = limits(np.log(np.maximum(values, np.finfo(float).tiny)), prob, factor)
    with np.errstate(over="ignore"):  # A refit that is zero leaves no upper limit.
        low, high = np.where(zero, 0.0, np.exp(ends))
    return np.stack([np.minimum(low, values[0]), np.maximum(high, values[0])])


def aligned(
    left_out: Float[np.ndarray, "g p d"], factor: Float[np.ndarray, "p d"]
) -> Float[np.ndarray, "g p d"]:
    """Rotate maps onto a map: the R of the orthogonal Procrustes problem of each.

    Examples
    --------
    A refit that found the same metric in turned coordinates is turned back:

    >>> import numpy as np
    >>> from probmetric.posterior import aligned
    >>> factor, turn = np.diag([1.0, 2.0]), np.array([[0.0, -1.0], [1.0, 0.0]])
    >>> aligned(np.stack([turn @ factor]), factor).round(6).tolist()
    [[[1.0, 0.0], [0.0, 2.0]]]
    """
    U, _, Vt = np.linalg.svd(np.einsum("pd,gqd->gpq", factor, left_out))
    return (U @ Vt) @ left_out
