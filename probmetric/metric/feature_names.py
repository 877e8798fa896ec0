"""Names of a metric's features, where they are known: frames have to bear them.

A metric takes arrays by place. One that was learned from a frame, or loaded from a file
that names its features, also knows what they are called, as ``feature_names_in_``, and
refuses a frame whose columns are others or stand in another order: the answer would be
that of other features. The names are a note on the object: they are pickled and copied
with it, JAX does not see them, and a metric made from its arrays has none.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any


def named[M](metric: M, names: Iterable[str] | None) -> M:
    """Note the names of its features on a metric, and return it; None is no names."""
    if names is not None:
        # Metrics are frozen: their arrays, which this leaves alone. One of your own
        # may have slots, and no room for names.
        with suppress(AttributeError):
            object.__setattr__(metric, "feature_names_in_", tuple(map(str, names)))
    return metric


def with_names[**P, R](method: Callable[P, R]) -> Callable[P, R]:
    """Wrap a learner's method that returns a metric, to bear the learner's names."""

    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return named(method(*args, **kwargs), names_of(args[0]))

    return wrapper


def names_of(known: Any) -> tuple[str, ...] | None:
    """Return the features' names of a metric or learner, None where not known."""
    names = getattr(known, "feature_names_in_", getattr(known, "_columns", None))
    return None if names is None else tuple(map(str, names))


def _columns_of(X: Any) -> list[Any] | None:
    """Return the names of a frame's columns, None if X is no frame."""
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    return columns.tolist() if hasattr(columns, "tolist") else list(columns)


def remember_columns(estimator: Any, X: Any) -> None:
    """Store the columns of a frame in fit if scikit-learn does not: numbers, tuples."""
    vars(estimator).pop("_columns", None)
    columns = _columns_of(X)
    if columns is not None and not hasattr(estimator, "feature_names_in_"):
        estimator._columns = tuple(columns)


def check_fitted_columns(estimator: Any, X: Any) -> None:
    """Raise for a frame with other columns than in fit, or in another order.

    Missing and extra names that are text are left to scikit-learn, which names them.
    """
    wanted, columns = names_of(estimator), _columns_of(X)
    if wanted is None or columns is None:
        return
    found = [str(column) for column in columns]
    said = difference(wanted, found, "fit")
    text = hasattr(estimator, "feature_names_in_") and _all_text(columns)
    if said and not (text and set(wanted) != set(found)):
        raise ValueError(f"X: expected the {said}{_AS_SKLEARN * text}")


_AS_SKLEARN = (
    ". The feature names should match those that were passed during fit.\n"
    "Feature names must be in the same order as they were in fit.\n"
)
"""Ends as scikit-learn's checks ask."""


def _all_text(columns: Iterable[Any]) -> bool:
    return all(isinstance(column, str) for column in columns)


def check_columns(metric: Any, **points: Any) -> None:
    """Refuse frames and sources, by argument, of other features than a metric's.

    Raises
    ------
    ValueError
        Naming the argument, and what is missing, too much, or in another order.
    """
    wanted = names_of(metric)
    if wanted is None:
        return
    for argument, X in points.items():
        columns = _columns_of(X)
        found = getattr(X, "feature_names", None) if columns is None else columns
        if found is None or (columns is None and not _all_text(found)):
            continue
        if said := difference(wanted, [*map(str, found)]):
            own = "list(metric.feature_names_in_)"
            text = columns is not None and _all_text(columns)
            there = text and set(wanted) <= set(found)
            todo = f"; {argument}[{own}] are those" if there else ""
            raise ValueError(f"{argument}: expected the {said}{todo}")


def difference(
    wanted: Sequence[str], found: Sequence[str], of: str = "the metric"
) -> str:
    """Say how the features of data differ from those of a metric; "" if they do not.

    Names that a file without names is given, x0, x1, ..., are those of any features.
    So are 0, 1, ..., the columns of a frame without names, next to names as text.
    """
    if list(wanted) == list(found):
        return ""
    lacking = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    bare = _unnamed(wanted, found) or _unnamed(found, wanted)
    if bare and lacking and len(wanted) == len(found):
        return ""
    moved = [f"{b!r} for {a!r}" for a, b in zip(wanted, found, strict=False) if a != b]
    said = [
        f"{len(wanted)} features of {of}, got {len(found)}",
        *([f"without {_few(map(repr, lacking))}"] if lacking else []),
        *([f"with {_few(map(repr, extra))}"] if extra else []),
        *([] if lacking or extra else [f"in another order: {_few(moved)}"]),
    ]
    return ", ".join(said)


def _few(words: Iterable[str]) -> str:
    """Join five words, and say how many more there are."""
    found = [*words]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"{', '.join(found[:5])}{more}"


def _unnamed(names: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether names are those of a file or frame that has none."""
    numbers = [str(k) for k in range(len(names))]
    if list(names) == numbers:
        return not any(name.isdecimal() for name in others)
    return list(names) == [f"x{number}" for number in numbers]
