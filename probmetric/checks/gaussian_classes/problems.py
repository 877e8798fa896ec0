"""Problems to check Gaussian classes on: simulated, or from a labelled data set."""

from typing import Any

import jax
import numpy as np

from probmetric.checks.check import Problem
from probmetric.data.containers import Labelled
from probmetric.inference.gaussian_classes.posterior import statistics
from probmetric.inference.gaussian_classes.predict import fit
from probmetric.inference.gaussian_classes.prior import evidence_prior
from probmetric.inference.solvers.result import Fit
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior, simulate
from probmetric.precision import to_numpy

__all__ = ["fit_problem", "from_labels", "invariants", "toy"]

N_COMPONENTS = 3
"""Principal components kept of a data set: NUTS has c · d(d + 3)/2 unknowns."""


def toy(seed: int) -> Problem:
    """Simulate 40 points of two classes in d = 2 and fit them."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2, 2, 4))
    truth = GaussianClassesParams(
        np.array([0.4, 0.6]),
        1.5 * rng.normal(size=(2, 2)),
        np.linalg.cholesky(A @ np.swapaxes(A, 1, 2) / 3),
    )
    with jax.enable_x64(True):
        data = simulate(jax.random.key(seed), truth, Labelled(np.zeros((40, 2)), None))
    prior = NIWPrior(np.array([0.3, -0.2]), np.eye(2) + 0.2, 0.8, 5.0, 1.5)
    return _fitted(f"simulated, seed {seed}", to_numpy(data), prior, 2)


def from_labels(X: np.ndarray, y: np.ndarray, *, name: str = "data") -> Problem:
    """Fit a labelled data set: standardised, its leading principal components.

    The prior is chosen by evidence.
    """
    X = np.asarray(X, float)
    scale = X.std(0)
    X = (X - X.mean(0)) / np.where(scale > 0, scale, 1.0)
    axes = np.linalg.svd(X, full_matrices=False)[2][:N_COMPONENTS]
    codes = np.unique(y, return_inverse=True)[1]
    data = Labelled(X @ axes.T, codes)
    n_classes = int(codes.max()) + 1
    prior = to_numpy(evidence_prior(statistics(data, n_classes), alpha=1.5))
    return _fitted(name, data, prior, n_classes)


def fit_problem(problem: Problem) -> Fit:
    """Return the posterior mode of a problem."""
    data: Any = problem.data
    return fit(data, problem.prior, **problem.options)


def _fitted(name: str, data: Labelled, prior: NIWPrior, n_classes: int) -> Problem:
    options = {"n_classes": n_classes, "covariance": "full"}
    found = fit(data, prior, n_classes=n_classes)
    return Problem(name, to_numpy(found.params), data, prior, options)


def _permute(problem: Problem) -> Problem:
    data: Any = problem.data
    order = np.random.default_rng(1).permutation(len(data.X))
    return problem._replace(data=data._replace(X=data.X[order], y=data.y[order]))


def _translate(problem: Problem) -> Problem:
    data: Any = problem.data
    prior = problem.prior._replace(mean=problem.prior.mean + 3.0)
    return problem._replace(data=data._replace(X=data.X + 3.0), prior=prior)


def _relabel(problem: Problem) -> Problem:
    data: Any = problem.data
    last = problem.options["n_classes"] - 1
    return problem._replace(data=data._replace(y=last - data.y))


invariants = {
    "order of the points": _permute,
    "order of the classes": _relabel,
    "translation of the points, prior included": _translate,
}
"""Changes of a problem that must leave the learned metric as it was."""
