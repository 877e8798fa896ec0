"""LCA's second derivatives and certificate compared with automatic derivatives.

Everything is differentiated in θ = (vec W, log b).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.checks.check import Problem, Values, by_gradient
from probmetric.checks.claims import (
    Change,
    Sites,
    hessian,
    prior_times,
    reweighted,
    same,
)
from probmetric.checks.lca.density import points, rate_of
from probmetric.data.containers import Pairs, weights
from probmetric.inference.lca.curvature import certificate, generalized_rate, precision
from probmetric.inference.lca.likelihood import to_params
from probmetric.inference.lca.statistics import prepare
from probmetric.models.lca import LCAParams, lca
from probmetric.typing import Array


def _params(at: Sites) -> LCAParams:
    return LCAParams(*(np.asarray(v) for v in to_params(at)))


def _precision(problem: Problem[Pairs], at: Sites) -> Any:
    stats = prepare(problem.data)
    return precision(_params(at), stats, problem.prior, rate_of(problem))


@partial(jax.jit, static_argnames="shape")
def _scores(theta: Array, delta: Array, shape: tuple[int, ...]) -> Any:
    """Return log P(y) (N, 2) of either label, and their gradients (N, 2, q)."""

    def both(at: Array, delta: Array) -> Array:
        W, b = at[:-1].reshape(shape), jnp.exp(at[-1])
        t = b + 0.5 * jnp.sum((W @ delta) ** 2) * jnp.exp(-2 * b / shape[0])
        return jnp.stack([jnp.log(-jnp.expm1(-t)), -t])

    def by_pair(function: Callable[..., Array]) -> Array:
        return jax.vmap(function, (None, 0))(theta, delta)

    return by_pair(both), by_pair(jax.jacrev(both))


def _by_scores(problem: Problem[Pairs]) -> Values:
    """Return η_G from the scores of pairs, and Γ, the likelihood's gradient in M."""
    pairs, prior, at = problem.data, problem.prior, points(problem)[1]
    W, b = np.asarray(at["W"]), np.exp(float(at["log_b"]))
    delta, y = np.asarray(pairs.X[pairs.i] - pairs.X[pairs.j]), np.asarray(pairs.y)
    w, theta = np.asarray(weights(pairs), float), np.append(W, at["log_b"])
    log_p, score = (np.asarray(a) for a in _scores(theta, delta, W.shape))
    expected = (w[:, None] * np.exp(log_p))[..., None] * score
    information = np.einsum("nyi,nyj->ij", expected, score)
    score = w[:, None] * np.take_along_axis(score, y[:, None, None], 1)[:, 0]
    # A pair counts at both of its points.
    U = np.zeros((len(pairs.X), len(theta)))
    for end in (pairs.i, pairs.j):
        np.add.at(U, np.asarray(end), score)
    on_W = float(prior.lam) / float(np.asarray(prior.c)) ** 2
    on_prior = np.append(np.full(W.size, on_W), prior.b_rate * b) / rate_of(problem)
    ratio = np.linalg.solve(information + np.diag(on_prior), np.eye(len(theta)))

    def likelihood(M: Array) -> Array:
        t = b + 0.5 * jnp.sum((delta @ M) * delta, -1)
        return w @ jnp.where(y == 1, -t, jnp.log(-jnp.expm1(-t)))

    M = W.T @ W / np.exp(2 * b / len(W))
    Gamma = np.asarray(jax.jit(jax.grad(likelihood))(M))
    unit = np.linalg.norm((delta * w[:, None]).T @ delta, 2) / 2
    return {
        "η_G": np.sum(ratio * information) / np.sum(ratio * (U.T @ U)),
        "largest eigenvalue of Γ": np.linalg.eigvalsh(Gamma)[-1] / unit,
        "ΓW'": np.abs(Gamma @ W.T).max() / unit,
    }


def _certified(problem: Problem[Pairs], change: Change = same) -> Values:
    params, pairs = _params(points(problem)[1]), change(problem).data
    entries = certificate(params, prepare(pairs))
    return {
        "η_G": generalized_rate(params, pairs, problem.prior, rate_of(problem)),
        "largest eigenvalue of Γ": entries.largest,
        "ΓW'": entries.stationarity,
    }


CHECKS = (
    hessian(
        lca,
        points,
        _precision,
        ("W", "log_b"),
        wrong={"another prior width": prior_times(lam=1.01)},
        rtol=1e-7,
    ),
    by_gradient(
        "certificate and learning rate of the points follow from scores by autodiff",
        reference=_by_scores,
        estimate=_certified,
        controls={"other data weights": partial(_certified, change=reweighted)},
        rtol=1e-8,
    ),
)
