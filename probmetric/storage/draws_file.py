"""Draws of ``sample`` on disk as ArviZ's NetCDF, and their conversion to metrics.

``save_draws`` appends a checksum, which other readers of NetCDF ignore. HDF5 may not
return for a damaged file, so ``load_draws`` compares the checksum before HDF5 opens the
file. Files from other programs have no checksum, and are read without this check.
"""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
import xarray as xr

from probmetric.files import readable, reason, replacing
from probmetric.names import check_file
from probmetric.posterior.draws import posterior_metric, readers_of
from probmetric.posterior.metric import PosteriorMetric
from probmetric.typing import Purpose

MARK = b"\nprobmetric sha256 "
TAIL = len(MARK) + 2 * hashlib.sha256().digest_size


def save_draws(draws: xr.DataTree, path: "str | Path") -> None:
    """Store a DataTree as NetCDF with a checksum.

    An existing file is replaced. If writing fails, the existing file is not changed.

    Examples
    --------
    >>> import tempfile, numpy as np, xarray as xr
    >>> b = xr.Dataset({"b": (("chain", "draw"), np.zeros((2, 5)))})
    >>> path = Path(tempfile.mkdtemp()) / "draws.nc"
    >>> save_draws(xr.DataTree.from_dict({"posterior": b}), path)
    >>> load_draws(path)["posterior"]["b"].shape
    (2, 5)
    """
    # Through memory, because HDF5 does not report a full disk as such.
    buffer = io.BytesIO()
    draws.to_netcdf(buffer, engine="h5netcdf")
    with replacing(Path(path)) as part:
        with part.open("wb") as file:
            file.write(buffer.getbuffer())
            digest = hashlib.sha256(buffer.getbuffer()).hexdigest()
            file.write(MARK + digest.encode())


def load_draws(path: "str | Path") -> xr.DataTree:
    """Load the draws of ``sample`` from a NetCDF file into memory.

    Raises ValueError if the file is missing or damaged, or contains no posterior.
    Damage is always detected in files from ``save_draws``, but may remain undetected in
    files from other programs.
    """
    path = Path(path)
    check_file(path, "draws")
    with readable(f"draws must be a readable NetCDF file, got {str(path)!r}"):
        _check_sum(path)
        with xr.open_datatree(path.absolute(), engine="h5netcdf") as file:
            posterior = file.children.get("posterior")
            if posterior is not None and {"chain", "draw"} <= set(posterior.sizes):
                return file.load()
            groups = sorted(file.children)
    raise ValueError(
        "draws must contain a group 'posterior' with axes chain and draw, got groups "
        f"{groups} in {str(path)!r}"
    )


def _check_sum(path: Path) -> None:
    content = path.read_bytes()
    start = content.rfind(MARK[:8], max(len(content) - TAIL, 0))
    if start >= 0:
        digest = hashlib.sha256(memoryview(content)[:start]).hexdigest()
        if content[start:] != MARK + digest.encode():
            raise ValueError("wrong checksum, the file is damaged or truncated")


def draws_feature_names(draws: xr.DataTree) -> tuple[str, ...] | None:
    """Return the feature names stored with draws, or None if there are none."""
    if "feature_names" in draws.attrs:
        with readable("feature_names of draws must be a list in JSON"):
            names = json.loads(str(draws.attrs["feature_names"]))
            return tuple(str(name) for name in [*names])
    coords = draws["posterior"].coords
    if "feature" in coords:
        return tuple(str(name) for name in coords["feature"].to_numpy())
    return None


def posterior_of(
    draws: xr.DataTree, *, purpose: Purpose = "intervals", max_draws: int | None = None
) -> PosteriorMetric:
    """Convert draws of ``sample`` to a ``PosteriorMetric``.

    Parameters
    ----------
    draws : DataTree
        Draws that ``sample`` returned. Their attribute ``learner`` is the name of the
        learner. Without it, the draws must contain the matrix ``M`` of the metric, the
        Fisher information ``J``, or the components of a two-stage mixture. With ``M``
        and ``b``, the metric computes P(same), which is e^{-b} at distance 0.
    purpose : {"intervals", "prediction"}, default="intervals"
        With "prediction", methods of the result that compute intervals or probabilities
        of neighbors raise an error.
    max_draws : int, optional
        Maximum number of draws to use, evenly spaced over all chains. Default: all.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> M = np.tile(np.diag([1.0, 4.0]), (2, 5, 1, 1))
    >>> posterior = xr.Dataset({"M": (("chain", "draw", "feature", "feature_bis"), M)})
    >>> metrics = posterior_of(xr.DataTree.from_dict({"posterior": posterior}))
    >>> metrics.n_draws, round(metrics.draws[0](np.zeros(2), np.ones(2)) ** 2, 6)
    (10, 5.0)
    """
    readers = readers_of(draws.attrs.get("learner"))
    for name, values in draws["posterior"].data_vars.items():
        if values.dtype.kind not in "biuf" or values.dims[:2] != ("chain", "draw"):
            raise ValueError(
                "draws: variables must be numbers with axes (chain, draw, ...), got "
                f"{values.dtype} with axes {values.dims} in {name}"
            )
        if np.isnan(values.to_numpy()).any():
            raise ValueError(
                f"draws must not contain NaN, got NaN in {name}. Sample again."
            )
    try:
        return posterior_metric(draws, readers, purpose, n_draws=max_draws)
    except (LookupError, TypeError, ValueError) as error:
        if str(error).startswith("draws"):
            raise
        raise ValueError(
            f"draws must have the shapes of a learner's draws, got {reason(error)}"
        ) from error
