"""``Scaler``: centre and scale of each feature, also from data with missing entries."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.linalg_scaled import LARGEST

type Names = Sequence[str] | np.ndarray | None


class Scaler(NamedTuple):
    """Centre and scale of each feature: standardised x is (x - mean) / scale."""

    mean: Float[np.ndarray, "d"]
    scale: Float[np.ndarray, "d"]


def fit_scaler(
    X: Float[np.ndarray, "n d"], names: Names = None, *, standardize: bool = True
) -> Scaler:
    """Return the features' means and standard deviations (or 0 and 1).

    NaN is a missing entry: each feature's are those of the entries that are there.

    Raises
    ------
    ValueError
        When a column has no entry, or is constant: it has no scale, so that points
        which differ in it later would have no defined distance. With or without
        ``standardize``, when float64 does not hold the squares of a column's entries
        or of its range.
    """
    n, d = X.shape
    empty = np.flatnonzero(np.isnan(X).all(0))
    if len(empty):
        raise ValueError(
            f"X: expected a value in every column, got none in {_columns(empty, names)}"
        )
    check_sizes(X, names)
    low, high = np.nanmin(X, 0), np.nanmax(X, 0)
    constant = np.flatnonzero(low == high)
    if standardize and len(constant):
        raise ValueError(
            f"X: expected columns that vary (n_samples = {n}, standardize=True divides "
            "by their standard deviation), got constant columns "
            f"{_columns(constant, names)}; "
            "drop them (sklearn.feature_selection.VarianceThreshold) or set "
            "standardize=False"
        )
    span = high - low
    small = np.flatnonzero((span > 0) & (span < 1 / LARGEST))
    if len(small):
        raise ValueError(
            f"X: expected columns whose range is {1 / LARGEST:.3g} or more, so that "
            f"float64 holds its square, got {span[small].tolist()} in columns "
            f"{_columns(small, names)}; rescale them"
        )
    if not standardize:
        return Scaler(np.zeros(d), np.ones(d))
    # Shift and range first: no cancellation.
    unit = (X - low) / span
    return Scaler(low + np.nanmean(unit, 0) * span, np.nanstd(unit, 0) * span)


def _columns(which: np.ndarray, names: Names) -> list[object]:
    """Return columns by their names, or by their numbers where there are none."""
    return (which if names is None else np.asarray(names)[which]).tolist()


def check_sizes(
    X: Float[np.ndarray, "n d"], names: Names = None, *, smallest: bool = False
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
        raise ValueError(
            f"X: expected entries up to {LARGEST:.3g} in size, so that float64 holds "
            f"their squares, got {size[large].tolist()} in columns "
            f"{_columns(large, names)}; rescale them"
        )
