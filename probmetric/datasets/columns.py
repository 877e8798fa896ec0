"""Detect numeric columns that are probably not features."""

import shlex
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

FEWEST = 5
"""Minimum number of rows to report a row counter or a code for missing values."""


def doubtful_columns(
    X: Float[np.ndarray, "m d"], names: Sequence[str], n: int | None = None
) -> list[str]:
    """Describe row counters and missing-value codes of a sample of ``n`` rows."""
    n = len(X) if n is None else n
    columns = list(zip(names, np.asarray(X, float).T, strict=True))
    notes: list[str] = []
    if counters := [name for name, column in columns if is_counter(column, n)]:
        notes.append(
            f"{_few(counters)}: the values are consecutive whole numbers, like row "
            "numbers, and are used as a feature. If they are identifiers, use "
            f"{_options('--drop', counters)}"
        )
    coded = {
        name: f"{code:.17g}"
        for name, column in columns
        if (code := code_of(column)) is not None
    }
    if coded:
        codes = list(dict.fromkeys(coded.values()))
        notes.append(
            f"{_few(list(coded))}: {', '.join(codes)} occurs often and is far from "
            "the other values. It is used as a number. If it means a missing value, "
            f"use {_options('--na', codes)} (text files), or replace it by NaN"
        )
    return notes


def _options(option: str, values: Sequence[str]) -> str:
    return " ".join(f"{option} {shlex.quote(value)}" for value in values)


def is_counter(column: Float[np.ndarray, "m"], n: int) -> bool:
    """Return whether a column, or a sample of it, counts rows."""
    if len(column) < FEWEST or not np.array_equal(column, np.round(column)):
        return False
    extent = np.ptp(column) + 1
    distinct = len(np.unique(column)) == len(column)
    return distinct and bool(n / 2 < extent <= n)


def code_of(column: Float[np.ndarray, "m"]) -> float | None:
    """Return a repeated extreme value that is far outside the range of other values."""
    values, times = np.unique(column[np.isfinite(column)], return_counts=True)
    if len(values) <= FEWEST:
        return None
    low = times[0] > 1 and values[1] - values[0] > values[-1] - values[1]
    high = times[-1] > 1 and values[-1] - values[-2] > values[-2] - values[0]
    return float(values[0]) if low else float(values[-1]) if high else None


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more columns" if len(names) > 5 else ""
    noun = "column" if len(names) == 1 else "columns"
    return f"{noun} {', '.join(map(repr, names[:5]))}{more}"
