"""Neighbours and distances in exact arithmetic, to hold those of float64 against.

Every float is a fraction, so that D = |L(q - p)|² is computed without rounding. What
float64 may return instead is bounded by what its rounding can do. With δ = q - p taken
first (one rounding a coordinate), d products and sums a row and p squares,

    |ẑ_c - z_c| ≤ E_c = (d + 2) ε Σ_j |L_cj| |δ_j|,                                (1)
    |D̂ - D|    ≤ Σ_c (2 |z_c| E_c + E_c²) + (p + 2) ε D,                           (2)

and with images L q, L p taken first, |q_j| + |p_j| stands for |δ_j|. ε is the spacing
at 1 of the type in use. A figure is called wrong beyond ``UNITS`` times (2) and one
smallest number; a neighbour is wrong where a point left out, or a later one, is nearer
by more than the bounds (2) of both. The smallest number is subnormal in NumPy; XLA
reads and writes subnormal numbers as 0 (``normal``), in δ and in L as well.

Points that are equal, coordinate by coordinate, tie exactly: there the lower index
must come first.
"""

from fractions import Fraction
from typing import Any

import numpy as np

UNITS = 4
"""Times the bound: sums may be formed in another order, and scaled first."""


def fractions(X: Any) -> list[list[Fraction]]:
    """Return the rows of X as exact fractions."""
    return [[Fraction(float(v)) for v in row] for row in np.atleast_2d(X)]


def squared(
    L: list[list[Fraction]],
    q: list[Fraction],
    p: list[Fraction],
    eps: float = 2.0**-52,
    *,
    by_images: bool = False,
    normal: bool = False,
) -> tuple[Fraction, Fraction]:
    """Return |L(q - p)|² and the bound (2) on its rounding."""
    delta = [a - b for a, b in zip(q, p, strict=True)]
    size = [abs(a) + abs(b) for a, b in zip(q, p, strict=True)] if by_images else delta
    unit, least = Fraction(eps), Fraction(smallest(eps, normal=normal))
    D = bound = Fraction(0)
    for row in L:
        z = sum((a * b for a, b in zip(row, delta, strict=True)), Fraction(0))
        reach = sum((abs(a * b) for a, b in zip(row, size, strict=True)), Fraction(0))
        E = (len(delta) + 2) * unit * reach
        if normal:
            E += least * (1 + sum(map(abs, row)) + sum(map(abs, size)))
        D += z * z
        bound += 2 * abs(z) * E + E * E
    return D, bound + (len(L) + 2) * unit * D


def wrong_neighbours(
    factor: Any,
    queries: Any,
    points: Any,
    k: int,
    found: Any,
    *,
    exclude_self: bool = False,
) -> str | None:
    """Say which neighbour is wrong, or None; ``found`` is (m, k) indices."""
    L, Q, P = fractions(factor), fractions(queries), fractions(points)
    n = len(P)
    for i, (q, index) in enumerate(zip(Q, np.asarray(found), strict=True)):
        own = {i} if exclude_self else set()
        listed = index.tolist()
        if len({*listed} - own) != k or not all(0 <= j < n for j in listed):
            return f"query {i}: {listed} are not {k} different points"
        exact = [squared(L, q, p) for p in P]
        rest = [j for j in range(n) if j not in own]
        for place, j in enumerate(listed):
            rest.remove(j)
            D, bound = exact[j]
            for other in rest:  # What comes later, or not at all.
                E, slack = exact[other]
                if E + UNITS * (bound + slack) < D:
                    return (
                        f"query {i}: place {place} holds {j} at {float_of(D)} before "
                        f"{other} at {float_of(E)}"
                    )
                if other < j and P[other] == P[j]:
                    return f"query {i}: {j} comes before its equal {other}"
    return None


def wrong_figure(
    value: Any,
    D: Fraction,
    bound: Fraction,
    eps: float = 2.0**-52,
    *,
    root: bool = False,
    normal: bool = False,
    terms: int = 1,
) -> str | None:
    """Say how a figure for D (or √D), a sum of ``terms`` squares, is wrong, or None.

    Each square may be lost that is below the smallest number; of a root the squares
    are scaled first, and none is.
    """
    if not np.isfinite(value):
        return f"got {value}, expected {float_of(D)}{' before its root' * root}"
    given, tiny = Fraction(float(value)), Fraction(smallest(eps, normal=normal))
    if root:  # Its own rounding: a unit, twice in the square.
        low, high = max(given - tiny, Fraction(0)) ** 2, (given + tiny) ** 2
        low, high = low * (1 - Fraction(4 * eps)), high * (1 + Fraction(4 * eps))
    else:
        low, high = given - terms * tiny, given + terms * tiny
    if low - UNITS * bound <= D <= high + UNITS * bound:
        return None
    return f"got {value}, expected {float_of(D)}{' before its root' * root}"


def smallest(eps: float, *, normal: bool) -> float:
    """Return the smallest (normal) number of the type whose spacing at 1 is eps."""
    kind = np.finfo(np.float64 if eps < 1e-15 else np.float32)
    return float(kind.tiny if normal else kind.smallest_subnormal)


def float_of(D: Fraction) -> str:
    """Return a fraction of any size as a short decimal number."""
    if D == 0:
        return "0"
    power = len(str(D.numerator)) - len(str(D.denominator))
    return f"{float(D / Fraction(10) ** power):.6g}e{power}"
