"""DCA-GM's EM step against the step taken component by component."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import multivariate_normal

from probmetric.checks.check import Check, Problem
from probmetric.checks.dca_gm.problems import split
from probmetric.inference.dca_gm.em import EMData, EMPrior, em_step

__all__ = ["EM"]

type Values = dict[str, Any]


def _brute_em(problem: Problem) -> Values:
    """Take the EM step from the densities themselves, component by component."""
    params, data, _ = split(problem)
    prior, Y = EMPrior(rho=0.1), data.X @ params.A.T
    c, k, p = params.mu.shape
    S = params.chol @ jnp.swapaxes(params.chol, -1, -2)
    y, w = np.asarray(data.y), np.asarray(data.w)
    mu, beta, covariance = np.zeros((c, k, p)), np.zeros((c, k)), np.zeros((c, p, p))
    for one in range(c):
        mine, weight = np.asarray(Y)[y == one], w[y == one]
        density = np.stack(
            [
                np.exp(params.log_beta[one, j])
                * np.asarray(
                    multivariate_normal.pdf(mine, params.mu[one, j], S[one, 0])
                )
                for j in range(k)
            ],
            1,
        )
        share = weight[:, None] * density / density.sum(1, keepdims=True)
        size = share.sum(0)
        mu[one] = share.T @ mine / size[:, None]
        beta[one] = (size + prior.b / k) / (size.sum() + prior.b)
        scatter = prior.nu * prior.rho * np.eye(p)
        for j in range(k):
            r = mine - mu[one, j]
            scatter = scatter + (share[:, j, None] * r).T @ r
        covariance[one] = scatter / (size.sum() + prior.nu)
    return {"μ": mu, "β": beta, "Σ": covariance}


def _em(problem: Problem, prior: EMPrior | None = None) -> Values:
    params, data, _ = split(problem)
    em = EMData(
        data.X @ params.A.T,
        jnp.asarray(data.y),
        jnp.asarray(data.w),
        EMPrior(rho=0.1) if prior is None else prior,
    )
    new, _ = jax.jit(em_step)(params, em)
    S = new.chol @ jnp.swapaxes(new.chol, -1, -2)
    return {"μ": new.mu, "β": jnp.exp(new.log_beta), "Σ": S[:, 0]}


def _em_about_old_centres(problem: Problem) -> Values:
    params, data, _ = split(problem)
    found = _em(problem)
    w, y = np.asarray(data.w), np.asarray(data.y)
    moved = np.asarray(found["μ"] - params.mu)
    size = np.bincount(y, w)[:, None, None]
    extra = np.einsum("ckp,ckq->cpq", moved, moved) * size / (size + 2)
    return {**found, "Σ": found["Σ"] + extra}


EM = Check(
    name="EM step is the one taken component by component",
    kind="exact",
    reference=_brute_em,
    estimate=_em,
    controls={
        "no prior": lambda problem: _em(problem, EMPrior(0.0, 0.0, 0.0)),
        "scatter about the old centres": _em_about_old_centres,
    },
)
