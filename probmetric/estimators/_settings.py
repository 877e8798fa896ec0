"""Settings of estimators, checked in ``fit`` against their annotations.

The annotation of a setting defines its allowed values, for type checkers and for
``check_settings``. ``Literal`` lists choices. ``Count``, ``Share`` and the other types
below are ranges of a number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import isfunction, unwrap
from types import NoneType, UnionType
from typing import (
    Annotated,
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
from probmetric.estimators._docstrings import complete_learner


class Number(NamedTuple):
    """Range [low, high] of a number, or (low, high] with ``open_low``."""

    low: float
    high: float = np.inf
    whole: bool = False
    open_low: bool = False
    open_high: bool = False

    def __repr__(self) -> str:
        return f"{'whole ' if self.whole else ''}{interval(*self)}"


MOST = 10**6
"""Largest allowed count. More iterations would run for days."""

Count = Annotated[int, Number(1, MOST, whole=True)]
Natural = Annotated[int, Number(0, MOST, whole=True)]
NonNegative = Annotated[float, Number(0, float(np.finfo(float).max))]
Extended = Annotated[float, Number(0)]
"""From 0 to infinity, both included."""
Positive = Annotated[float, Number(0, float(np.finfo(float).max), open_low=True)]
Share = Annotated[float, Number(0, 1)]
PairSet = Literal["nearest", "impostors", "all"]
Unknown = Literal["error", "ignore"]
Matrix = np.ndarray | Sequence[Sequence[float]]
Seed = Annotated[int, Number(0, 2**32 - 1, whole=True)]
RandomState = Seed | np.random.RandomState | None
"""Values that scikit-learn's ``check_random_state`` accepts."""


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def settings[C](estimator: type[C]) -> type[C]:
    """Make a constructor that only stores the settings, and complete the docstrings."""
    for base in estimator.__mro__[1:]:
        if base.__module__.startswith("probmetric."):
            _without_class(base)
    setattr(estimator, "__no_type_check__", True)  # noqa: B010  ``fit`` checks values.
    made = dataclass(kw_only=True, eq=False, repr=False)(estimator)
    complete_learner(made, made.__init__.__annotations__)
    return made


def _without_class(base: type) -> None:
    for name, method in vars(base).items():
        if isfunction(method):
            unwrap(method).__qualname__ = name


def check_settings(estimator: object) -> None:
    """Raise ValueError for settings that the annotations do not allow."""
    for name, hint in type(estimator).__init__.__annotations__.items():
        if name != "return":
            _check(name, getattr(estimator, name), hint)


def _check(name: str, value: object, hint: object) -> None:
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
