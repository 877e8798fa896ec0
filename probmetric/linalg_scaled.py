"""Squares of distances beyond what float64 holds, as a fraction times a power of two.

Powers of two scale without rounding, so that what is computed here orders points as
the same operations do at an ordinary scale. Host code, NumPy.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

LARGEST = 2.0**500
"""About 3.3e150: squares of such numbers, and sums of many, are finite."""
LOST = -800
"""Squares below 2**LOST, computed in plain float64, may have lost terms."""

ORDINARY = 200
"""Plain products and squares are safe for sizes within 2**-ORDINARY to 2**ORDINARY."""
NOTHING = -(10**6)
"""The exponent of zero: below all others."""
ROWS = 4096
"""Rows taken at a time."""


def squares(
    L: Float[np.ndarray, "p d"],
    A: Float[np.ndarray, "*#n d"],
    B: Float[np.ndarray, "*#n d"],
) -> tuple[Float[np.ndarray, "n"], Int[np.ndarray, "n"]]:
    """Return s and e with |L(a - b)|² = s · 2**e for matching rows; no size is lost.

    s lies in [1/2, 1), or is 0 with e below all other exponents, so that sorting by
    (e, s) sorts the squares. Memory in numbers of 8 bytes: some 5 p d a row, ROWS rows
    at a time.
    """
    A, B = np.broadcast_arrays(A, B)
    parts = [
        _squares(L, A[start : start + ROWS], B[start : start + ROWS])
        for start in range(0, max(len(A), 1), ROWS)
    ]
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # pyright: ignore[reportReturnType]


def _squares(L: np.ndarray, A: np.ndarray, B: np.ndarray) -> tuple[Any, Any]:
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
    for row in range(len(L)):  # In the order of the search at an ordinary scale.
        total += np.sum(terms[:, row], -1) ** 2
    s, own = np.frexp(total)
    return s, np.where(total == 0, NOTHING, own + 2 * top)


def distances(
    L: Float[np.ndarray, "p d"],
    A: Float[np.ndarray, "*#n d"],
    B: Float[np.ndarray, "*#n d"],
    name: str,
) -> Float[np.ndarray, "n"]:
    """Return |L(a - b)| of matching rows wherever float64 holds the distance itself.

    Raises
    ------
    ValueError
        Naming ``name``, where a distance is beyond float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.linalg.norm((A - B) @ L.T, axis=-1)
    again = ~((plain > 2.0 ** (LOST / 2)) & (plain < LARGEST))
    if again.any():
        A, B = np.broadcast_arrays(A, B)
        plain[again] = roots(*squares(L, A[again], B[again]), name)
    return plain


def roots(
    s: Float[np.ndarray, "*n"], e: Int[np.ndarray, "*n"], name: str
) -> Float[np.ndarray, "*n"]:
    """Return √(s · 2**e), or refuse what float64 does not hold; as ``represented``."""
    odd = e % 2
    return represented(np.sqrt(np.ldexp(s, odd)), (e - odd) // 2, name, "distances")


def represented(
    s: Float[np.ndarray, "*n"], e: Int[np.ndarray, "*n"], name: str, what: str
) -> Float[np.ndarray, "*n"]:
    """Return s · 2**e, or refuse where float64 holds it only as infinity or in part.

    Raises
    ------
    ValueError
        Naming ``name`` and the size.
    """
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(s, np.maximum(e, -5000))
    bad = np.isinf(values) | ((s > 0) & (values < np.finfo(float).tiny))
    if bad.any():
        first = np.flatnonzero(bad)[0]
        size = np.log10(s.flat[first]) + np.broadcast_to(e, s.shape).flat[first] * (
            np.log10(2.0)
        )
        raise ValueError(
            f"{name}: expected {what} that float64 holds (2e-308 to 1.8e308), got "
            f"about 1e{np.floor(size):+.0f}; rescale the points or the metric"
        )
    return values


def balanced(
    L: Float[np.ndarray, "p d"], *points: Float[np.ndarray, "_ d"]
) -> tuple[Float[np.ndarray, "p d"], list[np.ndarray], int]:
    """Scale features, and the columns of L against them, so that no square overflows.

    Returns
    -------
    L, points
        As given where all sizes are ordinary.
    exponent : int
        Squared distances are those of what is returned times 2**exponent.
    """
    high = np.max([np.abs(X).max(0) for X in points], 0)
    sizes = np.append(high, np.abs(L).max(0))
    low_end, high_end = 2.0**-ORDINARY, 2.0**ORDINARY
    if np.all((sizes == 0) | ((sizes >= low_end) & (sizes <= high_end))):
        return L, list(points), 0
    column = np.where(high > 0, np.frexp(high)[1], 0)
    factor, power = np.frexp(L)
    power = np.where(L == 0, NOTHING, power + column)
    top = int(power.max()) if np.any(L != 0) else 0
    scaled = np.ldexp(factor, np.maximum(power - top, -2000))
    return scaled, [np.ldexp(X, -column) for X in points], 2 * top


def no_nan(
    values: Float[np.ndarray, "..."], name: str, given: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """Return values, or refuse the points for which they are not to be computed.

    Raises
    ------
    ValueError
        Naming ``name`` and its largest entry.
    """
    if np.isnan(values).any():
        size = np.max(np.abs(given), where=~np.isnan(given), initial=0.0)
        raise ValueError(
            f"{name}: expected points whose log densities float64 holds, got a largest "
            f"entry of {size:.3g}; rescale the points"
        )
    return values
