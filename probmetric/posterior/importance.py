"""Shares of the deviance: permutation importance, and refits with some of the curves.

The deviance explained by a fit β to data X is D(β, X) = 1 - dev(β, X) / dev(constant).
Let X_r be the data with predictor f permuted over sites, and β_r the fit to X_r. The
importance of f is

    D(β, X) - mean_r D(β_r, X_r).                                                  (1)

The variance of (1) is the jackknife variance over sites (``posterior.jackknife``), plus
the Monte Carlo variance of the mean. The jackknife needs no refits. A fit maximizes its
likelihood (up to the prior), so the derivative of the deviance in β is zero. To first
order, β is therefore unchanged if a site is left out, and only the pairs of this site
are subtracted from dev(β, X) and dev(constant).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import xlogy

from probmetric.data.containers import Pairs
from probmetric.data.hash import canonical_order
from probmetric.inference.gdm.bootstrap import units_of
from probmetric.inference.gdm.fit import climb
from probmetric.inference.gdm.likelihood import (
    Rows,
    in_float64,
    precisions,
    rows_of,
    to_beta,
)
from probmetric.inference.solvers.result import REMEDY, Result
from probmetric.models.gdm import GDMParams, GDMPrior
from probmetric.posterior.jackknife import limits, quantile_of_t


class Importance(NamedTuple):
    """Importance of each predictor, with limits and a permutation p-value."""

    importance: Float[np.ndarray, "p"]
    lower: Float[np.ndarray, "p"]
    upper: Float[np.ndarray, "p"]
    p_value: Float[np.ndarray, "p"]


def importance(
    pairs: Pairs,
    prior: GDMPrior,
    params: GDMParams,
    predictors: Sequence[Sequence[int]],
    *,
    learning_rate: float = 1.0,
    n_repeats: int = 20,
    prob: float = 0.9,
    seed: int = 0,
) -> Importance:
    """Compute the importance (Eq. 1) of predictors, each a list of columns of X."""
    X, unit = np.asarray(pairs.X, float), units_of(pairs)
    order = canonical_order(X)  # The result does not depend on the order of rows.
    i, j = (unit[np.asarray(end)] for end in (pairs.i, pairs.j))
    rng, prior = np.random.default_rng(seed), in_float64(prior)
    rows = rows_of(pairs._replace(X=X), prior, learning_rate)
    start = to_beta(params).astype(float)
    full = _explained(rows, start, i, j)
    found: list[tuple[float, ...]] = []
    for columns in predictors:
        values: list[np.ndarray] = []
        for _ in range(n_repeats):
            moved = X.copy()
            drawn = X[order[rng.permutation(len(X))]]
            moved[np.ix_(order, columns)] = drawn[:, [*columns]]
            permuted = rows_of(pairs._replace(X=moved), prior, learning_rate)
            beta = _refit(permuted, precisions(prior), start)
            values.append(_explained(permuted, beta, i, j))
        each = np.stack(values)
        loss = full - each.mean(0)
        half = limits(loss, prob)[1] - loss[0]
        noise = each[:, 0].var(ddof=1) / n_repeats if n_repeats > 1 else 0.0
        half = np.hypot(half, quantile_of_t(prob, len(loss) - 2) * np.sqrt(noise))
        p = (1 + np.sum(each[:, 0] >= full[0])) / (1 + n_repeats)
        found.append((loss[0], loss[0] - half, loss[0] + half, p))
    return Importance(*np.array(found, float).T)


def explained_by(
    pairs: Pairs, prior: GDMPrior, learning_rate: float, curves: Sequence[int]
) -> float:
    """Compute the deviance explained by a refit with only some of the curves."""
    X, prior = np.asarray(pairs.X, float), in_float64(prior)
    rows = rows_of(pairs._replace(X=X), prior, learning_rate)
    c, k = prior.knots.shape
    chosen = np.append(0, 1 + np.arange(c * k).reshape(c, k)[[*curves]].ravel())
    rows = rows._replace(Z=rows.Z[:, chosen])
    beta = _refit(rows, precisions(prior)[chosen], np.full(len(chosen), 0.1))
    return float(
        _explained(rows, beta, *(np.asarray(e) for e in (pairs.i, pairs.j)))[0]
    )


def _refit(rows: Rows, precision: np.ndarray, start: np.ndarray) -> np.ndarray:
    beta, result, trace, _ = climb(rows, precision, start, tol=1e-9)
    if result != Result.CONVERGED:
        raise RuntimeError(
            f"A refit did not converge ({result.name} after {len(trace)} steps): "
            f"{REMEDY[result]}."
        )
    return beta


def _explained(
    rows: Rows, beta: np.ndarray, i: np.ndarray, j: np.ndarray
) -> Float[np.ndarray, "g"]:
    """Return D for all pairs, and D without the pairs of each site."""
    n = int(max(i.max(), j.max())) + 1

    def sums(values: np.ndarray) -> np.ndarray:
        twice = np.bincount(j[i != j], values[i != j], n)
        total = values.sum()
        return np.append(total, total - np.bincount(i, values, n) - twice)

    shared, other = np.asarray(rows.shared), np.asarray(rows.other)
    total, t = shared + other, rows.Z @ beta
    share = np.divide(shared, total, out=np.zeros_like(total), where=total > 0)
    saturated = sums(xlogy(shared, share) + xlogy(other, 1 - share))
    fitted = sums(xlogy(other, -np.expm1(-t)) - shared * t)
    a, m = sums(shared), sums(other)
    null = xlogy(a, a / (a + m)) + xlogy(m, m / (a + m))
    return 1 - (saturated - fitted) / (saturated - null)
