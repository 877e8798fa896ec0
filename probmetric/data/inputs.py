"""Check points, class labels and pairs from users, once and on the host.

Every error is a ``ValueError`` with the name of the argument and its value. No row is
dropped and no value is imputed.
"""

import datetime
import warnings
from numbers import Number
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import WrongType
from probmetric.data.chunked import Chunked
from probmetric.data.containers import Pairs
from probmetric.names import UNNAMED
from probmetric.typing import ArrayLike


def class_codes(
    labels: ArrayLike, name: str = "labels"
) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Return ``codes_of`` labels; raise for a single class."""
    classes, codes = codes_of(labels, name)
    if len(classes) < 2:
        (label,) = classes.tolist()
        raise ValueError(
            f"{name} must have at least 2 classes, got one class ({label!r}). Add rows "
            "of another class."
        )
    return classes, codes


def codes_of(labels: ArrayLike, name: str) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Return the sorted distinct labels and the code 0..C-1 of each label.

    Raises for missing labels (None, NaN, NA or masked), mixed numbers and strings, and
    different labels that become equal in a NumPy array.
    """
    refuse_masked(labels, name)
    values = labels if isinstance(labels, np.ndarray) else np.asarray(labels, object)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"{name} must have shape (n,) with n ≥ 2, got {values.shape}")
    if values.dtype == object:
        lacking = [row for row, v in enumerate(values) if is_missing(v)]
        if lacking:
            learned = name in ("y", "groups")
            todo = ". To ignore these rows, use unlabeled=numpy.nan" * learned
            raise ValueError(
                f"{name} must have a label in every row, got a missing label (None, "
                f"NaN or NA) in row {lacking[0]} (the first row is 0){todo}"
            )
        values = _in_one_type(values, name)
    if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
        raise ValueError(
            f"{name} must be finite, got NaN or infinity. Correct these entries."
        )
    if values.dtype.kind not in "biufUS":
        raise ValueError(f"{name} must be numbers or strings, got {values.dtype}")
    return np.unique(values, return_inverse=True)


def group_codes(groups: ArrayLike, n: int) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Return the sorted groups, and the code 0..G-1 of the group of each of n rows."""
    labels, codes = codes_of(groups, "groups")
    if codes.shape != (n,):
        raise ValueError(f"groups must have shape ({n},), got {codes.shape}")
    return labels, codes


def _in_one_type(labels: np.ndarray, name: str) -> np.ndarray:
    types = {str: "str", bytes: "bytes", Number: "number", np.bool_: "number"}
    kinds = {
        next((kind for t, kind in types.items() if isinstance(v, t)), type(v).__name__)
        for v in labels
    }
    if len(kinds) > 1:
        raise ValueError(
            f"{name} must be all numbers or all text, got a mixture: "
            f"{', '.join(sorted(kinds))}. Convert all labels to text."
        )
    if not kinds <= {*types.values()}:
        raise ValueError(f"{name} must be numbers or strings, got {kinds.pop()}")
    values = np.asarray(labels.tolist())
    n_classes = len(set(labels.tolist()))
    if values.dtype != object and len(np.unique(values)) < n_classes:
        raise ValueError(
            f"{name}: different labels become equal in a NumPy array ({n_classes} "
            f"labels, but {len(np.unique(values))} as {values.dtype}). Do not mix "
            "integers above 2^53 with floats, and do not use text that ends with NUL."
        )
    return values


def refuse_masked(values: object, name: str) -> None:
    """Raise if entries are masked, because NumPy would use the masked values."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} must be an array without a mask, got {np.sum(values.mask)} masked "
            f"entries. Replace them, for example by {name}.filled(np.nan)."
        )


def is_missing(value: object) -> bool:
    """Return whether a label is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither true nor false.
        return True


def label_codes(y: ArrayLike) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Return ``codes_of`` labels; raise for numbers that are not whole."""
    classes, codes = codes_of(y, "y")
    if classes.dtype.kind == "f" and np.any(classes != np.round(classes)):
        raise ValueError(
            "y must be class labels, got continuous values "
            f"({classes[classes != np.round(classes)][0]:g}). Unknown label type: "
            "continuous. For a numeric target use KNeighborsRegressor."
        )
    return classes, codes


def check_one_kind(y: ArrayLike) -> None:
    """Raise for missing labels or mixed kinds, which NumPy converts to strings."""
    refuse_masked(y, "y")
    dtype = getattr(y, "dtype", np.dtype(float))
    if isinstance(y, list | tuple) or not isinstance(dtype, np.dtype) or dtype == "O":
        values = np.asarray(y, object)
        column = values.shape[1:] == (1,)  # scikit-learn accepts it, with a warning.
        codes_of(values.ravel() if column else values, "y")


def check_numeric(X: ArrayLike, name: str = "X") -> None:
    """Raise for columns of text, dates or categories, with their names."""
    refuse_chunked(X, name)
    refuse_masked(X, name)
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        frame: Any = X
        columns = list(zip(frame.columns, frame.dtypes, strict=True))
        for column, dtype in columns:
            if str(dtype) == "category":  # NumPy would convert categories to numbers.
                raise ValueError(
                    f"{name} must have numeric columns, got {column!r}, which is "
                    "categorical. Convert it with pandas.get_dummies, or with "
                    "astype(float) if it is a number."
                )
        bad = [f"{c!r} ({dtype})" for c, dtype in columns if _is_text(frame[c], dtype)]
    else:
        values = _regular(X, name) if isinstance(X, list | tuple) else X
        dtype = getattr(values, "dtype", np.dtype(float))
        kind = "text or dates (object)" if dtype == "O" else dtype
        bad = [f"an array of {kind}"] if _is_text(values, dtype) else []
    if bad:
        raise ValueError(f"{name} must have numeric columns, got {', '.join(bad)}")


def refuse_chunked(X: object, name: str) -> None:
    """Raise for data that are read in chunks, if all rows are needed at once."""
    if isinstance(X, Chunked):
        raise ValueError(
            f"{name} must be an array, got data on disk ({X.name}). Load the rows into "
            "memory, or use a class or function that reads them in chunks: "
            "GaussianClasses, GLML, LCA, LDA, PairLDA, RCA, TwoStageMixture, nearest, "
            "neighbor_table or KNeighborsClassifier(votes='count')."
        )


def _regular(X: ArrayLike, name: str) -> np.ndarray:
    refuse_masked(X, name)
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"{name} must have rows of equal length, got an error from NumPy: {error}"
        ) from error


def _is_text(values: ArrayLike, dtype: object) -> bool:
    """Return whether values (or any entry of objects) are text, dates or records."""
    kind = getattr(dtype, "kind", "O")
    if kind != "O":
        return kind in "USmMV"
    return any(isinstance(v, _TEXT) for v in np.ravel(np.asarray(values, object)))


_TEXT = (str, bytes, datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)
"""Objects that are no numbers, or that NumPy would convert to numbers."""


def as_sklearn(
    estimator: object, X: ArrayLike, *y: ArrayLike, **options: object
) -> Any:
    """Return X, or X and y, in float64 and checked by scikit-learn's ``validate_data``.

    X is stored by rows, so the order of sums does not depend on its memory layout.
    If an error of scikit-learn does not name the argument, the name is added. If
    scikit-learn raises a TypeError, the new error is also a TypeError.
    """
    from sklearn.utils.validation import validate_data

    validate: Any = validate_data
    if options.get("reset", True):
        _warn_of_index(X)
    try:
        labels = map(_exact, y)
        return validate(estimator, X, *labels, dtype=np.float64, order="C", **options)
    except (TypeError, ValueError, OverflowError) as error:
        message = str(error)
        if message.startswith("Input X contains"):
            raise ValueError(not_finite(X, "NaN" in message)) from error
        named = _with_name(message, X, *y)
        if named is None:
            raise
        kind = ValueError if isinstance(error, ValueError) else WrongType
        raise kind(named) from error


def _exact(y: ArrayLike) -> ArrayLike:
    """Convert integer labels of pandas' dtypes exactly (not by way of floats)."""
    dtype = getattr(y, "dtype", None)
    if getattr(dtype, "kind", "") in [*"iub"] and not isinstance(dtype, np.dtype):
        return np.asarray(list(y))  # type: ignore[call-overload]
    return y


def _with_name(message: str, X: ArrayLike, y: ArrayLike | None = None) -> str | None:
    """Prefix an error with the name of its argument; None if it has the name."""
    if message.startswith("Found input variables with inconsistent"):
        return f"y must have one label for each row of X: {message}"
    matrix = message.startswith("np.matrix") and not isinstance(X, np.matrix)
    complexes = message.startswith("Complex") and np.asarray(X).dtype.kind != "c"
    of_labels = message.startswith(("y ", "Input y", "Unknown label"))
    if of_labels or "passed for y" in message or matrix or complexes:
        return f"y must have a label for each row, got {_shape_of(y)}: {message}"
    if message.startswith(("X ", "The feature names")):
        return None
    lines = message.splitlines() or [""]
    line = lines[-1 if "Reshape" in message else 0]
    return f"X must be real numbers of shape (n, d), got {_shape_of(X)}: {line}"


def _shape_of(values: object) -> str:
    shape = getattr(values, "shape", None)
    return type(values).__name__ if shape is None else f"shape {shape}"


def _warn_of_index(X: ArrayLike) -> None:
    columns = getattr(X, "columns", ())
    unnamed = [c for c in columns if isinstance(c, str) and UNNAMED.fullmatch(c)]
    if unnamed:
        warnings.warn(
            f"X has unnamed columns {unnamed}, which are used as features. They may "
            "be pandas' index that was written to a file. To omit them, pass "
            f"X.drop(columns={unnamed}).",
            UserWarning,
            stacklevel=1,  # One line: Python's filters show the warning once.
        )


def not_finite(
    X: ArrayLike, missing: bool, name: str = "X", todo: str | None = None
) -> str:
    """Return the error for X with NaN (``missing``) or infinity, and the remedy."""
    from sklearn.utils import check_array

    values = check_array(X, dtype="float64", ensure_all_finite=False)
    bad = np.isnan(values) if missing else np.isinf(values)
    columns, rows = np.flatnonzero(bad.any(0)), np.flatnonzero(bad.any(1))
    names = list(getattr(X, "columns", range(values.shape[1])))
    first = ", ".join(repr(names[k]) for k in columns[:3])
    more = ", ..." if len(columns) > 3 else ""
    todo = todo or (
        "Drop these rows or columns, or impute them (sklearn.impute.SimpleImputer). "
        "Three learners accept NaN: TwoStageMixture (except with prior='cv'), and "
        "GaussianClasses and GLML with missing='integrate'"
        if missing
        else "Drop these rows, or correct their values"
    )
    return (
        f"{name} must be finite numbers, got {'NaN' if missing else 'infinity'} in "
        f"{len(rows)} of {len(values)} rows, columns [{first}{more}]. {todo}"
    )


COMPLEX = "Complex data not supported, as the imaginary part would be lost"
"""Begins as scikit-learn's ``check_estimator`` requires."""


def real(X: ArrayLike, name: str, what: str = "numbers") -> Float[np.ndarray, "..."]:
    """Convert X to float64, or raise if it is no array of real numbers."""
    refuse_chunked(X, name)
    refuse_masked(X, name)
    if hasattr(X, "columns"):  # Data frames may convert dates to numbers.
        check_numeric(X, name)
    try:
        if hasattr(X, "toarray"):
            raise ValueError(f"a sparse matrix. Use {name}.toarray()")
        values = np.asarray(X)
        if values.dtype.kind == "c":
            raise ValueError(f"{values.dtype}: {COMPLEX}")
        if _is_text(values, values.dtype):
            raise ValueError(f"text or dates ({values.dtype})")
        return np.asarray(values, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be {what}, got {error}") from error


def column(
    values: ArrayLike, n: int, name: str, what: str = "numbers"
) -> Float[np.ndarray, "n"]:
    """Convert n values to float64 as ``real``, or raise if the shape is not (n,)."""
    result = real(values, name, what)
    if result.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {result.shape}")
    return result


def points(X: ArrayLike, name: str = "X") -> Float[np.ndarray, "n d"]:
    """Convert X to float64 (n, d), or raise if it is not finite."""
    values = real(X, name)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"{name} must have shape (n, d) with n, d ≥ 1, got {values.shape}"
        )
    if not np.all(np.isfinite(values)):
        todo = "Correct these values"
        raise ValueError(not_finite(X, bool(np.isnan(values).any()), name, todo))
    return values


def check_weights(
    w: ArrayLike | None, n: int, name: str = "sample_weight"
) -> Float[np.ndarray, "n"] | None:
    """Return data weights (n,) as float64; raise if one is negative or all are zero."""
    if w is None:
        return None
    weights = column(w, n, name)
    (wrong,) = np.nonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise ValueError(
            f"{name} must be finite weights ≥ 0, got {weights[wrong[0]]:g} in row "
            f"{wrong[0]}. Correct this weight."
        )
    if not np.any(weights > 0):
        raise ValueError(f"{name} must contain a weight above zero, got none")
    return weights


def pair_labels(
    y: ArrayLike, n_pairs: int, *, both: bool = True
) -> Int[np.ndarray, "N"]:
    """Return pair labels as 0 (different) and 1 (same) from {0, 1} or {-1, +1}.

    If ``both`` is True, raise if all labels are equal, because their likelihood then
    has no maximum (W → 0 or ‖W‖ → ∞).
    """
    labels = column(y, n_pairs, "y", "labels 0/1 or -1/+1")
    values = sorted({float(v) for v in np.unique(labels)})
    if not (set(values) <= {0.0, 1.0} or set(values) <= {-1.0, 1.0}):
        raise ValueError(
            f"y must be pair labels all in {{0, 1}} or all in {{-1, +1}}, got "
            f"{values[:5]}"
        )
    if both and len(values) < 2:
        raise ValueError(
            f"y must contain both labels (same and different), got only {values}. Add "
            "pairs with the other label."
        )
    return (labels == 1).astype(int)


def pair_weights(
    w: ArrayLike | None, same: Int[np.ndarray, "N"]
) -> Float[np.ndarray, "N"] | None:
    """Return checked weights, or raise if all weights of one label are zero."""
    weights = check_weights(w, len(same))
    for label in (0, 1):
        if weights is not None and not np.any(weights[same == label] > 0):
            raise ValueError(
                f"sample_weight: at least one pair with y={label} must have a weight "
                "above 0, got none"
            )
    return weights


def pair_counts(
    y: ArrayLike, trials: ArrayLike, w: ArrayLike | None, n_pairs: int
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"], Float[np.ndarray, "N"] | None]:
    """Return checked counts, trials and weights; raise if all judgments are equal."""
    m, same = _whole(trials, "trials", n_pairs), _whole(y, "y", n_pairs)
    for name, wrong, what in (
        ("trials", (m < 1) | (m >= 2**31), "whole numbers in [1, 2³¹)"),
        ("y", (same < 0) | (same > m), "counts in 0..trials"),
    ):
        (rows,) = np.nonzero(wrong)
        if len(rows):
            got = f"{same[rows[0]]} of {m[rows[0]]}" if name == "y" else m[rows[0]]
            raise ValueError(f"{name} must be {what}, got {got} in row {rows[0]}")
    judged = np.flatnonzero(same > 0), np.flatnonzero(same < m)
    if not all(map(len, judged)):
        raise ValueError(
            "y must contain 'same' and 'different' judgments, got only "
            f"{'same' if len(judged[0]) else 'different'}"
        )
    weights = check_weights(w, n_pairs)
    if weights is not None:
        labels = np.repeat([1, 0], [len(rows) for rows in judged])
        pair_weights(weights[np.concatenate(judged)], labels)
    return same, m, weights


def _whole(values: ArrayLike, name: str, n: int) -> Int[np.ndarray, "N"]:
    numbers = column(values, n, name, "whole numbers")
    (wrong,) = np.nonzero(~((numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)))
    if len(wrong):
        raise ValueError(
            f"{name} must be whole numbers, got {numbers[wrong[0]]:g} in row {wrong[0]}"
        )
    return numbers.astype(int)


def pair_points(
    pairs: ArrayLike, X: ArrayLike | None = None, name: str = "pairs"
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Return points and row numbers i, j of pairs of points or of row numbers."""
    ends = _regular(pairs, name)
    if ends.ndim == 2 and ends.shape[1] == 2 and len(ends) and X is not None:
        rows = points(X)
        if ends.dtype.kind not in "iu":
            raise ValueError(
                f"{name} must be integer row numbers of X, got {ends.dtype}"
            )
        if ends.min() < 0 or ends.max() >= len(rows):
            raise ValueError(
                f"{name} must be row numbers of X (0 to {len(rows) - 1}), got "
                f"{ends.min()} to {ends.max()}. The first row is 0."
            )
        return rows, ends[:, 0].astype(int), ends[:, 1].astype(int)
    if ends.ndim != 3 or ends.shape[1] != 2 or 0 in ends.shape or X is not None:
        if X is None:
            form, remedy = (
                "(N, 2, d)",
                f". If {name} are row numbers of X, pass X[{name}].",
            )
        else:
            form, remedy = "(N, 2), two row numbers of X per pair", ""
        raise ValueError(f"{name} must have shape {form}, got {ends.shape}{remedy}")
    n_pairs, _, d = ends.shape
    rows = points(ends.reshape(2 * n_pairs, d), name)
    first = np.arange(0, 2 * n_pairs, 2)
    return rows, first, first + 1


def pairs_from_arrays(
    pairs: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    X: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Pairs:
    """Convert arrays of pairs to ``Pairs``.

    Pairs are points (N, 2, d), or row numbers (N, 2) of ``X``. Labels y are 1 for same
    and 0 or -1 for different. With ``trials``, y has the number of *same* judgments.
    ``w`` are data weights ≥ 0.
    """
    rows, i, j = pair_points(pairs, X)
    if trials is None:
        same, m = pair_labels(y, len(i)), None
        w = pair_weights(w, same)
    else:
        same, m, w = pair_counts(y, trials, w, len(i))
    return Pairs(rows, i, j, same, w, trials=m)
