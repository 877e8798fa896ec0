"""Draws on disk: ArviZ's NetCDF in and out, and the metrics that draws stand for."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from probmetric.files import UNREADABLE, reason, replacing
from probmetric.posterior.metric import PosteriorMetric
from probmetric.registry import MODELS
from probmetric.storage.draws_metrics import joined

__all__ = ["draws_feature_names", "load_draws", "posterior_of", "save_draws"]

SOURCES = ("nuts", "laplace", "svi", "bootstrap")


def save_draws(draws: xr.DataTree, path: "str | Path") -> None:
    """Write a DataTree as NetCDF, whole or not at all; one that stands is replaced."""
    # Through memory: what HDF5 says of a full disk says nothing of the disk.
    buffer = io.BytesIO()
    draws.to_netcdf(buffer, engine="h5netcdf")
    with replacing(Path(path)) as part:
        part.write_bytes(buffer.getbuffer())


def load_draws(path: "str | Path") -> xr.DataTree:
    """Read the draws of ``sample`` from a NetCDF file, into memory.

    Raises
    ------
    ValueError
        For a file that is missing, truncated, damaged, or holds no posterior.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"draws: expected a file that exists, got {str(path)!r}")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as file:
            draws = file.load()
    except UNREADABLE as error:
        raise ValueError(
            f"draws: expected a readable NetCDF file, got {str(path)!r} "
            f"({reason(error)})"
        ) from error
    posterior = draws.children.get("posterior")
    if posterior is None or not {"chain", "draw"} <= set(posterior.sizes):
        raise ValueError(
            f"draws: expected a posterior of chains and draws in {str(path)!r}, got "
            f"groups {sorted(draws.children)}"
        )
    return draws


def draws_feature_names(draws: xr.DataTree) -> tuple[str, ...] | None:
    """Return the features' names that draws carry, None where they carry none."""
    if "feature_names" in draws.attrs:
        return tuple(json.loads(draws.attrs["feature_names"]))
    coords = draws["posterior"].coords
    if "feature" in coords:
        return tuple(str(name) for name in coords["feature"].to_numpy())
    return None


def posterior_of(
    draws: xr.DataTree, *, purpose: str = "prediction", max_draws: int | None = None
) -> PosteriorMetric:
    """Return draws as metrics.

    Parameters
    ----------
    draws : DataTree
        Of ``sample``, of a registered learner whose draws stand for metrics. Its
        attribute ``learner`` names it; without it every learner is asked
        whether the draws are like its own: matrices ``M``, with ``b`` where it
        defines P(same), or ``J``, or ``components`` of a two-stage mixture.
    purpose : {"prediction", "intervals"}, default="prediction"
        See ``PosteriorMetric``.
    max_draws : int, optional
        Keep this many, evenly spaced over chains joined. Default: all.

    Raises
    ------
    ValueError
        For draws of something else.
    """
    if max_draws is not None and max_draws < 1:
        raise ValueError(f"max_draws: expected at least 1, got {max_draws}")
    if max_draws is not None:
        draws = _thinned(draws, max_draws)
    method = str(draws.attrs.get("method", "nuts"))
    source = method if method in SOURCES else "nuts"
    for metrics_of in _readers(draws.attrs.get("learner")):
        metrics = metrics_of(draws)
        if metrics is not None:
            return PosteriorMetric(metrics, purpose, source=source)
    names = sorted(str(name) for name in draws["posterior"].to_dataset())
    raise ValueError(
        "draws: expected a posterior of a metric (M, J, or a two-stage mixture), got "
        f"{', '.join(names)}"
    )


def _readers(learner: Any) -> list[Callable[[xr.DataTree], Any]]:
    """Return what makes metrics of a learner's draws; all that is known for None."""
    known = [MODELS[learner]] if learner in MODELS else list(MODELS.values())
    # In the order of the registry, each once.
    found = [spec.metrics_of_draws for spec in known if spec.metrics_of_draws]
    return list(dict.fromkeys(found))


def _thinned(draws: xr.DataTree, n: int) -> xr.DataTree:
    """Return n draws, evenly spaced over chains joined, as one chain."""
    groups: dict[str, xr.Dataset] = {}
    for name, node in draws.children.items():
        group = node.to_dataset()
        if not {"chain", "draw"} <= set(group.sizes):
            continue
        total = group.sizes["chain"] * group.sizes["draw"]
        keep = np.linspace(0, total - 1, min(n, total)).astype(int)
        kept: dict[str, Any] = {}
        for key, value in group.items():
            if {"chain", "draw"} <= set(value.dims):
                axes = [axis for axis in value.dims if axis not in ("chain", "draw")]
                values = joined(group, str(key))[keep][None]
                kept[str(key)] = (("chain", "draw", *axes), values)
        groups[name] = xr.Dataset(kept)
    found = xr.DataTree.from_dict(groups)
    found.attrs.update(draws.attrs)
    return found
