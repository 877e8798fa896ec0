"""The precision in which a public function computes follows its input.

JAX turns NumPy float64 into float32 unless the caller has switched a global flag.
Library code never touches that flag; instead a public function is wrapped so that
NumPy float64 is computed in float64, inside a local scope, and comes back as NumPy.
JAX arrays come back as JAX arrays; inside a user's own ``jit`` the traced dtype
rules.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

__all__ = ["numpy_in_numpy_out", "to_numpy"]


def to_numpy(tree: Any) -> Any:
    """Copy every JAX array of a tree to NumPy; leave all else as it is."""
    return jax.tree.map(
        lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, tree
    )


def _is_key(leaf: jax.Array) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


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
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves = jax.tree.leaves((args, kwargs))
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            return function(*args, **kwargs)
        double = any(getattr(leaf, "dtype", None) == np.float64 for leaf in leaves)
        with jax.enable_x64(True) if double else nullcontext():
            result = function(*args, **kwargs)
        keep = any(isinstance(leaf, jax.Array) and not _is_key(leaf) for leaf in leaves)
        return result if keep else to_numpy(result)

    return wrapper
