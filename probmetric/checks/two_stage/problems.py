"""Problems to check the two-stage mixture on: simulated, or from labelled data."""

from typing import Any

import jax
import numpy as np

from probmetric.checks.check import Problem
from probmetric.data.containers import Groups
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.fit import fit
from probmetric.models.two_stage import TwoStageParams, simulate
from probmetric.precision import to_numpy

__all__ = ["fit_problem", "from_labels", "invariants", "toy"]


def toy(seed: int) -> Problem:
    """Simulate 40 sources of 1 to 3 instances from two components in d = 2."""
    group = np.repeat(np.arange(40), 1 + np.arange(40) % 3)
    spread = np.array([[[1.0, 0.3], [0.3, 0.6]], [[0.5, -0.2], [-0.2, 1.2]]])
    truth = TwoStageParams(
        np.array([0.6, 0.4]), np.array([[0.0, 0.0], [6.0, 2.0]]), 0.3 * spread, spread
    )
    with jax.enable_x64(True):
        empty = Groups(np.zeros((len(group), 2)), group)
        groups: Any = to_numpy(simulate(jax.random.key(seed), truth, empty))
    prior = default_prior(groups.X, 2, strength=0.2)._replace(concentration=1.5)
    return _fitted(f"simulated, seed {seed}", groups, prior, 2)


def from_labels(X: np.ndarray, y: np.ndarray, *, name: str = "data") -> Problem:
    """Take classes as sources, with one component, on standardised points."""
    X = np.asarray(X, float)
    scale = X.std(0)
    keep = scale > 0
    X = (X[:, keep] - X[:, keep].mean(0)) / scale[keep]
    group = np.unique(np.asarray(y), return_inverse=True)[1]
    return _fitted(name, Groups(X, group), default_prior(X, 1), 1)


def fit_problem(problem: Problem) -> Fit:
    """Fit a problem with free W and B, from its k-means start."""
    data: Any = problem.data
    k = problem.options["n_components"]
    return fit(data, n_components=k, prior=problem.prior, tol=1e-13, max_steps=5000)


def _fitted(name: str, groups: Groups, prior: Any, k: int) -> Problem:
    problem = Problem(name, None, groups, prior, {"n_components": k})
    return problem._replace(params=fit_problem(problem).params)


def _permute(problem: Problem) -> Problem:
    groups: Any = problem.data
    order = np.random.default_rng(1).permutation(len(groups.X))
    return problem._replace(data=Groups(groups.X[order], groups.group[order]))


def _rename(problem: Problem) -> Problem:
    groups: Any = problem.data
    codes = np.random.default_rng(2).permutation(int(groups.group.max()) + 1)
    return problem._replace(data=groups._replace(group=codes[groups.group]))


def _translate(problem: Problem) -> Problem:
    groups: Any = problem.data
    prior = problem.prior._replace(mean=problem.prior.mean + 3.0)
    return problem._replace(data=groups._replace(X=groups.X + 3.0), prior=prior)


invariants = {
    "order of the points": _permute,
    "names of the groups": _rename,
    "translation of points and prior mean": _translate,
}
"""Changes of a problem that must leave the learned metric as it was."""
