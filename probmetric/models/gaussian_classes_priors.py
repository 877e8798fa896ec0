"""Priors of a class's mean and covariance, and their NumPyro sites.

NIW:  Σ_c ~ IW(ν, Ψ),  μ_c | Σ_c ~ N(m, Σ_c/κ);                               (1)
LKJ:  Σ_c = diag(τ) Ω diag(τ),  Ω ~ LKJ(ζ),  τ ~ LogNormal(log s, v²),
μ_c ~ N(m, diag(s_m²)).                                                 (2)
"""

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float

from probmetric.typing import Array

__all__ = ["Covariance", "LKJPrior", "NIWPrior", "sample_covariances"]

type Covariance = Literal["full", "tied", "diagonal"]


class NIWPrior(NamedTuple):
    """Normal-inverse-Wishart prior of every class, Eq. (1), and Dirichlet weights.

    Attributes
    ----------
    mean : array of shape (d,)
        m.
    Psi : array of shape (d, d)
        Ψ, positive definite.
    kappa : float
        κ > 0: the prior mean weighs as much as κ points.
    nu : float
        ν > d - 1 (for "diagonal": ν > 0).
    alpha : float
        Dirichlet concentration of every class, > 0.
    """

    mean: Float[Array, "d"]
    Psi: Float[Array, "d d"]
    kappa: Float[Array, ""] | float
    nu: Float[Array, ""] | float
    alpha: Float[Array, ""] | float = 1.0


class LKJPrior(NamedTuple):
    """Separate priors of scales and correlations, Eq. (2); not conjugate.

    Attributes
    ----------
    mean, mean_scale : arrays of shape (d,)
        m and s_m > 0.
    scale : array of shape (d,)
        s > 0: prior median of a feature's standard deviation within a class.
    spread : float
        v > 0: standard deviation of log τ.
    concentration : float
        ζ > 0; 1 is uniform over correlation matrices.
    alpha : float
        Dirichlet concentration of every class, > 0.
    """

    mean: Float[Array, "d"]
    mean_scale: Float[Array, "d"]
    scale: Float[Array, "d"]
    spread: Float[Array, ""] | float = 0.7
    concentration: Float[Array, ""] | float = 1.0
    alpha: Float[Array, ""] | float = 1.0


def sample_covariances(
    prior: NIWPrior | LKJPrior, *, shape: tuple[int, ...], covariance: Covariance
) -> tuple[Any, Any]:
    """Sample mean (*shape, d) and chol (*shape, d, d) under either prior.

    With ``covariance="tied"`` the last axis of ``shape`` shares one covariance, and
    chol has length 1 there.
    """
    sampler: Any = _sample_niw if isinstance(prior, NIWPrior) else _sample_lkj
    return sampler(prior, shape, covariance)


def _diagonal(scales: Any) -> Any:
    return scales[..., None] * jnp.eye(scales.shape[-1], dtype=scales.dtype)


def _sample_niw(prior: NIWPrior, shape: tuple[int, ...], covariance: str) -> Any:
    """Sample mean (*shape, d) and chol; the last axis of ``shape`` may be tied."""
    own = (*shape[:-1], 1) if covariance == "tied" else shape
    if covariance == "diagonal":
        inverse_gamma = dist.InverseGamma(prior.nu / 2, jnp.diagonal(prior.Psi) / 2)
        variance: Any = numpyro.sample(
            "variance",
            inverse_gamma.expand((*own, len(prior.mean))).to_event(len(own) + 1),
        )
        chol: Any = numpyro.deterministic("chol", _diagonal(jnp.sqrt(variance)))
    else:
        wishart = dist.InverseWishartCholesky(
            prior.nu, scale_tril=jnp.linalg.cholesky(prior.Psi)
        )
        chol: Any = numpyro.sample("chol", wishart.expand(own).to_event(len(own)))
    tril = jnp.broadcast_to(chol, (*shape, *chol.shape[-2:])) / jnp.sqrt(prior.kappa)
    normal = dist.MultivariateNormal(prior.mean, scale_tril=tril)
    return numpyro.sample("mean", normal.to_event(len(shape))), chol


def _sample_lkj(prior: LKJPrior, shape: tuple[int, ...], covariance: str) -> Any:
    own = (*shape[:-1], 1) if covariance == "tied" else shape
    d = len(prior.mean)
    log_normal = dist.LogNormal(jnp.log(prior.scale), prior.spread)
    tau: Any = numpyro.sample(
        "tau", log_normal.expand((*own, d)).to_event(len(own) + 1)
    )
    if covariance == "diagonal" or d == 1:
        chol = _diagonal(tau)
    else:
        lkj = dist.LKJCholesky(d, prior.concentration).expand(own).to_event(len(own))
        chol = tau[..., None] * numpyro.sample("correlation_chol", lkj)
    chol = numpyro.deterministic("chol", chol)
    normal = dist.Normal(prior.mean, prior.mean_scale).expand((*shape, d))
    return numpyro.sample("mean", normal.to_event(len(shape) + 1)), chol
