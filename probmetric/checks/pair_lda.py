"""The checks of pair LDA, and problems to run them on."""

import numpy as np

from probmetric.checks.check import Problem, Values, by_algebra, zero
from probmetric.checks.problems import OF_PAIRS, correlated, fitted, standardised
from probmetric.data.containers import Pairs
from probmetric.data.pairs import all_pairs
from probmetric.inference.pair_lda import fit, second_moments
from probmetric.inference.solvers.result import Fit
from probmetric.typing import Array, ArrayLike

ALPHA = 0.01

invariants = OF_PAIRS


def toy(seed: int) -> Problem[Pairs]:
    """Pair all of 45 points of 3 classes in d = 4."""
    name, pairs = f"simulated, seed {seed}", all_pairs(*correlated(seed, 15))
    return fitted(fit_problem, name, pairs, alpha=ALPHA)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit the estimator's default to a standardised data set."""
    pairs = all_pairs(*standardised(X, y))
    return fitted(fit_problem, "data", pairs, alpha=ALPHA)


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem by the generalised eigenproblem."""
    return fit(problem.data, **problem.options)


def _by_definition(problem: Problem[Pairs]) -> Values:
    """M from the symmetric root of C_α: C^-½ log₊(C^-½ F C^-½) C^-½."""
    close, far = second_moments(problem.data)
    values, V = np.linalg.eigh(close + ALPHA * np.eye(len(close)))
    root = (V / np.sqrt(values)) @ V.T
    ratio, W = np.linalg.eigh(root @ far @ root)
    log = np.log(np.maximum(ratio, 1.0))
    return {"M": root @ ((W * log) @ W.T) @ root}


def _notes(problem: Problem[Pairs]) -> Values:
    close, far = second_moments(problem.data)
    one = np.eye(len(close))
    return {"M": np.linalg.solve(ALPHA * one + close - far, one)}


def _metric(factor: Array) -> Values:
    L = np.asarray(factor)
    return {"M": L.T @ L}


def _orthonormal(problem: Problem[Pairs]) -> Values:
    return _metric(np.linalg.qr(np.asarray(problem.params.factor).T)[0].T)


def _smallest(M: ArrayLike) -> Values:
    values = np.linalg.eigvalsh(np.asarray(M))
    return {"negative part": np.minimum(values, 0).sum() / np.abs(values).sum()}


CHECKS = (
    by_algebra(
        "the metric solves its generalised eigenproblem",
        reference=_by_definition,
        estimate=lambda p: _metric(p.params.factor),
        controls={
            "the notes' inverse at a small alpha (erratum P9)": _notes,
            "orthonormal directions": _orthonormal,
        },
        rtol=1e-8,
    ),
    by_algebra(
        "the metric is positive semi-definite",
        reference=zero,
        estimate=lambda p: _smallest(_metric(p.params.factor)["M"]),
        controls={
            "the notes' inverse at a small alpha (erratum P9)": lambda p: _smallest(
                _notes(p)["M"]
            )
        },
        atol=1e-12,
    ),
)
