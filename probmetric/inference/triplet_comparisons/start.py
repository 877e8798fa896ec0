"""The prior of triplets: around the Euclidean map, in units of log odds."""

import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import DTypeLike

from probmetric.data.containers import Triplets
from probmetric.data.triplets import weighing
from probmetric.models.triplet_comparisons import TripletPrior


def check_prior(prior: TripletPrior, d: int, *, started: bool = False) -> None:
    """Raise if the prior has a wrong shape, is flat, or has mean 0 without a start."""
    shape = np.shape(prior.mean)
    if len(shape) != 2 or shape[1] != d:
        raise ValueError(f"prior.mean must have shape (p, {d}), got {shape}.")
    if not (started or np.any(np.asarray(prior.mean))):
        raise ValueError(
            "prior.mean must not be zero, got zeros. The gradient is zero there for "
            "all responses. Pass another mean, or start."
        )
    for name in ("c", "lam"):
        value = getattr(prior, name)
        if not np.all(np.asarray(value) > 0):
            raise ValueError(f"prior.{name} must be > 0, got {value}.")


SPREAD = 2.0
"""Root mean square of the log odds under W₀ (P = 0.88)."""


def prior_for(
    triplets: Triplets, n_components: int | None = None, lam: float = 1.0
) -> TripletPrior:
    """Return a prior of W centered at the Euclidean map cI.

    The prior does not depend on the responses. The scale c gives the log odds of the
    triplets a root mean square of 2 under the prior mean. If p < d, the prior mean is c
    times the leading p principal directions of the points, weighted by their numbers of
    triplets. Triplets of weight 0 are ignored, and all others have equal weight.

    Parameters
    ----------
    triplets : Triplets
    n_components : int, optional
        Number p of rows of W. Default: d.
    lam : float > 0, default=1
        Strength λ of the prior. The prior standard deviation of an entry of W is c/√λ.
    """
    X, triplets = np.asarray(triplets.X), weighing(triplets)
    if not len(triplets.anchor):
        raise ValueError("triplets.w must contain a weight above 0, got none.")
    p = X.shape[1] if n_components is None else n_components
    W = np.eye(X.shape[1], dtype=X.dtype)
    if p < len(W):
        ends = X[np.concatenate([np.asarray(k) for k in triplets.ends])]
        centered = ends - ends.mean(0)
        W = np.linalg.eigh(centered.T @ centered)[1].T[::-1][:p]
        W = W * np.where(W.sum(1, keepdims=True) < 0, -1, 1)
    size = log_odds_size(triplets, W)
    if not size > 0:
        raise ValueError(
            "triplets: near and far must have different distances from the anchor in "
            "at least one triplet, got only equal distances. Add triplets."
        )
    c = np.sqrt(SPREAD / size).astype(X.dtype)
    return TripletPrior(c * W, c, lam)


def log_odds_size(triplets: Triplets, W: Float[np.ndarray, "p d"]) -> float:
    """Return the root mean square of D_k - D_l over triplets and alternatives k < l."""
    Z = np.asarray(triplets.X) @ W.T
    D = np.stack([((Z[i] - Z[j]) ** 2).sum(-1) for i, j in triplets.alternatives])
    return float(np.sqrt(2 * np.mean(D.var(0, ddof=1))))


def rate_for(triplets: Triplets) -> float:
    """Return the learning rate of triplets made from labels: n/N, at most 1."""
    n = len(np.unique(np.concatenate([np.asarray(k) for k in triplets.ends])))
    return min(1.0, n / len(triplets.anchor))


def as_arrays(prior: TripletPrior, dtype: DTypeLike) -> TripletPrior:
    """Return a prior with arrays of one dtype."""
    return jax.tree.map(lambda value: np.asarray(value, dtype), prior)
