"""Center and scale features, also with missing entries."""

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from probmetric.linalg_scaled import LARGEST
from probmetric.typing import ArrayLike

type Names = Sequence[str] | np.ndarray | None

type Blocks = Sequence[Sequence[int]]

AT_A_TIME = 1 << 21
"""Largest number of entries for which moments are computed at a time."""


class Scaler(NamedTuple):
    """Center and scale of each feature: standardized x is (x - mean) / scale."""

    mean: Float[np.ndarray, "d"]
    scale: Float[np.ndarray, "d"]


def constant_columns(X: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, "d"]:
    """Return which columns have a range of at most 16 rounding errors of entries."""
    low, high = np.nanmin(X, 0), np.nanmax(X, 0)
    return high - low <= 16 * np.finfo(float).eps * np.maximum(abs(low), abs(high))


def columns_at_a_time(n: int, d: int) -> list[slice]:
    """Return slices of columns with at most ``AT_A_TIME`` entries (n rows)."""
    ends = np.linspace(0, d, min(-(-n * d // AT_A_TIME), -(-d // 2)) + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def taught_scale(X: ArrayLike, scale: Float[np.ndarray, "d"]) -> Float[np.ndarray, "d"]:
    """Return the divisor of learned linear maps, infinite for constant columns."""
    return np.where(constant_columns(np.asarray(X)), np.inf, scale)


def standardize_features(
    X: Float[np.ndarray, "n d"],
    names: Names = None,
    *,
    standardize: bool = True,
    times: Int[np.ndarray, "n"] | Float[np.ndarray, "n"] | None = None,
    blocks: Blocks = (),
) -> tuple[Float[np.ndarray, "n d"], Scaler]:
    """Standardize by ``fit_scaler``, with a warning about constant columns."""
    scaler = fit_scaler(X, names, standardize=standardize, times=times, blocks=blocks)
    Z = X - scaler.mean
    Z /= scaler.scale
    if not standardize:
        return Z, scaler
    constant = constant_columns(X)
    Z[:, constant] *= 0.0  # NaN, a missing entry, remains.
    _warn_of_constant(constant, names)
    return Z, scaler


def _warn_of_constant(which: Bool[np.ndarray, "d"], names: Names) -> None:
    constant = np.flatnonzero(which)
    if len(constant):
        more = f" and {len(constant) - 5} more" if len(constant) > 5 else ""
        warnings.warn(
            f"X has constant columns {_columns(constant[:5], names)}{more}. They do "
            "not change the learned distance. Drop them to avoid this warning.",
            stacklevel=5,
        )


def fit_scaler(
    X: Float[np.ndarray, "n d"],
    names: Names = None,
    *,
    standardize: bool = True,
    times: Int[np.ndarray, "n"] | Float[np.ndarray, "n"] | None = None,
    blocks: Blocks = (),
) -> Scaler:
    """Compute means and standard deviations of features (or 0 and 1).

    NaN entries are missing and ignored. A constant column (``constant_columns``) has
    scale 1. ``blocks`` are the columns of each factor, with one scale s, Eq. (1) of
    ``data.factors``. Row i counts ``times[i]`` times (default: once), which requires
    rows without missing entries. Raises if a column has no entry, if squares overflow
    or the square of a range underflows, and (with ``standardize``) if all columns are
    constant.
    """
    n, d = X.shape
    empty = np.flatnonzero(np.isnan(X).all(0))
    if len(empty):
        raise ValueError(
            "X: every column must contain a number, got only NaN in columns "
            f"{_columns(empty, names)}. Drop these columns."
        )
    check_sizes(X, names)
    low, high = np.nanmin(X, 0), np.nanmax(X, 0)
    span = high - low
    small = np.flatnonzero((span > 0) & (span < 1 / LARGEST))
    if len(small):
        raise ValueError(
            f"X: the range of each column must be at least {1 / LARGEST:.3g}, because "
            "squares of smaller numbers underflow, got "
            f"{span[small].tolist()} in columns {_columns(small, names)}. Rescale "
            "these columns."
        )
    if not standardize:
        unit = np.ones(d)
        for block in blocks:
            unit[block] = np.sqrt(2)
        return Scaler(np.zeros(d), unit)
    constant = constant_columns(X)
    if constant.all():
        raise ValueError(
            "X must have a column that is not constant, got only constant columns "
            f"{_columns(np.flatnonzero(constant), names)} (n_samples = {n}). Add "
            "features that vary."
        )
    # Dividing by the range first avoids cancellation; few columns, a copy of X.
    span = np.where(constant, 1.0, span)
    mean, deviation = np.empty(d), np.empty(d)
    share = None if times is None else times / times.sum()
    for some in columns_at_a_time(n, d):
        unit = X[:, some] - low[some]
        unit /= span[some]
        if share is None:
            mean[some], deviation[some] = np.nanmean(unit, 0), np.nanstd(unit, 0)
        else:
            mean[some] = share @ unit
            deviation[some] = np.sqrt(share @ (unit - mean[some]) ** 2)
    scale = np.where(constant, 0.0, deviation * span)
    for block in blocks:
        scale[block] = np.linalg.norm(scale[block])
    return Scaler(low + mean * span, np.where(scale > 0, scale, 1.0))


def scaler_of(
    low: Float[np.ndarray, "d"],
    high: Float[np.ndarray, "d"],
    mean: Float[np.ndarray, "d"],
    deviation: Float[np.ndarray, "d"],
    names: Names = None,
    *,
    standardize: bool = True,
) -> tuple[Scaler, Bool[np.ndarray, "d"]]:
    """Return the scaler from ranges, means and deviations; raises as ``fit_scaler``."""
    ends = np.stack([low, high])
    constant = constant_columns(ends)
    fit_scaler(ends, names, standardize=standardize)  # Raises if they are unusable.
    if not standardize:
        return Scaler(np.zeros(len(low)), np.ones(len(low))), constant
    _warn_of_constant(constant, names)
    return Scaler(mean, np.where(constant, 1.0, deviation)), constant


def _columns(which: np.ndarray, names: Names) -> list[object]:
    return (which if names is None else np.asarray(names)[which]).tolist()


def check_sizes(
    X: Float[np.ndarray, "n d"], names: Names = None, *, smallest: bool = False
) -> None:
    """Raise if squares overflow or, with ``smallest``, squares of ranges underflow."""
    if smallest and 0 < (span := np.ptp(X / 2, 0).max() * 2) < 1 / LARGEST:
        raise ValueError(
            f"X: the largest range of a column must be at least {1 / LARGEST:.3g}, "
            "because squares of smaller numbers underflow, got "
            f"{span:.3g}. Rescale X."
        )
    size = np.max(np.abs(X), 0, where=~np.isnan(X), initial=0.0)
    large = np.flatnonzero(size > LARGEST)
    if len(large):
        raise ValueError(
            f"X: values must be at most {LARGEST:.3g}, because squares of larger "
            f"numbers overflow, got {size[large].tolist()} in columns "
            f"{_columns(large, names)}. Rescale these columns."
        )
