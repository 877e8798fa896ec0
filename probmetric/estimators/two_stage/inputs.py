"""The inputs of ``TwoStageMixture``, checked: counts, groups, pairs; and its units."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_number
from probmetric.data.inputs import codes_of, pair_labels, real
from probmetric.data.scaling import Scaler
from probmetric.data.unlabeled import warn_of_unlabeled
from probmetric.metric import PairSimilarity
from probmetric.models.two_stage import TwoStageParams
from probmetric.typing import ArrayLike

LABEL = "label"
"""What ``groups`` may be with a source: its labels."""


def component_counts(estimator: Any) -> tuple[int, ...]:
    """Return the range of component counts, one count being a range of one.

    Raises
    ------
    ValueError
        For no count, one below 1, or a single one where several are to be blended.
    """
    k = estimator.n_components
    counts = tuple(k) if isinstance(k, (list, tuple, np.ndarray, range)) else (k,)
    if not counts:
        raise ValueError("n_components: expected at least one count, got none")
    counts = tuple(check_number("n_components", c, 1, whole=True) for c in counts)
    if estimator.blend is not None and len(counts) < 2:
        raise ValueError(
            f"blend: expected a range of n_components to blend, got n_components={k!r}"
        )
    return counts


def known_components(
    components: ArrayLike | None, n: int, smallest: int
) -> Int[np.ndarray, "n"] | None:
    """Return the known component of each row, -1 where unknown."""
    if components is None:
        return None
    given = np.asarray(components)
    whole = given.shape == (n,) and given.dtype.kind in "iu"
    if not whole or given.min() < -1 or given.max() >= smallest:
        raise ValueError(
            f"components: expected {n} whole numbers in -1..{smallest - 1}, got "
            f"{given.dtype} of shape {given.shape}"
        )
    return given


def check_most(n_components: int, most: int, what: str) -> None:
    """Raise for more components than the rows or groups whose clusters start them."""
    if n_components > most:
        raise ValueError(
            f"n_components: expected at most {most}, the {what}, got {n_components}"
        )


def group_codes(groups: ArrayLike, n: int, unlabeled: Any) -> Int[np.ndarray, "n"]:
    """Return each row's group as a code in 0..G-1."""
    if isinstance(groups, str):
        raise ValueError(
            f"groups: expected shape ({n},), got {groups!r}; {LABEL!r} is for a "
            "source, whose labels say the groups (pm.open(..., label=))"
        )
    labels, codes = codes_of(groups, "groups")
    if codes.shape != (n,):
        raise ValueError(f"groups: expected shape ({n},), got {codes.shape}")
    warn_of_unlabeled(unlabeled, labels, "groups")
    return codes


def warn_alone(alpha: float) -> None:
    """Warn that groups of one member say nothing of the share of noise."""
    warnings.warn(
        "groups: all have one member, so the share of noise is not identified: "
        f"W = alpha * covariance with the given alpha = {alpha}",
        UserWarning,
        stacklevel=3,
    )


def pair_array(
    pairs: ArrayLike, n_features: int | None = None
) -> Float[np.ndarray, "N 2 d"]:
    """Return pairs as float64, NaN where an entry is missing."""
    given = real(pairs, "pairs")
    if given.ndim != 3 or given.shape[1] != 2 or 0 in given.shape:
        raise ValueError(f"pairs: expected shape (N, 2, d), got {given.shape}")
    if np.isinf(given).any():
        raise ValueError("pairs: expected finite numbers, got infinity")
    if n_features is not None and given.shape[2] != n_features:
        raise ValueError(
            f"pairs: expected {n_features} features, as in fit, got {given.shape[2]}"
        )
    return given


def same_source(y: ArrayLike | None, n: int) -> Int[np.ndarray, "N"]:
    """Return 1 for each pair of one source, 0 for another; all 1 where y is None.

    Raises
    ------
    ValueError
        For other labels, or no pair of one source: nothing then tells W from B.
    """
    same = pair_labels(np.ones(n) if y is None else y, n, both=False)
    if not same.any():
        raise ValueError(
            "y: expected at least one pair of one source (1), got none: W and B are "
            "not identified; fit single instances by fit(X)"
        )
    return same


def components_of_groups(
    known: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "G"]:
    """Return the component of each group, which must be one."""
    result = np.full(codes.max() + 1, -1)
    for code, k in zip(codes, known, strict=True):
        if k >= 0 and result[code] not in (-1, k):
            raise ValueError(
                f"components: expected one component a group, got {result[code]} and "
                f"{k} in group number {code}"
            )
        result[code] = max(result[code], k)
    return result


def noise_share(params: TwoStageParams) -> float:
    """Return α of a proportional model."""
    total = params.within + params.between
    return float(params.within[0, 0, 0] / total[0, 0, 0])


def to_input_units(params: TwoStageParams, scaler: Scaler) -> TwoStageParams:
    """Map parameters of standardised features back."""
    square = np.outer(scaler.scale, scaler.scale)
    return TwoStageParams(
        np.asarray(params.weights),
        scaler.mean + np.asarray(params.means) * scaler.scale,
        np.asarray(params.within) * square,
        np.asarray(params.between) * square,
    )


def with_database_noise(metric: PairSimilarity, factor: float) -> PairSimilarity:
    """Give database elements ``factor`` times the noise of queries."""
    if factor == 1:
        return metric
    return dataclasses.replace(metric, noise_other=factor * np.asarray(metric.noise))
