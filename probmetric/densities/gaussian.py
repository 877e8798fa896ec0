"""The normal density from a Cholesky factor, and of the entries that were observed.

With S = L Lᵀ and z = L⁻¹(x - μ),

    log N(x; μ, S) = -½ (d log 2π + log|S|) - ½ |z|².                             (1)

Of an x with missing entries (NaN) the seen ones have log N(x_o; μ_o, S_oo). It is (1)
with x - μ zero and S the identity in the missing rows and columns, and d_o for d: the
factor of S_oo, interleaved with rows of the identity, in a fixed shape.
"""

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from probmetric.linalg import logdet_chol, mahalanobis_sq
from probmetric.typing import Array

LOG_2PI = 1.8378770664093453


def log_peak(
    L: Float[Array, "*batch d d"], d: Int[Array, ""] | int | None = None
) -> Float[Array, "*batch"]:
    """Return the log density at the mean, the first term of Eq. (1).

    ``d`` counts the seen entries where some are missing.
    """
    return -0.5 * ((L.shape[-1] if d is None else d) * LOG_2PI + logdet_chol(L))


def log_normal(
    L: Float[Array, "d d"], delta: Float[Array, "*n d"]
) -> Float[Array, "*n"]:
    """Return log N(δ; 0, L Lᵀ) of rows δ, Eq. (1)."""
    return log_peak(L) - 0.5 * mahalanobis_sq(L, delta)


def restricted(
    cov: Float[Array, "*batch d d"], seen: Bool[Array, "*rows d"]
) -> Float[Array, "*out d d"]:
    """Put the identity in the rows and columns of S that are not seen."""
    both = seen[..., :, None] & seen[..., None, :]
    return jnp.where(both, cov, jnp.eye(cov.shape[-1], dtype=cov.dtype))


def chol_seen(
    x: Float[Array, "d"], mean: Float[Array, "d"], cov: Float[Array, "d d"]
) -> tuple[Float[Array, "d d"], Float[Array, "d"], Bool[Array, "d"]]:
    """Return the factor of the restricted S, x - μ (zero where NaN), what is seen."""
    seen = ~jnp.isnan(x)
    # "Double where": NaN must not reach the gradient.
    delta = jnp.where(seen, jnp.where(seen, x, 0.0) - mean, 0.0)
    return jnp.linalg.cholesky(restricted(cov, seen)), delta, seen


def log_normal_seen(
    x: Float[Array, "d"], mean: Float[Array, "d"], cov: Float[Array, "d d"]
) -> Float[Array, ""]:
    """Return log N(x_o; μ_o, S_oo) over the entries of x that are not NaN."""
    L, delta, seen = chol_seen(x, mean, cov)
    return log_peak(L, jnp.sum(seen)) - 0.5 * mahalanobis_sq(L, delta)
