"""Scores of verification: are two of one source? For log likelihood ratios of pairs.

With n₁ pairs of one source, n₀ of two, and l = log Pr(pair | one)/Pr(pair | two), in
natural logarithms, the log-likelihood-ratio cost is

    Cllr = ½ [ 1/n₁ Σ_same log₂(1 + e^(-l)) + 1/n₀ Σ_diff log₂(1 + e^l) ],          (1)

0 for a perfect system and 1 for one that always says l = 0. Its least value over all
monotone maps of l, ``cllr_min``, is that of the map which pool-adjacent-violators
finds; what is above it is lost by calibration alone. The vertices (P_miss, P_fa) of
that map are the convex hull of the ROC curve. The equal error rate is where the hull
meets P_miss = P_fa, and the detection cost, with π = ``p_same``, is the least over its
vertices, relative to the better of the two answers that look at no pair:

    minDCF = min (π C_miss P_miss + (1 - π) C_fa P_fa)
             / min(π C_miss, (1 - π) C_fa).                                         (2)

The last three ask for the order of the pairs only: minus a dissimilarity will do.

References
----------
Brümmer and du Preez, "Application-independent evaluation of speaker detection",
Computer Speech and Language 2006.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.isotonic import isotonic_regression

from probmetric.arguments import check_number, check_within_0_1
from probmetric.posterior.intervals import Interval
from probmetric.posterior.jackknife import checked_prob, limits
from probmetric.typing import ArrayLike

N_GROUPS = 100
LARGEST = (np.inf, 1.0, 0.5, 1.0)
"""What the costs of ``Verification`` can be at most."""


class Verification(NamedTuple):
    """Costs of a verification system; the smaller the better.

    Attributes
    ----------
    cllr : float ≥ 0, in bits
        Eq. (1). Infinite where a pair was given a ratio of 0 or ∞ and it was wrong.
    cllr_min : float in [0, 1], in bits
    eer : float in [0, 1/2]
        Equal error rate on the convex hull of the ROC curve.
    min_dcf : float in [0, 1]
        Eq. (2).

    Examples
    --------
    A system that says nothing, a log ratio of 0 for all pairs, costs one bit:

    >>> from probmetric.evaluation import verification
    >>> found = verification([0.0, 0.0, 0.0, 0.0], [1, 1, 0, 0])
    >>> found.cllr, found.eer
    (1.0, 0.5)
    """

    cllr: float
    cllr_min: float
    eer: float
    min_dcf: float


class VerificationIntervals(NamedTuple):
    """An ``Interval`` of each score of ``Verification``.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.evaluation import verification_intervals
    >>> source, (i, j) = np.repeat(np.arange(20), 2), np.triu_indices(40, 1)
    >>> same = source[i] == source[j]
    >>> log_ratio = 2.0 * same - 1.0 + np.random.default_rng(0).normal(size=same.size)
    >>> found = verification_intervals(log_ratio, same, np.c_[source[i], source[j]])
    >>> [round(float(limit), 2) for limit in found.cllr]
    [0.54, 0.82]
    """

    cllr: Interval
    cllr_min: Interval
    eer: Interval
    min_dcf: Interval


def verification(
    log_ratio: ArrayLike,
    same: ArrayLike,
    *,
    p_same: float = 0.01,
    cost_miss: float | int = 1,
    cost_false_alarm: float | int = 1,
) -> Verification:
    """Return the costs of log likelihood ratios of pairs that are known.

    Parameters
    ----------
    log_ratio : array-like of shape (N,)
        Natural logarithms; ±inf is allowed. For instance
        ``PairSimilarity.log_ratio(A, B)``. Minus a dissimilarity gives ``cllr`` no
        meaning, but the other three theirs.
    same : array-like of shape (N,), of bool
        Whether the two of a pair are of one source; some are and some are not.
    p_same : float in (0, 1), default 0.01
        π of Eq. (2): how often pairs are of one source where the system is used.
    cost_miss, cost_false_alarm : float > 0, default 1
        Of calling one source two, and two sources one.

    Returns
    -------
    Verification
        ``cllr, cllr_min, eer, min_dcf``.

    Raises
    ------
    ValueError
        Shapes that differ, NaN, pairs of one kind only, numbers outside their range.

    Notes
    -----
    Each kind of pairs counts as a whole in (1), however many it has. Costs on the
    pairs that a system was learned from are too small. ``verification_intervals``
    says how sure they are; ``plots.det`` draws the errors of every threshold.

    Examples
    --------
    >>> found = verification([2.0, 1.0, -0.5, 0.3, -1.0, -3.0], [1, 1, 1, 0, 0, 0])
    >>> round(found.cllr, 3), round(found.eer, 3)
    (0.632, 0.167)
    """
    scores, kinds = _checked(log_ratio, same)
    cost = _cost(p_same, cost_miss, cost_false_alarm)
    return _scores(scores, kinds, *cost)


def verification_intervals(
    log_ratio: ArrayLike,
    same: ArrayLike,
    sources: ArrayLike,
    *,
    prob: float = 0.9,
    p_same: float = 0.01,
    cost_miss: float | int = 1,
    cost_false_alarm: float | int = 1,
    seed: int = 0,
) -> VerificationIntervals:
    """Return intervals of the costs, by leaving out each source with all its pairs.

    Pairs that share a source are not independent, so that sources are the units: the
    jackknife leaves out one, or one of 100 groups where there are more, and its
    t-limits are computed on the log scale. They reach to either side of the cost and
    of the cost corrected for bias by the jackknife: what is minimised on the pairs it
    is measured on is too small.

    Parameters
    ----------
    log_ratio, same, p_same, cost_miss, cost_false_alarm
        As `verification`.
    sources : array-like of shape (N, 2), of int or str
        The sources of the first and the second of each pair; equal where ``same``.
    prob : float in (0, 1), default 0.9
    seed : int, default 0
        Of the groups of sources where there are more than 100.

    Returns
    -------
    VerificationIntervals
        ``(lower, upper)`` of each cost; no upper limit is above the largest value that
        a cost can have. Of a cost of 0 or ∞, (0, that largest value): no refit says how
        far it could be from it.

    Raises
    ------
    ValueError
        As `verification`; sources that contradict ``same``; fewer than three sources,
        or one without which pairs of only one kind are left.

    Notes
    -----
    On normal features of 20 and 60 sources with two or three members each, 200 sets of
    each, nominal 90 % covered 87 to 97 %, the equal error rate least. Other populations
    were not measured, and that the system itself was learned is not covered.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> source = np.repeat(np.arange(20), 2)
    >>> i, j = np.triu_indices(40, 1)
    >>> same = source[i] == source[j]
    >>> log_ratio = 2.0 * same - 1.0 + rng.normal(size=same.size)
    >>> found = verification_intervals(log_ratio, same, np.c_[source[i], source[j]])
    >>> bool(found.eer.lower < verification(log_ratio, same).eer < found.eer.upper)
    True
    """
    scores, kinds = _checked(log_ratio, same)
    cost = _cost(p_same, cost_miss, cost_false_alarm)
    prob = checked_prob(prob)
    seed = check_number("seed", seed, 0, whole=True)
    named = np.asarray(sources)
    if named.shape != (len(scores), 2):
        raise ValueError(
            f"sources: expected shape ({len(scores)}, 2), got {named.shape}"
        )
    wrong = np.flatnonzero((named[:, 0] == named[:, 1]) != kinds)
    if len(wrong):
        k = int(wrong[0])
        raise ValueError(
            f"sources: expected equal ones where same, got {named[k].tolist()} of pair "
            f"{k}, where same is {bool(kinds[k])}"
        )
    group = _groups(named, seed)
    values = [_scores(scores, kinds, *cost)]
    for g in range(int(group.max()) + 1):
        kept = (group != g).all(1)
        if not kinds[kept].any() or kinds[kept].all():
            raise ValueError(
                "sources: expected pairs of both kinds whichever source (of more than "
                f"{N_GROUPS}, group of sources) is left out, got one without which "
                "there is one kind"
            )
        values.append(_scores(scores[kept], kinds[kept], *cost))
    columns = np.array(values).T
    ends = zip(columns, LARGEST, strict=True)
    return VerificationIntervals(*(_interval(v, prob, most) for v, most in ends))


def error_rates(
    log_ratio: ArrayLike, same: ArrayLike
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    """Return the rates of false alarms and of misses at every threshold.

    Parameters
    ----------
    log_ratio, same
        As `verification`.

    Returns
    -------
    tuple of arrays of shape (k,)
        From nothing called *same*, (0, 1), to everything, (1, 0): pairs whose ratio is
        at least the threshold are called *same*, at each ratio that occurs.

    Examples
    --------
    >>> alarms, missed = error_rates([2.0, -1.0, 0.5], [1, 1, 0])
    >>> alarms.tolist(), missed.tolist()
    ([0.0, 0.0, 1.0, 1.0], [1.0, 0.5, 0.5, 0.0])
    """
    scores, kinds = _checked(log_ratio, same)
    level, at = np.unique(-scores, return_inverse=True)
    counts = [np.bincount(at, kind, len(level)) for kind in (~kinds, kinds)]
    alarms, hits = (np.append(0, np.cumsum(n)) / n.sum() for n in counts)
    return alarms, 1 - hits


def _checked(
    log_ratio: ArrayLike, same: ArrayLike
) -> tuple[Float[np.ndarray, "N"], Bool[np.ndarray, "N"]]:
    scores, kinds = np.asarray(log_ratio), np.asarray(same)
    if scores.dtype.kind not in "iuf":
        raise ValueError(f"log_ratio: expected real numbers, got {scores.dtype}")
    scores = scores.astype(float)
    if scores.ndim != 1 or kinds.shape != scores.shape:
        raise ValueError(
            "log_ratio, same: expected one number and one kind a pair, got shapes "
            f"{scores.shape} and {kinds.shape}"
        )
    if np.isnan(scores).any():
        raise ValueError("log_ratio: expected numbers, got NaN")
    if not np.isin(kinds, (0, 1)).all():
        raise ValueError(f"same: expected True or False, got {kinds.ravel()[:3]}")
    kinds = kinds.astype(bool)
    if kinds.all() or not kinds.any():
        raise ValueError("same: expected pairs of both kinds, got one kind only")
    return scores, kinds


def _cost(
    p_same: float, cost_miss: float | int, cost_false_alarm: float | int
) -> tuple[float, float]:
    """Return what a miss and a false alarm cost in Eq. (2)."""
    check_within_0_1(p_same=p_same)
    check_number("cost_miss", cost_miss, 0, open_low=True)
    check_number("cost_false_alarm", cost_false_alarm, 0, open_low=True)
    miss, false_alarm = p_same * cost_miss, (1 - p_same) * cost_false_alarm
    least = min(miss, false_alarm)
    if not (least > 0 and max(miss, false_alarm) / least < np.inf):
        raise ValueError(
            "cost_miss, cost_false_alarm: expected finite costs of comparable size, "
            f"got {cost_miss} and {cost_false_alarm}"
        )
    return miss / least, false_alarm / least


def _scores(
    scores: Float[np.ndarray, "N"],
    same: Bool[np.ndarray, "N"],
    miss: float,
    false_alarm: float,
) -> Verification:
    n1, n0 = same.sum(), (~same).sum()
    level, at = np.unique(scores, return_inverse=True)
    ones = np.bincount(at, same, len(level))
    zeros = np.bincount(at, ~same, len(level))
    # Shares of one source at each level, made monotone: the map of cllr_min.
    p = isotonic_regression(ones / (ones + zeros), sample_weight=ones + zeros)
    with np.errstate(divide="ignore"):
        calibrated = np.log(p) - np.log1p(-p) + np.log(n0 / n1)
    last = np.flatnonzero(np.append(np.diff(p) > 0, True))
    missed = np.append(0, np.cumsum(ones)[last] / n1)
    alarms = np.append(1, 1 - np.cumsum(zeros)[last] / n0)
    return Verification(
        cllr=_cllr(level, ones / n1, zeros / n0),
        cllr_min=_cllr(calibrated, ones / n1, zeros / n0),
        eer=float(np.interp(0, missed - alarms, missed)),
        min_dcf=float(np.min(miss * missed + false_alarm * alarms)),
    )


def _cllr(
    log_ratio: Float[np.ndarray, "l"],
    ones: Float[np.ndarray, "l"],
    zeros: Float[np.ndarray, "l"],
) -> float:
    """Return Eq. (1) of levels and their shares among the pairs of each kind."""
    costs = (
        share[share > 0] @ np.logaddexp(0, side * log_ratio[share > 0])
        for share, side in ((ones, -1), (zeros, 1))
    )
    return float(sum(costs) / (2 * np.log(2)))


def _groups(sources: np.ndarray, seed: int) -> Int[np.ndarray, "N 2"]:
    """Return the group of each source, one of at most ``N_GROUPS``."""
    names, codes = np.unique(sources, return_inverse=True)
    if len(names) < 3:
        raise ValueError(f"sources: expected three or more, got {len(names)}")
    order = np.random.default_rng(seed).permutation(len(names))
    return (order % min(N_GROUPS, len(names)))[codes].reshape(sources.shape)


def _interval(values: np.ndarray, prob: float, largest: float) -> Interval:
    """Return limits of one cost, made of logarithms; values[0] is of all sources."""
    if not 0 < values[0] < np.inf:
        return Interval(np.asarray(0.0), np.asarray(largest))
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    low, high = limits(logs[:, None], prob)[:, 0]
    bias = (len(logs) - 2) * (logs[1:].mean() - logs[0])
    low, high = np.exp([low - max(bias, 0), high - min(bias, 0)])
    return Interval(np.asarray(low), np.asarray(min(high, largest)))
