"""Rows without a label: leave them out, or warn that their -1 is used as a class.

Scikit-learn marks rows without a label by -1, and cluster algorithms mark noise by it.
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from probmetric.data.inputs import is_missing
from probmetric.typing import ArrayLike

WARN = "warn"
"""Default of ``unlabeled``: use every label as a class, and warn about -1."""


def leaves_out(unlabeled: Any) -> bool:
    """Return whether this value of ``unlabeled`` names a label."""
    if np.ndim(unlabeled) != 0:
        raise ValueError(f"unlabeled must be one label, got {unlabeled!r}.")
    return unlabeled is not None and unlabeled != WARN


def has_label(labels: ArrayLike, unlabeled: Any) -> Bool[np.ndarray, "n"]:
    """Return which labels differ from ``unlabeled``.

    Labels are compared as text: -1, -1.0 and "-1" are one label. NaN also stands for
    None, NaT and NA.

    Examples
    --------
    >>> has_label([0, 1, -1], -1).tolist()
    [True, True, False]
    >>> has_label(["a", None, float("nan")], float("nan")).tolist()
    [True, False, False]
    """
    word, values = _spelled(unlabeled), np.asarray(labels, object).ravel()
    if word == "nan":
        return np.array([not is_missing(v) for v in values], bool)
    return np.array([_spelled(v) != word for v in values], bool)


def leave_out(
    unlabeled: Any, labels: Any, *beside: Any, name: str = "y"
) -> tuple[Any, ...]:
    """Return labels, and arrays or frames with the same rows, without unlabeled rows.

    Parameters
    ----------
    unlabeled : label, None or "warn"
        None and "warn" leave out nothing.
    labels : array-like of shape (n,), or None
    *beside : array-like with n rows, or None
    name : str, default="y"
        Of the labels.

    Raises
    ------
    ValueError
        If nothing is left, or if the numbers of rows differ.
    """
    if not leaves_out(unlabeled) or labels is None:
        return labels, *beside
    kept = has_label(labels, unlabeled)
    if kept.all():
        return labels, *beside
    if not kept.any():
        raise ValueError(f"{name} must have labels, got only {unlabeled!r} (unlabeled)")
    for other in beside:
        if other is not None and len(other) != len(kept):
            raise ValueError(
                f"{name} must have one entry per row, got {len(kept)} entries for "
                f"{len(other)} rows."
            )
    (rows,) = np.nonzero(kept)
    return tuple(v if v is None else _taken(v, rows) for v in (labels, *beside))


def _taken(values: Any, rows: Int[np.ndarray, "m"]) -> Any:
    """Return rows of a frame, an array or a list, in the same container."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return (
        [values[k] for k in rows] if isinstance(values, list | tuple) else values[rows]
    )


def refuse_unlabeled(unlabeled: Any) -> None:
    """Raise if ``unlabeled`` names a label: no row of a source is left out."""
    if leaves_out(unlabeled):
        raise ValueError(
            "unlabeled must be None or 'warn' where rows are streamed from a source, "
            f"got {unlabeled!r}. Leave those rows out of the files."
        )


def warn_of_unlabeled(
    unlabeled: Any, classes: Any, name: str, option: str = ""
) -> None:
    """Warn if -1 is a class next to two or more of 0, 1, 2, ..., unless told None.

    From one line, so that Python's filters show it once.
    """
    words = [_spelled(label) for label in classes]
    others = [word for word in words if word.isdecimal()]
    if unlabeled is not None and "-1" in words and len(others) > 1:
        warnings.warn(
            f"{name} has -1 next to {', '.join(others[:3])}"
            f"{', ...' if len(others) > 3 else ''}, and -1 is used as a class: set "
            f"unlabeled=-1{option} to leave those rows out, or unlabeled=None to use "
            "the class without this warning.",
            UserWarning,
            stacklevel=1,
        )


def _spelled(label: Any) -> str:
    """Return a label as text, without the decimals of a whole number."""
    return str(label).removesuffix(".0")
