"""Posterior, evidence and modes of Gaussian classes.

The log evidence is NumPyro's log density at any θ minus the log posterior density of θ
(SciPy). Modes are stationary points of NumPyro's density.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats as scipy_stats

from probmetric.checks.check import Problem, Values, by_gradient, zero
from probmetric.checks.sides import density_of
from probmetric.data.containers import Labeled
from probmetric.inference.gaussian_classes.missing import fit_missing
from probmetric.inference.gaussian_classes.posterior import (
    log_evidence,
    mode,
    posterior,
    posterior_mean,
    statistics,
)
from probmetric.models.gaussian_classes import (
    GaussianClassesParams,
    gaussian_classes,
)
from probmetric.typing import Array

KINDS = "full", "tied", "diagonal"


def n_classes(problem: Problem[Labeled]) -> int:
    """Return the number of classes of a problem."""
    return int(problem.options["n_classes"])


def _sites(params: GaussianClassesParams, kind: str) -> dict[str, Array]:
    sites: dict[str, Array] = {"weights": params.weights, "mean": params.mean}
    if kind == "diagonal":
        sites["variance"] = jnp.diagonal(params.chol, axis1=-2, axis2=-1) ** 2
    else:
        sites["chol"] = params.chol
    return jax.tree.map(jnp.asarray, sites)


def _thetas(problem: Problem[Labeled], kind: str) -> list[GaussianClassesParams]:
    """Return two parameters to evaluate densities at, made without the posterior."""
    X, c = np.asarray(problem.data.X, float), n_classes(problem)
    d, thetas = X.shape[1], list[GaussianClassesParams]()
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        q = 1 if kind == "tied" else c
        chol = np.tril(0.3 * rng.normal(size=(q, d, d)), -1) * (kind != "diagonal")
        chol = chol + (1 + rng.random((q, d)))[..., None] * np.eye(d)
        mean = X.mean(0) + rng.normal(size=(c, d))
        thetas.append(GaussianClassesParams(rng.dirichlet(np.full(c, 5.0)), mean, chol))
    return thetas


def joint_density(problem: Problem[Labeled]) -> Values:
    """Evaluate NumPyro's log density at two parameters, for each covariance."""
    table: dict[str, list[Array]] = {}
    for kind in KINDS:
        options = {"n_classes": n_classes(problem), "covariance": kind}
        density = density_of(gaussian_classes, (problem.data, problem.prior), options)
        table[kind] = [density(_sites(at, kind))[0] for at in _thetas(problem, kind)]
    return table


def _log_posterior(at: GaussianClassesParams, post: Any, kind: str) -> float:
    """Return the log density of (π, μ, L), or (π, μ, σ²), under a posterior."""
    c, d = at.mean.shape
    value = scipy_stats.dirichlet.logpdf(at.weights, post.alpha)
    for k in range(len(post.nu)):
        if kind == "diagonal":
            variance = np.diagonal(at.chol[k]) ** 2
            scale = np.asarray(post.Psi[k]) / 2
            logs = scipy_stats.invgamma.logpdf(variance, post.nu[k] / 2, scale=scale)
            value += logs.sum()
        else:
            L = at.chol[k]
            value += scipy_stats.invwishart.logpdf(L @ L.T, post.nu[k], post.Psi[k])
            # From Σ to its factor: the Jacobian is 2^d Π L_ii^(d - i), i from 0.
            powers = np.log(np.diagonal(L)) @ (d - np.arange(d))
            value += d * np.log(2.0) + powers
    for k in range(c):
        L = at.chol[min(k, len(at.chol) - 1)]
        normal = scipy_stats.multivariate_normal(post.mean[k], L @ L.T / post.kappa[k])
        value += normal.logpdf(at.mean[k])
    return float(value)


def by_candidates_formula(
    problem: Problem[Labeled], nu: float = 0.0, shrink: bool = True
) -> Values:
    """Return evidence plus log posterior; wrong: another ν, or without shrinkage."""
    table: dict[str, list[float]] = {}
    stats = statistics(problem.data, n_classes(problem))
    for kind in KINDS:
        options: Any = {"covariance": kind}
        post = posterior(stats, problem.prior, **options)
        if not shrink and kind == "full":
            post = post._replace(Psi=problem.prior.Psi + stats.scatter)
        post = post._replace(nu=post.nu + nu)
        evidence = float(log_evidence(stats, problem.prior, **options))
        at = _thetas(problem, kind)
        table[kind] = [evidence + _log_posterior(theta, post, kind) for theta in at]
    return table


def _slopes(
    problem: Problem[Labeled], at: GaussianClassesParams, data: Labeled, kind: str
) -> dict[str, np.ndarray]:
    """Return the gradient of the density of Σ (not of its Cholesky factor L)."""
    options = {"n_classes": n_classes(problem), "covariance": kind, "missing": True}
    density = density_of(gaussian_classes, (data, problem.prior), options)
    slope = {k: np.asarray(g) for k, g in density(_sites(at, kind))[1].items()}
    n, d = np.shape(data.X)
    diagonal = np.diagonal(at.chol, axis1=-2, axis2=-1)
    if kind == "diagonal":  # The site is σ² = L².
        by_chol = 2 * diagonal * slope["variance"]
    else:
        by_chol = slope["chol"] - ((d - np.arange(d)) / diagonal)[..., None] * np.eye(d)
        by_chol = np.tril(by_chol)
    along = slope["weights"] - slope["weights"].mean()
    return {"μ": slope["mean"] / n, "L": by_chol / n, "π": along / n}


def mode_slope(problem: Problem[Labeled], mean: bool = False) -> Values:
    """Differentiate NumPyro's density at the modes; wrong: at the posterior means."""
    data, prior, c = problem.data, problem.prior, n_classes(problem)
    X = np.asarray(data.X, float)
    hole = np.random.default_rng(3).random(X.shape) < 0.2
    holes = data._replace(X=np.where(hole, np.nan, X))
    stats, table = statistics(data, c), dict[str, Array]()
    for kind in KINDS:
        options: Any = {"covariance": kind}
        post = posterior(stats, prior, **options)
        some = fit_missing(holes, prior, n_classes=c, **options, tol=1e-15).params
        for name, at, rows in (
            ("complete", posterior_mean(post) if mean else mode(post), data),
            ("missing", GaussianClassesParams(*some), holes),
        ):
            slopes = _slopes(problem, at, rows, kind)
            table |= {f"slope in {k}, {kind}, {name}": g for k, g in slopes.items()}
    return table


CHECKS = (
    by_gradient(
        "posterior density times evidence equals the NumPyro density at any θ",
        reference=joint_density,
        estimate=by_candidates_formula,
        controls={
            "ν off by one": partial(by_candidates_formula, nu=1.0),
            "shrinkage term left out": partial(by_candidates_formula, shrink=False),
        },
        rtol=1e-10,
    ),
    by_gradient(
        "modes are stationary points of the NumPyro density, also with missing entries",
        reference=zero,
        estimate=mode_slope,
        controls={"posterior mean instead of mode": partial(mode_slope, mean=True)},
        atol=5e-5,
    ),
)
