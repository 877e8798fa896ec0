"""The density of the spread ω, everything else integrated out by Laplace's method.

At the mode of Eq. (1) of ``hierarchical_lca.likelihood`` given ω, let H_g (q, q) be
minus the Hessian of ηℓ_g in (vec W_g, log b), q = m + 1, m = pd, and P₀ (q, q) the
prior's precision of (W, log b). As W_g = W + ωcE_g, minus the Hessian in
(θ, E_1, …, E_G), θ = (vec W, log b), is an arrow:

    θθ: P₀ + Σ_g H_g,   E_g E_g: A_g = I + ω²c² H_g[W, W],   E_g θ: B_g = ωc H_g[W, :].
                                                                                  (1)

With the Schur complement S = P₀ + Σ_g (H_g - B_gᵀ A_g⁻¹ B_g) its determinant is
|S| Π_g |A_g|, and Laplace's approximation of the marginal likelihood of ω

    log p(y | ω) ≈ log p(y, θ̂, Ê | ω) + ½ (q + Gm) log 2π - ½ (log|S| + Σ_g log|A_g|).
                                                                                  (2)

At ω = 0 it is that of LCA: no E, no end. p(ω | y) ∝ p(ω) p(y | ω); by the symmetry
ω → -ω, E → -E its slope at 0 is 0, so that 0 is a mode where groups are alike.

Cost of one ω: G factors of m³ flops beside the mode.

A root R of the covariance, RRᵀ = (minus the Hessian)⁻¹, follows from the same factors:
with S = L Lᵀ and A_g = L_g L_gᵀ, the θ rows of R are L⁻ᵀ, and the E_g rows
-A_g⁻¹ B_g L⁻ᵀ in the columns of θ and L_g⁻ᵀ in their own.                           (3)
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, solve_triangular

from probmetric.inference.lca.curvature import gradient as lca_gradient
from probmetric.inference.lca.curvature import hessian, prior_precision
from probmetric.inference.lca.statistics import Statistics
from probmetric.models.hierarchical_lca import (
    HierarchicalLCAParams,
    HierarchicalLCAPrior,
)
from probmetric.models.lca import LCAParams, log_b_of
from probmetric.typing import Array


class Arrow(NamedTuple):
    """Factors of Eq. (1): L (q, q) of S, L_g (G, m, m) of A_g; A_g⁻¹B_g (G, m, q)."""

    shared: Float[np.ndarray, "q q"]
    own: Float[np.ndarray, "G m m"]
    slope: Float[np.ndarray, "G m q"]

    @property
    def log_determinant(self) -> float:
        """Return log|S| + Σ log|A_g|."""
        diagonals = np.diagonal(self.own, axis1=1, axis2=2)
        return 2 * float(np.log(np.diag(self.shared)).sum() + np.log(diagonals).sum())


def _parts(params: HierarchicalLCAParams, stats: Statistics) -> Any:
    """Yield the parameters and the statistics of each group."""
    for g, W in enumerate(np.asarray(params.W_groups)):
        own: Any = [None if v is None else np.asarray(v)[g] for v in stats]
        part = Statistics(*own)
        yield LCAParams(W, np.asarray(params.log_sigma2)), part


def gradient(
    params: HierarchicalLCAParams,
    E: Float[np.ndarray, "G p d"],
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    learning_rate: float = 1.0,
) -> Float[np.ndarray, "k"]:
    """Return the gradient of the log joint density given ω in (W, log b, E)."""
    common, W = prior.common, np.asarray(params.W)
    m, width = W.size, float(common.width)
    slopes = [
        float(learning_rate) * np.asarray(lca_gradient(*each))
        for each in _parts(params, stats)
    ]
    b = np.exp(log_b_of(np.asarray(params.log_sigma2), len(W)))
    shared = np.sum(slopes, 0)
    shared[:m] -= float(common.lam) / width**2 * np.ravel(W - common.mean)
    shared[m] += common.b_shape - common.b_rate * b
    step = float(params.spread) * width
    own = [step * s[:m] - np.ravel(e) for s, e in zip(slopes, E, strict=True)]
    return np.concatenate([shared, *own])


def arrow(
    params: HierarchicalLCAParams,
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    learning_rate: float = 1.0,
) -> Arrow:
    """Return the factors of minus the Hessian of Eq. (1) in (W, log b, E).

    Raises
    ------
    ValueError
        Where it is not positive definite: away from a mode.
    """
    W = np.asarray(params.W)
    m = W.size
    step = float(params.spread) * float(prior.common.width)
    common = LCAParams(W, np.asarray(params.log_sigma2))
    S = np.diag(prior_precision(common, prior.common))
    own, slope = [], []
    try:
        for each in _parts(params, stats):
            H = -float(learning_rate) * np.asarray(hessian(*each))
            L = np.linalg.cholesky(np.eye(m) + step**2 * H[:m, :m])
            B = step * H[:m]
            solved = cho_solve((L, True), B)
            own.append(L)
            slope.append(solved)
            S = S + H - B.T @ solved
        shared = np.linalg.cholesky((S + S.T) / 2)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "params: expected a mode, where minus the Hessian is positive definite, "
            "got a point where it is not"
        ) from error
    return Arrow(shared, np.stack(own), np.stack(slope))


def log_evidence(log_joint: float, factors: Arrow) -> float:
    """Return Laplace's approximation of log p(y | ω), Eq. (2), at the mode."""
    n = len(factors.shared) + factors.own.shape[0] * factors.own.shape[1]
    return float(log_joint) + 0.5 * n * np.log(2 * np.pi) - factors.log_determinant / 2


def root(factors: Arrow) -> Float[Array, "k k"]:
    """Return R of Eq. (3), rows and columns in the order of (W, log b, E)."""
    q, (n, m) = len(factors.shared), factors.own.shape[:2]
    R = np.zeros((q + n * m, q + n * m))
    R[:q, :q] = solve_triangular(factors.shared, np.eye(q), lower=True).T
    for g in range(n):
        rows = slice(q + g * m, q + (g + 1) * m)
        R[rows, :q] = -factors.slope[g] @ R[:q, :q]
        R[rows, rows] = solve_triangular(factors.own[g], np.eye(m), lower=True).T
    return R
