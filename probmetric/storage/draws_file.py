"""Draws on disk: ArviZ's NetCDF in and out, and the metrics that draws stand for."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from probmetric.files import UNREADABLE, reason, replacing
from probmetric.linalg import psd_factor
from probmetric.metric import Link, Mahalanobis, Metric, PairSimilarity
from probmetric.posterior.metric import PosteriorMetric

__all__ = ["draws_feature_names", "load_draws", "posterior_of", "save_draws"]

SOURCES = ("nuts", "laplace", "svi", "bootstrap")
TWO_STAGE = ("weights", "means", "between", "within")


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
        raise ValueError(f"draws: wanted a file that exists, got {str(path)!r}")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as file:
            draws = file.load()
    except UNREADABLE as error:
        raise ValueError(
            f"draws: wanted a readable NetCDF file, got {str(path)!r} ({reason(error)})"
        ) from error
    posterior = draws.children.get("posterior")
    if posterior is None or not {"chain", "draw"} <= set(posterior.sizes):
        raise ValueError(
            f"draws: wanted a posterior of chains and draws in {str(path)!r}, got "
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
        Of ``sample``, of a learner whose posterior is one of matrices (``M``, with
        ``b`` where it defines P(same), or ``J``) or of a two-stage mixture
        (``components``, with its ``similarity`` and ``database_noise`` among the
        attributes).
    purpose : {"prediction", "intervals"}, default="prediction"
        See ``PosteriorMetric``.
    max_draws : int, optional
        Keep this many, evenly spaced over chains joined. Default: all.

    Raises
    ------
    ValueError
        For draws of something else.
    """
    mixture = draws.children.get("components")
    posterior = (draws["posterior"] if mixture is None else mixture).to_dataset()
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    if max_draws is not None and max_draws < 1:
        raise ValueError(f"max_draws: wanted at least 1, got {max_draws}")
    n = total if max_draws is None else min(max_draws, total)
    keep = np.linspace(0, total - 1, n).astype(int)

    def rows(name: str) -> np.ndarray:
        found = posterior[name].transpose("chain", "draw", ...).to_numpy()
        return found.reshape(-1, *found.shape[2:])[keep]

    method = str(draws.attrs.get("method", "nuts"))
    source = method if method in SOURCES else "nuts"
    if mixture is not None:
        metrics = _similarities(posterior, rows, draws.attrs)
    else:
        metrics = _matrices(posterior, rows)
    return PosteriorMetric(metrics, purpose, source=source)


def _similarities(
    posterior: xr.Dataset, rows: Any, attrs: Mapping[Any, Any]
) -> list[Metric]:
    lacking = [name for name in TWO_STAGE if name not in posterior]
    if lacking:
        raise ValueError(
            f"draws: wanted {', '.join(TWO_STAGE)} among the components, got none of "
            f"{', '.join(lacking)}"
        )
    weights, means, between, within = (rows(name) for name in TWO_STAGE)
    with np.errstate(divide="ignore"):  # A component that is not there: -inf.
        weights = np.log(weights)
    score: Any = str(attrs.get("similarity", "log_ratio"))
    noise = float(attrs.get("database_noise", 1.0))
    other = [None] * len(within) if noise == 1 else noise * within
    return [
        PairSimilarity(*part, score=score)
        for part in zip(weights, means, between, within, other, strict=True)
    ]


def _matrices(posterior: xr.Dataset, rows: Any) -> list[Metric]:
    names = {str(name) for name in posterior}
    matrix = next((name for name in ("M", "J") if name in names), None)
    if matrix is None:
        raise ValueError(
            "draws: wanted a posterior of a metric (M, J, or a two-stage mixture), got "
            f"{', '.join(sorted(names))}"
        )
    with jax.enable_x64(True):
        # M = WᵀW has rounding-level negative eigenvalues when p < d.
        factors = np.asarray(jax.vmap(_factor)(rows(matrix)))
    if matrix == "J" or "b" not in names:
        return [Mahalanobis(factor) for factor in factors]
    half = np.asarray(0.5)
    return [
        Mahalanobis(factor, Link(np.asarray(b), half))
        for factor, b in zip(factors, rows("b"), strict=True)
    ]


def _factor(M: Any) -> Any:
    return psd_factor(M, tol=1e-10)
