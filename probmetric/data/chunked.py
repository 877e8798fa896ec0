"""Data that are no arrays and supply an implementation of each function.

Functions of the core compute with arrays. Data that are read in chunks, such as the
result of ``pm.open`` (``probmetric.large``), supply another implementation of the
functions and methods that are decorated with ``chunked``.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Chunked(Protocol):
    """Data that are read in chunks, such as the result of ``pm.open``."""

    name: str

    def implementation(self, name: str, /) -> Callable[..., Any]:
        """Return the implementation of a function or method, by its name."""
        ...


def chunked[**P, R](argument: str = "X") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function: if its ``argument`` is ``Chunked``, that object computes."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        place = [*signature(function).parameters].index(argument)
        name = function.__qualname__

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            data = args[place] if len(args) > place else kwargs.get(argument)
            if isinstance(data, Chunked):
                return data.implementation(name)(*args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorate
