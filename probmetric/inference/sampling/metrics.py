"""Metrics from draws, one per draw; the chains are concatenated.

The module of each learner has a function ``metrics(draws)`` that uses these functions.
``registry.MODELS`` contains its name for stored draws, commands and estimators.
"""

import numpy as np
import xarray as xr
from jaxtyping import Float

from probmetric.inference.sampling.summary import SAMPLE_DIMS
from probmetric.inference.sampling.target import Draws
from probmetric.linalg import one_blas_thread, row_signs
from probmetric.metric import Link, Mahalanobis


def joined(
    draws: Draws | xr.DataTree, group: str = "posterior"
) -> dict[str, np.ndarray]:
    """Return draws (S, ...) by name, with chains joined; empty without the group."""
    if isinstance(draws, Draws):
        values = draws.values if group == "posterior" else {}
    elif group not in draws.children:
        return {}
    else:
        node = draws[group].to_dataset()
        values = {
            str(name): variable.transpose(*SAMPLE_DIMS, ...).to_numpy()
            for name, variable in node.items()
            if set(SAMPLE_DIMS) <= set(variable.dims)
        }
    return {name: v.reshape(-1, *v.shape[2:]) for name, v in values.items()}


def _factors(M: Float[np.ndarray, "s d d"]) -> Float[np.ndarray, "s d d"]:
    """Return ``psd_factor`` of every draw, in NumPy (nothing compiles)."""
    finite = np.isfinite(M).all((1, 2), keepdims=True)
    with one_blas_thread(M.shape[-1]):
        values, vectors = np.linalg.eigh(np.where(finite, M / 2 + M.mT / 2, 0.0))
    valid = values[:, :1] >= -1e-10 * np.abs(values).max(1, keepdims=True)
    rows = (np.sqrt(np.maximum(values, 0))[:, None] * vectors).mT[:, ::-1]
    rows = rows * row_signs(rows.reshape(-1, M.shape[-1])).reshape(*M.shape[:2], 1)
    return np.where(finite & valid[..., None], rows, np.nan)


def mahalanobis(
    M: Float[np.ndarray, "s d d"],
    b: Float[np.ndarray, "s"] | None = None,
    *,
    rank: int | None = None,
) -> list[Mahalanobis]:
    """Return one metric per draw of M, of rank ``rank``; with ``b`` also P(same)."""
    factors = _factors(M)[:, :rank]
    half = np.asarray(0.5)
    links = [None] * len(M) if b is None else [Link(np.asarray(v), half) for v in b]
    return [Mahalanobis(L, link) for L, link in zip(factors, links, strict=True)]
