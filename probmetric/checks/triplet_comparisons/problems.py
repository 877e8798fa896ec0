"""Problems to check triplet comparisons on, and changes that leave the metric."""

from dataclasses import replace
from typing import Any

import numpy as np

from probmetric.checks.check import Problem
from probmetric.checks.problems import (
    MEAN,
    answered,
    fitted,
    permuted,
    principal,
    renumbered,
    translated,
)
from probmetric.data.containers import Triplets
from probmetric.data.triplets import nearest_triplets
from probmetric.inference.solvers.result import Fit
from probmetric.inference.triplet_comparisons.fit import fit
from probmetric.inference.triplet_comparisons.start import prior_for, rate_for
from probmetric.models.triplet_comparisons import TripletParams, TripletPrior, simulate


def triples(rng: np.random.Generator, n: int, size: int) -> tuple[np.ndarray, ...]:
    """Draw triples of different points: anchor, near and far, each (size,)."""
    a = rng.integers(0, n, size)
    to_near, to_far = rng.integers(1, n, size), rng.integers(1, n - 1, size)
    to_far += to_far >= to_near
    return a, (a + to_near) % n, (a + to_far) % n


def toy(seed: int) -> Problem[Triplets]:
    """Simulate 400 responses about 60 points in d = 3, and fit them at p = 2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) * [1.0, 1.3, 0.7]
    truth = TripletParams(MEAN + 0.4 * rng.normal(size=(2, 3)))
    a, near, far = triples(rng, 60, 400)
    unanswered = Triplets(X, a, near, far, None)
    triplets = answered(simulate, seed, truth, unanswered)
    prior = TripletPrior(MEAN, c=0.8, lam=2.0)
    name, options = f"simulated, seed {seed}", {"learning_rate": 0.8}
    return fitted(fit_problem, name, triplets, prior, **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Triplets]:
    """Fit the estimator's recipe to a labeled data set, at most 5 components."""
    Z, codes = principal(X, y, 5)
    data = nearest_triplets(Z, codes)
    options: Any = {"learning_rate": rate_for(data)}
    return fitted(fit_problem, "data", data, prior_for(data), **options)


def fit_problem(problem: Problem[Triplets]) -> Fit:
    """Fit a problem from the center of the prior."""
    return fit(problem.data, problem.prior, **problem.options)


def flipped(problem: Problem[Triplets]) -> Problem[Triplets]:
    """Exchange near and far of every other triplet, and change its response."""
    exchanged = answers_exchanged(problem)
    y, at = np.asarray(problem.data.y), np.arange(len(problem.data.anchor)) % 2 == 0
    turned = exchanged.data._replace(y=np.where(at, 1 - y, y))
    return replace(problem, data=turned)


def answers_exchanged(problem: Problem[Triplets]) -> Problem[Triplets]:
    """Negative control: exchange near and far, but do not change the responses."""
    data, at = problem.data, np.arange(len(problem.data.anchor)) % 2 == 0
    near, far = np.asarray(data.near), np.asarray(data.far)
    near, far = np.where(at, far, near), np.where(at, near, far)
    return replace(problem, data=data._replace(near=near, far=far))


invariants = {
    "order of the triplets": permuted,
    "order of the points": renumbered,
    "near and far exchanged, with the answer": flipped,
    "translation of the points": translated,
}
"""Changes of a problem that must not change the learned metric."""
