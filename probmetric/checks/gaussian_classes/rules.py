"""GLML's rules, distances, γ and reach, from what defines them.

A rule's matrix A at a point is the minimiser that ``metric.glml`` states, found by
bracketing its one unknown (scipy), of the matrix B made from densities differentiated
automatically.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.linalg import expm, logm
from scipy.optimize import brentq
from scipy.special import gamma

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.checks.gaussian_classes.posterior import n_classes
from probmetric.checks.gaussian_classes.problems import on_overlapping
from probmetric.checks.sides import inverse
from probmetric.data.containers import Labelled
from probmetric.densities.classes import ClassDensities, class_log_densities
from probmetric.inference.gaussian_classes.local_metric import (
    choose_gamma,
    drawn_metrics,
    expected_bias_metric,
    expected_squared_reach,
    log_euclidean,
    student_metric,
)
from probmetric.inference.gaussian_classes.posterior import (
    draw,
    posterior,
    posterior_mean,
    statistics,
)
from probmetric.inference.gaussian_classes.predict import (
    predictive,
)
from probmetric.metric import LocalMahalanobis
from probmetric.metric.glml import MAX_MULTIPLIER
from probmetric.metric.local import local_metric
from probmetric.models.gaussian_classes import (
    to_densities,
)
from probmetric.typing import Array

N_PLACES = 4

GRID = np.inf, 3.0, 0.4, 0.0
"""Of γ, in the order in which it is tried."""

AVERAGED = "min_norm", "regularised"
"""Metrics whose votes are averaged."""

RULES: tuple[Any, ...] = ("zero_bias", "min_norm", "regularised", "fisher")


def _places(problem: Problem[Labelled]) -> np.ndarray:
    X = np.asarray(problem.data.X, float)
    some = X[np.linspace(0, len(X) - 1, N_PLACES).astype(int)]
    # Nearer the middle, where no class is certain and sums of all of them not rounding.
    return X.mean(0) + 0.5 * (some - X.mean(0))


def _unit(a: np.ndarray) -> np.ndarray:
    live = a > 0
    return a / np.exp(np.log(a[live]).mean())


@jax.jit
def _derivatives(classes: ClassDensities, x: Array) -> tuple[Array, Array, Array]:
    """Return ρ, ∇ log p and ∇∇p/p of every class, by autodiff."""

    def logs(at: Array) -> Array:
        return class_log_densities(classes, at)

    score, H = jax.jacobian(logs)(x), jax.hessian(logs)(x)
    rho = jax.nn.softmax(classes.log_prior + logs(x))
    return rho, score, H + score[:, :, None] * score[:, None]


def _bias(classes: ClassDensities, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return B = Σ ρ_i (s - ρ_i) ∇∇p_i/p_i at a point, and the Fisher matrix."""
    rho, score, H = (np.asarray(a) for a in _derivatives(classes, jnp.asarray(x)))
    B = np.einsum("c,cij->ij", rho * (np.sum(rho**2) - rho), H)
    off = score - rho @ score
    return B, np.einsum("c,ci,cj->ij", rho, off, off)


def _by_rule(rule: str, B: np.ndarray, F: np.ndarray, epsilon: float) -> np.ndarray:
    """Return A of determinant one, from the problem that the rule solves."""
    values, U = np.linalg.eigh(F if rule == "fisher" else B)
    d = len(values)
    if rule == "zero_bias":
        up, down = np.sum(values > 0), np.sum(values < 0)
        a = np.where(values > 0, up * values, -down * values)
        a = np.where(a > 1e-13 * a.max(), a, 0.0)
    elif rule == "fisher":
        a = np.where(values > 1e-12 * values.max(), values, 0.0)
    elif rule == "min_norm":
        scaled = values / np.abs(values).max()

        def gap(tau: float) -> float:
            return float(np.sum(scaled * np.exp(-np.arcsinh(tau * scaled / 2))))

        ends = gap(-MAX_MULTIPLIER), gap(MAX_MULTIPLIER)
        tau = MAX_MULTIPLIER * np.sign(ends[0])
        if ends[0] * ends[1] < 0:
            tau = brentq(gap, -MAX_MULTIPLIER, MAX_MULTIPLIER, xtol=1e-14)
        a = np.exp(np.arcsinh(tau * scaled / 2))
    else:
        size = np.sqrt(np.sum(B**2) / d)

        def stays(t: float) -> float:
            return float(values / size @ _penalised(t * values / size, epsilon)) - t

        t = brentq(stays, -np.sqrt(d), np.sqrt(d), xtol=1e-15)
        a = 1 / _penalised(t * values / size, epsilon)
    return (U * _unit(a)) @ U.T


def _penalised(g: np.ndarray, epsilon: float) -> np.ndarray:
    """Return p > 0 of g + εp = 1/p."""
    return (np.sqrt(g**2 + 4 * epsilon) - g) / (2 * epsilon)


def _shares(A: np.ndarray, gamma_: float) -> np.ndarray:
    d = len(A)
    if np.isinf(gamma_):
        return np.eye(d)
    mixed = gamma_ * np.eye(d) + d * A / np.trace(A)
    values, U = np.linalg.eigh(mixed)
    return (U * _unit(np.where(values > 1e-9 * values[-1], values, 0.0))) @ U.T


def _metrics(problem: Problem[Labelled]) -> dict[str, LocalMahalanobis]:
    """Return metrics to check by name: each rule, with γ and ε of its own."""
    stats = statistics(problem.data, n_classes(problem))
    post = posterior(stats, problem.prior)
    whole = student_metric(post)
    found = {rule: student_metric(post, rule=rule) for rule in RULES}
    found["min_norm, γ = 0.7"] = student_metric(post, gamma=0.7)
    found["min_norm, γ = ∞"] = student_metric(post, gamma=np.inf)
    diagonal = posterior(stats, problem.prior, covariance="diagonal")
    found["diagonal"] = student_metric(diagonal)
    draws = draw(jax.random.key(1), post, 5)
    found["expected bias"] = expected_bias_metric(draws, whole, epsilon=0.3)
    found["one draw"] = drawn_metrics(draws, whole)[3]
    return found


def _input_densities(problem: Problem[Labelled]) -> dict[str, ClassDensities]:
    stats = statistics(problem.data, n_classes(problem))
    post = posterior(stats, problem.prior)
    draws = draw(jax.random.key(1), post, 5)
    each = [to_densities(jax.tree.map(lambda a, k=k: a[k], draws)) for k in range(5)]
    diagonal = posterior(stats, problem.prior, covariance="diagonal")
    return {
        **{f"draw {k}": one for k, one in enumerate(each)},
        "predictive": predictive(post),
        "diagonal": to_densities(posterior_mean(diagonal)),
    }


@on_overlapping
def rules_by_hand(problem: Problem[Labelled]) -> Values:
    """Solve each rule's own problem in whitened coordinates; carry A to the inputs."""
    known, found = _input_densities(problem), dict[str, np.ndarray]()

    def frame(classes: ClassDensities) -> np.ndarray:
        L = np.asarray(classes.factor)[:, 0]
        share = np.exp(np.asarray(classes.log_prior))[:, None, None]
        pooled = np.sum(share / share.sum() * (L @ np.swapaxes(L, 1, 2)), 0)
        return inverse(np.linalg.cholesky(pooled))

    shared = frame(known["predictive"])

    def at(name: str, rule: str, F: np.ndarray, gamma_: float = 0.0) -> np.ndarray:
        rows: list[np.ndarray] = []
        back = inverse(F)
        for x in _places(problem):
            B, info = _bias(known[name], x)
            B, info = back.T @ B @ back, back.T @ info @ back
            rows.append(F.T @ _shares(_by_rule(rule, B, info, 0.05), gamma_) @ F)
        return np.stack(rows)

    for rule in RULES:
        found[rule] = at("predictive", rule, shared)
    found["min_norm, γ = 0.7"] = at("predictive", "min_norm", shared, 0.7)
    found["min_norm, γ = ∞"] = at("predictive", "min_norm", shared, np.inf)
    found["diagonal"] = at("diagonal", "min_norm", frame(known["diagonal"]))
    found["one draw"] = at("draw 3", "min_norm", frame(known["draw 3"]))
    # Of the expected bias: E tr(PB)B + εP - P⁻¹ = 0, with P up to a factor from A.
    found["expected bias"] = np.zeros((N_PLACES, *shared.shape))
    for way in ("all pairs", "one query", "short list"):
        Q, P = _places(problem)[:2], np.asarray(problem.data.X[:7], float)
        delta = P[None] - Q[:, None]
        M = found["min_norm"][:2]
        found[f"distances, {way}"] = np.einsum("mni,mij,mnj->mn", delta, M, delta)
    found["distances, rescaled"] = found["distances, all pairs"]
    found["as it comes"] = found["min_norm"]
    one = np.eye(len(shared))
    for rule in ("regularised", "min_norm"):
        # In other units, and with no frame: A has no scale of its own.
        found[f"{rule}, wide units"] = at("predictive", rule, one)
    return found


@on_overlapping
def rules(problem: Problem[Labelled], gamma_: float | None = None) -> Values:
    """Return A at the same places; under another γ, if asked."""
    metrics, X = _metrics(problem), _places(problem)
    if gamma_ is not None:
        wrong = student_metric(
            posterior(statistics(problem.data, n_classes(problem)), problem.prior),
            gamma=gamma_,
        )
        metrics["min_norm, γ = 0.7"] = wrong
    found: dict[str, Any] = {
        name: np.asarray(metric.matrix_at(X)) for name, metric in metrics.items()
    }
    classes = _input_densities(problem)["predictive"]
    found["as it comes"] = np.asarray(local_metric(classes).matrix_at(X))
    wide = classes._replace(loc=30.0 * classes.loc, factor=30.0 * classes.factor)
    for rule in ("regularised", "min_norm"):
        metric = local_metric(wide, rule=rule, frame="identity")
        found[f"{rule}, wide units"] = np.asarray(metric.matrix_at(30.0 * X))
    F = np.asarray(metrics["min_norm"].frame)
    back, known = inverse(F), _input_densities(problem)
    d, rest = len(F), list[np.ndarray]()
    for x, M in zip(X, found["expected bias"], strict=True):
        B = np.stack([_raw_bias(known[f"draw {k}"], x) for k in range(5)])
        B = np.einsum("ia,sij,jb->sab", back, B, back)
        B = B / np.sqrt(np.mean(np.sum(B**2, (1, 2))) / d)
        P = inverse(back.T @ M @ back)
        t = np.einsum("ij,sij->s", P, B)
        size = d / (np.mean(t**2) + 0.3 * np.sum(P**2))
        P, t = np.sqrt(size) * P, np.sqrt(size) * t
        rest.append(np.mean(t[:, None, None] * B, 0) + 0.3 * P - inverse(P))
    found["expected bias"] = np.stack(rest)
    Q, P = X[:2], np.asarray(problem.data.X[:7], float)
    metric, idx = metrics["min_norm"], np.broadcast_to(np.arange(7), (2, 7))
    found["distances, all pairs"] = metric.pairwise(Q, P)
    found["distances, one query"] = np.stack([metric.dissimilarity(q, P) for q in Q])
    found["distances, short list"] = metric.refine(Q, P, idx)
    scale, offset = 0.5 + np.arange(d), 2.0 - np.arange(d)
    moved = metric.rescaled(scale, offset)
    found["distances, rescaled"] = moved.pairwise(
        offset + scale * Q, offset + scale * P
    )
    return found


def _raw_bias(classes: ClassDensities, x: np.ndarray) -> np.ndarray:
    """Return B on the scale that draws are averaged on: relative to the runner-up."""
    rho, _, H = (np.asarray(a) for a in _derivatives(classes, jnp.asarray(x)))
    if len(rho) == 2:
        return H[0] - H[1]
    best = int(np.argmax(rho))
    rest = np.flatnonzero(np.arange(len(rho)) != best)
    share = rho[rest] / rho[rest].max() * (np.sum(rho**2) - rho[rest])
    return np.einsum("c,cij->ij", share, H[rest] - H[best])


@on_overlapping
def choices_by_hand(problem: Problem[Labelled]) -> Values:
    """Leave points out one by one; integrate over distances; take matrix logarithms."""
    X, y = np.asarray(problem.data.X, float), np.asarray(problem.data.y)
    known = _metrics(problem)
    both = [known[name] for name in AVERAGED]
    n, k = len(X), 3
    rows = np.unique(np.linspace(0, n - 1, min(n, 500)).astype(int))
    matrices = [np.asarray(metric.frame_matrix_at(X)) for metric in both]
    matrices = [
        A * (X.shape[1] / np.trace(A, axis1=1, axis2=2))[:, None, None]
        for A in matrices
    ]
    scores: list[float] = []
    for g in GRID:
        total = 0.0
        for i in rows:
            members = np.sum(y == y[i]) - 1
            votes = members / (n - 1)
            for metric, A in zip(both, matrices, strict=True):
                delta = (X - X[i]) @ np.asarray(metric.frame).T
                own = np.einsum("nj,jk,nk->n", delta, A[i], delta)
                flat = np.sum(delta**2, 1)
                D = flat if np.isinf(g) else (g * flat + own) / (1 + g)
                D[i] = np.inf
                near = np.argsort(D)[:k]
                votes += np.sum(y[near] == y[i]) / len(both)
            total += np.log(votes / (k + 1))
        scores.append(total / len(rows))
    log_p, many, d = -2.0, 50, 3
    volume = np.pi ** (d / 2) / gamma(d / 2 + 1)
    # The nearest of n points of a constant density lies beyond r with this probability.
    reach = quad(
        lambda r: 2 * r * np.exp(-many * np.exp(log_p) * volume * r**d), 0, np.inf
    )[0]
    matrices = _some_matrices(problem)
    logs = np.stack([[logm(M) for M in row] for row in matrices])
    middle = logs.mean(0)
    spread = np.sqrt(np.mean(np.sum((logs - middle) ** 2, (2, 3)), 0))
    return {
        "scores of γ": scores,
        "place of the best": float(np.argmax(scores)),
        "E r²": reach,
        "mean of log A": np.stack([expm(M) for M in middle]),
        "spread of log A": spread,
    }


def _some_matrices(problem: Problem[Labelled]) -> np.ndarray:
    metrics = _metrics(problem)
    X = _places(problem)[:2]
    names = "min_norm", "regularised", "one draw"
    return np.stack([np.asarray(metrics[name].frame_matrix_at(X)) for name in names])


@on_overlapping
def choices(problem: Problem[Labelled], k: int = 3) -> Values:
    """Return the same of ``local_metric``; with another k, if asked."""
    X, y = np.asarray(problem.data.X, float), np.asarray(problem.data.y)
    known = _metrics(problem)
    both = [replace(known[name], gamma=0.7) for name in AVERAGED]
    best, scores = choose_gamma(both, X, y, k, gammas=(0.4, 0.0, 3.0))
    found = log_euclidean(_some_matrices(problem))
    return {
        "scores of γ": scores,
        "place of the best": float(GRID.index(best)),
        "E r²": expected_squared_reach(-2.0, 50, 3),
        "mean of log A": found.mean,
        "spread of log A": found.spread,
    }


CHECKS = (
    by_algebra(
        "A solves the problem of its rule, and distances are taken by it",
        reference=rules_by_hand,
        estimate=rules,
        controls={"another γ": partial(rules, gamma_=1.0)},
        rtol=1e-6,
        atol=1e-7,
    ),
    by_algebra(
        "γ, the reach and log-Euclidean means are what defines them",
        reference=choices_by_hand,
        estimate=choices,
        controls={"four neighbours for three": partial(choices, k=4)},
        rtol=1e-7,
    ),
)
