"""EM for the normal mixture, the distribution of single two-stage instances.

One instance of the two-stage model follows the normal mixture Σ_k c_k N(μ_k, S_k) with
S_k = B_k + W_k, for any split of S_k. EM therefore learns its parameters from unlabeled
points:

    E:  r_nk ∝ c_k N(x_n; μ_k, S_k)                                               (1)
        R_k = Σ_n w_n r_nk,  f_k = Σ_n w_n r_nk (x_n - μ_k),
        F_k = Σ_n w_n r_nk (x_n - μ_k)(x_n - μ_k)ᵀ                                (2)
    M:  c_k ∝ R_k + a - 1                                                         (3)
        δ_k = (f_k + κ₀ (m₀ - μ_k)) / (R_k + κ₀),   μ_k ← μ_k + δ_k               (4)
        S_k = [Ψ + F_k - δfᵀ - fδᵀ + R δδᵀ + κ₀ (μ_k - m₀)(μ_k - m₀)ᵀ]
              / (R_k + df + d + 2)                                                (5)

with the prior of ``TwoStagePrior``. Without a prior, a = 1, and κ₀, Ψ and df + d + 2
are 0. The denominator of (5) has d + 2 instead of the d + 1 of the inverse Wishart,
because the prior of μ_k also contains S_k.

The sums (2) are about the *current* means, and are computed in the coordinates z =
L_k⁻¹(x-μ_k), whitened by S_k = L_k L_kᵀ, so that no large squares are subtracted.
Chunks of ``CHUNK`` rows fit into the CPU cache, and the statistics of chunks add up.
``recentre`` changes the center of the statistics.

References
----------
Dempster, Laird, Rubin (1977); prior: Fraley and Raftery (2007), J. Classification 24.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float

from probmetric.data.padding import chunks
from probmetric.data.scaling import Scaler
from probmetric.densities.gaussian import log_peak
from probmetric.inference.mixture.missing import e_step_missing
from probmetric.inference.mixture.prior import log_prior
from probmetric.inference.mixture.statistics import (
    MixtureParams,
    MixtureStats,
    responsibilities,
    zero_stats,
)
from probmetric.models.two_stage import TwoStagePrior
from probmetric.precision import numpy_in_numpy_out, one_program
from probmetric.typing import Array, Scalar

CHUNK = 2048
"""Rows whitened at a time; their k · d · CHUNK numbers should fit in the CPU cache."""


class MixtureData(NamedTuple):
    """Points for EM, their weights and the prior; NaN is missing."""

    X: Float[Array, "n d"]
    w: Float[Array, "n"]
    prior: TwoStagePrior | None = None


type _Parts = tuple[Array, Array, Array]
"""L⁻¹, L⁻¹μ and log c - ½ d log 2π - log|L| of each component."""


def _whitening(params: MixtureParams) -> tuple[Array, _Parts]:
    """Compute L, and L⁻¹, L⁻¹μ and log c - ½ d log 2π - log|L| of each component."""
    L = jnp.linalg.cholesky(params.covariances)
    eye = jnp.eye(L.shape[-1], dtype=L.dtype)
    inverse = jax.vmap(lambda A: solve_triangular(A, eye, lower=True))(L)
    shift = jnp.einsum("kij,kj->ki", inverse, params.means)
    return L, (inverse, shift, jnp.log(params.weights) + log_peak(L))


def _chunk(X: Array, parts: _Parts) -> tuple[Array, Array]:
    """Compute z (k, d, m) and log c_k N(x; μ_k, S_k) (k, m) of the rows of X (m, d)."""
    inverse, shift, constant = parts
    k, d, _ = inverse.shape
    z = (inverse.reshape(k * d, d) @ X.T).reshape(k, d, -1) - shift[:, :, None]
    return z, constant[:, None] - 0.5 * jnp.sum(z**2, 1)


@numpy_in_numpy_out
@jax.jit
def e_step(
    params: MixtureParams, data: MixtureData, scaler: Scaler | None = None
) -> MixtureStats:
    """Compute the expected statistics, Eq. (2), about ``params.means``.

    With ``scaler``, rows are standardized chunk by chunk.
    """
    k, d = params.means.shape
    L, parts = _whitening(params)

    def add(total: MixtureStats, X: Array, w: Array) -> MixtureStats:
        if scaler is not None:
            X = (X - scaler.mean) / scaler.scale
        z, log_p = _chunk(X, parts)
        log_x, r = responsibilities(log_p.T, w)
        r = r.T
        # One product per component: a batched product is slower on CPU.
        second = jnp.stack([(r[c] * z[c]) @ z[c].T for c in range(k)])
        first = jnp.einsum("km,kdm->kd", r, z)
        new = MixtureStats(log_x, jnp.sum(r, 1), first, second)
        return jax.tree.map(jnp.add, total, new)

    def step(
        total: MixtureStats, block: tuple[Array, Array]
    ) -> tuple[MixtureStats, None]:
        # Blocks of data on disk may end with chunks of padding.
        used = jnp.any(block[1] != 0)
        return jax.lax.cond(used, add, lambda total, *_: total, total, *block), None

    blocks = chunks(data.X, CHUNK), chunks(data.w, CHUNK)
    total, _ = jax.lax.scan(step, zero_stats(k, d, data.X.dtype), blocks)
    return total._replace(
        first=jnp.einsum("kij,kj->ki", L, total.first),
        second=jnp.einsum("kij,kjl,kml->kim", L, total.second, L),
    )


def about(
    mass: Float[Array, "k"],
    first: Float[Array, "k d"],
    second: Float[Array, "k d d"],
    delta: Float[Array, "k d"],
) -> Float[Array, "k d d"]:
    """Compute the second moments F - δfᵀ - fδᵀ + Rδδᵀ about a center shifted by δ."""
    cross = jnp.einsum("ki,kj->kij", delta, first)
    square = mass[:, None, None] * jnp.einsum("ki,kj->kij", delta, delta)
    return second - cross - jnp.swapaxes(cross, 1, 2) + square


def step_of_means(
    mass: Float[Array, "k"],
    first: Float[Array, "k d"],
    centre: Float[Array, "k d"],
    prior: TwoStagePrior | None,
) -> tuple[Float[Array, "k d"], Array | float]:
    """Compute the step δ, Eq. (4), and Ψ + κ₀ (μ - m₀)(μ - m₀)ᵀ at the new means."""
    if prior is None:
        return first / mass[:, None], 0.0
    off = prior.mean - centre
    delta = (first + prior.strength * off) / (mass + prior.strength)[:, None]
    left = delta - off
    return delta, prior.scale + prior.strength * jnp.einsum("ki,kj->kij", left, left)


def new_weights(
    mass: Float[Array, "k"], prior: TwoStagePrior | None
) -> Float[Array, "k"]:
    """Compute the new weights c ∝ R + a - 1, Eq. (3)."""
    raw = mass if prior is None else mass + prior.concentration - 1
    return raw / jnp.sum(raw)


def symmetric(A: Float[Array, "k d d"]) -> Float[Array, "k d d"]:
    """Compute the symmetric part (A + Aᵀ)/2."""
    return (A + jnp.swapaxes(A, 1, 2)) / 2


@numpy_in_numpy_out
@one_program
def recentre(
    stats: MixtureStats, old: Float[Array, "k d"], new: Float[Array, "k d"]
) -> MixtureStats:
    """Change the center of the statistics, Eq. (2), from ``old`` to ``new``."""
    delta, R = new - old, stats.mass
    second = about(R, stats.first, stats.second, delta)
    return stats._replace(first=stats.first - R[:, None] * delta, second=second)


@numpy_in_numpy_out
@jax.jit
def m_step(
    stats: MixtureStats, centre: Float[Array, "k d"], prior: TwoStagePrior | None
) -> MixtureParams:
    """Compute the parameters of highest expected log joint density, Eqs. (3)-(5)."""
    R, d = stats.mass, centre.shape[1]
    delta, pull = step_of_means(R, stats.first, centre, prior)
    second = about(R, stats.first, stats.second, delta) + pull
    extra = 0.0 if prior is None else prior.df + d + 2
    covariances = symmetric(second / (R + extra)[:, None, None])
    return MixtureParams(new_weights(R, prior), centre + delta, covariances)


@numpy_in_numpy_out
@jax.jit
def em_step(params: MixtureParams, data: MixtureData) -> tuple[MixtureParams, Scalar]:
    """Run one EM step; return parameters and the log joint density before the step.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import mixture
    >>> from probmetric.inference.mixture.em import MixtureData
    >>> mu, S = np.array([[-1.0], [1.0]]), np.ones((2, 1, 1))
    >>> params = mixture.MixtureParams(np.array([0.5, 0.5]), mu, S)
    >>> data = MixtureData(np.array([[-9.0], [9.0], [0.0]]), np.ones(3))
    >>> params, before = mixture.em_step(params, data)
    >>> _, after = mixture.em_step(params, data)
    >>> round(float(before), 2), round(float(after), 2)  # EM does not lower it.
    (-68.64, -9.97)
    """
    return _finish(params, e_step(params, data), data.prior)


@numpy_in_numpy_out
@jax.jit
def em_step_missing(
    params: MixtureParams, data: MixtureData
) -> tuple[MixtureParams, Scalar]:
    """Run ``em_step`` with the NaN entries of X integrated out."""
    stats = e_step_missing(params, data.X, data.w)
    return _finish(params, stats, data.prior)


def _finish(
    params: MixtureParams, stats: MixtureStats, prior: TwoStagePrior | None
) -> tuple[MixtureParams, Scalar]:
    """Compute the M-step, and the log joint density before the M-step."""
    objective = stats.log_likelihood
    if prior is not None:
        objective = objective + log_prior(*params, prior)
    return m_step(stats, params.means, prior), objective
