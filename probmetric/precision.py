"""``numpy_in_numpy_out``: a public function computes in the precision of its input.

JAX turns NumPy float64 into float32 unless the caller has switched a global flag.
Library code never touches that flag; instead a public function is wrapped so that
NumPy float64 is computed in float64, inside a local scope, and comes back as NumPy.
JAX arrays come back as JAX arrays; inside a user's own ``jit`` the traced dtype
rules.
"""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial, wraps
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from probmetric.compilation import bound_programs


def to_numpy(tree: Any) -> Any:
    """Copy every JAX array of a tree to NumPy; leave all else as it is."""
    return jax.tree.map(
        lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, tree
    )


def in_native_order(tree: Any) -> Any:
    """Return a tree with its NumPy arrays in the byte order of this machine.

    JAX refuses any other order, or misreads it if a compiled program takes the array.
    """
    if not any(map(_swapped, jax.tree.leaves(tree))):
        return tree
    return jax.tree.map(
        lambda a: a.astype(a.dtype.newbyteorder("=")) if _swapped(a) else a, tree
    )


def _swapped(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and not leaf.dtype.isnative


def native_arrays[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Call a function with its arguments ``in_native_order``."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        args, kwargs = in_native_order((args, kwargs))
        return function(*args, **kwargs)

    return wrapper


def store_native(self: Any) -> None:
    """Store the parts of a metric ``in_native_order``, as its ``__post_init__``."""
    for name, part in vars(self).items():
        native = in_native_order(part)
        if native is not part:
            object.__setattr__(self, name, native)


def on_host(tree: Any) -> Any:
    """Copy arrays to NumPy, but for those that a caller's program traces."""
    return tree if traced(tree) else to_numpy(tree)


def traced(*trees: Any) -> bool:
    """Say whether a caller's ``jit``, ``grad`` or ``vmap`` traces an array of trees."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def _in_a_program() -> bool:
    """Say whether a caller's ``jit`` or loop is traced, whatever the arguments are.

    Constants of it are no traced values, but all that is computed of them is.
    """
    return isinstance(jax.device_put(_ZERO), Tracer)


_ZERO = np.zeros((), np.float32)


def _is_key(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def numpy_in_numpy_out[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compute NumPy float64 arguments in float64 and return NumPy.

    Parameters
    ----------
    function : callable
        A function of arrays, or of trees of arrays, written with ``jax.numpy``.

    Returns
    -------
    callable
        The same function. Traced values pass through. Otherwise it runs in a local
        ``jax.enable_x64`` scope if any argument holds float64, and its result is
        copied to NumPy unless an argument was a JAX array other than a random key.
        Complex numbers are refused: a square or an order of them is not meant.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        args, kwargs = in_native_order((args, kwargs))
        leaves = jax.tree.leaves((args, kwargs))
        if any(_is_complex(leaf) for leaf in leaves):
            _refuse_complex(function, args, kwargs)
        if any(isinstance(leaf, Tracer) for leaf in leaves) or _in_a_program():
            return function(*args, **kwargs)
        bound_programs()
        double = any(getattr(leaf, "dtype", None) == np.float64 for leaf in leaves)
        with jax.enable_x64(True) if double else nullcontext():
            result = function(*args, **kwargs)
        keep = any(isinstance(leaf, jax.Array) and not _is_key(leaf) for leaf in leaves)
        return result if keep else to_numpy(result)

    return wrapper


def one_program[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compute a function of arrays, or of trees of them, as one compiled program.

    Operations outside a compiled function are a program each, for every shape. Traced
    values pass through: the caller's program is not divided.
    """
    program: Callable[P, R] = jax.jit(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return (function if traced(args, kwargs) else program)(*args, **kwargs)

    return wrapper


def host_or_program[R](
    function: Callable[..., R], static: tuple[str, ...] = ()
) -> Callable[..., R]:
    """Compute little algebra by NumPy where no argument is JAX's: nothing compiles.

    Parameters
    ----------
    function : callable
        ``function(xp, *args, **kwargs)``, with xp NumPy or ``jax.numpy``.
    static : tuple of str
        Arguments that are no arrays.

    Returns
    -------
    callable
        The same without xp; of JAX's arrays, in a caller's program, and for NaN where
        NumPy finds no factor, one compiled program. Results of NumPy's share no memory
        with the arguments.
    """
    program: Callable[..., R] = jax.jit(partial(function, jnp), static_argnames=static)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> R:
        leaves = jax.tree.leaves((args, kwargs))
        if not any(isinstance(leaf, jax.Array) for leaf in leaves):
            # NaN and infinity are said by results alone, as JAX has them.
            with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
                if not _in_a_program():
                    return jax.tree.map(_copied, function(np, *args, **kwargs))
        return program(*args, **kwargs)

    return wrapper


def _copied(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def finite(result: np.ndarray, name: str, *given: Any) -> np.ndarray:
    """Return a result, or refuse what holds NaN or infinity, naming what was asked.

    Raises
    ------
    ValueError
        With the largest number among those ``given``.
    """
    if not np.isfinite(result).all():
        sizes = [np.abs(np.asarray(a)).max() for a in given if np.size(a)]
        raise ValueError(
            f"{name}: expected points for which it is a number that {result.dtype} "
            "holds, got NaN or infinity (largest entry given: "
            f"{max(sizes, default=0.0):.3g}); rescale the points or the metric"
        )
    return result


def _is_complex(leaf: Any) -> bool:
    kind = getattr(getattr(leaf, "dtype", None), "kind", None)
    return kind == "c" or isinstance(leaf, complex)


def _refuse_complex(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    given = signature(function).bind(*args, **kwargs).arguments
    name = next(
        name
        for name, value in given.items()
        if any(map(_is_complex, jax.tree.leaves(value)))
    )
    raise ValueError(
        f"{'metric' if name == 'self' else name}: expected real numbers, got complex "
        "ones, whose imaginary part would be lost"
    )
