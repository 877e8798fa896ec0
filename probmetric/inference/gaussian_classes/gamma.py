"""The share γ of the base metric, by leave-one-out.

Ranking by the metric

    γI + D·A/tr A                                                                 (1)

needs the base distance and A's own once, whatever the number of γ tried; γ = ∞, the
base metric, is always among them. Each training point is predicted from the others by
k votes averaged over the metrics given. The densities have seen the point, so that the
choice leans a little to small γ.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from probmetric.metric import LocalMahalanobis
from probmetric.metric.local import local_pairwise

__all__ = ["GAMMAS", "choose_gamma"]

GAMMAS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, float("inf"))
"""Grid of γ: from the rule's own metric to the base metric."""

TILE = 128
"""Points predicted at a time: 2 · TILE · n distances are held."""


def choose_gamma(
    metrics: Sequence[LocalMahalanobis],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    n_neighbors: int,
    *,
    gammas: Sequence[float] = GAMMAS,
    max_points: int = 500,
) -> tuple[float, Float[np.ndarray, "g"]]:
    """Choose γ of Eq. (1) by leave-one-out over a grid.

    Parameters
    ----------
    metrics : sequence of LocalMahalanobis
        One, or draws whose votes are averaged; their own γ is not used.
    X, codes : arrays of shape (n, d), (n,)
        Training points and class codes 0..c-1.
    n_neighbors : int
        k; at most n - 1 are used.
    gammas : sequence of float, default ``GAMMAS``
        The base metric, ∞, is added where it is not among them.
    max_points : int, default 500
        Training points that are predicted, evenly spread over the rows.

    Returns
    -------
    gamma : float
        Of equal scores the largest.
    scores : array of shape (g,)
        Mean log score of each γ, grid in falling order starting at ∞.
    """
    n, c, k = len(X), int(codes.max()) + 1, min(n_neighbors, len(X) - 1)
    grid = sorted({*map(float, gammas), float("inf")}, reverse=True)
    shares = np.array([1.0 if np.isinf(g) else g / (1 + g) for g in grid])
    rows = np.unique(np.linspace(0, n - 1, min(n, max_points)).astype(int))
    members = np.bincount(codes, minlength=c)
    own = np.eye(c)[codes[rows]]
    prior = (members - own) / (n - 1)
    votes = np.zeros((len(grid), len(rows), c))
    for metric in metrics:
        for start in range(0, len(rows), TILE):
            part = slice(start, start + TILE)
            base, local = _two_distances(metric, X, rows[part])
            for g, share in enumerate(shares):
                D = share * base + (1 - share) * local
                D[np.arange(len(D)), rows[part]] = np.inf
                near = np.argpartition(D, k - 1, 1)[:, :k]
                votes[g, part] += np.eye(c)[codes[near]].sum(1) / len(metrics)
    predicted = (votes + prior) / (k + 1)
    # Points alone in their class have nothing to be predicted from.
    scored = np.sum(prior * own, 1) > 0
    if not scored.any():
        return grid[0], np.full(len(grid), np.nan)
    scores = np.log(np.sum(predicted * own, -1)[:, scored]).mean(1)
    return grid[int(np.argmax(scores))], scores


def _two_distances(
    metric: LocalMahalanobis, X: Any, rows: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Distances to all points under the base metric and under D·A/tr A."""
    d = X.shape[1]
    with jax.enable_x64(True):
        bare = replace(metric, gamma=np.asarray(0.0))
        A = jnp.asarray(bare.frame_matrix_at(X[rows]))
        A = A * (d / jnp.trace(A, axis1=1, axis2=2))[:, None, None]
        Z = (X - metric.centre) @ np.asarray(metric.frame).T
        eye = jnp.broadcast_to(jnp.eye(d), A.shape)
        base, local = (np.asarray(local_pairwise(M, Z[rows], Z)) for M in (eye, A))
    return base, local
