"""From draws to metrics: what was drawn, chains joined, as one metric a draw.

A learner's room has ``metrics(draws)``, made of these, and ``registry.MODELS`` names
it: files of draws, the command line and the estimators all ask that one function.
"""

import numpy as np
import xarray as xr
from jaxtyping import Float

from probmetric.inference.sampling.target import Draws
from probmetric.linalg import one_blas_thread, row_signs
from probmetric.metric import Link, Mahalanobis

SAMPLE_DIMS = ("chain", "draw")


def joined(
    draws: Draws | xr.DataTree, group: str = "posterior"
) -> dict[str, np.ndarray]:
    """Return the draws of every variable (S, ...) by name, chain after chain.

    Parameters
    ----------
    draws : Draws or DataTree
    group : str, default="posterior"
        One that is not there has no variables; ``Draws`` have this one alone.
    """
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
    """Return what ``psd_factor`` does, of every draw: their number compiles nothing.

    M = WᵀW has rounding-level negative eigenvalues when p < d.
    """
    known = np.isfinite(M).all((1, 2), keepdims=True)
    with one_blas_thread(M.shape[-1]):
        values, vectors = np.linalg.eigh(np.where(known, M / 2 + M.mT / 2, 0.0))
    valid = values[:, :1] >= -1e-10 * np.abs(values).max(1, keepdims=True)
    rows = (np.sqrt(np.maximum(values, 0))[:, None] * vectors).mT[:, ::-1]
    rows = rows * row_signs(rows.reshape(-1, M.shape[-1])).reshape(*M.shape[:2], 1)
    return np.where(known & valid[..., None], rows, np.nan)


def mahalanobis(
    M: Float[np.ndarray, "s d d"],
    b: Float[np.ndarray, "s"] | None = None,
    *,
    rank: int | None = None,
) -> list[Mahalanobis]:
    """Return one metric a draw of M, with P(same) = exp(-(b + dist²/2)) where b is.

    Parameters
    ----------
    M : array of shape (s, d, d)
        Positive semi-definite up to rounding.
    b : array of shape (s,), optional
    rank : int, optional
        Of M: rows of the factors beyond it are rounding and left out.
    """
    factors = _factors(M)[:, :rank]
    half = np.asarray(0.5)
    links = [None] * len(M) if b is None else [Link(np.asarray(v), half) for v in b]
    return [Mahalanobis(L, link) for L, link in zip(factors, links, strict=True)]
