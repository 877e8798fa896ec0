"""Draws of triplet comparisons: compared with NUTS, and calibration."""

from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem
from probmetric.checks.claims import calibrated, near, nuts, nuts_draws, prior_times
from probmetric.checks.sides import as_dataset
from probmetric.checks.triplet_comparisons.problems import fit_problem, triples
from probmetric.data.containers import OddOneOut, Triplets
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import TARGET_ACCEPT
from probmetric.inference.sampling.target import Draws, Posterior
from probmetric.inference.triplet_comparisons.target import posterior
from probmetric.models.triplet_comparisons import TripletPrior, triplet_comparisons

N_DISTANCES = 8

CAREFUL = NUTS(target_accept=TARGET_ACCEPT)
"""At the default of 0.8 chains diverge, and few draws of M are effective."""


def _entries(problem: Problem[Triplets], drawn: Draws) -> xr.Dataset:
    del problem
    M = np.asarray(drawn.values["M"])
    i, j = np.tril_indices(M.shape[-1])
    return as_dataset({"M": M[..., i, j]})


def _posterior(problem: Problem[Triplets]) -> Posterior:
    params = fit_problem(problem).params
    return posterior(params, problem.data, problem.prior, **problem.options)


def _log_distances(
    problem: Problem[Triplets], sampler: Any = CAREFUL, **options: Any
) -> xr.Dataset:
    """Sample log distances of a few pairs of points, in closed form."""
    args = problem.params, problem.data, problem.prior
    with jax.enable_x64(True):
        around = posterior(*args, **problem.options, **options)
        drawn = sampler.draw(around, seed=5, n_draws=500, progress=False)
    X = np.asarray(problem.data.X)
    delta = X[:N_DISTANCES] - X[N_DISTANCES : 2 * N_DISTANCES]
    squared = np.einsum("pk,cskl,pl->csp", delta, drawn.values["M"], delta)
    return as_dataset({"log distance": 0.5 * np.log(squared)}, drawn.attributes)


def _world() -> tuple[Triplets, TripletPrior]:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 2))
    a, near, far = triples(rng, 40, 150)
    triplets = Triplets(X, a, near, far, np.zeros(150, int))
    return triplets, TripletPrior(0.8 * np.eye(2), c=0.8, lam=2.0)


def _odd_world() -> tuple[Triplets, TripletPrior]:
    triplets, prior = _world()
    return OddOneOut(*triplets), prior


def _rated_world() -> tuple[Triplets, TripletPrior]:
    triplets, prior = _world()
    rater = np.arange(len(triplets.anchor)) % 3
    prior = prior._replace(lapse=(1.0, 10.0), spread=np.full(3, 0.5))
    return triplets._replace(rater=rater), prior


CHECKS = (
    nuts(
        nuts_draws(triplet_comparisons, _entries, n_draws=1000, sampler=CAREFUL),
        _entries,
        _posterior,
        n_draws=1000,
        sampler=CAREFUL,
        wrong={"prior a third as wide": prior_times(lam=9.0)},
    ),
    near(
        "Laplace's log distances are near NUTS draws",
        _log_distances,
        partial(_log_distances, sampler=Laplace(), quotient=True),
        bound=0.5,
    ),
    calibrated(triplet_comparisons, _world, n_simulations=800),
    calibrated(
        triplet_comparisons,
        _odd_world,
        name="the posterior of odd-one-out responses with lapses is calibrated (SBC)",
        options={"lapse_rate": 0.1},
        n_simulations=400,
    ),
    calibrated(
        triplet_comparisons,
        _rated_world,
        name="the posterior of raters and a learned lapse rate is calibrated (SBC)",
        n_simulations=200,
    ),
)
