"""DCA-GM's gradients, Fisher matrices and density against automatic differentiation.

The toy has one Gaussian a class; derivations are checked with each of them split into
two (``dca_gm.problems.split``), so that shares within a class matter.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import log_density

from probmetric.checks.check import Check, Problem, Values
from probmetric.checks.dca_gm.problems import split
from probmetric.checks.sides import density_of
from probmetric.data.containers import Labelled
from probmetric.inference.dca_gm.fit import Conditioned, log_joint
from probmetric.inference.dca_gm.likelihood import (
    apply_gauge,
    class_log_probability,
    gradient_A,
    gradient_A_tied,
    tilt,
)
from probmetric.metric import LocalFisher, Mahalanobis
from probmetric.metric.class_distribution import scores
from probmetric.models.dca_gm import (
    DCAGMParams,
    dca_gm,
    log_weight,
    to_metric,
    unconstrain,
)

RATE = 0.7


def _options(params: DCAGMParams) -> dict[str, Any]:
    shared = params.chol.shape[1] == 1
    return {"covariance": "class" if shared else "component", "learning_rate": RATE}


def _named(sites: Any) -> dict[str, Any]:
    return {name: value for name, value in sites._asdict().items() if value.size}


def _table(found: tuple[Any, Values]) -> Values:
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


def _mu_prime(params: DCAGMParams) -> Any:
    """Return some centres before their projection."""
    c, k, _ = params.mu.shape
    return jnp.asarray(np.random.default_rng(0).normal(size=(c, k, params.A.shape[1])))


def _autodiff(problem: Problem[Labelled]) -> Values:
    """Differentiate the NumPyro density of the labels: with them, less without."""
    params, data, prior = split(problem)
    mu_prime, options = _mu_prime(params), {**_options(params), "learning_rate": 1.0}

    def likelihood(A: Any, mu: Any) -> Any:
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
    tied = gradient_A_tied(params, _mu_prime(params), data)
    return {"free centres": gradient_A(params, data), "tied centres": tied}


def _held_fixed(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    tied = params._replace(mu=_mu_prime(params) @ params.A.T)
    return {**_gradients(problem), "tied centres": gradient_A(tied, data)}


def _without_own_class(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    log_p, m = scores(data.X @ params.A.T, log_weight(params), params.mu, params.chol)
    V = jnp.einsum("nc,ncp->np", jnp.exp(log_p), m)
    return {**_gradients(problem), "free centres": (data.w[:, None] * V).T @ data.X}


def _fisher(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    metric = LocalFisher(params.A, log_weight(params), params.mu, params.chol)
    return {"J(x)": metric.matrix_at(data.X[:20])}


def _hessian_of_kl(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)

    def kl(y: Any, x: Any) -> Any:
        log_p, log_q = class_log_probability(params, jnp.stack([x, y]))
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))

    X = data.X[:20]
    return {"J(x)": jax.jit(jax.vmap(jax.hessian(kl)))(X, X)}


def _uncentred(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    Y = data.X[:20] @ params.A.T
    log_p, m = scores(Y, log_weight(params), params.mu, params.chol)
    rows = jnp.exp(log_p / 2)[..., None] * m @ params.A
    return {"J(x)": jnp.swapaxes(rows, 1, 2) @ rows}


def _moved(params: DCAGMParams) -> DCAGMParams:
    """Return parameters in another gauge, and tilted."""
    p = params.A.shape[0]
    B = jnp.eye(p) * 1.3 + 0.3 * jnp.tri(p, k=-1) - 0.2 * jnp.tri(p, k=-1).T
    return tilt(apply_gauge(params, B), 0.05 * jnp.eye(p), 0.3 * jnp.ones(p))


def _seen(
    problem: Problem[Labelled],
    change: Callable[[DCAGMParams], DCAGMParams] = _moved,
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


CHECKS = (
    Check(
        "log joint is the density of the NumPyro model, with its gradient",
        "exact",
        _model_density,
        _joint,
        {
            "learning rate left out": partial(_joint, rate=1.0),
            "data weights left out": partial(_joint, weighted=False),
        },
        layer="gradient",
    ),
    Check(
        "gradient in A is that of the NumPyro model",
        "exact",
        _autodiff,
        _gradients,
        {
            "the own class's term left out": _without_own_class,
            "tied centres held fixed": _held_fixed,
        },
        layer="gradient",
    ),
    Check(
        "J is the Hessian of the Kullback-Leibler divergence",
        "exact",
        _hessian_of_kl,
        _fisher,
        {"scores not centred": _uncentred},
        layer="gradient",
    ),
    Check(
        "p(c|x) and J do not see the gauge or the tilt",
        "exact",
        partial(_seen, change=lambda params: params),
        _seen,
        {
            "the mixture left behind": partial(
                _seen, change=_only_the_projection_moved
            ),
            "a tilt without its weights": partial(_seen, change=_weights_not_tilted),
        },
        rtol=1e-8,
    ),
)
