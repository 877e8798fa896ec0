"""Problems to check LCA on: simulated, or made from a labelled data set."""

import jax
import numpy as np

from probmetric.checks.check import Problem
from probmetric.data.containers import Pairs
from probmetric.inference.lca.fit import fit
from probmetric.inference.lca.recipe import (
    Recipe,
    auto_regularization,
    build,
    prior_for,
    rate_for,
)
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAParams, LCAPrior, simulate

__all__ = ["fit_problem", "from_labels", "invariants", "toy"]


def toy(seed: int) -> Problem:
    """Simulate 60 points in d = 2 with 200 random pairs, and fit them at p = 2.

    Random pairs of independent points, labels drawn by the model itself: the pairs
    are taken as independent (learning rate 1) and the model is true.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2))
    i = rng.integers(0, 60, 200)
    j = (i + rng.integers(1, 60, 200)) % 60
    truth = LCAParams(rng.normal(size=(2, 2)) * 0.6 + np.eye(2), np.array(-1.5))
    with jax.enable_x64(True):
        y = np.asarray(simulate(jax.random.key(seed), truth, Pairs(X, i, j, None)).y)
    pairs = Pairs(X, i, j, y)
    prior = LCAPrior(0.8 * np.eye(2), c=0.8, lam=2.0)
    return _fitted(f"simulated, seed {seed}", pairs, prior, 1.0)


def from_labels(X: np.ndarray, y: np.ndarray, *, name: str = "data") -> Problem:
    """Fit the default recipe, without its refresh, to a labelled data set.

    Standardised points at p = d; pairs, prior and learning rate of ``lca.recipe``.
    """
    X = np.asarray(X, float)
    scale = X.std(0)
    X = (X - X.mean(0)) / np.where(scale > 0, scale, 1.0)
    recipe = Recipe(n_components=X.shape[1])
    pairs = build(X, np.unique(y, return_inverse=True)[1], recipe)
    prior = prior_for(pairs, recipe, auto_regularization(len(X)))
    return _fitted(name, pairs, prior, rate_for(pairs, recipe))


def fit_problem(problem: Problem) -> Fit:
    """Fit a problem by the default solver, from the prior mean."""
    return fit(
        problem.data,  # pyright: ignore[reportArgumentType]
        problem.prior,
        learning_rate=problem.options["learning_rate"],
        tol=1e-9,
    )


def _fitted(name: str, pairs: Pairs, prior: LCAPrior, rate: float) -> Problem:
    problem = Problem(name, None, pairs, prior, {"learning_rate": rate})
    return problem._replace(params=fit_problem(problem).params)


def _permute(problem: Problem) -> Problem:
    pairs: Pairs = problem.data  # pyright: ignore[reportAssignmentType]
    order = np.random.default_rng(1).permutation(len(pairs.i))
    w = None if pairs.w is None else pairs.w[order]
    return problem._replace(
        data=pairs._replace(
            i=pairs.i[order],
            j=pairs.j[order],
            y=pairs.y[order],  # pyright: ignore[reportOptionalSubscript]
            w=w,
        )
    )


def _swap(problem: Problem) -> Problem:
    pairs: Pairs = problem.data  # pyright: ignore[reportAssignmentType]
    return problem._replace(data=pairs._replace(i=pairs.j, j=pairs.i))


def _translate(problem: Problem) -> Problem:
    pairs: Pairs = problem.data  # pyright: ignore[reportAssignmentType]
    return problem._replace(data=pairs._replace(X=np.asarray(pairs.X) + 3.0))


invariants = {
    "order of the pairs": _permute,
    "order within a pair": _swap,
    "translation of the points": _translate,
}
"""Changes of a problem that must leave the learned metric as it was."""
