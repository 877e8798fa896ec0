"""DCA-GM: the joint posterior mode of the projection and the mixtures.

The default fit maximizes one objective, the log density of the NumPyro model in all its
sites s = (A, alpha_logit, beta_logit, mu, log_diag, off_diag),

    log p(s, y) = η Σ_i w_i log p(y_i | A x_i, θ) + Σ_sites log N(site; mean, sd²),  (1)

by L-BFGS from the start of ``dca_gm.start``. A mode exists, because the log likelihood
is at most 0 and every prior is proper. L-BFGS uses whitened coordinates: Ã = A L with L
Lᵀ = (XᵀX + (λ/c²) I)/n, and the other sites in units of their prior standard deviation.
This linear change of coordinates changes no mode and saves many steps for correlated
features. ``solver="hybrid"`` is the paper's method, which does not maximize a single
objective (``dca_gm.hybrid``). Both solvers find a local optimum.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpyro import distributions as dist

from probmetric.data.containers import Labeled, weights
from probmetric.inference.dca_gm.hybrid import Penalty, fit_hybrid
from probmetric.inference.dca_gm.likelihood import (
    conditional_log_likelihood,
    with_fisher,
)
from probmetric.inference.dca_gm.start import (
    check_labeled,
    default_rows,
    em_prior,
    start,
)
from probmetric.inference.solvers.lbfgs import lbfgs
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import cholesky_of, solve_lower
from probmetric.models.dca_gm import (
    DCAGMParams,
    DCAGMPrior,
    DCAGMSites,
    constrain,
    unconstrain,
)
from probmetric.precision import host_or_program, numpy_in_numpy_out
from probmetric.typing import Array


class Conditioned(NamedTuple):
    """Data, prior and learning rate of a log joint density."""

    data: Labeled
    prior: DCAGMPrior
    learning_rate: Float[Array, ""] | float = 1.0


def log_prior_parts(sites: DCAGMSites, prior: DCAGMPrior) -> dict[str, Array]:
    """Compute the log prior density of each site, constants included."""
    normal = {
        "A": dist.Normal(prior.mean, prior.c / jnp.sqrt(prior.lam)),
        "alpha_logit": dist.Normal(0.0, prior.weight_scale),
        "beta_logit": dist.Normal(0.0, prior.weight_scale),
        "mu": dist.Normal(0.0, prior.mu_scale),
        "log_diag": dist.Normal(0.0, prior.chol_scale),
        "off_diag": dist.Normal(0.0, prior.chol_scale),
    }
    values = sites._asdict()
    return {k: jnp.sum(site.log_prob(values[k])) for k, site in normal.items()}


@numpy_in_numpy_out
@jax.jit
def log_joint(sites: DCAGMSites, given: Conditioned) -> Float[Array, ""]:
    """Compute the log density of the NumPyro model, Eq. (1), constants included."""
    params = constrain(sites, given.prior.present)
    likelihood = jnp.asarray(conditional_log_likelihood(params, given.data))
    prior = sum(log_prior_parts(sites, given.prior).values())
    return jnp.asarray(given.learning_rate * likelihood + prior)


class White(NamedTuple):
    """Data with the matrix L that whitens A, for L-BFGS and the samplers."""

    given: Conditioned
    half: Float[Array, "d d"]


def _half(xp: ModuleType, conditioned: Conditioned) -> Array:
    X, w, prior = conditioned.data.X, weights(conditioned.data), conditioned.prior
    precision = prior.lam / prior.c**2
    gram = (w[:, None] * X).T @ X + precision * xp.eye(X.shape[1], dtype=X.dtype)
    return cholesky_of(xp, gram / xp.sum(w))


def to_white(sites: DCAGMSites, white: White) -> DCAGMSites:
    """Whiten the sites: compute Ã = A L, and other sites in units of their prior."""
    prior = white.given.prior
    return sites._replace(
        A=sites.A @ white.half,
        mu=sites.mu / prior.mu_scale,
        log_diag=sites.log_diag / prior.chol_scale,
        off_diag=sites.off_diag / prior.chol_scale,
    )


def from_white(sites: DCAGMSites, white: White, xp: ModuleType = jnp) -> DCAGMSites:
    """Convert whitened sites back to sites, by JAX or by NumPy."""
    prior = white.given.prior
    return sites._replace(
        A=solve_lower(xp, white.half, sites.A.T, transposed=True).T,
        mu=sites.mu * prior.mu_scale,
        log_diag=sites.log_diag * prior.chol_scale,
        off_diag=sites.off_diag * prior.chol_scale,
    )


def white_joint(sites: DCAGMSites, white: White) -> Float[Array, ""]:
    """Compute Eq. (1), the log joint density, at whitened sites without Jacobian."""
    return log_joint(from_white(sites, white), white.given)


def _mode(
    begin: DCAGMParams, conditioned: Conditioned, *, max_steps: int, tol: float
) -> Fit:
    z, white = opening(begin, conditioned)
    end = lbfgs(white_joint, z, white, max_steps=max_steps, tol=tol)
    return end._replace(
        params=with_fisher(_closing(end.params, white), conditioned.data)
    )


def _opened(
    xp: ModuleType, begin: DCAGMParams, conditioned: Conditioned
) -> tuple[DCAGMSites, White]:
    white = White(conditioned, _half(xp, conditioned))
    return to_white(unconstrain(begin), white), white


opening = host_or_program(_opened)


def _closed(xp: ModuleType, sites: DCAGMSites, white: White) -> DCAGMParams:
    return constrain(from_white(sites, white, xp), white.given.prior.present)


_closing = host_or_program(_closed)


def default_prior(
    params: DCAGMParams, data: Labeled, *, lam: float = 1.0
) -> DCAGMPrior:
    """Make the default prior, with centers and scales from starting values of a fit.

    This is an empirical prior, because the starting values depend on the data.

    Parameters
    ----------
    params : DCAGMParams
        Starting values of the fit. The prior mean of the projection is their A, and c
        is the root mean square of the entries of A. The prior has as many components as
        the starting values. The standard deviation of the centers is the root mean
        square of the projected points.
    data : Labeled
    lam : float, default=1
        The prior standard deviation of an entry of A is c/√lam.
    """
    A, w = np.asarray(params.A), np.asarray(weights(data))
    squares = np.mean((np.asarray(data.X) @ A.T) ** 2, 1)
    return DCAGMPrior(
        mean=A,
        present=np.isfinite(params.log_beta),
        c=np.sqrt(np.mean(A**2)),
        mu_scale=np.sqrt(np.sum(w * squares) / np.sum(w)),
        lam=lam,
    )


@numpy_in_numpy_out
def fit(
    data: Labeled,
    prior: DCAGMPrior | None = None,
    *,
    n_latent: int | None = None,
    n_gaussians: int | Sequence[int] = 3,
    covariance: str = "class",
    solver: str = "lbfgs",
    lam: float = 1.0,
    learning_rate: float = 1.0,
    init: DCAGMParams | None = None,
    max_steps: int | None = None,
    tol: float = 1e-5,
    seed: int = 0,
) -> Fit:
    """Fit the projection and the mixtures.

    Parameters
    ----------
    data : Labeled
    prior : DCAGMPrior, optional
        If passed, its shapes replace ``n_latent`` and ``n_gaussians``. Default:
        ``default_prior`` of the starting values. Hybrid solvers only use the prior of
        A.
    n_latent : int, optional
        Number p of latent dimensions. Default: the number of classes minus 1, at least
        2 and at most d. Ignored with ``init``.
    n_gaussians, covariance, seed
        See ``start``. Ignored with ``init``.
    solver : {"lbfgs", "hybrid", "hybrid_tied"}, default="lbfgs"
        "lbfgs" finds a mode of the posterior, Eq. (1). "hybrid" and "hybrid_tied" are
        the paper's hybrid of EM and conjugate gradients. With "hybrid_tied", the
        centers of the components move with the projection.
    lam : float, default=1
        Strength λ of the default prior of the projection.
    learning_rate : float, default=1
        Power η on the likelihood.
    init : DCAGMParams, optional
        Starting values. Default: computed by ``start``.
    max_steps : int, optional
        Largest number of iterations. Default: 500 for "lbfgs", 30 for hybrid solvers.
    tol : float, default=1e-5
        "lbfgs" stops if an iteration increases the log density by less than ``tol``
        nats. For the hybrid solvers, see ``fit_hybrid``.

    Returns
    -------
    Fit
        ``params.fisher`` is the Fisher matrix averaged over the points of ``data``.

    Examples
    --------
    Only the first of two features separates the classes:

    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import dca_gm
    >>> cross = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> X, y = np.vstack([cross - [2, 0], cross + [2, 0]]), np.repeat([0, 1], 4)
    >>> data = Labeled(X, y)
    >>> begin = dca_gm.start(data, 1, n_gaussians=1)
    >>> prior = dca_gm.default_prior(begin, data)
    >>> params = dca_gm.fit(data, prior, init=begin).params
    >>> params.A.round(2).tolist(), np.exp(params.log_alpha).round(2).tolist()
    ([[1.56, 0.0]], [0.5, 0.5])
    >>> dca_gm.class_log_probability(params, X).argmax(1).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    if solver not in ("lbfgs", "hybrid", "hybrid_tied"):
        raise ValueError(
            f"solver must be 'lbfgs', 'hybrid' or 'hybrid_tied', got {solver!r}."
        )
    if covariance not in ("class", "component"):
        raise ValueError(
            f"covariance must be 'class' or 'component', got {covariance!r}."
        )
    p = n_latent
    if p is None:
        n_classes = 2 if data.y is None else len(np.unique(np.asarray(data.y)))
        p = default_rows(n_classes, data.X.shape[1])
    if prior is not None:
        p = prior.mean.shape[0]
        n_gaussians = [int(k) for k in np.sum(prior.present, 1)]
    if init is None:
        begin = start(
            data, p, n_gaussians=n_gaussians, covariance=covariance, seed=seed
        )
    else:
        check_labeled(data, init.A.shape[0])
        begin = init._replace(fisher=None)
    if prior is None:
        prior = default_prior(begin, data, lam=lam)
    if max_steps is None:
        max_steps = 500 if solver == "lbfgs" else 30
    if solver == "lbfgs":
        conditioned = Conditioned(data, prior, learning_rate)
        return _mode(begin, conditioned, max_steps=max_steps, tol=tol)
    begin, data = jax.device_put((begin, data))
    end = fit_hybrid(
        begin,
        data,
        Penalty(prior.mean, prior.lam / prior.c**2 / learning_rate),
        em_prior(data, begin.A),
        tol,
        max_steps=max_steps,
        tied=solver == "hybrid_tied",
    )
    return end._replace(params=with_fisher(end.params, data))
