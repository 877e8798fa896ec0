"""Warnings after sampling, for the findings of ``diagnostics``."""

import warnings
from collections.abc import Mapping, Sequence

import xarray as xr

from probmetric.inference.sampling.datatree import DIMS
from probmetric.inference.sampling.diagnostics import findings
from probmetric.inference.sampling.target import Draws
from probmetric.typing import Names


class SamplingWarning(UserWarning):
    """Warning about a problem with draws. ``sampling.diagnose`` lists all problems.

    Examples
    --------
    >>> issubclass(SamplingWarning, UserWarning)
    True
    """


def warn_of_trouble(
    drawn: Draws,
    *,
    feature_names: Names | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Warn for each finding of ``diagnostics``.

    ``khat``, ``method`` and ``undetermined`` are read from the attributes of ``drawn``.
    ``feature_names`` and ``dims`` name entries in the warnings.
    """
    table = xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_{k}" for k in range(v.ndim - 2))), v)
            for name, v in drawn.values.items()
        }
    )
    for name, axes in {**DIMS, **(dims or {})}.items():
        if feature_names is None or name not in table:
            continue
        for axis, dim in zip(axes, table[name].dims[2:], strict=False):
            if axis.startswith("feature") and table.sizes[dim] == len(feature_names):
                table = table.assign_coords({dim: [*map(str, feature_names)]})
    for finding in findings(table, drawn.statistics, drawn.attributes):
        warnings.warn(str(finding), SamplingWarning, stacklevel=3)
