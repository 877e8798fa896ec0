"""DCA-GM's density, mode, gradients and Fisher matrices compared with autodiff.

The toy has one Gaussian per class. Derivations are checked with each of them split into
two (``dca_gm.problems.split``), to make shares within a class matter.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jaxtyping import Float
from numpyro.infer.util import log_density
from scipy.special import logsumexp
from scipy.stats import multivariate_normal as normal

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient, zero
from probmetric.checks.claims import DENSITY, MODE
from probmetric.checks.dca_gm.problems import split, tilt
from probmetric.checks.sides import density_of
from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.draws import TARGET, prepare
from probmetric.inference.dca_gm.fit import Conditioned, fit, log_joint
from probmetric.inference.dca_gm.likelihood import (
    apply_gauge,
    class_log_probability,
    gradient_A,
    gradient_A_tied,
)
from probmetric.metric import ClassDistribution, LocalFisher, Mahalanobis
from probmetric.metric.class_distribution import scores
from probmetric.models.dca_gm import (
    DCAGMParams,
    DCAGMSites,
    dca_gm,
    log_weight,
    to_metric,
    unconstrain,
)
from probmetric.typing import Array

RATE = 0.7


def _options(params: DCAGMParams) -> dict[str, str | float]:
    shared = params.chol.shape[1] == 1
    return {"covariance": "class" if shared else "component", "learning_rate": RATE}


def _named(sites: DCAGMSites) -> dict[str, jax.Array]:
    return {name: value for name, value in sites._asdict().items() if value.size}


def _table(value: Array, gradient: Mapping[str, Array]) -> Values:
    return {"log density": value, **{f"∂/∂{k}": g for k, g in gradient.items()}}


def _model_density(problem: Problem[Labeled]) -> Values:
    params, data, prior = split(problem)
    density = density_of(dca_gm, (data, prior), _options(params))
    return _table(*density(_named(unconstrain(params))))


def _joint(
    problem: Problem[Labeled], rate: float = RATE, weighted: bool = True
) -> Values:
    params, data, prior = split(problem)
    data = data if weighted else data._replace(w=None)
    value, gradient = jax.jit(jax.value_and_grad(log_joint))(
        unconstrain(params), Conditioned(data, prior, rate)
    )
    return _table(value, _named(gradient))


def _mu_prime(params: DCAGMParams) -> Float[Array, "c k d"]:
    """Return some centres before their projection."""
    c, k, _ = params.mu.shape
    return jnp.asarray(np.random.default_rng(0).normal(size=(c, k, params.A.shape[1])))


def _autodiff(problem: Problem[Labeled]) -> Values:
    """Differentiate the NumPyro density of the labels: with them, less without."""
    params, data, prior = split(problem)
    mu_prime, options = _mu_prime(params), {**_options(params), "learning_rate": 1.0}

    def likelihood(A: Float[Array, "p d"], mu: Float[Array, "c k p"]) -> Array | float:
        values = _named(unconstrain(params._replace(A=A, mu=mu)))
        full, none = (
            log_density(dca_gm, (data._replace(w=w), prior), options, values)[0]
            for w in (data.w, 0 * data.w)
        )
        return full - none

    free = jax.jit(jax.grad(lambda A: likelihood(A, params.mu)))
    tied = jax.jit(jax.grad(lambda A: likelihood(A, mu_prime @ A.T)))
    return {"free centres": free(params.A), "tied centres": tied(params.A)}


def _gradients(problem: Problem[Labeled]) -> Values:
    params, data, _ = split(problem)
    tied = _gradient_A_tied(params, _mu_prime(params), data)
    return {"free centres": _gradient_A(params, data), "tied centres": tied}


_gradient_A, _gradient_A_tied = jax.jit(gradient_A), jax.jit(gradient_A_tied)
_scores = jax.jit(scores)


def _held_fixed(problem: Problem[Labeled]) -> Values:
    params, data, _ = split(problem)
    tied = params._replace(mu=_mu_prime(params) @ params.A.T)
    return {**_gradients(problem), "tied centres": _gradient_A(tied, data)}


def _without_labeled_class(problem: Problem[Labeled]) -> Values:
    params, data, _ = split(problem)
    theta = log_weight(params), params.mu, params.chol
    log_p, m = _scores(data.X @ params.A.T, *theta)
    V = jnp.einsum("nc,ncp->np", jnp.exp(log_p), m)
    return {**_gradients(problem), "free centres": (data.w[:, None] * V).T @ data.X}


def _fisher(problem: Problem[Labeled]) -> Values:
    params, data, _ = split(problem)
    metric = LocalFisher(params.A, log_weight(params), params.mu, params.chol)
    return {"J(x)": metric.matrix_at(data.X[:20])}


def _hessian_of_kl(problem: Problem[Labeled]) -> Values:
    params, data, _ = split(problem)

    def kl(y: Float[Array, "d"], x: Float[Array, "d"]) -> Array:
        log_p, log_q = class_log_probability(params, jnp.stack([x, y]))
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))

    X = data.X[:20]
    return {"J(x)": jax.jit(jax.vmap(jax.hessian(kl)))(X, X)}


def _uncentred(problem: Problem[Labeled]) -> Values:
    params, data, _ = split(problem)
    Y = data.X[:20] @ params.A.T
    log_p, m = _scores(Y, log_weight(params), params.mu, params.chol)
    rows = jnp.exp(log_p / 2)[..., None] * m @ params.A
    return {"J(x)": jnp.swapaxes(rows, 1, 2) @ rows}


@jax.jit
def _moved(params: DCAGMParams) -> DCAGMParams:
    p = params.A.shape[0]
    B = jnp.eye(p) * 1.3 + 0.3 * jnp.tri(p, k=-1) - 0.2 * jnp.tri(p, k=-1).T
    return tilt(apply_gauge(params, B), 0.05 * jnp.eye(p), 0.3 * jnp.ones(p))


def _identified(
    problem: Problem[Labeled], change: Callable[[DCAGMParams], DCAGMParams] = _moved
) -> Values:
    params, X = change(split(problem)[0]), jnp.asarray(problem.data.X)
    p = jnp.exp(class_log_probability(params, X))
    metric = to_metric(params, X)
    assert isinstance(metric, Mahalanobis)
    return {"p(c|x)": p, "J": metric.matrix}


def _only_the_projection_moved(params: DCAGMParams) -> DCAGMParams:
    return params._replace(A=_moved(params).A)


def _weights_not_tilted(params: DCAGMParams) -> DCAGMParams:
    weights = {"log_alpha": params.log_alpha, "log_beta": params.log_beta}
    return _moved(params)._replace(**weights)


def _log_p_by_scipy(problem: Problem[Labeled]) -> Values:
    """Return log p(c | x) by Bayes' rule under SciPy's normal densities."""
    params, data, _ = split(problem)
    Y, (c, k, _) = np.asarray(data.X @ params.A.T), params.mu.shape
    joint = np.empty((len(Y), c, k))
    for i, m in np.ndindex(c, k):
        L = np.asarray(params.chol[i, min(m, params.chol.shape[1] - 1)])
        S: Any = L @ L.T
        density = normal.logpdf(Y, np.asarray(params.mu[i, m]), S)
        joint[:, i, m] = params.log_alpha[i] + params.log_beta[i, m] + density
    logs = logsumexp(joint, 2)
    log_p = logs - logsumexp(logs, 1, keepdims=True)
    y, w = np.asarray(data.y), np.asarray(data.w)
    labeled = np.take_along_axis(log_p, y[:, None], 1)[:, 0]
    return {"log p(c|x)": log_p, "log likelihood": w @ labeled}


def _log_p(problem: Problem[Labeled], weighted: bool = True) -> Values:
    """Return the same of the metric and of the target; wrong: without weights."""
    params, data, prior = split(problem)
    data = data if weighted else data._replace(w=jnp.ones(len(data.X)))
    metric = ClassDistribution(params.A, log_weight(params), params.mu, params.chol)
    position, args = prepare(params, Conditioned(data, prior, RATE))
    values = jax.jit(TARGET.functionals)(position, args)
    logs = metric.log_probability(data.X)
    return {"log p(c|x)": logs, "log likelihood": values["log_likelihood"]}


def _white_density(problem: Problem[Labeled]) -> Values:
    table = _model_density(problem)
    return {k: table[k] for k in ("log density", "∂/∂A")}


def _target(problem: Problem[Labeled], rate: float = RATE) -> Values:
    """Return the same of the samplers' whitened target; wrong: at another rate."""
    params, data, prior = split(problem)
    position, args = prepare(params, Conditioned(data, prior, rate))
    value, gradient = jax.jit(jax.value_and_grad(TARGET.log_density))(position, args)
    # dA = dÃ L⁻¹: the gradient in A is the gradient in Ã times Lᵀ.
    return {"log density": value, "∂/∂A": gradient.A @ args.white.half.T}


def _mode_slope(problem: Problem[Labeled], lam: float = 1.0) -> Values:
    """Differentiate NumPyro's density at the fit, per point; wrong: of another λ."""
    data, prior = jax.tree.map(jnp.asarray, (problem.data, problem.prior))
    wrong = prior._replace(lam=lam * prior.lam)
    end = fit(data, wrong, tol=1e-9, max_steps=3000, learning_rate=RATE)
    params = end.params._replace(fisher=None)
    density = density_of(dca_gm, (data, prior), _options(params))
    value, slope = density(jax.tree.map(jnp.asarray, _named(unconstrain(params))))
    gaps = {"log density": value - end.objective, **slope}
    return {name: g / len(data.X) for name, g in gaps.items()}


CHECKS = (
    by_gradient(
        DENSITY,
        reference=_model_density,
        estimate=_joint,
        controls={
            "learning rate left out": partial(_joint, rate=1.0),
            "data weights left out": partial(_joint, weighted=False),
        },
    ),
    by_gradient(
        "closed-form gradients in A equal those of the NumPyro model",
        reference=_autodiff,
        estimate=_gradients,
        controls={
            "the term of the labeled class left out": _without_labeled_class,
            "tied centres held fixed": _held_fixed,
        },
    ),
    by_gradient(
        "J is the Hessian of the Kullback-Leibler divergence",
        reference=_hessian_of_kl,
        estimate=_fisher,
        controls={"scores not centred": _uncentred},
    ),
    by_algebra(
        "p(c|x) and J are invariant to the gauge and the tilt",
        reference=partial(_identified, change=lambda params: params),
        estimate=_identified,
        controls={
            "the mixture left behind": partial(
                _identified, change=_only_the_projection_moved
            ),
            "a tilt without its weights": partial(
                _identified, change=_weights_not_tilted
            ),
        },
        rtol=1e-8,
    ),
    by_algebra(
        "class probabilities follow by Bayes' rule from SciPy's normal densities",
        reference=_log_p_by_scipy,
        estimate=_log_p,
        controls={"data weights left out": partial(_log_p, weighted=False)},
        rtol=1e-7,
    ),
    by_gradient(
        "the samplers' whitened density equals the NumPyro density, with its gradient",
        reference=_white_density,
        estimate=_target,
        controls={"learning rate left out": partial(_target, rate=1.0)},
        rtol=1e-8,
    ),
    by_gradient(
        MODE,
        reference=zero,
        estimate=_mode_slope,
        controls={"λ a tenth too large": partial(_mode_slope, lam=1.1)},
        atol=1e-5,
    ),
)
