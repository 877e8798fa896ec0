"""Check single arguments. Errors name the argument, allowed values and the value."""

from typing import Any

import numpy as np


class WrongType(ValueError, TypeError):
    """An invalid argument for which scikit-learn requires a TypeError."""


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise if a value is not among the allowed strings."""
    if value not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")


def check_number(
    name: str,
    value: object,
    low: int | float,
    high: int | float = np.inf,
    *,
    whole: bool = False,
    open_low: bool = False,
    open_high: bool = False,
    word: str | None = None,
) -> Any:
    """Return a value that is a number in [low, high] or equals ``word``, or raise.

    Open ends are excluded. Whole numbers are converted to int, because small NumPy
    types overflow.
    """
    if word is not None and isinstance(value, str) and value == word:
        return value
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    valid = isinstance(value, kinds) and not isinstance(value, (bool, np.bool_))
    number: Any = value
    inside = valid and (low < number if open_low else low <= number)
    if not inside or not (number < high if open_high else number <= high):
        kind = "a whole number" if whole else "a number"
        either = "" if word is None else f"{word!r} or "
        ends = interval(low, high, whole, open_low, open_high)
        raise ValueError(f"{name} must be {either}{kind} in {ends}, got {value!r}")
    return int(number) if whole else number


def interval(
    low: int | float,
    high: int | float = np.inf,
    whole: bool = False,
    open_low: bool = False,
    open_high: bool = False,
) -> str:
    """Format a range of numbers. If ``high`` is the largest float, show an open ∞."""
    largest = float(np.finfo(float).max)
    if high == largest or (whole and high == np.inf):
        high, open_high = np.inf, True
    ends = "(" if open_low else "[", ")" if open_high else "]"
    limits = (str(n) if isinstance(n, int) else f"{n:g}" for n in (low, high))
    return f"{ends[0]}{', '.join(limits)}{ends[1]}"


def check_bool(name: str, value: object) -> None:
    """Raise if a value is neither True nor False ("no" would count as true)."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_counts(**sizes: object) -> tuple[int, ...]:
    """Return the values as int; raise unless each is a whole number of at least 1."""
    return tuple(check_number(name, n, 1, whole=True) for name, n in sizes.items())


def check_count(name: str, value: object, largest: int, why: str) -> int:
    """Return a whole number from 1 to ``largest``. Errors explain it by ``why``."""
    count: int = check_number(name, value, 1, whole=True)
    if count > largest:
        raise ValueError(f"{name} must be at most {largest} ({why}), got {count}")
    return count


def store_counts(settings: object, *names: str, low: int = 1) -> None:
    """Convert the named counts of a frozen dataclass to int, or raise."""
    for name in names:
        value = check_number(name, getattr(settings, name), low, whole=True)
        object.__setattr__(settings, name, value)


def check_within_0_1(**shares: object) -> None:
    """Raise if a value is not a number between 0 and 1, both excluded."""
    for name, share in shares.items():
        check_number(name, share, 0, 1, open_low=True, open_high=True)
