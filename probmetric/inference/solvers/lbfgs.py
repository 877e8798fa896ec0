"""SciPy's L-BFGS with gradients from JAX."""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import OptimizeResult, minimize

from probmetric.arguments import check_counts
from probmetric.inference.solvers.result import Fit, Result
from probmetric.linalg import one_blas_thread
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Scalar


@partial(jax.jit, static_argnames="objective")
def _value_and_gradient[P, D](
    objective: Callable[[P, D], Scalar], flat: Array, like: P, data: D
) -> tuple[Array, Array]:
    unravel = ravel_pytree(like)[1]
    return jax.value_and_grad(lambda x: objective(unravel(x), data))(flat)


def value_at[P, D](objective: Callable[[P, D], Scalar], params: P, data: D) -> float:
    """Return the objective, computed by the compiled program of ``lbfgs``."""
    params, data = jax.device_put((params, data))
    flat = np.concatenate([np.ravel(a) for a in jax.tree.leaves(params)])
    return float(_value_and_gradient(objective, flat, params, data)[0])


@numpy_in_numpy_out
def lbfgs[P, D](
    objective: Callable[[P, D], Scalar],
    params: P,
    data: D,
    *,
    max_steps: int = 500,
    tol: float = 1e-8,
) -> Fit:
    """Maximize ``objective(params, data)`` over a pytree of unconstrained arrays.

    ``objective`` is a module-level pure function, static for compilation. The
    iterations stop after two in a row that each increase the objective by less than
    ``tol`` (nats, for a log density) or by no more than rounding. This rule depends
    neither on constants of the density, which grow with the number of parameters, nor
    on their units. The result is a local optimum. ``n_evaluations`` counts evaluations
    of value and gradient.
    """
    (max_steps,) = check_counts(max_steps=max_steps)
    # Transfer once, not at every evaluation; flat parameters stay on the host.
    params, data = jax.device_put((params, data))
    leaves, structure = jax.tree.flatten(jax.device_get(params))
    dtype, ends = np.result_type(*leaves), np.cumsum([np.size(a) for a in leaves])
    start = np.concatenate([np.ravel(a) for a in leaves]).astype(float)
    trace: list[float] = []
    converged = False

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _value_and_gradient(objective, x.astype(dtype), params, data)
        value, gradient = float(value), np.asarray(gradient, float)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            # A large value makes the line search back off from an inadmissible point.
            return 1e100, np.zeros_like(gradient)
        return -value, -gradient

    def record(intermediate_result: OptimizeResult) -> None:
        nonlocal converged
        trace.append(-float(intermediate_result.fun))
        # One small gain is common in the first step, along the gradient.
        gains = np.diff([-f0, *trace][-3:])
        if converged := len(gains) == 2 and bool(np.all(gains <= small)):
            raise StopIteration

    f0, _ = negative(start)
    size = max(1.0, abs(f0))
    small = max(tol, 4 * np.finfo(dtype).eps * size)
    options = {
        "maxiter": max_steps,
        "maxfun": 3 * max_steps,
        "ftol": 0.0,
        "gtol": 0.0,
        "maxcor": 20,
    }
    if f0 == 1e100:
        end, value, n_steps, n_evaluations = start, f0, 0, 1
        result = Result.NONFINITE
    else:
        # SciPy factors small matrices at every step.
        with one_blas_thread():
            solution = minimize(
                negative,
                start,
                jac=True,
                method="L-BFGS-B",
                callback=record,
                options=options,
            )
        end, value = solution.x, float(solution.fun)
        n_steps, n_evaluations = int(solution.nit), int(solution.nfev) + 1
        # The line search fails at a mode that is exact up to rounding.
        converged |= solution.success or np.max(np.abs(solution.jac)) <= 1e-6 * size
        result = Result.CONVERGED if converged else Result.MAX_STEPS
    padded = np.full(max_steps, np.nan)
    padded[: len(trace)] = trace[:max_steps]
    parts = np.split(end.astype(dtype), ends[:-1])
    like = zip(parts, leaves, strict=True)
    fit = Fit(
        structure.unflatten([a.reshape(np.shape(b)).astype(b.dtype) for a, b in like]),
        dtype.type(-value),
        np.asarray(int(result)),
        np.asarray(n_steps),
        np.asarray(n_evaluations),
        padded.astype(dtype),
    )
    return jax.device_put(fit)
