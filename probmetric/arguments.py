"""Checks of single arguments; the error says what was expected and what came."""

from typing import Any

import numpy as np

__all__ = ["check_choice", "check_number"]


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise for a string that is not among the allowed ones."""
    if value not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise ValueError(f"{name}: expected one of {listed}, got {value!r}")


def check_number(
    name: str,
    value: Any,
    low: int | float,
    high: int | float = np.inf,
    *,
    whole: bool = False,
    open_low: bool = False,
) -> Any:
    """Return a number in [low, high], or in (low, high] with ``open_low``."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    valid = isinstance(value, kinds) and not isinstance(value, (bool, np.bool_))
    if not valid or not low <= value <= high or (open_low and value == low):
        what = "a whole number" if whole else "a number"
        limits = f"{'(' if open_low else '['}{low:g}, {high:g}]"
        raise ValueError(f"{name}: expected {what} in {limits}, got {value!r}")
    return value
