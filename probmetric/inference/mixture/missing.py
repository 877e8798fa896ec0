"""The E-step of the normal mixture with missing entries (NaN) integrated out.

Only the entries x_o of a row are observed. Given component k, with J_k the inverse of
S_k restricted to the observed coordinates and zero elsewhere, and e = x - μ_k, zero for
missing entries,

    log N(x_o; μ_o, S_oo) = -½ (d_o log 2π + log|S_oo| + eᵀ J e)                  (1)
    E[x - μ_k | x_o, k]   = S_k J e          (= e on the observed coordinates)    (2)
    Cov[x | x_o, k]       = S_k - S_k J S_k  (zero on the observed coordinates)   (3)

With m the mean (2) and V the covariance (3), the statistics of EM use m for x - μ_k,
and mmᵀ + V for (x - μ_k)(x - μ_k)ᵀ. Entries must be missing at random. The cost is n k
d³, with one factorization per row and component.
"""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Float, Int

from probmetric.data.padding import chunks
from probmetric.densities.gaussian import chol_seen, log_peak
from probmetric.inference.mixture.statistics import (
    MixtureParams,
    MixtureStats,
    only_known,
    responsibilities,
    zero_stats,
)
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

CHUNK = 128
"""Rows at a time; working memory is CHUNK · k · d² numbers."""


@numpy_in_numpy_out
@jax.jit
def e_step_missing(
    params: MixtureParams,
    X: Float[Array, "n d"],
    w: Float[Array, "n"],
    known: Int[Array, "n"] | None = None,
) -> MixtureStats:
    """Compute the expected statistics about ``params.means``, chunk by chunk."""
    k, d = params.means.shape

    def component(
        x: Array, c: Array, mean: Array, S: Array
    ) -> tuple[Array, Array, Array]:
        L, e, observed = chol_seen(x, mean, S)
        Je = cho_solve((L, True), e)
        log_p = jnp.log(c) + log_peak(L, jnp.sum(observed)) - 0.5 * e @ Je  # Eq. (1)
        shift = jnp.asarray(S @ Je)  # Eq. (2)
        JS = cho_solve((L, True), jnp.where(observed[:, None], S, 0.0))
        cov = S - S @ jnp.where(observed[:, None], JS, 0.0)  # Eq. (3)
        return log_p, shift, jnp.outer(shift, shift) + cov

    def row(x: Array, weight: Array, label: Array) -> MixtureStats:
        each = jax.vmap(component, (None, 0, 0, 0))
        log_p, first, second = each(x, *params)
        total, r = responsibilities(only_known(log_p, label), weight)
        return MixtureStats(total, r, r[:, None] * first, r[:, None, None] * second)

    def add(total: MixtureStats, block: list[Array]) -> tuple[MixtureStats, None]:
        new = jax.vmap(row)(*block)
        return jax.tree.map(lambda t, a: t + jnp.sum(a, 0), total, new), None

    labels = jnp.full(len(X), -1) if known is None else known
    blocks = [chunks(rows, CHUNK) for rows in (X, w, labels)]
    return jax.lax.scan(add, zero_stats(k, d, X.dtype), blocks)[0]
