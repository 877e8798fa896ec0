"""The arrow-shaped Hessian of hierarchical LCA, its determinant and inverse root.

At the mode of Eq. (1) of ``effects.groups`` given ω, let H_g (q, q) be minus the
Hessian of ηℓ_g in (vec W_g, log b), where q = m + 1 and m = pd. Let P₀ (q, q) be the
prior precision of (W, log b). As W_g = W + ωcE_g, minus the Hessian in (θ, E_1, …, E_G)
with θ = (vec W, log b) has the shape of an arrow:

    θθ: P₀ + Σ_g H_g,   E_g E_g: A_g = I + ω²c² H_g[W, W],   E_g θ: B_g = ωc H_g[W, :].
                                                                                  (1)

With the Schur complement S = P₀ + Σ_g (H_g - B_gᵀ A_g⁻¹ B_g), the log determinant is

    log|S| + Σ_g log|A_g|.                                                        (2)

At ω = 0, Eq. (2) is the log determinant of LCA. The density does not change under ω →
-ω, E → -E, so the slope of Laplace's density of ω (Eq. (1) of ``effects.fit``) is 0 at
ω = 0. If the groups are alike, ω = 0 is a mode.

A root R of the covariance, RRᵀ = (minus the Hessian)⁻¹, follows from the same factors.
With S = L Lᵀ and A_g = L_g L_gᵀ, the θ rows of R are L⁻ᵀ. The E_g rows are
-A_g⁻¹ B_g L⁻ᵀ in the columns of θ and L_g⁻ᵀ in the columns of E_g.                (3)

The cost at one ω is G factorizations of m³ flops, plus the search for the mode.
"""

from collections.abc import Iterator
from typing import NamedTuple

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
from probmetric.typing import Scalar


class Arrow(NamedTuple):
    """Factors of Eq. (1): ``shared`` L of S, ``blocks`` L_g of A_g, and A_g⁻¹B_g."""

    shared: Float[np.ndarray, "q q"]
    blocks: Float[np.ndarray, "G m m"]
    coupling: Float[np.ndarray, "G m q"]

    @property
    def log_determinant(self) -> float:
        """Log determinant, Eq. (2)."""
        diagonals = np.diagonal(self.blocks, axis1=1, axis2=2)
        return 2 * float(np.log(np.diag(self.shared)).sum() + np.log(diagonals).sum())

    @property
    def root(self) -> Float[np.ndarray, "k k"]:
        """Root R of the covariance, Eq. (3), in the order (W, log b, E)."""
        q, (n, m) = len(self.shared), self.blocks.shape[:2]
        R = np.zeros((q + n * m, q + n * m))
        R[:q, :q] = solve_triangular(self.shared, np.eye(q), lower=True).T
        for g in range(n):
            rows = slice(q + g * m, q + (g + 1) * m)
            R[rows, :q] = -self.coupling[g] @ R[:q, :q]
            R[rows, rows] = solve_triangular(self.blocks[g], np.eye(m), lower=True).T
        return R

    def newton(
        self, gradient: Float[np.ndarray, "k"]
    ) -> tuple[Float[np.ndarray, "k"], float]:
        """Return Newton's step H⁻¹g and the predicted gain ½ gᵀH⁻¹g."""
        R = self.root
        slope = R.T @ gradient
        return R @ slope, 0.5 * float(slope @ slope)


def _groups(
    params: HierarchicalLCAParams, stats: Statistics
) -> Iterator[tuple[LCAParams, Statistics]]:
    for g, W in enumerate(np.asarray(params.W_groups)):
        leaves = {
            name: None if value is None else np.asarray(value)[g]
            for name, value in stats._asdict().items()
        }
        yield LCAParams(W, np.asarray(params.log_sigma2)), stats._replace(**leaves)


def gradient(
    params: HierarchicalLCAParams,
    E: Float[np.ndarray, "G p d"],
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    learning_rate: Scalar = 1.0,
) -> Float[np.ndarray, "k"]:
    """Return the gradient of the log joint density given ω in (W, log b, E)."""
    common, W = prior.common, np.asarray(params.W)
    m, width = W.size, float(common.width)
    slopes = [
        float(learning_rate) * np.asarray(lca_gradient(*group))
        for group in _groups(params, stats)
    ]
    b = np.exp(log_b_of(np.asarray(params.log_sigma2), len(W)))
    shared = np.sum(slopes, 0)
    shared[:m] -= float(common.lam) / width**2 * np.ravel(W - common.mean)
    shared[m] += common.b_shape - common.b_rate * b
    step = float(params.spread) * width
    of_E = [step * s[:m] - np.ravel(e) for s, e in zip(slopes, E, strict=True)]
    return np.concatenate([shared, *of_E])


def arrow(
    params: HierarchicalLCAParams,
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    learning_rate: Scalar = 1.0,
) -> Arrow | None:
    """Return the factors of Eq. (1); None if minus the Hessian is not definite."""
    W = np.asarray(params.W)
    m = W.size
    step = float(params.spread) * float(prior.common.width)
    common = LCAParams(W, np.asarray(params.log_sigma2))
    S = np.diag(prior_precision(common, prior.common))
    blocks, coupling = [], []
    try:
        for group in _groups(params, stats):
            H = -float(learning_rate) * np.asarray(hessian(*group))
            L = np.linalg.cholesky(np.eye(m) + step**2 * H[:m, :m])
            B = step * H[:m]
            blocks.append(L)
            coupling.append(cho_solve((L, True), B))
            S = S + H - B.T @ coupling[-1]
        shared = np.linalg.cholesky((S + S.T) / 2)
    except np.linalg.LinAlgError:
        return None
    return Arrow(shared, np.stack(blocks), np.stack(coupling))
