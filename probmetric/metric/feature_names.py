"""Feature names of metrics, and the check of data frames against them.

A metric learned from a data frame, or loaded from a file with feature names, has
``feature_names_in_``. Its methods raise an error for a data frame with other columns or
another order of columns. The names are pickled and copied with the metric, but are not
part of the pytree.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, cast

import numpy as np

from probmetric.data.factors import (
    KEY,
    Factors,
    coded,
    factors_of,
    level_names,
    levels_in,
    places_of,
)
from probmetric.data.inputs import real


def named[M](metric: M, names: Iterable[str] | None, unknown: str | None = None) -> M:
    """Set names of a metric (if not None) and ``handle_unknown``; return the metric."""
    if names is not None:
        # The dataclass is frozen.
        object.__setattr__(metric, "feature_names_in_", tuple(map(str, names)))
    if unknown == "ignore":
        object.__setattr__(metric, "handle_unknown", unknown)
    return metric


def with_names[**P, R](method: Callable[P, R]) -> Callable[P, R]:
    """Wrap a learner's method that returns a metric or draws, to set their names.

    For draws only ``handle_unknown`` is set, because their coordinates are the names.
    """

    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        result = method(*args, **kwargs)
        names, unknown = names_of(args[0]), unknown_of(args[0])
        if hasattr(result, "attrs"):  # Draws: metrics have none.
            cast("Any", result).attrs["handle_unknown"] = unknown
            return result
        return named(result, names, unknown)

    return wrapper


def names_of(learner: object) -> tuple[str, ...] | None:
    """Return the feature names of a metric or learner, or None."""
    names = getattr(learner, "feature_names_in_", getattr(learner, "_columns", None))
    return None if names is None else tuple(map(str, names))


def unknown_of(learned: object) -> str:
    """Return the setting ``handle_unknown`` of a metric or learner, or its default."""
    inner = getattr(learned, "metric", None)
    return getattr(learned, "handle_unknown", getattr(inner, "handle_unknown", "error"))


def with_factors(
    estimator: object,
    X: Any,
    *,
    reset: bool = False,
    names: Sequence[str] | None = None,
) -> Any:
    """Code the factors of a data frame as in ``fit``. ``reset`` learns the factors."""
    if reset:
        factors = factors_of(X) if names is None else levels_in(names, X)
        vars(estimator)["factors_"] = factors
    return coded(X, getattr(estimator, "factors_", {}), unknown_of(estimator))


def with_factors_in_rows(estimator: object, points: Any, name: str) -> Any:
    """Code the factors of pairs or triplets of rows of the data frame of ``fit``."""
    factors: Factors = getattr(estimator, "factors_", {})
    rows = np.asarray(points, object) if factors else points
    columns = [*(names_of(estimator) or ())]
    for factor, levels in factors.items():
        first, *others = level_names(factor, levels)
        columns[columns.index(first)] = factor
        columns = [column for column in columns if column not in others]
    if not factors or rows.ndim != 3 or rows.shape[-1] != len(columns):
        return points
    import pandas as pd

    frame = pd.DataFrame(rows.reshape(-1, len(columns)), columns=columns)
    made = real(coded(frame, factors, unknown_of(estimator), name), name)
    return made.reshape(*rows.shape[:2], -1)


def described(estimator: object, rows: np.ndarray) -> Any:
    """Return coded rows as a data frame with the factors of ``fit``, for refits."""
    factors: Factors = getattr(estimator, "factors_", {})
    if not factors:
        return rows
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[*(names_of(estimator) or ())])
    frame.attrs[KEY] = factors
    return frame


def blocks_of(estimator: object) -> list[list[int]]:
    """Return the columns of each factor of an estimator's fit."""
    return places_of(getattr(estimator, "factors_", {}), names_of(estimator) or ())


def _columns_of(X: object) -> list[object] | None:
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    return columns.tolist() if hasattr(columns, "tolist") else list(columns)


def remember_columns(estimator: object, X: object) -> None:
    """Store columns that are not strings, which scikit-learn does not store in fit."""
    vars(estimator).pop("_columns", None)
    columns = _columns_of(X)
    if columns is not None and not hasattr(estimator, "feature_names_in_"):
        vars(estimator)["_columns"] = tuple(columns)


def check_fitted_columns(estimator: object, X: object) -> None:
    """Raise for a data frame with other columns than in fit."""
    names, columns = names_of(estimator), _columns_of(X)
    if names is None or columns is None:
        return
    strings = [str(column) for column in columns]
    problem = difference(names, strings, "fit")
    text = hasattr(estimator, "feature_names_in_") and _all_text(columns)
    if problem and not (text and set(names) != set(strings)):
        raise ValueError(f"X must have the {problem}{_AS_SKLEARN * text}")


_AS_SKLEARN = (
    ". The feature names should match those that were passed during fit.\n"
    "Feature names must be in the same order as they were in fit.\n"
)
"""End of the message that scikit-learn's estimator checks require."""


def _all_text(columns: Iterable[object]) -> bool:
    return all(isinstance(column, str) for column in columns)


def check_columns(metric: object, **points: Any) -> dict[str, Any]:
    """Return data by argument, with coded factors; raise if their features differ."""
    names = names_of(metric)
    if names is not None:
        points = {
            argument: coded(X, levels_in(names, X), unknown_of(metric), argument)
            for argument, X in points.items()
        }
        _check_names(names, points)
    return points


def _check_names(names: Sequence[str], points: Mapping[str, Any]) -> None:
    for argument, X in points.items():
        frame = _columns_of(X)
        columns = getattr(X, "feature_names", None) if frame is None else frame
        if columns is None or (frame is None and not _all_text(columns)):
            continue
        if problem := difference(names, [*map(str, columns)]):
            selectable = frame is not None and _all_text(frame)
            select = f"Use {argument}[list(metric.feature_names_in_)]."
            if any("=" in name for name in names):  # Perhaps levels of a factor.
                select = f"Put the columns of {argument} in the order of the fit."
            remedy = f". {select}" * (selectable and set(names) <= set(columns))
            raise ValueError(f"{argument} must have the {problem}{remedy}")


def difference(
    names: Sequence[str], columns: Sequence[str], source: str = "the metric"
) -> str:
    """Describe the difference between feature names and data columns ("" if none).

    Default names (x0, x1, ... for files, 0, 1, ... for data frames) match any names.
    However, 0, 1, ... do not match other names that are numbers.
    """
    if list(names) == list(columns):
        return ""
    missing = [name for name in names if name not in columns]
    extra = [name for name in columns if name not in names]
    unnamed = _unnamed(names, columns) or _unnamed(columns, names)
    if unnamed and missing and len(names) == len(columns):
        return ""
    moved = [f"{b!r} for {a!r}" for a, b in zip(names, columns, strict=False) if a != b]
    words = [
        f"{len(names)} features of {source}, got {len(columns)}",
        *([f"without {_few(map(repr, missing))}"] if missing else []),
        *([f"with {_few(map(repr, extra))}"] if extra else []),
        *([] if missing or extra else [f"in another order: {_few(moved)}"]),
    ]
    return ", ".join(words)


def _few(words: Iterable[str]) -> str:
    """Join the first five words, and add the number of omitted words."""
    items = [*words]
    more = f" and {len(items) - 5} more" if len(items) > 5 else ""
    return f"{', '.join(items[:5])}{more}"


def _unnamed(names: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether names are the default names of a file or data frame."""
    numbers = [str(k) for k in range(len(names))]
    if list(names) == numbers:
        return not any(name.isdecimal() for name in others)
    return list(names) == [f"x{number}" for number in numbers]
