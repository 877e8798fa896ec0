"""LCA's second derivatives, refits and links, against autodiff of NumPyro's density.

Everything is differentiated in θ = (vec W, log b). The likelihood alone is NumPyro's
density with data weights less the same with weights of zero.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.infer.util import log_density
from scipy.linalg import null_space
from scipy.special import expit

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient, zero
from probmetric.checks.sides import density_of, inverse, one_distance
from probmetric.data.containers import Pairs, weights
from probmetric.inference.lca.bootstrap import bootstrap, dirichlet_weights
from probmetric.inference.lca.curvature import (
    certificate,
    generalised_rate,
    gradient,
    hessian,
    log_evidence,
    precision,
)
from probmetric.inference.lca.draws import log_likelihood
from probmetric.inference.lca.em import full_step, reduced_step, spectrum
from probmetric.inference.lca.fit import fit, scaled_identity, scaled_pca
from probmetric.inference.lca.jackknife import held_out_links
from probmetric.inference.lca.laplace import laplace
from probmetric.inference.lca.link import log_logistic
from probmetric.inference.lca.recipe import auto_regularization
from probmetric.inference.lca.statistics import prepare
from probmetric.inference.lca.target import position
from probmetric.models.lca import LCAParams, identified, lca, to_metric
from probmetric.typing import Array

N_REFITS = 3
N_GROUPS = 4


def rate_of(problem: Problem[Pairs]) -> float:
    """Return the learning rate of a problem."""
    return float(problem.options["learning_rate"])


def beside_the_mode(problem: Problem[Pairs]) -> Array:
    """Return θ at the problem's parameters, W moved off the mode."""
    at = position(problem.params)
    W = np.asarray(at["W"])
    noise = np.random.default_rng(3).normal(size=W.shape)
    W = W + 0.1 * np.sqrt(np.mean(W**2)) * noise
    return np.append(W.ravel(), at["log_b"])


def params_at(theta: Array, shape: tuple[int, ...]) -> LCAParams:
    """Return the parameters of θ = (vec W, log b)."""
    b = np.exp(float(theta[-1]))
    log_sigma2 = np.log(np.expm1(2 * b / shape[0]) / 2)
    W = np.asarray(theta[:-1]).reshape(shape)
    return LCAParams(W, np.asarray(log_sigma2))


def _density(problem: Problem[Pairs]) -> Callable[[Array, Array, float], Array]:
    """Return NumPyro's log density of θ, data weights and learning rate."""
    pairs, prior = problem.data, problem.prior
    shape = np.shape(problem.params.W)

    def value(theta: Array, w: Array, rate: float) -> Array:
        sites = {"W": theta[:-1].reshape(shape), "log_b": theta[-1]}
        args = pairs._replace(w=w), prior
        return jnp.asarray(log_density(lca, args, {"learning_rate": rate}, sites)[0])

    return value


def by_autodiff(problem: Problem[Pairs]) -> Values:
    """Differentiate NumPyro's density twice; restrict it as the rotations ask."""
    value, theta, rate = _density(problem), beside_the_mode(problem), rate_of(problem)
    w = jnp.asarray(weights(problem.data), float)

    def labels(at: Array) -> Array:
        return value(at, w, 1.0) - value(at, 0 * w, 1.0)

    H = -np.asarray(jax.jit(jax.hessian(lambda at: value(at, w, rate)))(theta))
    # At the mode: rotations of W change nothing, and draws leave them out.
    at = position(problem.params)
    mode = np.append(np.ravel(at["W"]), at["log_b"])
    at_mode = -np.asarray(jax.jit(jax.hessian(lambda at: value(at, w, rate)))(mode))
    W = np.asarray(at["W"])
    p = len(W)
    turns = [
        np.append((np.eye(p)[:, [a]] * W[b] - np.eye(p)[:, [b]] * W[a]).ravel(), 0.0)
        for a in range(p)
        for b in range(a)
    ]
    Q = null_space(np.array(turns)) if turns else np.eye(len(H))
    covariance = Q @ np.linalg.solve(Q.T @ at_mode @ Q, Q.T)
    return {
        "∇ℓ": jax.jit(jax.grad(labels))(theta),
        "∇²ℓ": jax.jit(jax.hessian(labels))(theta),
        "precision": H,
        "Laplace's covariance": covariance,
        "covariance with rotations": inverse(at_mode),
    }


def derivatives(problem: Problem[Pairs], wide: float = 1.0) -> Values:
    """Return the same in closed form; Laplace's root too wide, if asked."""
    stats, rate = prepare(problem.data), rate_of(problem)
    params = params_at(beside_the_mode(problem), np.shape(problem.params.W))
    own = problem.params, stats, problem.prior, rate
    roots = [wide * laplace(*own, quotient=q).root for q in (True, False)]
    return {
        "∇ℓ": gradient(params, stats),
        "∇²ℓ": hessian(params, stats),
        "precision": precision(params, stats, problem.prior, rate),
        "Laplace's covariance": roots[0] @ roots[0].T,
        "covariance with rotations": roots[1] @ roots[1].T,
    }


def _score_of_pairs(problem: Problem[Pairs], theta: Array) -> Any:
    """Return log P(y) (N, 2) of either label, and their gradients (N, 2, q)."""
    pairs = problem.data
    delta = np.asarray(pairs.X[pairs.i] - pairs.X[pairs.j])
    return _scores(theta, delta, np.shape(problem.params.W))


@partial(jax.jit, static_argnames="shape")
def _scores(theta: Array, delta: Array, shape: tuple[int, ...]) -> Any:
    def both(at: Array, delta: Array) -> Array:
        W, b = at[:-1].reshape(shape), jnp.exp(at[-1])
        t = b + 0.5 * jnp.sum((W @ delta) ** 2) * jnp.exp(-2 * b / shape[0])
        return jnp.stack([jnp.log(-jnp.expm1(-t)), -t])

    def by_pair(function: Any) -> Array:
        return jax.vmap(function, (None, 0))(theta, delta)

    return by_pair(both), by_pair(jax.jacrev(both))


def information_by_pair(problem: Problem[Pairs]) -> Values:
    """Sum scores and expected information pair by pair: η_G, evidence, certificate."""
    pairs, prior, rate = problem.data, problem.prior, rate_of(problem)
    theta = beside_the_mode(problem)
    params = params_at(theta, np.shape(problem.params.W))
    log_p, score = (np.asarray(a) for a in _score_of_pairs(problem, theta))
    w, y = np.asarray(weights(pairs), float), np.asarray(pairs.y)
    seen = (w[:, None] * np.exp(log_p))[..., None] * score
    information = seen.reshape(-1, len(theta)).T @ score.reshape(-1, len(theta))
    own = w[:, None] * np.take_along_axis(score, y[:, None, None], 1)[:, 0]
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    J = np.zeros_like(information)
    for point in range(len(pairs.X)):
        # A pair counts at both of its points.
        U = own[i == point].sum(0) + own[j == point].sum(0)
        J += np.outer(U, U)
    b = np.exp(float(theta[-1]))
    spread = float(np.asarray(prior.c)) ** 2 / float(prior.lam)
    shape = params.W.shape
    on_prior = np.append(np.full(params.W.size, 1 / spread), prior.b_rate * b)
    H = information + np.diag(on_prior) / rate
    # The Kronecker form of the information of W.
    delta = np.asarray(pairs.X[i] - pairs.X[j])
    g, nu = delta @ params.W.T, np.exp(log_p[:, 1] - log_p[:, 0])
    tau2 = np.exp(2 * b / shape[0])
    A = ((w * nu) * g.T) @ g / (tau2**2 * np.sum(w * nu))
    B = rate * ((w * nu) * delta.T) @ delta
    both = np.kron(A, B) + np.eye(params.W.size) / spread

    def likelihood(M: Array) -> Array:
        t = b + 0.5 * jnp.sum((delta @ M) * delta, -1)
        return w @ jnp.where(y == 1, -t, jnp.log(-jnp.expm1(-t)))

    Gamma = np.asarray(jax.jit(jax.grad(likelihood))(params.W.T @ params.W / tau2))
    whole = np.linalg.norm((delta * w[:, None]).T @ delta, 2) / 2
    return {
        "η_G": np.trace(np.linalg.solve(H, information))
        / np.trace(np.linalg.solve(H, J)),
        "log evidence": -5.0
        + params.W.size / 2 * np.log(2 * np.pi)
        - np.linalg.slogdet(both)[1] / 2,
        "largest of Γ": np.linalg.eigvalsh(Gamma)[-1] / whole,
        "ΓW'": np.abs(Gamma @ params.W.T).max() / whole,
    }


def information(problem: Problem[Pairs], weighted: bool = True) -> Values:
    """Return the same in closed form; data weights forgotten, if asked."""
    pairs, prior, rate = problem.data, problem.prior, rate_of(problem)
    pairs = pairs if weighted else pairs._replace(w=None)
    params = params_at(beside_the_mode(problem), np.shape(problem.params.W))
    found = certificate(params, prepare(pairs))
    return {
        "η_G": generalised_rate(params, pairs, prior, rate),
        "log evidence": log_evidence(params, pairs, -5.0, prior, rate),
        "largest of Γ": found.largest,
        "ΓW'": found.stationarity,
    }


def refit_slope(problem: Problem[Pairs], mean: bool = False) -> Values:
    """Differentiate NumPyro's density of pairs weighted by their points at a refit.

    With the sum of the weights of real points less their number, and of padding less 1.
    """
    pairs, prior, rate = problem.data, problem.prior, rate_of(problem)
    n = len(pairs.X)
    draws = [
        dirichlet_weights(jax.random.key(k), n, n + 5, float) for k in range(N_REFITS)
    ]
    u = np.stack([np.asarray(d)[:n] for d in draws])
    found = bootstrap(pairs, prior, problem.params, u, learning_rate=rate, tol=1e-9)
    w, i, j = np.asarray(weights(pairs)), np.asarray(pairs.i), np.asarray(pairs.j)
    slopes: list[np.ndarray] = []
    for k in range(N_REFITS):
        product = (u[k][i] + u[k][j]) / 2 if mean else u[k][i] * u[k][j]
        density = density_of(
            lca, (pairs._replace(w=w * product), prior), problem.options
        )
        at = jax.tree.map(lambda a, k=k: a[k], found.params)
        _, slope = density(position(at))
        total = np.sum(w * product) * rate
        slopes.append(np.append(np.ravel(slope["W"]), slope["log_b"]) / total)
    return {
        "slope": np.stack(slopes),
        "sum of the weights": u.sum(1) / n - 1,
        "weights of padding": np.stack([np.asarray(d)[n:] for d in draws]) - 1,
    }


def still(problem: Problem[Pairs], shift: float = 0.0) -> Values:
    """Take one step of either EM from the mode; from beside it, if asked."""
    stats, at = prepare(problem.data), position(problem.params)
    at["log_b"] = at["log_b"] + shift
    start = jax.tree.map(jnp.asarray, at)
    found: dict[str, Array] = {}
    for name, step, scatter in (
        ("reduced", reduced_step, stats.T),
        ("full", full_step, stats.S),
    ):
        data = stats, problem.prior, rate_of(problem), spectrum(scatter)
        moved, _ = jax.jit(step)(start, data)
        found[f"move of W, {name} EM"] = moved["W"] - start["W"]
        found[f"move of log b, {name} EM"] = moved["log_b"] - start["log_b"]
    return found


def per_anchor_slope(problem: Problem[Pairs], stop: int | None = None) -> Values:
    """Differentiate NumPyro's density where EM with a κ² per anchor ends."""
    pairs = problem.data
    # Anchors with both labels: pairs in turn, eight of each.
    order = np.argsort(np.argsort(np.asarray(pairs.y), kind="stable"))
    pairs = pairs._replace(anchor=order % (len(order) // 16 + 1))
    found = fit(
        pairs,
        problem.prior,
        solver="squarem",
        per_anchor=True,
        **problem.options,
        max_steps=stop or 3000,
        tol=1e-13,
    )

    def value(W: Array, log_kappa2: Array) -> Array:
        options = {**problem.options, "kappa2": jnp.exp(log_kappa2)}
        args = pairs, problem.prior
        return jnp.asarray(log_density(lca, args, options, {"W": W})[0])

    W = jnp.asarray(found.params.W)
    log_kappa2 = jnp.log(jnp.asarray(found.params.kappa2))
    slopes = jax.jit(jax.grad(value, (0, 1)))(W, log_kappa2)
    # The search for κ² ends at e^±30.
    inside = jnp.abs(log_kappa2) < 20
    total = float(np.sum(weights(pairs))) * rate_of(problem)
    return {
        "slope in W": slopes[0] / total,
        "slope in log κ²": jnp.where(inside, slopes[1], 0.0) / total,
    }


def _squares(problem: Problem[Pairs]) -> tuple[np.ndarray, np.ndarray]:
    pairs = problem.data
    delta = np.asarray(pairs.X[pairs.i] - pairs.X[pairs.j])
    return np.sum((delta @ np.asarray(problem.params.W).T) ** 2, 1), np.asarray(pairs.y)


def link_slope(problem: Problem[Pairs], plain: bool = False) -> Values:
    """Differentiate Platt's loss where the log-logistic link has it least."""
    D, y = _squares(problem)
    link = log_logistic(D, y, "all")
    near = log_logistic(D, y, "all", link)
    # Whole steps of Newton's lead away from there.
    far = replace(link, intercept=link.intercept + 9.0, slope=6 * link.slope + 1)
    far = log_logistic(D, y, "all", far)
    high, low = (y.sum() + 1) / (y.sum() + 2), 1 / (np.sum(1 - y) + 2)
    target = y if plain else np.where(y == 1, high, low)
    x = np.log(np.maximum(D, np.min(D[D > 0])))
    gap = target - expit(float(link.intercept) - float(link.slope) * x)
    reversed_ = log_logistic(D, 1 - y, "all")
    share = np.mean(
        np.where(y == 0, (np.sum(1 - y) + 1) / (np.sum(1 - y) + 2), 1 / (y.sum() + 2))
    )
    at_1, at_other = (link.probability(1.7, prior_odds=o) for o in (None, 0.4))
    odds = y.sum() / np.sum(1 - y)
    logs = [np.log(float(P) / (1 - float(P))) for P in (at_1, at_other)]
    return {
        "slope in the level": gap.mean(),
        "slope in γ": np.mean(gap * x),
        "from a start": float(near.slope) / float(link.slope) - 1,
        "from a start far off": float(far.slope) / float(link.slope) - 1,
        "floor": float(link.floor) - np.min(D[D > 0]),
        "odds": float(link.odds) / odds - 1,
        "moved to other odds": logs[1] - logs[0] - np.log(0.4 / odds),
        "log odds at 1.7": logs[0]
        - float(link.intercept)
        + float(link.slope) * np.log(1.7),
        "γ of labels that rise": float(reversed_.slope),
        "level of labels that rise": float(expit(reversed_.intercept)) - share,
    }


def _held_out_problem(problem: Problem[Pairs]) -> Any:
    """Return points, codes, groups, a map and maps that stand for its refits."""
    # So few points that all their pairs are taken: of many a part is drawn.
    X, W = np.asarray(problem.data.X)[:60], np.asarray(problem.params.W)
    rng = np.random.default_rng(5)
    codes = (X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
    group = np.arange(len(X)) % N_GROUPS
    refits = W + 0.1 * rng.normal(size=(N_GROUPS, *W.shape))
    return X, codes, group, W, refits


def links_pair_by_pair(problem: Problem[Pairs]) -> Values:
    """Fit links to held-out pairs, each measured by maps made for it."""
    X, codes, group, W, refits = _held_out_problem(problem)
    found: list[tuple[float, float]] = []
    for k in (None, *range(N_GROUPS)):
        D, same = list[float](), list[bool]()
        for a in range(len(X)):
            for b in range(len(X)):
                if group[a] == group[b] or k in (group[a], group[b]):
                    continue
                L = refits[group[a]] + (0 if k is None else refits[k] - W)
                D.append(float(np.sum((L @ (X[a] - X[b])) ** 2)))
                same.append(codes[a] == codes[b])
        link = log_logistic(np.array(D), np.array(same), "all")
        found.append((float(link.intercept), float(link.slope)))
    return {"(a, γ)": np.array(found)}


def links(problem: Problem[Pairs], own: bool = False) -> Values:
    """Return the same of ``held_out_links``; by the fit to all, if asked."""
    X, codes, group, W, refits = _held_out_problem(problem)
    refits = np.broadcast_to(W, refits.shape) if own else refits
    found = held_out_links(X, codes, group, W, refits)
    return {"(a, γ)": np.array([[float(f.intercept), float(f.slope)] for f in found])}


def defaults_by_hand(problem: Problem[Pairs]) -> Values:
    """Take the prior's centre and scale from medians, log likelihoods pair by pair."""
    pairs, d = problem.data, np.shape(problem.data.X)[1]
    X, w = np.asarray(pairs.X), np.asarray(weights(pairs))
    delta = (X[pairs.i] - X[pairs.j])[(np.asarray(pairs.y) == 1) & (w > 0)]
    covariance = np.cov(X.T)
    axis = np.linalg.eigh(np.atleast_2d(covariance))[1][:, -1]
    axis = axis * np.sign(axis[np.argmax(np.abs(axis))])
    squares = [np.sum(part**2, 1) for part in (delta, delta @ axis[:, None])]
    c = [np.median(square[square > 0]) ** -0.5 for square in squares]
    log_p, _ = _score_of_pairs(problem, beside_the_mode(problem))
    y = np.asarray(pairs.y)
    rows = np.take_along_axis(np.asarray(log_p), y[:, None], 1)[:, 0]
    return {
        "W₀": c[0] * np.eye(d),
        "c": c[0],
        "W₀ of a plane": c[1] * axis[None],
        "c of a plane": c[1],
        "λ": [10.0, 10.0, 25.0],
        "log p(y)": rate_of(problem) * w * rows,
    }


def defaults(problem: Problem[Pairs], forget: bool = False) -> Values:
    """Return the same of the package; the learning rate forgotten, if asked."""
    pairs = problem.data
    whole, line = scaled_identity(pairs), scaled_pca(pairs, 1)
    at = identified(params_at(beside_the_mode(problem), np.shape(problem.params.W)))
    rate = 1.0 if forget else rate_of(problem)
    M, b = (np.asarray(at[name])[None, None] for name in ("M", "b"))
    return {
        "W₀": whole[0],
        "c": whole[1],
        "W₀ of a plane": line[0],
        "c of a plane": line[1],
        "λ": [auto_regularization(n) for n in (1, 1000, 2500)],
        "log p(y)": log_likelihood(M, b, pairs, rate)[0, 0],
    }


CHECKS = (
    by_gradient(
        "derivatives, and Laplace's covariance without rotations, are autodiff's",
        reference=by_autodiff,
        estimate=derivatives,
        controls={"√2 too wide": partial(derivatives, wide=2**0.5)},
        rtol=1e-7,
    ),
    by_gradient(
        "η_G, evidence and certificate are sums over pairs",
        reference=information_by_pair,
        estimate=information,
        controls={"data weights forgotten": partial(information, weighted=False)},
        rtol=1e-8,
    ),
    by_gradient(
        "refits of the bootstrap are modes under weights of the points",
        reference=zero,
        estimate=refit_slope,
        controls={"mean for product of the weights": partial(refit_slope, mean=True)},
        atol=5e-5,
    ),
    by_gradient(
        "the mode is a fixed point of both EMs",
        reference=zero,
        estimate=still,
        controls={"beside the mode": partial(still, shift=0.1)},
        atol=1e-5,
    ),
    by_gradient(
        "EM with a κ² per anchor ends where the NumPyro density is stationary",
        reference=zero,
        estimate=per_anchor_slope,
        controls={"stopped after two cycles": partial(per_anchor_slope, stop=2)},
        atol=1e-5,
    ),
    by_gradient(
        "the log-logistic link has the least loss",
        reference=zero,
        estimate=link_slope,
        controls={"labels for Platt's targets": partial(link_slope, plain=True)},
        atol=1e-6,
    ),
    by_algebra(
        "links on held-out pairs are fitted to pairs that their maps have not seen",
        reference=links_pair_by_pair,
        estimate=links,
        controls={"the fit to all for its refits": partial(links, own=True)},
        rtol=1e-6,
    ),
    by_algebra(
        "centre, scale and λ of the prior, and log p(y), are what they say",
        reference=defaults_by_hand,
        estimate=defaults,
        controls={"learning rate forgotten": partial(defaults, forget=True)},
    ),
    one_distance(lambda problem: to_metric(problem.params)),
)
