"""Settings of estimators: their types say what is allowed, and are checked in ``fit``.

An estimator annotates each setting with the values that it takes, for type checkers
and for ``check_settings`` alike: ``Literal`` names the choices, ``Count``, ``Share``
and the other types below the range of a number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import isfunction, unwrap
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAliasType,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

import numpy as np

from probmetric.arguments import check_bool, check_choice, check_number, interval


class Number(NamedTuple):
    """The range [low, high] of a number, or (low, high] with ``open_low``."""

    low: float
    high: float = np.inf
    whole: bool = False
    open_low: bool = False

    def __repr__(self) -> str:
        """Write the range as help() shows it: ``whole [1, inf)``."""
        return f"{'whole ' if self.whole else ''}{interval(*self)}"


MOST = 10**6
"""The largest count: a trace of so many steps takes megabytes, a loop ends in days."""

Count = Annotated[int, Number(1, MOST, whole=True)]
Natural = Annotated[int, Number(0, MOST, whole=True)]
NonNegative = Annotated[float, Number(0, float(np.finfo(float).max))]
Extended = Annotated[float, Number(0)]
"""0 to infinity, where infinity is a limit that is meant."""
Positive = Annotated[float, Number(0, float(np.finfo(float).max), open_low=True)]
Share = Annotated[float, Number(0, 1)]
PairSet = Literal["nearest", "impostors", "all"]
Matrix = np.ndarray | Sequence[Sequence[float]]
Seed = Annotated[int, Number(0, 2**32 - 1, whole=True)]
RandomState = Seed | np.random.RandomState | None
"""What scikit-learn's ``check_random_state`` takes."""


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def settings[C](estimator: type[C]) -> type[C]:
    """Make a constructor that stores what the body of the class annotates.

    As scikit-learn asks, it does nothing else: values are checked in ``fit``.
    """
    for base in estimator.__mro__[1:]:
        if base.__module__.startswith("probmetric."):
            _without_class(base)
    marked: Any = estimator
    marked.__no_type_check__ = True  # Wrong values are refused in words of our own.
    return dataclass(kw_only=True, eq=False, repr=False)(estimator)


def _without_class(base: type) -> None:
    """Name methods without their class, which users do not know, in Python's errors."""
    for name, method in vars(base).items():
        if isfunction(method):
            unwrap(method).__qualname__ = name


def check_settings(estimator: Any) -> None:
    """Raise for settings that the annotations of the estimator do not allow.

    Choices and numbers are checked, and None where it is not offered. A value of a
    class that an annotation names passes; arrays and sequences are left to their users.

    Raises
    ------
    ValueError
        Naming the setting, what was expected and what came.
    """
    for name, hint in type(estimator).__init__.__annotations__.items():
        if name != "return":
            _check(name, getattr(estimator, name), hint)


def _check(name: str, value: object, hint: Any) -> None:
    hint = hint.__value__ if isinstance(hint, TypeAliasType) else hint
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    words = tuple(w for k in kinds if get_origin(k) is Literal for w in get_args(k))
    ranges = [get_args(k)[1] for k in kinds if get_origin(k) is Annotated]
    others = [k for k in kinds if get_origin(k) not in (Literal, Annotated)]
    others += [np.integer] if int in others else []
    if bool in kinds:
        check_bool(name, value)
    if not (words or ranges):
        return
    if isinstance(value, str) and words:
        check_choice(name, value, words)
    elif value is None and NoneType in others:
        return
    elif any(not isinstance(k, type) or isinstance(value, k) for k in others):
        return
    elif ranges:
        check_number(name, value, **ranges[0]._asdict())
    else:
        check_choice(name, value, words)
