"""Array types of the package: one letter an axis, the same letter everywhere.

``n`` points, ``d`` features, ``p`` latent dimensions, ``N`` pairs, ``c`` classes,
``k`` mixture components, ``s`` draws. Either NumPy or JAX holds the numbers.
"""

import jax
import numpy as np

__all__ = ["Array"]

Array = jax.Array | np.ndarray
