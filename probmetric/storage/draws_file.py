"""Draws on disk: ArviZ's NetCDF in and out, and the metrics that draws stand for.

A file of ``save_draws`` ends in a checksum of all before it, which readers of NetCDF
pass over. HDF5 may loop for ever over damaged bytes, in C, where no signal stops it; so
``load_draws`` compares the checksum before HDF5 opens the file. Files that other
programs wrote have none and are read as they are.
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from probmetric.files import LARGEST_RATIO, readable, reason, replacing
from probmetric.names import kind_of
from probmetric.posterior.draws import posterior_metric, readers_of
from probmetric.posterior.metric import PosteriorMetric
from probmetric.storage.kinds import check_parts
from probmetric.typing import Purpose

MARK = b"\nprobmetric sha256 "
TAIL = len(MARK) + 2 * hashlib.sha256().digest_size


def save_draws(draws: xr.DataTree, path: "str | Path") -> None:
    """Write a DataTree as NetCDF, whole or not at all; a file at ``path`` is replaced.

    It ends in a checksum, which `load_draws` compares and other readers pass over.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np, xarray as xr
    >>> b = xr.Dataset({"b": (("chain", "draw"), np.zeros((2, 5)))})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_draws(xr.DataTree.from_dict({"posterior": b}), f"{folder}/draws.nc")
    ...     [path.name for path in Path(folder).iterdir()]
    ['draws.nc']
    """
    # Through memory: what HDF5 says of a full disk says nothing of the disk.
    buffer = io.BytesIO()
    draws.to_netcdf(buffer, engine="h5netcdf")
    with replacing(Path(path)) as part:
        with part.open("wb") as file:
            file.write(buffer.getbuffer())
            digest = hashlib.sha256(buffer.getbuffer()).hexdigest()
            file.write(MARK + digest.encode())


def load_draws(path: "str | Path") -> xr.DataTree:
    """Read the draws of ``sample`` from a NetCDF file, into memory.

    Raises
    ------
    ValueError
        For a file that is missing, truncated, damaged, or holds no posterior. Damage
        is found for certain where 8 of the last 83 bytes, a checksum, are left.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, xarray as xr
    >>> b = xr.Dataset({"b": (("chain", "draw"), np.zeros((2, 5)))})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_draws(xr.DataTree.from_dict({"posterior": b}), f"{folder}/draws.nc")
    ...     load_draws(f"{folder}/draws.nc")["posterior"]["b"].shape
    (2, 5)
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(
            f"draws: expected a file, got {kind_of(path)} at {str(path)!r}"
        )
    if not path.is_file():
        raise ValueError(f"draws: expected a file that exists, got {str(path)!r}")
    with readable(f"draws: expected a readable NetCDF file, got {str(path)!r}"):
        _check_sum(path)
        # Where this fails h5netcdf would fail half open, and say so again later.
        with h5py.File(path) as raw:
            bool(raw.attrs.get("_nc3_strict"))
            _check_item("/", raw)
            raw.visititems(_check_item)
        with xr.open_datatree(path.absolute(), engine="h5netcdf") as file:
            posterior = file.children.get("posterior")
            if posterior is not None and {"chain", "draw"} <= set(posterior.sizes):
                return file.load()
            groups = sorted(file.children)
    raise ValueError(
        f"draws: expected a posterior of chains and draws in {str(path)!r}, got "
        f"groups {groups}"
    )


UNWRITTEN = 1 << 24
"""Bytes of an array that need not have been written: such as a dimension's."""


def _check_item(name: str, item: h5py.Group | h5py.Dataset) -> None:
    """Raise for a group with two links, or an array much larger than what was written.

    A group that is linked to from inside itself has no end. HDF5 makes up what was
    never written: a file of some kilobytes may promise any number of zeros.
    """
    low_level: Any = h5py
    if isinstance(item, h5py.Group) and low_level.h5o.get_info(item.id).rc > 1:
        raise ValueError(f"{name}: more than one link leads to this group")
    if isinstance(item, h5py.Dataset) and item.shape is not None:
        held = LARGEST_RATIO * item.id.get_storage_size()
        if item.size * item.dtype.itemsize > max(held, UNWRITTEN):
            raise ValueError(f"{name}: {item.shape} numbers, of which few were written")


def _check_sum(path: Path) -> None:
    """Raise where a file ends in a checksum, or a part of it, that is not its own."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - TAIL, 0))
        tail = file.read(TAIL)
        start = tail.rfind(MARK[:8])
        if start < 0:
            return
        file.seek(0)
        found = hashlib.sha256()
        left = size - len(tail) + start
        while left > 0 and (block := file.read(min(left, 1 << 20))):
            found.update(block)
            left -= len(block)
    if tail[start:] != MARK + found.hexdigest().encode():
        raise ValueError("other bytes than were written: its checksum differs")


def draws_feature_names(draws: xr.DataTree) -> tuple[str, ...] | None:
    """Return the features' names that draws carry, None where they carry none.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from probmetric.storage import draws_feature_names
    >>> M = np.tile(np.eye(2), (2, 5, 1, 1))
    >>> dims, names = ("chain", "draw", "feature", "feature_bis"), ["length", "width"]
    >>> posterior = xr.Dataset({"M": (dims, M)}, {"feature": names})
    >>> draws_feature_names(xr.DataTree.from_dict({"posterior": posterior}))
    ('length', 'width')
    """
    if "feature_names" in draws.attrs:
        with readable("draws: expected feature_names as a list in JSON"):
            names = json.loads(str(draws.attrs["feature_names"]))
            return tuple(str(name) for name in [*names])
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

    Examples
    --------
    Two chains of five draws of a matrix are ten metrics:

    >>> import numpy as np
    >>> import xarray as xr
    >>> from probmetric.storage import posterior_of
    >>> M = np.tile(np.diag([1.0, 4.0]), (2, 5, 1, 1))
    >>> posterior = xr.Dataset({"M": (("chain", "draw", "feature", "feature_bis"), M)})
    >>> found = posterior_of(xr.DataTree.from_dict({"posterior": posterior}))
    >>> found.n_draws, round(found.draws[0](np.zeros(2), np.ones(2)) ** 2, 6)
    (10, 5.0)
    """
    readers = readers_of(draws.attrs.get("learner"))
    for name, values in draws["posterior"].data_vars.items():
        if values.dtype.kind not in "biuf" or values.dims[:2] != ("chain", "draw"):
            raise ValueError(
                f"draws: expected numbers of (chain, draw, ...) in {name}, got "
                f"{values.dtype} of {values.dims}"
            )
        if np.isnan(values.to_numpy()).any():
            raise ValueError(f"draws: expected numbers in {name}, got NaN")
    try:
        found = posterior_metric(draws, readers, purpose, n_draws=max_draws)
        check_parts(found.draws[0], "draws")
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, ValueError) and ": expected" in str(error):
            raise
        raise ValueError(
            f"draws: expected those of a learner, got other shapes ({reason(error)})"
        ) from error
    return found
