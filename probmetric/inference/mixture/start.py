"""Starts of EM for the normal mixture, and choice of the best of several fits.

A start is a k-means++ clustering. The sums of a cluster are Eq. (2) of ``mixture.em``
with responsibilities 0 and 1. The M-step of ``mixture.em`` converts the sums to
parameters, under the default prior if no prior is given.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.hash import canonical_order
from probmetric.inference.mixture.em import MixtureData, m_step
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.statistics import MixtureParams, MixtureStats
from probmetric.inference.solvers.result import Fit, Result
from probmetric.models.two_stage import TwoStagePrior
from probmetric.typing import Array

ROWS = 1 << 16
"""Rows whose moments are computed at a time."""


def mixture_data(
    X: Array, w: Array | None = None, *, prior: TwoStagePrior | None = None
) -> MixtureData:
    """Pack points for EM of the normal mixture; weights default to one."""
    rows = np.asarray(X)
    weights = np.ones(len(rows), rows.dtype) if w is None else np.asarray(w)
    return MixtureData(rows, weights.astype(rows.dtype), prior)


def start_order(X: Float[Array, "n d"]) -> Int[np.ndarray, "n"]:
    """Order rows by standardized distance from the mean; ties by their values."""
    rows = np.asarray(X, float)
    spread = rows.std(0)
    z = (rows - rows.mean(0)) / np.where(spread > 0, spread, 1.0)
    square = np.sum(z**2, 1)
    order = canonical_order(rows)
    share = np.round(square[order] / max(square.max(), 1.0), 6)
    return order[np.argsort(share, kind="stable")]


def start_mixture(
    X: Array,
    w: Array,
    n_components: int,
    *,
    seed: int = 0,
    prior: TwoStagePrior | None = None,
) -> MixtureParams:
    """Compute a start of EM from k-means++ clusters; NaN counts as the column mean."""
    from sklearn.cluster import KMeans

    rows = np.asarray(X)
    mean = np.nanmean(rows, axis=0)
    if np.isnan(rows).any():
        rows = np.where(np.isnan(rows), mean, rows)
    kmeans: Any = KMeans(n_components, max_iter=30, random_state=seed)
    kmeans.set_params(n_init=1)
    order, label = start_order(rows), np.empty(len(rows), int)
    label[order] = kmeans.fit_predict(rows[order], sample_weight=np.asarray(w)[order])
    prior = default_prior(rows, n_components) if prior is None else prior
    (n, d), k = rows.shape, n_components
    mass, first = np.zeros(k, rows.dtype), np.zeros((k, d), rows.dtype)
    second = np.zeros((k, d, d), rows.dtype)
    for at in (slice(a, a + ROWS) for a in range(0, n, ROWS)):  # Limit the memory.
        r = np.eye(k, dtype=rows.dtype)[label[at]] * np.asarray(w)[at, None]
        off = rows[at] - mean
        mass, first = mass + r.sum(0), first + r.T @ off
        second += np.stack([(off * r[:, [c]]).T @ off for c in range(k)])
    zero = np.zeros((), rows.dtype)
    stats = MixtureStats(zero, mass, first, second)
    start = m_step(stats, np.broadcast_to(mean, (k, d)), prior)
    weights = np.maximum(start.weights, 0.1 / n_components)
    return start._replace(weights=weights / weights.sum())


def best_of(fits: list[Fit]) -> Fit:
    """Choose the fit with the highest finite objective; the first if none is finite."""
    finite = [f for f in fits if np.isfinite(float(f.objective))]
    sound = [f for f in finite if int(f.result) != Result.NONFINITE]
    return max(sound or finite or fits[:1], key=lambda f: float(f.objective))
