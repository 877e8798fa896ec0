"""An embedding of objects without features: rows, prior and start.

Objects 0, ..., n - 1 have coordinates z_i in R^p. The responses depend only on
‖z_i - z_j‖², and so on Z (n, p) up to rotation and translation. Let B (n, n-1) have
orthonormal columns that sum to 0. With the rows of B as features and Z = BWᵀ,

    z_i - z_j = W(b_i - b_j),    ‖z_i - z_j‖² = (b_i - b_j)ᵀM(b_i - b_j),            (1)

so W (p, n-1) is fitted like any other linear map. ZZᵀ = BMBᵀ is the Gram matrix of the
centered embedding. Like M, this matrix is identified. As B is orthonormal, the prior W
~ N(0, s²) by entry gives the same distribution of differences as independent
coordinates N(0, s²). The standard deviation is s = c/√λ, with

    12 p c⁴ = 2²,                                                                  (2)

which gives log odds of root mean square 2 under N(0, c²). For three objects the log
odds are t = ‖u‖² - ‖v‖², with Var ‖u‖² = 8pc⁴ and Cov(‖u‖², ‖v‖²) = 2pc⁴. (For two
pairs of four objects the covariance is 0 and the root mean square is 2.3.)

W = 0 is a saddle point, so the fit needs another start. The start is classical scaling
(``inference.mds``) of M₁. M₁ is one gradient step of the log likelihood from M = 0,
where all probabilities are 1/K:

    M₁ = Σ_ik η w_i (1/K - [y_i = k]) δ_ik δ_ikᵀ.                                    (3)

BM₁Bᵀ is doubly centered. The rows of the start are its leading p eigenvectors times the
roots of their eigenvalues, scaled to log odds of root mean square 2.
"""

import numpy as np
import scipy.linalg
import scipy.sparse.csgraph
from jaxtyping import Float

from probmetric.data.containers import Triplets
from probmetric.data.triplets import weighing
from probmetric.inference.sampling.target import Draws
from probmetric.inference.triplet_comparisons.start import SPREAD, log_odds_size
from probmetric.inference.triplet_comparisons.statistics import differences
from probmetric.linalg import row_signs
from probmetric.models.triplet_comparisons import TripletPrior

FLOOR = 0.01
"""Smallest eigenvalue of the start, relative to the largest, so no row of W is 0."""


def object_rows(n: int) -> Float[np.ndarray, "n m"]:
    """Return B of Eq. (1) in float64, from Helmert contrasts."""
    return np.asarray(scipy.linalg.helmert(n)).T.copy()


def embedding_prior(n: int, n_components: int, lam: float = 1.0) -> TripletPrior:
    """Return the prior of n objects: coordinates N(0, c²/λ), with c of Eq. (2)."""
    c = (SPREAD**2 / (12 * n_components)) ** 0.25
    return TripletPrior(np.zeros((n_components, n - 1)), np.asarray(c), lam)


def check_connected(triplets: Triplets) -> None:
    """Raise ValueError if the triplets fall into disconnected groups of objects.

    Each disconnected group can rotate independently, so modes are not isolated. Objects
    without a triplet of positive weight are ignored. In a quadruplet, each pair
    connects its two objects; the two pairs are not connected.
    """
    weighted = weighing(triplets)
    ends = np.concatenate([np.asarray(k) for k in (weighted.near, weighted.far)])
    starts = np.concatenate([np.asarray(k) for k in (weighted.anchor, weighted.beside)])
    n = len(triplets.X)
    edges = scipy.sparse.coo_array((np.ones(len(ends)), (starts, ends)), (n, n))
    label = scipy.sparse.csgraph.connected_components(edges, directed=False)[1]
    groups = len(np.unique(label[starts]))
    if groups > 1:
        raise ValueError(
            f"triplets must connect all objects, got {groups} groups of objects "
            "without a triplet between groups. Fit each group separately, or add "
            "triplets."
        )


def embedding_start(triplets: Triplets, n_components: int) -> Float[np.ndarray, "p m"]:
    """Return the starting map from Eq. (3); raise ValueError if responses cancel."""
    data = differences(triplets)
    n_alternatives = data.delta.shape[1]
    r = 1 / n_alternatives - np.eye(n_alternatives)[data.y]
    flat = data.delta.reshape(-1, data.delta.shape[-1])
    M = (flat * (data.w[:, None] * r).reshape(-1, 1)).T @ flat
    values, vectors = np.linalg.eigh(M)
    if not values[-1] > len(M) * np.finfo(M.dtype).eps * np.sum(data.w):
        raise ValueError(  # tr M₁ = 0: without a positive eigenvalue, M₁ = 0.
            "triplets.y: the responses cancel each other exactly, so there is no "
            "starting point. Add triplets."
        )
    values, W = values[::-1][:n_components], vectors.T[::-1][:n_components]
    lengths = np.sqrt(np.maximum(values, FLOOR * values[0]))
    W = W * row_signs(W) * lengths[:, None]
    return W * np.sqrt(SPREAD / log_odds_size(triplets, W))


def of_objects(drawn: Draws) -> Draws:
    """Convert draws of M to the Gram matrix BMBᵀ of the centered embedding."""
    M = drawn.values["M"]
    B = object_rows(M.shape[-1] + 1)
    return drawn._replace(values={**drawn.values, "M": B @ M @ B.T})
