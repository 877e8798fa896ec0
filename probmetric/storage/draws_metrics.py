"""Metrics that draws stand for, by what was drawn: one function a kind of posterior.

Each takes the DataTree of ``sample`` and returns one metric a draw, chains joined, or
None where the draws are of something else. ``registry.MODELS`` says which of them goes
with which learner.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr

from probmetric.linalg import psd_factor
from probmetric.metric import Link, Mahalanobis, Metric, PairSimilarity

__all__ = ["joined", "matrices", "similarities"]

TWO_STAGE = ("weights", "means", "between", "within")


def joined(group: xr.Dataset, name: str) -> np.ndarray:
    """Return the draws of a variable (S, ...), chain after chain."""
    found = group[name].transpose("chain", "draw", ...).to_numpy()
    return found.reshape(-1, *found.shape[2:])


def matrices(draws: xr.DataTree) -> list[Metric] | None:
    """Return Mahalanobis metrics of M, with P(same) where there is b, or of J."""
    posterior = draws["posterior"].to_dataset()
    matrix = next((name for name in ("M", "J") if name in posterior), None)
    if matrix is None or "components" in draws.children:
        return None
    with jax.enable_x64(True):
        # M = WᵀW has rounding-level negative eigenvalues when p < d.
        factors = np.asarray(jax.vmap(_factor)(joined(posterior, matrix)))
    if matrix == "J" or "b" not in posterior:
        return [Mahalanobis(factor) for factor in factors]
    half = np.asarray(0.5)
    return [
        Mahalanobis(factor, Link(np.asarray(b), half))
        for factor, b in zip(factors, joined(posterior, "b"), strict=True)
    ]


def _factor(M: Any) -> Any:
    return psd_factor(M, tol=1e-10)


def similarities(draws: xr.DataTree) -> list[Metric] | None:
    """Return similarities of a two-stage mixture, drawn as ``components``.

    Raises
    ------
    ValueError
        For components without all their parts.
    """
    if "components" not in draws.children:
        return None
    components = draws["components"].to_dataset()
    lacking = [name for name in TWO_STAGE if name not in components]
    if lacking:
        raise ValueError(
            f"draws: expected {', '.join(TWO_STAGE)} among the components, got none of "
            f"{', '.join(lacking)}"
        )
    weights, means, between, within = (joined(components, n) for n in TWO_STAGE)
    with np.errstate(divide="ignore"):  # A component that is not there: -inf.
        weights = np.log(weights)
    score: Any = str(draws.attrs.get("similarity", "log_ratio"))
    noise = float(draws.attrs.get("database_noise", 1.0))
    other = [None] * len(within) if noise == 1 else noise * within
    return [
        PairSimilarity(*part, score=score)
        for part in zip(weights, means, between, within, other, strict=True)
    ]
