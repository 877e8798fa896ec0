"""Simultaneous bands of binned shares: a whole curve lies inside, not each bin alone.

A curve r (k,) is judged by its largest standardised deviation from replicates,

    max_b |r_b - m_b| / s_b,                                                       (1)

with their mean m and standard deviation s. The band m ± q s, q the quantile of Eq. (1)
over the replicates themselves, holds a share ``prob`` of them whole; a bin outside is
then as rare as a replicate outside.
"""

import numpy as np
from jaxtyping import Float, Int


def binned(
    values: Float[np.ndarray, "N"], bins: int
) -> tuple[Int[np.ndarray, "N"], Float[np.ndarray, "k"]]:
    """Return each value's equal-count bin, and the mean value of each bin."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)))
    which = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    which = np.unique(which, return_inverse=True)[1]
    return which, np.bincount(which, values) / np.bincount(which)


def merged(
    which: Int[np.ndarray, "N"], size: Float[np.ndarray, "N m"], least: float
) -> Int[np.ndarray, "N"]:
    """Join neighbouring bins until each sum of every column of ``size`` is enough."""
    sums = np.stack([np.bincount(which, column) for column in size.T], 1)
    group, new, total = 0, np.zeros(len(sums), int), np.zeros(sums.shape[1])
    for k, one in enumerate(sums):
        new[k], total = group, total + one
        if np.all(total >= least):
            group, total = group + 1, np.zeros_like(total)
    # What is left over at the end joins the last bin that is full.
    return np.minimum(new, max(group - 1, 0))[which]


def deviation(
    curves: Float[np.ndarray, "*s k"],
    mean: Float[np.ndarray, "k"],
    sd: Float[np.ndarray, "k"],
) -> Float[np.ndarray, "*s"]:
    """Return the largest standardised deviation of each curve (Eq. 1)."""
    tiny = np.finfo(float).tiny
    return np.asarray(np.max(np.abs(curves - mean) / np.maximum(sd, tiny), -1))


def band(
    replicates: Float[np.ndarray, "s k"], prob: float
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    """Return the limits that hold a share ``prob`` of replicated curves whole."""
    mean, sd = replicates.mean(0), replicates.std(0)
    q = np.quantile(deviation(replicates, mean, sd), prob)
    return mean - q * sd, mean + q * sd
