"""Gaussian classes from rows with missing entries (NaN), which are integrated out.

With entries missing at random the likelihood is that of what was seen,

    Σ_n w_n log [π_y N(x_o; μ_y,o, Σ_y,oo)],   y = y_n, o the seen entries of x_n, (1)

to which the prior NIW(m₀, κ₀, ν₀, Ψ₀) is not conjugate.

The mode, by EM with the missing entries as hidden data. Given θ, with J the inverse of
Σ_oo and zero elsewhere, and e = x - μ, zero where missing,

    E:  E x = μ + ΣJe,   Cov x = Σ - ΣJΣ                                           (2)

(``mixture.missing``). The log density of whole rows is linear in each class's (n, Σx,
Σxxᵀ), and so its expectation is that of a data set with the expected statistics,

    n,   x̄ = μ + f/n,   S = F - ffᵀ/n,   f = Σ E(x - μ),  F = Σ E(x - μ)(x - μ)ᵀ,  (3)
    M:  the mode of the NIW posterior of (3),                                      (4)

so that (1) plus the log prior cannot fall, and is stationary where (4) returns θ.

The whole posterior is in ``gaussian_classes.completions``. The expected statistics (3)
would make too sharp a one, as if the missing entries had been seen: they serve the mode
and the choice of the prior.

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

from probmetric.data.containers import Labelled, weights
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


def fill_with_means(data: Labelled, n_classes: int) -> Labelled:
    """Return X with missing entries at the class's mean, else the feature's.

    Where EM starts; it makes covariances too small to be of other use.

    Parameters
    ----------
    data : Labelled
        NaN where an entry is missing; data weights are not used.
    n_classes : int

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import gaussian_classes
    >>> X = np.array([[0.0], [2.0], [np.nan], [5.0], [9.0]])
    >>> y = np.array([0, 0, 0, 1, 1])
    >>> gaussian_classes.fill_with_means(Labelled(X, y), 2).X.ravel().tolist()
    [0.0, 2.0, 1.0, 5.0, 9.0]
    """
    X, y = np.asarray(data.X), np.asarray(data.y)
    seen = ~np.isnan(X)
    values = np.where(seen, X, 0.0)
    whole = values.sum(0) / np.maximum(seen.sum(0), 1)
    member = np.eye(n_classes, dtype=X.dtype)[y].T
    count, total = member @ seen, member @ values
    means = np.where(count > 0, total / np.maximum(count, 1), whole)
    return data._replace(X=np.where(seen, X, means[y]))


def covariances_of(params: GaussianClassesParams) -> Float[Array, "c d d"]:
    """Return Σ of every class, repeated where the classes share it."""
    S = params.chol @ jnp.swapaxes(params.chol, -1, -2)
    return jnp.broadcast_to(S, (*params.mean.shape, params.mean.shape[-1]))


@numpy_in_numpy_out
@jax.jit
def expected_statistics(
    params: GaussianClassesParams, data: Labelled
) -> ClassStatistics:
    """Return the expected n, x̄ and S of every class given θ, Eqs. (2) and (3)."""
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
    data: Labelled,
    prior: NIWPrior,
    covariance: Covariance = "full",
) -> Float[Array, ""]:
    """Return Eq. (1) plus the log prior density in (weights, μ, Σ), constants included.

    The density of the NumPyro model, of which the site is the Cholesky factor L of
    Σ = LLᵀ: |dΣ/dL| = 2^D Π_i L_ii^(D - i + 1) is divided out.
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


def _step(params: Any, given: Any, covariance: Covariance) -> tuple[Any, Scalar]:
    data, prior = given
    stats = expected_statistics(params, data)
    new = mode(posterior(stats, prior, covariance=covariance))
    return new, log_joint(params, data, prior, covariance)


COVARIANCES: tuple[Covariance, ...] = ("full", "tied", "diagonal")
STEPS = {kind: partial(_step, covariance=kind) for kind in COVARIANCES}
"""EM's step, Eqs. (3) and (4): one object each, so that ``run_em`` compiles it once."""


@numpy_in_numpy_out
def fit_missing(
    data: Labelled,
    prior: NIWPrior,
    *,
    n_classes: int,
    covariance: Covariance = "full",
    max_steps: int = 1000,
    tol: float | None = None,
) -> Fit:
    """Return a mode of the posterior in (weights, μ, Σ) given the seen entries, by EM.

    Parameters
    ----------
    data : Labelled
        NaN where an entry is missing; rows without any entry count for the weights.
    prior : NIWPrior
        With α + n > 1 in every class.
    n_classes : int
    covariance : {"full", "tied", "diagonal"}
    max_steps, tol
        As ``run_em``.

    Returns
    -------
    Fit
        ``GaussianClassesParams``, ``log_joint`` at them; a local optimum, as (1) with
        missing entries need not have a single one.

    Examples
    --------
    A row without any entry counts for the class weights, and for nothing else:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import gaussian_classes
    >>> from probmetric.models.gaussian_classes import NIWPrior
    >>> X = np.array([[0.0], [2.0], [np.nan], [5.0], [9.0]])
    >>> y = np.array([0, 0, 0, 1, 1])
    >>> prior = NIWPrior(np.array([4.0]), np.eye(1), kappa=2.0, nu=3.0)
    >>> found = gaussian_classes.fit_missing(Labelled(X, y), prior, n_classes=2).params
    >>> found.weights.round(3).tolist(), found.mean.round(3).tolist()
    ([0.6, 0.4], [[2.5], [5.5]])
    """
    filled = statistics(fill_with_means(data, n_classes), n_classes)
    start = mode(posterior(filled, prior, covariance=covariance))
    given = (data, prior)
    return run_em(STEPS[covariance], start, given, max_steps=max_steps, tol=tol)
