"""Problems to check LCA on: simulated, or made from a labeled data set."""

import numpy as np

from probmetric.checks.check import Problem
from probmetric.checks.problems import (
    COMMON,
    MEAN,
    OF_PAIRS,
    answered,
    fitted,
    random_pairs,
    standardized,
)
from probmetric.data.containers import Labeled, Pairs
from probmetric.inference.lca.fit import fit
from probmetric.inference.lca.recipe import (
    Recipe,
    auto_regularization,
    build,
    prior_for,
    rate_for,
)
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAParams, simulate


def toy(seed: int) -> Problem[Pairs]:
    """Simulate 60 points in d = 3 with 240 weighted pairs, and fit them at p = 2.

    The model draws the labels. Learning rate 0.8, b ~ Gamma(1.5, 0.7).
    """
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 60, 240)
    truth = LCAParams(rng.normal(size=(2, 3)) * 0.4 + MEAN, np.array(-1.5))
    pairs = answered(simulate, seed, truth, pairs)
    name = f"simulated, seed {seed}"
    return fitted(fit_problem, name, pairs, COMMON, learning_rate=0.8)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit standardized labeled data at p = d by the default recipe, without refresh."""
    X, codes = standardized(X, y)
    recipe = Recipe(n_components=X.shape[1])
    pairs = build(Labeled(X, codes), recipe)
    prior = prior_for(pairs, recipe, auto_regularization(len(X)))
    rate = rate_for(pairs, recipe)
    return fitted(fit_problem, "data", pairs, prior, learning_rate=rate)


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem by the default solver, from the prior mean."""
    return fit(problem.data, problem.prior, **problem.options, tol=1e-9)


invariants = OF_PAIRS
"""Changes of a problem that must not change the learned metric."""
