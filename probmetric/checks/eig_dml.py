"""Claims about Eig-DML and its certificate, and problems to check them on."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.checks.problems import OF_PAIRS, fitted, standardized
from probmetric.data.containers import Pairs, weights
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.eig_dml.fit import fit
from probmetric.inference.solvers.result import Fit

TOL = 1e-7

invariants = OF_PAIRS


def toy(seed: int) -> Problem[Pairs]:
    """Pair the nearest of 40 points of 2 classes in d = 3; weight the pairs."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 3)) * [1.0, 2.0, 0.5]
    X[:, 0] += 2.5 * y
    pairs = nearest_pairs(X, y)
    pairs = pairs._replace(w=0.5 + 0.5 * (np.arange(len(pairs.i)) % 3))
    return fitted(fit_problem, f"simulated, seed {seed}", pairs, ridge=0.02, kappa=2.5)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit nearest pairs of a standardized data set, with the estimator's ridge."""
    pairs = nearest_pairs(*standardized(X, y))
    d = pairs.X.shape[1]
    return fitted(fit_problem, "data", pairs, ridge=1e-6, kappa=float(d))


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem by PDHG to a relative gap of 1e-7."""
    return fit(problem.data, solver="pdhg", tol=TOL, **problem.options)


def _pairs_of(problem: Problem[Pairs], same: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = problem.data
    rows = np.asarray(pairs.y) == same
    X = np.asarray(pairs.X)
    delta = X[pairs.i[rows]] - X[pairs.j[rows]]
    return delta, np.asarray(weights(pairs))[rows]


def _budget_matrix(problem: Problem[Pairs]) -> np.ndarray:
    """Return H: the weighted scatter of close pairs, with the ridge."""
    close, w = _pairs_of(problem, 1)
    H, d = (close * w[:, None]).T @ close, close.shape[1]
    return H + problem.options["ridge"] * np.trace(H) / d * np.eye(d)


def _matrix(problem: Problem[Pairs]) -> np.ndarray:
    L = np.asarray(problem.params.factor)
    return L.T @ L


def _ceiling(problem: Problem[Pairs]) -> Values:
    """Return the bound κ λ_max(G(u)) from u only: Eq. (3) of ``eig_dml.fit``."""
    far, _ = _pairs_of(problem, 0)
    G = far.T @ (problem.params.u[:, None] * far)
    top = eigh(G, _budget_matrix(problem), eigvals_only=True)[-1]
    return {"nearest far pair": problem.options["kappa"] * top}


def _reached(problem: Problem[Pairs], M: np.ndarray) -> Values:
    far, _ = _pairs_of(problem, 0)
    return {"nearest far pair": np.sum(far @ M * far, 1).min()}


def _bounds(problem: Problem[Pairs], M: np.ndarray) -> Values:
    return {**_reached(problem, M), "<H, M>": np.sum(_budget_matrix(problem) * M)}


def _S_as_M(
    claim: Callable[[Problem[Pairs], np.ndarray], Values],
) -> dict[str, Callable[[Problem[Pairs]], Values]]:
    """Return the wrong claim that S is the metric (erratum P13)."""
    return {"S used as M (erratum P13)": lambda p: claim(p, np.asarray(p.params.S))}


CHECKS = (
    by_algebra(
        "the nearest far pair is as far as the dual bound allows for any metric",
        reference=_ceiling,
        estimate=lambda p: _reached(p, _matrix(p)),
        controls={
            **_S_as_M(_reached),
            "trace one instead of κ (erratum P12)": lambda p: _reached(
                p, _matrix(p) / p.options["kappa"]
            ),
        },
        rtol=2 * TOL,
    ),
    by_algebra(
        "the primal bound is the least distance, and close pairs use up their budget",
        reference=lambda p: {
            "nearest far pair": p.params.primal,
            "<H, M>": p.options["kappa"],
        },
        estimate=lambda p: _bounds(p, _matrix(p)),
        controls=_S_as_M(_bounds),
    ),
)
