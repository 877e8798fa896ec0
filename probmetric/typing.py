"""Array types of the package: one letter an axis, the same letter everywhere.

``n`` points, ``d`` features, ``p`` latent dimensions, ``N`` pairs, ``c`` classes,
``k`` mixture components, ``s`` draws. Either NumPy or JAX holds the numbers.
"""

from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

__all__ = ["Array", "Purpose"]

Array = jax.Array | np.ndarray

if TYPE_CHECKING:
    Purpose = Literal["prediction", "intervals"]
else:
    Purpose = Any  # A wrong one is refused in words of our own.
