"""Leave one point out: the density of all pairs of a point, its effect unknown.

The units of judged pairs that share points are the points. To leave point i out is to
leave out its pairs y_(i) and its effect z_i. Given what is left,

    p(y_(i) | W, b, ω, z_-i)
        = ∫ N(z; 0, 1) Π_{r ∋ i} P(y_r | b e^{ωz}, b_j, D_r) dz,                   (1)

by the trapezoidal rule. The posterior without i is the posterior of the rest, weighted
by the inverse of (1), which is what PSIS-LOO does with terms of a log likelihood. So

    elpd = Σ_i log E[p(y_(i) | W, b, ω, z_-i) | y_-(i)]                            (2)

is the sum over points of how well all pairs of a point are predicted from the pairs of
the others. Each pair is in two of its terms: it is no estimate for one pair.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.inference.point_effects.likelihood import Rows
from probmetric.models.lca import log1mexp
from probmetric.models.point_effects import NODES

_LOG_WEIGHTS = -0.5 * NODES**2 - 0.5 * np.log(2 * np.pi) + np.log(NODES[1] - NODES[0])


def _of_draw(one: Any, rows: Rows) -> Any:
    """Return Eq. (1) for each point, (n,), of one draw {M, b, b_point, spread}."""
    D = jnp.sum((rows.delta @ one["M"]) * rows.delta, -1)
    h = 0.5 * one["b_point"]
    own = 0.5 * one["b"] * jnp.exp(one["spread"] * NODES)
    point = jnp.concatenate([rows.i, rows.j])
    rest = jnp.concatenate([h[rows.j], h[rows.i]]) + 0.5 * jnp.tile(D, 2)
    t, same = rest[:, None] + own, jnp.tile(rows.same, 2)[:, None]
    each = jnp.where(same, -t, log1mexp(jnp.where(same, 1.0, t)))
    total = jax.ops.segment_sum(each, point, len(h))
    return jax.scipy.special.logsumexp(total + _LOG_WEIGHTS, -1)


@jax.jit
def _of_draws(values: dict[str, Any], rows: Rows) -> Any:
    return jax.lax.map(lambda one: _of_draw(one, rows), values)


def point_log_likelihood(
    values: dict[str, np.ndarray], rows: Rows
) -> Float[np.ndarray, "chain draw n"]:
    """Return log p(y_(i) | ...) of Eq. (1), for each draw and point.

    Parameters
    ----------
    values : dict of arrays of shape (chain, draw, ...)
        Draws of M, b, b_point and spread, in the units of ``rows``.
    rows : Rows
        Weights are not looked at.
    """
    names = ("M", "b", "b_point", "spread")
    flat = {k: np.asarray(values[k], float) for k in names}
    shape = flat["b"].shape
    flat = {k: v.reshape(-1, *v.shape[2:]) for k, v in flat.items()}
    with jax.enable_x64(True):
        found = np.asarray(_of_draws(flat, rows))
    return found.reshape(*shape, -1)
