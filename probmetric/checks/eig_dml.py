"""The checks of Eig-DML, and problems to run them on."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.checks.problems import OF_PAIRS, fitted, standardised
from probmetric.data.containers import Pairs
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.eig_dml.fit import fit
from probmetric.inference.solvers.result import Fit

TOL = 1e-7

invariants = OF_PAIRS


def toy(seed: int) -> Problem[Pairs]:
    """Pair the nearest of 40 points of 2 classes in d = 3."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 3)) * [1.0, 2.0, 0.5]
    X[:, 0] += 2.5 * y
    name = f"simulated, seed {seed}"
    return fitted(fit_problem, name, nearest_pairs(X, y), ridge=0.0)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit nearest pairs of a standardised data set, with the estimator's ridge."""
    pairs = nearest_pairs(*standardised(X, y))
    return fitted(fit_problem, "data", pairs, ridge=1e-6)


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem by PDHG to a relative gap of 1e-7."""
    return fit(problem.data, solver="pdhg", tol=TOL, **problem.options)


def _squared(problem: Problem[Pairs], M: np.ndarray, same: int) -> np.ndarray:
    pairs = problem.data
    held = np.asarray(pairs.y) == same
    delta = pairs.X[pairs.i[held]] - pairs.X[pairs.j[held]]
    return np.sum(delta @ M * delta, 1)


def _matrix(problem: Problem[Pairs]) -> np.ndarray:
    L = np.asarray(problem.params.factor)
    return L.T @ L


def _ceiling(problem: Problem[Pairs]) -> Values:
    """Return the bound κ λ_max(G(u)) from u alone: Eq. (3) of ``eig_dml.fit``."""
    pairs, d = problem.data, len(problem.params.S)
    delta = pairs.X[pairs.i] - pairs.X[pairs.j]
    close, far = (delta[np.asarray(pairs.y) == v] for v in (1, 0))
    H = close.T @ close
    H = H + problem.options["ridge"] * np.trace(H) / d * np.eye(d)
    G = far.T @ (problem.params.u[:, None] * far)
    return {"nearest far pair": d * eigh(G, H, eigvals_only=True)[-1]}


def _reached(problem: Problem[Pairs], M: np.ndarray) -> Values:
    return {"nearest far pair": _squared(problem, M, 0).min()}


def _constraint(problem: Problem[Pairs], M: np.ndarray) -> Values:
    H = _squared(problem, np.eye(len(M)), 1).sum()
    ridge = problem.options["ridge"] * H / len(M) * np.trace(M)
    return {"<H, M>": _squared(problem, M, 1).sum() + ridge}


def _S_as_M(
    claim: Callable[[Problem[Pairs], np.ndarray], Values],
) -> dict[str, Callable[[Problem[Pairs]], Values]]:
    """Return the wrong claim of erratum P13."""
    return {"S used as M (erratum P13)": lambda p: claim(p, np.asarray(p.params.S))}


CHECKS = (
    by_algebra(
        "the nearest far pair is as far as any metric can put it",
        reference=_ceiling,
        estimate=lambda p: _reached(p, _matrix(p)),
        controls={
            **_S_as_M(_reached),
            "trace one in place of d (erratum P12)": lambda p: _reached(
                p, _matrix(p) / len(p.params.S)
            ),
        },
        rtol=2 * TOL,
    ),
    by_algebra(
        "the primal bound is what the metric does",
        reference=lambda p: {"nearest far pair": p.params.primal},
        estimate=lambda p: _reached(p, _matrix(p)),
        controls=_S_as_M(_reached),
        rtol=1e-8,
    ),
    by_algebra(
        "close pairs use up their budget",
        reference=lambda p: {"<H, M>": float(len(p.params.S))},
        estimate=lambda p: _constraint(p, _matrix(p)),
        controls=_S_as_M(_constraint),
    ),
)
