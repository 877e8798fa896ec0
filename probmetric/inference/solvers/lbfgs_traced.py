"""L-BFGS as one traced loop, for fits inside a compiled program.

``solvers.lbfgs.lbfgs`` runs SciPy's loop on the host, which ``vmap`` cannot transform.
Here everything is traced: the two-loop recursion over the last ``MEMORY`` steps, and a
step that is halved until the objective decreases sufficiently (Armijo's rule). Wolfe's
curvature condition is not enforced; steps without positive curvature are not stored.

The loop stops on the estimated gap gᵀHg/2, with H the current inverse Hessian. For a
log density, the gap is the remaining gain in nats.

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
"""Required decrease, as a share of the decrease that the slope predicts."""

HALVINGS = 40


class Minimum(NamedTuple):
    """Result of ``minimize``: point, value, ``Result`` code, steps, evaluations."""

    x: Float[Array, "q"]
    value: Float[Array, ""]
    result: Array
    n_steps: Array
    n_evaluations: Array
    trace: Float[jax.Array, "t"]


class _State(NamedTuple):
    minimum: Minimum
    gradient: Array
    steps: jax.Array
    changes: jax.Array
    curvature: jax.Array


def _direction(state: _State) -> Array:
    """Return -Hg by the two-loop recursion; slots with zero curvature are empty."""
    n_steps = state.minimum.n_steps
    order = (n_steps - 1 - jnp.arange(MEMORY)) % MEMORY  # Newest first
    rho = jnp.where(state.curvature > 0, 1 / jnp.where(state.curvature > 0,
                    state.curvature, 1.0), 0.0)  # fmt: skip

    def down(q: Array, k: Array) -> tuple[Array, Array]:
        alpha = rho[k] * (state.steps[k] @ q)
        return q - alpha * state.changes[k], alpha

    q, alphas = jax.lax.scan(down, state.gradient, order)
    newest = order[0]
    square = jnp.sum(state.changes[newest] ** 2)
    stored = (state.curvature[newest] > 0) & (square > 0)
    scale = state.curvature[newest] / jnp.where(stored, square, 1.0)
    q = jnp.where(stored, scale, 1.0) * q

    def up(r: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
        k, alpha = pair
        return r + (alpha - rho[k] * (state.changes[k] @ r)) * state.steps[k], None

    r, _ = jax.lax.scan(up, q, (order[::-1], alphas[::-1]))
    return -r


@numpy_in_numpy_out
def minimize(
    value_and_gradient: Callable[[Array], tuple[Array, Array]],
    start: Float[Array, "q"],
    *,
    max_steps: int,
    tol: Scalar | int,
) -> Minimum:
    """Return a local minimum of a smooth function (traceable by JAX).

    Parameters
    ----------
    value_and_gradient : callable
        Function of a point (q,). Convergence is fastest if the Hessian is near the
        identity.
    start : array of shape (q,)
        A point with a finite value.
    max_steps : int
        Maximum number of iterations (static).
    tol : float
        The loop stops when the estimated gap is at most ``tol * max(1, |value|)``.

    Returns
    -------
    Minimum
        ``result`` is ``Result.MAX_STEPS`` at the step limit, and if no step along the
        direction decreases the value by more than rounding.

    Examples
    --------
    >>> import numpy as np
    >>> def f(x):
    ...     return ((x - 3) ** 2).sum(), 2 * (x - 3)
    >>> minimize(f, np.zeros(2), max_steps=9, tol=1e-9).x.round(6).tolist()
    [3.0, 3.0]
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
        x, f, g = state.minimum.x, state.minimum.value, state.gradient
        direction = _direction(state)
        slope = g @ direction
        downhill = slope < 0
        direction = jnp.where(downhill, direction, -g)
        slope = jnp.where(downhill, slope, -(g @ g))
        size = jnp.maximum(1.0, jnp.abs(f))
        met = -0.5 * slope <= tol * size

        def rejected(trial: tuple[Array, ...]) -> Array:
            t, value, _, n = trial
            fell = value <= f + SUFFICIENT * t * slope + 8 * eps * size
            return (n == 0) | ~fell & (n < HALVINGS)  # Also for NaN

        def halve(trial: tuple[Array, ...]) -> tuple[Array, ...]:
            t, _, _, n = trial
            return (0.5 * t, *value_and_gradient(x + 0.5 * t * direction), n + 1)

        n_steps = state.minimum.n_steps
        # The scale is unknown before the first step.
        first = jnp.where(n_steps == 0, 1 / jnp.maximum(1.0, jnp.linalg.norm(g)), 1.0)
        # The loop halves twice the first step, so that the function compiles once.
        t, value, gradient, n = jax.lax.while_loop(
            rejected, halve, (2 * first, f, g, jnp.asarray(0))
        )
        stuck = ~(value <= f + 8 * eps * size)
        ended = met | stuck
        k = n_steps % MEMORY
        s, y = t * direction, gradient - g
        sy = s @ y
        useful = sy > eps * jnp.linalg.norm(s) * jnp.linalg.norm(y)
        moved = state._replace(
            minimum=Minimum(
                x + s,
                value,
                unfinished,
                n_steps + 1,
                state.minimum.n_evaluations + n,
                state.minimum.trace.at[n_steps].set(value),
            ),
            gradient=gradient,
            steps=state.steps.at[k].set(s),
            changes=state.changes.at[k].set(y),
            curvature=state.curvature.at[k].set(jnp.where(useful, sy, 0.0)),
        )
        result = jnp.where(met, int(Result.CONVERGED), unfinished)
        stayed = state._replace(minimum=state.minimum._replace(result=result))
        state = jax.tree.map(lambda a, b: jnp.where(ended, a, b), stayed, moved)
        return state, ended

    def going(carry: tuple[_State, Array]) -> Array:
        state, ended = carry
        return ~ended & sound & (state.minimum.n_steps < max_steps)

    return jax.lax.while_loop(going, body, (state, ~sound))[0].minimum
