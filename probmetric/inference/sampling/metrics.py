"""From draws to metrics: what was drawn, chains joined, as one metric a draw.

A learner's room has ``metrics(draws)``, made of these, and ``registry.MODELS`` names
it: files of draws, the command line and the estimators all ask that one function.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from probmetric.arguments import check_number
from probmetric.inference.sampling.target import Draws
from probmetric.linalg import psd_factor
from probmetric.metric import Link, Mahalanobis
from probmetric.posterior.metric import SOURCES, PosteriorMetric
from probmetric.typing import Purpose

__all__ = ["joined", "mahalanobis", "posterior_metric", "thinned"]

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


def thinned(draws: xr.DataTree, n: int) -> xr.DataTree:
    """Return n draws, evenly spaced over chains joined, as one chain."""
    groups: dict[str, xr.Dataset] = {}
    for name, node in draws.children.items():
        every = joined(draws, name)
        total = max(map(len, every.values()), default=0)
        keep = np.linspace(0, total - 1, min(n, total)).astype(int)
        kept: dict[str, Any] = {}
        for key, values in every.items():
            axes = [axis for axis in node[key].dims if axis not in SAMPLE_DIMS]
            kept[key] = ((*SAMPLE_DIMS, *axes), values[keep][None])
        groups[name] = xr.Dataset(kept) if every else node.to_dataset()
    found = xr.DataTree.from_dict(groups)
    found.attrs.update(draws.attrs)
    return found


def _factor(M: Any) -> Any:
    # M = WᵀW has rounding-level negative eigenvalues when p < d.
    return psd_factor(M, tol=1e-10)


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
    with jax.enable_x64(True):
        factors = np.asarray(jax.vmap(_factor)(jnp.asarray(M)))[:, :rank]
    half = np.asarray(0.5)
    links = [None] * len(M) if b is None else [Link(np.asarray(v), half) for v in b]
    return [Mahalanobis(L, link) for L, link in zip(factors, links, strict=True)]


def posterior_metric(
    draws: xr.DataTree,
    readers: Sequence[Callable[[Any], Any]],
    purpose: Purpose,
    *,
    n_draws: int | None = None,
    pairs_independent: bool = False,
) -> PosteriorMetric:
    """Return draws as metrics.

    Parameters
    ----------
    draws : DataTree
        Of ``sample``; its attribute ``method`` says the source.
    readers : sequence of callable
        ``metrics(draws) -> list of Metric``, or None for draws of something else; the
        first that knows the draws is taken.
    purpose, pairs_independent
        As for ``PosteriorMetric``.
    n_draws : int, optional
        Keep this many, evenly spaced over chains joined. Default: all.

    Raises
    ------
    ValueError
        For draws that no reader knows.
    """
    if n_draws is not None:
        draws = thinned(draws, int(check_number("n_draws", n_draws, 1, whole=True)))
    method = draws.attrs.get("method", "nuts")
    source = method if method in SOURCES else "nuts"
    given: Any = {"source": source, "pairs_independent": pairs_independent}
    for metrics in readers:
        found = metrics(draws)
        if found is not None:
            return PosteriorMetric(found, purpose, **given)
    raise ValueError(
        "draws: expected a posterior of a metric (M, J, or a two-stage mixture), got "
        f"{', '.join(sorted(joined(draws)))}"
    )
