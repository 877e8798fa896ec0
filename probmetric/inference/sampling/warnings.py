"""Warnings after sampling: what ``diagnostics`` finds, by name."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from probmetric.inference.sampling.datatree import DIMS
from probmetric.inference.sampling.diagnostics import findings
from probmetric.typing import Names


class SamplingWarning(UserWarning):
    """Draws not to be trusted yet; ``sampling.diagnose`` lists what may be wrong.

    Examples
    --------
    >>> import warnings
    >>> from probmetric.inference.sampling import SamplingWarning
    >>> with warnings.catch_warnings(record=True, action="always") as seen:
    ...     warnings.warn("R-hat of b is 1.2: draw more", SamplingWarning)
    >>> issubclass(seen[0].category, UserWarning), str(seen[0].message)
    (True, 'R-hat of b is 1.2: draw more')
    """


def warn_of_trouble(
    values: Mapping[str, np.ndarray],
    statistics: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any] | None = None,
    feature_names: Names | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Warn of each finding of ``diagnostics``, by name.

    Parameters
    ----------
    values : mapping of str to array of shape (n_chains, n_draws, ...)
        The reported functionals.
    statistics : mapping of str to array of shape (n_chains, n_draws)
        With ``diverging``; empty of independent draws.
    attributes : mapping, optional
        Of the run: ``khat`` and ``method`` of an approximation, ``undetermined``.
    feature_names, dims : optional
        As ``to_datatree`` takes them: entries are named by features.
    """
    table = xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_{k}" for k in range(v.ndim - 2))), v)
            for name, v in values.items()
        }
    )
    for name, axes in {**DIMS, **(dims or {})}.items():
        if feature_names is None or name not in table:
            continue
        for axis, own in zip(axes, table[name].dims[2:], strict=False):
            if axis.startswith("feature") and table.sizes[own] == len(feature_names):
                table = table.assign_coords({own: [*map(str, feature_names)]})
    for found in findings(table, statistics, attributes or {}):
        warnings.warn(str(found), SamplingWarning, stacklevel=3)
