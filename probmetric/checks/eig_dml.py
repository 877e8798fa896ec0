"""The checks of Eig-DML, and problems to run them on."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import eigh

from probmetric.checks.check import Problem, Values, by_algebra, zero
from probmetric.checks.problems import OF_PAIRS, fitted, standardised
from probmetric.checks.solvers import FRANK_WOLFE, PROJECTIONS
from probmetric.data.containers import Pairs, weights
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.eig_dml.fit import fit
from probmetric.inference.eig_dml.frank_wolfe import top_eigenvector
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
    """Fit nearest pairs of a standardised data set, with the estimator's ridge."""
    pairs = nearest_pairs(*standardised(X, y))
    d = pairs.X.shape[1]
    return fitted(fit_problem, "data", pairs, ridge=1e-6, kappa=float(d))


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
    w = np.asarray(weights(pairs))[np.asarray(pairs.y) == 1]
    H = (close * w[:, None]).T @ close
    H = H + problem.options["ridge"] * np.trace(H) / d * np.eye(d)
    G = far.T @ (problem.params.u[:, None] * far)
    kappa = problem.options["kappa"]
    return {"nearest far pair": kappa * eigh(G, H, eigvals_only=True)[-1]}


def _reached(problem: Problem[Pairs], M: np.ndarray) -> Values:
    return {"nearest far pair": _squared(problem, M, 0).min()}


def _constraint(problem: Problem[Pairs], M: np.ndarray) -> Values:
    pairs = problem.data
    w = np.asarray(weights(pairs))[np.asarray(pairs.y) == 1]
    H = w @ _squared(problem, np.eye(len(M)), 1)
    ridge = problem.options["ridge"] * H / len(M) * np.trace(M)
    return {"<H, M>": w @ _squared(problem, M, 1) + ridge}


def _frank_wolfe(problem: Problem[Pairs], tol: float = 1e-2) -> Values:
    """Return by how much bounds are on the wrong side of each other, or too far apart.

    Of Frank-Wolfe at its tolerance, with λ_max by Lanczos below the one by all.
    """
    found = fit(problem.data, solver="frank_wolfe", tol=tol, **problem.options)
    p, known, L = found.params, problem.params, np.asarray(found.params.factor)
    rng = np.random.default_rng(0)
    Z, u = rng.normal(size=(30, 250)), rng.dirichlet(np.ones(30))
    bound, _ = top_eigenvector(Z, u, np.ones(250))
    top = np.linalg.eigvalsh((Z * u[:, None]).T @ Z)[-1]
    return {
        "primal above the optimum": max(p.primal / known.dual - 1, 0.0),
        "dual below the optimum": max(1 - p.dual / known.primal, 0.0),
        "gap above its tolerance": max(p.gap / p.primal - 1e-2, 0.0),
        "gap": p.gap / p.primal - (p.dual / p.primal - 1),
        "reached": _reached(problem, L.T @ L)["nearest far pair"] / p.primal - 1,
        "sum of the weights": p.u.sum() - 1,
        "Lanczos below λ_max": max(1 - bound / top, 0.0),
        "Lanczos above λ_max": max(bound / top - 1 - 1e-4, 0.0),
    }


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
            "trace one in place of κ (erratum P12)": lambda p: _reached(
                p, _matrix(p) / p.options["kappa"]
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
        reference=lambda p: {"<H, M>": p.options["kappa"]},
        estimate=lambda p: _constraint(p, _matrix(p)),
        controls=_S_as_M(_constraint),
    ),
    by_algebra(
        "Frank-Wolfe's bounds enclose the optimum, to its tolerance",
        reference=zero,
        estimate=_frank_wolfe,
        controls={"stopped at a gap of one half": partial(_frank_wolfe, tol=0.5)},
        atol=1e-6,
    ),
    PROJECTIONS,
    FRANK_WOLFE,
)
