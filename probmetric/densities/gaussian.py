"""The normal density from a Cholesky factor, with or without missing entries.

With S = L Lᵀ and z = L⁻¹(x - μ),

    log N(x; μ, S) = -½ (d log 2π + log|S|) - ½ |z|².                             (1)

If x has missing entries (NaN), the log density of the observed entries is log N(x_o;
μ_o, S_oo). To compute it by Eq. (1) with arrays of fixed shape, missing entries of
x - μ are set to 0, the missing rows and columns of S are replaced by rows and columns
of the identity, and d is the number of observed entries.
"""

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from probmetric.linalg import logdet_chol, mahalanobis_sq
from probmetric.typing import Array

LOG_2PI = 1.8378770664093453


def log_peak(
    L: Float[Array, "*batch d d"], d: Int[Array, ""] | int | None = None
) -> Float[Array, "*batch"]:
    """Return the log density at the mean, Eq. (1), for ``d`` observed entries."""
    return -0.5 * ((L.shape[-1] if d is None else d) * LOG_2PI + logdet_chol(L))


def log_normal(
    L: Float[Array, "d d"], delta: Float[Array, "*n d"]
) -> Float[Array, "*n"]:
    """Return log N(δ; 0, L Lᵀ) of rows δ, Eq. (1)."""
    L = jnp.asarray(L)
    return log_peak(L) - 0.5 * mahalanobis_sq(L, delta)


def restricted(
    cov: Float[Array, "*batch d d"], observed: Bool[Array, "*rows d"]
) -> Float[Array, "*out d d"]:
    """Replace unobserved rows and columns of S by rows and columns of I."""
    both = observed[..., :, None] & observed[..., None, :]
    # result_type is float32 for NumPy's float64 unless JAX's float64 is enabled.
    return jnp.where(both, cov, jnp.eye(cov.shape[-1], dtype=jnp.result_type(cov)))


def chol_seen(
    x: Float[Array, "d"], mean: Float[Array, "d"], cov: Float[Array, "d d"]
) -> tuple[Float[Array, "d d"], Float[Array, "d"], Bool[Array, "d"]]:
    """Return the factor of ``restricted`` S, x - μ (0 for NaN) and the mask."""
    observed = ~jnp.isnan(x)
    # "Double where": NaN must not reach the gradient.
    delta = jnp.where(observed, jnp.where(observed, x, 0.0) - mean, 0.0)
    return jnp.linalg.cholesky(restricted(cov, observed)), delta, observed


def log_normal_seen(
    x: Float[Array, "d"], mean: Float[Array, "d"], cov: Float[Array, "d d"]
) -> Float[Array, ""]:
    """Return log N(x_o; μ_o, S_oo) over the entries of x that are not NaN."""
    L, delta, observed = chol_seen(x, mean, cov)
    return log_peak(L, jnp.sum(observed)) - 0.5 * mahalanobis_sq(L, delta)
