"""Checks of the inputs of ``TwoStageMixture``, and conversion of units."""

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_number
from probmetric.data.inputs import group_codes as labels_and_codes
from probmetric.data.inputs import pair_labels, real
from probmetric.data.scaling import Scaler
from probmetric.data.unlabeled import warn_of_unlabeled
from probmetric.models.two_stage import TwoStageParams
from probmetric.typing import ArrayLike

LABEL = "label"
"""Value of ``groups`` that selects the labels of data on disk."""


def component_counts(k: int | Sequence[int], blend: str | None) -> tuple[int, ...]:
    """Return the numbers of components to try, as a tuple."""
    counts = tuple(k) if isinstance(k, (list, tuple, np.ndarray, range)) else (k,)
    if not counts:
        raise ValueError(
            "n_components must contain at least one number, got an empty sequence"
        )
    counts = tuple(check_number("n_components", c, 1, whole=True) for c in counts)
    if blend is not None and len(counts) < 2:
        raise ValueError(
            "blend must be None if n_components has only one number, got "
            f"{blend!r} with n_components={k!r}. Pass two or more numbers as "
            "n_components, or omit blend."
        )
    return counts


def check_most(n_components: int, most: int, what: str) -> None:
    """Raise for more components than rows or groups, whose clusters start them."""
    if n_components > most:
        raise ValueError(
            f"n_components must be at most {most}, the number of {what}, got "
            f"{n_components}"
        )


def group_codes(groups: ArrayLike, n: int, unlabeled: object) -> Int[np.ndarray, "n"]:
    """Return each row's group as a code in 0..G-1."""
    if isinstance(groups, str):
        raise ValueError(
            f"groups must have shape ({n},), got {groups!r}. Use {LABEL!r} only for "
            "data on disk with labels (pm.open(..., label=))"
        )
    labels, codes = labels_and_codes(groups, n)
    warn_of_unlabeled(unlabeled, labels, "groups")
    return codes


def warn_alone(alpha: float) -> None:
    """Warn that groups with one row do not identify the variation within groups."""
    warnings.warn(
        "groups: every group has one row, so variation within groups cannot be "
        f"estimated. It is assumed to be alpha = {alpha} times the covariance. Add "
        "repeated measurements, or set alpha.",
        UserWarning,
        stacklevel=3,
    )


def pair_array(
    pairs: ArrayLike, n_features: int | None = None
) -> Float[np.ndarray, "N 2 d"]:
    """Return pairs as float64, NaN for missing entries."""
    array = real(pairs, "pairs")
    if array.ndim != 3 or array.shape[1] != 2 or 0 in array.shape:
        raise ValueError(f"pairs must have shape (N, 2, d), got {array.shape}")
    if np.isinf(array).any():
        raise ValueError("pairs must be finite, got infinity")
    if n_features is not None and array.shape[2] != n_features:
        raise ValueError(
            f"pairs must have {n_features} features, as in fit, got {array.shape[2]}"
        )
    return array


def same_source(y: ArrayLike | None, n: int) -> Int[np.ndarray, "N"]:
    """Return 1 for each pair of one source, otherwise 0; all 1 if y is None."""
    same = pair_labels(np.ones(n) if y is None else y, n, both=False)
    if not same.any():
        raise ValueError(
            "y must be 1 for at least one pair, got none. Without pairs from one "
            "source, variation within and between sources cannot be separated. To "
            "fit single rows use fit(X)."
        )
    return same


def noise_share(params: TwoStageParams) -> float:
    """Return α of a proportional model."""
    total = params.within + params.between
    return float(params.within[0, 0, 0] / total[0, 0, 0])


def to_input_units(params: TwoStageParams, scaler: Scaler) -> TwoStageParams:
    """Map parameters of standardized features back."""
    square = np.outer(scaler.scale, scaler.scale)
    return TwoStageParams(
        np.asarray(params.weights),
        scaler.mean + np.asarray(params.means) * scaler.scale,
        np.asarray(params.within) * square,
        np.asarray(params.between) * square,
    )
