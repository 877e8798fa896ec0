"""Scores, ratios of items and α from pairs, compared with stacked normal densities.

Reference: the joint density of any number of instances of one source, from the normal
density of all of them side by side, covariance 1 1ᵀ ⊗ B + I ⊗ W, component by
component, without the rows and columns of missing entries. Components are moved
together (``near``) to leave none certain; database elements have another noise.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import multivariate_normal
from scipy.linalg import block_diag
from scipy.special import logsumexp
from scipy.stats import multivariate_normal as normal

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient, zero
from probmetric.data.containers import Groups
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.two_stage.pairs import (
    fit_alpha,
    log_joint_small_alpha,
)
from probmetric.inference.two_stage.target import Fitted, log_units, pack
from probmetric.metric import PairSimilarity
from probmetric.metric.items import items_of, log_ratios
from probmetric.metric.pair_similarity import SCORES
from probmetric.models.two_stage import TwoStageParams, to_metric
from probmetric.typing import Array

ODDS, ALPHA = 0.3, 0.35
SOME = "log_ratio", "kernel"
"""Scores that are taken of rows with missing entries too."""

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
    params: TwoStageParams, instances: Array, noise: Sequence[float] | None = None
) -> np.ndarray:
    """Return log c_k p(rows | k) of one source, the noise of each times a factor."""
    rows = np.asarray(instances)
    n, there = len(rows), ~np.isnan(rows).ravel()
    logs: list[float] = []
    for c, mu, W, B in zip(*map(np.asarray, params), strict=True):
        within = block_diag(*(f * W for f in noise or np.ones(n)))
        S = np.kron(np.ones((n, n)), B) + within
        mean, S = np.tile(mu, n)[there], S[np.ix_(there, there)]
        density = normal.logpdf(rows.ravel()[there], mean, S) if there.any() else 0.0
        logs.append(float(np.log(c)) + float(density))
    return np.array(logs)


def some_rows(problem: Problem[Groups], missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return five queries and six elements near the mean, with holes or without."""
    X = np.asarray(problem.data.X, float)
    X = X.mean(0) + 0.4 * (X[np.linspace(0, len(X) - 1, 11).astype(int)] - X.mean(0))
    if missing and X.shape[1] > 1:
        X[1, 0] = X[3, 1] = X[7, -1] = X[8, 0] = np.nan
    return X[:5], X[5:]


def _score(
    score: str, both: np.ndarray, q: np.ndarray, y: np.ndarray, each: Sequence[float]
) -> float:
    """Return a score from log c_k p of both, of each, and log p of each twice."""
    total = logsumexp(both)
    if score == "joint":
        return total
    if score == "kernel":
        return total - sum(each) / 2
    if score == "vq":
        return both[np.argmax(y)] - logsumexp(y)
    return total - logsumexp(y) - (logsumexp(q) if score == "log_ratio" else 0.0)


def scores_by_stacking(problem: Problem[Groups]) -> Values:
    """Score all pairs by the joint density of their entries, component by component."""
    params, table = near(problem), dict[str, np.ndarray]()
    noise = 1.0, NOISE
    for missing in (False, True):
        Q, Y = some_rows(problem, missing)
        label = ", missing" * missing
        of_q = [log_parts(params, x[None]) for x in Q]
        of_y = [log_parts(params, x[None], noise[1:]) for x in Y]
        twice = [
            [float(logsumexp(log_parts(params, np.stack([x, x]), noise))) for x in rows]
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
        resp = parts - logsumexp(parts, 1, keepdims=True)
        table["P(k | x)" + label] = np.exp(resp)
    return table


def scores(problem: Problem[Groups], swap: bool = False) -> Values:
    """Return the same of ``PairSimilarity``; wrong: the noises of Q and Y exchanged."""
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


def _sources(problem: Problem[Groups], missing: bool = False) -> Groups:
    """Return six sources of one to three instances, weights 1 and 2, near the mean."""
    Q, Y = some_rows(problem, missing)
    group = np.array([0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 5])
    return Groups(np.concatenate([Q, Y]), group, 1.0 + np.arange(11) % 2)


QUESTIONED = np.array([0, 0, 1, 1, 2])
"""Items of the queries."""


def items_by_stacking(problem: Problem[Groups]) -> Values:
    """Divide the density of all measurements of two items by those of each."""
    params, groups, Q = near(problem), _sources(problem), some_rows(problem, False)[0]
    X, group = np.asarray(groups.X), np.asarray(groups.group)
    sources = [X[group == g] for g in np.unique(group)]
    items = [Q[QUESTIONED == k] for k in range(3)]

    def log_p(*rows: np.ndarray) -> float:
        return float(logsumexp(log_parts(params, np.concatenate(rows))))

    holes = np.asarray(_sources(problem, True).X)
    return {
        "log ratio": [
            [log_p(q, y) - log_p(q) - log_p(y) for y in sources] for q in items
        ],
        "log p(X_i)": [log_p(s) for s in sources],
        "log p(X_i), missing": [log_p(holes[group == g]) for g in np.unique(group)],
        "EQ-3": _small_alpha_by_hand(problem),
    }


def _pairs(problem: Problem[Groups]) -> tuple[MixtureParams, np.ndarray, np.ndarray]:
    p = near(problem)
    Q = np.concatenate(some_rows(problem, False))
    noise = np.random.default_rng(2).normal(size=Q.shape)
    Y = 0.8 * Q + 0.2 * Q.mean(0) + 0.6 * noise
    return MixtureParams(p.weights, p.means, p.within + p.between), Q, Y


def _small_alpha_by_hand(problem: Problem[Groups]) -> np.ndarray:
    mixture, Q, Y = _pairs(problem)
    zero_mean, terms = np.zeros(Q.shape[1]), list[np.ndarray]()
    for c, mu, S in zip(*map(np.asarray, mixture), strict=True):
        apart = normal.logpdf(Q - Y, zero_mean, 2 * ALPHA * S)
        terms.append(np.log(c) + apart + normal.logpdf((Q + Y) / 2, mu, S))
    return logsumexp(np.array(terms), 0)


def items(problem: Problem[Groups], one: bool = False) -> Values:
    """Return the same in closed form; wrong: only the first measurement of an item."""
    params, groups, Q = near(problem), _sources(problem), some_rows(problem, False)[0]
    X, group = np.asarray(groups.X), np.asarray(groups.group)
    if one:
        X, group = X[np.unique(group, return_index=True)[1]], np.unique(group)
    left, right = (
        items_of(rows, of, X.shape[1], "rows")
        for rows, of in ((Q, QUESTIONED), (X, group))
    )

    def units(data: Groups) -> Array:
        fitted = Fitted(data, problem.prior, params, False, None)
        return log_units(params, pack(fitted)[0])

    return {
        "log ratio": log_ratios(to_metric(params), left, right),
        "log p(X_i)": units(groups),
        "log p(X_i), missing": units(_sources(problem, True)),
        "EQ-3": log_joint_small_alpha(
            *_pairs(problem)[:1], ALPHA, *_pairs(problem)[1:]
        ),
    }


def alpha_slope(problem: Problem[Groups], weighted: bool = True) -> Values:
    """Differentiate the density of pairs at the fitted α; compare the objective."""
    mixture, Q, Y = _pairs(problem)
    w = 0.5 + np.arange(len(Q)) % 3
    both = np.concatenate([Q, Y], 1)
    result: dict[str, Any] = {}
    for name, each in (("common α", False), ("α of each component", True)):
        end = fit_alpha(
            mixture,
            Q,
            Y,
            w=w if weighted else None,
            per_component=each,
            tol=1e-14,
            max_steps=3000,
        )
        alpha = np.asarray(end.params)
        value, slope = (np.asarray(v) for v in _stacked(alpha, mixture, both, w))
        # At the end α = 1 the density may still rise.
        result[f"slope in {name}"] = np.where(alpha < 1, slope, np.maximum(-slope, 0))
        result[f"log likelihood, {name}"] = value - np.asarray(end.objective)
    return result


@jax.jit
@jax.value_and_grad
def _stacked(alpha: Array, mixture: MixtureParams, both: Array, w: Array) -> Array:
    a = jnp.broadcast_to(alpha, mixture.weights.shape)
    terms = [
        jnp.log(c)
        + multivariate_normal.logpdf(
            both, jnp.tile(mu, 2), jnp.block([[S, (1 - t) * S], [(1 - t) * S, S]])
        )
        for c, mu, S, t in zip(*mixture, a, strict=True)
    ]
    return w @ jax.scipy.special.logsumexp(jnp.stack(terms), 0)


CHECKS = (
    by_algebra(
        "scores of pairs equal ratios of joint densities, also with missing entries",
        reference=scores_by_stacking,
        estimate=scores,
        controls={"the noises of Q and Y exchanged": partial(scores, swap=True)},
        rtol=1e-8,
    ),
    by_algebra(
        "likelihood ratios of items equal ratios of joint densities",
        reference=items_by_stacking,
        estimate=items,
        controls={"items of one measurement": partial(items, one=True)},
    ),
    by_gradient(
        "α from pairs is a stationary point of their joint density",
        reference=zero,
        estimate=alpha_slope,
        controls={
            "weights of the pairs left out": partial(alpha_slope, weighted=False)
        },
        atol=1e-5,
    ),
)
