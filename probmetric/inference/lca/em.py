"""EM for Latent Coincidence Analysis: the paper's EM, corrected, and a reduced EM.

E-step. With τ² = κ² + 2σ², s = σ²/τ², ν = P1/P0, a = s if y = 1 and a = -νs if y = 0,
the posterior means are z̄ = W(x - aδ) and z̄' = W(x' + aδ). For u = z - z',

    ū = (1 - 2a) g,                                                               (1)
    tr Cov(u) = 2pσ²(1 - 2s)                        where y = 1,                  (2)
    tr Cov(u) = 2pσ²(1 + 2νs) - 4ν(1+ν)s²D          where y = 0.                  (3)

    ε² = E‖z - z̄‖² = pσ²(1 - s)                     where y = 1,                  (4)
    ε² = pσ²(1 + νs) - ν(1+ν)s²D                    where y = 0.                  (5)

Erratum 1 of seed 000: the paper omits the last term of Eq. (5). With the paper's
variance the iteration is not EM. The likelihood can fall, and the final σ² is badly
biased.

M-step. With WG = Σ w a g δᵀ and R = W - W⁺,

* full (the paper's) augments with (z, z'). For prior precision c = λσ²/c₀² on W,

      W⁺ = (W S - WG + c W₀)(S + c I)⁻¹,                                           (6)
      in (10):   A = pn,    B = ½tr(R S Rᵀ) - tr(WG Rᵀ) + Σ w a²D + Σ w ε²;         (7)

* reduced augments with u only. The likelihood and the fixed points are the same. This
  EM is invariant to translations of x, and faster:

      W⁺ = (W T - 2WG + 2c W₀)(T + 2c I)⁻¹,                                        (8)
      in (10):   A = pn/2,  4B = tr(R T Rᵀ) - 4tr(WG Rᵀ) + 4Σ w a²D + Σ w tr Cov(u). (9)

In both M-steps, x = log b minimizes Eq. (10), with ρ(x) = log σ² = log (e^u - 1)/2 and
u = 2e^x/p,

      f(x) = A ρ(x) + B e^{-ρ(x)} - a x + r e^x,         b ~ Gamma(a, rate r).     (10)

f is convex: ρ' = u/(1 - e^{-u}) has ρ'² ≥ ρ'' ≥ 0, as u ≥ tanh(u/2), so ρ and e^{-ρ}
are convex. The minimum lies between the minimum of the likelihood, σ² = B/A, and the
mode of the prior, b = a/r. Newton's method on this bracket finds it. The learning rate
multiplies A and B and divides a, r and the prior precision of W. W is updated at the
old σ² (ECM), which is also monotone.

The d × d matrix G is never formed. An iteration costs two products with the rows,
4·m·p·d flops. S or T is decomposed once, because only the ridge c changes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.inference.lca.latent import odds
from probmetric.inference.lca.likelihood import log_prior, to_params
from probmetric.inference.lca.statistics import Statistics, project, scatter
from probmetric.inference.sampling.target import Arrays
from probmetric.models.lca import (
    LCAParams,
    LCAPrior,
    coincidence_exponent,
    log_b_of,
)
from probmetric.precision import numpy_in_numpy_out, one_program
from probmetric.typing import Array, Scalar

type Spectrum = tuple[Array, Array]
"""Eigenvalues and eigenvectors of a scatter matrix."""

type EMData = tuple[Statistics, LCAPrior, Scalar, Spectrum]
"""Statistics, prior, learning rate, and ``spectrum`` of T (or of S for the full EM)."""


class Moments(NamedTuple):
    """Sums over pairs that the E-step computes for the M-step."""

    log_likelihood: Float[Array, ""]
    WG: Float[Array, "p d"]
    a2D: Float[Array, ""]
    eps2: Float[Array, ""]
    cov_u: Float[Array, ""]


@numpy_in_numpy_out
@one_program
def moments(params: LCAParams, stats: Statistics) -> Moments:
    """Compute the sums of the E-step (Eqs. 1-5)."""
    W, p = params.W, params.W.shape[0]
    sigma2, kappa2 = jnp.exp(params.log_sigma2), jnp.asarray(params.kappa2)
    s = sigma2 / (kappa2 + 2 * sigma2)
    g = project(W, stats)
    D = jnp.sum(g**2, -1)
    t = coincidence_exponent(D, sigma2, kappa2, p)
    nu, nu2 = odds(t)
    spread = nu2 * s**2 * D
    a = -nu * s
    eps2 = p * sigma2 * (1 + nu * s) - spread
    cov_u = 2 * p * sigma2 * (1 + 2 * nu * s) - 4 * spread
    w = stats.w
    rows = Moments(
        # log(1 - e^{-t}) from the terms of ν: its absolute error is of the order of
        # eps, the accuracy of a sum over rows.
        stats.ways + jnp.sum(w * jnp.log(-jnp.expm1(-t))),
        scatter((w * a)[:, None] * g, stats),
        jnp.sum(w * a**2 * D),
        jnp.sum(w * eps2),
        jnp.sum(w * cov_u),
    )
    WT = W @ stats.T_same
    quadratic, n = jnp.sum(WT * W), stats.n_same
    pooled = Moments(
        -n * 0.5 * p * jnp.log1p(2 * sigma2 / kappa2) - 0.5 * quadratic * s / sigma2,
        s * WT,
        s**2 * quadratic,
        n * p * sigma2 * (1 - s),
        n * 2 * p * sigma2 * (1 - 2 * s),
    )
    return jax.tree.map(jnp.add, rows, pooled)


@numpy_in_numpy_out
def spectrum(scatter_matrix: Float[Array, "d d"]) -> Spectrum:
    """Return the eigenvalues and eigenvectors of ``Statistics.T``, or S for full EM."""
    return jnp.linalg.eigh(scatter_matrix)


def _ridge_solve(B: Array, decomposed: Spectrum, ridge: Scalar) -> Array:
    """Return B (S + ridge·I)⁻¹, or the minimum-norm B S⁺ if ``ridge`` is 0."""
    eigenvalues, vectors = decomposed
    shifted = eigenvalues + ridge
    tol = len(eigenvalues) * jnp.finfo(B.dtype).eps * eigenvalues[-1]
    positive = shifted > tol
    inverse = jnp.where(positive, 1 / jnp.where(positive, shifted, 1.0), 0.0)
    return ((B @ vectors) * inverse) @ vectors.T


def _log_b(A: Scalar, B: Scalar, p: int, shape: Scalar, rate: Scalar) -> jax.Array:
    """Minimize Eq. (10) over x = log b; without the prior if shape is 0."""
    flat = log_b_of(jnp.log(B / A), p)
    proper = shape > 0
    shape, rate = jnp.where(proper, shape, 1.0), jnp.where(proper, rate, 1.0)

    def slope(x: Array) -> tuple[Array, Array]:
        u, b = 2 * jnp.exp(x) / p, rate * jnp.exp(x)
        gap = -jnp.expm1(-u)
        first = u / gap
        second = first * (1 - u * jnp.exp(-u) / gap)
        pull = 2 * B * jnp.exp(-u) / gap
        return first * (A - pull) - shape + b, second * (A - pull) + first**2 * pull + b

    def newton(_: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        x, low, high = state
        f1, f2 = slope(x)
        low, high = jnp.where(f1 < 0, x, low), jnp.where(f1 < 0, high, x)
        step = x - f1 / f2
        inside = (step >= low) & (step <= high)
        return jnp.where(inside, step, 0.5 * (low + high)), low, high

    mode = jnp.log(shape / rate)
    low, high = jnp.minimum(flat, mode), jnp.maximum(flat, mode)
    minimum = jax.lax.fori_loop(0, 50, newton, (low, low, high))[0]
    return jnp.where(proper, minimum, flat)


def m_step(
    params: LCAParams,
    sums: Moments,
    stats: Statistics,
    prior: LCAPrior,
    learning_rate: Scalar,
    decomposed: Spectrum,
    *,
    full: bool,
) -> tuple[Float[Array, "p d"], Float[Array, ""]]:
    """Compute W⁺ and log b⁺ (Eqs. 6-10).

    ``decomposed`` is ``spectrum`` of S if ``full`` (augment with (z, z') as in the
    paper), otherwise of T (augment with z - z').
    """
    W, p, h = params.W, len(params.W), learning_rate
    sigma2 = jnp.exp(params.log_sigma2)
    ridge = prior.lam / h * sigma2 / jnp.asarray(prior.width) ** 2
    factor = 1 if full else 2
    C = stats.S if full else stats.T
    target = W @ C - factor * sums.WG + factor * ridge * prior.mean
    new = _ridge_solve(target, decomposed, factor * ridge)
    R = W - new
    moved, cross = jnp.sum((R @ C) * R), jnp.sum(sums.WG * R)
    if full:
        A = p * stats.n
        B = 0.5 * moved - cross + sums.a2D + sums.eps2
    else:
        A = 0.5 * p * stats.n
        B = 0.25 * (moved - 4 * cross + 4 * sums.a2D + sums.cov_u)
    return new, _log_b(A, B, p, prior.b_shape / h, prior.b_rate / h)


def _step(unconstrained: Arrays, data: EMData, *, full: bool) -> tuple[Arrays, Scalar]:
    stats, prior, learning_rate, decomposed = data
    params = to_params(unconstrained)
    sums = moments(params, stats)
    value = learning_rate * sums.log_likelihood + log_prior(params, prior)
    W, log_b = m_step(params, sums, stats, prior, learning_rate, decomposed, full=full)
    return {"W": W, "log_b": log_b}, value


@numpy_in_numpy_out
def reduced_step(unconstrained: Arrays, data: EMData) -> tuple[Arrays, Scalar]:
    """Compute one step of reduced EM, and the log joint density before the step."""
    return _step(unconstrained, data, full=False)


def full_step(unconstrained: Arrays, data: EMData) -> tuple[Arrays, Scalar]:
    """Compute one step of the paper's EM, corrected, for ``run_em``."""
    return _step(unconstrained, data, full=True)
