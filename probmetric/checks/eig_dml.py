"""The checks of Eig-DML, and problems to run them on."""

from typing import Any

import numpy as np
from scipy.linalg import eigh

from probmetric.checks.check import Check, Problem
from probmetric.checks.pair_lda import pairs_of, permuted, swapped, translated
from probmetric.data.containers import Pairs
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.eig_dml.fit import fit
from probmetric.inference.solvers.result import Fit

__all__ = ["CHECKS", "fit_problem", "from_labels", "invariants", "toy"]

TOL = 1e-7


def toy(seed: int) -> Problem:
    """Pair the nearest of 40 points of 2 classes in d = 3."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 3)) * [1.0, 2.0, 0.5]
    X[:, 0] += 2.5 * y
    return _fitted(f"simulated, seed {seed}", nearest_pairs(X, y), 0.0)


def from_labels(X: np.ndarray, y: np.ndarray, *, name: str = "data") -> Problem:
    """Fit nearest pairs of a standardised data set, with the estimator's ridge."""
    Z = np.asarray(X, float)
    scale = Z.std(0)
    Z = (Z - Z.mean(0)) / np.where(scale > 0, scale, 1.0)
    return _fitted(name, nearest_pairs(Z, np.asarray(y)), 1e-6)


def fit_problem(problem: Problem) -> Fit:
    """Fit a problem by PDHG to a relative gap of 1e-7."""
    return fit(
        pairs_of(problem), solver="pdhg", tol=TOL, ridge=problem.options["ridge"]
    )


def _fitted(name: str, pairs: Pairs, ridge: float) -> Problem:
    problem = Problem(name, None, pairs, None, {"ridge": ridge})
    return problem._replace(params=fit_problem(problem).params)


invariants: dict[str, Any] = {
    "pairs permuted": permuted,
    "points of a pair exchanged": swapped,
    "points translated": translated,
}


def _squared(problem: Problem, M: np.ndarray, same: int) -> np.ndarray:
    pairs = pairs_of(problem)
    held = np.asarray(pairs.y) == same
    delta = pairs.X[pairs.i[held]] - pairs.X[pairs.j[held]]
    return np.sum(delta @ M * delta, 1)


def _matrix(problem: Problem) -> np.ndarray:
    L = np.asarray(problem.params.factor)
    return L.T @ L


def _ceiling(problem: Problem) -> dict[str, Any]:
    """Return the bound κ λ_max(G(u)) from u alone: Eq. (3) of ``eig_dml.fit``."""
    pairs, d = pairs_of(problem), len(problem.params.S)
    delta = pairs.X[pairs.i] - pairs.X[pairs.j]
    close, far = (delta[np.asarray(pairs.y) == v] for v in (1, 0))
    H = close.T @ close
    H = H + problem.options["ridge"] * np.trace(H) / d * np.eye(d)
    G = far.T @ (problem.params.u[:, None] * far)
    return {"optimum": d * eigh(G, H, eigvals_only=True)[-1]}


def _reached(problem: Problem, M: np.ndarray) -> dict[str, Any]:
    return {"optimum": _squared(problem, M, 0).min()}


def _constraint(problem: Problem, M: np.ndarray) -> dict[str, Any]:
    H = _squared(problem, np.eye(len(M)), 1).sum()
    ridge = problem.options["ridge"] * H / len(M) * np.trace(M)
    return {"<H, M>": _squared(problem, M, 1).sum() + ridge}


CHECKS = (
    Check(
        "the nearest far pair is as far as any metric can put it",
        "exact",
        reference=_ceiling,
        estimate=lambda p: _reached(p, _matrix(p)),
        controls={
            "S used as M (erratum P13)": lambda p: _reached(p, np.asarray(p.params.S)),
            "trace one in place of d (erratum P12)": lambda p: _reached(
                p, _matrix(p) / len(p.params.S)
            ),
        },
        rtol=2 * TOL,
    ),
    Check(
        "the primal bound is what the metric does",
        "exact",
        reference=lambda p: {"primal": p.params.primal},
        estimate=lambda p: {"primal": _squared(p, _matrix(p), 0).min()},
        controls={
            "S used as M (erratum P13)": lambda p: {
                "primal": _squared(p, np.asarray(p.params.S), 0).min()
            }
        },
        rtol=1e-8,
    ),
    Check(
        "close pairs use up their budget",
        "exact",
        reference=lambda p: {"<H, M>": float(len(p.params.S))},
        estimate=lambda p: _constraint(p, _matrix(p)),
        controls={
            "S used as M (erratum P13)": lambda p: _constraint(
                p, np.asarray(p.params.S)
            )
        },
        rtol=1e-9,
    ),
)
