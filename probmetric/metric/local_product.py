"""All pairs under local matrices as matrix products.

With A_x the matrix of query x and φ(t) = (t_it_j for i ≤ j, t) the features of a point,
f = D(D+1)/2 + D of them,

    (t - x)ᵀA_x(t - x) = φ(t)·ψ_x + xᵀA_x x,  ψ_x = (A_ij (1 + [i<j]), -2A_x x),   (1)

2mnf flops, half of those of transforming every point for every query. Points are taken
``TILE`` at a time: memory is m f + TILE (f + m) numbers beside the m n answers. The
product cancels for close pairs, absolute error about eps ‖A‖ (|x|² + |t|²).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.typing import Array

__all__ = ["TILE", "QueryForms", "from_forms", "local_pairwise", "query_forms"]

TILE = 1024
"""Points taken at a time: 4.5 MB of features at D = 32, float64."""


class QueryForms(NamedTuple):
    """The matrices of m queries, and ψ and xᵀAx of Eq. (1) that follow from them."""

    matrices: Float[Array, "m d d"]
    psi: Float[Array, "m f"]
    constant: Float[Array, "m"]


@jax.jit
def query_forms(A: Float[Array, "m d d"], Q: Float[Array, "m d"]) -> QueryForms:
    """Return the side of Eq. (1) that depends on the queries alone."""
    i, j = np.triu_indices(Q.shape[1])
    Ax = jnp.einsum("mij,mj->mi", A, Q)
    twice = jnp.where(i == j, 1.0, 2.0).astype(A.dtype)
    psi = jnp.concatenate([A[:, i, j] * twice, -2 * Ax], 1)
    return QueryForms(A, psi, jnp.sum(Ax * Q, 1))


@jax.jit
def from_forms(forms: QueryForms, P: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """Return (t - x)ᵀA_x(t - x) for all queries x and all t in P, by Eq. (1)."""
    (n, d), m = P.shape, len(forms.constant)
    i, j = np.triu_indices(d)

    def columns(T: Any) -> Any:
        # Features are rows: the layout in which the product is fastest.
        T = T.T
        phi = jnp.concatenate([T[i] * T[j], T], 0)
        # A squared distance is ≥ 0: projecting there only ever lessens the error.
        return jnp.maximum(forms.psi @ phi + forms.constant[:, None], 0.0)

    if n <= TILE:
        return columns(P)
    tiles = jnp.pad(P, ((0, -n % TILE), (0, 0))).reshape(-1, TILE, d)
    by_tile = jnp.moveaxis(jax.lax.map(columns, tiles), 0, 1)
    return by_tile.reshape(m, -1)[:, :n]


def local_pairwise(
    A: Float[Array, "m d d"], Q: Float[Array, "m d"], P: Float[Array, "n d"]
) -> Float[Array, "m n"]:
    """Return (t - x)ᵀA_x(t - x) for all x in Q, t in P, as matrix products (Eq. 1)."""
    return from_forms(query_forms(A, Q), P)
