"""Array types of the package: one letter per axis, with the same meaning everywhere.

The letters are ``n`` points, ``d`` features, ``p`` latent dimensions, ``N`` pairs,
``c`` classes, ``k`` mixture components and ``s`` draws. Arrays are NumPy or JAX arrays.
``ArrayLike``, ``DrawsLike``, ``Names`` and ``Preprocessor`` are for type checkers only.
At run time, functions check their arguments and raise errors.
"""

from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

Array = jax.Array | np.ndarray
Scalar = Array | np.floating | float
"""One number, as an array or a scalar. (NumPy scalars are not arrays.)"""
Numeric = Array | np.number | float | int
"""Real numbers: an array of any shape, or a single number."""

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self as Self

    import xarray as xr
    from numpy.typing import ArrayLike as ArrayLike

    Purpose = Literal["prediction", "intervals"]
    DrawsLike = xr.DataTree | xr.Dataset
    Names = Sequence[str] | np.ndarray
    Preprocessor = ArrayLike | Callable[[np.ndarray], ArrayLike] | None

    def no_type_check[F](function: F) -> F:
        """Return a function whose annotations are not checked at run time."""
        ...
else:
    from typing import no_type_check as no_type_check

    ArrayLike = DrawsLike = Names = Preprocessor = Purpose = Self = Any
