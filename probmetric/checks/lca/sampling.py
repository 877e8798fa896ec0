"""LCA's approximations compared with NUTS, and its calibration.

The distance of Laplace's draws and of the variational guide from NUTS must stay within
the bound (in posterior sd) of the claim. The distance is largest for b, because the
posterior of b is skewed.
"""

import jax
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem
from probmetric.checks.claims import calibrated, near
from probmetric.checks.lca.posterior import some_pairs
from probmetric.checks.problems import random_pairs
from probmetric.checks.sides import as_dataset
from probmetric.data.containers import Pairs
from probmetric.inference.lca.laplace import laplace as lca_laplace
from probmetric.inference.lca.laplace import laplace_draws
from probmetric.inference.lca.target import TARGET, start, target_data
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Draws, Posterior
from probmetric.models.lca import (
    LCAPrior,
    identified,
    lca,
)

N_DISTANCES = 8


def _metric_summaries(problem: Problem[Pairs], draws: Draws) -> xr.Dataset:
    """Return distances of a few pairs, and log b (less skewed than b)."""
    pairs = some_pairs(problem, N_DISTANCES)
    delta = pairs.X[pairs.i] - pairs.X[pairs.j]
    squared = np.einsum("pk,cskl,pl->csp", delta, draws.values["M"], delta)
    values = {"distance": np.sqrt(squared), "log b": np.log(draws.values["b"])}
    return as_dataset(values, draws.attributes)


def _pooled(problem: Problem[Pairs]) -> Posterior:
    rate, params = problem.options["learning_rate"], problem.params
    data = target_data(problem.data, problem.prior, rate, params)
    return Posterior(TARGET, data, start(params, data))


def nuts_reference(problem: Problem[Pairs]) -> xr.Dataset:
    """Sample the pooled target from Laplace's start, with short steps."""
    sampler = NUTS(target_accept=0.9)
    with jax.enable_x64(True):
        draws = sampler.draw(_pooled(problem), seed=3, progress=False)
    return _metric_summaries(problem, draws)


def laplace_estimate(problem: Problem[Pairs]) -> xr.Dataset:
    """Draw from Laplace's Gaussian across rotations, with its k-hat."""
    with jax.enable_x64(True):
        posterior = _pooled(problem)
        around = start(problem.params, posterior.data, quotient=True)
        gaussian = lca_laplace(problem.params, *posterior.data[:3])
        drawn = laplace_draws(gaussian, jax.random.key(5), 4000)
        values = jax.jit(jax.vmap(identified))(drawn)
        plain = Laplace().draw(posterior._replace(start=around), seed=6)
    values = {k: np.asarray(v)[None] for k, v in values.items()}
    return _metric_summaries(problem, plain._replace(values=values))


def svi_estimate(problem: Problem[Pairs]) -> xr.Dataset:
    """Draw from a full-rank Gaussian guide (3000 steps are too few for log b)."""
    args, options = (problem.data, problem.prior), dict(problem.options)
    with jax.enable_x64(True):
        draws = SVI(n_steps=20_000).draw_model(
            lca, args, options, seed=7, n_draws=4000, progress=False
        )
    return _metric_summaries(problem, draws)


def _world() -> tuple[Pairs, LCAPrior]:
    pairs = random_pairs(np.random.default_rng(6), 60, 100, 2)
    prior = LCAPrior(0.8 * np.eye(2), c=0.8, lam=2.0)
    return pairs._replace(y=np.zeros(100, int)), prior


CHECKS = (
    near(
        "Laplace's distances and b are near NUTS draws",
        nuts_reference,
        laplace_estimate,
        bound=1.0,
    ),
    near(
        "SVI's distances and b are near NUTS draws",
        nuts_reference,
        svi_estimate,
        bound=1.0,
    ),
    calibrated(lca, _world),
)
