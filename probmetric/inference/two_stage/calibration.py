"""Calibrate the log likelihood ratios of a two-stage mixture on left-out sources.

Ratios of the model are too extreme if variation is not normal, or if there are few
sources. Sources are divided into five folds. The model is fitted without the sources of
one fold, and the pairs of rows of these sources give held-out log ratios l. With fewer
than ``FEW`` sources, a fold has few pairs of different sources, so two folds are left
out at a time (ten fits). The parameters of

    log LR = a + b₁ max(l', 0) + b₂ min(l', 0),   b₁, b₂ ≥ 0,                      (1)

where l' is l limited to [-L, L], minimize the penalized loss of logistic regression,

    n Σ w log(1 + exp(∓ log LR)) + ½ (b₁ - 1)² + ½ (b₂ - 1)²,                      (2)

with - for pairs of one source and + for other pairs. The weights w sum to ½ for each
kind of pair (prior log odds 0). Pairs that share a source are dependent, so the loss is
multiplied by the number n of scored sources, and not by the number of pairs. The
penalty assumes slopes near those of the model. It is negligible for many sources, and
keeps the slopes finite if the pairs are separable. The calibrated ratio is also
limited:

    |log LR| ≤ L = log(n + 1).                                                     (3)

An error that did not occur for n sources may have a probability of about 1/(n + 1), so
n sources support no larger ratio. Evidence for one source and evidence against one
source have different slopes, because wrong tails make only one kind of evidence too
strong. The references describe other bounds and shrunk ratios.

References
----------
Vergeer, van Es, de Jongh, Alberink, Stoel, "Numerical likelihood ratios outputted by LR
systems are often based on extrapolation: When to stop extrapolating?", Science &
Justice 56, 2016.
Morrison, Poh, "Avoiding overstating the strength of forensic evidence: Shrunk
likelihood ratios/Bayes factors", Science & Justice 58, 2018.
"""

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import minimize
from scipy.special import expit

from probmetric.data.hash import canonical_order
from probmetric.data.padding import pad_rows
from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import Calibration

N_FOLDS = 5
"""Number of folds. With fewer sources of two or more rows, only Eq. (3) is used."""

FEW = 20
"""With fewer sources of two or more rows, two folds are left out at a time."""

MOST_ROWS = 4
"""Maximum number of scored rows per source, so that large sources do not dominate."""

MOST_SOURCES = 200
"""Maximum number of scored sources that are left out at a time."""


class HeldOut(NamedTuple):
    """Held-out log ratios, whether pairs are *same*, and the number of sources."""

    log_ratio: Float[np.ndarray, "N"]
    same: Bool[np.ndarray, "N"]
    n_sources: int


def n_repeated(group: Int[np.ndarray, "n"]) -> int:
    """Count the sources of two or more rows."""
    return int(np.sum(np.unique(group, return_counts=True)[1] > 1))


def held_out_ratios(
    X: Float[np.ndarray, "n d"],
    group: Int[np.ndarray, "n"],
    learn: Callable[[Int[np.ndarray, "m"]], PairSimilarity],
) -> HeldOut:
    """Return log ratios of pairs of rows of left-out sources."""
    order = canonical_order(X, group)
    fold = source_folds(group[order])
    n_out = 2 if n_repeated(group) < FEW else 1
    out = [np.isin(fold, folds) for folds in combinations(range(N_FOLDS), n_out)]
    scored = [_few_rows(order[rows], group) for rows in out]
    size = max(map(len, scored))
    log_ratio: list[np.ndarray] = []
    same: list[np.ndarray] = []
    for k, rows in enumerate(scored):
        Z = pad_rows(X[rows], size)  # Folds of one shape share a compilation.
        i, j = np.triu_indices(len(rows), 1)
        log_ratio.append(-np.asarray(learn(order[~out[k]]).pairwise(Z, Z))[i, j])
        same.append(group[rows[i]] == group[rows[j]])
    n = len(np.unique(group[np.concatenate(scored)]))
    return HeldOut(np.concatenate(log_ratio), np.concatenate(same), n)


def source_folds(group: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Return the fold of each row; all rows of a source have the same fold."""
    _, first, source, size = np.unique(
        group, return_index=True, return_inverse=True, return_counts=True
    )
    shuffled = np.random.default_rng(0).permutation(len(first))
    rank = np.lexsort((shuffled[np.argsort(np.argsort(first))], size < 2))
    fold = np.empty(len(first), int)
    fold[rank] = np.arange(len(first)) % N_FOLDS
    return fold[source]


def _few_rows(
    rows: Int[np.ndarray, "m"], group: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "s"]:
    """Choose the first rows of the first sources of two or more rows."""
    by_source: dict[int, list[int]] = {}
    for row in rows.tolist():
        by_source.setdefault(int(group[row]), []).append(row)
    repeated = [s[:MOST_ROWS] for s in by_source.values() if len(s) > 1]
    return np.concatenate(repeated[:MOST_SOURCES])


def bound_only(n_sources: int) -> Calibration:
    """Return the bound of Eq. (3) on the ratios of the model."""
    return Calibration(0.0, 1.0, 1.0, bound=float(np.log(n_sources + 1)))


def fit_calibration(pairs: HeldOut) -> Calibration:
    """Minimize Eq. (2) for held-out same-source and different-source pairs."""
    bound = float(np.log(pairs.n_sources + 1))
    limited = np.clip(pairs.log_ratio, -bound, bound)
    A = np.stack(
        [np.ones(len(limited)), np.maximum(limited, 0), np.minimum(limited, 0)], 1
    )
    sign = np.where(pairs.same, 1.0, -1.0)
    weight = np.where(pairs.same, 0.5 / pairs.same.sum(), 0.5 / (~pairs.same).sum())
    weight *= pairs.n_sources
    start = np.array([0.0, 1.0, 1.0])

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        eta = sign * (A @ theta)
        change = (theta - start) * [0.0, 1.0, 1.0]
        value = weight @ np.logaddexp(0, -eta) + change @ change / 2
        return float(value), change - A.T @ (weight * sign * expit(-eta))

    end = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None), (0.0, None), (0.0, None)],
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    return Calibration(*end.x.tolist(), bound=bound)
