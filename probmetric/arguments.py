"""Checks of single arguments; the error says what was expected and what came."""

from typing import Any

import numpy as np


class WrongType(ValueError, TypeError):
    """A bad argument of a type for which scikit-learn promises a TypeError."""


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
    open_high: bool = False,
    word: str | None = None,
) -> Any:
    """Return a number in [low, high], without an end that is open, or the ``word``.

    Whole numbers become Python's: those of NumPy's small types overflow.
    """
    if word is not None and isinstance(value, str) and value == word:
        return value
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    valid = isinstance(value, kinds) and not isinstance(value, (bool, np.bool_))
    number: Any = value
    inside = valid and (low < number if open_low else low <= number)
    if not inside or not (number < high if open_high else number <= high):
        what = "a whole number" if whole else "a number"
        either = "" if word is None else f"{word!r} or "
        ends = interval(low, high, whole, open_low, open_high)
        raise ValueError(f"{name}: expected {either}{what} in {ends}, got {value!r}")
    return int(number) if whole else value


def interval(
    low: int | float,
    high: int | float = np.inf,
    whole: bool = False,
    open_low: bool = False,
    open_high: bool = False,
) -> str:
    """Write a range of numbers; one up to the largest float, or of whole ones, is open.

    Examples
    --------
    >>> interval(1, whole=True), interval(0, 1, open_low=True)
    ('[1, inf)', '(0, 1]')
    """
    largest = float(np.finfo(float).max)
    if high == largest or (whole and high == np.inf):
        high, open_high = np.inf, True
    ends = "(" if open_low else "[", ")" if open_high else "]"
    return f"{ends[0]}{low:g}, {high:g}{ends[1]}"


def check_bool(name: str, value: Any) -> None:
    """Raise for what is neither True nor False: a text such as "no" would be true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: expected True or False, got {value!r}")


def check_counts(**sizes: Any) -> tuple[int, ...]:
    """Return whole numbers of at least 1 as Python's, or raise and name the wrong one.

    Examples
    --------
    >>> check_counts(k=np.int8(100), tile=32)
    (100, 32)
    """
    return tuple(check_number(name, n, 1, whole=True) for name, n in sizes.items())


def check_count(name: str, value: Any, largest: int, why: str) -> int:
    """Return a whole number from 1 to largest; ``why`` says what sets the limit."""
    count: int = check_number(name, value, 1, whole=True)
    if count > largest:
        raise ValueError(f"{name}: expected at most {largest} ({why}), got {count}")
    return count


def store_counts(settings: Any, *names: str, low: int = 1) -> None:
    """Store counts of a frozen dataclass as Python's whole numbers, or raise."""
    for name in names:
        value = check_number(name, getattr(settings, name), low, whole=True)
        object.__setattr__(settings, name, value)


def check_within_0_1(**shares: Any) -> None:
    """Raise for what is no number between 0 and 1, both excluded, naming it."""
    for name, share in shares.items():
        check_number(name, share, 0, 1, open_low=True, open_high=True)
