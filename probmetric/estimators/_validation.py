"""The boundary between users and closed forms: checks, scaling, padding, outcomes.

All of it runs on the host, once a fit. What passes is float64, finite, of known
shape; what does not is a ``ValueError`` that says what was wanted and what came.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from probmetric.data.inputs import class_codes
from probmetric.data.padding import bucket, host_weights, pad_pairs
from probmetric.inference.solvers.result import REMEDY, Fit, Result
from probmetric.linalg_scaled import LARGEST

__all__ = [
    "Scaler",
    "bucket",
    "check_choice",
    "check_labelled",
    "check_number",
    "check_sizes",
    "fit_scaler",
    "host_weights",
    "pad_pairs",
    "report",
]


class Scaler(NamedTuple):
    """Centre and scale of each feature: standardised x is (x - mean) / scale."""

    mean: Float[np.ndarray, "d"]
    scale: Float[np.ndarray, "d"]


def _check_numeric(X: Any) -> None:
    """Refuse columns that hold no numbers, by name where there is one."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        bad = [
            f"{name!r} ({dtype})"
            for name, dtype in zip(X.columns, X.dtypes, strict=True)
            if getattr(dtype, "kind", "O") in "OUSmM"
            and not _holds_numbers(np.asarray(X[name], object))
        ]
    else:
        values = np.asarray(X) if isinstance(X, (list, tuple)) else X
        if getattr(values, "ndim", 0) != 2 or values.dtype.kind not in "US":
            return
        bad = [f"an array of {values.dtype}"]
    if bad:
        raise ValueError(f"X: wanted numeric columns, got {', '.join(bad)}")


def _holds_numbers(column: np.ndarray) -> bool:
    try:
        column.astype(float)
    except (TypeError, ValueError):
        return False
    return True


def check_labelled(
    estimator: Any, X: Any, y: Any
) -> tuple[Float[np.ndarray, "n d"], np.ndarray, Int[np.ndarray, "n"]]:
    """Return X as float64, the sorted classes and the class codes of y.

    Sets ``n_features_in_`` and ``feature_names_in_`` on the estimator.

    Raises
    ------
    ValueError
        On bad input, one class, or a class of one member.
    """
    if isinstance(X, np.ndarray) and X.ndim == 3:
        raise ValueError(f"X: wanted shape (n, d), got {X.shape}; see fit_pairs")
    _check_numeric(X)
    if isinstance(y, (list, tuple)):
        class_codes(y, "y")  # before NumPy turns numbers among strings into strings
    validate: Any = validate_data  # its stubs know only the default strings
    points, labels = validate(estimator, X, y, dtype=np.float64, ensure_min_samples=2)
    if labels.dtype.kind == "f":
        check_classification_targets(labels)  # whole numbers only
    classes, codes = class_codes(labels, "y")
    alone = np.flatnonzero(np.bincount(codes) < 2)
    if len(alone):
        raise ValueError(
            "y: wanted at least 2 members a class, got one member of "
            f"{classes[alone[:5]].tolist()}"
        )
    return points, classes, codes


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a string that is not among the allowed ones."""
    if value not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise ValueError(f"{name}: wanted one of {listed}, got {value!r}")


def check_number(
    name: str,
    value: Any,
    low: int | float,
    high: int | float = np.inf,
    *,
    whole: bool = False,
    open_low: bool = False,
) -> Any:
    """Return a number in [low, high], or in (low, high] with ``open_low``."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    valid = isinstance(value, kinds) and not isinstance(value, (bool, np.bool_))
    if not valid or not low <= value <= high or (open_low and value == low):
        what = "a whole number" if whole else "a number"
        limits = f"{'(' if open_low else '['}{low:g}, {high:g}]"
        raise ValueError(f"{name}: wanted {what} in {limits}, got {value!r}")
    return value


def fit_scaler(
    X: Float[np.ndarray, "n d"], names: Any = None, *, standardize: bool = True
) -> Scaler:
    """Return the features' means and standard deviations (or 0 and 1).

    Raises
    ------
    ValueError
        When a column is constant: it has no scale, so that points which differ in it
        later would have no defined distance. With or without ``standardize``, when
        float64 does not hold the squares of a column's entries or of its range.
    """
    n, d = X.shape
    check_sizes(X, names)
    low, high = X.min(0), X.max(0)
    constant = np.flatnonzero(low == high)
    if standardize and len(constant):
        which = constant if names is None else np.asarray(names)[constant]
        raise ValueError(
            f"X: wanted columns that vary (n_samples = {n}, standardize=True divides "
            f"by their standard deviation), got constant columns {which.tolist()}; "
            "drop them (sklearn.feature_selection.VarianceThreshold) or set "
            "standardize=False"
        )
    span = high - low
    small = np.flatnonzero((span > 0) & (span < 1 / LARGEST))
    if len(small):
        which = small if names is None else np.asarray(names)[small]
        raise ValueError(
            f"X: wanted columns whose range is {1 / LARGEST:.3g} or more, so that "
            f"float64 holds its square, got {span[small].tolist()} in columns "
            f"{which.tolist()}; rescale them"
        )
    if not standardize:
        return Scaler(np.zeros(d), np.ones(d))
    # Shift and range first: no cancellation.
    unit = (X - low) / span
    return Scaler(low + unit.mean(0) * span, unit.std(0) * span)


def check_sizes(
    X: Float[np.ndarray, "n d"], names: Any = None, *, smallest: bool = False
) -> None:
    """Refuse entries whose squares float64 does not hold; NaN is another's matter.

    With ``smallest``, also rows that differ, but so little that no column's square of
    the range is held.
    """
    if smallest and 0 < (span := np.ptp(X / 2, 0).max() * 2) < 1 / LARGEST:
        raise ValueError(
            f"X: wanted a column whose range is {1 / LARGEST:.3g} or more, so that "
            f"float64 holds its square, got a largest of {span:.3g}; rescale X"
        )
    size = np.max(np.abs(X), 0, where=~np.isnan(X), initial=0.0)
    large = np.flatnonzero(size > LARGEST)
    if len(large):
        which = large if names is None else np.asarray(names)[large]
        raise ValueError(
            f"X: wanted entries up to {LARGEST:.3g} in size, so that float64 holds "
            f"their squares, got {size[large].tolist()} in columns {which.tolist()}; "
            "rescale them"
        )


def report(fit: Fit, name: str) -> None:
    """Warn of a fit that stopped early; raise where it must not have happened.

    Raises
    ------
    RuntimeError
        When the objective fell under EM, or became infinite or NaN.
    """
    code = Result(int(fit.result))
    message = f"{name}: {code.name} after {int(fit.n_steps)} steps; {REMEDY[code]}"
    if code in (Result.DECREASED, Result.NONFINITE):
        raise RuntimeError(message)
    if code == Result.MAX_STEPS:
        warnings.warn(
            message.replace("max_steps", "max_iter"), ConvergenceWarning, stacklevel=4
        )
