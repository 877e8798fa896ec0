"""DCA-GM's gradients, Fisher matrices and density against automatic differentiation.

The toy has one Gaussian a class; derivations are checked with each of them split into
two (``dca_gm.problems.split``), so that shares within a class matter.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import log_density

from probmetric.checks.check import Check, Problem
from probmetric.checks.dca_gm.em import EM
from probmetric.checks.dca_gm.problems import split
from probmetric.checks.dca_gm.sampling import LAPLACE
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

__all__ = ["CHECKS"]

type Values = dict[str, Any]

RATE = 0.7


def _options(params: DCAGMParams) -> dict[str, Any]:
    shared = params.chol.shape[1] == 1
    return {"covariance": "class" if shared else "component", "learning_rate": RATE}


def _named(sites: Any) -> Values:
    return {name: value for name, value in sites._asdict().items() if value.size}


def _model_density(problem: Problem) -> Values:
    params, data, prior = split(problem)

    def density(values: Values) -> Any:
        return log_density(dca_gm, (data, prior), _options(params), values)[0]

    value, gradient = jax.jit(jax.value_and_grad(density))(_named(unconstrain(params)))
    return {"log density": value, **{f"∂/∂{k}": v for k, v in gradient.items()}}


def _joint(problem: Problem, *, rate: float = RATE, weighted: bool = True) -> Values:
    params, data, prior = split(problem)
    data = data if weighted else data._replace(w=None)
    value, gradient = jax.jit(jax.value_and_grad(log_joint))(
        unconstrain(params), Conditioned(data, prior, rate)
    )
    return {
        "log density": value,
        **{f"∂/∂{k}": v for k, v in _named(gradient).items()},
    }


def _mu_prime(problem: Problem) -> Any:
    c, k, _ = split(problem)[0].mu.shape
    d = np.shape(problem.data.X)[1]  # pyright: ignore
    return jnp.asarray(np.random.default_rng(0).normal(size=(c, k, d)))


def _autodiff(problem: Problem) -> Values:
    """Differentiate the NumPyro density of the labels: with them, less without."""
    params, data, prior = split(problem)
    mu_prime, nothing = _mu_prime(problem), data._replace(w=0 * data.X[:, 0])
    options = {**_options(params), "learning_rate": 1.0}

    def likelihood(A: Any, mu: Any) -> Any:
        values = _named(unconstrain(params._replace(A=A, mu=mu)))
        full = log_density(dca_gm, (data, prior), options, values)[0]
        return full - log_density(dca_gm, (nothing, prior), options, values)[0]

    free = jax.jit(jax.grad(lambda A: likelihood(A, params.mu)))
    tied = jax.jit(jax.grad(lambda A: likelihood(A, mu_prime @ A.T)))
    return {"free centres": free(params.A), "tied centres": tied(params.A)}


def _gradients(problem: Problem) -> Values:
    params, data, _ = split(problem)
    return {
        "free centres": gradient_A(params, data),
        "tied centres": gradient_A_tied(params, _mu_prime(problem), data),
    }


def _swapped(problem: Problem) -> Values:
    params, data, _ = split(problem)
    tied = params._replace(mu=_mu_prime(problem) @ params.A.T)
    return {
        "free centres": gradient_A(params, data),
        "tied centres": gradient_A(tied, data),
    }


def _without_own_class(problem: Problem) -> Values:
    params, data, _ = split(problem)
    log_p, m = scores(data.X @ params.A.T, log_weight(params), params.mu, params.chol)
    V = jnp.einsum("nc,ncp->np", jnp.exp(log_p), m)
    wrong = (jnp.asarray(data.w)[:, None] * V).T @ data.X
    return {**_gradients(problem), "free centres": wrong}


def _local(params: DCAGMParams) -> LocalFisher:
    return LocalFisher(params.A, log_weight(params), params.mu, params.chol)


def _hessian_of_kl(problem: Problem) -> Values:
    params, data, _ = split(problem)

    def kl(y: Any, x: Any) -> Any:
        log_p = class_log_probability(params, x[None])[0]
        log_q = class_log_probability(params, y[None])[0]
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))

    X = data.X[:20]
    return {"J(x)": jax.jit(jax.vmap(jax.hessian(kl)))(X, X)}


def _uncentred(problem: Problem) -> Values:
    params, data, _ = split(problem)
    Y = data.X[:20] @ params.A.T
    log_p, m = scores(Y, log_weight(params), params.mu, params.chol)
    rows = jnp.exp(log_p / 2)[..., None] * m @ params.A
    return {"J(x)": jnp.swapaxes(rows, 1, 2) @ rows}


def _moved(problem: Problem) -> DCAGMParams:
    """Return the parameters in another gauge, and tilted."""
    params, _, _ = split(problem)
    p = params.A.shape[0]
    B = jnp.eye(p) * 1.3 + 0.3 * jnp.tri(p, k=-1) - 0.2 * jnp.tri(p, k=-1).T
    return tilt(apply_gauge(params, B), 0.05 * jnp.eye(p), 0.3 * jnp.ones(p))


def _seen(problem: Problem, params: DCAGMParams) -> Values:
    data: Any = problem.data
    X = jnp.asarray(data.X)
    metric = to_metric(params, X)
    assert isinstance(metric, Mahalanobis)
    return {
        "p(c|x)": jnp.exp(class_log_probability(params, X)),
        "J": metric.matrix,
    }


def _only_the_projection_moved(problem: Problem) -> Values:
    return _seen(problem, split(problem)[0]._replace(A=_moved(problem).A))


def _weights_not_tilted(problem: Problem) -> Values:
    before = split(problem)[0]
    wrong = _moved(problem)._replace(
        log_alpha=before.log_alpha, log_beta=before.log_beta
    )
    return _seen(problem, wrong)


CHECKS: tuple[Check, ...] = (
    Check(
        name="log joint is the density of the NumPyro model, with its gradient",
        kind="exact",
        reference=_model_density,
        estimate=_joint,
        controls={
            "learning rate left out": lambda problem: _joint(problem, rate=1.0),
            "data weights left out": lambda problem: _joint(problem, weighted=False),
        },
        layer="gradient",
    ),
    Check(
        name="gradient in A is that of the NumPyro model",
        kind="exact",
        reference=_autodiff,
        estimate=_gradients,
        controls={
            "the own class's term left out": _without_own_class,
            "tied centres held fixed": _swapped,
        },
        layer="gradient",
    ),
    Check(
        name="J is the Hessian of the Kullback-Leibler divergence",
        kind="exact",
        reference=_hessian_of_kl,
        estimate=lambda problem: {
            "J(x)": _local(split(problem)[0]).matrix_at(
                jnp.asarray(problem.data.X[:20])  # pyright: ignore
            )
        },
        controls={"scores not centred": _uncentred},
        layer="gradient",
    ),
    EM,
    Check(
        name="p(c|x) and J do not see the gauge or the tilt",
        kind="exact",
        reference=lambda problem: _seen(problem, split(problem)[0]),
        estimate=lambda problem: _seen(problem, _moved(problem)),
        controls={
            "the mixture left behind": _only_the_projection_moved,
            "a tilt without its weights": _weights_not_tilted,
        },
        rtol=1e-8,
    ),
    LAPLACE,
)
