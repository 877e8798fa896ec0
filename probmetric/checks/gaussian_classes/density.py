"""Gaussian classes against quadrature and automatic differentiation.

References: the defining integral of the evidence, Hessians of the densities, the error
averaged over a small sphere. The bias matrix is evaluated as the paper writes it, under
the paper's number, with p_c the class densities times the class probabilities,

    B ∝ Σ_c Σ_{j≠c} p_j (p_j - p_c) ∇∇p_c.                                        (11)

Controls: ν off by one, the shrinkage term of Ψ dropped, 4D for 2D (erratum G1), normal
densities for Student's.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import stats as scipy_stats

from probmetric.checks.check import Problem, Values, by_algebra, by_quadrature
from probmetric.checks.gaussian_classes.problems import on_overlapping
from probmetric.data.containers import Labelled
from probmetric.densities.classes import (
    class_hessians,
    class_log_densities,
    log_posterior,
)
from probmetric.inference.gaussian_classes.local_metric import error_expansion
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    log_evidence,
    posterior,
    statistics,
)
from probmetric.inference.gaussian_classes.predict import predictive
from probmetric.metric.glml import bias_matrix
from probmetric.models.gaussian_classes import NIWPrior, to_densities
from probmetric.typing import Array


def some_posterior(
    problem: Problem[Labelled], nu: float = 0.0, shrink: bool = True
) -> ClassPosterior:
    """Return the posterior, or a wrong one."""
    stats = statistics(problem.data, problem.options["n_classes"])
    found = posterior(stats, problem.prior)
    Psi = found.Psi if shrink else problem.prior.Psi + stats.scatter
    return found._replace(nu=found.nu + nu, Psi=Psi)


def _one_feature(problem: Problem[Labelled]) -> tuple[np.ndarray, NIWPrior]:
    """Return the first feature of up to eight points of class 0, and its prior."""
    data, prior = problem.data, problem.prior
    x = np.asarray(data.X)[np.asarray(data.y) == 0, 0][:8]
    return x, prior._replace(mean=prior.mean[:1], Psi=prior.Psi[:1, :1])


def evidence_by_quadrature(problem: Problem[Labelled]) -> Values:
    """Integrate likelihood times prior over (μ, log σ²), one feature and class."""
    x, prior = _one_feature(problem)
    u, w = np.polynomial.legendre.leggauss(400)
    log_s2 = np.log(prior.Psi[0, 0] / prior.nu) + 12 * u
    s2 = np.exp(log_s2)[:, None]
    # μ given σ² is normal about the shrunken mean: ±12 of its widths hold it all.
    kappa = prior.kappa + len(x)
    centre = (prior.kappa * prior.mean[0] + x.sum()) / kappa
    width = 12 * np.sqrt(s2 / kappa)
    mu = centre + width * u
    log_joint = (
        scipy_stats.norm.logpdf(x[:, None, None], mu, np.sqrt(s2)).sum(0)
        + scipy_stats.norm.logpdf(mu, prior.mean[0], np.sqrt(s2 / prior.kappa))
        + scipy_stats.invgamma.logpdf(s2, prior.nu / 2, scale=prior.Psi[0, 0] / 2)
        + log_s2[:, None]
    )
    top = log_joint.max()
    inner = np.sum(w * np.exp(log_joint - top) * width, 1)
    return {"log p(X)": top + np.log(12 * np.sum(w * inner))}


def evidence_estimate(
    problem: Problem[Labelled], nu: float = 0.0, shrink: bool = True
) -> Values:
    """Return the closed-form evidence of the same, or a wrong one."""
    x, prior = _one_feature(problem)
    stats = statistics(Labelled(x[:, None], np.zeros(len(x), int)), 1)
    if not shrink:  # As if the class mean were the prior's.
        stats = stats._replace(mean=prior.mean[None])
    return {"log p(X)": log_evidence(stats, prior._replace(nu=prior.nu + nu))}


def places(problem: Problem[Labelled]) -> np.ndarray:
    """Return a few points of the problem to evaluate densities at."""
    return np.asarray(problem.data.X)[:5]


def _signless(B: np.ndarray) -> np.ndarray:
    """Divide by the norm and by the sign of the largest entry."""
    flat = B.reshape(len(B), -1)
    top = np.take_along_axis(flat, np.abs(flat).argmax(1)[:, None], 1)
    return flat * np.sign(top) / np.linalg.norm(flat, axis=1, keepdims=True)


@on_overlapping
def bias_by_autodiff(problem: Problem[Labelled]) -> Values:
    """Evaluate Eq. (11) of the paper with Hessians of p_c by automatic derivatives."""
    classes = predictive(some_posterior(problem))

    def densities(x: Float[Array, "d"]) -> Float[Array, "c"]:
        return jnp.exp(classes.log_prior + class_log_densities(classes, x))

    def at(x: Float[Array, "d"]) -> Float[Array, "d d"]:
        p, H = densities(x), jax.hessian(densities)(x)
        others = jnp.sum(p**2) - p**2 - p * (jnp.sum(p) - p)
        return jnp.einsum("c,cij->ij", others, H)

    return {"B": _signless(np.asarray(jax.jit(jax.vmap(at))(places(problem))))}


@on_overlapping
def bias_estimate(problem: Problem[Labelled], normal: bool = False) -> Values:
    """Return the scale-free B, of Student-t densities or (wrongly) of normals."""
    classes = predictive(some_posterior(problem))
    if normal:
        classes = classes._replace(inv_df=jnp.zeros_like(classes.inv_df))

    def at(x: Float[Array, "d"]) -> Float[Array, "d d"]:
        return bias_matrix(log_posterior(classes, x), class_hessians(classes, x))[0]

    return {"B": _signless(np.asarray(jax.jit(jax.vmap(at))(places(problem))))}


@on_overlapping
def error_by_sphere(problem: Problem[Labelled]) -> Values:
    """Average densities over a sphere and extrapolate the error's r² to r = 0.

    Of radius r under a metric |A| = 1, the Euclidean one or another. The 2D points
    are a spherical design of degree 3: their mean differs from that of the sphere by
    O(r⁴), which Richardson's step removes with the rest.
    """
    classes = to_densities(problem.params)

    def error(x: Float[Array, "d"], r: float, A: Array) -> Float[Array, ""]:
        # Rows of L⁻¹, A = LLᵀ, have the length one under A.
        axes = jnp.linalg.solve(jnp.linalg.cholesky(A), jnp.eye(len(x)))
        steps = r * jnp.concatenate([axes, -axes])
        logs = jax.vmap(lambda e: class_log_densities(classes, x + e))(steps)
        near = jnp.exp(classes.log_prior) * jnp.mean(jnp.exp(logs), 0)
        rho = jnp.exp(log_posterior(classes, x))
        return 1 - jnp.sum(rho * near / jnp.sum(near))

    def at(x: Float[Array, "d"], A: Array) -> tuple[Float[Array, ""], ...]:
        limit = 1 - jnp.sum(jnp.exp(2 * log_posterior(classes, x)))
        slopes = [(error(x, r, A) - limit) / r**2 for r in (0.02, 0.01)]
        return limit, (4 * slopes[1] - slopes[0]) / 3

    found: dict[str, np.ndarray] = {}
    both = jax.jit(jax.vmap(at, (0, None)))
    for name, A in _shapes(problem).items():
        unit = A / np.exp(np.linalg.slogdet(A)[1] / len(A))
        limit, slope = both(places(problem), jnp.asarray(unit))
        found[f"error at r = 0{name}"] = np.asarray(limit)
        found[f"slope in r²{name}"] = np.asarray(slope)
    return found


def _shapes(problem: Problem[Labelled]) -> dict[str, np.ndarray]:
    d = np.shape(problem.data.X)[1]
    scale = 1.4 ** np.arange(d)
    return {"": np.eye(d), ", another metric": 3 * np.diag(scale) + 0.5}


@on_overlapping
def error_estimate(problem: Problem[Labelled], factor: float = 1.0) -> Values:
    """Return limit and slope (1 - s, tr A⁻¹B/(2D)) under the same metrics."""
    classes, X = to_densities(problem.params), places(problem)
    found: dict[str, np.ndarray] = {}
    for name, A in _shapes(problem).items():
        each = [error_expansion(classes, x, jnp.asarray(A)) for x in X]
        found[f"error at r = 0{name}"] = np.array([float(limit) for limit, _ in each])
        found[f"slope in r²{name}"] = np.array([factor * float(s) for _, s in each])
    return found


CHECKS = (
    by_algebra(
        "B is the paper's Eq. (11) with Hessians by autodiff",
        reference=bias_by_autodiff,
        estimate=bias_estimate,
        controls={"normals for Student-t's": partial(bias_estimate, normal=True)},
        rtol=1e-8,
    ),
    by_quadrature(
        "evidence is the integral of likelihood times prior",
        reference=evidence_by_quadrature,
        estimate=evidence_estimate,
        controls={
            "ν off by one": partial(evidence_estimate, nu=1.0),
            "shrinkage term dropped": partial(evidence_estimate, shrink=False),
        },
    ),
    by_quadrature(
        "error of the neighbour at r is (1 - s) + r²/(2D) tr B",
        reference=error_by_sphere,
        estimate=error_estimate,
        controls={"4D for 2D (erratum G1)": partial(error_estimate, factor=0.5)},
        rtol=1e-5,
    ),
)
