"""Pairs of rows that are of one source or of two, and how metrics tell them apart.

Pairs of one source are few beside the others and decide how sure a figure is: either
kind is judged whole, or, where it has more than asked for, as many at random. No score
of ``verification`` depends on how many pairs of one kind there are beside the other.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from probmetric.evaluation.ranking import scored, triangle
from probmetric.evaluation.verification import (
    Verification,
    VerificationIntervals,
    verification,
    verification_intervals,
)
from probmetric.metric import Dissimilarity, PairSimilarity
from probmetric.metric.mean import MeanDissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.posterior.intervals import Interval

MAX_PAIRS = 200_000


class Judged(NamedTuple):
    """Scores (N,) of pairs, larger where *same*, their costs, and intervals of these.

    A score is the log likelihood ratio where the metric states it, else minus the
    dissimilarity, whose ``cllr`` has no meaning and is NaN.
    """

    score: Float[np.ndarray, "N"]
    costs: Verification
    intervals: VerificationIntervals


class Sources(NamedTuple):
    """Pairs of rows i, j (N,), whether they are of one source, and who judged them.

    ``in_all`` is how many pairs there are of two sources and of one; with ``ordered``
    both orders of a pair are judged, and counted in it.
    """

    i: Int[np.ndarray, "N"]
    j: Int[np.ndarray, "N"]
    same: Bool[np.ndarray, "N"]
    judged: dict[str, Judged]
    in_all: tuple[int, int]
    ordered: bool


def judge_sources(
    metrics: Mapping[str, Dissimilarity | MetricDraws],
    X: Float[np.ndarray, "n d"],
    sources: Int[np.ndarray, "n"],
    *,
    prob: float = 0.9,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
) -> Sources:
    """Judge metrics by the same pairs of rows; of draws their ``mean_metric()``.

    Parameters
    ----------
    metrics : mapping of str to Metric or PosteriorMetric
    X : array of shape (n, d)
    sources : int array of shape (n,)
        Codes 0..G-1.
    prob : float in (0, 1), default 0.9
        Of the intervals, as ``verification_intervals``.
    max_pairs : int, default 200000
        Of either kind, where there are more in all. Both orders of a pair are judged
        where one of the metrics is not symmetric.
    seed : int, default 0
        Of the choice of pairs, and of the groups of more than 100 sources.

    Raises
    ------
    ValueError
        For fewer than three sources, or fewer than two with two rows.

    Examples
    --------
    >>> from probmetric.metric import Mahalanobis
    >>> sources = np.arange(40) // 2
    >>> X = 3.0 * sources[:, None] + np.random.default_rng(0).normal(size=(40, 1))
    >>> found = judge_sources({"mine": Mahalanobis(np.eye(1))}, X, sources)
    >>> eer, limits = found.judged["mine"].costs.eer, found.judged["mine"].intervals.eer
    >>> bool(0 < limits.lower < eer < limits.upper < 0.2)
    True
    """
    counts = np.bincount(sources)
    able = int(np.sum(counts > 1))
    if len(counts) < 3 or able < 2:
        raise ValueError(
            "sources: expected three or more, two of them with two rows or more, got "
            f"{len(counts)}, {able} of them with two rows or more"
        )
    single = {
        name: own.mean_metric() if isinstance(own, MetricDraws) else own
        for name, own in metrics.items()
    }
    ordered = not all(map(_symmetric, single.values()))
    i, j = source_pairs(sources, max_pairs, seed)
    if ordered:
        i, j = np.append(i, j), np.append(j, i)
    named = np.stack([sources[i], sources[j]], axis=1)
    judged: dict[str, Judged] = {}
    for name, metric in single.items():
        same, D = scored(metric, X, sources, i, j)
        costs = verification(-D, same)
        limits = verification_intervals(-D, same, named, prob=prob, seed=seed)
        if not (isinstance(metric, PairSimilarity) and metric.score == "log_ratio"):
            unknown = np.asarray(np.nan)
            costs = costs._replace(cllr=np.nan)
            limits = limits._replace(cllr=Interval(unknown, unknown))
        judged[name] = Judged(-D, costs, limits)
    orders, n = 1 + ordered, len(sources)
    of_one = orders * int(np.sum(counts * (counts - 1) // 2))
    in_all = orders * n * (n - 1) // 2 - of_one, of_one
    return Sources(i, j, sources[i] == sources[j], judged, in_all, ordered)


def source_pairs(
    sources: Int[np.ndarray, "n"], max_pairs: int, seed: int
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Return pairs i < j of rows: of two sources, then of one, at most so many of each.

    Examples
    --------
    Two rows of each of ten sources: 190 pairs. Of no more than 50, all ten of one
    source are kept.

    >>> i, j = source_pairs(np.arange(20) // 2, 50, seed=0)
    >>> int(np.sum(i // 2 == j // 2)), len(i) <= 60
    (10, True)
    """
    order, counts = np.argsort(sources, kind="stable"), np.bincount(sources)
    ends = np.cumsum(counts)
    # Of one source: (first, second), ... within each; numbered source after source.
    of_one = np.cumsum(counts * (counts - 1) // 2)
    flat = _some(int(of_one[-1]), max_pairs, seed)
    source = np.searchsorted(of_one, flat, side="right")
    within = np.stack(triangle(flat - np.append(0, of_one)[source]))
    one = order[(ends - counts)[source] + within]
    # Of two: each row with every row of the sources that follow its own.
    end = np.repeat(ends, counts)
    later = np.cumsum(len(sources) - end)
    flat = _some(int(later[-1]), max_pairs, seed)
    row = np.searchsorted(later, flat, side="right")
    two = order[np.stack([row, end[row] + flat - np.append(0, later)[row]])]
    i, j = np.sort(np.append(two, one, axis=1), axis=0)
    return i, j


def _some(total: int, most: int, seed: int) -> Int[np.ndarray, "N"]:
    """Return the numbers 0..total-1, or so many of them at random."""
    if total <= most:
        return np.arange(total)
    return np.random.default_rng(seed).choice(total, most, replace=False)


def _symmetric(metric: Dissimilarity) -> bool:
    """Say whether both orders of a pair have one score, up to rounding."""
    if isinstance(metric, MeanDissimilarity):
        return all(map(_symmetric, metric.draws))
    if isinstance(metric, PairSimilarity):
        return metric.noise_other is None and metric.score == "log_ratio"
    return metric.symmetric
