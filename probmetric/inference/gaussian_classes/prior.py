"""The NIW prior that maximizes the evidence on a grid.

With S_W the pooled within-class covariance,

    m₀ = mean of all points,  Ψ₀ = (ν₀ - D - 1) ((1 - a) S_W + a tr(S_W)/D · I).   (1)

Hence E Σ_c is the shrunk S_W. κ₀, ν₀ - D - 1 and a > 0 maximize the evidence, Eq. (3)
of ``gaussian_classes.posterior``. With a "diagonal" covariance the result is the prior
of one feature, and D = 1 in ν₀. This is empirical Bayes: three numbers and a pooled
matrix of the prior are computed from the same data.
"""

from functools import partial
from itertools import product
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    ClassStatistics,
    evidence_of,
    log_evidence,
    posterior_of,
)
from probmetric.models.gaussian_classes import Covariance, NIWPrior
from probmetric.precision import host_or_program, numpy_in_numpy_out
from probmetric.typing import Array

EXCESS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Grid of ν₀ - D - 1, the strength of the prior of class covariances, in points."""

KAPPA = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Grid of κ₀: class means are within about 1/√κ₀ of the grand mean."""

SHRINKAGE = (0.001, 0.01, 0.05, 0.2, 0.5, 1.0)
"""Grid of a in Eq. (1), above 0 because S_W is singular for fewer than D points."""


@numpy_in_numpy_out
@jax.jit(static_argnames="covariance")
def evidence_prior(
    stats: ClassStatistics,
    *,
    covariance: Covariance = "full",
    alpha: Float[Array, ""] | float | int = 1.0,
) -> NIWPrior:
    """Choose the NIW prior, Eq. (1), of highest evidence; NaN for equal points."""
    stats = ClassStatistics(*map(jnp.asarray, stats))
    d, n = stats.mean.shape[1], jnp.sum(stats.n)
    grand = stats.n @ stats.mean / n
    S = jnp.sum(stats.scatter, 0) / n
    ridge = jnp.trace(S) / d * jnp.eye(d, dtype=S.dtype)
    grid = jnp.asarray(np.array(list(product(EXCESS, KAPPA, SHRINKAGE))), S.dtype)
    order = 1 if covariance == "diagonal" else d

    def at(point: Array) -> NIWPrior:
        excess, kappa, a = point
        Psi = excess * ((1 - a) * S + a * ridge)
        return NIWPrior(grand, Psi, kappa, excess + order + 1, alpha)

    def score(point: Array) -> Array:
        return log_evidence(stats, at(point), covariance=covariance)

    # 18 divides 216; a remainder would compile the body a second time.
    scores = jax.lax.map(score, grid, batch_size=18)
    best = jnp.argmax(jnp.where(jnp.isnan(scores), -jnp.inf, scores))
    finite = jnp.isfinite(scores[best])
    return jax.tree.map(lambda v: jnp.where(finite, v, jnp.nan), at(grid[best]))


class Learned(NamedTuple):
    """Statistics of complete rows, the prior, the posterior and the log evidence."""

    stats: ClassStatistics
    prior: NIWPrior
    posterior: ClassPosterior
    log_evidence: Float[Array, ""]


@numpy_in_numpy_out
def learn_statistics(
    stats: ClassStatistics,
    prior: NIWPrior | None = None,
    *,
    covariance: Covariance = "full",
    alpha: Float[Array, ""] | float | int = 1.0,
) -> Learned:
    """Compute the posterior; the default prior has the highest evidence, Eq. (1)."""
    if prior is None:
        return _learn_all(stats, alpha, covariance=covariance)
    return _learn(stats, prior, covariance=covariance)


def _learned(
    xp: ModuleType, stats: ClassStatistics, prior: NIWPrior, *, covariance: Covariance
) -> Learned:
    post = posterior_of(xp, stats, prior, covariance=covariance)
    evidence = evidence_of(xp, stats, prior, covariance=covariance)
    return Learned(stats, prior, post, evidence)


_learn = host_or_program(_learned, static=("covariance",))


@partial(jax.jit, static_argnames="covariance")
def _learn_all(
    stats: ClassStatistics, alpha: Array | float | int, *, covariance: Covariance
) -> Learned:
    prior = evidence_prior(stats, covariance=covariance, alpha=alpha)
    return _learned(jnp, stats, prior, covariance=covariance)
