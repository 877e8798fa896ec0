"""Primal and dual bounds of the matrix game of ``eig_dml.fit``, at unit scale (κ = 1).

    min_τ z_τᵀ S z_τ  ≤  f*  ≤  λ_max(G(u)),      G(u) = Σ u_τ z_τ z_τᵀ            (5)

for any S ⪰ 0 of trace 1 and any u in the simplex.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh


class Solution(NamedTuple):
    """Final S (d, d) and u (n_F,), primal and dual bound, and trace of the solver."""

    S: Float[np.ndarray, "d d"]
    u: Float[np.ndarray, "f"]
    primal: float
    dual: float
    certified: bool
    n_steps: int
    trace: Float[np.ndarray, "t"]


def far_values(
    Z: Float[np.ndarray, "f d"], S: Float[np.ndarray, "d d"]
) -> Float[np.ndarray, "f"]:
    """Compute a_τ = z_τᵀ S z_τ of all far pairs in O(n_F d) memory."""
    return np.einsum("fd,fd->f", Z @ S, Z)


def weighted_gram(
    Z: Float[np.ndarray, "f d"], u: Float[np.ndarray, "f"]
) -> Float[np.ndarray, "d d"]:
    """Compute G(u) = Σ u_τ z_τ z_τᵀ from the pairs of positive weight."""
    active = u > 0
    rows = Z[active]
    return (rows * u[active, None]).T @ rows


def dual_value(Z: Float[np.ndarray, "f d"], u: Float[np.ndarray, "f"]) -> float:
    """Compute λ_max(G(u)), an upper bound on f*, from a dense eigenproblem."""
    d = Z.shape[1]
    gram = weighted_gram(Z, u)
    return float(eigh(gram, eigvals_only=True, subset_by_index=[d - 1, d - 1])[0])
