"""Problems to check DCA-GM on: simulated, or made from a labeled data set."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Float

from probmetric.checks.check import Problem
from probmetric.checks.problems import OF_CLASSES, fitted, renamed, standardized
from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.fit import default_prior, fit
from probmetric.inference.dca_gm.start import start
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import logdet_chol
from probmetric.models.dca_gm import DCAGMParams, DCAGMPrior, log_weight, simulate
from probmetric.precision import to_numpy
from probmetric.typing import Array


def toy(seed: int) -> Problem[Labeled]:
    """Simulate 120 points in d = 3, of weights 1/2 to 3/2, and fit them at p = 2.

    The model draws the labels, with one Gaussian per class, so the model is true.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 3))
    truth = DCAGMParams(
        A=np.array([[1.0, 0.6, 0.0], [0.0, -0.5, 0.8]]),
        log_alpha=np.log([0.4, 0.3, 0.3]),
        log_beta=np.zeros((3, 1)),
        mu=np.array([[[-1.2, 0.0]], [[0.8, 1.0]], [[0.8, -1.0]]]),
        chol=0.7 * np.broadcast_to(np.eye(2), (3, 1, 2, 2)),
    )
    with jax.enable_x64(True):
        empty = Labeled(jnp.asarray(X), None)
        drawn = simulate(jax.random.key(seed), jax.tree.map(jnp.asarray, truth), empty)
    data = Labeled(X, np.asarray(drawn.y), 0.5 + 0.5 * (np.arange(120) % 3))
    return _fitted(f"simulated, seed {seed}", data, 1)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Labeled]:
    """Fit p = 2 (1 for one feature), three Gaussians per class, standardized."""
    return _fitted("data", Labeled(*standardized(X, y)), 3)


def split(problem: Problem[Labeled]) -> tuple[DCAGMParams, Any, DCAGMPrior]:
    """Return parameters with every component in two, weighted data, and a prior."""
    params, data, prior = jax.tree.map(
        np.asarray, (problem.params, problem.data, problem.prior)
    )
    shift = 0.6 * np.array([1.0, -0.5])[: params.A.shape[0]]
    mu = np.concatenate([params.mu + shift, params.mu - 0.4 * shift], 1)
    both = [params.log_beta + np.log(0.3), params.log_beta + np.log(0.7)]
    chol = params.chol
    if chol.shape[1] > 1:
        chol = np.concatenate([chol, chol], 1)
    split = params._replace(
        mu=mu, log_beta=np.concatenate(both, 1), chol=chol, fisher=None
    )
    present = np.concatenate([prior.present] * 2, 1)
    moved = split, data._replace(w=0.5 + np.arange(len(data.X)) % 3)
    # On the device, where sums and products round as in the package.
    return jax.device_put((*moved, prior._replace(present=present)))


def tilt(
    params: DCAGMParams, Q: Float[Array, "p p"], h: Float[Array, "p"]
) -> DCAGMParams:
    """Tilt mixtures by Eq. (5) of ``likelihood``, with equal p(c|x).

    The result is NaN if a Σ⁻¹ + Q is indefinite.
    """
    p = h.shape[0]
    shape = (*params.mu.shape[:2], p, p)
    eye = jnp.broadcast_to(jnp.eye(p, dtype=h.dtype), params.chol.shape)
    half_precision = jnp.linalg.cholesky(cho_solve((params.chol, True), eye) + Q)
    half = solve_triangular(half_precision, eye, lower=True)
    chol = jnp.linalg.cholesky(jnp.swapaxes(half, -1, -2) @ half)
    old, new = (jnp.broadcast_to(L, shape) for L in (params.chol, chol))
    natural = cho_solve((old, True), params.mu[..., None])
    shifted = natural + h[:, None]
    mu = (new @ (jnp.swapaxes(new, -1, -2) @ shifted))[..., 0]
    quadratic = jnp.sum(mu * shifted[..., 0] - params.mu * natural[..., 0], -1)
    gain = 0.5 * (quadratic + logdet_chol(new) - logdet_chol(old))
    joint = log_weight(params) + gain
    log_alpha = logsumexp(joint, axis=1)
    return params._replace(
        log_alpha=jax.nn.log_softmax(log_alpha),
        log_beta=joint - log_alpha[:, None],
        mu=mu,
        chol=chol,
    )


def fit_problem(problem: Problem[Labeled]) -> Fit:
    """Fit a problem by the default solver, from its default start."""
    return fit(problem.data, problem.prior, tol=1e-8, max_steps=2000)


def _fitted(name: str, data: Labeled, n_gaussians: int) -> Problem[Labeled]:
    with jax.enable_x64(True):
        begin = start(data, min(2, data.X.shape[1]), n_gaussians=n_gaussians)
        prior = to_numpy(default_prior(begin, data))
    return fitted(fit_problem, name, data, prior)


def _renamed(problem: Problem[Labeled]) -> Problem[Labeled]:
    present = problem.prior.present[::-1]
    return renamed(replace(problem, prior=problem.prior._replace(present=present)))


invariants = {**OF_CLASSES, "names of the classes": _renamed}
"""Changes of a problem that must leave the learned metric as it was."""
