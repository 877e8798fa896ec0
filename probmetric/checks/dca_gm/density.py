"""DCA-GM's densities, mode and Fisher matrices compared with autodiff.

The simulated problem has one Gaussian per class. Densities are checked after each
Gaussian is split into two (``dca_gm.problems.split``), because the weights within a
class matter only then.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.checks.check import Problem, Values, by_gradient
from probmetric.checks.claims import Sites, density, mode, prior_times, untempered
from probmetric.checks.dca_gm.problems import split, tempered
from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.draws import TARGET, Asked, prepare
from probmetric.inference.dca_gm.fit import Conditioned, fit, log_joint, to_white
from probmetric.inference.dca_gm.likelihood import class_log_probability
from probmetric.metric import LocalFisher
from probmetric.metric.class_distribution import scores
from probmetric.models.dca_gm import DCAGMSites, dca_gm, log_weight, unconstrain
from probmetric.typing import Array, Scalar


def _sites(problem: Problem[Labeled]) -> Sites:
    sites = unconstrain(problem.params._replace(fisher=None))._asdict()
    return {name: jnp.asarray(value) for name, value in sites.items() if value.size}


def _all_sites(sites: Sites) -> DCAGMSites:
    # In one dimension there is no off-diagonal, and NumPyro has no such site.
    return DCAGMSites(**{"off_diag": sites["log_diag"][..., :0], **sites})


def _given(problem: Problem[Labeled]) -> Conditioned:
    return Conditioned(problem.data, problem.prior, problem.options["learning_rate"])


def _joint(sites: Sites, given: Conditioned) -> Scalar:
    return log_joint(_all_sites(sites), given)


def _white(sites: Sites, args: Asked) -> Scalar:
    return TARGET.log_density(to_white(_all_sites(sites), args.white), args)


def _target(problem: Problem[Labeled]) -> Any:
    return _white, (prepare(problem.params, _given(problem))[1],)


def _unweighted(problem: Problem[Labeled]) -> Problem[Labeled]:
    return replace(problem, data=problem.data._replace(w=None))


def _end(problem: Problem[Labeled]) -> Sites:
    rate = problem.options["learning_rate"]
    args = problem.data, problem.prior
    end = fit(*args, tol=1e-9, max_steps=3000, learning_rate=rate)
    return _sites(replace(problem, params=end.params))


def _fisher(problem: Problem[Labeled], centered: bool = True) -> Values:
    """Return the Fisher matrix J at some points; wrong: without centered scores."""
    params, X = split(problem).params, jnp.asarray(problem.data.X[:20])
    theta = log_weight(params), params.mu, params.chol
    if centered:
        return {"J(x)": LocalFisher(params.A, *theta).matrix_at(X)}
    log_p, m = jax.jit(scores)(X @ params.A.T, *theta)
    rows = jnp.exp(log_p / 2)[..., None] * m @ params.A
    return {"J(x)": jnp.swapaxes(rows, 1, 2) @ rows}


def _hessian_of_kl(problem: Problem[Labeled]) -> Values:
    params, X = split(problem).params, jnp.asarray(problem.data.X[:20])

    def kl(y: Float[Array, "d"], x: Float[Array, "d"]) -> Array:
        log_p, log_q = class_log_probability(params, jnp.stack([x, y]))
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q))

    return {"J(x)": jax.jit(jax.vmap(jax.hessian(kl)))(X, X)}


WRONG = {"learning rate left out": untempered, "data weights left out": _unweighted}

CHECKS = (
    density(
        dca_gm,
        lambda p: [_sites(p)],
        lambda p: (_joint, (_given(p),)),
        changed=split,
        wrong=WRONG,
    ),
    density(
        dca_gm,
        lambda p: [_sites(p)],
        _target,
        name="the samplers' whitened density equals the NumPyro density, and gradient",
        changed=split,
        wrong=WRONG,
        rtol=1e-8,
    ),
    by_gradient(
        "J is the Hessian of the Kullback-Leibler divergence",
        reference=_hessian_of_kl,
        estimate=_fisher,
        controls={"scores not centered": partial(_fisher, centered=False)},
    ),
    mode(
        dca_gm,
        _end,
        changed=tempered,
        wrong={"λ a tenth too large": prior_times(lam=1.1)},
        atol=1e-5,
    ),
)
