"""Warnings after sampling: divergences, high R-hat, low effective sample size."""

import warnings
from collections.abc import Mapping

import numpy as np
import xarray as xr

from probmetric.inference.sampling.summary import (
    entry_names,
    equal_chains,
    listed,
    summarise,
)

RHAT_MAX = 1.01
ESS_PER_CHAIN = 100
"""Effective draws a chain below which R-hat and errors are themselves unreliable."""


class SamplingWarning(UserWarning):
    """Draws not to be trusted yet: divergences, equal chains, high R-hat, low ESS."""


def warn_of_trouble(
    values: Mapping[str, np.ndarray], statistics: Mapping[str, np.ndarray]
) -> None:
    """Warn of divergences, equal chains, high R-hat and low sample size, by name.

    Parameters
    ----------
    values : mapping of str to array of shape (n_chains, n_draws, ...)
        The reported functionals.
    statistics : mapping of str to array of shape (n_chains, n_draws)
        With ``diverging``; empty of independent draws, of which nothing is said.
    """
    if not statistics:
        return
    diverging = np.asarray(statistics["diverging"])
    if diverging.any():
        _warn(
            f"{diverging.sum()} of {diverging.size} draws diverged: the posterior has "
            "corners the sampler cannot enter; raise target_accept (to .95), or set a "
            "stronger prior"
        )
    n_chains, n_draws = diverging.shape
    bad = [name for name, v in values.items() if not np.all(np.isfinite(v))]
    if bad:
        _warn(f"draws of {', '.join(bad)} are not all finite")
    finite = {name: v for name, v in values.items() if name not in bad and v.size}
    if not finite or n_draws < 4:
        return
    table = xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_{k}" for k in range(v.ndim - 2))), v)
            for name, v in finite.items()
        }
    )
    copies = equal_chains(table)
    if copies:
        _warn(
            f"{listed(copies)} are equal in every draw: they are copies, and R-hat and "
            "effective sample sizes count them as chains of their own"
        )
    summary, names = summarise(table), np.array(entry_names(table))
    if n_chains > 1:
        high = ~summary.constant & ~(summary.rhat < RHAT_MAX)
        _warn_entries("R-hat", names, summary.rhat, high, f"above {RHAT_MAX}")
    least = ESS_PER_CHAIN * n_chains
    low = ~summary.constant & ~(summary.ess >= least)
    _warn_entries("effective sample size", names, summary.ess, low, f"below {least}")


def _warn_entries(
    what: str, names: np.ndarray, numbers: np.ndarray, bad: np.ndarray, limit: str
) -> None:
    if not bad.any():
        return
    at = np.flatnonzero(bad)[:5]
    listed = ", ".join(f"{names[i]}: {numbers[i]:.4g}" for i in at)
    more = f" and {bad.sum() - len(at)} more" if bad.sum() > len(at) else ""
    _warn(f"{what} {limit} for {listed}{more}: raise n_draws or n_warmup")


def _warn(message: str) -> None:
    warnings.warn(message, SamplingWarning, stacklevel=4)
