"""LCA's EM steps, folded target and recipe, from what defines them.

The M-steps must maximise the expected log density of the latent points, pair by pair,
under the posterior that ``posterior`` checks by quadrature. Widths κ² other than 1 are
those of points divided by κ. The target for samplers is the model's own density at W
and at its mirror image. Pairs, prior and learning rate of the recipe by direct search.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats as scipy_stats
from scipy.spatial.distance import cdist

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient, zero
from probmetric.checks.lca.derivatives import beside_the_mode, params_at, rate_of
from probmetric.checks.sides import density_of
from probmetric.data.containers import Pairs, weights
from probmetric.inference.lca.bootstrap import bootstrap, memory_of_a_refit
from probmetric.inference.lca.em import m_step, moments, spectrum
from probmetric.inference.lca.latent import pair_posterior
from probmetric.inference.lca.likelihood import log_likelihood
from probmetric.inference.lca.recipe import Recipe, build, prior_for, rate_for
from probmetric.inference.lca.statistics import prepare
from probmetric.inference.lca.target import (
    MODEL_TARGET,
    TARGET,
    closed_form,
    position,
    target_data,
)
from probmetric.models.lca import LCAParams, LCAPrior, lca, mirrored
from probmetric.typing import Array

N_PAIRS = 120
"""Pairs of the checks that take matrices pair by pair: (2p)² numbers each."""

KAPPA2 = 1.7

N_FEATURES = 4


def _few(problem: Problem[Pairs]) -> tuple[Pairs, LCAParams]:
    """Return pairs of both labels, evenly spaced, and parameters beside the mode."""
    pairs = problem.data
    y, used = np.asarray(pairs.y), np.asarray(weights(pairs)) > 0
    chosen: list[np.ndarray] = []
    for label in (0, 1):
        own = np.flatnonzero((y == label) & used)
        size = min(len(own), N_PAIRS // 2)
        chosen.append(own[np.linspace(0, len(own) - 1, size).astype(int)])
    rows = np.concatenate(chosen)
    i, j = np.asarray(pairs.i)[rows], np.asarray(pairs.j)[rows]
    w = np.asarray(weights(pairs), float)[rows]
    few = Pairs(np.asarray(pairs.X), i, j, y[rows], w)
    return few, params_at(beside_the_mode(problem), np.shape(problem.params.W))


def _moments_by_pair(
    few: Pairs, params: LCAParams
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return E z, E z', E‖z - E z‖² and E‖u - E u‖² of each pair, u = z - z'."""
    i, j, y = (np.asarray(a) for a in (few.i, few.j, few.y))
    found = pair_posterior(
        few.X[i], few.X[j], y, params.W, np.exp(params.log_sigma2), params.kappa2
    )
    p = len(params.W)
    mean, cov = np.asarray(found.mean), np.asarray(found.cov)
    own = np.trace(cov[:, :p, :p], axis1=1, axis2=2)
    other = np.trace(cov[:, p:, p:], axis1=1, axis2=2)
    cross = np.trace(cov[:, :p, p:], axis1=1, axis2=2)
    return mean[:, :p], mean[:, p:], own, own + other - 2 * cross


def _priors(prior: LCAPrior) -> dict[str, LCAPrior]:
    return {"": prior, ", flat": prior._replace(lam=0.0, b_shape=0.0, b_rate=0.0)}


def step_slopes(problem: Problem[Pairs], spread: float = 1.0) -> Values:
    """Differentiate the expected log density where the M-steps end.

    In W at the old σ², and in log b at the new W; for a prior of W in units of σ in
    both at once. ``spread`` times the right latent variance is a wrong E-step.
    """
    few, params = _few(problem)
    rate, d, stats = rate_of(problem), few.X.shape[1], prepare(few)
    z, z_prime, own, of_u = _moments_by_pair(few, params)
    x, x_prime, w = few.X[few.i], few.X[few.j], np.asarray(few.w)
    right = moments(params, stats)
    given = right._replace(eps2=spread * right.eps2, cov_u=spread * right.cov_u)
    rows = (x, x_prime, w, z, z_prime, own, of_u)
    sigma2 = np.exp(params.log_sigma2)
    found: dict[str, Array] = {}
    total = rate * w.sum()
    for full, scaled in ((False, False), (True, False), (False, True), (True, True)):
        decomposed = spectrum(stats.S if full else stats.T)
        for name, prior in _priors(problem.prior).items():
            if name and np.linalg.matrix_rank(stats.T) < d:
                continue  # Without a prior the map is not unique.
            if name and scaled:
                continue
            options: Any = {"full": full, "scaled": scaled}
            W, log_b = _m_step(params, given, stats, prior, rate, decomposed, **options)
            in_W, in_b = _slopes(W, log_b, sigma2, prior, rate, rows, **options)
            said = f"{'full' if full else 'reduced'}{', scaled' * scaled}{name}"
            found[f"in W, {said}"] = np.asarray(in_W) / total
            found[f"in log b, {said}"] = np.asarray(in_b) / total
    return found


_m_step = jax.jit(m_step, static_argnames=("full", "scaled"))


@partial(jax.jit, static_argnames=("full", "scaled"))
def _slopes(
    W: Array,
    log_b: Array,
    old: Array,
    prior: LCAPrior,
    rate: Array,
    rows: Any,
    *,
    full: bool,
    scaled: bool,
) -> tuple[Array, Array]:
    """Differentiate the expected log density in W, then in log b.

    In W it is that at the old σ², unless the prior is in units of σ.
    """
    x, x_prime, w, z, z_prime, own, of_u = rows
    p, d = W.shape

    def expected(W: Array, log_b: Array | None) -> Array:
        s2 = old if log_b is None else jnp.expm1(2 * jnp.exp(log_b) / p) / 2
        if full:
            squares = jnp.sum((z - x @ W.T) ** 2 + (z_prime - x_prime @ W.T) ** 2, 1)
            squares = (squares + 2 * own) / (2 * s2) + p * jnp.log(s2)
        else:
            squares = jnp.sum((z - z_prime - (x - x_prime) @ W.T) ** 2, 1)
            squares = (squares + of_u) / (4 * s2) + p / 2 * jnp.log(s2)
        value = -rate * jnp.sum(w * squares)
        unit2 = s2 if scaled else jnp.asarray(prior.width) ** 2
        value -= prior.lam / unit2 * jnp.sum((W - prior.mean) ** 2) / 2
        if scaled:
            value -= p * d / 2 * jnp.log(s2)
        if log_b is not None:
            value += prior.b_shape * log_b - prior.b_rate * jnp.exp(log_b)
        return value

    in_W = jax.grad(expected)(W, log_b if scaled else None)
    return in_W, jax.grad(expected, 1)(W, log_b)


def sums_by_pair(problem: Problem[Pairs]) -> Values:
    """Sum the E-step pair by pair; the likelihood by normal densities, any κ²."""
    few, params = _few(problem)
    i, j, w, same = few.i, few.j, np.asarray(few.w), np.asarray(few.y) == 1
    delta, p = few.X[i] - few.X[j], len(params.W)
    found: dict[str, Any] = {}
    for name, k2 in (("", 1.0), (", κ² = 1.7", KAPPA2)):
        # Points divided by κ have the width one.
        unit = LCAParams(params.W / np.sqrt(k2), params.log_sigma2 - np.log(k2))
        z, z_prime, own, of_u = _moments_by_pair(few, unit)
        g, s2 = delta @ unit.W.T, np.exp(unit.log_sigma2)
        # E u = (1 - 2a) g.
        mean = z - z_prime
        along = np.sum(mean * g, 1) / np.maximum(np.sum(g**2, 1), 1e-300)
        a = (1 - along) / 2
        density = scipy_stats.norm.logpdf(g, 0.0, np.sqrt(1 + 2 * s2)).sum(1)
        log_p = density + p / 2 * np.log(2 * np.pi)
        rows = np.where(same, log_p, np.log(-np.expm1(log_p)))
        sums = {
            "log likelihood": w @ rows,
            "E-step's log likelihood": w @ rows,
            "WG": np.sqrt(k2) * (g * (w * a)[:, None]).T @ delta,
            "a²D": k2 * (w * a**2) @ np.sum(g**2, 1),
            "ε²": k2 * w @ own,
            "Cov u": k2 * w @ of_u,
            "ε² of each": k2 * own,
        }
        for way in ("points", "differences", "an anchor"):
            found |= {f"{key}{name}, by {way}": v for key, v in sums.items()}
    return found


def sums(problem: Problem[Pairs], kappa2: float = KAPPA2) -> Values:
    """Return the same of the package, rows kept in each way; at another κ²."""
    few, params = _few(problem)
    y = np.asarray(few.y)
    anchored = few._replace(anchor=np.zeros(len(few.i), int))
    ways = {
        "points": prepare(few, by_points=True),
        "differences": prepare(few, by_points=False),
        "an anchor": prepare(anchored, per_anchor=True),
    }
    found: dict[str, Any] = {}
    for name, k2 in (("", 1.0), (", κ² = 1.7", kappa2)):
        i, j, s2 = few.i, few.j, np.exp(params.log_sigma2)
        each = pair_posterior(few.X[i], few.X[j], y, params.W, s2, k2)
        for way, stats in ways.items():
            own = np.full(1, k2) if way == "an anchor" else np.asarray(k2)
            at = params._replace(kappa2=own)
            of = moments(at, stats)
            values = {
                "log likelihood": log_likelihood(at, stats),
                "E-step's log likelihood": of.log_likelihood,
                "WG": of.WG,
                "a²D": of.a2D,
                "ε²": of.eps2,
                "Cov u": of.cov_u,
                "ε² of each": each.eps2,
            }
            found |= {f"{key}{name}, by {way}": v for key, v in values.items()}
    return found


def _reflected(problem: Problem[Pairs]) -> tuple[dict[str, Any], np.ndarray, Any]:
    """Return sites beside the mode, H, and the data of the target."""
    theta, shape = beside_the_mode(problem), np.shape(problem.params.W)
    data = target_data(problem.data, problem.prior, rate_of(problem), problem.params)
    mean = np.asarray(problem.prior.mean)
    C = np.asarray(problem.params.W) @ mean.T
    u = np.linalg.eigh(C + C.T)[1][:, 0]
    H = np.eye(shape[0]) - 2 * np.outer(u, u)
    # Nearer the mirror, so that both images count, and on the far side of it.
    W = 0.2 * np.asarray(theta[:-1]).reshape(shape)
    W = max(W, H @ W, key=lambda image: np.linalg.norm(image - mean))
    return {"W": jnp.asarray(W), "log_b": theta[-1]}, H, data


def target_by_numpyro(problem: Problem[Pairs]) -> Values:
    """Average the density of NumPyro's model over W and its mirror image."""
    at, H, _ = _reflected(problem)
    prior, rate = problem.prior, rate_of(problem)
    options = {"learning_rate": rate}
    density = density_of(lca, (problem.data, prior), options)
    images = [at, {**at, "W": H @ at["W"]}]
    both = [float(density(sites)[0]) for sites in images]
    sd = float(prior.c) / np.sqrt(float(prior.lam))
    on_W = [
        scipy_stats.norm.logpdf(np.asarray(sites["W"]), prior.mean, sd).sum()
        for sites in images
    ]
    b = np.exp(float(at["log_b"]))
    of_b = scipy_stats.gamma.logpdf(b, float(prior.b_shape), scale=1 / prior.b_rate)
    W, p = np.asarray(images[int(np.argmax(on_W))]["W"]), len(H)
    tau2 = np.exp(2 * b / p)
    no_data = both[0] - on_W[0] - of_b - np.log(b)
    return {
        "log density": np.logaddexp(both[0], both[1]) - np.log(2),
        "log prior of W": np.logaddexp(*on_W),
        "log prior of log b": of_b + np.log(b),
        "log likelihood": no_data,
        "mirrored prior": np.logaddexp(*on_W) - np.log(2),
        "W": W,
        "b": b,
        "M": W.T @ W / tau2,
        "σ²": (tau2 - 1) / 2,
        "M, no sites": W.T @ W / tau2,
        "log σ²": np.log((tau2 - 1) / 2),
    }


def target(problem: Problem[Pairs], u: float = 1.0) -> Values:
    """Return the same of the target; with no mirror image, if asked."""
    at, _, data = _reflected(problem)
    data = (*data[:3], u * data[3])
    found: Any = _of_target(at, data)
    return {**found, "mirrored prior": _of_mirrored(problem, at["W"])}


@jax.jit
def _of_target(at: dict[str, Array], data: Any) -> dict[str, Any]:
    assert TARGET.parts is not None
    parts, likelihood = TARGET.parts(at, data)
    sites, some = MODEL_TARGET.functionals(at, data), TARGET.functionals(at, data)
    return {
        "log density": TARGET.log_density(at, data),
        "log prior of W": parts["W"],
        "log prior of log b": parts["log_b"],
        "log likelihood": likelihood,
        "W": sites["W"],
        "b": sites["b"],
        "M": sites["M"],
        "σ²": sites["sigma2"],
        "M, no sites": some["M"],
        "log σ²": some["log_sigma2"],
    }


def _of_mirrored(problem: Problem[Pairs], W: Array) -> Array:
    """Return the log density of W under the prior that knows both images."""
    two = mirrored(problem.prior, problem.params.W)
    return jax.jit(two.log_prob)(W)


def _labelled(problem: Problem[Pairs]) -> tuple[np.ndarray, np.ndarray]:
    """Return points of three unequal classes, made of those of the problem."""
    X = np.asarray(problem.data.X, float)[:60]
    # No two distances are equal.
    X = X + 1e-3 * np.random.default_rng(0).normal(size=X.shape)
    order = np.argsort(X[:, 0] + 0.3 * X[:, -1], kind="stable")
    codes = np.empty(len(X), int)
    codes[order] = np.searchsorted([0.2, 0.55], np.arange(len(X)) / len(X), "right")
    return X, codes


FACTOR = 0.7
"""Of the metric that neighbours are found under, feature by feature."""


def recipe_by_search(problem: Problem[Pairs]) -> Values:
    """Find each point's nearest of its class and of others by sorting distances."""
    X, codes = _labelled(problem)
    n, d = X.shape
    scale = FACTOR ** np.arange(d)
    found: dict[str, Any] = {}
    for name, Z in (("", X), (", refreshed", X * scale)):
        D = cdist(Z, Z)
        np.fill_diagonal(D, np.inf)
        table = np.zeros((n, n))
        for k in range(n):
            for same in (True, False):
                others = np.flatnonzero((codes == codes[k]) == same)
                near = others[np.argsort(D[k, others], kind="stable")[:3]]
                table[k, near] = 1.0
        found["pairs" + name] = table
    found["pairs with impostors"] = _with_impostors(X, codes)
    kept = np.argwhere(found["pairs"])
    same = codes[kept[:, 0]] == codes[kept[:, 1]]
    delta = X[kept[:, 0]] - X[kept[:, 1]]
    c = np.median(np.sum(delta[same] ** 2, 1)) ** -0.5
    given = 0.3 * np.arange(2 * d).reshape(2, d) - 0.4
    return {
        **found,
        "W₀": c * np.eye(d),
        "c": c,
        "λ": 7.0,
        "c of a mean given": np.sqrt(np.trace(given @ given.T) / 2),
        "n/N": n / len(kept),
        "all pairs": float(n * (n - 1) / 2),
        "bytes of a refit": _bytes_by_hand(),
    }


def _with_impostors(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return 1 + the place of the anchor among those kept, at its pairs."""
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    table, place = np.zeros((len(X), len(X))), 0
    for k in range(len(X)):
        own = np.where(codes == codes[k], D[k], np.inf)
        near = np.argsort(own, kind="stable")[:3]
        impostors = np.flatnonzero((codes != codes[k]) & (D[k] < own[near[-1]]))
        if len(impostors):
            place += 1
            table[k, np.append(near, impostors)] = place
    return table


def _bytes_by_hand() -> float:
    """Add the arrays of a refit up: 40 pairs of 30 points, p = 2, d = 5, 9 steps."""
    N, n, p, d, steps = 40, 30, 2, 5, 9
    shapes = [(N, p)] * 2 + [(N, d), (N, 8)] + [(n,)] * 4 + [(steps,)] * 4
    shapes += [(d, p)] * 64 + [(d, d)] * 64
    return float(sum(np.empty(shape).nbytes for shape in shapes))


def recipe(problem: Problem[Pairs], n_targets: int = 3) -> Values:
    """Return the same of the recipe; with other neighbours, if asked."""
    X, codes = _labelled(problem)
    n, d = X.shape
    asked = Recipe(d, n_targets=n_targets)
    factor = np.diag(FACTOR ** np.arange(d))
    found: dict[str, Any] = {}
    for name, L in (("", None), (", refreshed", factor)):
        made, table = build(X, codes, asked, L), np.zeros((n, n))
        np.add.at(table, (np.asarray(made.i), np.asarray(made.j)), weights(made))
        found["pairs" + name] = table
    pairs = build(X, codes, Recipe(d))
    prior = prior_for(pairs, Recipe(d), 7.0)
    given = 0.3 * np.arange(2 * d).reshape(2, d) - 0.4
    every = build(X, codes, Recipe(d, pairs="all"))
    made = build(X, codes, Recipe(d, pairs="impostors"))
    table = np.zeros((n, n))
    table[np.asarray(made.i), np.asarray(made.j)] = 1.0 + np.asarray(made.anchor)
    found["pairs with impostors"] = table
    return {
        **found,
        "W₀": prior.mean,
        "c": prior.c,
        "λ": prior.lam,
        "c of a mean given": prior_for(pairs, Recipe(2, prior_mean=given), 7.0).c,
        "n/N": rate_for(pairs, Recipe(d)),
        "all pairs": float(np.sum(weights(every))),
        "bytes of a refit": float(memory_of_a_refit(40, 30, 2, 5, 9)),
    }


def start_slope(problem: Problem[Pairs], shift: float = 0.0) -> Values:
    """Differentiate NumPyro's density where chains begin; beside it, if asked."""
    pairs, prior, rate = problem.data, problem.prior, rate_of(problem)
    # Of many features the first: their second derivatives are (pd)² numbers.
    pairs = pairs._replace(X=np.asarray(pairs.X)[:, :N_FEATURES])
    prior = prior._replace(mean=np.asarray(prior.mean)[:N_FEATURES, :N_FEATURES])
    posterior = closed_form(pairs, prior, learning_rate=rate)
    assert posterior is not None
    centre = posterior.start.mean
    sites = {"W": jnp.asarray(centre["W"]), "log_b": centre["log_b"] + shift}
    options = {"learning_rate": rate}
    density = density_of(lca, (pairs, prior), options)
    total = rate * float(np.sum(weights(pairs)))
    return {f"slope in {k}": v / total for k, v in density(sites)[1].items()}


def first_step_by_hand(problem: Problem[Pairs]) -> Values:
    """Go along the gradient over the curvature of the pairs that coincide."""
    pairs, prior, rate = problem.data, problem.prior, rate_of(problem)
    W, X = np.asarray(problem.params.W), np.asarray(pairs.X)
    n, (p, d) = len(X), W.shape
    u = _weights_of_points(n)
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    w = np.asarray(weights(pairs)) * u[i] * u[j]
    given = pairs._replace(w=w), prior
    density = density_of(lca, given, {"learning_rate": rate})
    at = {k: jnp.asarray(v) for k, v in position(problem.params).items()}
    value, slope = density(at)
    same = (np.asarray(pairs.y) == 1) * w
    delta, b = X[i] - X[j], np.exp(float(at["log_b"]))
    T = (delta * same[:, None]).T @ delta
    sd = float(prior.c) / np.sqrt(float(prior.lam))
    curvature = rate * T / np.exp(2 * b / p) + np.eye(d) / sd**2
    by_W = np.linalg.solve(curvature, np.asarray(slope["W"]).T).T
    by_b = float(slope["log_b"]) / ((rate * same.sum() + prior.b_rate) * b)
    promised = np.sum(by_W * slope["W"]) + by_b * float(slope["log_b"])
    step = 1 / max(1.0, float(np.sqrt(promised)))
    while True:
        new = {"W": at["W"] + step * by_W, "log_b": at["log_b"] + step * by_b}
        reached = float(density(new)[0])
        if reached >= value + 1e-4 * step * promised:
            break
        step /= 2
    return {"W": new["W"], "log b": new["log_b"], "log density": reached}


def _weights_of_points(n: int) -> np.ndarray:
    return 0.3 + 0.7 * (np.arange(n) % 4)


def first_step(problem: Problem[Pairs], even: bool = False) -> Values:
    """Return a refit stopped after a step; of even weights, if asked."""
    u = _weights_of_points(len(problem.data.X))
    u = np.ones_like(u) if even else u
    found = bootstrap(
        problem.data,
        problem.prior,
        problem.params,
        u[None],
        learning_rate=rate_of(problem),
        max_steps=1,
        tol=1e-12,
    )
    params = LCAParams(*(np.asarray(a)[0] for a in found.params))
    return {
        "W": params.W,
        "log b": position(params)["log_b"],
        "log density": np.asarray(found.objective)[0],
    }


CHECKS = (
    by_gradient(
        "M-steps maximise the expected density of the latent points",
        reference=zero,
        estimate=step_slopes,
        controls={"a tenth more latent spread": partial(step_slopes, spread=1.1)},
        atol=1e-8,
    ),
    by_algebra(
        "E-step and likelihood are sums over pairs, rows kept in any way, any κ²",
        reference=sums_by_pair,
        estimate=sums,
        controls={"κ² one tenth off": partial(sums, kappa2=1.1 * KAPPA2)},
        rtol=1e-8,
    ),
    by_gradient(
        "samplers' target is the model at W and its mirror image, averaged",
        reference=target_by_numpyro,
        estimate=target,
        controls={"no mirror image": partial(target, u=0.0)},
        rtol=1e-8,
    ),
    by_algebra(
        "pairs, prior and learning rate of the recipe are those of a direct search",
        reference=recipe_by_search,
        estimate=recipe,
        controls={"two neighbours for three": partial(recipe, n_targets=2)},
    ),
    by_gradient(
        "refits begin along the gradient, over the curvature of coinciding pairs",
        reference=first_step_by_hand,
        estimate=first_step,
        controls={"even weights": partial(first_step, even=True)},
        rtol=1e-7,
    ),
    by_gradient(
        "chains begin at a mode of the NumPyro density",
        reference=zero,
        estimate=start_slope,
        controls={"log b a tenth off": partial(start_slope, shift=0.1)},
        atol=1e-3,
    ),
)
