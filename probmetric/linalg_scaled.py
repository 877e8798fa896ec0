"""Distances whose squares overflow float64. NumPy only."""

import numpy as np
from jaxtyping import Float

LARGEST = 2.0**500
"""About 3.3e150: squares of smaller numbers, and their sums, are finite."""


def distances(
    L: Float[np.ndarray, "p d"],
    A: Float[np.ndarray, "*#n d"],
    B: Float[np.ndarray, "*#n d"],
    name: str,
) -> Float[np.ndarray, "n"]:
    """Return |L(a - b)| of matching rows, or raise ValueError if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        images = (A - B) @ L.T
        top = np.max(np.abs(images), -1, initial=0.0)
        # A power of two scales without rounding: squares of 1e200 overflow.
        power = np.where(top > 0, np.ldexp(0.5, np.frexp(top)[1]), 1.0)
        lengths = np.linalg.norm(images / power[:, None], axis=-1) * power
    if not np.isfinite(lengths).all():
        size = max(np.abs(X).max() for X in (A, B))
        raise ValueError(
            f"{name}: distances overflow float64 (largest entry {size:.3g}). Rescale "
            "the points or the metric."
        )
    return lengths


def no_nan(
    values: Float[np.ndarray, "..."], name: str, points: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """Return the log densities of points; raise ValueError if any is NaN."""
    if np.isnan(values).any():
        size = np.max(np.abs(points), where=~np.isnan(points), initial=0.0)
        raise ValueError(
            f"{name}: log densities overflow float64 (largest entry {size:.3g}). "
            "Rescale the points."
        )
    return values
