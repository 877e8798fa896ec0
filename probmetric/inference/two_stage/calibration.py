"""Calibrate the log likelihood ratios of a two-stage mixture on left-out sources.

Ratios of the model are too extreme if variation is not normal, or if there are few
sources. Sources are divided into five folds. The model is fitted to four folds, and the
pairs of rows within the fifth fold give held-out log ratios l. The logistic regression
gives same-source and different-source pairs equal total weights (prior log odds 0), and
fits

    log LR = a + b₁ max(l', 0) + b₂ min(l', 0),   0 ≤ b₁, b₂ ≤ 2,                  (1)

where l' is l limited to [-L, L]. The calibrated ratio is also limited:

    |log LR| ≤ L = log(n + 1),                                                     (2)

with n sources. An error that did not occur for n sources may have a probability of
about 1/(n + 1), so n sources support no larger ratio. Evidence for one source and
evidence against one source have different slopes, because wrong tails make only one
kind of evidence too strong. The largest slope keeps the fit finite if the pairs are
separable. The references describe other bounds and shrunk ratios.

References
----------
Vergeer, van Es, de Jongh, Alberink, Stoel, "Numerical likelihood ratios outputted by LR
systems are often based on extrapolation: When to stop extrapolating?", Science &
Justice 56, 2016.
Morrison, Poh, "Avoiding overstating the strength of forensic evidence: Shrunk
likelihood ratios/Bayes factors", Science & Justice 58, 2018.
"""

from collections.abc import Callable
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

FEWEST = 20
"""Minimum number of sources with two or more rows for Eq. (1); otherwise only (2)."""

MOST_ROWS = 4
"""Maximum number of scored rows per source, so that large sources do not dominate."""

MOST_SOURCES = 200
"""Maximum number of scored sources per fold."""

STEEPEST = 2.0


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
    """Return log ratios of pairs of rows within each fold of sources."""
    order = canonical_order(X, group)
    fold = source_folds(group[order])
    scored = [_few_rows(order[fold == k], group) for k in range(N_FOLDS)]
    size = max(map(len, scored))
    log_ratio: list[np.ndarray] = []
    same: list[np.ndarray] = []
    for k, rows in enumerate(scored):
        Z = pad_rows(X[rows], size)  # Folds of one shape share a compilation.
        i, j = np.triu_indices(len(rows), 1)
        log_ratio.append(-np.asarray(learn(order[fold != k]).pairwise(Z, Z))[i, j])
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
    """Return the bound of Eq. (2) on the ratios of the model."""
    return Calibration(0.0, 1.0, 1.0, bound=float(np.log(n_sources + 1)))


def fit_calibration(pairs: HeldOut) -> Calibration:
    """Fit Eqs. (1) and (2) to held-out same-source and different-source pairs."""
    bound = float(np.log(pairs.n_sources + 1))
    limited = np.clip(pairs.log_ratio, -bound, bound)
    A = np.stack(
        [np.ones(len(limited)), np.maximum(limited, 0), np.minimum(limited, 0)], 1
    )
    sign = np.where(pairs.same, 1.0, -1.0)
    weight = np.where(pairs.same, 0.5 / pairs.same.sum(), 0.5 / (~pairs.same).sum())

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        eta = sign * (A @ theta)
        gradient = -A.T @ (weight * sign * expit(-eta))
        return float(weight @ np.logaddexp(0, -eta)), gradient

    slopes = (0.0, STEEPEST)
    end = minimize(
        loss,
        np.array([0.0, 1.0, 1.0]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None), slopes, slopes],
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    return Calibration(*end.x.tolist(), bound=bound)
