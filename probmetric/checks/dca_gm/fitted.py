"""DCA-GM's starts, fits, targets and metrics, from what defines them.

Class probabilities by normal densities of scipy, component by component; the mode by
the gradient of NumPyro's density; the start by the generalised eigenproblem it solves.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.infer.util import log_density
from scipy.linalg import eigh
from scipy.special import logsumexp
from scipy.stats import multivariate_normal as normal

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient, zero
from probmetric.checks.dca_gm.density import em_by_hand
from probmetric.checks.dca_gm.problems import split
from probmetric.checks.sides import density_of, inverse
from probmetric.data.containers import Labelled, weights
from probmetric.inference.dca_gm.draws import TARGET, new_classes, prepare
from probmetric.inference.dca_gm.em import EMPrior, source_centres
from probmetric.inference.dca_gm.fit import Conditioned, fit, from_white
from probmetric.inference.dca_gm.hybrid import Penalty, fit_hybrid
from probmetric.inference.dca_gm.likelihood import fix_gauge
from probmetric.inference.dca_gm.start import RIDGE, em_prior, lda_rca
from probmetric.metric import ClassDistribution, LocalFisher
from probmetric.metric.class_distribution import pooled_covariance
from probmetric.models.dca_gm import DCAGMParams, dca_gm, log_weight, unconstrain
from probmetric.typing import Array

RATE = 0.7
N_ROWS = 6


def _joint_by_scipy(problem: Problem[Labelled]) -> tuple[np.ndarray, np.ndarray]:
    """Return log p(y, c, k) (n, c, k) of every point, and log p(c | x)."""
    params, data, _ = split(problem)
    Y = np.asarray(data.X @ params.A.T)
    c, k, _ = params.mu.shape
    joint = np.empty((len(Y), c, k))
    for i, m in np.ndindex(c, k):
        L = np.asarray(params.chol[i, min(m, params.chol.shape[1] - 1)])
        S: Any = L @ L.T
        density = normal.logpdf(Y, np.asarray(params.mu[i, m]), S)
        joint[:, i, m] = params.log_alpha[i] + params.log_beta[i, m] + density
    own = logsumexp(joint, 2)
    return joint, own - logsumexp(own, 1, keepdims=True)


def _mean_J(problem: Problem[Labelled], log_p: np.ndarray) -> np.ndarray:
    """Average Σ_c p (∇ log p)(∇ log p)ᵀ by autodiff of NumPy-checked probabilities."""
    params, data, _ = split(problem)
    metric = ClassDistribution(params.A, log_weight(params), params.mu, params.chol)

    def one(x: Array) -> Array:
        return metric.log_probability(x[None])[0]

    score = np.asarray(jax.jit(jax.vmap(jax.jacobian(one)))(jnp.asarray(data.X)))
    w = np.asarray(data.w)
    J = np.einsum("nc,nci,ncj->nij", np.exp(log_p), score, score)
    return np.average(J, 0, w)


def divergences_by_hand(problem: Problem[Labelled]) -> Values:
    """Compare class probabilities of scipy's densities, by roots and by entropies."""
    params, data, _ = split(problem)
    joint, log_p = _joint_by_scipy(problem)
    p, q = np.exp(log_p[:N_ROWS]), np.exp(log_p[N_ROWS : 2 * N_ROWS])
    m = (p[:, None] + q) / 2

    def entropy(r: np.ndarray) -> np.ndarray:
        return -np.sum(np.where(r > 0, r * np.log(np.where(r > 0, r, 1)), 0), -1)

    js = entropy(m) - (entropy(p)[:, None] + entropy(q)) / 2
    hellinger = 1 - np.sum(np.sqrt(p[:, None] * q), -1)
    metric = LocalFisher(params.A, log_weight(params), params.mu, params.chol)
    J = np.asarray(metric.matrix_at(data.X[:N_ROWS]))
    X = np.asarray(data.X)
    delta = X[None, N_ROWS : 2 * N_ROWS] - X[:N_ROWS, None]
    y, w = np.asarray(data.y), np.asarray(data.w)
    own = np.take_along_axis(joint, y[:, None, None], 1)[:, 0]
    share = w[:, None] * np.exp(own - logsumexp(own, 1, keepdims=True))
    centres = np.stack(
        [
            share[y == c].T @ X[y == c] / share[y == c].sum(0)[:, None]
            for c in range(joint.shape[1])
        ]
    )
    scale = 1.0 + np.arange(X.shape[1])
    return {
        "log p(c|x)": log_p,
        "1 - Σ√(pq)": hellinger,
        "Jensen-Shannon": js,
        "distance": np.sqrt(np.diagonal(js)),
        "under J(x)": np.einsum("mni,mij,mnj->mn", delta, J, delta),
        "source centres": centres,
        "log likelihood": w @ np.take_along_axis(log_p, y[:, None], 1)[:, 0],
        "p(c|x) at queries": np.exp(log_p[:N_ROWS]),
        "mean J": _mean_J(problem, log_p) / np.outer(scale, scale),
    }


def divergences(problem: Problem[Labelled], weighted: bool = True) -> Values:
    """Return the same of the package; data weights forgotten, if asked."""
    params, data, prior = split(problem)
    theta = params.A, log_weight(params), params.mu, params.chol
    X, w = data.X, data.w if weighted else jnp.ones(len(data.X))
    metric = ClassDistribution(*theta)
    other = ClassDistribution(*theta, divergence="jensen_shannon")
    rows = X[:N_ROWS], X[N_ROWS : 2 * N_ROWS]
    given = Conditioned(data._replace(w=w), prior, RATE)
    scale = 1.0 + np.arange(X.shape[1])
    position, asked = prepare(params, given, queries=rows[0], scale=scale)
    told = jax.jit(TARGET.functionals)(position, asked)
    return {
        "log p(c|x)": metric.log_probability(X),
        "1 - Σ√(pq)": metric.pairwise(*rows),
        "Jensen-Shannon": other.pairwise(*rows),
        "distance": other.distance(*rows),
        "under J(x)": LocalFisher(*theta).pairwise(*rows),
        "source centres": jax.jit(source_centres)(params, X, data.y, w),
        "log likelihood": told["log_likelihood"],
        "p(c|x) at queries": told["class_probability"],
        "mean J": told["J"],
    }


def target_by_numpyro(problem: Problem[Labelled]) -> Values:
    """Evaluate NumPyro's density, and its parts; draw classes by thresholds."""
    params, data, prior = split(problem)
    options = {
        "covariance": "class" if params.chol.shape[1] == 1 else "component",
        "learning_rate": RATE,
    }
    sites = unconstrain(params)
    named = {k: v for k, v in sites._asdict().items() if v.size}
    value, gradient = density_of(dca_gm, (data, prior), options)(named)
    u = np.random.default_rng(9).uniform(size=(len(data.X), 1))
    _, log_p = _joint_by_scipy(problem)
    return {
        "log density": value,
        "sum of the parts": value,
        "sites": np.concatenate([np.ravel(v) for v in sites]),
        "steepest site": gradient["A"],
        "classes": np.sum(u > np.cumsum(np.exp(log_p), 1), 1).astype(float),
    }


def target(problem: Problem[Labelled], rate: float = RATE) -> Values:
    """Return the same of the target, whitened; at another rate, if asked."""
    params, data, prior = split(problem)
    position, asked = prepare(params, Conditioned(data, prior, rate))
    density = jax.jit(jax.value_and_grad(TARGET.log_density))
    value, gradient = density(position, asked)
    assert TARGET.parts is not None
    parts, likelihood = jax.jit(TARGET.parts)(position, asked)
    back = jax.jit(from_white)(position, asked.white)
    _, log_p = _joint_by_scipy(problem)
    return {
        "log density": value,
        "sum of the parts": sum(parts.values()) + likelihood,
        "sites": np.concatenate([np.ravel(v) for v in back]),
        # dA = dÃ L⁻¹, so that the gradient in A is that in Ã times Lᵀ.
        "steepest site": gradient.A @ asked.white.half.T,
        "classes": new_classes(np.exp(log_p), seed=9).astype(float),
    }


def mode_slope(problem: Problem[Labelled], lam: float = 1.0) -> Values:
    """Differentiate NumPyro's density at the fit, per point; of another λ, if asked."""
    data, prior = jax.tree.map(jnp.asarray, (problem.data, problem.prior))
    wrong = prior._replace(lam=lam * prior.lam)
    found = fit(data, wrong, tol=1e-9, max_steps=3000, learning_rate=RATE)
    shared = found.params.chol.shape[1] == 1
    options = {"covariance": "class" if shared else "component", "learning_rate": RATE}
    sites = unconstrain(found.params._replace(fisher=None))
    named = {k: jnp.asarray(v) for k, v in sites._asdict().items() if v.size}
    value, slope = density_of(dca_gm, (data, prior), options)(named)
    n = len(data.X)
    result = {f"slope in {name}": g / n for name, g in slope.items()}
    return {**result, "log density": (value - found.objective) / n}


def starts_by_hand(problem: Problem[Labelled]) -> Values:
    """Solve Σ_B v = λ (Σ_W + ε) v as it stands; take scales by direct sums."""
    data, params = problem.data, problem.params
    X, y, w = np.asarray(data.X), np.asarray(data.y), np.asarray(weights(data))
    w = w / w.sum()
    means = np.stack([np.average(X[y == c], 0, w[y == c]) for c in np.unique(y)])
    off, mid = X - means[y], means[y] - w @ X
    within, between = (np.einsum("n,ni,nj->ij", w, a, a) for a in (off, mid))
    d = X.shape[1]
    ridged = within + RIDGE * np.trace(within) / d * np.eye(d)
    first = eigh(between, ridged)[1][:, ::-1][:, : min(len(means) - 1, d)]
    # The rest is orthogonal to it under the ridged S_W, and widest in the whole.
    half = np.linalg.cholesky(ridged)
    U = half.T @ first
    outside = np.eye(d) - U @ U.T
    total = inverse(half) @ (within + between) @ inverse(half).T
    V = np.linalg.eigh(outside @ total @ outside)[1][:, ::-1]
    rest = np.linalg.solve(half.T, V)[:, : d - first.shape[1]]
    Y = X @ np.asarray(params.A).T
    Y = Y - w @ Y
    pooled = _pooled(params)
    return {
        "first rows": first @ first.T,
        "all rows": first @ first.T + rest @ rest.T,
        "ρ": RIDGE * (w @ np.sum(Y**2, 1)) / Y.shape[1],
        "pooled covariance": pooled,
        "pooled, gauge fixed": np.eye(len(pooled)),
    }


def _pooled(params: DCAGMParams) -> np.ndarray:
    c, k, p = params.mu.shape
    total = np.zeros((p, p))
    share = np.exp(np.asarray(params.log_alpha)[:, None] + np.asarray(params.log_beta))
    for i, m in np.ndindex(c, k):
        L = np.asarray(params.chol)[i, min(m, params.chol.shape[1] - 1)]
        total += share[i, m] * L @ L.T
    return total


def starts(problem: Problem[Labelled], ridge: float = RIDGE) -> Values:
    """Return the same of the package; under another ridge, if asked."""
    data, params = problem.data, problem.params
    c, d = len(np.unique(np.asarray(data.y))), np.shape(data.X)[1]
    first = lda_rca(data, min(c - 1, d), ridge=ridge)
    whole = lda_rca(data, d, ridge=ridge)
    fixed = fix_gauge(params._replace(fisher=None))
    return {
        "first rows": first.T @ first,
        "all rows": whole.T @ whole,
        "ρ": em_prior(data, params.A).rho,
        "pooled covariance": pooled_covariance(log_weight(params), params.chol),
        "pooled, gauge fixed": pooled_covariance(log_weight(fixed), fixed.chol),
    }


def hybrid(problem: Problem[Labelled], whole: bool = False) -> Values:
    """Return what the hybrid misses of what it promises, zeros for the most part.

    Its objective is the penalised likelihood at its end, in a gauge where the pooled
    covariance is I, and the best of its trace. ``whole`` doubles the penalty.
    """
    _, data, _ = split(problem)
    theta = problem.params._replace(fisher=None)
    precision = 2.0
    found: dict[str, Array | float] = {}
    for name, tied in (("free", False), ("tied", True)):
        end = fit_hybrid(
            theta,
            data,
            Penalty(problem.params.A, precision),
            EMPrior(rho=0.01),
            max_steps=25,
            tied=tied,
        )
        p = end.params
        log_p = np.asarray(
            ClassDistribution(p.A, log_weight(p), p.mu, p.chol).log_probability(data.X)
        )
        own = np.take_along_axis(log_p, np.asarray(data.y)[:, None], 1)[:, 0]
        likelihood = np.asarray(data.w) @ own
        distance = np.sum((np.asarray(p.A) - np.asarray(theta.A)) ** 2)
        penalised = likelihood - (1 + whole) * precision / 2 * distance
        found[f"objective, {name}"] = float(end.objective) / penalised - 1
        trace = np.asarray(end.trace)[: int(end.n_steps)]
        found[f"best, {name}"] = np.nanmax(trace) / float(end.objective) - 1
        gap = np.asarray(pooled_covariance(log_weight(p), p.chol)) - np.eye(len(p.A))
        found[f"gauge, {name}"] = gap
    return found


N_EM, N_STEPS, PULL = 2, 3, 2.0
"""EM steps in each of the hybrid's, its steps, and the precision of its penalty."""


def hybrid_by_hand(problem: Problem[Labelled]) -> Values:
    """Take the hybrid's steps as its module states them, the likelihood by NumPyro."""
    theta, data, prior = split(problem)
    options = {"covariance": "class" if theta.chol.shape[1] == 1 else "component"}

    @partial(jax.jit, static_argnames="tied")
    @jax.value_and_grad
    def likelihood(A: Array, theta: DCAGMParams, mu: Array, tied: bool) -> Array:
        sites = unconstrain(_projected(A, theta, mu, tied))
        named = {k: v for k, v in sites._asdict().items() if v.size}
        full, none = (
            log_density(dca_gm, (data._replace(w=w), prior), options, named)[0]
            for w in (data.w, 0 * data.w)
        )
        return jnp.asarray(full - none)

    found: dict[str, Any] = {}
    for name, tied in (("free", False), ("tied", True)):
        run = _hybrid_run(theta, data, likelihood, tied)
        found |= {f"{key}, {name}": value for key, value in run.items()}
    return found


def _projected(A: Array, theta: DCAGMParams, mu: Any, tied: bool) -> DCAGMParams:
    """Return θ with another projection; its centres Aμ' where they are tied to it."""
    return theta._replace(A=A, mu=mu @ A.T if tied else theta.mu)


def _hybrid_run(
    theta: DCAGMParams, data: Labelled, likelihood: Any, tied: bool
) -> dict[str, Any]:
    centre, em = np.asarray(theta.A), EMPrior(rho=0.01)
    trace, ends, evaluations = list[float](), list[DCAGMParams](), 0
    last_g, last_r = np.zeros_like(centre), np.zeros_like(centre)
    w, y = np.asarray(data.w), np.asarray(data.y)
    for _ in range(N_STEPS):
        for _ in range(N_EM):
            new = em_by_hand(theta, data, em)
            S = np.asarray(new["Σ"])
            n = np.bincount(y, w)
            theta = theta._replace(
                mu=jnp.asarray(new["μ"]),
                log_beta=jnp.log(jnp.asarray(new["β"])),
                log_alpha=jnp.log(jnp.asarray(n / n.sum())),
                chol=jnp.linalg.cholesky(jnp.asarray(S)),
            )
        values, U = np.linalg.eigh(_pooled(theta))
        B = (U / np.sqrt(values)) @ U.T
        S = B @ np.asarray(theta.chol @ jnp.swapaxes(theta.chol, 2, 3)) @ B.T
        theta = theta._replace(
            A=B @ theta.A,
            mu=theta.mu @ B.T,
            chol=jnp.linalg.cholesky(jnp.asarray(S)),
        )
        last_g, last_r = np.linalg.solve(B.T, last_g), B @ last_r
        mu_prime = _centres(theta, data)

        def value(A: Any, theta: Any = theta, mu: Any = mu_prime) -> tuple[float, Any]:
            reached, slope = likelihood(A, theta, mu, tied=tied)
            off = np.asarray(A) - centre
            reached = float(reached) - PULL / 2 * np.sum(off**2)
            return float(reached), np.asarray(slope) - PULL * off

        before, g = value(theta.A)
        size = np.sum(last_g**2)
        beta = max(0.0, np.sum(g * (g - last_g)) / size) if size else 0.0
        r = g + beta * last_r
        r = r if np.sum(r * g) > 0 else g
        step = 0.5 * np.linalg.norm(theta.A) / np.linalg.norm(r)
        evaluations += 2
        while True:
            reached, _ = value(theta.A + step * r)
            if reached >= before + 1e-4 * step * np.sum(g * r):
                break
            step, evaluations = step / 2, evaluations + 1
        theta = _projected(theta.A + step * r, theta, mu_prime, tied)
        last_g, last_r = g, r
        trace.append(reached)
        ends.append(theta)
    best = ends[int(np.argmax(trace))]
    log_p = np.asarray(best.log_alpha), np.asarray(best.log_beta)
    return {
        "trace": trace,
        "A": best.A,
        "μ": best.mu,
        "log α": log_p[0],
        "log β": log_p[1],
        "evaluations": float(evaluations),
    }


def _centres(theta: DCAGMParams, data: Labelled) -> np.ndarray:
    """Return each component's mean of the points before the projection."""
    X, y, w = (np.asarray(a) for a in data)
    Y, (c, k, _) = X @ np.asarray(theta.A).T, theta.mu.shape
    found = np.zeros((c, k, X.shape[1]))
    for i in range(c):
        S: Any = np.asarray(theta.chol)[i, 0] @ np.asarray(theta.chol)[i, 0].T
        logs = np.stack(
            [
                float(theta.log_beta[i, m])
                + normal.logpdf(Y[y == i], np.asarray(theta.mu)[i, m], S)
                for m in range(k)
            ],
            -1,
        )
        share = np.exp(logs - logsumexp(logs, -1, keepdims=True)) * w[y == i, None]
        found[i] = share.T @ X[y == i] / share.sum(0)[:, None]
    return found


def hybrid_run(problem: Problem[Labelled], pull: float = PULL) -> Values:
    """Return the same of ``fit_hybrid``; under another penalty, if asked."""
    theta, data, _ = split(problem)
    found: dict[str, Any] = {}
    for name, tied in (("free", False), ("tied", True)):
        end = fit_hybrid(
            theta,
            data,
            Penalty(theta.A, pull),
            EMPrior(rho=0.01),
            max_steps=N_STEPS,
            n_em=N_EM,
            tied=tied,
        )
        values = {
            "trace": end.trace,
            "A": end.params.A,
            "μ": end.params.mu,
            "log α": end.params.log_alpha,
            "log β": end.params.log_beta,
            "evaluations": float(end.n_evaluations),
        }
        found |= {f"{key}, {name}": value for key, value in values.items()}
    return found


CHECKS = (
    by_gradient(
        "divergences, centres and functionals are those of scipy's densities",
        reference=divergences_by_hand,
        estimate=divergences,
        controls={"data weights forgotten": partial(divergences, weighted=False)},
        rtol=1e-7,
    ),
    by_gradient(
        "the whitened target is the density of the NumPyro model",
        reference=target_by_numpyro,
        estimate=target,
        controls={"learning rate left out": partial(target, rate=1.0)},
        rtol=1e-8,
    ),
    by_gradient(
        "the fit is a mode of the NumPyro density",
        reference=zero,
        estimate=mode_slope,
        controls={"λ a tenth too large": partial(mode_slope, lam=1.1)},
        atol=1e-5,
    ),
    by_algebra(
        "starts solve their eigenproblem, and scales are direct sums",
        reference=starts_by_hand,
        estimate=starts,
        controls={"a hundred times the ridge": partial(starts, ridge=100 * RIDGE)},
        rtol=1e-7,
    ),
    by_algebra(
        "the hybrid reports what it reached, in its gauge",
        reference=zero,
        estimate=hybrid,
        controls={"twice the penalty": partial(hybrid, whole=True)},
        atol=1e-8,
    ),
    by_gradient(
        "the hybrid takes the steps that its module states",
        reference=hybrid_by_hand,
        estimate=hybrid_run,
        controls={"twice the penalty": partial(hybrid_run, pull=2 * PULL)},
        rtol=1e-6,
    ),
)
