"""The checks of pair LDA, and problems to run them on."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probmetric.checks.check import Check, Problem
from probmetric.data.containers import Pairs
from probmetric.data.pairs import all_pairs
from probmetric.inference.pair_lda import fit, second_moments
from probmetric.inference.solvers.result import Fit

__all__ = ["CHECKS", "fit_problem", "from_labels", "invariants", "toy"]

ALPHA = 0.01


def toy(seed: int) -> Problem:
    """Pair all of 45 points of 3 classes in d = 4."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 15)
    root = np.eye(4) + 0.4 * rng.normal(size=(4, 4))
    X = 2 * rng.normal(size=(3, 4))[y] + rng.normal(size=(45, 4)) @ root.T
    return _fitted(f"simulated, seed {seed}", all_pairs(X, y))


def from_labels(X: np.ndarray, y: np.ndarray, *, name: str = "data") -> Problem:
    """Fit the estimator's default to a standardised data set."""
    Z = np.asarray(X, float)
    scale = Z.std(0)
    Z = (Z - Z.mean(0)) / np.where(scale > 0, scale, 1.0)
    return _fitted(name, all_pairs(Z, np.asarray(y)))


def fit_problem(problem: Problem) -> Fit:
    """Fit a problem by the generalised eigenproblem."""
    return fit(pairs_of(problem), **problem.options)


def _fitted(name: str, pairs: Pairs) -> Problem:
    problem = Problem(name, None, pairs, None, {"alpha": ALPHA})
    return problem._replace(params=fit_problem(problem).params)


def pairs_of(problem: Problem) -> Pairs:
    """Return the problem's pairs."""
    data: Any = problem.data
    return data


def permuted(problem: Problem) -> Problem:
    """Put the pairs in another order."""
    pairs = pairs_of(problem)
    order = np.random.default_rng(1).permutation(len(pairs.i))
    y = np.asarray(pairs.y)[order]
    return problem._replace(
        data=pairs._replace(i=pairs.i[order], j=pairs.j[order], y=y, anchor=None)
    )


def swapped(problem: Problem) -> Problem:
    """Exchange the two points of every pair."""
    pairs = pairs_of(problem)
    return problem._replace(data=pairs._replace(i=pairs.j, j=pairs.i))


def translated(problem: Problem) -> Problem:
    """Move all points."""
    pairs = pairs_of(problem)
    return problem._replace(data=pairs._replace(X=np.asarray(pairs.X) + 3.0))


invariants: Mapping[str, Any] = {
    "pairs permuted": permuted,
    "points of a pair exchanged": swapped,
    "points translated": translated,
}


def _by_definition(problem: Problem) -> dict[str, Any]:
    """M from the symmetric root of C_α: C^-½ log₊(C^-½ F C^-½) C^-½."""
    close, far = second_moments(pairs_of(problem))
    values, V = np.linalg.eigh(close + ALPHA * np.eye(len(close)))
    root = (V / np.sqrt(values)) @ V.T
    ratio, W = np.linalg.eigh(root @ far @ root)
    log = np.log(np.maximum(ratio, 1.0))
    return {"M": root @ ((W * log) @ W.T) @ root}


def _notes(problem: Problem) -> dict[str, Any]:
    close, far = second_moments(pairs_of(problem))
    one = np.eye(len(close))
    return {"M": np.linalg.solve(ALPHA * one + close - far, one)}


def _metric(factor: Any) -> dict[str, Any]:
    L = np.asarray(factor)
    return {"M": L.T @ L}


def _orthonormal(problem: Problem) -> dict[str, Any]:
    return _metric(np.linalg.qr(np.asarray(problem.params.factor).T)[0].T)


def _smallest(M: np.ndarray) -> dict[str, Any]:
    values = np.linalg.eigvalsh(M)
    return {"negative part": np.minimum(values, 0).sum() / np.abs(values).sum()}


CHECKS = (
    Check(
        "the metric solves its generalised eigenproblem",
        "exact",
        reference=_by_definition,
        estimate=lambda p: _metric(p.params.factor),
        controls={
            "the notes' inverse at a small alpha (erratum P9)": _notes,
            "orthonormal directions": _orthonormal,
        },
        rtol=1e-8,
    ),
    Check(
        "the metric is positive semi-definite",
        "exact",
        reference=lambda p: {"negative part": 0.0},
        estimate=lambda p: _smallest(_metric(p.params.factor)["M"]),
        controls={
            "the notes' inverse at a small alpha (erratum P9)": lambda p: _smallest(
                _notes(p)["M"]
            )
        },
        atol=1e-12,
    ),
)
