"""Draws on disk: ArviZ's NetCDF in and out, and the metrics that draws stand for."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xarray as xr

from probmetric.files import readable, replacing
from probmetric.posterior.draws import posterior_metric
from probmetric.posterior.metric import PosteriorMetric
from probmetric.registry import MODELS
from probmetric.typing import Purpose


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
    with readable(f"draws: expected a readable NetCDF file, got {str(path)!r}"):
        with xr.open_datatree(path, engine="h5netcdf") as file:
            draws = file.load()
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
    draws: xr.DataTree, *, purpose: Purpose = "prediction", max_draws: int | None = None
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
    readers = _readers(draws.attrs.get("learner"))
    return posterior_metric(draws, readers, purpose, n_draws=max_draws)


def _readers(learner: Any) -> list[Callable[[xr.DataTree], Any]]:
    """Return what makes metrics of a learner's draws; all that is known for None."""
    known = [MODELS[learner]] if learner in MODELS else list(MODELS.values())
    # In the order of the registry, each once.
    found = [spec.metrics_of_draws for spec in known if spec.metrics_of_draws]
    return list(dict.fromkeys(found))
