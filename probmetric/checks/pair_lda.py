"""Claims about pair LDA, and problems to check them on."""

import numpy as np

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.checks.claims import reweighted
from probmetric.checks.problems import OF_PAIRS, correlated, fitted, standardized
from probmetric.checks.sides import inverse
from probmetric.data.containers import Pairs, weights
from probmetric.data.pairs import all_pairs
from probmetric.inference.pair_lda import fit, second_moments
from probmetric.inference.solvers.result import Fit
from probmetric.typing import Array

ALPHA = 0.01

invariants = OF_PAIRS


def toy(seed: int) -> Problem[Pairs]:
    """Pair all of 45 points of 3 classes in d = 4, and weight the pairs."""
    name, pairs = f"simulated, seed {seed}", all_pairs(*correlated(seed, 15))
    pairs = pairs._replace(w=0.5 + 0.5 * (np.arange(len(pairs.i)) % 3))
    return fitted(fit_problem, name, pairs, alpha=ALPHA)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit a standardized data set without a prior strength."""
    pairs = all_pairs(*standardized(X, y))
    return fitted(fit_problem, "data", pairs, alpha=ALPHA)


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem by the generalized eigenproblem."""
    return fit(problem.data, **problem.options)


def _by_definition(problem: Problem[Pairs]) -> Values:
    """Average outer products pair by pair; M = C^-½ log₊(C^-½ F C^-½) C^-½."""
    pairs = problem.data
    X, y, w = (np.asarray(a) for a in (pairs.X, pairs.y, weights(pairs)))
    delta = X[pairs.i] - X[pairs.j]
    close, far = (
        np.einsum("n,ni,nj->ij", w * (y == label), delta, delta) / w[y == label].sum()
        for label in (1, 0)
    )
    values, V = np.linalg.eigh(close + ALPHA * np.eye(len(close)))
    root = (V / np.sqrt(values)) @ V.T
    ratio, W = np.linalg.eigh(root @ far @ root)
    log = np.log(np.maximum(ratio, 1.0))
    return {"M": root @ ((W * log) @ W.T) @ root}


def _metric(factor: Array) -> Values:
    L = np.asarray(factor)
    return {"M": L.T @ L}


def _notes(problem: Problem[Pairs]) -> Values:
    close, far = second_moments(problem.data)
    return {"M": inverse(ALPHA * np.eye(len(close)) + close - far)}


def _reweighted(problem: Problem[Pairs]) -> Values:
    return _metric(fit_problem(reweighted(problem)).params.factor)


def _orthonormal(problem: Problem[Pairs]) -> Values:
    return _metric(np.linalg.qr(np.asarray(problem.params.factor).T)[0].T)


CHECKS = (
    by_algebra(
        "the metric solves the generalized eigenproblem of the pairs' second moments",
        reference=_by_definition,
        estimate=lambda p: _metric(p.params.factor),
        controls={
            "the notes' inverse at a small alpha (erratum P9)": _notes,
            "orthonormal directions": _orthonormal,
            "other data weights": _reweighted,
        },
        rtol=1e-8,
    ),
)
