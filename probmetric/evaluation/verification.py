"""Scores of verification: do the two members of a pair have the same source?

With n₁ same-source pairs, n₀ different-source pairs, and the natural log likelihood
ratio l = log Pr(pair | same)/Pr(pair | different), the log-likelihood-ratio cost is

    Cllr = ½ [ 1/n₁ Σ_same log₂(1 + e^(-l)) + 1/n₀ Σ_diff log₂(1 + e^l) ],          (1)

which is 0 for a perfect system and 1 if l = 0 for every pair. ``cllr_min`` is the
minimum of Cllr over monotone transformations of l, computed by the
pool-adjacent-violators algorithm. Cllr - cllr_min is the calibration loss. The steps
(P_miss, P_fa) of the best transformation are the vertices of the convex hull of the ROC
curve. The equal error rate is the point P_miss = P_fa of the hull. The minimum
detection cost with π = ``p_same`` is the minimum over the vertices, divided by the cost
of the better constant decision:

    minDCF = min (π C_miss P_miss + (1 - π) C_fa P_fa)
             / min(π C_miss, (1 - π) C_fa).                                         (2)

``cllr_min``, EER and minDCF depend only on the order of the scores, so minus a
dissimilarity is a valid score for them.

References
----------
Brümmer and du Preez, "Application-independent evaluation of speaker detection",
Computer Speech and Language 2006.
"""

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.isotonic import isotonic_regression

from probmetric.arguments import check_number, check_within_0_1
from probmetric.posterior.intervals import Interval
from probmetric.posterior.jackknife import checked_prob, limits
from probmetric.typing import ArrayLike

LARGEST_LOSS = 0.05
"""Largest Cllr - cllr_min without a warning, in bits."""

N_GROUPS = 100
"""Maximum number of jackknife groups."""

LARGEST = (np.inf, 1.0, 0.5, 1.0)
"""Upper bounds of the costs in ``Verification``."""


class Verification(NamedTuple):
    """Costs of likelihood ratios, as ``verification`` defines them. Lower is better."""

    cllr: float
    cllr_min: float
    eer: float
    min_dcf: float


class VerificationIntervals(NamedTuple):
    """An ``Interval`` for each cost of ``Verification``."""

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
    """Compute the costs of log likelihood ratios of labeled pairs. Lower is better.

    Use pairs that were not in the fit, otherwise the costs are too small.

    Parameters
    ----------
    log_ratio : array-like of shape (N,)
        Natural log likelihood ratios, for example ``PairSimilarity.log_ratio(A, B)``.
        ±inf is allowed. If you pass negative dissimilarities, ``cllr`` is not
        meaningful, but the other costs are valid.
    same : array-like of shape (N,), of bool
        Whether the two members of a pair have the same source. Both values must occur.
    p_same : float in (0, 1), default=0.01
        Probability of a same-source pair in the application. Used by ``min_dcf``.
    cost_miss, cost_false_alarm : float > 0, default=1
        Cost of calling a same-source pair different, and cost of calling a
        different-source pair the same. Used by ``min_dcf``.

    Returns
    -------
    Verification
        - ``cllr``: log-likelihood-ratio cost in bits, 0 for perfect ratios and 1 if all
          ratios are 1. It is infinite if a same-source pair has ratio 0 or a
          different-source pair has ratio ∞.
        - ``cllr_min``: smallest ``cllr`` after a monotone transformation of the ratios,
          in [0, 1] bits.
        - ``eer``: equal error rate of misses and false alarms, in [0, 1/2].
        - ``min_dcf``: minimum detection cost, in [0, 1]. It is the expected cost at the
          best threshold, divided by the cost of the better constant decision (always
          *same* or always *different*).

    See Also
    --------
    verification_intervals : uncertainty of these costs.
    probmetric.plots.det : errors at every threshold.

    Examples
    --------
    >>> costs = verification([2.0, 1.0, -0.5, 0.3, -1.0, -3.0], [1, 1, 1, 0, 0, 0])
    >>> round(costs.cllr, 3), round(costs.eer, 3)
    (0.632, 0.167)
    """
    scores, is_same = _checked(log_ratio, same)
    return _scores(scores, is_same, *_cost(p_same, cost_miss, cost_false_alarm))


def warn_of_calibration(costs: Verification) -> None:
    """Warn if Cllr exceeds its minimum by more than ``LARGEST_LOSS``."""
    if costs.cllr - costs.cllr_min > LARGEST_LOSS:
        warnings.warn(
            f"Cllr is {costs.cllr:.3g} bits (cost of the log likelihood ratios, 0 is "
            "perfect). After calibration on these rows, it would be "
            f"{costs.cllr_min:.3g} bits (an underestimate if there are few pairs). The "
            "likelihood ratios may be miscalibrated. Use "
            "TwoStageMixture(calibration='auto').fit(X, groups=...), learn from more "
            "sources, or evaluate on more sources.",
            stacklevel=3,
        )


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
    """Compute jackknife intervals of the costs of log likelihood ratios.

    Pairs that share a source are dependent, so each jackknife sample leaves out one
    source with all its pairs. With more than 100 sources, each sample leaves out one of
    100 groups of sources.

    Parameters
    ----------
    log_ratio, same, p_same, cost_miss, cost_false_alarm
        As in ``verification``.
    sources : array-like of shape (N, 2), of int or str
        Sources of the two members of each pair: equal if ``same`` is True, otherwise
        different. At least three sources are required. If any one source is left out,
        pairs of both kinds must remain.
    prob : float in (0, 1), default=0.9
        Nominal coverage.
    seed : int, default=0
        Seed for the groups of sources. Used with more than 100 sources.

    Returns
    -------
    VerificationIntervals
        Limits ``(lower, upper)`` of each cost. ``upper`` is at most the largest
        possible cost. If the cost is 0 or ∞, the interval is (0, largest possible
        cost).

    Notes
    -----
    Limits use a t quantile on the log scale. Costs that are minimized on the same data
    are too small. Limits are therefore widened to contain the cost and the
    bias-corrected cost. Intervals do not include the uncertainty of the fit.

    Coverage was measured only for normal features. It is slightly low for the equal
    error rate (see the page *What was measured*).

    Examples
    --------
    >>> source, (i, j) = np.repeat(np.arange(20), 2), np.triu_indices(40, 1)
    >>> same = source[i] == source[j]
    >>> log_ratio = 2.0 * same - 1.0 + np.random.default_rng(0).normal(size=same.size)
    >>> limits = verification_intervals(log_ratio, same, np.c_[source[i], source[j]])
    >>> [round(float(limit), 2) for limit in limits.cllr]
    [0.54, 0.82]
    """
    scores, is_same = _checked(log_ratio, same)
    cost = _cost(p_same, cost_miss, cost_false_alarm)
    prob = checked_prob(prob)
    seed = check_number("seed", seed, 0, whole=True)
    names = np.asarray(sources)
    if names.shape != (len(scores), 2):
        raise ValueError(
            f"sources must have shape ({len(scores)}, 2), got {names.shape}."
        )
    wrong = np.flatnonzero((names[:, 0] == names[:, 1]) != is_same)
    if len(wrong):
        k = int(wrong[0])
        raise ValueError(
            "sources must be equal if same is True, and different if same is False, "
            f"got {names[k].tolist()} for pair {k} with same={bool(is_same[k])}."
        )
    group = _groups(names, seed)
    costs = [_scores(scores, is_same, *cost)]
    for g in range(int(group.max()) + 1):
        rest = (group != g).all(1)
        if not is_same[rest].any() or is_same[rest].all():
            raise ValueError(
                "sources: pairs of both kinds must remain if one source is left out, "
                f"got one kind without jackknife group {g}. Add sources with several "
                "pairs."
            )
        costs.append(_scores(scores[rest], is_same[rest], *cost))
    columns = zip(np.array(costs).T, LARGEST, strict=True)
    return VerificationIntervals(*(_interval(v, prob, top) for v, top in columns))


def error_rates(
    log_ratio: ArrayLike, same: ArrayLike
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    """Compute false alarm and miss rates at every threshold.

    Pairs with a ratio at or above the threshold are classified as *same*. The rates
    (false alarms, misses) go from (0, 1) to (1, 0).
    """
    scores, is_same = _checked(log_ratio, same)
    level, at = np.unique(-scores, return_inverse=True)
    counts = [np.bincount(at, kind, len(level)) for kind in (~is_same, is_same)]
    alarms, hits = (np.append(0, np.cumsum(n)) / n.sum() for n in counts)
    return alarms, 1 - hits


def pav(
    log_ratio: ArrayLike, same: ArrayLike
) -> tuple[Float[np.ndarray, "N"], Bool[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Return checked ratios, kinds, and ratios calibrated by monotone regression."""
    scores, is_same = _checked(log_ratio, same)
    level, at = np.unique(scores, return_inverse=True)
    ones, zeros = (np.bincount(at, kind, len(level)) for kind in (is_same, ~is_same))
    return scores, is_same, _calibrated(ones, zeros)[0][at]


def _calibrated(
    ones: Float[np.ndarray, "l"], zeros: Float[np.ndarray, "l"]
) -> tuple[Float[np.ndarray, "l"], Float[np.ndarray, "l"]]:
    """Return monotone calibrated log ratios, which attain cllr_min, and P(same)."""
    p = isotonic_regression(ones / (ones + zeros), sample_weight=ones + zeros)
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p) + np.log(zeros.sum() / ones.sum()), p


def _checked(
    log_ratio: ArrayLike, same: ArrayLike
) -> tuple[Float[np.ndarray, "N"], Bool[np.ndarray, "N"]]:
    scores, is_same = np.asarray(log_ratio), np.asarray(same)
    if scores.dtype.kind not in "iuf":
        raise ValueError(f"log_ratio must be real numbers, got {scores.dtype}.")
    scores = scores.astype(float)
    if scores.ndim != 1 or is_same.shape != scores.shape:
        raise ValueError(
            "log_ratio and same must have the same shape (N,), got "
            f"{scores.shape} and {is_same.shape}."
        )
    if np.isnan(scores).any():
        raise ValueError("log_ratio must be numbers, got NaN.")
    if not np.isin(is_same, (0, 1)).all():
        raise ValueError(f"same must be True or False, got {is_same.ravel()[:3]}.")
    is_same = is_same.astype(bool)
    if is_same.all() or not is_same.any():
        raise ValueError("same must contain True and False, got only one kind.")
    return scores, is_same


def _cost(
    p_same: float, cost_miss: float | int, cost_false_alarm: float | int
) -> tuple[float, float]:
    check_within_0_1(p_same=p_same)
    check_number("cost_miss", cost_miss, 0, open_low=True)
    check_number("cost_false_alarm", cost_false_alarm, 0, open_low=True)
    miss, false_alarm = p_same * cost_miss, (1 - p_same) * cost_false_alarm
    least = min(miss, false_alarm)
    if not (least > 0 and max(miss, false_alarm) / least < np.inf):
        raise ValueError(
            "cost_miss and cost_false_alarm must be finite, and so must their ratio, "
            f"got {cost_miss} and {cost_false_alarm}."
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
    calibrated, p = _calibrated(ones, zeros)
    last = np.flatnonzero(np.append(np.diff(p) > 0, True))
    misses = np.append(0, np.cumsum(ones)[last] / n1)
    alarms = np.append(1, 1 - np.cumsum(zeros)[last] / n0)
    return Verification(
        cllr=_cllr(level, ones / n1, zeros / n0),
        cllr_min=_cllr(calibrated, ones / n1, zeros / n0),
        eer=float(np.interp(0, misses - alarms, misses)),
        min_dcf=float(np.min(miss * misses + false_alarm * alarms)),
    )


def _cllr(
    log_ratio: Float[np.ndarray, "l"],
    ones: Float[np.ndarray, "l"],
    zeros: Float[np.ndarray, "l"],
) -> float:
    """Compute Eq. (1) from distinct ratios and their shares in the pairs of a kind."""
    costs = (
        share[share > 0] @ np.logaddexp(0, side * log_ratio[share > 0])
        for share, side in ((ones, -1), (zeros, 1))
    )
    return float(sum(costs) / (2 * np.log(2)))


def _groups(sources: np.ndarray, seed: int) -> Int[np.ndarray, "N 2"]:
    """Return the jackknife group of each source, in at most ``N_GROUPS`` groups."""
    names, codes = np.unique(sources, return_inverse=True)
    if len(names) < 3:
        raise ValueError(
            f"sources must contain at least three sources, got {len(names)}."
        )
    order = np.random.default_rng(seed).permutation(len(names))
    return (order % min(N_GROUPS, len(names)))[codes].reshape(sources.shape)


def _interval(costs: np.ndarray, prob: float, largest: float) -> Interval:
    """Compute jackknife limits of a cost on the log scale. costs[0] has all sources."""
    if not 0 < costs[0] < np.inf:
        return Interval(np.asarray(0.0), np.asarray(largest))
    with np.errstate(divide="ignore"):
        logs = np.log(costs)
    low, high = limits(logs[:, None], prob)[:, 0]
    bias = (len(logs) - 2) * (logs[1:].mean() - logs[0])
    low, high = np.exp([low - max(bias, 0), high - min(bias, 0)])
    return Interval(np.asarray(low), np.asarray(min(high, largest)))
