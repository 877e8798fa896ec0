"""Check labeled points and pairs before a fit, and report the outcome of the fit.

All checks use NumPy, and run once in each fit. Valid input becomes float64. Invalid
input raises ``ValueError`` with the argument, the expected value and the value
received.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.factors import coded, factors_of
from probmetric.data.inputs import (
    as_sklearn,
    check_numeric,
    check_one_kind,
    class_codes,
    group_codes,
    label_codes,
    pair_points,
    pairs_from_arrays,
    points,
    real,
)
from probmetric.data.scaling import Scaler, standardize_features
from probmetric.data.unlabeled import WARN, leave_out, warn_of_unlabeled
from probmetric.estimators._settings import check_settings
from probmetric.inference.solvers.result import REMEDY, Fit, Result
from probmetric.metric.feature_names import (
    blocks_of,
    check_fitted_columns,
    described,
    remember_columns,
    unknown_of,
    with_factors,
    with_factors_in_rows,
)
from probmetric.typing import ArrayLike

type Finite = bool | Literal["allow-nan"]
"""Values that raise: NaN and infinity (True), only infinity, or none (False)."""

ENTRY_KINDS = "iuUSO"
"""Kinds of dtypes whose entries can refer to points: integers, text, objects."""


def _preprocessor(
    estimator: object,
) -> ArrayLike | Callable[[np.ndarray], ArrayLike] | None:
    return getattr(estimator, "preprocessor", None)


def holds_pairs(estimator: object, X: ArrayLike) -> bool:
    """Check if X is pairs: (N, 2, d), or (N, 2) with a preprocessor."""
    entries = _entries(X)
    if entries.ndim == 2 and _preprocessor(estimator) is not None:
        return entries.shape[1] == 2 and entries.dtype.kind in ENTRY_KINDS
    return entries.ndim == 3 and entries.shape[1] == 2


def _entries(X: ArrayLike) -> np.ndarray:
    """Return X as an array, or a 0-d array of None if its rows differ in length."""
    try:
        return np.asarray(X)
    except ValueError:
        return np.asarray(None)


def stood_for(
    estimator: object, X: ArrayLike, name: str, n_axes: int
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "..."]] | None:
    """Return the points of the preprocessor, and the index of the point of each entry.

    If the preprocessor is a function, it is called once, with the sorted distinct
    entries. The result is None if there is no preprocessor, or if X does not have
    ``n_axes`` axes (1 for points, 2 for pairs or triplets).
    """
    preprocessor, entries = _preprocessor(estimator), _entries(X)
    if preprocessor is None or entries.ndim != n_axes:
        return None
    if name == "pairs" and (entries.shape[1] != 2 or not len(entries)):
        raise ValueError(
            "pairs must have shape (N, 2, d), or (N, 2) if preprocessor is set, got "
            f"{entries.shape}"
        )
    if not entries.size:
        return None
    if not callable(preprocessor):
        factors = getattr(estimator, "factors_", None)
        if factors is None:
            factors = factors_of(preprocessor)
        unknown = unknown_of(estimator)
        frame: Any = coded(preprocessor, factors, unknown, "preprocessor")
        rows = points(frame, "preprocessor")
        whole = entries.dtype.kind in "iu"
        if not whole or entries.min() < 0 or entries.max() >= len(rows):
            value = f"{entries.min()}..{entries.max()}" if whole else entries.dtype
            raise ValueError(
                f"{name} must be row numbers of the preprocessor, 0..{len(rows) - 1}, "
                f"got {value}"
            )
        return rows, entries.astype(int)
    if entries.dtype.kind not in ENTRY_KINDS:
        raise ValueError(
            f"{name} must be integers or text if preprocessor is set, got "
            f"{entries.dtype}"
        )
    try:
        keys, places = np.unique(entries, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"{name} must have entries of one type if preprocessor is set ({error}). "
            "Use only integers, or only text."
        ) from error
    rows = points(preprocessor(keys), "preprocessor")
    if len(rows) != len(keys):
        raise ValueError(
            f"preprocessor must return one row for each of {len(keys)} entries, got "
            f"shape {rows.shape}"
        )
    return rows, places.reshape(entries.shape)


def required(estimator: object, y: ArrayLike | None) -> ArrayLike:
    """Return y, or raise if it is None."""
    if y is None:
        raise ValueError(
            f"y: {type(estimator).__name__} requires y to be passed, but the target y "
            "is None"
        )
    return y


def _points_of(estimator: object, X: ArrayLike, *, reset: bool) -> ArrayLike:
    """Return X, or the points that X refers to if there is a preprocessor."""
    if reset and hasattr(_preprocessor(estimator), "columns"):
        remember_preprocessor(estimator)
    stored = stood_for(estimator, X, "X", 1)
    if stored is None:
        return X
    return described(estimator, stored[0][stored[1]])


def check_labeled(
    estimator: object,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    finite: Finite = True,
    smallest: int = 2,
) -> tuple[Float[np.ndarray, "n d"], np.ndarray, Int[np.ndarray, "n"]]:
    """Return X as float64, the sorted classes and the class codes of y.

    Sets ``n_features_in_`` and ``feature_names_in_``. Raises ValueError if there is
    only one class, or if no class has ``smallest`` members. Warns about classes with
    fewer members.
    """
    if isinstance(X, np.ndarray) and X.ndim == 3:
        pairs = ", or (N, 2, d) for pairs" if hasattr(estimator, "fit_pairs") else ""
        raise ValueError(f"X must have shape (n, d){pairs}, got {X.shape}")
    X = with_factors(estimator, _points_of(estimator, X, reset=True), reset=True)
    check_numeric(X)
    y = required(estimator, y)
    check_one_kind(y)
    rows, labels = as_sklearn(
        estimator, X, y, ensure_min_samples=2, ensure_all_finite=finite
    )
    remember_columns(estimator, X)
    classes, codes = _classes(labels, smallest)
    warn_of_unlabeled(unlabeled_of(estimator), classes, "y")
    return rows, classes, codes


def unlabeled_of(estimator: object) -> object:
    """Return the setting ``unlabeled``, or its default."""
    return getattr(estimator, "unlabeled", WARN)


def _classes(
    labels: np.ndarray, smallest: int
) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    classes, codes = label_codes(labels)
    if len(classes) < 2:
        class_codes(labels, "y")
    single = np.flatnonzero(np.bincount(codes) < smallest)
    if len(single) == len(labels):
        raise ValueError(
            "y must contain a class with at least 2 rows, got a different label in "
            f"each of {len(labels)} rows. Pass class labels, not identifiers or "
            "measurements."
        )
    warn_of_alone(classes[single], "y")
    return classes, codes


def warn_of_alone(classes: np.ndarray, name: str) -> None:
    """Warn about classes with one row, if there are any."""
    if len(classes):
        first = ", ".join(map(repr, classes[:5].tolist()))
        more = f" and {len(classes) - 5} more" if len(classes) > 5 else ""
        warnings.warn(
            f"{name}: class {first}{more} has only one row. fit cannot make a pair "
            "within a class of one row. Add rows to the class, or remove the class.",
            stacklevel=6,
        )


def _point_weights(
    w: ArrayLike | None, n: int
) -> tuple[Float[np.ndarray, "n"] | None, slice | np.ndarray]:
    """Return the positive weights of points, and a mask of their rows."""
    if w is None:
        return None, slice(None)
    weights = real(w, "sample_weight")
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}")
    positive = weights[weights != 0]
    if not len(positive):
        raise ValueError("sample_weight must contain a weight above zero, got none")
    if not np.all((positive > 1e-100) & (positive < 1e100)):
        raise ValueError(
            "sample_weight must be 0, or between 1e-100 and 1e100, got "
            f"{weights.min():.3g} to {weights.max():.3g}. Rescale the weights "
            "(products of weights must not overflow)"
        )
    return positive, weights > 0


def weighted_rows(
    X: Float[np.ndarray, "n d"],
    classes: np.ndarray,
    codes: Int[np.ndarray, "n"],
    w: ArrayLike | None,
    smallest: int = 2,
) -> tuple[
    Float[np.ndarray, "m d"],
    np.ndarray,
    Int[np.ndarray, "m"],
    Float[np.ndarray, "m"] | None,
]:
    """Leave out rows of weight 0; return rows, classes, codes and the weights."""
    weights, positive = _point_weights(w, len(X))
    if weights is not None and len(weights) < len(X):
        classes, codes = _classes(classes[codes[positive]], smallest)
    return X[positive], classes, codes, weights


def _standardizes(estimator: object) -> bool:
    return bool(getattr(estimator, "standardize", False))


def forget(estimator: object, *names: str) -> None:
    """Delete attributes of an earlier fit."""
    for name in names:
        vars(estimator).pop(name, None)


def remember_rows(estimator: object, data: Labeled | None) -> None:
    """Store the training rows in input units (not copied), or None, for P(same)."""
    forget(estimator, "_classifiers", "_new_classes")
    vars(estimator)["_training"] = data


def labeled_data(
    estimator: object,
    X: ArrayLike,
    y: ArrayLike | None,
    w: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    counts: bool = False,
) -> tuple[Labeled, np.ndarray, Scaler]:
    """Check settings, points and labels; return standardized points, classes, scaler.

    Unlabeled points and points of weight 0 are left out. If ``counts`` is True, the
    centers and scales of the features are weighted by w. The threshold of an earlier
    fit is deleted.
    """
    y, X, w, groups = leave_out(unlabeled_of(estimator), y, X, w, groups)
    rows, classes, codes = check_labeled(estimator, X, y)
    unit = None if groups is None else group_codes(groups, len(rows))[1]
    rows, classes, codes, weights = weighted_rows(rows, classes, codes, w)
    if unit is not None and len(rows) < len(unit):
        unit = np.unique(unit[np.asarray(w) > 0], return_inverse=True)[1]
    check_settings(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    Z, scaler = standardize_features(
        rows,
        names,
        standardize=_standardizes(estimator),
        times=weights if counts else None,
        blocks=blocks_of(estimator),
    )
    forget(estimator, "threshold_", "pair_classes_")
    remember_rows(estimator, Labeled(rows, codes, weights, unit))
    return Labeled(Z, codes, weights, unit), classes, scaler


def remember_preprocessor(estimator: object) -> list[list[int]]:
    """Store the factors of a preprocessor (a data frame); return columns of factors."""
    forget(estimator, "classes_", "feature_names_in_", "_columns", "factors_")
    made = with_factors(estimator, _preprocessor(estimator), reset=True)
    if vars(estimator)["factors_"]:
        vars(estimator)["feature_names_in_"] = np.array(made.columns, object)
    return blocks_of(estimator)


def pair_data(
    estimator: object,
    pairs: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None,
    trials: ArrayLike | None = None,
) -> tuple[Pairs, Scaler]:
    """Check settings and pairs; return standardized pairs and the scaler.

    In the centers and scales of the features, a point counts once for each pair that
    contains the point, times the trials of the pair. Therefore pairs of points and
    pairs of row numbers give the same fit, and so do counts and individual labels. Sets
    ``n_features_in_``, and deletes classes and names of an earlier fit.
    """
    check_settings(estimator)
    blocks = remember_preprocessor(estimator)
    stored, pairs = stood_for(estimator, pairs, "pairs", 2) or (None, pairs)
    checked = pairs_from_arrays(pairs, y, w, X=stored, trials=trials)
    X = np.asarray(checked.X)
    remember_rows(estimator, None)
    vars(estimator)["n_features_in_"] = X.shape[1]
    ends = np.concatenate([X[checked.i], X[checked.j]])
    times = None if checked.trials is None else np.tile(np.asarray(checked.trials), 2)
    Z, scaler = standardize_features(
        ends,
        standardize=_standardizes(estimator),
        times=times,
        blocks=blocks,
    )
    _, first, place = np.unique(
        np.append(checked.i, checked.j), return_index=True, return_inverse=True
    )
    i, j = np.split(place, 2)
    return checked._replace(X=Z[first], i=i, j=j), scaler


def checked_rows(
    estimator: object,
    X: ArrayLike,
    *,
    reset: bool = False,
    finite: Finite = "allow-nan",
) -> Float[np.ndarray, "n d"]:
    """Return checked points as float64; ``reset`` is True in a fit."""
    X = with_factors(estimator, _points_of(estimator, X, reset=reset), reset=reset)
    check_numeric(X)
    if not reset:
        check_fitted_columns(estimator, X)
    least = 2 if reset else 1
    rows = as_sklearn(
        estimator, X, reset=reset, ensure_min_samples=least, ensure_all_finite=finite
    )
    if reset:
        remember_columns(estimator, X)
    return rows


def pair_ends(
    estimator: object, pairs: ArrayLike, d: int
) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, "N d"]]:
    """Return the first and second points of pairs, with the d features of ``fit``."""
    stored, pairs = stood_for(estimator, pairs, "pairs", 2) or (None, pairs)
    pairs = with_factors_in_rows(estimator, pairs, "pairs")
    points, i, j = pair_points(pairs, stored)
    if points.shape[1] != d:
        raise ValueError(
            f"pairs must have {d} features, as in fit, got {points.shape[1]}"
        )
    return points[i], points[j]


def report(fit: Fit, name: str) -> None:
    """Warn if a fit reached its maximum of steps; raise RuntimeError if it failed."""
    code = Result(int(fit.result))
    message = f"{name}: {code.name} after {int(fit.n_steps)} steps; {REMEDY[code]}"
    if code in (Result.DECREASED, Result.NONFINITE):
        raise RuntimeError(message)
    if code == Result.MAX_STEPS:
        warnings.warn(
            message.replace("max_steps", "max_iter"), ConvergenceWarning, stacklevel=4
        )
