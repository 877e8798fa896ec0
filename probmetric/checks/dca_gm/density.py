"""DCA-GM's density, gradients and Fisher matrices by autodiff; its EM step by hand.

The toy has one Gaussian a class; derivations are checked with each of them split into
two (``dca_gm.problems.split``), so that shares within a class matter.
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
from scipy.stats import multivariate_normal as normal

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient
from probmetric.checks.dca_gm.problems import split
from probmetric.checks.sides import density_of, inverse
from probmetric.data.containers import Labelled
from probmetric.inference.dca_gm.em import EMData, EMPrior, em_step
from probmetric.inference.dca_gm.fit import Conditioned, log_joint
from probmetric.inference.dca_gm.likelihood import (
    apply_gauge,
    class_log_probability,
    gradient_A,
    gradient_A_tied,
    tilt,
)
from probmetric.metric import LocalFisher, Mahalanobis
from probmetric.metric.class_distribution import class_log_joint, scores
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


def _table(found: tuple[Array, Mapping[str, Array]]) -> Values:
    value, gradient = found
    return {"log density": value, **{f"∂/∂{k}": g for k, g in gradient.items()}}


def _model_density(problem: Problem[Labelled]) -> Values:
    params, data, prior = split(problem)
    density = density_of(dca_gm, (data, prior), _options(params))
    return _table(density(_named(unconstrain(params))))


def _joint(
    problem: Problem[Labelled], rate: float = RATE, weighted: bool = True
) -> Values:
    params, data, prior = split(problem)
    data = data if weighted else data._replace(w=None)
    value, gradient = jax.jit(jax.value_and_grad(log_joint))(
        unconstrain(params), Conditioned(data, prior, rate)
    )
    return _table((value, _named(gradient)))


def _mu_prime(params: DCAGMParams) -> Float[Array, "c k d"]:
    """Return some centres before their projection."""
    c, k, _ = params.mu.shape
    return jnp.asarray(np.random.default_rng(0).normal(size=(c, k, params.A.shape[1])))


def _autodiff(problem: Problem[Labelled]) -> Values:
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


def _gradients(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    tied = _gradient_A_tied(params, _mu_prime(params), data)
    return {"free centres": _gradient_A(params, data), "tied centres": tied}


_gradient_A, _gradient_A_tied = jax.jit(gradient_A), jax.jit(gradient_A_tied)
_scores, _log_joint = jax.jit(scores), jax.jit(class_log_joint)


def _held_fixed(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    tied = params._replace(mu=_mu_prime(params) @ params.A.T)
    return {**_gradients(problem), "tied centres": _gradient_A(tied, data)}


def _without_own_class(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    theta = log_weight(params), params.mu, params.chol
    log_p, m = _scores(data.X @ params.A.T, *theta)
    V = jnp.einsum("nc,ncp->np", jnp.exp(log_p), m)
    return {**_gradients(problem), "free centres": (data.w[:, None] * V).T @ data.X}


def _fisher(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    metric = LocalFisher(params.A, log_weight(params), params.mu, params.chol)
    return {"J(x)": metric.matrix_at(data.X[:20])}


def _hessian_of_kl(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)

    def kl(y: Float[Array, "d"], x: Float[Array, "d"]) -> Array:
        log_p, log_q = class_log_probability(params, jnp.stack([x, y]))
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))

    X = data.X[:20]
    return {"J(x)": jax.jit(jax.vmap(jax.hessian(kl)))(X, X)}


def _uncentred(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    Y = data.X[:20] @ params.A.T
    log_p, m = _scores(Y, log_weight(params), params.mu, params.chol)
    rows = jnp.exp(log_p / 2)[..., None] * m @ params.A
    return {"J(x)": jnp.swapaxes(rows, 1, 2) @ rows}


@jax.jit
def _moved(params: DCAGMParams) -> DCAGMParams:
    """Return parameters in another gauge, and tilted."""
    p = params.A.shape[0]
    B = jnp.eye(p) * 1.3 + 0.3 * jnp.tri(p, k=-1) - 0.2 * jnp.tri(p, k=-1).T
    return tilt(apply_gauge(params, B), 0.05 * jnp.eye(p), 0.3 * jnp.ones(p))


def _seen(
    problem: Problem[Labelled], change: Callable[[DCAGMParams], DCAGMParams] = _moved
) -> Values:
    """Return what is identified, after a change of the parameters."""
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


def _tilt_by_hand(problem: Problem[Labelled]) -> Values:
    """Multiply p(y, c) by exp(hᵀy - yᵀQy/2), and norm it again over y and c."""
    params, data, _ = split(problem)
    Y, (Q, h) = data.X @ params.A.T, _tilting(params)
    logs = _log_joint(Y, log_weight(params), params.mu, params.chol)
    tilted = logs + (Y @ h - jnp.sum((Y @ Q) * Y, 1) / 2)[:, None]
    return {"log p(y, c)": tilted - tilted[:1, :1]}


def _tilting(params: DCAGMParams) -> tuple[Array, Array]:
    p = params.A.shape[0]
    return 0.1 * jnp.eye(p) + 0.03, 0.2 + 0.3 * jnp.arange(p)


def _tilted(problem: Problem[Labelled], sign: float = 1.0) -> Values:
    params, data, _ = split(problem)
    Q, h = _tilting(params)
    new = jax.jit(tilt)(params, Q, sign * h)
    Y = data.X @ params.A.T
    logs = _log_joint(Y, log_weight(new), new.mu, new.chol)
    return {"log p(y, c)": logs - logs[:1, :1]}


PRIOR = EMPrior(rho=0.1)


def em_by_hand(params: DCAGMParams, data: Labelled, prior: EMPrior) -> Values:
    """Take the EM step from the densities themselves, component by component.

    With the log joint density of the parameters given.
    """
    Y = np.asarray(data.X @ params.A.T)
    params = jax.tree.map(np.asarray, params)
    (c, k, p), q = params.mu.shape, params.chol.shape[1]
    S = np.asarray(params.chol @ np.swapaxes(params.chol, -1, -2))
    y, w = np.asarray(data.y), np.asarray(data.w)
    mu, beta, covariance = np.zeros((c, k, p)), np.zeros((c, k)), np.zeros((c, q, p, p))
    total = 0.0
    for one in range(c):
        mine, weight = Y[y == one], w[y == one]
        densities = [
            np.exp(normal.logpdf(mine, params.mu[one, m], S[one, min(m, q - 1)]))
            for m in range(k)
        ]
        density = np.exp(np.asarray(params.log_beta[one])) * np.stack(densities, 1)
        share = weight[:, None] * density / density.sum(1, keepdims=True)
        size = share.sum(0)
        present = np.isfinite(np.asarray(params.log_beta[one]))
        pseudo = np.where(present, prior.b / present.sum(), 0.0)
        mean = share.T @ mine / np.where(present, size, 1.0)[:, None]
        mu[one] = np.where(present[:, None], mean, params.mu[one])
        beta[one] = (size + pseudo) / (size.sum() + prior.b)
        r = mine[:, None] - mu[one]
        scatter = np.einsum("nk,nkp,nkq->kpq", share, r, r)
        if q == 1:
            scatter, size = scatter.sum(0)[None], size.sum()[None]
        covariance[one] = scatter + prior.nu * prior.rho * np.eye(p)
        covariance[one] /= (size + prior.nu)[:, None, None]
        total += weight @ (np.log(density.sum(1)) + params.log_alpha[one])
        total += pseudo[present] @ np.asarray(params.log_beta[one])[present]
        for part in S[one]:
            spread = np.linalg.slogdet(part)[1] + prior.rho * np.trace(inverse(part))
            total -= prior.nu / 2 * spread
    return {"μ": mu, "β": beta, "Σ": covariance, "log joint": total}


def _of_either(problem: Problem[Labelled]) -> dict[str, DCAGMParams]:
    """Return parameters of one covariance a class, and of one a component."""
    params, _, _ = split(problem)
    k = params.mu.shape[1]
    wider = params.chol[:, :1] * (1 + 0.4 * jnp.arange(k))[:, None, None]
    shared = params._replace(chol=params.chol[:, :1])
    return {"": shared, ", a component": params._replace(chol=wider)}


def _brute_em(problem: Problem[Labelled]) -> Values:
    found: dict[str, Any] = {}
    _, data, _ = split(problem)
    for name, params in _of_either(problem).items():
        step = em_by_hand(params, data, PRIOR)
        found |= {key + name: value for key, value in step.items()}
    return found


def _em(problem: Problem[Labelled], prior: EMPrior = PRIOR) -> dict[str, jax.Array]:
    found: dict[str, jax.Array] = {}
    _, data, _ = split(problem)
    for name, params in _of_either(problem).items():
        em = EMData(data.X @ params.A.T, data.y, data.w, prior)
        new, total = jax.jit(em_step)(params, em)
        S = new.chol @ jnp.swapaxes(new.chol, -1, -2)
        step = {"μ": new.mu, "β": jnp.exp(new.log_beta), "Σ": S, "log joint": total}
        found |= {key + name: jnp.asarray(value) for key, value in step.items()}
    return found


def _em_about_old_centres(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    found = _em(problem)
    moved = np.asarray(found["μ"] - params.mu)
    size = np.bincount(data.y, data.w)[:, None, None]
    extra = np.einsum("ckp,ckq->cpq", moved, moved) * size / (size + 2)
    return {**found, "Σ": found["Σ"] + extra[:, None]}


CHECKS = (
    by_gradient(
        "log joint is the density of the NumPyro model, with its gradient",
        reference=_model_density,
        estimate=_joint,
        controls={
            "learning rate left out": partial(_joint, rate=1.0),
            "data weights left out": partial(_joint, weighted=False),
        },
    ),
    by_gradient(
        "gradient in A is that of the NumPyro model",
        reference=_autodiff,
        estimate=_gradients,
        controls={
            "the own class's term left out": _without_own_class,
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
        "p(c|x) and J do not see the gauge or the tilt",
        reference=partial(_seen, change=lambda params: params),
        estimate=_seen,
        controls={
            "the mixture left behind": partial(
                _seen, change=_only_the_projection_moved
            ),
            "a tilt without its weights": partial(_seen, change=_weights_not_tilted),
        },
        rtol=1e-8,
    ),
    by_algebra(
        "a tilt multiplies the density by what it says",
        reference=_tilt_by_hand,
        estimate=_tilted,
        controls={"-h for h": partial(_tilted, sign=-1.0)},
        rtol=1e-8,
    ),
    by_algebra(
        "EM step is the one taken component by component",
        reference=_brute_em,
        estimate=_em,
        controls={
            "no prior": partial(_em, prior=EMPrior(0.0, 0.0, 0.0)),
            "scatter about the old centres": _em_about_old_centres,
        },
    ),
)
