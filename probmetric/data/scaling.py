"""``Scaler``: centre and scale of each feature, also from data with missing entries."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.linalg_scaled import LARGEST

__all__ = ["Scaler", "check_sizes", "fit_scaler", "fit_scaler_missing"]


class Scaler(NamedTuple):
    """Centre and scale of each feature: standardised x is (x - mean) / scale."""

    mean: Float[np.ndarray, "d"]
    scale: Float[np.ndarray, "d"]


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
            f"X: expected columns that vary (n_samples = {n}, standardize=True divides "
            f"by their standard deviation), got constant columns {which.tolist()}; "
            "drop them (sklearn.feature_selection.VarianceThreshold) or set "
            "standardize=False"
        )
    span = high - low
    small = np.flatnonzero((span > 0) & (span < 1 / LARGEST))
    if len(small):
        which = small if names is None else np.asarray(names)[small]
        raise ValueError(
            f"X: expected columns whose range is {1 / LARGEST:.3g} or more, so that "
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
            f"X: expected a column whose range is {1 / LARGEST:.3g} or more, so that "
            f"float64 holds its square, got a largest of {span:.3g}; rescale X"
        )
    size = np.max(np.abs(X), 0, where=~np.isnan(X), initial=0.0)
    large = np.flatnonzero(size > LARGEST)
    if len(large):
        which = large if names is None else np.asarray(names)[large]
        raise ValueError(
            f"X: expected entries up to {LARGEST:.3g} in size, so that float64 holds "
            f"their squares, got {size[large].tolist()} in columns {which.tolist()}; "
            "rescale them"
        )


def fit_scaler_missing(X: Any, standardize: bool) -> Scaler:
    """Return means and standard deviations of the entries that are there."""
    seen = ~np.isnan(X)
    if not seen.any(0).all():
        columns = np.flatnonzero(~seen.any(0)).tolist()
        raise ValueError(f"X: expected a value in every column, got none in {columns}")
    if seen.all():
        return fit_scaler(X, standardize=standardize)
    parts = [
        fit_scaler(X[seen[:, [j]][:, 0]][:, [j]], [j], standardize=standardize)
        for j in range(X.shape[1])
    ]
    return Scaler(*(np.concatenate(column) for column in zip(*parts, strict=True)))
