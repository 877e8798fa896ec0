"""L-BFGS as one traced loop, for many small fits inside one compiled program.

``solvers.lbfgs.lbfgs`` calls compiled code from SciPy's loop, which neither ``vmap``
nor a loop over fits can hold. Here all is traced: the two-loop recursion over the last
``MEMORY`` steps, and halving until the objective falls by a fraction of what its slope
promises. Wolfe's second condition is not sought; a step whose gradient change is not
positive along it is not remembered. JAX itself has no traced solver of limited memory
that it asks to rely on, and neither optax nor optimistix is needed otherwise.

It stops on the estimated gap gᵀHg/2, with H the current inverse Hessian: for a log
density that is the number of nats left to gain.

References
----------
Nocedal and Wright, "Numerical Optimization", 2nd ed. (2006), algorithm 7.4.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.inference.solvers.result import Result
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Scalar

MEMORY = 12
SUFFICIENT = 1e-4
"""Fraction of the promised fall that a step must give."""

HALVINGS = 40


class Minimum(NamedTuple):
    """Where the loop ended: point (q,), value, ``Result`` code, steps, evaluations.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference.solvers import Result, minimise
    >>> found = minimise(lambda x: (x @ x, 2 * x), np.ones(2), max_steps=9, tol=1e-9)
    >>> abs(found.x).round(6).tolist(), Result(int(found.result)).name
    ([0.0, 0.0], 'CONVERGED')
    """

    x: Float[Array, "q"]
    value: Float[Array, ""]
    result: Array
    n_steps: Array
    n_evaluations: Array
    trace: Float[jax.Array, "t"]


class _State(NamedTuple):
    found: Minimum
    gradient: Array
    steps: jax.Array
    changes: jax.Array
    curvature: jax.Array


def _direction(state: _State) -> Array:
    """Return -Hg by the two-loop recursion; slots of zero curvature are empty."""
    at = state.found.n_steps
    order = (at - 1 - jnp.arange(MEMORY)) % MEMORY  # newest first
    rho = jnp.where(state.curvature > 0, 1 / jnp.where(state.curvature > 0,
                    state.curvature, 1.0), 0.0)  # fmt: skip

    def down(q: Array, k: Array) -> tuple[Array, Array]:
        alpha = rho[k] * (state.steps[k] @ q)
        return q - alpha * state.changes[k], alpha

    q, alphas = jax.lax.scan(down, state.gradient, order)
    newest = order[0]
    square = jnp.sum(state.changes[newest] ** 2)
    known = (state.curvature[newest] > 0) & (square > 0)
    scale = state.curvature[newest] / jnp.where(known, square, 1.0)
    q = jnp.where(known, scale, 1.0) * q

    def up(r: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
        k, alpha = pair
        return r + (alpha - rho[k] * (state.changes[k] @ r)) * state.steps[k], None

    r, _ = jax.lax.scan(up, q, (order[::-1], alphas[::-1]))
    return -r


@numpy_in_numpy_out
def minimise(
    value_and_gradient: Callable[[Array], tuple[Array, Array]],
    start: Float[Array, "q"],
    *,
    max_steps: int,
    tol: Scalar | int,
) -> Minimum:
    """Return a minimum of a smooth function from a point of finite value; traceable.

    Parameters
    ----------
    value_and_gradient : callable
        Of a point (q,), best in coordinates in which the Hessian is near the identity.
    start : array of shape (q,)
    max_steps : int
        Most iterations; static.
    tol : float
        Converged when the estimated gap is at most ``tol * max(1, |value|)``.

    Returns
    -------
    Minimum
        A local one in general. ``Result.MAX_STEPS`` also where no step along the
        direction lowers the value by more than rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference.solvers import minimise
    >>> def f(x):
    ...     return ((x - 3) ** 2).sum(), 2 * (x - 3)
    >>> found = minimise(f, np.zeros(2), max_steps=9, tol=1e-9)
    >>> found.x.round(6).tolist(), round(float(found.value), 6)
    ([3.0, 3.0], 0.0)
    """
    value, gradient = value_and_gradient(start)
    eps = jnp.finfo(start.dtype).eps
    empty = jnp.zeros((MEMORY, len(start)), start.dtype)
    sound = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    unfinished = jnp.asarray(int(Result.MAX_STEPS))
    state = _State(
        Minimum(
            start,
            value,
            jnp.where(sound, unfinished, int(Result.NONFINITE)),
            jnp.asarray(0),
            jnp.asarray(1),
            jnp.full(max_steps, jnp.nan, start.dtype),
        ),
        gradient,
        empty,
        empty,
        jnp.zeros(MEMORY, start.dtype),
    )

    def body(carry: tuple[_State, Array]) -> tuple[_State, Array]:
        state, _ = carry
        at, f, g = state.found.x, state.found.value, state.gradient
        direction = _direction(state)
        slope = g @ direction
        downhill = slope < 0
        direction = jnp.where(downhill, direction, -g)
        slope = jnp.where(downhill, slope, -(g @ g))
        size = jnp.maximum(1.0, jnp.abs(f))
        met = -0.5 * slope <= tol * size

        def refused(trial: tuple[Array, ...]) -> Array:
            t, value, _, n = trial
            fell = value <= f + SUFFICIENT * t * slope + 8 * eps * size
            return (n == 0) | ~fell & (n < HALVINGS)  # NaN has not fallen

        def halve(trial: tuple[Array, ...]) -> tuple[Array, ...]:
            t, _, _, n = trial
            return (0.5 * t, *value_and_gradient(at + 0.5 * t * direction), n + 1)

        # Nothing is known of the scale before the first step.
        first = jnp.where(
            state.found.n_steps == 0, 1 / jnp.maximum(1.0, jnp.linalg.norm(g)), 1.0
        )
        # Twice that, halved before it is tried: a call before the loop compiles, too.
        t, value, gradient, n = jax.lax.while_loop(
            refused, halve, (2 * first, f, g, jnp.asarray(0))
        )
        stuck = ~(value <= f + 8 * eps * size)
        keep = met | stuck
        k = state.found.n_steps % MEMORY
        s, y = t * direction, gradient - g
        sy = s @ y
        useful = sy > eps * jnp.linalg.norm(s) * jnp.linalg.norm(y)
        moved = state._replace(
            found=Minimum(
                at + s,
                value,
                unfinished,
                state.found.n_steps + 1,
                state.found.n_evaluations + n,
                state.found.trace.at[state.found.n_steps].set(value),
            ),
            gradient=gradient,
            steps=state.steps.at[k].set(s),
            changes=state.changes.at[k].set(y),
            curvature=state.curvature.at[k].set(jnp.where(useful, sy, 0.0)),
        )
        stayed = state._replace(
            found=state.found._replace(
                result=jnp.where(met, int(Result.CONVERGED), unfinished)
            )
        )
        state = jax.tree.map(lambda a, b: jnp.where(keep, a, b), stayed, moved)
        return state, keep

    def going(carry: tuple[_State, Array]) -> Array:
        state, ended = carry
        return ~ended & sound & (state.found.n_steps < max_steps)

    return jax.lax.while_loop(going, body, (state, ~sound))[0].found
