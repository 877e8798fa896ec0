"""Draws of a learner's ``sample`` as a ``PosteriorMetric``."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from probmetric.arguments import check_number
from probmetric.posterior.metric import SOURCES, PosteriorMetric
from probmetric.typing import Purpose

SAMPLE_DIMS = ("chain", "draw")


def thinned(draws: xr.DataTree, n: int) -> xr.DataTree:
    """Return n draws, evenly spaced over chains joined, as one chain."""
    groups: dict[str, xr.Dataset] = {}
    for name, node in draws.children.items():
        group = node.to_dataset()
        if set(SAMPLE_DIMS) <= set(group.sizes):
            total = group.sizes["chain"] * group.sizes["draw"]
            keep = np.linspace(0, total - 1, min(n, total)).astype(int)
            at = np.unravel_index(keep, [group.sizes[dim] for dim in SAMPLE_DIMS])
            place = {d: ("kept", i) for d, i in zip(SAMPLE_DIMS, at, strict=True)}
            plain = group.drop_vars(SAMPLE_DIMS, errors="ignore").isel(place)
            group = plain.rename(kept="draw").expand_dims("chain")
        groups[name] = group
    found = xr.DataTree.from_dict(groups)
    found.attrs.update(draws.attrs)
    return found


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
        f"{', '.join(sorted(map(str, draws['posterior'].data_vars)))}"
    )
