"""Draws of the closed form against NUTS on the NumPyro model."""

from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem, by_sampling
from probmetric.checks.sides import as_dataset, sampled
from probmetric.data.containers import Triplets
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.triplet_comparisons import fit, posterior
from probmetric.models.triplet_comparisons import triplet_comparisons


def _entries(values: Any) -> xr.Dataset:
    """Return the entries of M on and below the diagonal, of which there are two."""
    M = np.asarray(values["M"])
    i, j = np.tril_indices(M.shape[-1])
    return as_dataset({"M": M[..., i, j]})


def nuts_reference(problem: Problem[Triplets]) -> xr.Dataset:
    """Sample the NumPyro model, told nothing of where its posterior lies."""
    args = (problem.data, problem.prior)
    options = dict(problem.options)
    drawn = sampled(triplet_comparisons, args, options, seed=3, n_draws=3000)
    return _entries(drawn.values)


def target_estimate(problem: Problem[Triplets], lam: float = 1.0) -> xr.Dataset:
    """Sample the closed form from Laplace's start; wrong in λ."""
    data, rate = problem.data, problem.options["learning_rate"]
    prior = problem.prior._replace(lam=lam * problem.prior.lam)
    with jax.enable_x64(True):
        params = fit(data, prior, learning_rate=rate).params
        drawn = NUTS().draw(
            posterior(params, data, prior, learning_rate=rate),
            seed=4,
            n_draws=3000,
            progress=False,
        )
    return _entries(drawn.values)


CHECKS = (
    by_sampling(
        "draws of the closed form are those of the NumPyro model",
        reference=nuts_reference,
        estimate=target_estimate,
        controls={"prior a third as wide": partial(target_estimate, lam=9.0)},
        tol=0.25,  # Effective sizes on another machine vary by half.
        slow=True,
    ),
)
