"""GLML's bias matrix and local metric compared with autodiff and spheres.

The bias matrix is evaluated by the formula of the paper, with the paper's number. p_c
is a class density times the class probability,

    B ∝ Σ_c Σ_{j≠c} p_j (p_j - p_c) ∇∇p_c.                                        (11)

Negative controls use 4D instead of 2D (erratum G1), normal densities instead of
Student's t, or the Euclidean metric.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.checks.check import Problem, Values, by_algebra, by_quadrature, zero
from probmetric.checks.gaussian_classes.problems import on_overlapping
from probmetric.data.containers import Labeled
from probmetric.densities.classes import (
    class_log_densities,
    log_posterior,
)
from probmetric.inference.gaussian_classes.local_metric import (
    error_expansion,
    student_metric,
)
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    posterior,
    statistics,
)
from probmetric.inference.gaussian_classes.predict import predictive
from probmetric.models.gaussian_classes import to_densities
from probmetric.typing import Array


def _posterior(problem: Problem[Labeled]) -> ClassPosterior:
    stats = statistics(problem.data, problem.options["n_classes"])
    return posterior(stats, problem.prior)


def places(problem: Problem[Labeled]) -> np.ndarray:
    """Return a few points of the problem to evaluate densities at."""
    return np.asarray(problem.data.X)[:5]


def _bias_by_autodiff(problem: Problem[Labeled]) -> np.ndarray:
    """Evaluate Eq. (11) of the paper with Hessians of p_c by automatic derivatives."""
    classes = predictive(_posterior(problem))

    def densities(x: Float[Array, "d"]) -> Float[Array, "c"]:
        return jnp.exp(classes.log_prior + class_log_densities(classes, x))

    def at(x: Float[Array, "d"]) -> Float[Array, "d d"]:
        p, H = densities(x), jax.hessian(densities)(x)
        others = jnp.sum(p**2) - p**2 - p * (jnp.sum(p) - p)
        return jnp.einsum("c,cij->ij", others, H)

    return np.asarray(jax.jit(jax.vmap(at))(places(problem)))


@on_overlapping
def remaining_bias(
    problem: Problem[Labeled], euclid: bool = False, normal: bool = False
) -> Values:
    """Return tr(A⁻¹B) relative to its terms; wrong: other matrices A.

    Points with a definite B are left out, because no metric removes their bias.
    """
    B, metric = _bias_by_autodiff(problem), student_metric(_posterior(problem))
    if normal:
        inv_df = np.zeros_like(metric.classes.inv_df)
        metric = replace(metric, classes=metric.classes._replace(inv_df=inv_df))
    d = B.shape[1]
    A = np.asarray(metric.matrix_at(places(problem)))
    A = np.broadcast_to(np.eye(d), A.shape) if euclid else A
    size = np.linalg.slogdet(np.asarray(metric.frame))[1]
    terms = np.real(np.linalg.eigvals(np.linalg.solve(A, B)))
    mixed = (terms.min(1) < 0) & (terms.max(1) > 0)
    removed = np.where(mixed, terms.sum(1) / np.abs(terms).sum(1), 0.0)
    volume = 0.0 if euclid else np.linalg.slogdet(A)[1] - 2 * size
    return {"tr(A⁻¹B)": removed, "log |A| in the frame": volume}


@on_overlapping
def error_by_sphere(problem: Problem[Labeled]) -> Values:
    """Average densities over spheres of radius r, and extrapolate to r = 0."""
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

    errors: dict[str, np.ndarray] = {}
    both = jax.jit(jax.vmap(at, (0, None)))
    for name, A in _shapes(problem).items():
        unit = A / np.exp(np.linalg.slogdet(A)[1] / len(A))
        limit, slope = both(places(problem), jnp.asarray(unit))
        errors[f"error at r = 0{name}"] = np.asarray(limit)
        errors[f"slope in r²{name}"] = np.asarray(slope)
    return errors


def _shapes(problem: Problem[Labeled]) -> dict[str, np.ndarray]:
    d = np.shape(problem.data.X)[1]
    scale = 1.4 ** np.arange(d)
    return {"": np.eye(d), ", another metric": 3 * np.diag(scale) + 0.5}


@on_overlapping
def error_estimate(problem: Problem[Labeled], factor: float = 1.0) -> Values:
    """Return limit and slope (1 - s, tr A⁻¹B/(2D)) under the same metrics."""
    classes, X = to_densities(problem.params), places(problem)
    errors: dict[str, np.ndarray] = {}
    for name, A in _shapes(problem).items():
        each = [error_expansion(classes, x, jnp.asarray(A)) for x in X]
        errors[f"error at r = 0{name}"] = np.array([float(limit) for limit, _ in each])
        errors[f"slope in r²{name}"] = np.array([factor * float(s) for _, s in each])
    return errors


CHECKS = (
    by_quadrature(
        "the error of a neighbor at distance r is (1 - s) + r²/(2D) tr(A⁻¹B)",
        reference=error_by_sphere,
        estimate=error_estimate,
        controls={"4D for 2D (erratum G1)": partial(error_estimate, factor=0.5)},
        rtol=1e-5,
    ),
    by_algebra(
        "the local metric removes the bias and keeps the volume",
        reference=zero,
        estimate=remaining_bias,
        controls={
            "the Euclidean metric": partial(remaining_bias, euclid=True),
            "normals for Student-t's": partial(remaining_bias, normal=True),
        },
        atol=1e-7,
    ),
)
