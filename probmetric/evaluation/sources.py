"""Costs of metrics on same-source and different-source pairs of rows.

All pairs of each kind are used, or a sample of ``max_pairs`` if there are more. The
costs of ``verification`` do not depend on the ratio of same-source to different-source
pairs.
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
    warn_of_calibration,
)
from probmetric.metric import Dissimilarity, PairSimilarity
from probmetric.metric.mean import MeanDissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.posterior.intervals import Interval

MAX_PAIRS = 200_000


class Judged(NamedTuple):
    """Scores (N,) of pairs under a metric, with costs and intervals of the costs.

    The score is the log likelihood ratio if the metric defines it. Otherwise the score
    is minus the dissimilarity, and ``cllr`` is NaN.
    """

    score: Float[np.ndarray, "N"]
    costs: Verification
    intervals: VerificationIntervals


class Sources(NamedTuple):
    """Pairs of rows i, j (N,), whether they are *same*, and results by metric.

    ``in_all`` counts the different-source and same-source pairs before sampling. If
    ``ordered``, both orders of a pair are used and counted.
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
    """Compute the costs of metrics on the same pairs of rows.

    ``sources`` are codes 0..G-1. A posterior is replaced by its ``mean_metric()``. At
    most ``max_pairs`` pairs of each kind are used, in both orders if one of the metrics
    is not symmetric.
    """
    counts = np.bincount(sources)
    n_able = int(np.sum(counts > 1))
    if len(counts) < 3 or n_able < 2:
        raise ValueError(
            "sources: at least three sources are required, and at least two must have "
            f"several rows, got {len(counts)} sources, of which {n_able} have several "
            "rows. Add rows."
        )
    single = {
        name: metric.mean_metric() if isinstance(metric, MetricDraws) else metric
        for name, metric in metrics.items()
    }
    ordered = not all(map(_symmetric, single.values()))
    i, j = source_pairs(sources, max_pairs, seed)
    if ordered:
        i, j = np.append(i, j), np.append(j, i)
    named = np.stack([sources[i], sources[j]], axis=1)
    judged: dict[str, Judged] = {}
    for name, metric in single.items():
        same, D = scored(metric, X, sources, i, j)
        score, is_ratio = -D, False
        if isinstance(metric, PairSimilarity) and metric.score == "log_ratio":
            score, is_ratio = np.asarray(metric.calibrated(-D)), True
        costs = verification(score, same)
        limits = verification_intervals(score, same, named, prob=prob, seed=seed)
        if is_ratio:
            warn_of_calibration(costs)
        else:
            nan = np.asarray(np.nan)
            costs = costs._replace(cllr=np.nan)
            limits = limits._replace(cllr=Interval(nan, nan))
        judged[name] = Judged(score, costs, limits)
    orders, n = 1 + ordered, len(sources)
    n_same = orders * int(np.sum(counts * (counts - 1) // 2))
    in_all = orders * n * (n - 1) // 2 - n_same, n_same
    return Sources(i, j, sources[i] == sources[j], judged, in_all, ordered)


def source_pairs(
    sources: Int[np.ndarray, "n"], max_pairs: int, seed: int
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Choose pairs i < j: at most ``max_pairs`` of two sources, then of one source."""
    order, counts = np.argsort(sources, kind="stable"), np.bincount(sources)
    ends = np.cumsum(counts)
    # Same-source pairs are numbered source after source, as ``triangle`` within each.
    n_same = np.cumsum(counts * (counts - 1) // 2)
    flat = _sample(int(n_same[-1]), max_pairs, seed)
    source = np.searchsorted(n_same, flat, side="right")
    within = np.stack(triangle(flat - np.append(0, n_same)[source]))
    same = order[(ends - counts)[source] + within]
    # Different-source pairs: each row with every row of the later sources.
    end = np.repeat(ends, counts)
    later = np.cumsum(len(sources) - end)
    flat = _sample(int(later[-1]), max_pairs, seed)
    row = np.searchsorted(later, flat, side="right")
    different = order[np.stack([row, end[row] + flat - np.append(0, later)[row]])]
    i, j = np.sort(np.append(different, same, axis=1), axis=0)
    return i, j


def _sample(total: int, most: int, seed: int) -> Int[np.ndarray, "N"]:
    if total <= most:
        return np.arange(total)
    return np.random.default_rng(seed).choice(total, most, replace=False)


def _symmetric(metric: Dissimilarity) -> bool:
    if isinstance(metric, MeanDissimilarity):
        return all(map(_symmetric, metric.draws))
    if isinstance(metric, PairSimilarity):
        return metric.noise_other is None and metric.score == "log_ratio"
    return metric.symmetric
