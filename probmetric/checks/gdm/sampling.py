"""Draws of the closed form against NUTS on the NumPyro model, and calibration."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem, by_sampling, by_sbc
from probmetric.checks.sbc import model_story, sbc
from probmetric.checks.sides import as_dataset, sampled
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Pairs
from probmetric.inference.gdm.draws import posterior
from probmetric.inference.gdm.fit import fit, knots_for
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import cast, model_target
from probmetric.models.gdm import GDMPrior, gdm

SAMPLER = NUTS(target_accept=0.95)


def _quantities(values: Any) -> xr.Dataset:
    return as_dataset({name: np.asarray(values[name]) for name in ("b", "theta")})


def nuts_reference(problem: Problem[Pairs]) -> xr.Dataset:
    """Sample the NumPyro model, told nothing of where its posterior lies."""
    args, options = (problem.data, problem.prior), dict(problem.options)
    sampler = replace(SAMPLER, n_warmup=500)
    drawn = sampled(gdm, args, options, seed=3, n_draws=2000, sampler=sampler)
    return _quantities(drawn.values)


def target_estimate(
    problem: Problem[Pairs], scale: float = 1.0, n_draws: int = 2000
) -> xr.Dataset:
    """Sample the closed form from Laplace's start; wrong in the prior."""
    data, options = problem.data, problem.options
    prior = problem.prior._replace(scale=scale * problem.prior.scale)
    with jax.enable_x64(True):
        params = fit(data, prior, **options).params
        around = posterior(params, data, prior, **options)
        drawn = SAMPLER.draw(around, seed=4, n_draws=n_draws, progress=False)
    return _quantities(drawn.values)


def _world() -> tuple[Pairs, GDMPrior]:
    """Return 80 pairs of 30 sites in d = 2, of 1 to 6 units, without y."""
    rng = np.random.default_rng(6)
    X, i = rng.gamma(2.0, size=(30, 2)), rng.integers(0, 30, 80)
    j = (i + rng.integers(1, 30, 80)) % 30
    pairs = Pairs(X, i, j, None, trials=rng.integers(1, 7, 80))
    return pairs, GDMPrior(knots_for(X), np.asarray(0.8), np.asarray(0.5))


def _observe(pairs: Pairs, sites: Any) -> Pairs:
    return pairs._replace(y=sites["y"])


def blind(pairs: Pairs, prior: GDMPrior) -> None:
    """Write a wrong model: every unit is counted twice."""
    assert pairs.trials is not None
    y = None if pairs.y is None else 2 * pairs.y
    gdm(pairs._replace(y=y, trials=2 * pairs.trials), prior)


def calibrate(
    problem: Problem[Pairs],
    model: Callable[..., None] = gdm,
    n_simulations: int = 400,
) -> Ranks:
    """Rank true values among draws of ``model``, in worlds made by the story."""
    del problem
    pairs, prior = _world()
    target, story, data = model_story(gdm, pairs, _observe, prior=prior)
    if model is not gdm:
        with jax.enable_x64(True):
            seen = pairs._replace(y=np.zeros(len(pairs.i), np.int32))
            target = model_target(model, cast((seen, prior), "float64"), {})[0]
    return sbc(
        target, story, data, seed=11, n_simulations=n_simulations, progress=False
    )


CHECKS = (
    by_sampling(
        "draws of the closed form are those of the NumPyro model",
        reference=nuts_reference,
        estimate=target_estimate,
        controls={
            "prior half as wide": partial(target_estimate, scale=0.5, n_draws=1000)
        },
        tol=0.25,
        slow=True,
    ),
    by_sbc(
        "posterior is calibrated over simulated worlds",
        estimate=calibrate,
        controls={
            "every unit counted twice": partial(
                calibrate, model=blind, n_simulations=200
            )
        },
        slow=True,
    ),
)
