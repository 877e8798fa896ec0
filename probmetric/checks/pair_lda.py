"""The checks of pair LDA, and problems to run them on."""

from functools import partial

import numpy as np
from scipy.linalg import eigh

from probmetric.checks.check import Problem, Values, by_algebra, zero
from probmetric.checks.problems import OF_PAIRS, correlated, fitted, standardised
from probmetric.checks.sides import inverse
from probmetric.data.containers import Labelled, Pairs, weights
from probmetric.data.pairs import all_pairs
from probmetric.inference.pair_lda import alpha_min, fit, second_moments
from probmetric.inference.solvers.result import Fit
from probmetric.typing import Array, ArrayLike

ALPHA = 0.01

invariants = OF_PAIRS


def toy(seed: int) -> Problem[Pairs]:
    """Pair all of 45 points of 3 classes in d = 4, and weight the pairs."""
    name, pairs = f"simulated, seed {seed}", all_pairs(*correlated(seed, 15))
    pairs = pairs._replace(w=0.5 + 0.5 * (np.arange(len(pairs.i)) % 3))
    return fitted(fit_problem, name, pairs, alpha=ALPHA)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit a standardised data set without a prior strength."""
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


def _moments_by_pair(problem: Problem[Pairs]) -> Values:
    """Average outer products pair by pair; of labelled points, over all their pairs."""
    pairs, found = problem.data, dict[str, Array]()
    X = np.asarray(pairs.X)
    y, w = np.asarray(pairs.y), np.asarray(weights(pairs))
    points = _points(problem)
    codes, own_w = np.asarray(points.y), np.asarray(points.w)
    i, j = np.triu_indices(len(codes), 1)
    v = own_w[i] * own_w[j]
    for label, name in ((1, "close"), (0, "far")):
        delta, own = (X[pairs.i] - X[pairs.j])[y == label], w[y == label]
        found[name] = np.einsum("n,ni,nj->ij", own, delta, delta) / own.sum()
        chosen = (codes[i] == codes[j]) == label
        delta, own = (points.X[i] - points.X[j])[chosen], v[chosen]
        found[f"{name}, of points"] = (
            np.einsum("n,ni,nj->ij", own, delta, delta) / own.sum()
        )
    return found


def _points(problem: Problem[Pairs]) -> Labelled:
    X = np.asarray(problem.data.X)
    n = np.arange(len(X))
    return Labelled(X, n % 3, 1.0 + n % 2)


def _moments(problem: Problem[Pairs], weighted: bool = True) -> Values:
    pairs, points = problem.data, _points(problem)
    if not weighted:
        pairs, points = pairs._replace(w=None), points._replace(w=None)
    of_pairs, of_points = second_moments(pairs), second_moments(points)
    return {
        "close": of_pairs[0],
        "far": of_pairs[1],
        "close, of points": of_points[0],
        "far, of points": of_points[1],
    }


def _methods_by_definition(problem: Problem[Pairs]) -> Values:
    """Form each method's matrix by inverses, and the parts of it that are kept."""
    close, far = second_moments(problem.data)
    one = np.eye(len(close))
    of_close, of_far = (
        inverse(close + ALPHA * one),
        inverse(far + ALPHA * one),
    )
    values, V = np.linalg.eigh(of_close - of_far)
    kept, leading = (
        np.maximum(values, 0),
        np.where(np.arange(len(one)) >= len(one) - 1, values, 0),
    )
    ratio, U = eigh(far, close + ALPHA * one)
    least = np.linalg.eigvalsh(far - close)[-1]
    excess = (U * np.maximum(ratio - 1, 0)) @ U.T
    n = len(problem.data.X)
    held_close = n * close + 7 * np.trace(close) / len(one) * one
    held_far = n * far + 7 * np.trace(far) / len(one) * one
    log, V_held = eigh(held_far / (n + 7), held_close / (n + 7) + ALPHA * one)
    return {
        "kissme": (V * kept) @ V.T,
        "kissme, one row": (V * leading) @ V.T,
        "removed share": -values[values < 0].sum() / np.abs(values).sum(),
        "rca": of_close,
        "notes": inverse((2 * least + 1.0) * one + close - far),
        "excess": excess,
        "one": U[:, -2:] @ U[:, -2:].T,
        "objective, excess": np.sum(excess * (far - close)),
        "prior of 7 points": (V_held * np.log(np.maximum(log, 1))) @ V_held.T,
        "defaults": _by_definition(problem)["M"],
    }


def _methods(problem: Problem[Pairs], alpha: float = ALPHA) -> Values:
    """Return the same of the package; at another α, if asked."""
    pairs = problem.data
    kissme = fit(pairs, method="kissme", alpha=alpha)
    first = fit(pairs, 1, method="kissme", alpha=alpha)
    excess = fit(pairs, weighting="excess", alpha=alpha)
    ridge = 2 * alpha_min(*second_moments(pairs)) + 1.0
    factors = {
        "kissme": kissme,
        "kissme, one row": first,
        "rca": fit(pairs, method="rca", alpha=alpha),
        "notes": fit(pairs, method="notes", alpha=ridge),
        "excess": excess,
        "one": fit(pairs, 2, weighting="one", alpha=alpha),
        "prior of 7 points": fit(pairs, alpha=alpha, prior_strength=7, n=len(pairs.X)),
        "defaults": fit(pairs),
    }
    found = {name: _metric(f.params.factor)["M"] for name, f in factors.items()}
    found["removed share"] = kissme.params.negative_share
    found["objective, excess"] = excess.objective
    return found


def _orthonormal(problem: Problem[Pairs]) -> Values:
    return _metric(np.linalg.qr(np.asarray(problem.params.factor).T)[0].T)


def _smallest(M: ArrayLike) -> Values:
    values = np.linalg.eigvalsh(np.asarray(M))
    return {"negative part": np.minimum(values, 0).sum() / np.abs(values).sum()}


CHECKS = (
    by_algebra(
        "moments are averages over pairs",
        reference=_moments_by_pair,
        estimate=_moments,
        controls={"weights forgotten": partial(_moments, weighted=False)},
    ),
    by_algebra(
        "each method is the matrix that defines it",
        reference=_methods_by_definition,
        estimate=_methods,
        controls={"another α": partial(_methods, alpha=2 * ALPHA)},
        rtol=1e-8,
    ),
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
