"""Leave out rows without a label, or warn that their -1 is used as a class.

Scikit-learn marks unlabeled rows by -1, and cluster algorithms mark noise by -1.
"""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from probmetric.data.inputs import is_missing
from probmetric.typing import ArrayLike

WARN = "warn"
"""Default of ``unlabeled``: use every label as a class, and warn about -1."""


def leaves_out(unlabeled: object) -> bool:
    """Return whether ``unlabeled`` is a label."""
    if np.asarray(unlabeled, object).ndim:
        raise ValueError(f"unlabeled must be one label, got {unlabeled!r}.")
    return unlabeled is not None and unlabeled != WARN


def has_label(labels: ArrayLike, unlabeled: object) -> Bool[np.ndarray, "n"]:
    """Return which labels differ from ``unlabeled``.

    Labels are compared as text: -1, -1.0 and "-1" are equal. None, NaT and NA are equal
    to NaN.
    """
    word, values = spelled(unlabeled), np.asarray(labels, object).ravel()
    if word == "nan":
        return np.array([not is_missing(v) for v in values], bool)
    return np.array([spelled(v) != word for v in values], bool)


def leave_out(
    unlabeled: object, labels: ArrayLike | None, *others: Any, name: str = "y"
) -> tuple[Any, ...]:
    """Remove unlabeled rows from labels, and from arrays or frames of the same rows.

    If ``unlabeled`` is None or "warn", or if labels are None, nothing is removed.
    """
    if not leaves_out(unlabeled) or labels is None:
        return labels, *others
    labeled = has_label(labels, unlabeled)
    if labeled.all():
        return labels, *others
    if not labeled.any():
        raise ValueError(
            f"{name} must contain class labels, got only {unlabeled!r} (the label of "
            "unlabeled rows)"
        )
    for other in others:
        if other is not None and len(other) != len(labeled):
            raise ValueError(
                f"{name} must have one entry per row, got {len(labeled)} entries for "
                f"{len(other)} rows."
            )
    (rows,) = np.nonzero(labeled)
    return tuple(v if v is None else _taken(v, rows) for v in (labels, *others))


def _taken(values: Any, rows: Int[np.ndarray, "m"]) -> Any:
    if isinstance(values, list | tuple):
        return [values[k] for k in rows]
    return getattr(values, "iloc", values)[rows]


def refuse_unlabeled(unlabeled: object) -> None:
    """Raise if ``unlabeled`` is a label, because rows on disk cannot be left out."""
    if leaves_out(unlabeled):
        raise ValueError(
            f"unlabeled must be None or 'warn' for data on disk, got {unlabeled!r}. "
            "Remove the unlabeled rows from the files."
        )


def warn_of_unlabeled(
    unlabeled: object, classes: Iterable[object], name: str, option: str = ""
) -> None:
    """Warn if -1 and two of 0, 1, ... are classes, unless ``unlabeled`` is None."""
    words = [spelled(label) for label in classes]
    others = [word for word in words if word.isdecimal()]
    if unlabeled is not None and "-1" in words and len(others) > 1:
        warnings.warn(
            f"{name} contains -1 besides "
            f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''}, and -1 is "
            f"used as a class. If -1 means 'no label', set unlabeled=-1{option} to "
            "ignore rows with -1. If -1 is a class, set unlabeled=None to avoid this "
            "warning.",
            UserWarning,
            stacklevel=1,  # One line: Python's filters show the warning once.
        )


def spelled(label: object) -> str:
    """Return a label as text, a whole number without decimals."""
    return str(label).removesuffix(".0")
