"""DCA-GM's EM step against the step taken component by component."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import multivariate_normal

from probmetric.checks.check import Check, Problem, Values
from probmetric.checks.dca_gm.problems import split
from probmetric.data.containers import Labelled
from probmetric.inference.dca_gm.em import EMData, EMPrior, em_step

PRIOR = EMPrior(rho=0.1)


def _brute_em(problem: Problem[Labelled]) -> Values:
    """Take the EM step from the densities themselves, component by component."""
    params, data, _ = split(problem)
    prior, Y = PRIOR, data.X @ params.A.T
    c, k, p = params.mu.shape
    S = params.chol @ jnp.swapaxes(params.chol, -1, -2)
    y, w = np.asarray(data.y), np.asarray(data.w)
    mu, beta, covariance = np.zeros((c, k, p)), np.zeros((c, k)), np.zeros((c, p, p))
    for one in range(c):
        mine, weight = np.asarray(Y)[y == one], w[y == one]
        densities = [
            multivariate_normal.pdf(mine, centre, S[one, 0])
            for centre in params.mu[one]
        ]
        density = np.exp(params.log_beta[one]) * np.stack(densities, 1)
        share = weight[:, None] * density / density.sum(1, keepdims=True)
        size = share.sum(0)
        mu[one] = share.T @ mine / size[:, None]
        beta[one] = (size + prior.b / k) / (size.sum() + prior.b)
        r = mine[:, None] - mu[one]
        scatter = np.einsum("nk,nkp,nkq->pq", share, r, r)
        covariance[one] = scatter + prior.nu * prior.rho * np.eye(p)
        covariance[one] /= size.sum() + prior.nu
    return {"μ": mu, "β": beta, "Σ": covariance}


def _em(problem: Problem[Labelled], prior: EMPrior = PRIOR) -> Values:
    params, data, _ = split(problem)
    em = EMData(data.X @ params.A.T, data.y, data.w, prior)
    new, _ = jax.jit(em_step)(params, em)
    S = new.chol @ jnp.swapaxes(new.chol, -1, -2)
    return {"μ": new.mu, "β": jnp.exp(new.log_beta), "Σ": S[:, 0]}


def _em_about_old_centres(problem: Problem[Labelled]) -> Values:
    params, data, _ = split(problem)
    found = _em(problem)
    moved = np.asarray(found["μ"] - params.mu)
    size = np.bincount(data.y, data.w)[:, None, None]
    extra = np.einsum("ckp,ckq->cpq", moved, moved) * size / (size + 2)
    return {**found, "Σ": found["Σ"] + extra}


CHECKS = (
    Check(
        "EM step is the one taken component by component",
        "exact",
        _brute_em,
        _em,
        {
            "no prior": partial(_em, prior=EMPrior(0.0, 0.0, 0.0)),
            "scatter about the old centres": _em_about_old_centres,
        },
    ),
)
