"""Simultaneous bands of binned shares, which contain whole curves.

Let m and s be the mean and the standard deviation of replicated curves in each bin. The
largest standardized deviation of a curve r (k,) is

    max_b |r_b - m_b| / s_b.                                                       (1)

Let q be the ``prob`` quantile of Eq. (1) over the replicates. The band m ± q s contains
a fraction ``prob`` of the replicates as whole curves.
"""

import numpy as np
from jaxtyping import Float, Int


def binned(
    values: Float[np.ndarray, "N"], bins: int
) -> tuple[Int[np.ndarray, "N"], Float[np.ndarray, "k"]]:
    """Compute the equal-count bin of each value, and the mean of each bin."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)))
    which = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    which = np.unique(which, return_inverse=True)[1]
    return which, np.bincount(which, values) / np.bincount(which)


def merged(
    which: Int[np.ndarray, "N"], size: Float[np.ndarray, "N m"], least: float
) -> Int[np.ndarray, "N"]:
    """Merge adjacent bins until each column of ``size`` sums to at least ``least``."""
    sums = np.stack([np.bincount(which, column) for column in size.T], 1)
    group, new, total = 0, np.zeros(len(sums), int), np.zeros(sums.shape[1])
    for k, row in enumerate(sums):
        new[k], total = group, total + row
        if np.all(total >= least):
            group, total = group + 1, np.zeros_like(total)
    # The remainder joins the last full bin.
    return np.minimum(new, max(group - 1, 0))[which]


def deviation(
    curves: Float[np.ndarray, "*s k"],
    mean: Float[np.ndarray, "k"],
    sd: Float[np.ndarray, "k"],
) -> Float[np.ndarray, "*s"]:
    """Compute the largest standardized deviation of each curve (Eq. 1)."""
    tiny = np.finfo(float).tiny
    return np.asarray(np.max(np.abs(curves - mean) / np.maximum(sd, tiny), -1))


def band(
    replicates: Float[np.ndarray, "s k"], prob: float
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    """Compute limits that contain a fraction ``prob`` of the replicates completely."""
    mean, sd = replicates.mean(0), replicates.std(0)
    q = np.quantile(deviation(replicates, mean, sd), prob)
    return mean - q * sd, mean + q * sd
