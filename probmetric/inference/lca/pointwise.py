"""The log likelihood of every pair under every draw of (M, b), for LOO.

In units of the link, -log P(y=1) = b + δᵀMδ/2: what is reported of a draw suffices,
W and σ² are not needed.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.data.containers import Pairs, weights
from probmetric.models.lca import Coincidence
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

__all__ = ["log_likelihood"]


@numpy_in_numpy_out
def log_likelihood(
    M: Float[Array, "s c d d"],
    b: Float[Array, "s c"],
    pairs: Pairs,
    learning_rate: Float[Array, ""] | float = 1.0,
) -> Float[Array, "s c n"]:
    """Return η · weight · log p(y | M, b) of each draw and pair.

    Parameters
    ----------
    M : array of shape (n_chains, n_draws, d, d)
    b : array of shape (n_chains, n_draws)
    pairs : Pairs
        In the units of M.
    learning_rate : float, default=1

    Notes
    -----
    Memory beside the result: a draw's n × d differences.
    """
    return _log_likelihood(M, b, pairs, jnp.asarray(learning_rate))


@jax.jit
def _log_likelihood(M: Array, b: Array, pairs: Pairs, learning_rate: Array) -> Array:
    delta = jnp.subtract(pairs.X[pairs.i], pairs.X[pairs.j])

    def one(draw: tuple[Array, Array]) -> Array:
        t = draw[1] + 0.5 * jnp.sum((delta @ draw[0]) * delta, -1)
        return Coincidence(-t, weights(pairs), learning_rate).log_prob(pairs.y)

    flat = M.reshape(-1, *M.shape[2:]), b.ravel()
    return jax.lax.map(one, flat).reshape(*b.shape, -1)
