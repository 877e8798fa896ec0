"""Draws of the generalized dissimilarity model: compared with NUTS, and calibration."""

import numpy as np
import xarray as xr

from probmetric.checks.check import Problem
from probmetric.checks.claims import calibrated, nuts, nuts_draws, prior_times
from probmetric.checks.gdm.problems import fit_problem
from probmetric.checks.sides import as_dataset
from probmetric.data.containers import Pairs
from probmetric.inference.gdm.draws import posterior
from probmetric.inference.gdm.fit import knots_for
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Draws, Posterior
from probmetric.models.gdm import GDMPrior, gdm

SAMPLER = NUTS(target_accept=0.95)


def _summary(problem: Problem[Pairs], drawn: Draws) -> xr.Dataset:
    del problem
    return as_dataset({name: drawn.values[name] for name in ("b", "theta")})


def _posterior(problem: Problem[Pairs]) -> Posterior:
    params = fit_problem(problem).params
    return posterior(params, problem.data, problem.prior, **problem.options)


def _world() -> tuple[Pairs, GDMPrior]:
    rng = np.random.default_rng(6)
    X, i = rng.gamma(2.0, size=(30, 2)), rng.integers(0, 30, 80)
    j = (i + rng.integers(1, 30, 80)) % 30
    pairs = Pairs(X, i, j, np.zeros(80, int), trials=rng.integers(1, 7, 80))
    return pairs, GDMPrior(knots_for(X), np.asarray(0.8), np.asarray(0.5))


CHECKS = (
    nuts(
        nuts_draws(gdm, _summary, n_draws=2000, sampler=SAMPLER),
        _summary,
        _posterior,
        n_draws=2000,
        n_wrong=1000,
        sampler=SAMPLER,
        wrong={"prior half as wide": prior_times(scale=0.5)},
    ),
    calibrated(gdm, _world),
)
