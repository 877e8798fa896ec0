"""Factors: columns of text or categories of a data frame, as numbers.

A factor becomes K columns of 0 and 1, one for each level. The name of a column, such as
"soil=clay", contains the level. Metrics and files store these names. Any two levels
have the same distance. All columns of a factor are divided by one scale s,

    s² = Σ_k p_k (1 - p_k),                                                        (1)

where p_k is the share of level k. s² is the sum of the variances of the columns. After
division by s the factor has total variance 1, like a standardized column. A factor with
two levels equals its standardized column of 0 and 1. Without standardization s is √2,
and two levels have distance 1.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from probmetric.data.inputs import is_missing
from probmetric.data.unlabeled import spelled

type Factors = dict[str, tuple[str, ...]]
"""Levels of each factor, by the name of its column."""

KEY = "probmetric.factors"
"""Key in ``attrs`` of a coded data frame. The entry has the factors, for refits."""


def _level(value: object) -> str:
    """Return a level as text, a whole number without decimals."""
    return value if isinstance(value, str) else spelled(value)


def level_names(name: str, levels: Sequence[str]) -> list[str]:
    """Return the names of the columns of a factor."""
    return [f"{name}={level}" for level in levels]


def _columns(X: Any) -> Iterable[tuple[Any, Any]]:
    if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
        return ()
    polars = hasattr(X, "iter_columns")
    return zip(X.columns, X.iter_columns(), strict=True) if polars else X.items()


def factors_of(X: Any) -> Factors:
    """Find the factors of a data frame: columns of text or of categories.

    The levels are the values that occur, as text. Whole numbers have no decimals.

    Raises
    ------
    ValueError
        If a column has numbers stored as text, or a different text in each row.
    """
    columns = {str(name) for name, _ in _columns(X)}
    of_frame: Factors = getattr(X, "attrs", {}).get(KEY, {})
    # A selection of columns, or renamed ones, may lack some of the coded factors.
    already = {f: v for f, v in of_frame.items() if columns >= {*level_names(f, v)}}
    found: Factors = {}
    for name, values in _columns(X):
        category = str(values.dtype).lower().startswith(("categor", "enum"))
        if not category and np.asarray(values).dtype.kind in "biufcmM":
            continue
        entries = [v for v in np.asarray(values, object) if not is_missing(v)]
        if not entries or not (category or all(isinstance(v, str) for v in entries)):
            continue
        levels = sorted({_level(v) for v in entries})
        if not category and all(map(_is_number, levels)):
            raise ValueError(
                "X must have numeric columns, got numbers stored as text in column "
                f"{name!r} ({levels[0]!r}). Use pandas.to_numeric, or "
                "astype('category') if they are categories"
            )
        if len(levels) == len(entries) > 2:
            raise ValueError(
                "X: columns must be numeric or categorical, got a different text in "
                f"each row of column {name!r} ({levels[0]!r}). Drop this column, for "
                "example if it contains names or dates"
            )
        found[str(name)] = (*levels,)
    others = columns - {*found}
    made = [column for factor in found.items() for column in level_names(*factor)]
    if double := [name for name in made if name in others or made.count(name) > 1]:
        raise ValueError(
            f"X: column names must differ from the names of factor levels, got "
            f"{double[0]!r} twice. Rename the column"
        )
    return already | found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def levels_in(names: Sequence[str], X: Any) -> Factors:
    """Return the levels of the factors in X, from feature names like "soil=clay"."""
    starts = {str(name): f"{name}=" for name, _ in _columns(X) if name not in names}
    columns = {str(name) for name, _ in _columns(X)}
    coded_names = [name for name in names if name not in columns]
    found = {
        factor: tuple(n.removeprefix(start) for n in coded_names if n.startswith(start))
        for factor, start in starts.items()
    }
    return {factor: levels for factor, levels in found.items() if levels}


def coded(X: Any, factors: Factors, unknown: str = "error", name: str = "X") -> Any:
    """Replace factors of a data frame by columns of 0 and 1.

    A missing level is NaN in all K columns. If ``unknown`` is "ignore", a missing or
    unknown level is 1/K in all columns, and has the same distance from all levels.
    """
    columns = [*_columns(X)]
    if not {str(column) for column, _ in columns} & {*factors}:
        return X
    import pandas as pd

    names: list[str] = []
    parts: list[Any] = []
    for column, values in columns:
        levels = factors.get(str(column))
        if levels is None:
            names.append(str(column))
            parts.append(values if hasattr(X, "index") else np.asarray(values))
            continue
        entries = np.asarray(values, object)
        missing = np.array([is_missing(v) for v in entries], bool)
        words = np.array([_level(v) for v in entries], object)
        codes = pd.Index(levels).get_indexer(words)
        if np.all(codes < 0):  # A model of 0.2 has levels such as 1.0.
            codes = pd.Index([*map(spelled, levels)]).get_indexer(words)
        bad = (codes < 0) & ~missing
        if unknown != "ignore" and bad.any():
            raise ValueError(
                f"{name}: the factor {column!r} must be one of {', '.join(levels)}, "
                f"got {words[bad][0]!r}. To accept other levels, fit with "
                "handle_unknown='ignore'"
            )
        simplex = np.eye(len(levels))[codes]
        simplex[missing | bad] = 1 / len(levels) if unknown == "ignore" else np.nan
        names += level_names(str(column), levels)
        parts += [*simplex.T]
    made = pd.DataFrame(dict(enumerate(parts)), index=getattr(X, "index", None))
    made.columns = names
    made.attrs[KEY] = factors
    return made


def places_of(factors: Factors, names: Iterable[object]) -> list[list[int]]:
    """Return the positions of the columns of each factor."""
    places = {name: place for place, name in enumerate(names)}
    return [[places[c] for c in level_names(*factor)] for factor in factors.items()]
