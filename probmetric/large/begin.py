"""Check settings before a fit to a ``Source``, as before a fit to arrays.

Options that need all rows at once raise an error with the value to use instead.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from probmetric.data.scaling import Scaler, scaler_of
from probmetric.data.unlabeled import refuse_unlabeled, warn_of_unlabeled
from probmetric.estimators._labeled import remember_rows, warn_of_alone
from probmetric.estimators._settings import check_settings
from probmetric.inference.gaussian_classes.posterior import ClassStatistics
from probmetric.large.moments import (
    Columns,
    class_moments,
    column_moments,
    standardized,
)
from probmetric.large.source import Source, class_counts, refuse_arrays


class Streamed(NamedTuple):
    """Statistics of classes of standardized rows, with the scaler.

    ``squares`` is Σw² of each class, and ``n`` the number of rows of positive weight.
    The scaler ``inside`` maps constant columns to 0.
    """

    stats: ClassStatistics
    squares: Float[np.ndarray, "c"]
    classes: np.ndarray
    scaler: Scaler
    inside: Scaler
    constant: Bool[np.ndarray, "d"]
    n: int

    def map_of(self, factor: Float[np.ndarray, "p d"]) -> Float[np.ndarray, "p d"]:
        """Convert a map of standardized features to input units (constants get 0)."""
        scale = np.where(self.constant, np.inf, self.scaler.scale)
        return np.asarray(factor) / scale


type Refused = dict[str, tuple[bool, str]]
"""Maps the name of an option to whether it is set, and the value to use instead."""


def refuse(wrong: Refused) -> None:
    """Raise for options that data on disk do not support."""
    for name, (asked, instead) in wrong.items():
        if asked:
            raise ValueError(
                f"{name} must be {instead} for data on disk. Other values need all "
                "rows in memory."
            )


def begin(estimator: Any, source: Source, y: object) -> list[str] | None:
    """Check settings, set attributes of ``fit``, and return feature names or None."""
    check_settings(estimator)
    refuse_arrays(y=y)
    refuse_unlabeled(estimator.unlabeled)
    names = [*source.feature_names]
    estimator.n_features_in_ = len(names)
    remember_rows(estimator, None)
    for name in (
        "threshold_",
        "pair_classes_",
        "feature_names_in_",
        "_columns",
        "factors_",
    ):
        vars(estimator).pop(name, None)
    if names == [f"x{j}" for j in range(len(names))]:
        return None
    estimator.feature_names_in_ = np.array(names, object)
    return names


def streamed_columns(
    estimator: Any, source: Source, names: list[str] | None
) -> tuple[Scaler, Bool[np.ndarray, "d"], Columns]:
    """Return the scaler, the constant columns and moments of columns, in one pass."""
    columns = column_moments(source)
    return *_scaler(estimator, columns, names), columns


def _scaler(
    estimator: Any, columns: Columns, names: list[str] | None
) -> tuple[Scaler, Bool[np.ndarray, "d"]]:
    n = float(columns.n)
    if n < 2:
        raise ValueError(
            f"X must have at least 2 rows with a weight above 0, got {n:g}"
        )
    low, high, mean, square = map(np.asarray, columns[1:])
    deviation = np.sqrt(square / n)
    return scaler_of(
        low, high, mean, deviation, names, standardize=bool(estimator.standardize)
    )


def still(scaler: Scaler, constant: Bool[np.ndarray, "d"]) -> Scaler:
    """Return a scaler that maps constant columns to 0."""
    return scaler._replace(scale=np.where(constant, np.inf, scaler.scale))


def streamed_classes(estimator: Any, source: Source, y: object, least: int) -> Streamed:
    """Compute statistics of classes, in a pass over labels and a pass over rows."""
    names = begin(estimator, source, y)
    classes, counts = class_counts(source)
    if len(classes) < 2:
        raise ValueError(
            f"label must contain at least 2 classes, got one ({classes.tolist()[:1]})"
        )
    if counts.max() < least:
        raise ValueError(
            f"label must contain a class with at least {least} rows, got one row in "
            f"each of {len(classes)} classes"
        )
    warn_of_unlabeled(estimator.unlabeled, classes, "label")
    warn_of_alone(classes[counts < least], "label")
    moments, origin = class_moments(source, classes)
    scaler, constant = _scaler(estimator, moments.columns, names)
    inside = still(scaler, constant) if estimator.standardize else scaler
    stats = standardized(moments, origin, inside)
    return Streamed(
        stats,
        np.asarray(moments.squares),
        classes,
        scaler,
        inside,
        constant,
        int(moments.columns.n),
    )
