"""Warnings after sampling, for the findings of ``diagnostics``."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from probmetric.inference.sampling.datatree import DIMS
from probmetric.inference.sampling.diagnostics import findings
from probmetric.typing import Names


class SamplingWarning(UserWarning):
    """A problem with draws; ``sampling.diagnose`` returns the list of problems.

    Examples
    --------
    >>> import warnings
    >>> from probmetric.inference.sampling import SamplingWarning
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     warnings.warn("R-hat of b is 1.2: draw more", SamplingWarning)
    >>> issubclass(caught[0].category, UserWarning), str(caught[0].message)
    (True, 'R-hat of b is 1.2: draw more')
    """


def warn_of_trouble(
    values: Mapping[str, np.ndarray],
    statistics: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any] | None = None,
    feature_names: Names | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Warn for each finding of ``diagnostics``.

    Parameters
    ----------
    values : mapping of str to array of shape (n_chains, n_draws, ...)
        The reported quantities to check.
    statistics : mapping of str to array of shape (n_chains, n_draws)
        Statistics of the sampler; empty if the draws are independent.
    attributes : mapping, optional
        The entries ``khat``, ``method`` and ``undetermined`` are used.
    feature_names, dims : optional
        Names for the entries in warnings; see ``to_datatree``.
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
        for axis, dim in zip(axes, table[name].dims[2:], strict=False):
            if axis.startswith("feature") and table.sizes[dim] == len(feature_names):
                table = table.assign_coords({dim: [*map(str, feature_names)]})
    for finding in findings(table, statistics, attributes or {}):
        warnings.warn(str(finding), SamplingWarning, stacklevel=3)
