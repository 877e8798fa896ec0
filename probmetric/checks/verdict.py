"""From many p-values and verdicts to one: Holm's adjustment and the worst answer."""

from typing import Any

import numpy as np

__all__ = ["check_level", "check_positive", "holm", "overall"]


def holm(p: np.ndarray) -> np.ndarray:
    """Adjust p-values by Holm's method; NaN (no test) stays NaN and does not count."""
    p = np.asarray(p, float)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested])]
    adjusted = np.full(p.shape, np.nan)
    factor = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(factor * p[order]))
    return adjusted


def overall(verdicts: Any) -> str:
    """Return the worst of several verdicts."""
    order = ("disagree", "outside", "inconclusive", "agree", "within")
    present = set(np.ravel(np.asarray(verdicts)).tolist())
    return next((v for v in order if v in present), "inconclusive")


def check_level(name: str, level: float | int) -> None:
    """Refuse a probability outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"{name}: wanted a number between 0 and 1, got {level!r}")


def check_positive(**numbers: float | int) -> None:
    """Refuse numbers that are not above zero, by name."""
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{name}: wanted a number > 0, got {number!r}")
