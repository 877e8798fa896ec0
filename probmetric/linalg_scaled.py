"""Squared distances that overflow float64, as a fraction times a power of two.

Powers of two scale without rounding, so points have the same order as at an ordinary
scale. NumPy only.
"""

import numpy as np
from jaxtyping import Float, Int

LARGEST = 2.0**500
"""About 3.3e150: squares of smaller numbers, and their sums, are finite."""
LOST = -800
"""Terms of a square below 2**LOST may underflow in float64."""
NOTHING = -(10**6)
"""The exponent of zero, below all others."""
ROWS = 4096
"""Rows computed at a time."""


def squares(
    L: Float[np.ndarray, "p d"],
    A: Float[np.ndarray, "*#n d"],
    B: Float[np.ndarray, "*#n d"],
) -> tuple[Float[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """Return s and e with |L(a - b)|² = s · 2**e for matching rows of any size.

    s lies in [1/2, 1), or is 0 with e below all other exponents: sorting by (e, s)
    sorts the squares. Memory: about 5 p d numbers of 8 bytes per row, for ROWS rows.
    """
    A, B = np.broadcast_arrays(A, B)
    parts = [
        _squares(L, A[start : start + ROWS], B[start : start + ROWS])
        for start in range(0, max(len(A), 1), ROWS)
    ]
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # pyright: ignore[reportReturnType]


def _squares(
    L: np.ndarray, A: np.ndarray, B: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(over="ignore"):
        delta = A - B
    beyond = np.isinf(delta)
    m, e = np.frexp(np.where(beyond, A / 2 - B / 2, delta))
    factor, power = np.frexp(L)
    terms = m[:, None, :] * factor
    exponent = (e + beyond)[:, None, :] + power
    exponent = np.where(terms == 0, NOTHING, exponent)
    top = exponent.max((1, 2))
    terms = np.ldexp(terms, np.maximum(exponent - top[:, None, None], -2000))
    total = np.zeros(len(A))
    for row in range(len(L)):  # The same order as in the search at an ordinary scale
        total += np.sum(terms[:, row], -1) ** 2
    s, power = np.frexp(total)
    return s, np.where(total == 0, NOTHING, power + 2 * top)


def distances(
    L: Float[np.ndarray, "p d"],
    A: Float[np.ndarray, "*#n d"],
    B: Float[np.ndarray, "*#n d"],
    name: str,
) -> Float[np.ndarray, "n"]:
    """Return |L(a - b)| of matching rows, or raise ValueError if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.linalg.norm((A - B) @ L.T, axis=-1)
    extreme = ~((plain > 2.0 ** (LOST / 2)) & (plain < LARGEST))
    if extreme.any():
        A, B = np.broadcast_arrays(A, B)
        plain[extreme] = roots(*squares(L, A[extreme], B[extreme]), name)
    return plain


def roots(
    s: Float[np.ndarray, "*n"], e: Int[np.ndarray, "*n"], name: str
) -> Float[np.ndarray, "*n"]:
    """Return √(s · 2**e); raise ValueError as ``represented``."""
    odd = e % 2
    return represented(np.sqrt(np.ldexp(s, odd)), (e - odd) // 2, name, "distances")


def represented(
    s: Float[np.ndarray, "*n"], e: Int[np.ndarray, "*n"], name: str, what: str
) -> Float[np.ndarray, "*n"]:
    """Return s · 2**e; raise ValueError if it overflows or underflows float64."""
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(s, np.maximum(e, -5000))
    bad = np.isinf(values) | ((s > 0) & (values < np.finfo(float).tiny))
    if bad.any():
        first = np.flatnonzero(bad)[0]
        size = np.log10(s.flat[first]) + np.broadcast_to(e, s.shape).flat[first] * (
            np.log10(2.0)
        )
        raise ValueError(
            f"{name} must have {what} in the range of float64 (2e-308 to 1.8e308), got "
            f"about 1e{np.floor(size):+.0f}. Rescale the points or the metric."
        )
    return values


def no_nan(
    values: Float[np.ndarray, "..."], name: str, points: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """Return the log densities of points; raise ValueError if any is NaN."""
    if np.isnan(values).any():
        size = np.max(np.abs(points), where=~np.isnan(points), initial=0.0)
        raise ValueError(
            f"{name} has points whose log density overflows float64 (largest entry "
            f"{size:.3g}). Rescale the points."
        )
    return values
