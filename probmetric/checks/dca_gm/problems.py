"""Problems to check DCA-GM on: simulated, or made from a labeled data set."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.checks.check import Problem
from probmetric.checks.problems import OF_CLASSES, fitted, renamed, standardized
from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.fit import default_prior, fit
from probmetric.inference.dca_gm.start import start
from probmetric.inference.solvers.result import Fit
from probmetric.models.dca_gm import DCAGMParams, simulate
from probmetric.precision import to_numpy


def toy(seed: int) -> Problem[Labeled]:
    """Simulate 120 weighted points in d = 3 from the model, and fit them at p = 2."""
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
    """Fit standardized data with p = 2 (or 1 = d) and three Gaussians per class."""
    return _fitted("data", Labeled(*standardized(X, y)), 3)


def tempered(problem: Problem[Labeled]) -> Problem[Labeled]:
    """Return the problem at a learning rate of 0.7, with the model's options."""
    covariance = "class" if problem.params.chol.shape[1] == 1 else "component"
    return replace(problem, options={"covariance": covariance, "learning_rate": 0.7})


def split(problem: Problem[Labeled]) -> Problem[Labeled]:
    """Return the tempered problem with components split in two, and other weights."""
    params, prior, X = problem.params, problem.prior, problem.data.X
    shift = 0.6 * np.array([1.0, -0.5])[: params.A.shape[0]]
    both = [params.log_beta + np.log(0.3), params.log_beta + np.log(0.7)]
    chol = params.chol
    params = params._replace(
        mu=np.concatenate([params.mu + shift, params.mu - 0.4 * shift], 1),
        log_beta=np.concatenate(both, 1),
        chol=chol if chol.shape[1] == 1 else np.concatenate([chol, chol], 1),
        fisher=None,
    )
    prior = prior._replace(present=np.concatenate([prior.present] * 2, 1))
    data = problem.data._replace(w=0.5 + np.arange(len(X)) % 3)
    # On the device, where sums and products round as in the package.
    params, data, prior = jax.device_put((params, data, prior))
    return replace(tempered(problem), params=params, data=data, prior=prior)


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
"""Changes of a problem that must not change the learned metric."""
