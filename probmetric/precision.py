"""``numpy_in_numpy_out``: a public function computes in the precision of its input.

JAX converts NumPy float64 to float32 unless a global flag is set. Library code does not
set this flag. Public functions are wrapped instead. For NumPy float64 arguments, they
compute in float64 in a local scope, and return NumPy arrays. For JAX arrays, they
return JAX arrays. Inside a user's ``jit``, they compute in the dtype of traced arrays.
"""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from probmetric.compilation import bound_programs


def to_numpy[T](tree: T) -> T:
    """Copy every JAX array of a tree to NumPy; other leaves do not change."""
    return jax.tree.map(
        lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, tree
    )


def in_native_order[T](tree: T) -> T:
    """Return a tree with arrays in native byte order, which JAX requires."""
    if not any(map(_swapped, jax.tree.leaves(tree))):
        return tree
    return jax.tree.map(
        lambda a: a.astype(a.dtype.newbyteorder("=")) if _swapped(a) else a, tree
    )


def _swapped(leaf: object) -> bool:
    return isinstance(leaf, np.ndarray) and not leaf.dtype.isnative


def native_arrays[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function to convert its arguments by ``in_native_order``."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        args, kwargs = in_native_order((args, kwargs))
        return function(*args, **kwargs)

    return wrapper


def store_native(self: object) -> None:
    """Convert the fields of a metric ``in_native_order`` (for ``__post_init__``)."""
    for name, value in vars(self).items():
        native = in_native_order(value)
        if native is not value:
            object.__setattr__(self, name, native)


def on_host[T](tree: T) -> T:
    """Copy arrays to NumPy, unless the arrays are traced by a caller's program."""
    return tree if traced(tree) else to_numpy(tree)


def traced(*trees: object) -> bool:
    """Return whether a caller's ``jit``, ``grad`` or ``vmap`` traces an array."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def _in_a_program() -> bool:
    """Return whether a caller's jit or loop is being traced, even without arrays."""
    return isinstance(jax.device_put(_ZERO), Tracer)


_ZERO = np.zeros((), np.float32)


def _is_key(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def numpy_in_numpy_out[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compute NumPy float64 arguments in float64 and return NumPy.

    The function is written with ``jax.numpy`` and takes arrays or trees of arrays. It
    runs in a local ``jax.enable_x64`` scope if an argument has float64. The result is
    copied to NumPy unless an argument is a JAX array other than a random key. Nothing
    changes for traced values.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        args, kwargs = in_native_order((args, kwargs))
        leaves = jax.tree.leaves((args, kwargs))
        if any(isinstance(leaf, Tracer) for leaf in leaves) or _in_a_program():
            return function(*args, **kwargs)
        bound_programs()
        double = any(getattr(leaf, "dtype", None) == np.float64 for leaf in leaves)
        with jax.enable_x64(True) if double else nullcontext():
            result = function(*args, **kwargs)
        jax_in = any(isinstance(a, jax.Array) and not _is_key(a) for a in leaves)
        return result if jax_in else to_numpy(result)

    return wrapper


def one_program[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays, or of trees of arrays, as one program."""
    program: Callable[P, R] = jax.jit(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return (function if traced(args, kwargs) else program)(*args, **kwargs)

    return wrapper


def host_or_program[R](
    function: Callable[..., R], static: tuple[str, ...] = ()
) -> Callable[..., R]:
    """Compute a small function in NumPy (nothing compiles), or in JAX for JAX arrays.

    ``function(xp, *args, **kwargs)`` takes NumPy or ``jax.numpy`` as ``xp``. ``static``
    contains names of arguments that are not arrays. For JAX arrays and traced values,
    the function runs as one compiled program. It also does so if NumPy's factorization
    fails, because JAX then returns NaN. NumPy results share no memory with arguments.
    """
    program: Callable[..., R] = jax.jit(partial(function, jnp), static_argnames=static)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> R:
        leaves = jax.tree.leaves((args, kwargs))
        if not any(isinstance(leaf, jax.Array) for leaf in leaves):
            # As in JAX, NaN and infinity raise no warnings.
            with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
                if not _in_a_program():
                    return jax.tree.map(_copied, function(np, *args, **kwargs))
        return program(*args, **kwargs)

    return wrapper


def _copied[T](leaf: T) -> T:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def finite(result: np.ndarray, name: str, *inputs: object) -> np.ndarray:
    """Return the result of the function ``name``; raise ValueError unless finite."""
    if not np.isfinite(result).all():
        sizes = [np.abs(a).max() for a in map(np.asarray, inputs) if a.size]
        largest = f" (largest input {max(sizes):.3g})" if sizes else ""
        raise ValueError(
            f"{name}: the result is not finite in {result.dtype}{largest}. Rescale the "
            "points or the metric."
        )
    return result
