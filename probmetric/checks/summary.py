"""Summaries of draws for comparisons: mean, sd, Monte Carlo error, R-hat, ESS.

R-hat, effective sample sizes and Monte Carlo errors are computed by ArviZ.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from probmetric.inference.sampling.summary import (
    SAMPLE_DIMS,
    equal_chains,
    listed,
    stacked,
)
from probmetric.typing import ArrayLike


class Summary(NamedTuple):
    """Statistics of draws by entry; all have shape (m,).

    ``skew`` is the skewness of the draws, ``ess`` the effective sample size of the
    mean, ``sd_mcse`` the Monte Carlo error of ``sd``, and ``eps`` the rounding unit of
    the draws. ``constant`` is True if all draws are equal.
    """

    estimate: np.ndarray
    sd: np.ndarray
    skew: np.ndarray
    mcse: np.ndarray
    sd_mcse: np.ndarray
    ess: np.ndarray
    rhat: np.ndarray
    constant: np.ndarray
    eps: np.ndarray


def select(
    draws: "xr.Dataset | xr.DataTree",
    names: Sequence[Hashable] | None,
    argument: str,
    *,
    min_chains: int = 2,
) -> xr.Dataset:
    """Return variables of draws with chain (two for R-hat) and draw as first axes."""
    if isinstance(draws, xr.DataTree):
        if "posterior" not in draws.children:
            raise ValueError(
                f"{argument} must contain a group 'posterior', got groups "
                f"{list(draws.children)}"
            )
        draws = draws["posterior"].to_dataset()
    names = list(draws.data_vars) if names is None else list(names)
    if not names:
        raise ValueError(f"{argument} must contain at least one quantity, got none")
    missing = [name for name in names if name not in draws.data_vars]
    if missing:
        raise ValueError(
            f"{argument} must contain the quantities {missing}, got "
            f"{list(draws.data_vars)}"
        )
    for name in names:
        dims = draws[name].dims
        if not set(SAMPLE_DIMS) <= set(dims):
            raise ValueError(
                f"{argument} must have dims 'chain' and 'draw' in {name!r}, got {dims}"
            )
    table = draws[names].transpose(*SAMPLE_DIMS, ...)
    n_chains, n_draws = table.sizes["chain"], table.sizes["draw"]
    if n_chains < min_chains or n_draws < 4:
        raise ValueError(
            f"{argument} must have at least {min_chains} chain(s) of at least 4 draws, "
            f"got {n_chains} of {n_draws}"
        )
    for name in names:
        if not np.all(np.isfinite(table[name].to_numpy())):
            raise ValueError(f"{argument} must be finite, got NaN or inf in {name!r}")
    copies = equal_chains(table)
    if copies:
        raise ValueError(
            f"{argument}: chains must differ, got {listed(copies)} equal in every "
            "draw. Use a different key for each chain, and read each file once."
        )
    return table


def align(reference: xr.Dataset, draws: xr.Dataset, argument: str) -> xr.Dataset:
    """Return ``draws`` in the order of ``reference``; raise if shapes differ."""
    for name in reference.data_vars:
        shape, got = reference[name].shape[2:], draws[name].shape[2:]
        if shape != got:
            raise ValueError(
                f"{argument} must have shape {shape} in {name!r}, got {got}"
            )
    return draws[list(reference.data_vars)]


def flatten(
    values: Mapping[str, ArrayLike], table: xr.Dataset, argument: str
) -> np.ndarray:
    """Stack reference values in the order of the entries of the table, shape (m,)."""
    missing = [name for name in table.data_vars if name not in values]
    if missing:
        raise ValueError(f"{argument} must contain a value for {missing}, got none")
    columns: list[np.ndarray] = []
    for name, draws in table.data_vars.items():
        value = np.asarray(values[str(name)], float)
        if value.shape != draws.shape[2:]:
            raise ValueError(
                f"{argument} must have shape {draws.shape[2:]} in {name!r}, got "
                f"{value.shape}"
            )
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{argument} must be finite, got NaN or inf in {name!r}")
        columns.append(value.ravel())
    return np.concatenate(columns)


def summarize(table: xr.Dataset) -> Summary:
    """Return the summary of every entry, in the order of ``entry_names``."""
    # ArviZ's statistics take a second to import and only comparisons need them.
    from arviz_stats.base.array import array_stats

    eps = [
        np.full(a[0, 0].size, np.finfo(a.dtype).eps if a.dtype.kind == "f" else 0.0)
        for a in table.data_vars.values()
    ]
    x = stacked(table)
    constant = np.ptp(x, axis=(0, 1)) == 0
    live = np.moveaxis(x[:, :, ~constant], 2, 0)

    def spread(numbers: ArrayLike, fill: float) -> np.ndarray:
        column = np.full(len(constant), fill)
        column[~constant] = np.ravel(numbers)
        return column

    sd = live.std((1, 2), ddof=1)
    centered = live - live.mean((1, 2), keepdims=True)
    skew = np.mean((centered / sd[:, None, None]) ** 3, axis=(1, 2))
    # R-hat is NaN or infinite for a chain that never moves, above any limit.
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = array_stats.ess(live, method="mean")
        rhat = array_stats.rhat(live) if len(x) > 1 else np.full(len(live), np.nan)
    return Summary(
        estimate=np.where(constant, x[0, 0], x.mean((0, 1))),
        sd=spread(sd, 0.0),
        skew=spread(skew, 0.0),
        mcse=spread(sd / np.sqrt(ess), 0.0),
        sd_mcse=spread(array_stats.mcse(live, method="sd"), 0.0),
        ess=spread(ess, np.nan),
        rhat=spread(rhat, np.nan),
        constant=constant,
        eps=np.concatenate(eps),
    )
