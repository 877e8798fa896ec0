"""EM for the normal mixture: what single instances of the two-stage model follow.

One instance of the two-stage model follows the normal mixture Σ_k c_k N(μ_k, S_k) with
S_k = B_k + W_k, whatever the split of S_k, so its parameters are learned from
unlabelled points by EM:

    E:  r_nk ∝ c_k N(x_n; μ_k, S_k)                                               (1)
        R_k = Σ_n w_n r_nk,  f_k = Σ_n w_n r_nk (x_n - μ_k),
        F_k = Σ_n w_n r_nk (x_n - μ_k)(x_n - μ_k)ᵀ                                (2)
    M:  c_k ∝ R_k + a - 1                                                         (3)
        δ_k = (f_k + κ₀ (m₀ - μ_k)) / (R_k + κ₀),   μ_k ← μ_k + δ_k               (4)
        S_k = [Ψ + F_k - δfᵀ - fδᵀ + R δδᵀ + κ₀ (μ_k - m₀)(μ_k - m₀)ᵀ]
              / (R_k + df + d + 2)                                                (5)

with the prior of ``TwoStagePrior``; without one, a = 1 and κ₀, Ψ and df + d + 2 are 0.
(5) has d + 2, one more than an inverse Wishart alone: μ_k's prior holds S_k too.

Numerics: (2) is about the *current* means and is summed in coordinates z = L_k⁻¹(x-μ_k)
whitened by S_k = L_k L_kᵀ, so that no difference of large squares occurs; chunks of
``CHUNK`` rows stay in cache. Statistics of chunks of data add up; about other centres
they move by ``recentre``.

References
----------
Dempster, Laird, Rubin (1977); prior: Fraley and Raftery (2007), J. Classification 24.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Float, Int

from probmetric.densities.gaussian import log_peak
from probmetric.inference.mixture.missing import e_step_missing
from probmetric.inference.mixture.prior import log_prior
from probmetric.inference.mixture.statistics import (
    MixtureParams,
    MixtureStats,
    zero_stats,
)
from probmetric.models.two_stage import TwoStagePrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

__all__ = [
    "MixtureData",
    "e_step",
    "em_step",
    "em_step_missing",
    "m_step",
    "recentre",
]

CHUNK = 2048
"""Rows whitened at a time: k · d · CHUNK numbers, so that they stay in cache."""


class MixtureData(NamedTuple):
    """Points for EM: X (n, d) (NaN: missing), w (n,), known component or -1 (n,)."""

    X: Float[Array, "n d"]
    w: Float[Array, "n"]
    known: Int[Array, "n"] | None = None
    prior: TwoStagePrior | None = None


def _whitening(params: MixtureParams) -> tuple[Any, Any, Any]:
    """Return L (k,d,d), L⁻¹ and the constants log c - ½ d log 2π - log|L|, (k,)."""
    L = jnp.linalg.cholesky(params.covariances)
    eye = jnp.eye(L.shape[-1], dtype=L.dtype)
    inverse = jax.vmap(lambda A: solve_triangular(A, eye, lower=True))(L)
    return L, inverse, jnp.log(params.weights) + log_peak(L)


def _chunk(X: Any, parts: Any, known: Any) -> tuple[Any, Any]:
    """Return z (k, d, m) and log c_k N(x; μ_k, S_k) (k, m) of the rows of X (m, d)."""
    inverse, shift, constant = parts
    k, d, _ = inverse.shape
    z = (inverse.reshape(k * d, d) @ X.T).reshape(k, d, -1) - shift[:, :, None]
    log_p = constant[:, None] - 0.5 * jnp.sum(z**2, 1)
    if known is not None:
        allowed = (known < 0) | (known == jnp.arange(k)[:, None])
        log_p = jnp.where(allowed, log_p, -jnp.inf)
    return z, log_p


def _parts(params: MixtureParams) -> tuple[Any, tuple[Any, Any, Any]]:
    L, inverse, constant = _whitening(params)
    shift = jnp.einsum("kij,kj->ki", inverse, params.means)
    return L, (inverse, shift, constant)


@numpy_in_numpy_out
def e_step(params: MixtureParams, data: MixtureData) -> MixtureStats:
    """Return the expected statistics (2) about ``params.means``, chunk by chunk."""
    (n, d), k = data.X.shape, len(params.weights)
    L, parts = _parts(params)
    size = min(CHUNK, n)
    pad = -n % size

    def blocks(a: Any, fill: Any) -> Any:
        tail = jnp.full((pad, *a.shape[1:]), fill, a.dtype)
        return jnp.concatenate([a, tail]).reshape(-1, size, *a.shape[1:])

    known = None if data.known is None else blocks(data.known, -1)

    def add(total: MixtureStats, block: Any) -> tuple[MixtureStats, None]:
        X, w, known = block
        z, log_p = _chunk(X, parts, known)
        log_x = logsumexp(log_p, 0)
        r = jnp.exp(log_p - log_x) * w
        # One (d, m) by (m, d) product a component: a batched one is slower on CPU.
        second = jnp.stack([(r[c] * z[c]) @ z[c].T for c in range(k)])
        first = jnp.einsum("km,kdm->kd", r, z)
        new = MixtureStats(w @ log_x, jnp.sum(r, 1), first, second)
        return jax.tree.map(jnp.add, total, new), None

    zero = zero_stats(k, d, data.X.dtype)
    total, _ = jax.lax.scan(add, zero, (blocks(data.X, 0), blocks(data.w, 0), known))
    return total._replace(
        first=jnp.einsum("kij,kj->ki", L, total.first),
        second=jnp.einsum("kij,kjl,kml->kim", L, total.second, L),
    )


@numpy_in_numpy_out
def recentre(
    stats: MixtureStats, old: Float[Array, "k d"], new: Float[Array, "k d"]
) -> MixtureStats:
    """Move the centre that statistics (2) are about from ``old`` to ``new``."""
    move, R = old - new, stats.mass
    cross = jnp.einsum("ki,kj->kij", stats.first, move)
    square = R[:, None, None] * jnp.einsum("ki,kj->kij", move, move)
    second = stats.second + cross + jnp.swapaxes(cross, 1, 2) + square
    return stats._replace(first=stats.first + R[:, None] * move, second=second)


@numpy_in_numpy_out
@jax.jit
def m_step(
    stats: MixtureStats, centre: Float[Array, "k d"], prior: TwoStagePrior | None
) -> MixtureParams:
    """Maximise the expected log joint density, Eqs. (3)-(5)."""
    R, f = stats.mass, stats.first
    d = f.shape[1]
    if prior is None:
        delta = f / R[:, None]
        second = stats.second - jnp.einsum("ki,kj->kij", delta, f)
        weights, denominator = R, R
    else:
        off = prior.mean - centre
        delta = (f + prior.strength * off) / (R + prior.strength)[:, None]
        cross = jnp.einsum("ki,kj->kij", delta, f)
        moved, left = jnp.einsum("ki,kj->kij", delta, delta), delta - off
        second = stats.second - cross - jnp.swapaxes(cross, 1, 2)
        second = second + R[:, None, None] * moved + prior.scale
        second = second + prior.strength * jnp.einsum("ki,kj->kij", left, left)
        weights = R + prior.concentration - 1
        denominator = R + prior.df + d + 2
    covariances = second / denominator[:, None, None]
    covariances = (covariances + jnp.swapaxes(covariances, 1, 2)) / 2
    return MixtureParams(weights / jnp.sum(weights), centre + delta, covariances)


@numpy_in_numpy_out
def em_step(params: MixtureParams, data: MixtureData) -> tuple[MixtureParams, Any]:
    """Return the next parameters, and the log joint density of the given ones."""
    return _finish(params, e_step(params, data), data.prior)


@numpy_in_numpy_out
def em_step_missing(
    params: MixtureParams, data: MixtureData
) -> tuple[MixtureParams, Any]:
    """Do what ``em_step`` does, with NaN entries of X integrated out."""
    stats = e_step_missing(params, data.X, data.w, data.known)
    return _finish(params, stats, data.prior)


def _finish(
    params: MixtureParams, stats: MixtureStats, prior: TwoStagePrior | None
) -> tuple[MixtureParams, Any]:
    objective = stats.log_likelihood
    if prior is not None:
        objective = objective + log_prior(*params, prior)
    return m_step(stats, params.means, prior), objective
