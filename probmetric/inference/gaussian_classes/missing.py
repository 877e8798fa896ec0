"""Gaussian classes from rows with missing entries (NaN): likelihood, EM for the mode.

Missing entries are integrated out. If entries are missing at random, the log likelihood
of the observed entries is

    Σ_n w_n log [π_y N(x_o; μ_y,o, Σ_y,oo)],   y = y_n, x_o observed,               (1)

The prior NIW(m₀, κ₀, ν₀, Ψ₀) is not conjugate to this likelihood.

EM finds the mode, with the missing entries as hidden data. Given θ, with J the inverse
of Σ_oo and zero elsewhere, and e = x - μ, zero for missing entries,

    E:  E x = μ + ΣJe,   Cov x = Σ - ΣJΣ                                           (2)

(``mixture.missing``). The log density of complete rows is linear in each class's (n,
Σx, Σxxᵀ). The expectation of the log density therefore equals the log density at the
expected statistics,

    n,   x̄ = μ + f/n,   S = F - ffᵀ/n,   f = Σ E(x - μ),  F = Σ E(x - μ)(x - μ)ᵀ,  (3)
    M:  the mode of the NIW posterior of (3),                                      (4)

so EM cannot decrease (1) plus the log prior. A θ that (4) returns is stationary.

``gaussian_classes.completions`` computes the posterior. The NIW posterior of the
expected statistics (3) would be too narrow, because it treats missing entries as
observed. Use the expected statistics only for the mode and the choice of the prior.

References
----------
Dempster, Laird and Rubin (1977), J. Royal Statistical Society B 39, 1-38.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jaxtyping import Float
from numpyro.infer.util import log_density

from probmetric.data.containers import Labeled, weights
from probmetric.inference.gaussian_classes.posterior import (
    ClassStatistics,
    mode,
    posterior,
    statistics,
)
from probmetric.inference.mixture.missing import e_step_missing
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.solvers.em import run_em
from probmetric.inference.solvers.result import Fit
from probmetric.models.gaussian_classes import (
    Covariance,
    GaussianClassesParams,
    NIWPrior,
    gaussian_classes,
)
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Scalar


def fill_with_means(data: Labeled, n_classes: int) -> Labeled:
    """Replace missing entries by the mean in the class, or else in all rows."""
    X, y = np.asarray(data.X), np.asarray(data.y)
    observed = ~np.isnan(X)
    values = np.where(observed, X, 0.0)
    whole = values.sum(0) / np.maximum(observed.sum(0), 1)
    member = np.eye(n_classes, dtype=X.dtype)[y].T
    count, total = member @ observed, member @ values
    means = np.where(count > 0, total / np.maximum(count, 1), whole)
    return data._replace(X=np.where(observed, X, means[y]))


def covariances_of(params: GaussianClassesParams) -> Float[Array, "c d d"]:
    """Compute the covariance Σ of every class; a tied Σ is repeated."""
    S = params.chol @ jnp.swapaxes(params.chol, -1, -2)
    return jnp.broadcast_to(S, (*params.mean.shape, params.mean.shape[-1]))


@numpy_in_numpy_out
@jax.jit
def expected_statistics(
    params: GaussianClassesParams, data: Labeled
) -> ClassStatistics:
    """Compute the expected n, x̄ and S of every class given θ, Eqs. (2)-(3)."""
    normals = MixtureParams(params.weights, params.mean, covariances_of(params))
    sums = e_step_missing(normals, data.X, weights(data), data.y)
    n = jnp.where(sums.mass > 0, sums.mass, 1.0)
    step = sums.first / n[:, None]
    scatter = sums.second - jnp.einsum("ci,cj->cij", sums.first, step)
    return ClassStatistics(sums.mass, params.mean + step, scatter)


@numpy_in_numpy_out
@partial(jax.jit, static_argnames="covariance")
def log_joint(
    params: GaussianClassesParams,
    data: Labeled,
    prior: NIWPrior,
    covariance: Covariance = "full",
) -> Float[Array, ""]:
    """Compute the log likelihood, Eq. (1), plus the log prior of (weights, μ, Σ).

    All constants are included. The result is the log density of the NumPyro model,
    whose site is the Cholesky factor L of Σ = LLᵀ, minus log |dΣ/dL|, where |dΣ/dL| =
    2^D Π_i L_ii^(D - i + 1).
    """
    d = params.mean.shape[-1]
    sites = {"weights": params.weights, "mean": params.mean, "chol": params.chol}
    diagonal = jnp.diagonal(params.chol, axis1=-2, axis2=-1)
    volume = d * jnp.log(2.0) + jnp.log(diagonal) @ (d - jnp.arange(d))
    if covariance == "diagonal":
        del sites["chol"]
        sites["variance"], volume = diagonal**2, jnp.zeros(())
    options = {
        "n_classes": len(params.weights),
        "covariance": covariance,
        "missing": True,
    }
    value: Any = log_density(gaussian_classes, (data, prior), options, sites)[0]
    return value - jnp.sum(volume)


def _step(
    params: GaussianClassesParams,
    problem: tuple[Labeled, NIWPrior],
    covariance: Covariance,
) -> tuple[GaussianClassesParams, Scalar]:
    data, prior = problem
    stats = expected_statistics(params, data)
    new = mode(posterior(stats, prior, covariance=covariance))
    return new, log_joint(params, data, prior, covariance)


COVARIANCES: tuple[Covariance, ...] = ("full", "tied", "diagonal")
STEPS = {kind: partial(_step, covariance=kind) for kind in COVARIANCES}
"""EM step, Eqs. (3)-(4), of each covariance; ``run_em`` compiles each object once."""


@numpy_in_numpy_out
def fit_missing(
    data: Labeled,
    prior: NIWPrior,
    *,
    n_classes: int,
    covariance: Covariance = "full",
    max_steps: int = 1000,
    tol: float | None = None,
) -> Fit:
    """Find a posterior mode in (weights, μ, Σ) given the observed entries, by EM.

    Every class needs α + n > 1. A row with only missing entries affects only the class
    weights. The objective is ``log_joint``. The mode is a local optimum, because there
    may be several modes if entries are missing.
    """
    filled = statistics(fill_with_means(data, n_classes), n_classes)
    start = mode(posterior(filled, prior, covariance=covariance))
    problem = (data, prior)
    return run_em(STEPS[covariance], start, problem, max_steps=max_steps, tol=tol)
