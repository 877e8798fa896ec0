"""Problems to check Gaussian classes on: simulated, or from a labeled data set."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import numpy as np

from probmetric.checks.check import Problem
from probmetric.checks.problems import OF_CLASSES, fitted, principal, translated
from probmetric.data.containers import Labeled
from probmetric.inference.gaussian_classes.posterior import statistics
from probmetric.inference.gaussian_classes.predict import fit
from probmetric.inference.gaussian_classes.prior import evidence_prior
from probmetric.inference.solvers.result import Fit
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior, simulate
from probmetric.precision import to_numpy

N_COMPONENTS = 3
"""Principal components of a data set: NUTS samples c · d(d + 3)/2 unknowns."""


def toy(seed: int) -> Problem[Labeled]:
    """Simulate 50 points of three unequal classes in d = 2, weighted, and fit them."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, 2, 4))
    truth = GaussianClassesParams(
        np.array([0.25, 0.45, 0.3]),
        1.5 * rng.normal(size=(3, 2)),
        np.linalg.cholesky(A @ np.swapaxes(A, 1, 2) / 3),
    )
    empty = Labeled(np.zeros((50, 2)), None, 0.5 + 0.5 * (np.arange(50) % 3))
    with jax.enable_x64(True):
        data = simulate(jax.random.key(seed), truth, empty)
    prior = NIWPrior(np.array([0.3, -0.2]), np.eye(2) + 0.2, 0.8, 5.0, 1.5)
    return _fitted(f"simulated, seed {seed}", to_numpy(data), prior)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Labeled]:
    """Fit leading principal components of labeled data, under the evidence prior."""
    data = Labeled(*principal(X, y, N_COMPONENTS))
    prior = evidence_prior(statistics(data, _n_classes(data)), alpha=1.5)
    return _fitted("data", data, to_numpy(prior))


def fit_problem(problem: Problem[Labeled]) -> Fit:
    """Return the posterior mode of a problem."""
    return fit(problem.data, problem.prior, **problem.options)


def _n_classes(data: Labeled) -> int:
    return int(np.max(np.asarray(data.y))) + 1


def _fitted(name: str, data: Labeled, prior: NIWPrior) -> Problem[Labeled]:
    return fitted(
        fit_problem, name, data, prior, n_classes=_n_classes(data), covariance="full"
    )


def overlapping(problem: Problem[Labeled]) -> Problem[Labeled]:
    """Return the problem with class means moved closer, and its fit."""
    X, y = np.asarray(problem.data.X, float), np.asarray(problem.data.y)
    means = np.stack([X[y == c].mean(0) for c in range(_n_classes(problem.data))])
    off = (means[:, None] - means[None]).reshape(-1, X.shape[1])
    spread = np.cov((X - means[y]).T).reshape(X.shape[1], -1)
    far = np.sqrt(np.max(np.sum(off * np.linalg.solve(spread, off.T).T, 1)))
    if far <= 3:
        return problem
    moved = X - (1 - 1 / far) * (means[y] - X.mean(0))
    return _fitted(problem.name, problem.data._replace(X=moved), problem.prior)


def on_overlapping[S](side: Callable[..., S]) -> Callable[..., S]:
    """Evaluate a reference or an estimate on the problem with overlapping classes."""

    @wraps(side)
    def moved(problem: Problem[Labeled], **options: Any) -> S:
        return side(overlapping(problem), **options)

    return moved


invariants = {
    **OF_CLASSES,
    "translation of the points, prior included": translated,
}
"""Changes of a problem that must not change the learned metric."""
