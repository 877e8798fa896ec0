"""Points, class labels and pairs from users, checked once on the host.

Every error is a ``ValueError`` that names the argument, what was expected and what was
got.
Nothing is repaired here: no row is dropped, no value is imputed.
"""

import datetime
import warnings
from numbers import Number
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import WrongType
from probmetric.data.containers import Pairs
from probmetric.data.source import Source
from probmetric.names import UNNAMED
from probmetric.typing import ArrayLike


def class_codes(
    labels: ArrayLike, name: str = "labels"
) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Return the sorted classes and each label's code in 0..C-1.

    Raises
    ------
    ValueError
        As ``codes_of``, and for one class only.
    """
    classes, codes = codes_of(labels, name)
    if len(classes) < 2:
        (one,) = classes.tolist()
        raise ValueError(
            f"{name}: expected at least 2 classes, got one class ({one!r})"
        )
    return classes, codes


def codes_of(labels: ArrayLike, name: str) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Return the sorted distinct labels and each label's code in 0..C-1.

    Raises
    ------
    ValueError
        When labels are not one column, of mixed kinds (numbers and strings), missing
        (None, NaN or masked), or so that arrays of NumPy would make one of two.
    """
    refuse_masked(labels, name)
    given = labels if isinstance(labels, np.ndarray) else np.asarray(labels, object)
    if given.ndim != 1 or len(given) == 0:
        raise ValueError(f"{name}: expected shape (n,) with n ≥ 2, got {given.shape}")
    if given.dtype == object:
        lacking = [row for row, v in enumerate(given) if is_missing(v)]
        if lacking:
            learned = name in ("y", "groups")
            todo = ". A learner leaves such rows out with unlabeled=numpy.nan" * learned
            raise ValueError(
                f"{name}: expected a label of every row, got none (None, NaN or NA) in "
                f"row {lacking[0]} (rows are counted from 0){todo}"
            )
        given = _in_one_type(given, name)
    if given.dtype.kind == "f" and not np.all(np.isfinite(given)):
        raise ValueError(f"{name}: expected finite values, got NaN or infinity")
    if given.dtype.kind not in "biufUS":
        raise ValueError(f"{name}: expected numbers or strings, got {given.dtype}")
    return np.unique(given, return_inverse=True)


def _in_one_type(labels: np.ndarray, name: str) -> np.ndarray:
    """Return labels that are Python objects as an array of numbers or of text."""
    kinds = {
        "str"
        if isinstance(v, str)
        else "bytes"
        if isinstance(v, bytes)
        else "number"
        if isinstance(v, (Number, np.bool_))
        else type(v).__name__
        for v in labels
    }
    if len(kinds) > 1:
        raise ValueError(f"{name}: expected one kind, got {sorted(kinds)} mixed")
    if not kinds <= {"str", "number", "bytes"}:
        raise ValueError(f"{name}: expected numbers or strings, got {kinds.pop()}")
    given = np.asarray(labels.tolist())
    n_classes = len(set(labels.tolist()))
    if given.dtype != object and len(np.unique(given)) < n_classes:
        raise ValueError(
            f"{name}: expected labels that stay apart in an array, got {n_classes} of "
            f"which {given.dtype} makes {len(np.unique(given))}: whole numbers beyond "
            "2^53 beside others, or text that ends with NUL"
        )
    return given


def refuse_masked(values: Any, name: str) -> None:
    """Raise for an array with masked entries: NumPy would take what is behind them."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name}: expected an array without a mask, got {values.mask.sum()} masked "
            f"entries; {name}.filled(np.nan), or another number, says what they are"
        )


def is_missing(value: Any) -> bool:
    """Say whether a label is None, NaN, NaT or pandas' NA, which has no truth."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def label_codes(y: Any) -> tuple[np.ndarray, Int[np.ndarray, "n"]]:
    """Return the classes of labels, in order, and codes of them.

    Raises
    ------
    ValueError
        As ``codes_of``, and for fractions: they are no classes.
    """
    classes, codes = codes_of(y, "y")
    if classes.dtype.kind == "f" and np.any(classes != np.round(classes)):
        raise ValueError(
            "y: expected classes, got numbers that are not whole, as of a regression "
            f"({classes[classes != np.round(classes)][0]:g}): Unknown label type: "
            "continuous"
        )
    return classes, codes


def check_one_kind(y: Any) -> None:
    """Raise for labels missing or of mixed kinds, before NumPy makes strings of them.

    Types of pandas and others, which may hold their own NA, are looked at one by one.
    """
    refuse_masked(y, "y")
    dtype = getattr(y, "dtype", np.dtype(float))
    if isinstance(y, list | tuple) or not isinstance(dtype, np.dtype) or dtype == "O":
        given = np.asarray(y, object)
        column = given.shape[1:] == (1,)  # scikit-learn takes it, with a warning
        codes_of(given.ravel() if column else given, "y")


def check_numeric(X: Any, name: str = "X") -> None:
    """Raise for columns of text, dates or categories, and name those with names."""
    refuse_source(X, name)
    refuse_masked(X, name)
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        columns = list(zip(X.columns, X.dtypes, strict=True))
        for column, dtype in columns:
            if str(dtype) == "category":  # NumPy would take categories for numbers.
                raise ValueError(
                    f"{name}: expected numeric columns, got {column!r}, which is "
                    "categorical. Convert it with pandas.get_dummies, or with "
                    "astype(float) if it is a number."
                )
        bad = [f"{c!r} ({dtype})" for c, dtype in columns if _is_text(X[c], dtype)]
    else:
        given = _regular(X, name) if isinstance(X, list | tuple) else X
        dtype = getattr(given, "dtype", np.dtype(float))
        what = "text or dates (object)" if dtype == "O" else dtype
        bad = [f"an array of {what}"] if _is_text(given, dtype) else []
    if bad:
        raise ValueError(f"{name}: expected numeric columns, got {', '.join(bad)}")


def refuse_source(X: Any, name: str) -> None:
    """Raise where rows in parts are given to what wants them all."""
    if isinstance(X, Source):
        raise ValueError(
            f"{name}: expected an array, got a source ({X.name}): GaussianClasses, "
            "GLML, LCA, LDA, PairLDA, RCA, TwoStageMixture, nearest, neighbor_table "
            "and KNeighborsClassifier(votes='count') read its parts, this takes all "
            "rows at once"
        )


def _regular(X: Any, name: str) -> np.ndarray:
    """Return a list as an array, or refuse one whose rows differ in length."""
    refuse_masked(X, name)
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(f"{name}: expected a regular array, got {error}") from error


def _is_text(values: Any, dtype: Any) -> bool:
    """Say whether values are text, dates or records; objects, whether one is."""
    kind = getattr(dtype, "kind", "O")
    if kind != "O":
        return kind in "USmMV"
    return any(isinstance(v, _TEXT) for v in np.ravel(np.asarray(values, object)))


_TEXT = (str, bytes, datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)
"""Objects that NumPy would make numbers of, or that are none."""


def as_sklearn(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return X, or X and y, in float64 and checked by scikit-learn's ``validate_data``.

    X is row by row, so that sums have one order however X lay in memory; one that lies
    by columns, as a data frame's may, is copied. Where its words name no argument they
    follow ours, which do; where X holds NaN or infinity, ours say in which columns, and
    what to do.

    Raises
    ------
    ValueError
        Of bad input; where scikit-learn has a TypeError, it is one too.
    """
    from sklearn.utils.validation import validate_data

    own: Any = validate_data
    if options.get("reset", True):
        _warn_of_index(X)
    try:
        labels = map(_exact, y)
        return own(estimator, X, *labels, dtype=np.float64, order="C", **options)
    except (TypeError, ValueError, OverflowError) as error:
        words = str(error)
        if words.startswith("Input X contains"):
            raise ValueError(not_finite(X, "NaN" in words)) from error
        said = _with_name(words, X, *y)
        if said is None:
            raise
        raise (ValueError if isinstance(error, ValueError) else WrongType)(
            said
        ) from error


def _exact(y: Any) -> Any:
    """Return whole labels of pandas' own types as NumPy's; of Int64 it makes floats."""
    kind = getattr(dtype := getattr(y, "dtype", None), "kind", None)
    if kind in ("i", "u", "b") and not isinstance(dtype, np.dtype):
        return np.asarray(y.tolist())
    return y


def _with_name(words: str, X: Any, y: Any = None) -> str | None:
    """Return words of scikit-learn or NumPy after the argument that they are about."""
    if words.startswith("Found input variables with inconsistent"):
        return f"y: expected a label of each row of X: {words}"
    matrix = words.startswith("np.matrix") and not isinstance(X, np.matrix)
    complexes = words.startswith("Complex") and not _is_complex(X)
    if words.startswith(_OF_LABELS) or "passed for y" in words or matrix or complexes:
        return f"y: expected a label of each row, got {_shape_of(y)}: {words}"
    if words.startswith(("X ", "The feature names")):
        return None  # These say what they are about.
    said = words.splitlines()[-1 if "Reshape" in words else 0] if words else ""
    return f"X: expected real numbers of shape (n, d), got {_shape_of(X)}: {said}"


def _is_complex(values: Any) -> bool:
    """Say whether values are complex numbers."""
    return np.asarray(values).dtype.kind == "c"


_OF_LABELS = ("y ", "Input y", "Unknown label")
"""What scikit-learn says of y without its name."""


def _shape_of(given: Any) -> str:
    """Return the shape of an array, or the type of what is none."""
    shape = getattr(given, "shape", None)
    return type(given).__name__ if shape is None else f"shape {shape}"


def _warn_of_index(X: Any) -> None:
    """Warn of columns without a name that are learned from, as pandas' index in a file.

    From one line, so that Python's filters show it once.
    """
    columns = getattr(X, "columns", ())
    found = [c for c in columns if isinstance(c, str) and UNNAMED.fullmatch(c)]
    if found:
        warnings.warn(
            f"X: expected features with names, got {found}: columns without one, as "
            "pandas' index that was written to a file; they are learned from as they "
            f"are. X.drop(columns={found}) leaves them out",
            UserWarning,
            stacklevel=1,
        )


def not_finite(X: Any, missing: bool, name: str = "X", todo: str | None = None) -> str:
    """Return what is said of X with NaN (``missing``) or infinity, and what to do.

    Its first three columns are named as X names them, or counted from 0.
    """
    from sklearn.utils import check_array

    values = check_array(X, dtype="float64", ensure_all_finite=False)
    bad = np.isnan(values) if missing else np.isinf(values)
    columns, rows = np.flatnonzero(bad.any(0)), np.flatnonzero(bad.any(1))
    names = list(getattr(X, "columns", range(values.shape[1])))
    first = ", ".join(repr(names[k]) for k in columns[:3])
    more = ", ..." if len(columns) > 3 else ""
    todo = todo or (
        "drop the rows or columns, or impute, as with sklearn.impute.SimpleImputer in "
        "a pipeline; TwoStageMixture (but not with prior='cv'), and GaussianClasses "
        "and GLML with missing='integrate', take NaN as it is"
        if missing
        else "drop the rows, or mend their values"
    )
    return (
        f"{name}: expected finite numbers, got {'NaN' if missing else 'infinity'} in "
        f"{len(rows)} of {len(values)} rows, columns [{first}{more}]: {todo}"
    )


COMPLEX = "Complex data not supported, as the imaginary part would be lost"
"""Begins as scikit-learn's checks ask."""


def real(X: ArrayLike, name: str, what: str = "numbers") -> Float[np.ndarray, "..."]:
    """Return X as float64, or refuse what is no array of real numbers.

    Complex numbers are refused also where the imaginary parts are zero.
    """
    refuse_source(X, name)
    refuse_masked(X, name)
    if hasattr(X, "columns"):  # A frame may make numbers of its dates.
        check_numeric(X, name)
    try:
        if hasattr(X, "toarray"):
            raise ValueError(f"a sparse matrix; {name}.toarray() makes it dense")
        given = np.asarray(X)
        if given.dtype.kind == "c":
            raise ValueError(f"{given.dtype}: {COMPLEX}")
        if _is_text(given, given.dtype):
            raise ValueError(f"text or dates ({given.dtype})")
        return np.asarray(given, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: expected {what}, got {error}") from error


def points(X: ArrayLike, name: str = "X") -> Float[np.ndarray, "n d"]:
    """Return X as float64 (n, d), or say what is wrong with it."""
    values = real(X, name)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(
            f"{name}: expected shape (n, d) with n, d ≥ 1, got {values.shape}"
        )
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
    return values


def pair_labels(
    y: ArrayLike, n_pairs: int, *, both: bool = True
) -> Int[np.ndarray, "N"]:
    """Return pair labels as 0 (different) and 1 (same) from {0, 1} or {-1, +1}.

    Raises
    ------
    ValueError
        When the labels are not one per pair, of another or of mixed conventions, or
        all alike where ``both`` are needed (the likelihood then has no maximum: W → 0
        or ‖W‖ → ∞, maths A6).
    """
    labels = real(y, "y", "labels 0/1 or -1/+1")
    if labels.shape != (n_pairs,):
        raise ValueError(f"y: expected shape ({n_pairs},), got {labels.shape}")
    values = sorted({float(v) for v in np.unique(labels)})
    if not (set(values) <= {0.0, 1.0} or set(values) <= {-1.0, 1.0}):
        raise ValueError(
            f"y: expected pair labels all in {{0, 1}} or all in {{-1, +1}}, got "
            f"{values[:5]}"
        )
    if both and len(values) < 2:
        raise ValueError(
            f"y: expected pairs of both labels (same and different), got only {values}"
        )
    return (labels == 1).astype(int)


def pair_weights(
    w: ArrayLike | None, same: Int[np.ndarray, "N"], name: str = "sample_weight"
) -> Float[np.ndarray, "N"] | None:
    """Return data weights of pairs as float64, or None where none were given.

    Raises
    ------
    ValueError
        When they are not one per pair, not finite, negative, or all zero for one
        of the two labels.
    """
    if w is None:
        return None
    given = real(w, name)
    if given.shape != same.shape:
        raise ValueError(f"{name}: expected shape {same.shape}, got {given.shape}")
    if not np.all(np.isfinite(given)) or np.any(given < 0):
        raise ValueError(
            f"{name}: expected finite weights ≥ 0, got a negative or NaN one"
        )
    for label in (0, 1):
        if not np.any(given[same == label] > 0):
            raise ValueError(
                f"{name}: expected a positive weight on a pair with y={label}, got none"
            )
    return given


def pair_counts(
    y: ArrayLike, trials: ArrayLike, w: ArrayLike | None, n_pairs: int
) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"], Float[np.ndarray, "N"] | None]:
    """Return how often each pair was called the same, of how many times, and weights.

    Raises
    ------
    ValueError
        When counts, trials or weights are not one per pair; for counts that are not
        whole numbers in 0..trials, trials that are not whole numbers of at least 1;
        when all judgments, or all of positive weight, are alike.
    """
    m, same = _whole(trials, "trials", n_pairs), _whole(y, "y", n_pairs)
    for name, wrong, what in (
        ("trials", (m < 1) | (m >= 2**31), "whole numbers in [1, 2³¹)"),
        ("y", (same < 0) | (same > m), "counts in 0..trials"),
    ):
        (rows,) = np.nonzero(wrong)
        if len(rows):
            got = f"{same[rows[0]]} of {m[rows[0]]}" if name == "y" else m[rows[0]]
            raise ValueError(f"{name}: expected {what}, got {got} in row {rows[0]}")
    of_same, of_other = np.flatnonzero(same > 0), np.flatnonzero(same < m)
    if not len(of_same) or not len(of_other):
        raise ValueError(
            "y: expected judgments of both kinds (same and different), got only "
            f"{'different' if not len(of_same) else 'same'}"
        )
    if w is None:
        return same, m, None
    given = real(w, "sample_weight")
    if given.shape != (n_pairs,):
        raise ValueError(
            f"sample_weight: expected shape ({n_pairs},), got {given.shape}"
        )
    at = np.append(of_same, of_other)
    pair_weights(given[at], np.repeat([1, 0], [len(of_same), len(of_other)]))
    return same, m, given


def _whole(values: ArrayLike, name: str, n: int) -> Int[np.ndarray, "N"]:
    """Return n whole numbers."""
    given = real(values, name, "whole numbers")
    if given.shape != (n,):
        raise ValueError(f"{name}: expected shape ({n},), got {given.shape}")
    (wrong,) = np.nonzero(~(given == np.round(given)) | ~(np.abs(given) < 2**53))
    if len(wrong):
        raise ValueError(
            f"{name}: expected whole numbers, got {given[wrong[0]]:g} in row {wrong[0]}"
        )
    return given.astype(int)


def pair_points(
    pairs: ArrayLike, X: ArrayLike | None = None, name: str = "pairs"
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """Return points and the two indices of each pair, from either form of pairs."""
    given = _regular(pairs, name)
    if given.ndim == 2 and given.shape[1] == 2 and len(given) and X is not None:
        rows = points(X)
        if given.dtype.kind not in "iu":
            raise ValueError(f"{name}: expected integers into X, got {given.dtype}")
        if given.min() < 0 or given.max() >= len(rows):
            raise ValueError(
                f"{name}: expected rows 0..{len(rows) - 1} of X, got "
                f"{given.min()}..{given.max()}"
            )
        return rows, given[:, 0].astype(int), given[:, 1].astype(int)
    if given.ndim != 3 or given.shape[1] != 2 or 0 in given.shape or X is not None:
        if X is None:
            form, remedy = "(N, 2, d)", f". For row numbers of X give X[{name}]"
        else:
            form, remedy = "(N, 2) of integers, rows of X", ""
        raise ValueError(f"{name} must have shape {form}, got {given.shape}{remedy}")
    n_pairs, _, d = given.shape
    rows = points(given.reshape(2 * n_pairs, d), name)
    first = np.arange(0, 2 * n_pairs, 2)
    return rows, first, first + 1


def pairs_from_arrays(
    pairs: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    X: ArrayLike | None = None,
    anchor: ArrayLike | None = None,
    trials: ArrayLike | None = None,
) -> Pairs:
    """Take pairs as users hold them.

    Parameters
    ----------
    pairs : array-like of shape (N, 2, d), or (N, 2) of integers
        Points side by side, or rows of ``X``.
    y : array-like of shape (N,)
        1 for same; 0 or -1, one of the two throughout, for different. With
        ``trials``, how often each pair was called the same.
    w : array-like of shape (N,), optional
        Data weights ≥ 0.
    X : array-like of shape (n, d), optional
        The points that integer pairs refer to; an error with (N, 2, d).
    anchor : array-like of shape (N,) of integers, optional
        Group of each pair, numbers from 0, for a scale per anchor.
    trials : array-like of shape (N,) of whole numbers, optional
        How often each pair was judged, at least once.

    Raises
    ------
    ValueError
        On bad input, pairs of one label included.
    """
    rows, i, j = pair_points(pairs, X)
    if trials is None:
        same, m = pair_labels(y, len(i)), None
        w = pair_weights(w, same)
    else:
        same, m, w = pair_counts(y, trials, w, len(i))
    group = None
    if anchor is not None:
        group = np.asarray(anchor)
        if group.shape != i.shape or group.dtype.kind not in "iu" or group.min() < 0:
            raise ValueError(
                f"anchor: expected integers ≥ 0 of shape {i.shape}, got {group.dtype} "
                f"of shape {group.shape}"
            )
        group = group.astype(int)
    return Pairs(rows, i, j, same, w, group, m)
