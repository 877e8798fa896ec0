"""Expectation-maximization for the EM step of any model.

The model supplies one pure function ``step(params, data) -> (new_params, objective)``,
where the objective is evaluated at ``params``. EM cannot decrease the objective. A
decrease larger than rounding is returned as ``Result.DECREASED``.

EM converges linearly with a rate ρ, so the gain of the last step can be much smaller
than the gap to the optimum (by 385 times at ρ = 0.9987). EM stops by the estimated gap,

    gap ≈ gain / (1 - ρ²),    ρ = ‖step_t‖ / ‖step_{t-1}‖,                        (1)

because near the optimum the objective is quadratic and the gap is multiplied by ρ² in
each step.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from probmetric.arguments import check_counts
from probmetric.inference.solvers.result import Fit, Result
from probmetric.precision import numpy_in_numpy_out, to_numpy
from probmetric.typing import Array, ArrayLike, Scalar

ROUNDING = 1e3
"""A decrease of the objective below ROUNDING · eps · |objective| is ignored."""

ROOM = 1000
"""Length of the trace in the compiled program, which all smaller limits share."""


class _State(NamedTuple):
    theta: jax.Array
    objective: jax.Array
    step_norm: jax.Array
    result: Array
    n_steps: Array
    n_evaluations: Array
    trace: jax.Array


@numpy_in_numpy_out
def run_em[P, D](
    step: Callable[[P, D], tuple[P, Scalar]],
    params: P,
    data: D,
    *,
    max_steps: int = 1000,
    tol: ArrayLike | None = None,
) -> Fit:
    """Iterate an EM step until it converges to a local optimum.

    Parameters
    ----------
    step : callable
        ``step(params, data) -> (new_params, objective_at_params)``. Use a module-level
        pure function, because it is static for compilation.
    params : pytree of arrays
        Starting values.
    data : pytree of arrays
        Second argument of ``step``.
    max_steps : int, default=1000
        Maximum number of EM steps.
    tol : float, optional
        Stop when the estimated gap (Eq. 1) is below ``tol * max(1, |objective|)``.
        Default: the square root of the dtype's eps.

    Returns
    -------
    Fit
        ``objective`` is evaluated at the returned parameters.

    Examples
    --------
    >>> import numpy as np
    >>> def halve(x, data):  # The objective increases to 0 at x = 0.
    ...     return x / 2, -(x**2)
    >>> fit = run_em(halve, np.array(1.0), None, max_steps=50)
    >>> fit.trace[:3].tolist(), int(fit.result)  # CONVERGED
    ([-1.0, -0.25, -0.0625], 0)
    """
    (max_steps,) = check_counts(max_steps=max_steps)
    dtype = jnp.result_type(*jax.tree.leaves(params))
    limit = float(jnp.finfo(dtype).eps) ** 0.5 if tol is None else tol
    # One program for all limits, and for floats of Python and NumPy.
    data = jax.tree.map(
        lambda leaf: np.asarray(leaf, dtype) if isinstance(leaf, float) else leaf, data
    )
    room = max(max_steps, ROOM)
    fit = _run(
        step, params, data, np.asarray(limit, dtype), np.int32(max_steps), room=room
    )
    return fit if max_steps == room else fit._replace(trace=fit.trace[:max_steps])


@partial(jax.jit, static_argnames=("step", "room"))
def _run[P, D](
    step: Callable[[P, D], tuple[P, Scalar]],
    params: P,
    data: D,
    limit: Array,
    max_steps: Array,
    *,
    room: int,
) -> Fit:
    flat, unravel = ravel_pytree(params)

    def advance(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        new, objective = step(unravel(theta), data)
        return ravel_pytree(new)[0], jnp.asarray(objective)

    def body(state: _State) -> _State:
        return _updated(state, *advance(state.theta), limit)

    def going(state: _State) -> Array:
        return (state.result == Result.MAX_STEPS) & (state.n_steps < max_steps)

    end = jax.lax.while_loop(going, body, _start(flat, room))
    _, objective = advance(end.theta)
    return Fit(
        unravel(end.theta),
        objective,
        end.result,
        end.n_steps,
        end.n_evaluations + 1,
        end.trace,
    )


def _updated(
    state: _State,
    theta: jax.Array,
    objective: jax.Array,
    limit: Array | float,
    eps: Array | float | None = None,
) -> _State:
    """Return the state after a step to ``theta``; ``objective`` is before the step."""
    after = jnp.linalg.norm(theta - state.theta)
    # The objective of ``theta`` is computed in the next step. The gain is therefore the
    # gain of the previous step.
    gain = objective - state.objective
    if eps is None:
        eps = float(jnp.finfo(theta.dtype).eps)
    scale = jnp.maximum(1.0, jnp.abs(objective))
    # A step at the level of rounding is a fixed point. The ratio of two such steps is
    # meaningless, and the gap is 0.
    still = after <= 8 * eps * jnp.maximum(1.0, jnp.linalg.norm(theta))
    rate2 = jnp.where(still, 0.0, jnp.minimum((after / state.step_norm) ** 2, 1.0))
    gap = gain / jnp.maximum(1 - rate2, eps)  # Eq. (1)
    # The first step has no earlier step to compare with.
    met = (gap <= limit * scale) & (state.n_steps > 0)
    result = jnp.where(met, Result.CONVERGED, state.result)
    fell = state.objective - objective > ROUNDING * eps * scale
    result = jnp.where(fell, Result.DECREASED, result)
    sound = jnp.isfinite(objective) & jnp.all(jnp.isfinite(theta))
    result = jnp.where(sound, result, Result.NONFINITE)
    return _State(
        theta,
        objective,
        after,
        result,
        state.n_steps + 1,
        state.n_evaluations + 1,
        state.trace.at[state.n_steps].set(objective),
    )


def _start(flat: jax.Array, max_steps: int) -> _State:
    return _State(
        theta=flat,
        objective=jnp.asarray(-jnp.inf, flat.dtype),
        step_norm=jnp.asarray(jnp.inf, flat.dtype),
        result=jnp.asarray(int(Result.MAX_STEPS)),
        n_steps=jnp.asarray(0),
        n_evaluations=jnp.asarray(0),
        trace=jnp.full(max_steps, jnp.nan, flat.dtype),
    )


@partial(jax.jit, static_argnames="max_steps")
def _begin(params: PyTree, *, max_steps: int) -> _State:
    return _start(ravel_pytree(params)[0], max_steps)


@jax.jit
def _after_pass(
    state: _State,
    new: PyTree,
    objective: Array,
    limit: Array | float,
    eps: Array | float,
) -> _State:
    stepped = ravel_pytree(new)[0], jnp.asarray(objective, state.theta.dtype)
    return _updated(state, *stepped, limit, eps)


def run_em_passes[P](
    step: Callable[[P], tuple[P, Scalar]],
    params: P,
    *,
    max_steps: int = 1000,
    tol: ArrayLike | None = None,
) -> Fit:
    """Run EM with steps in NumPy float64, and one more step for the final objective."""
    (max_steps,) = check_counts(max_steps=max_steps)
    float_eps = float(np.finfo(float).eps)
    limit = float_eps**0.5 if tol is None else float(np.asarray(tol))
    with jax.enable_x64(True):
        state = _begin(params, max_steps=max_steps)
        while int(state.result) == Result.MAX_STEPS and int(state.n_steps) < max_steps:
            params, objective = to_numpy(step(params))
            state = _after_pass(state, params, objective, limit, float_eps)
        _, objective = to_numpy(step(params))
    end = to_numpy(state)
    return Fit(
        params,
        np.asarray(objective),
        end.result,
        end.n_steps,
        end.n_evaluations + 1,
        end.trace,
    )
