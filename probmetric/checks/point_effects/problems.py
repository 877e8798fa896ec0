"""Problems to check LCA with point effects on: simulated, of labels, and changes."""

from dataclasses import replace

import jax
import numpy as np

from probmetric.checks.check import (
    Problem,
)
from probmetric.checks.problems import OF_PAIRS, fitted, standardized
from probmetric.data.containers import Pairs
from probmetric.inference.effects.fit import MAX_PARAMETERS, fit
from probmetric.inference.lca.recipe import Recipe, build, prior_for, rate_for
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAPrior
from probmetric.models.point_effects import (
    PointEffectsParams,
    PointEffectsPrior,
    simulate,
)

N_COMPONENTS, N_POINTS = 3, 400
"""Principal components, and the most points, of a data set."""


def toy(seed: int) -> Problem[Pairs]:
    """Simulate 400 pairs of 30 points in d = 3, ω = 0.8, and fit them at p = 2.

    No setting is neutral: weights 1/2 to 2, learning rate 0.8, b ~ Gamma(1.5, 0.7).
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3)) * [1.0, 1.3, 0.7]
    i = rng.integers(0, 30, 400)
    j = (i + rng.integers(1, 30, 400)) % 30
    mean = np.array([[0.8, 0.0, 0.3], [-0.2, 0.7, 0.0]])
    W = mean + 0.2 * rng.normal(size=(2, 3))
    effects = 0.8 * rng.normal(size=30)
    truth = PointEffectsParams(W, np.array(-0.6), np.array(0.8), effects)
    with jax.enable_x64(True):
        y = np.asarray(simulate(jax.random.key(seed), truth, Pairs(X, i, j, None)).y)
    common = LCAPrior(mean, c=0.8, lam=2.0, b_shape=1.5, b_rate=0.7)
    pairs = Pairs(X, i, j, y, 0.5 + 0.75 * (np.arange(400) % 3))
    prior, options = PointEffectsPrior(common, 0.7), {"learning_rate": 0.8}
    return fitted(fit_problem, f"simulated, seed {seed}", pairs, prior, **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit leading principal components of at most 400 labeled points."""
    assert N_POINTS < MAX_PARAMETERS
    if len(X) > N_POINTS:
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[:N_POINTS])
        X, y = X[rows], y[rows]
        sizes = np.bincount(np.unique(y, return_inverse=True)[1])
        common = np.unique(y)[sizes > 1]
        X, y = X[np.isin(y, common)], y[np.isin(y, common)]
    Z, codes = standardized(X, y)
    Z = Z @ np.linalg.svd(Z, full_matrices=False)[2][:N_COMPONENTS].T
    recipe = Recipe(n_components=Z.shape[1])
    pairs = build(Z, codes, recipe)._replace(anchor=None)
    prior = PointEffectsPrior(prior_for(pairs, recipe, 10.0))
    rate = rate_for(pairs, recipe)
    return fitted(fit_problem, "data", pairs, prior, learning_rate=rate)


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem: its spread, then the rest."""
    return fit(problem.data, problem.prior, **problem.options)


def _renumbered(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Put the points in another order."""
    pairs, X = problem.data, np.asarray(problem.data.X)
    place = np.random.default_rng(2).permutation(len(X))
    i, j = (place[np.asarray(k)] for k in (pairs.i, pairs.j))
    moved = pairs._replace(X=X[np.argsort(place)], i=i, j=j)
    return replace(problem, data=moved)


invariants = {**OF_PAIRS, "order of the points": _renumbered}
"""Changes of a problem that must leave the metric as it was."""
