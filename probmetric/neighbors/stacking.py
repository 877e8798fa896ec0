"""Weights of a stack of classifiers, by Bayesian stacking of held-out probabilities.

A stack of K classifiers predicts Σ_k w_k P_k(c | x), with weights w ≥ 0 that sum to
one. Let p_ik be the probability of the class of point i under classifier k, fitted
without the fold of point i. The log posterior of the weights is

    Σ_i log Σ_k w_k p_ik + (α / K) Σ_k log w_k,                                    (1)

the sum of held-out log scores, and the log density of a Dirichlet prior that counts as
α points. The prior density refers to log w, so its exponents are α / K, not α / K - 1.
(1) is concave in w. With r_ik = w_k p_ik / Σ_l w_l p_il, its maximum is the fixed point
of

    w_k = (Σ_i r_ik + α / K) / (n + α),                                            (2)

which EM finds from equal weights. With w = softmax(z), minus the Hessian of (1) in z at
the maximum is

    A = (α / K) I + Σ_i r_i r_iᵀ - (n + α) w wᵀ,                                   (3)

and A 1 = 0. The Laplace approximation of the covariance of w is J A⁺ J with
J = diag(w) - w wᵀ. Folds are stratified and do not depend on the order of rows
(``neighbors.strength``). If a class has one point, it is not scored.

Reference: Y. Yao, A. Vehtari, D. Simpson, A. Gelman, "Using stacking to average
Bayesian predictive distributions", Bayesian Analysis 13 (2018).
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from sklearn.base import clone

from probmetric.neighbors.strength import deal

N_FOLDS = 5
POINTS = 5.0
"""Default of α, chosen on datasets that are not in the benchmark."""

LEAST = 1e-12
"""Lower limit of held-out probabilities, which keeps log scores finite."""


class Weights(NamedTuple):
    """Weights w of the classifiers, standard deviations of w, and mean scores."""

    weights: Float[np.ndarray, "k"]
    sd: Float[np.ndarray, "k"]
    log_scores: Float[np.ndarray, "k"]


def held_out(
    parts: Sequence[Any],
    X: Float[np.ndarray, "n d"] | pd.DataFrame,
    labels: np.ndarray,
    codes: Int[np.ndarray, "n"],
) -> Float[np.ndarray, "k m"]:
    """Compute each classifier's probability of the class of each held-out point."""
    fold, c = deal(np.asarray(X), codes, N_FOLDS, 0), codes.max() + 1
    row = getattr(X, "iloc", X)
    P = np.full((len(parts), len(X)), np.nan)
    for out in np.unique(fold[fold >= 0]):
        rows, rest = np.flatnonzero(fold == out), fold != out
        for k, part in enumerate(parts):
            # Classes with a single row in a fold are expected.
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                fitted = _fitted(part, row[rest], labels[rest])
            predicted = np.asarray(fitted.predict_proba(row[rows]))
            if predicted.shape != (len(rows), c):
                raise ValueError(
                    f"predict_proba of {type(part).__name__} must have shape "
                    f"{(len(rows), c)}, got {predicted.shape}"
                )
            P[k, rows] = predicted[np.arange(len(rows)), codes[rows]]
    return P[:, fold >= 0]


def stack(
    P: Float[np.ndarray, "k m"], points: float = POINTS, tol: float = 1e-10
) -> Weights:
    """Maximize Eq. (1) by Eq. (2), and compute standard deviations by Eq. (3)."""
    P = np.maximum(P, LEAST)
    k, m = P.shape
    w, r = np.full(k, 1 / k), P
    for _ in range(10_000):
        r = w[:, None] * P
        r /= r.sum(0)
        before, w = w, (r.sum(1) + points / k) / (m + points)
        if np.abs(w - before).max() < tol:
            break
    A = np.eye(k) * points / k + r @ r.T - (m + points) * np.outer(w, w)
    J = np.diag(w) - np.outer(w, w)
    variance = np.diag(J @ np.linalg.lstsq(A, J, rcond=1e-9)[0])
    return Weights(w, np.sqrt(np.maximum(variance, 0)), np.log(P).mean(1))


def fit_stack(
    parts: Sequence[Any],
    X: Float[np.ndarray, "n d"] | pd.DataFrame,
    labels: np.ndarray,
    codes: Int[np.ndarray, "n"],
    points: float = POINTS,
) -> tuple[list[Any], Weights]:
    """Fit clones of the classifiers to all rows, and compute their weights."""
    P = held_out(parts, X, labels, codes)
    if not P.size:
        raise ValueError("y must contain a class with at least 2 rows, got none")
    return [_fitted(part, X, labels) for part in parts], stack(P, points)


def _fitted(part: Any, X: Any, labels: np.ndarray) -> Any:
    new: Any = clone(part)
    return new.fit(X, labels)
