"""The best root of a cubic in an interval: where the two updates of α end.

Between its two stationary points a cubic is monotone, so at most three bisections
find all roots. Works under ``jit`` and ``vmap`` on every device (no eigenvalues of a
companion matrix), and never leaves the interval.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

__all__ = ["best_root"]


@numpy_in_numpy_out
def best_root(
    cubic: Float[Array, "4"],
    low: float,
    high: float,
    objective: Callable[[Any], Any],
) -> Float[Array, ""]:
    """Return the root of the cubic in (low, high) with the highest objective.

    Parameters
    ----------
    cubic : array of shape (4,)
        Coefficients, highest power first.
    low, high : float
        The open interval.
    objective : callable
        What the cubic is a stationarity condition of.

    Returns
    -------
    array of shape ()
        NaN when there is no root inside.
    """
    eps = jnp.finfo(cubic.dtype).eps
    c3, c2, c1, _ = cubic
    # Stationary points, by the form of the quadratic formula without cancellation.
    half = -(
        c2
        + jnp.where(c2 < 0, -1.0, 1.0) * jnp.sqrt(jnp.maximum(c2**2 - 3 * c3 * c1, 0))
    )
    turns = jnp.stack(
        [
            half / jnp.where(c3 == 0, jnp.nan, 3 * c3),
            c1 / jnp.where(half == 0, jnp.nan, half),
        ]
    )
    turns = jnp.sort(jnp.clip(jnp.where(jnp.isnan(turns), low, turns), low, high))
    ends = jnp.concatenate(
        [jnp.asarray([low], cubic.dtype), turns, jnp.asarray([high], cubic.dtype)]
    )
    left, right = ends[:-1], ends[1:]
    at_left = jnp.polyval(cubic, left)
    crosses = at_left * jnp.polyval(cubic, right) <= 0

    def halve(_: Any, bracket: Any) -> Any:
        a, b = bracket
        middle = (a + b) / 2
        same = jnp.sign(jnp.polyval(cubic, middle)) == jnp.sign(at_left)
        return jnp.where(same, middle, a), jnp.where(same, b, middle)

    # Each halving gains a bit, down to the last one near zero too.
    n = int(-2 * np.log2(eps))
    a, b = jax.lax.fori_loop(0, n, halve, (left, right))
    root = (a + b) / 2
    inside = crosses & (root > low) & (root < high)
    value = jnp.where(
        inside, objective(jnp.where(inside, root, (low + high) / 2)), -jnp.inf
    )
    best = jnp.argmax(jnp.where(jnp.isnan(value), -jnp.inf, value))
    return jnp.where(jnp.any(inside), root[best], jnp.nan)
