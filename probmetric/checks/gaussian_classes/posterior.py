"""Gaussian classes for any covariance, from what defines them.

The log density of NumPyro's model at some θ, less the log density of θ under the
posterior (scipy), is the evidence wherever θ lies. Modes are where NumPyro's density is
stationary; class probabilities are those of scipy's multivariate t.
"""

from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats as scipy_stats
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient, zero
from probmetric.checks.sides import density_of
from probmetric.data.containers import Labelled
from probmetric.inference.gaussian_classes.missing import fit_missing
from probmetric.inference.gaussian_classes.mixtures import fit_mixtures, mixture_prior
from probmetric.inference.gaussian_classes.posterior import (
    log_evidence,
    mode,
    plug_in,
    posterior,
    posterior_mean,
    statistics,
)
from probmetric.inference.gaussian_classes.predict import (
    predict_log_proba,
)
from probmetric.inference.gaussian_classes.prior import (
    EXCESS,
    KAPPA,
    SHRINKAGE,
    evidence_prior,
)
from probmetric.models.gaussian_classes import (
    GaussianClassesParams,
    gaussian_classes,
    gaussian_mixture_classes,
)
from probmetric.typing import Array

KINDS = "full", "tied", "diagonal"


def n_classes(problem: Problem[Labelled]) -> int:
    """Return the number of classes of a problem."""
    return int(problem.options["n_classes"])


def _sites(params: GaussianClassesParams, kind: str) -> dict[str, Array]:
    sites: dict[str, Array] = {"weights": params.weights, "mean": params.mean}
    if kind == "diagonal":
        sites["variance"] = jnp.diagonal(params.chol, axis1=-2, axis2=-1) ** 2
    else:
        sites["chol"] = params.chol
    return jax.tree.map(jnp.asarray, sites)


def _thetas(problem: Problem[Labelled], kind: str) -> list[GaussianClassesParams]:
    """Return two parameters to evaluate densities at, made without the posterior."""
    X, c = np.asarray(problem.data.X, float), n_classes(problem)
    d, found = X.shape[1], list[GaussianClassesParams]()
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        q = 1 if kind == "tied" else c
        chol = np.tril(0.3 * rng.normal(size=(q, d, d)), -1) * (kind != "diagonal")
        chol = chol + (1 + rng.random((q, d)))[..., None] * np.eye(d)
        mean = X.mean(0) + rng.normal(size=(c, d))
        found.append(GaussianClassesParams(rng.dirichlet(np.full(c, 5.0)), mean, chol))
    return found


def joint_density(problem: Problem[Labelled]) -> Values:
    """Evaluate NumPyro's log density at two parameters, for each covariance."""
    found: dict[str, list[Array]] = {}
    for kind in KINDS:
        options = {"n_classes": n_classes(problem), "covariance": kind}
        density = density_of(gaussian_classes, (problem.data, problem.prior), options)
        found[kind] = [density(_sites(at, kind))[0] for at in _thetas(problem, kind)]
    return found


def _log_posterior(at: GaussianClassesParams, post: Any, kind: str) -> float:
    """Return the log density of (π, μ, L), or (π, μ, σ²), under a posterior."""
    c, d = at.mean.shape
    value = scipy_stats.dirichlet.logpdf(at.weights, post.alpha)
    for k in range(len(post.nu)):
        if kind == "diagonal":
            variance = np.diagonal(at.chol[k]) ** 2
            scale = np.asarray(post.Psi[k]) / 2
            own = scipy_stats.invgamma.logpdf(variance, post.nu[k] / 2, scale=scale)
            value += own.sum()
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


def by_candidates_formula(problem: Problem[Labelled], nu: float = 0.0) -> Values:
    """Return evidence plus the log density of the same under the posterior."""
    found: dict[str, list[float]] = {}
    stats = statistics(problem.data, n_classes(problem))
    for kind in KINDS:
        options: Any = {"covariance": kind}
        post = posterior(stats, problem.prior, **options)
        post = post._replace(nu=post.nu + nu)
        evidence = float(log_evidence(stats, problem.prior, **options))
        at = _thetas(problem, kind)
        found[kind] = [evidence + _log_posterior(theta, post, kind) for theta in at]
    return found


def points_by_hand(problem: Problem[Labelled]) -> Values:
    """Take means of the posterior, the plug-in and the best prior by direct sums."""
    data, prior, c = problem.data, problem.prior, n_classes(problem)
    X, y = np.asarray(data.X, float), np.asarray(data.y)
    w = np.ones(len(X)) if data.w is None else np.asarray(data.w)
    stats, d = statistics(data, c), X.shape[1]
    found: dict[str, Any] = {}
    plug: list[np.ndarray] = []
    for k in range(c):
        own, v = X[y == k], w[y == k]
        S = np.cov(own.T, aweights=v, ddof=0)
        plug.append(0.7 * S + 0.3 * np.trace(S) / d * np.eye(d))
    found["plug-in Σ"] = np.stack(plug)
    for kind in KINDS:
        # Of an inverse Wishart the mean is Ψ/(ν - d - 1), the mode of (μ, Σ) another.
        post = posterior(stats, prior, covariance=kind)
        order = 1 if kind == "diagonal" else d
        Psi = np.asarray(post.Psi)
        Psi = Psi[..., None] * np.eye(d) if kind == "diagonal" else Psi
        found[f"E Σ, {kind}"] = Psi / (np.asarray(post.nu) - order - 1)[:, None, None]
        found[f"E π, {kind}"] = np.asarray(post.alpha) / np.sum(post.alpha)
    total = X - np.stack([np.average(X[y == k], 0, w[y == k]) for k in range(c)])[y]
    S = (total * w[:, None]).T @ total / w.sum()
    scores: list[float] = []
    for excess, kappa, a in product(EXCESS[::2], KAPPA[::2], SHRINKAGE[::2]):
        Psi = excess * ((1 - a) * S + a * np.trace(S) / d * np.eye(d))
        some = prior._replace(
            mean=np.average(X, 0, w), Psi=Psi, kappa=kappa, nu=excess + d + 1
        )
        scores.append(float(log_evidence(stats, some)))
    for kind in KINDS:
        found[f"E Σ under the best prior, {kind}"] = np.trace(S)
    best = evidence_prior(stats, alpha=prior.alpha)
    # No prior of the grid has a higher evidence.
    found["highest evidence"] = max(*scores, float(log_evidence(stats, best)))
    return found


def points(problem: Problem[Labelled], excess: float = 0.0) -> Values:
    """Return the same of the package; ν off by ``excess``, if asked."""
    prior, c = problem.prior, n_classes(problem)
    stats, found = statistics(problem.data, c), dict[str, Any]()
    L = np.asarray(plug_in(stats, shrinkage=0.3).chol)
    found["plug-in Σ"] = L @ np.swapaxes(L, 1, 2)
    for kind in KINDS:
        post = posterior(stats, prior, covariance=kind)
        post = post._replace(nu=post.nu + excess)
        at = posterior_mean(post)
        L = np.asarray(at.chol)
        found[f"E Σ, {kind}"] = L @ np.swapaxes(L, -1, -2)
        found[f"E π, {kind}"] = at.weights
    best = evidence_prior(stats, alpha=prior.alpha)
    d = len(best.mean)
    for kind in KINDS:
        options: Any = {"covariance": kind, "alpha": prior.alpha}
        some, order = evidence_prior(stats, **options), 1 if kind == "diagonal" else d
        mean = np.trace(some.Psi) / (some.nu - order - 1)
        found[f"E Σ under the best prior, {kind}"] = mean
    found["highest evidence"] = float(log_evidence(stats, best))
    return found


def mode_slope(problem: Problem[Labelled], mean: bool = False) -> Values:
    """Differentiate NumPyro's density at the mode, less the Jacobian of L; or beside.

    With missing entries, and without, and of mixtures within the classes.
    """
    data, prior, c = problem.data, problem.prior, n_classes(problem)
    X = np.asarray(data.X, float)
    n, d = X.shape
    hole = np.random.default_rng(3).random(X.shape) < 0.2
    holes = data._replace(X=np.where(hole, np.nan, X))
    found: dict[str, Array] = {}
    stats = statistics(data, c)

    def slopes(at: Any, given: Labelled, kind: str, **more: Any) -> list[Array]:
        model = gaussian_mixture_classes if at.mix is not None else gaussian_classes
        options = {"n_classes": c, "covariance": kind, **more}
        sites = _sites(at, kind)
        if at.mix is not None:
            sites["mix"] = jnp.asarray(at.mix)
        value, slope = density_of(model, (given, prior), options)(sites)
        total, by = float(value), {k: np.asarray(g) for k, g in slope.items()}
        diagonal = np.diagonal(at.chol, axis1=-2, axis2=-1)
        if kind == "diagonal":  # Of σ² = L².
            by_chol = 2 * (diagonal * by["variance"])[..., None] * np.eye(d)
        else:
            # The mode is that of Σ's density, not that of its factor's.
            powers = d - np.arange(d)
            total -= np.sum(np.log(diagonal) @ powers)
            by_chol = np.tril(by["chol"] - (powers / diagonal)[..., None] * np.eye(d))
        # Weights stay on their simplices.
        shares = [by[k] for k in ("weights", "mix") if k in by]
        along = [(g - g.mean(-1, keepdims=True)) / n for g in shares]
        return [by["mean"] / n, by_chol / n, *along, np.asarray(total)]

    for kind in KINDS:
        options: Any = {"covariance": kind}
        post = posterior(stats, prior, **options)
        whole = posterior_mean(post) if mean else mode(post)
        some = fit_missing(holes, prior, n_classes=c, **options, tol=1e-15)
        for name, at, given in (
            ("whole", whole, data),
            ("missing", GaussianClassesParams(*some.params), holes),
        ):
            more = {"missing": True} if name == "missing" else {}
            parts = slopes(at, given, kind, **more)
            found[f"slope in μ, {kind}, {name}"] = parts[0]
            found[f"slope in L, {kind}, {name}"] = parts[1]
            found[f"slope in π, {kind}, {name}"] = parts[2]
        options = {"n_classes": c, "covariance": kind, "missing": True}
        density = density_of(gaussian_classes, (holes, prior), options)
        reported = some.objective
        jacobian = 0.0
        if kind != "diagonal":
            logs = np.log(np.diagonal(some.params.chol, axis1=-2, axis2=-1))
            jacobian = d * np.log(2.0) * len(logs) + np.sum(logs @ (d - np.arange(d)))
        gap = density(_sites(some.params, kind))[0] - jacobian - reported
        found[f"log joint, {kind}"] = gap / n
    plain = data._replace(w=None)
    inner = mixture_prior(prior._replace(nu=prior.nu + 0.5), 2)
    at = fit_mixtures(
        plain, prior, n_classes=c, n_components=2, concentration=1.5, n_starts=1
    )
    more = {"n_components": 2, "concentration": 1.5}
    parts = slopes(at.params, plain, "full", **more)
    names = "μ", "L", "π", "ω"
    *slopes_, total = parts
    found |= {
        f"slope in {key}, mixtures": value
        for key, value in zip(names, slopes_, strict=True)
    }
    # From Σ to its factor in each component.
    jacobian = d * np.log(2.0) * np.prod(np.shape(at.params.mean)[:2])
    found["log joint, mixtures"] = (total - jacobian - at.objective) / n
    size = np.trace(prior.Psi) / (prior.nu - d - 0.5) / 2 ** (2 / d)
    found["Ψ of mixtures"] = np.trace(inner.Psi) / size - 1
    return found


def proba_by_scipy(problem: Problem[Labelled]) -> Values:
    """Restrict scipy's multivariate t to what is seen, class by class."""
    X, stats = _rows(problem), statistics(problem.data, n_classes(problem))
    found: dict[str, np.ndarray] = {}
    for kind in KINDS:
        post = posterior(stats, problem.prior, covariance=kind)
        c, d = post.mean.shape
        table = np.empty((len(X), c))
        for n, k in np.ndindex(*table.shape):
            q = min(k, len(post.nu) - 1)
            seen, kappa = ~np.isnan(X[n]), float(post.kappa[k])
            loc, nu = np.asarray(post.mean[k])[seen], float(post.nu[q])
            size = (kappa + 1) / kappa
            value = np.log(post.alpha[k] / np.sum(post.alpha))
            if kind == "diagonal":
                scale = np.sqrt(np.asarray(post.Psi[k])[seen] * size / nu)
                value += scipy_stats.t.logpdf(X[n][seen], nu, loc, scale).sum()
            elif seen.any():
                df: Any = nu - d + 1
                S: Any = np.asarray(post.Psi[q])[np.ix_(seen, seen)] * size / df
                value += multivariate_t.logpdf(X[n][seen], loc, S, df=df)
            table[n, k] = value
        found[f"log P(c | x), {kind}"] = table - logsumexp(table, 1, keepdims=True)
    return found


def _rows(problem: Problem[Labelled]) -> np.ndarray:
    X = np.array(problem.data.X[:8], float)
    if X.shape[1] > 1:
        X[1, 0] = X[4, 1] = X[6, -1] = np.nan
    return X


def proba(problem: Problem[Labelled], kappa: float = 0.0) -> Values:
    """Return the same in closed form; κ off, if asked."""
    stats, found = statistics(problem.data, n_classes(problem)), dict[str, Array]()
    for kind in KINDS:
        post = posterior(stats, problem.prior, covariance=kind)
        post = post._replace(kappa=post.kappa + kappa)
        name = f"log P(c | x), {kind}"
        found[name] = predict_log_proba(post, _rows(problem), missing=True)
    return found


CHECKS = (
    by_gradient(
        "posterior and evidence give the NumPyro density at any θ, each covariance",
        reference=joint_density,
        estimate=by_candidates_formula,
        controls={"ν off by one": partial(by_candidates_formula, nu=1.0)},
        rtol=1e-10,
    ),
    by_algebra(
        "posterior means, plug-in and best prior are what defines them",
        reference=points_by_hand,
        estimate=points,
        controls={"ν off by one": partial(points, excess=1.0)},
    ),
    by_gradient(
        "modes are stationary points of the NumPyro density, entries missing or not",
        reference=zero,
        estimate=mode_slope,
        controls={"posterior mean for mode": partial(mode_slope, mean=True)},
        atol=5e-5,
    ),
    by_algebra(
        "class probabilities are those of scipy's t, entries missing or not",
        reference=proba_by_scipy,
        estimate=proba,
        controls={"κ off by one": partial(proba, kappa=1.0)},
        rtol=1e-8,
    ),
)
