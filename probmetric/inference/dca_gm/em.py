"""DCA-GM: expectation-maximization for the mixtures at a fixed projection.

EM maximizes the joint density of (y, c) with y = Ax, *not* the conditional likelihood
of the class. At a fixed A, EM can lower the conditional likelihood (erratum 4 of seed
001). Only components of a point's own class enter, so a step costs O(n (K p + p²)):

    γ_ik = p(k | y_i, c_i),   n_ck = Σ_{c_i=c} w_i γ_ik,                             (1)
    α_c = n_c / n,   β_ck = (n_ck + b/K_c) / (n_c + b),                              (2)
    μ_ck = Σ_{c_i=c} w_i γ_ik y_i / n_ck,   μ'_ck = Σ_{c_i=c} w_i γ_ik x_i / n_ck,   (3)
    Σ_c = (Σ_{c_i=c} w_i γ_ik (y_i - μ_ck)(y_i - μ_ck)ᵀ + q ρ I) / (n_c + q).        (4)

Eq. (2) is the mode under the prior β_c ~ Dirichlet(1 + b/K_c). Eq. (4) is the mode
under the log prior -(q/2)(log|Σ_c| + ρ tr Σ_c⁻¹) + constant of Σ_c. Without this prior,
the density would be unbounded for a component that shrinks to repeated points. By (3),
Aμ' = μ exactly. A component with n_ck < 1e-8 keeps its center.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Float, Int

from probmetric.densities.gaussian import log_peak
from probmetric.linalg import logdet_chol
from probmetric.models.dca_gm import DCAGMParams, log_weight
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

EMPTY = 1e-8
"""A component with a smaller total weight n_ck is treated as empty."""


class EMPrior(NamedTuple):
    """Parameters b, q (field ``nu``) and ρ of Eqs. (2) and (4); zeros mean no prior."""

    b: Float[Array, ""] | float = 1.0
    nu: Float[Array, ""] | float = 2.0
    rho: Float[Array, ""] | float = 1e-3


class EMData(NamedTuple):
    """Projected points, their classes, data weights, and the prior."""

    Y: Float[Array, "n p"]
    y: Int[Array, "n"]
    w: Float[Array, "n"]
    prior: EMPrior


@numpy_in_numpy_out
@jax.jit
def own_shares(
    params: DCAGMParams, Y: Float[Array, "n p"], y: Int[Array, "n"]
) -> tuple[Float[Array, "n k"], Float[Array, "n"]]:
    """Compute the responsibilities γ, Eq. (1), and log p(y_i, c_i)."""
    c, k, p = params.mu.shape
    eye = jnp.broadcast_to(jnp.eye(p, dtype=Y.dtype), params.chol.shape)
    half = solve_triangular(params.chol, eye, lower=True)
    centers = (jnp.broadcast_to(half, (c, k, p, p)) @ params.mu[..., None])[..., 0]
    white = jnp.einsum("nqab,nb->nqa", half[y], Y) - centers[y]
    constant = log_weight(params) + log_peak(params.chol)
    joint = constant[y] - 0.5 * jnp.sum(white**2, -1)
    total = logsumexp(joint, axis=1)
    return jnp.exp(joint - total[:, None]), total


def _per_component(
    shares: Float[Array, "n k"], y: Int[Array, "n"], classes: int
) -> Float[Array, "n c k"]:
    return jax.nn.one_hot(y, classes, dtype=shares.dtype)[..., None] * shares[:, None]


def source_centres(
    params: DCAGMParams,
    X: Float[Array, "n d"],
    y: Int[Array, "n"],
    w: Float[Array, "n"],
) -> Float[Array, "c k d"]:
    """Compute μ', Eq. (3); an empty component gets the shortest μ' with Aμ' = μ."""
    shares, _ = own_shares(params, X @ params.A.T, y)
    owned = _per_component(w[:, None] * shares, y, params.mu.shape[0])
    n_ck = jnp.sum(owned, 0)
    mean = jnp.einsum("nck,nd->ckd", owned, X) / jnp.maximum(n_ck, EMPTY)[..., None]
    gram = jnp.linalg.cholesky(params.A @ params.A.T)
    flat = params.mu.reshape(-1, params.mu.shape[-1])
    lifted = (cho_solve((gram, True), flat.T).T @ params.A).reshape(mean.shape)
    return jnp.where(n_ck[..., None] < EMPTY, lifted, mean)


def em_step(params: DCAGMParams, data: EMData) -> tuple[DCAGMParams, Float[Array, ""]]:
    """Run one EM step; return θ and the log joint density *before* the step.

    The step computes Eqs. (1)-(4). The log joint density is Σ w_i log p(y_i, c_i) plus
    the log priors of β_c and Σ_c, up to a constant. A and ``fisher`` do not change.
    """
    Y, y, w, prior = data
    c, _, p = params.mu.shape
    shares, log_own = own_shares(params, Y, y)
    present = jnp.isfinite(params.log_beta)
    count = jnp.sum(present, 1, keepdims=True)
    pseudo = jnp.where(present, prior.b / count, 0)

    owned = _per_component(w[:, None] * shares, y, c)
    n_ck = jnp.sum(owned, 0)
    n_c = jnp.sum(n_ck, 1, keepdims=True)
    mean = jnp.einsum("nck,np->ckp", owned, Y) / jnp.maximum(n_ck, EMPTY)[..., None]
    mu = jnp.where(n_ck[..., None] < EMPTY, params.mu, mean)

    residual = jnp.sqrt(w[:, None] * shares)[..., None] * (Y[:, None] - mu[y])
    if params.chol.shape[1] == 1:
        outer = jnp.einsum("nkp,nkq->npq", residual, residual)[:, None]
        size = n_c
    else:
        outer = jnp.einsum("nkp,nkq->nkpq", residual, residual)
        size = n_ck
    scatter = jax.ops.segment_sum(outer, y, num_segments=c)
    ridge = prior.nu * prior.rho * jnp.eye(p, dtype=Y.dtype)
    covariance = (scatter + ridge) / (size + prior.nu)[..., None, None]

    eye = jnp.broadcast_to(jnp.eye(p, dtype=Y.dtype), params.chol.shape)
    half = solve_triangular(params.chol, eye, lower=True)
    log_prior = jnp.sum(jnp.where(present, pseudo * params.log_beta, 0)) - (
        0.5
        * prior.nu
        * (jnp.sum(logdet_chol(params.chol)) + prior.rho * jnp.sum(half**2))
    )
    new = params._replace(
        log_alpha=jnp.log(n_c[:, 0] / jnp.sum(n_c)),
        log_beta=jnp.log(n_ck + pseudo) - jnp.log(n_c + prior.b),
        mu=mu,
        chol=jnp.linalg.cholesky(covariance),
    )
    return new, jnp.sum(w * log_own) + log_prior


@partial(jax.jit, static_argnames="n")
def em_steps(params: DCAGMParams, data: EMData, n: int) -> DCAGMParams:
    """Run n EM steps."""
    return jax.lax.fori_loop(0, n, lambda _, theta: em_step(theta, data)[0], params)
