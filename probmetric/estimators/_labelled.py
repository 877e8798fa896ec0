"""Labelled points and pairs checked before a fit, and its outcome reported after it.

All of it runs on the host, once a fit. What passes is float64, finite, of known
shape; what does not is a ``ValueError`` that says what was expected and what came.
"""

import warnings
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning

from probmetric.data.containers import Labelled, Pairs
from probmetric.data.inputs import (
    as_sklearn,
    check_numeric,
    check_one_kind,
    class_codes,
    label_codes,
    pairs_from_arrays,
    points,
    real,
)
from probmetric.data.scaling import Scaler, standardise
from probmetric.data.unlabeled import WARN, leave_out, warn_of_unlabeled
from probmetric.estimators._settings import check_settings
from probmetric.inference.solvers.result import REMEDY, Fit, Result
from probmetric.metric.feature_names import check_fitted_columns, remember_columns
from probmetric.typing import ArrayLike

type Finite = bool | Literal["allow-nan"]
"""Whether NaN and infinity are refused (True), infinity alone, or neither (False)."""


def holds_pairs(estimator: Any, X: ArrayLike) -> bool:
    """Say whether X of ``fit`` is pairs: (N, 2, d), or (N, 2) for the preprocessor."""
    given = _entries(X)
    if given.ndim == 2 and estimator.preprocessor is not None:
        return given.shape[1] == 2 and given.dtype.kind in STAND_FOR
    return given.ndim == 3 and given.shape[1] == 2


STAND_FOR = "iuUSO"
"""Kinds of arrays that stand for points: whole numbers, text, objects."""


def _entries(X: ArrayLike) -> np.ndarray:
    """Return X as an array, without an axis where its rows differ in length."""
    try:
        return np.asarray(X)
    except ValueError:
        return np.asarray(None)


def stood_for(
    estimator: Any, given: ArrayLike, name: str, n_axes: int
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "..."]] | None:
    """Return points, and the row of them that each entry of ``given`` stands for.

    The preprocessor is the points themselves, whose rows are given by number; or a
    function, called once with the distinct entries, sorted, that returns a row for
    each. What it raises is raised.

    Returns
    -------
    tuple, or None
        None without a preprocessor, or where ``given`` has not ``n_axes`` axes: 1 of
        points, 2 of pairs.

    Raises
    ------
    ValueError
        For entries that stand for nothing, or another number of points than asked for.
    """
    source: Any = getattr(estimator, "preprocessor", None)
    entries = _entries(given)
    if source is None or entries.ndim != n_axes:
        return None
    if name == "pairs" and (entries.shape[1] != 2 or not len(entries)):
        raise ValueError(
            f"pairs: expected shape (N, 2) for the preprocessor, or (N, 2, d), got "
            f"{entries.shape}"
        )
    if not entries.size:
        return None
    if not callable(source):
        rows = points(source, "preprocessor")
        whole = entries.dtype.kind in "iu"
        if not whole or entries.min() < 0 or entries.max() >= len(rows):
            got = f"{entries.min()}..{entries.max()}" if whole else entries.dtype
            raise ValueError(
                f"{name}: expected integers, rows 0..{len(rows) - 1} of the "
                f"preprocessor, got {got}"
            )
        return rows, entries.astype(int)
    if entries.dtype.kind not in STAND_FOR:
        raise ValueError(
            f"{name}: expected integers or text for the preprocessor, got "
            f"{entries.dtype}"
        )
    try:
        keys, at = np.unique(entries, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"{name}: expected entries of one kind for the preprocessor, got {error}"
        ) from error
    made: Any = source(keys)
    rows = points(made, "preprocessor")
    if len(rows) != len(keys):
        raise ValueError(
            f"preprocessor: expected a row for each of {len(keys)} entries, got shape "
            f"{rows.shape}"
        )
    return rows, at.reshape(entries.shape)


def required(estimator: Any, y: ArrayLike | None) -> ArrayLike:
    """Return the labels beside arrays, or say that there are none."""
    if y is None:
        raise ValueError(
            f"y: {type(estimator).__name__} requires y to be passed, but the target y "
            "is None"
        )
    return y


def _points_of(estimator: Any, X: ArrayLike) -> ArrayLike:
    """Return X, or the points that its entries stand for."""
    found = stood_for(estimator, X, "X", 1)
    return X if found is None else found[0][found[1]]


def check_labelled(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike | None,
    *,
    finite: Finite = True,
    smallest: int = 2,
) -> tuple[Float[np.ndarray, "n d"], np.ndarray, Int[np.ndarray, "n"]]:
    """Return X as float64, the sorted classes and the class codes of y.

    Sets ``n_features_in_`` and ``feature_names_in_`` on the estimator.

    Raises
    ------
    ValueError
        On bad input, no labels, one class, or no class of ``smallest`` = 2 members. A
        smaller class is a warning.
    """
    if isinstance(X, np.ndarray) and X.ndim == 3:
        pairs = ", or (N, 2, d) of pairs" if hasattr(estimator, "fit_pairs") else ""
        raise ValueError(f"X: expected shape (n, d){pairs}, got {X.shape}")
    X = _points_of(estimator, X)
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


def unlabeled_of(estimator: Any) -> Any:
    """Return the setting ``unlabeled``, the default for a learner without it."""
    return getattr(estimator, "unlabeled", WARN)


def _classes(
    labels: np.ndarray, smallest: int
) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Return the sorted classes and the codes of labels; warn of classes of one row."""
    classes, codes = label_codes(labels)
    if len(classes) < 2:
        class_codes(labels, "y")
    alone = np.flatnonzero(np.bincount(codes) < smallest)
    if len(alone) == len(labels):
        raise ValueError(
            "y must have a class of at least 2 members, got a different label in each "
            f"of {len(labels)} rows. Give class labels, not identifiers or measurements"
        )
    warn_of_alone(classes[alone], "y")
    return classes, codes


def warn_of_alone(classes: np.ndarray, name: str) -> None:
    """Warn of classes of one row, if there are any."""
    if len(classes):
        first = ", ".join(map(repr, classes[:5].tolist()))
        more = f" and {len(classes) - 5} more" if len(classes) > 5 else ""
        warnings.warn(
            f"{name}: only one row of class {first}{more}. It is a non-match of all "
            "other rows and never a match. Add rows of the class, or leave it out",
            stacklevel=6,
        )


def _point_weights(
    w: ArrayLike | None, n: int
) -> tuple[Float[np.ndarray, "n"] | None, Any]:
    """Return positive weights of points, and which points have one."""
    if w is None:
        return None, slice(None)
    given = real(w, "sample_weight")
    if given.shape != (n,):
        raise ValueError(f"sample_weight: expected shape ({n},), got {given.shape}")
    found = given[given != 0]
    if not len(found):
        raise ValueError("sample_weight: expected a weight above zero, got none")
    if not np.all((found > 1e-100) & (found < 1e100)):
        raise ValueError(
            "sample_weight: expected weights of 0, or between 1e-100 and 1e100 so that "
            f"float64 holds their products, got {given.min():.3g}..{given.max():.3g}"
        )
    return found, given > 0


def _standardizes(estimator: Any) -> bool:
    """Say whether features are standardised: not by a learner without the setting."""
    return bool(getattr(estimator, "standardize", False))


def labelled_data(
    estimator: Any, X: ArrayLike, y: ArrayLike | None, w: ArrayLike | None = None
) -> tuple[Labelled, np.ndarray, Scaler]:
    """Check settings, points and labels; return points standardised, and the classes.

    Unlabeled points, and those of weight 0, are left out; centre and scale are those of
    the others, each counted once. Sets what ``check_labelled`` sets, and forgets the
    threshold of an earlier fit.
    """
    y, X, w = leave_out(unlabeled_of(estimator), y, X, w)
    rows, classes, codes = check_labelled(estimator, X, y)
    weight, kept = _point_weights(w, len(rows))
    rows = rows[kept]
    if len(rows) < len(codes):
        classes, codes = _classes(classes[codes[kept]], 2)
    check_settings(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    Z, scaler = standardise(rows, names, standardize=_standardizes(estimator))
    for name in ("threshold_", "pair_classes_"):
        vars(estimator).pop(name, None)
    return Labelled(Z, codes, weight), classes, scaler


def pair_data(
    estimator: Any,
    pairs: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None,
    anchor: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> tuple[Pairs, Scaler]:
    """Check settings and users' pairs; return them standardised.

    Points that no pair refers to are left out, and the others count as often as pairs
    use them, of counts as often as pairs are judged: both forms of pairs give the same
    fit, and so do counts and the labels that they count. Sets ``n_features_in_``, and
    forgets the classes and names that an earlier fit was given.
    """
    check_settings(estimator)
    source, pairs = stood_for(estimator, pairs, "pairs", 2) or (None, pairs)
    given = pairs_from_arrays(pairs, y, w, X=source, anchor=anchor, trials=trials)
    X = np.asarray(given.X)
    estimator.n_features_in_ = X.shape[1]
    for name in ("classes_", "feature_names_in_", "_columns"):
        vars(estimator).pop(name, None)
    ends = np.concatenate([X[given.i], X[given.j]])
    times = None if given.trials is None else np.tile(np.asarray(given.trials), 2)
    Z, scaler = standardise(ends, standardize=_standardizes(estimator), times=times)
    _, first, place = np.unique(
        np.append(given.i, given.j), return_index=True, return_inverse=True
    )
    i, j = np.split(place, 2)
    return given._replace(X=Z[first], i=i, j=j), scaler


def checked_rows(
    estimator: Any, X: ArrayLike, *, reset: bool = False, finite: Finite = "allow-nan"
) -> Float[np.ndarray, "n d"]:
    """Return points as float64, with as many features as in ``fit``, or to fit."""
    X = _points_of(estimator, X)
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
