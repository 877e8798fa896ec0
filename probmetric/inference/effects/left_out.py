"""Leave one point out: the density of all pairs of a point, with its effect unknown.

If judged pairs share points, the points are the exchangeable units. Leaving out point i
removes its pairs y_(i) and its effect z_i. Given the other parameters,

    p(y_(i) | W, b, ω, z_-i)
        = ∫ N(z; 0, 1) Π_{r ∋ i} P(y_r | b e^{ωz}, b_j, D_r) dz,                   (1)

computed by the trapezoidal rule. The posterior without point i is the full posterior
weighted by the inverse of Eq. (1), as in PSIS-LOO. Therefore

    elpd = Σ_i log E[p(y_(i) | W, b, ω, z_-i) | y_-(i)]                            (2)

sums over points the log predictive density of all pairs of a point, given the pairs of
the other points. Each pair is in two terms, so Eq. (2) is no estimate for one pair.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.inference.effects.points import Rows
from probmetric.inference.sampling.target import Arrays
from probmetric.models.lca import log1mexp
from probmetric.models.point_effects import NODES
from probmetric.typing import Array

_LOG_WEIGHTS = -0.5 * NODES**2 - 0.5 * np.log(2 * np.pi) + np.log(NODES[1] - NODES[0])


def _of_draw(draw: Arrays, rows: Rows) -> Array:
    """Return the log of Eq. (1) per point, (n,), at a draw {M, b, b_point, spread}."""
    D = jnp.sum((rows.delta @ draw["M"]) * rows.delta, -1)
    h = 0.5 * draw["b_point"]
    at_nodes = 0.5 * draw["b"] * jnp.exp(draw["spread"] * NODES)
    point = jnp.concatenate([rows.i, rows.j])
    rest = jnp.concatenate([h[rows.j], h[rows.i]]) + 0.5 * jnp.tile(D, 2)
    t, same = rest[:, None] + at_nodes, jnp.tile(rows.same, 2)[:, None]
    terms = jnp.where(same, -t, log1mexp(jnp.where(same, 1.0, t)))
    total = jax.ops.segment_sum(terms, point, len(h))
    return jax.scipy.special.logsumexp(total + _LOG_WEIGHTS, -1)


@jax.jit
def _of_draws(values: Arrays, rows: Rows) -> Array:
    return jax.lax.map(lambda draw: _of_draw(draw, rows), values)


def point_log_likelihood(
    values: dict[str, np.ndarray], rows: Rows
) -> Float[np.ndarray, "chain draw n"]:
    """Return the log density of the pairs of each point, Eq. (1), for each draw."""
    names = ("M", "b", "b_point", "spread")
    flat = {k: np.asarray(values[k], float) for k in names}
    shape = flat["b"].shape
    flat = {k: v.reshape(-1, *v.shape[2:]) for k, v in flat.items()}
    with jax.enable_x64(True):
        log_density = np.asarray(_of_draws(flat, rows))
    return log_density.reshape(*shape, -1)
