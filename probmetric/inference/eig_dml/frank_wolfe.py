"""Frank-Wolfe for the matrix game of ``eig_dml.fit``, at unit scale (κ = 1).

The minimum over far pairs is smoothed,

    f_σ(S) = -σ log Σ_τ e^{-a_τ/σ},     min a - σ log n_F ≤ f_σ ≤ min a,           (6)
    ∇f_σ(S) = G(u),   u = softmin(a/σ), shifted by min a (plain exps underflow),   (7)

and a step moves towards the best vertex v vᵀ, v the top eigenvector of G(u):

    S ← (1 - γ_t) S + γ_t v vᵀ,   a ← (1 - γ_t) a + γ_t (Zv)²,   γ_t = 2/(t + 2),  (8)

t = 1, 2, ..., from S = I/d. The start is not discarded; its share decreases.

The certificate has no extra cost, because each step computes λ_max(G(u)). The gap is

    dual - min a  =  [λ_max(G(u)) - ⟨u, a⟩]  +  [⟨u, a⟩ - min a]                   (9)
                     (Frank-Wolfe gap)          (smoothing gap)

σ = ζ · primal / log n_F follows the scale of the data, unlike the d · 1e-5 of the
notes. ζ starts at 0.1, and is halved if smoothing limits the gap: if the Frank-Wolfe
gap is below half the smoothing gap.

The top eigenvector is computed by a dense solver up to ``DENSE_LIMIT`` dimensions. With
more dimensions, Lanczos uses the products G w = Zᵀ(u ∘ Zw) and starts from the last v.
"""

from typing import Any, cast

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, eigsh

from probmetric.inference.eig_dml.certificate import (
    Solution,
    dual_value,
    far_values,
    weighted_gram,
)

DENSE_LIMIT = 200
"""Largest d for which factoring G is cheaper than one Lanczos run."""

NO_WEIGHT = 1e-15
"""Smallest softmin weight; the sum of smaller weights is below the rounding of G."""


def softmin(a: Float[np.ndarray, "f"], sigma: float) -> Float[np.ndarray, "f"]:
    """Compute weights proportional to e^{-a/σ} that sum to one, Eq. (7)."""
    u = np.exp((a.min() - a) / sigma)
    u[u < NO_WEIGHT] = 0
    return u / u.sum()


def top_eigenvector(
    Z: Float[np.ndarray, "f d"],
    u: Float[np.ndarray, "f"],
    start: Float[np.ndarray, "d"],
) -> tuple[float, Float[np.ndarray, "d"]]:
    """Compute λ_max(G(u)) and v; Lanczos adds the residual to the Ritz value."""
    d = Z.shape[1]
    if d <= DENSE_LIMIT:
        values, vectors = np.linalg.eigh(weighted_gram(Z, u))
        return float(values[-1]), vectors[:, -1]
    active = u > 0
    rows, w = Z[active], u[active]

    def product(v: np.ndarray) -> np.ndarray:
        return rows.T @ (w * (rows @ v))

    operator = cast("Any", LinearOperator)((d, d), matvec=product, dtype=Z.dtype)
    values, vectors = cast("Any", eigsh)(operator, 1, which="LA", v0=start, tol=1e-6)
    v = vectors[:, 0]
    residual = np.linalg.norm(product(v) - values[0] * v)
    return float(values[0] + residual), v


def frank_wolfe(Z: Float[np.ndarray, "f d"], *, max_steps: int, tol: float) -> Solution:
    """Solve the game by Frank-Wolfe to a relative gap of ``tol``, Eqs. (6)-(9).

    The largest norm of a row of Z is 1, and no row is zero. The solver stops if dual -
    primal ≤ tol · primal, with both bounds recomputed.
    """
    n_far, d = Z.shape
    S = np.eye(d, dtype=Z.dtype) / d
    a = far_values(Z, S)
    best_S, primal = S.copy(), float(a.min())
    best_u, dual = np.full(n_far, 1 / n_far, Z.dtype), np.inf
    v, zeta = np.ones(d, Z.dtype) / np.sqrt(d), 0.1
    trace = np.empty(max_steps, Z.dtype)
    for t in range(max_steps):
        # log 1 = 0: for a single far pair any σ > 0 gives the same u.
        u = softmin(a, zeta * primal / max(np.log(n_far), 1.0))
        bound, v = top_eigenvector(Z, u, v)
        if bound < dual:
            best_u, dual = u, bound
        smoothed = float(u @ a)
        if bound - smoothed <= 0.5 * (smoothed - a.min()):
            zeta /= 2  # Eq. (9): smoothing limits the gap
        gamma = 2 / (t + 3)  # Eq. (8), whose t counts from one
        S *= 1 - gamma
        S += gamma * np.outer(v, v)
        a *= 1 - gamma
        a += gamma * (Z @ v) ** 2
        if a.min() > primal:
            np.copyto(best_S, S)
            primal = float(a.min())
        trace[t] = primal
        if dual - primal <= tol * primal:
            primal, dual = float(far_values(Z, best_S).min()), dual_value(Z, best_u)
            if dual - primal <= tol * primal:
                return Solution(
                    best_S, best_u, primal, dual, True, t + 1, trace[: t + 1]
                )
    primal, dual = float(far_values(Z, best_S).min()), dual_value(Z, best_u)
    return Solution(best_S, best_u, primal, dual, False, max_steps, trace)
