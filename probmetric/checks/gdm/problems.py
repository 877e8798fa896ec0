"""Problems to check the generalized dissimilarity model on; its invariants."""

from dataclasses import replace
from typing import Any

import numpy as np

from probmetric.checks.check import Problem
from probmetric.checks.problems import OF_PAIRS, answered, fitted, principal, translated
from probmetric.data.containers import Labeled, Pairs
from probmetric.inference.gdm.fit import fit, knots_for
from probmetric.inference.lca.recipe import Recipe, build, rate_for
from probmetric.inference.solvers.result import Fit
from probmetric.models.gdm import GDMParams, GDMPrior, simulate


def toy(seed: int) -> Problem[Pairs]:
    """Simulate weighted pairs of 40 sites in d = 3; the third covariate is noise."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.gamma(1.0, size=40), rng.normal(size=40), rng.random(40)], 1)
    i = rng.integers(0, 40, 300)
    j = (i + rng.integers(1, 40, 300)) % 40
    theta = np.array([[0.8, 0.0, 1.2], [0.0, 0.6, 0.3], [0.0, 0.0, 0.0]])
    truth = GDMParams(np.asarray(0.2), theta, knots_for(X))
    pairs = Pairs(X, i, j, None, trials=rng.integers(1, 13, 300))
    pairs = answered(simulate, seed, truth, pairs)
    prior = GDMPrior(truth.knots, np.asarray(0.9), np.asarray(0.7))
    name = f"simulated, seed {seed}"
    return fitted(fit_problem, name, pairs, prior, learning_rate=0.8)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit the estimator's recipe to a labeled data set, at most 5 components."""
    Z, codes = principal(X, y, 5)
    recipe = Recipe(n_components=Z.shape[1])
    pairs = build(Labeled(Z, codes), recipe)._replace(anchor=None)
    one = np.ones(())
    options: Any = {"learning_rate": rate_for(pairs, recipe)}
    return fitted(
        fit_problem, "data", pairs, GDMPrior(knots_for(Z), one, one), **options
    )


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem."""
    return fit(problem.data, problem.prior, **problem.options)


def _moved(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Move all sites, and the knots with them."""
    prior = problem.prior._replace(knots=problem.prior.knots + 3.0)
    return replace(translated(problem), prior=prior)


def _counted_twice(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Give every pair twice, at half its weight."""
    data = problem.data
    twice = {
        k: np.concatenate([v, v])
        for k, v in data._asdict().items()
        if v is not None and k != "X"
    }
    return replace(problem, data=data._replace(**{**twice, "w": twice["w"] / 2}))


invariants = {
    **OF_PAIRS,
    "translation of the points": _moved,
    "pairs in two halves": _counted_twice,
}
"""Changes of a problem that must not change the learned metric."""
