"""SciPy's L-BFGS with gradients from JAX."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float
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
    iterations stop if two in a row increase the objective by less than ``tol`` (nats,
    for a log density) or by no more than rounding. This rule does not depend on
    constants of the density, which grow with the number of parameters, or on units of
    the parameters. The result is a local optimum. ``n_evaluations`` counts evaluations
    of value and gradient.
    """
    # Transfer once, not at every evaluation; flat parameters stay on the host.
    params, data = jax.device_put((params, data))
    leaves, structure = jax.tree.flatten(jax.device_get(params))
    dtype, ends = np.result_type(*leaves), np.cumsum([np.size(a) for a in leaves])
    start = np.concatenate([np.ravel(a) for a in leaves]).astype(dtype)

    def at(x: np.ndarray) -> tuple[Array, Array]:
        return _value_and_gradient(objective, x, params, data)

    fit = climb(at, start, max_steps=max_steps, tol=tol)
    parts = np.split(fit.params, ends[:-1])
    like = zip(parts, leaves, strict=True)
    tree = structure.unflatten(
        [a.reshape(np.shape(b)).astype(b.dtype) for a, b in like]
    )
    return jax.device_put(fit._replace(params=tree))


def climb(
    value_and_gradient: Callable[[np.ndarray], tuple[Array | float, Array]],
    start: Float[np.ndarray, "q"],
    *,
    max_steps: int,
    tol: float,
    whitened: bool = False,
) -> Fit:
    """Maximize a function of an array (q,) on the host, as ``lbfgs`` does.

    The first step has length 1, or the length of the gradient if ``whitened``.
    """
    (max_steps,) = check_counts(max_steps=max_steps)
    dtype, trace, converged = start.dtype, [], False

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(x.astype(dtype, copy=False))
        value, gradient = float(value), np.asarray(gradient, float)
        if not np.isfinite(value + gradient.sum()):
            # A large value makes the line search back off from an inadmissible point.
            return 1e100, np.zeros_like(gradient)
        return -value, -gradient

    origin = start.astype(float)
    f0, g0 = negative(origin)
    unit = max(float(np.linalg.norm(g0)), np.finfo(float).tiny) if whitened else 1.0

    def scaled(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = negative(origin + unit * z) if z.any() else (f0, g0)
        return value, unit * gradient

    def record(intermediate_result: OptimizeResult) -> None:
        nonlocal converged
        trace.append(-float(intermediate_result.fun))
        # One small gain is common in the first step, along the gradient.
        last = [-f0, *trace[-3:]][-3:]
        if converged := len(last) == 3 and all(
            b - a <= small for a, b in pairwise(last)
        ):
            raise StopIteration

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
        end, value, n_steps, n_evaluations = origin, f0, 0, 1
        result = Result.NONFINITE
    else:
        # SciPy factors small matrices at every step.
        with one_blas_thread(int(len(start) ** 0.5)):
            solution = minimize(
                scaled,
                np.zeros_like(origin),
                jac=True,
                method="L-BFGS-B",
                callback=record,
                options=options,
            )
        end, value = origin + unit * solution.x, float(solution.fun)
        n_steps, n_evaluations = int(solution.nit), int(solution.nfev)
        slope = np.max(np.abs(solution.jac)) / unit
        # The line search fails at a mode that is exact up to rounding.
        converged |= solution.success or slope <= 1e-6 * size
        result = Result.CONVERGED if converged else Result.MAX_STEPS
    padded = np.full(max_steps, np.nan)
    padded[: len(trace)] = trace[:max_steps]
    return Fit(
        end.astype(dtype),
        dtype.type(-value),
        np.asarray(int(result)),
        np.asarray(n_steps),
        np.asarray(n_evaluations),
        padded.astype(dtype),
    )
