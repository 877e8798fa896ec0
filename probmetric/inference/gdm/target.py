"""The posterior of the generalized dissimilarity model for samplers: (log b, log θ).

The mode of a height is often at the boundary 0, where a Gaussian is a poor
approximation. With u = log β the density is

    F(u) = f(e^u) + Σ_j u_j,                                                       (1)

with f of Eq. (1) of ``gdm.likelihood``. With the gradient g and minus the Hessian H of
f,

    ∂F/∂u = β g + 1,      -∂²F/∂u² = diag(β) H diag(β) - diag(β g).                (2)

At a stationary point of F, βg = -1, and minus its Hessian is diag(β) H diag(β) + I,
which is positive definite. So every stationary point is a maximum, and there is exactly
one maximum. ``start`` computes this maximum by Newton steps with the matrix diag(β) H
diag(β) + I. The Gaussian with the inverse of this matrix as covariance is Laplace's
approximation. This Gaussian also scales the coordinates of NUTS.
"""

import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from probmetric.inference.gdm.likelihood import (
    Rows,
    log_likelihood,
    log_prior,
    precisions,
    to_beta,
    value_and_derivatives,
)
from probmetric.inference.sampling.target import Arrays, Gaussian, Target
from probmetric.models.gdm import GDMParams, GDMPrior, height
from probmetric.typing import Array, Scalar

FLOOR = 0.02
"""Start of entries that are 0 at the mode, as a share of the prior scale."""

type GDMData = tuple[Rows, GDMPrior]


def _sites(at: Arrays) -> tuple[Array, Array]:
    return jnp.exp(at["log_b"]), jnp.exp(at["log_theta"])


def _log_density(at: Arrays, data: GDMData) -> Scalar:
    rows, prior = data
    b, theta = _sites(at)
    of_sites = sum(log_prior(b, theta, prior).values())
    jacobian = at["log_b"] + jnp.sum(at["log_theta"])
    return log_likelihood(b, theta, rows) + of_sites + jacobian  # Eq. (1)


def _functionals(at: Arrays, data: GDMData) -> Arrays:
    b, theta = _sites(at)
    return {"b": b, "theta": theta, "height": height(theta, data[1].knots)}


def _parts(at: Arrays, data: GDMData) -> tuple[Arrays, Scalar]:
    rows, prior = data
    b, theta = _sites(at)
    return log_prior(b, theta, prior), log_likelihood(b, theta, rows)


TARGET = Target(_log_density, _functionals, _parts)
"""Target for positions {log_b, log_theta} and data (``Rows``, prior)."""


def start(
    params: GDMParams, rows: Rows, prior: GDMPrior, *, max_steps: int = 200
) -> Gaussian:
    """Compute Laplace's Gaussian of (log b, log θ), starting at a fit."""
    precision = precisions(prior)
    floor = FLOOR / np.sqrt(precision)
    u = np.log(np.maximum(to_beta(params).astype(float), floor))
    for _ in range(max_steps):
        value, slope, B = _at(u, rows, precision)
        factor = cho_factor(B, lower=True)
        move = cho_solve(factor, slope)
        if slope @ move <= 1e-16 * max(1.0, abs(value)):
            break
        # Newton's step can be long far from the mode, where F is flat.
        move *= min(1.0, 4.0 / np.abs(move).max())
        for halving in range(50):
            new = u + 0.5**halving * move
            rise = _at(new, rows, precision)[0] - value
            if rise >= 1e-4 * 0.5**halving * (slope @ move):
                break
        else:
            break  # Only rounding errors remain.
        u = new
    else:
        raise RuntimeError(
            "gdm: the search for the posterior mode of the logs of the intercept and "
            f"of the spline heights did not converge in {max_steps} steps. Set a "
            "stronger prior (a smaller prior_scale or intercept_scale)."
        )
    _, _, B = _at(u, rows, precision)
    L = np.linalg.cholesky(B)
    root = solve_triangular(L, np.eye(len(L)), lower=True, trans=1)
    mean = {"log_b": u[0], "log_theta": u[1:].reshape(np.shape(prior.knots))}
    return Gaussian({k: np.asarray(v) for k, v in mean.items()}, root)


def _at(
    u: np.ndarray, rows: Rows, precision: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return F, its gradient, and diag(β) H diag(β) + I (Eq. 2)."""
    beta = np.exp(u)
    value, slope, H = value_and_derivatives(beta, rows, precision)
    return value + u.sum(), beta * slope + 1, beta[:, None] * H * beta + np.eye(len(u))
