"""Draws of the closed form against NUTS on the NumPyro model, and calibration."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem, by_sampling, by_sbc, near_sampling
from probmetric.checks.sbc import model_story, sbc
from probmetric.checks.sides import as_dataset, sampled
from probmetric.checks.triplet_comparisons.problems import triples
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Triplets
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Draws, cast, model_target
from probmetric.inference.triplet_comparisons.draws import TARGET_ACCEPT
from probmetric.inference.triplet_comparisons.fit import fit
from probmetric.inference.triplet_comparisons.target import posterior
from probmetric.models.triplet_comparisons import TripletPrior, triplet_comparisons

N_DISTANCES = 8

CAREFUL = NUTS(target_accept=TARGET_ACCEPT)
"""At .8, the default, chains diverge: worth 500 to 3500 of 12 000, at worst of M."""


def _entries(values: Any) -> xr.Dataset:
    """Return the entries of M on and below the diagonal, of which there are two."""
    M = np.asarray(values["M"])
    i, j = np.tril_indices(M.shape[-1])
    return as_dataset({"M": M[..., i, j]})


def nuts_reference(problem: Problem[Triplets]) -> xr.Dataset:
    """Sample the NumPyro model, told nothing of where its posterior lies."""
    args = (problem.data, problem.prior)
    options = dict(problem.options)
    sampler = replace(CAREFUL, n_warmup=500)
    drawn = sampled(
        triplet_comparisons, args, options, seed=3, n_draws=1000, sampler=sampler
    )
    return _entries(drawn.values)


def target_estimate(
    problem: Problem[Triplets], lam: float = 1.0, n_draws: int = 1000
) -> xr.Dataset:
    """Sample the closed form from Laplace's start; wrong in λ."""
    data, rate = problem.data, problem.options["learning_rate"]
    prior = problem.prior._replace(lam=lam * problem.prior.lam)
    with jax.enable_x64(True):
        params = fit(data, prior, learning_rate=rate).params
        drawn = CAREFUL.draw(
            posterior(params, data, prior, learning_rate=rate),
            seed=4,
            n_draws=n_draws,
            progress=False,
        )
    return _entries(drawn.values)


def _log_distances(problem: Problem[Triplets], draws: Draws) -> xr.Dataset:
    """Return log distances of a few pairs of points."""
    X = np.asarray(problem.data.X)
    delta = X[:N_DISTANCES] - X[N_DISTANCES : 2 * N_DISTANCES]
    squared = np.einsum("pk,cskl,pl->csp", delta, draws.values["M"], delta)
    return as_dataset({"log distance": 0.5 * np.log(squared)}, draws.attributes)


def _drawn(problem: Problem[Triplets], sampler: Any, **options: Any) -> xr.Dataset:
    given = problem.params, problem.data, problem.prior
    with jax.enable_x64(True):
        around = posterior(*given, **problem.options, **options)
        drawn = sampler.draw(around, seed=5, n_draws=500, progress=False)
    return _log_distances(problem, drawn)


def nuts_distances(problem: Problem[Triplets]) -> xr.Dataset:
    """Sample the closed form by NUTS: at least 1049 effective draws, 400 are asked."""
    return _drawn(problem, CAREFUL)


def laplace_distances(problem: Problem[Triplets], quotient: bool = True) -> xr.Dataset:
    """Draw from Laplace's Gaussian across the rotations of W; wrong: with them."""
    return _drawn(problem, Laplace(), quotient=quotient)


def _world() -> tuple[Triplets, TripletPrior]:
    """Return 150 triplets of 40 points in d = 2, without answers."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 2))
    a, near, far = triples(rng, 40, 150)
    triplets = Triplets(X, a, near, far, None)
    return triplets, TripletPrior(0.8 * np.eye(2), c=0.8, lam=2.0)


def _observe(triplets: Triplets, sites: Any) -> Triplets:
    return triplets._replace(y=sites["y"])


def blind(triplets: Triplets, prior: TripletPrior) -> None:
    """Write a wrong model: half of the answers are read the other way."""
    at = np.arange(len(triplets.anchor)) % 2 == 0
    near = jnp.where(at, triplets.far, triplets.near)
    far = jnp.where(at, triplets.near, triplets.far)
    triplet_comparisons(triplets._replace(near=near, far=far), prior)


def calibrate(
    problem: Problem[Triplets],
    model: Callable[..., None] = triplet_comparisons,
    n_simulations: int = 800,
) -> Ranks:
    """Rank true values among draws of ``model``, in worlds made by the story."""
    del problem
    triplets, prior = _world()
    target, story, data = model_story(
        triplet_comparisons, triplets, _observe, prior=prior
    )
    if model is not triplet_comparisons:
        with jax.enable_x64(True):
            answered = triplets._replace(y=np.zeros(len(triplets.anchor), np.int32))
            target = model_target(model, cast((answered, prior), "float64"), {})[0]
    return sbc(
        target, story, data, seed=11, n_simulations=n_simulations, progress=False
    )


CHECKS = (
    by_sampling(
        "draws of the closed form are those of the NumPyro model",
        reference=nuts_reference,
        estimate=target_estimate,
        controls={
            "prior a third as wide": partial(target_estimate, lam=9.0, n_draws=750)
        },
        tol=0.25,  # Effective sizes on another machine vary by half.
        slow=True,
    ),
    near_sampling(
        "Laplace's log distances are near NUTS's",
        reference=nuts_distances,
        estimate=laplace_distances,
        controls={"rotations left in": partial(laplace_distances, quotient=False)},
        bound=0.5,
    ),
    by_sbc(
        "posterior is calibrated over simulated worlds",
        estimate=calibrate,
        controls={
            "half of the answers the other way": partial(
                calibrate, model=blind, n_simulations=100
            )
        },
        slow=True,
    ),
)
