"""The inputs of ``TwoStageMixture``, checked: settings, groups, components, units."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Int

from probmetric.arguments import check_choice, check_number
from probmetric.data.scaling import Scaler
from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import SCORES
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior

__all__ = [
    "check_settings",
    "component_counts",
    "components_of_groups",
    "group_codes",
    "known_components",
    "noise_share",
    "to_input_units",
    "with_database_noise",
]

BLENDS = ("flat", "bic", "held-out")


def component_counts(estimator: Any) -> tuple[Any, ...]:
    """Return the range of component counts, one count being a range of one."""
    k = estimator.n_components
    return tuple(k) if isinstance(k, (list, tuple, np.ndarray, range)) else (k,)


def check_settings(estimator: Any) -> None:
    """Raise for arguments of the constructor that make no sense.

    Raises
    ------
    ValueError
        Names the argument, what was expected and what came.
    """
    e, counts = estimator, component_counts(estimator)
    check_number("alpha", e.alpha, 0, 1, open_low=True)
    check_choice("covariance", e.covariance, ("free", "proportional"))
    check_choice("similarity", e.similarity, SCORES)
    if e.blend is not None:
        check_choice("blend", e.blend, BLENDS)
    if not (e.flattening is None or e.flattening == "held-out"):
        check_number("flattening", e.flattening, 0, 1)
    if not counts:
        raise ValueError("n_components: expected at least one count, got none")
    for k in counts:
        check_number("n_components", k, 1, whole=True)
    check_number("database_noise", e.database_noise, 0)
    check_number("n_starts", e.n_starts, 1, whole=True)
    check_number("max_iter", e.max_iter, 1, whole=True)
    if not isinstance(e.prior, TwoStagePrior):
        check_choice("prior", e.prior, ("default", "flat"))
    if e.blend is not None and len(counts) < 2:
        raise ValueError(
            "blend: expected a range of n_components to blend, got "
            f"n_components={e.n_components!r}"
        )


def known_components(
    components: Any, n: int, smallest: int
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


def group_codes(groups: Any, n: int) -> Int[np.ndarray, "n"]:
    """Return each row's group as a code in 0..G-1."""
    given = np.asarray(groups)
    if given.shape != (n,):
        raise ValueError(f"groups: expected shape ({n},), got {given.shape}")
    return np.unique(given, return_inverse=True)[1]


def components_of_groups(known: Any, codes: Any) -> Int[np.ndarray, "G"]:
    """Return the component of each group, which must be one."""
    result = np.full(codes.max() + 1, -1)
    for code, k in zip(codes, known, strict=True):
        if k >= 0 and result[code] not in (-1, k):
            raise ValueError(
                f"components: expected one component a group, got {result[code]} and "
                f"{k} "
                f"in group number {code}"
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


def with_database_noise(metric: PairSimilarity, factor: Any) -> PairSimilarity:
    """Give database elements ``factor`` times the noise of queries."""
    if factor == 1:
        return metric
    return dataclasses.replace(metric, noise_other=factor * np.asarray(metric.noise))
