"""Enrolment: a database element known by several instances of one source.

Given instances Y_1..n of a source, with h_k and V_k the posterior of its representative
(``two_stage_pairs`` Eq. 2),

    Pr(Q | Y_1..n) = Σ_k P(k | Y_1..n) N(Q; h_k, V_k + W_k),                       (1)

and the log ratio against another source subtracts log Pr(Q). V_k depends on the number
of instances alone, so that all queries against all sources of equal n cost one GEMM a
component.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Float

from probmetric.data.containers import Groups
from probmetric.densities.pair import LOG_2PI
from probmetric.inference.two_stage.groups import group_data, log_groups
from probmetric.linalg import logdet_chol, solve_spd
from probmetric.models.two_stage import TwoStageParams, to_metric
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

__all__ = ["Enrolled", "enrol", "score_enrolled"]


class Enrolled(NamedTuple):
    """Sources in the database: log P(k | Y's) (G, k), mean x̄ (G, d) and size n (G,)."""

    log_component: Float[Array, "G k"]
    mean: Float[Array, "G d"]
    size: Float[Array, "G"]


@numpy_in_numpy_out
def enrol(params: TwoStageParams, groups: Groups) -> Enrolled:
    """Condense each group of instances to what (1) needs, in order of group codes."""
    data = group_data(groups)
    data = jax.tree.map(jnp.asarray, data)
    log_p = log_groups(params, data)
    return Enrolled(log_p - logsumexp(log_p, -1)[:, None], data.mean, data.size)


@numpy_in_numpy_out
def score_enrolled(
    params: TwoStageParams,
    Q: Float[Array, "m d"],
    enrolled: Enrolled,
    *,
    score: Literal["log_ratio", "conditional"] = "log_ratio",
) -> Float[Array, "m G"]:
    """Return log Pr(Q | Y's) of every query and source, Eq. (1), or its log ratio."""
    Q = jnp.asarray(Q)
    sizes = np.asarray(enrolled.size)
    out = jnp.zeros((len(Q), len(sizes)), Q.dtype)
    for n in np.unique(sizes):
        columns = np.flatnonzero(sizes == n)
        chosen = enrolled.log_component[columns], enrolled.mean[columns]
        out = out.at[:, columns].set(_conditional(params, Q, *chosen, float(n)))
    if score == "conditional":
        return out
    return out - to_metric(params).log_marginal(Q)[:, None]


@jax.jit
def _conditional(params: TwoStageParams, Q: Any, log_k: Any, mean: Any, n: Any) -> Any:
    eye = jnp.eye(Q.shape[-1], dtype=Q.dtype)

    def one(mu: Any, W: Any, B: Any, log_k: Any) -> Any:
        G = solve_spd(B + W / n, B).T
        V = G @ W / n
        L = jnp.linalg.cholesky((V + V.T) / 2 + W)
        T = solve_triangular(L, eye, lower=True)
        q, h = (Q - mu) @ T.T, (mean - mu) @ (T @ G).T
        square = jnp.sum(q**2, -1)[:, None] + jnp.sum(h**2, -1) - 2 * q @ h.T
        return log_k - 0.5 * (len(eye) * LOG_2PI + logdet_chol(L) + square)

    def add(total: Any, component: Any) -> tuple[Any, None]:
        return jnp.logaddexp(total, one(*component)), None

    start = jnp.full((len(Q), len(mean)), -jnp.inf, Q.dtype)
    parts = params.means, params.within, params.between, log_k.T
    return jax.lax.scan(add, start, parts)[0]
