"""Scores of pairs compared with stacked normal densities.

The reference stacks all instances of one source in a vector. In each component the
vector is normal with covariance 1 1ᵀ ⊗ B + I ⊗ W, without the rows and columns of
missing entries. The components are moved together (``near``), so none is certain.
Database elements have another noise than queries.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal as normal

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.data.containers import Groups
from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import SCORES
from probmetric.models.two_stage import TwoStageParams
from probmetric.typing import Array

ODDS = 0.3
SOME = "log_ratio", "kernel"
"""Scores that are also checked for rows with missing entries."""

NOISE = 1.6
"""Noise of database elements, relative to the noise of queries."""


def near(problem: Problem[Groups]) -> TwoStageParams:
    """Return parameters whose components overlap: three of them, all different."""
    c, mu, W, B = (np.asarray(a, float) for a in problem.params)
    mean = mu.mean(0)
    mu = mean + 0.3 * (mu - mean)
    first = np.r_[: len(c), [0] * max(3 - len(c), 1)]
    c, mu, W, B = (a[first] for a in (c, mu, W, B))
    for k, far in ((-1, 0.5), (1, -0.5))[: 1 + (len(problem.params.weights) == 1)]:
        mu[k] += far
        W[k], B[k] = (1 + far) * W[k], (1 - 0.8 * far) * B[k]
    c[0] *= 0.5
    return TwoStageParams(c / c.sum(), mu, W, B)


def log_parts(
    params: TwoStageParams, instances: Array, noise: Sequence[float]
) -> np.ndarray:
    """Return log c_k p(rows | k) of one source; ``noise`` has a factor of W by row."""
    rows = np.asarray(instances)
    n, there = len(rows), ~np.isnan(rows).ravel()
    logs: list[float] = []
    for c, mu, W, B in zip(*map(np.asarray, params), strict=True):
        within = block_diag(*(f * W for f in noise))
        S = np.kron(np.ones((n, n)), B) + within
        mean, S = np.tile(mu, n)[there], S[np.ix_(there, there)]
        density = normal.logpdf(rows.ravel()[there], mean, S)
        logs.append(float(np.log(c)) + float(density))
    return np.array(logs)


def some_rows(problem: Problem[Groups], missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return five queries and six elements near the mean, with or without NaN."""
    X = np.asarray(problem.data.X, float)
    X = X.mean(0) + 0.4 * (X[np.linspace(0, len(X) - 1, 11).astype(int)] - X.mean(0))
    if missing and X.shape[1] > 1:
        X[1, 0] = X[3, 1] = X[7, -1] = X[8, 0] = np.nan
    return X[:5], X[5:]


def _score(
    score: str, both: np.ndarray, q: np.ndarray, y: np.ndarray, each: Sequence[float]
) -> float:
    """Return a score from log c_k p of both, of each, and of each one twice."""
    total, at_q, at_y = (float(np.logaddexp.reduce(log_p)) for log_p in (both, q, y))
    if score == "joint":
        return total
    if score == "kernel":
        return total - sum(each) / 2
    if score == "vq":
        return float(both[np.argmax(y)]) - at_y
    return total - at_y - (at_q if score == "log_ratio" else 0.0)


def scores_by_stacking(problem: Problem[Groups]) -> Values:
    """Score all pairs by the joint density of their entries, component by component."""
    params, table = near(problem), dict[str, np.ndarray]()
    noise = 1.0, NOISE
    for missing in (False, True):
        Q, Y = some_rows(problem, missing)
        label = ", missing" * missing
        of_q = [log_parts(params, x[None], noise[:1]) for x in Q]
        of_y = [log_parts(params, x[None], noise[1:]) for x in Y]
        twice = [
            [
                float(np.logaddexp.reduce(log_parts(params, np.stack([x, x]), noise)))
                for x in rows
            ]
            for rows in (Q, Y)
        ]
        both = [[log_parts(params, np.stack([q, y]), noise) for y in Y] for q in Q]
        for score in SOME if missing else SCORES:
            table[score + label] = np.array(
                [
                    [
                        _score(score, b, of_q[i], of_y[j], (twice[0][i], twice[1][j]))
                        for j, b in enumerate(row)
                    ]
                    for i, row in enumerate(both)
                ]
            )
        odds = ODDS * np.exp(table["log_ratio" + label])
        table["P(same)" + label] = odds / (1 + odds)
        parts = np.array(of_q)
        resp = parts - np.logaddexp.reduce(parts, axis=1, keepdims=True)
        table["P(k | x)" + label] = np.exp(resp)
    return table


def scores(problem: Problem[Groups], swap: bool = False) -> Values:
    """Return the scores of ``PairSimilarity``; wrong: noises of Q and Y exchanged."""
    params, table = near(problem), dict[str, Any]()
    noise = params.within, NOISE * params.within
    first, second = noise[::-1] if swap else noise
    plain = PairSimilarity(
        np.log(params.weights), params.means, params.between, first, second
    )
    for missing in (False, True):
        Q, Y = some_rows(problem, missing)
        label = ", missing" * missing
        for score in SOME if missing else SCORES:
            table[score + label] = -np.asarray(
                replace(plain, score=score).pairwise(Q, Y)
            )
        A, B = np.broadcast_to(Q[:, None], (len(Q), *Y.shape)), np.stack([Y] * len(Q))
        table["P(same)" + label] = plain.same_probability(A, B, prior_odds=ODDS)
        table["P(k | x)" + label] = np.exp(np.asarray(plain.log_responsibilities(Q)))
    return table


CHECKS = (
    by_algebra(
        "scores of pairs equal ratios of joint densities, also with missing entries",
        reference=scores_by_stacking,
        estimate=scores,
        controls={"the noises of Q and Y exchanged": partial(scores, swap=True)},
        rtol=1e-8,
    ),
)
