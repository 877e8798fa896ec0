"""Shared parts of problems: standardized data, a fit, changes of the data.

A *change* is a function of a problem that must not change the learned metric.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree, Shaped

from probmetric.checks.check import Problem
from probmetric.data.containers import Data, Groups, Labeled, Pairs, Triplets, weights
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAPrior
from probmetric.precision import to_numpy

type Rows = Labeled | Pairs | Groups | Triplets


def standardized(
    X: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "n"]]:
    """Return points of mean 0 and sd 1 (constants: 0) by feature, and class codes."""
    X = np.asarray(X, float)
    scale = X.std(0)
    Z = (X - X.mean(0)) / np.where(scale > 0, scale, 1.0)
    return Z, np.unique(np.asarray(y), return_inverse=True)[1]


def principal(
    X: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, "n"], most: int
) -> tuple[Float[np.ndarray, "n k"], Int[np.ndarray, "n"]]:
    """Return leading principal components of standardized points, and class codes."""
    Z, codes = standardized(X, y)
    return Z @ np.linalg.svd(Z, full_matrices=False)[2][:most].T, codes


def random_pairs(rng: np.random.Generator, n: int, size: int, d: int = 3) -> Pairs:
    """Draw n points, of unequal scale if d = 3, and pairs of them without labels."""
    X = rng.normal(size=(n, d)) * ([1.0, 1.3, 0.7] if d == 3 else 1.0)
    i = rng.integers(0, n, size)
    return Pairs(X, i, (i + rng.integers(1, n, size)) % n, None)


MEAN = np.array([[0.8, 0.0, 0.3], [-0.2, 0.7, 0.0]])
"""Prior mean of maps to the plane, not proportional to the identity."""

COMMON = LCAPrior(MEAN, c=0.8, lam=2.0, b_shape=1.5, b_rate=0.7)


def answered[D: Data](
    simulate: Callable[..., Any], seed: int, truth: PyTree, data: D
) -> D:
    """Return data with labels or responses that a model draws, and weights 1/2 to 2."""
    with jax.enable_x64(True):
        y = np.asarray(simulate(jax.random.key(seed), truth, data).y)
    return data._replace(y=y, w=0.5 + 0.75 * (np.arange(len(y)) % 3))


def correlated(seed: int, n_each: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw n_each points of each of 3 classes in d = 4 under one covariance."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), n_each)
    root = np.eye(4) + 0.4 * rng.normal(size=(4, 4))
    mean = 2 * rng.normal(size=(3, 4))
    return mean[y] + rng.normal(size=(len(y), 4)) @ root.T, y


def fitted[D: Data](
    fit: Callable[[Problem[D]], Fit],
    name: str,
    data: D,
    prior: PyTree = None,
    **options: object,
) -> Problem[D]:
    """Return a problem with the parameters that its learner fits to it."""
    problem = Problem(name, None, data, prior, options)
    with jax.enable_x64(True):
        return replace(problem, params=to_numpy(fit(problem).params))


def permuted[D: Rows](problem: Problem[D]) -> Problem[D]:
    """Put the points, the pairs or the triplets in another order."""
    data = problem.data
    order = np.random.default_rng(1).permutation(len(weights(data)))
    moved = {
        name: np.asarray(rows)[order]
        for name, rows in data._asdict().items()
        if rows is not None and not (name == "X" and isinstance(data, Pairs | Triplets))
    }
    return replace(problem, data=data._replace(**moved))


def renumbered[D: Pairs | Triplets](problem: Problem[D]) -> Problem[D]:
    """Put the points of pairs or triplets in another order."""
    data, X = problem.data, np.asarray(problem.data.X)
    place = np.random.default_rng(2).permutation(len(X))
    names = ("i", "j") if isinstance(data, Pairs) else ("anchor", "near", "far")
    moved = {k: place[np.asarray(getattr(data, k))] for k in names}
    return replace(problem, data=data._replace(X=X[np.argsort(place)], **moved))


def swapped(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Exchange the two points of every pair."""
    pairs = problem.data
    return replace(problem, data=pairs._replace(i=pairs.j, j=pairs.i))


def renamed[D: Rows](problem: Problem[D]) -> Problem[D]:
    """Reverse the codes of the classes, or of the groups of points or pairs."""
    data = problem.data
    name = "anchor" if isinstance(data, Pairs) else "y"
    name = "group" if isinstance(data, Groups) else name
    codes = np.asarray(getattr(data, name))
    return replace(problem, data=data._replace(**{name: codes.max() - codes}))


def translated[D: Rows](problem: Problem[D]) -> Problem[D]:
    """Move all points, and the prior mean with them."""
    data, prior = problem.data, problem.prior
    if not isinstance(data, Pairs | Triplets):
        prior = prior._replace(mean=prior.mean + 3.0)
    moved = data._replace(X=np.asarray(data.X) + 3.0)
    return replace(problem, data=moved, prior=prior)


OF_PAIRS = {
    "order of the pairs": permuted,
    "order within a pair": swapped,
    "translation of the points": translated,
}
"""Changes that must not change a metric learned from pairs."""

OF_CLASSES = {"order of the points": permuted, "names of the classes": renamed}
"""Changes that must not change a metric learned from classes."""
