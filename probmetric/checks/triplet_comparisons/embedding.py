"""Claims about an embedding of objects, compared with a model of independent places.

The reference model ``places`` draws the coordinates of every object independently,
without a linear map and without centering. By Eq. (1) of
``inference.triplet_comparisons.embedding``, this model equals a linear map of rows that
represent the objects, with prior mean 0.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from numpyro import handlers
from scipy.stats import norm

from probmetric.checks.check import (
    Problem,
    Values,
    by_gradient,
    by_sampling,
)
from probmetric.checks.claims import (
    Change,
    Sites,
    controls,
    mode,
    numpyro_density,
    prior_times,
    same,
)
from probmetric.checks.problems import fitted, standardized
from probmetric.checks.sides import as_dataset, sampled
from probmetric.checks.triplet_comparisons.density import (
    WRONG,
    closed,
    maps_around,
)
from probmetric.checks.triplet_comparisons.problems import triples
from probmetric.checks.triplet_comparisons.sampling import CAREFUL
from probmetric.data.containers import Triplets, weights
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.solvers.result import Fit
from probmetric.inference.triplet_comparisons.embedding import (
    embedding_prior,
    embedding_start,
    object_rows,
    of_objects,
)
from probmetric.inference.triplet_comparisons.fit import fit
from probmetric.inference.triplet_comparisons.start import SPREAD
from probmetric.inference.triplet_comparisons.target import posterior
from probmetric.models.triplet_comparisons import TripletPrior

MOST = 40
"""Objects of a labeled data set that are embedded."""


def places(
    triplets: Triplets, prior: TripletPrior, *, learning_rate: float = 1.0
) -> None:
    """Draw coordinates of each object independently, without a map (reference)."""
    shape = len(triplets.X), len(prior.mean)
    scale = prior.c / jnp.sqrt(prior.lam)
    Z: Any = numpyro.sample("Z", dist.Normal(0, scale).expand(shape).to_event(2))
    near, far = (
        jnp.sum((Z[triplets.anchor] - Z[k]) ** 2, -1)
        for k in (triplets.near, triplets.far)
    )
    # The difference of the places of objects 0, 1, ... and of the next one.
    numpyro.deterministic("squared", jnp.sum((Z[1:] - Z[:-1]) ** 2, -1))
    tempered = handlers.scale(scale=learning_rate * weights(triplets))
    with numpyro.plate("triplet", len(triplets.anchor)), tempered:
        numpyro.sample("y", dist.Bernoulli(logits=far - near), obs=triplets.y)


def _answered(seed: int, n: int, size: int) -> Triplets:
    rng = np.random.default_rng(seed)
    a, near, far = triples(rng, n, size)
    Z = rng.normal(size=(n, 2))
    y = rng.logistic(size=size) < _log_odds(Z, a, near, far)
    return Triplets(object_rows(n), a, near, far, y.astype(np.int32))


def _log_odds(
    Z: np.ndarray, a: np.ndarray, near: np.ndarray, far: np.ndarray
) -> np.ndarray:
    D = np.sum((Z[:, None] - Z) ** 2, -1)
    return D[a, far] - D[a, near]


def toy(seed: int) -> Problem[Triplets]:
    """Simulate 600 responses about 30 objects in the plane, and embed the objects."""
    data = _answered(seed, 30, 600)
    data = data._replace(w=0.5 + 0.75 * (np.arange(600) % 3))
    name, options = f"simulated, seed {seed}", {"learning_rate": 0.8}
    return fitted(fit_problem, name, data, embedding_prior(30, 2, 2.0), **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Triplets]:
    """Embed at most ``MOST`` points of a dataset by simulated responses."""
    Z = standardized(X, y)[0]
    Z = Z[np.unique(np.linspace(0, len(Z) - 1, MOST).astype(int))]
    rng, n = np.random.default_rng(0), len(Z)
    a, near, far = triples(rng, n, 20 * n)
    t = _log_odds(Z, a, near, far)
    t = t * SPREAD / np.sqrt(np.mean(t**2))
    answers = (rng.logistic(size=len(t)) < t).astype(np.int32)
    data = Triplets(object_rows(n), a, near, far, answers)
    options = {"learning_rate": 1.0}
    return fitted(fit_problem, "data", data, embedding_prior(n, 2), **options)


def fit_problem(problem: Problem[Triplets]) -> Fit:
    """Fit a problem from the first estimate, as the estimator does."""
    start = embedding_start(problem.data, len(problem.prior.mean))
    return fit(problem.data, problem.prior, start=start, **problem.options)


def density_of_places(problem: Problem[Triplets]) -> Values:
    """Evaluate the density of places at three maps, without the density of the mean."""
    density, B = numpyro_density(places, problem), np.asarray(problem.data.X)
    s = float(problem.prior.c) / np.sqrt(float(problem.prior.lam))
    values, slopes = [], []
    for at in maps_around(problem):
        W = np.asarray(at["W"])
        mean = 0.3 + np.arange(len(W))
        value, slope = density({"Z": jnp.asarray(B @ W.T + mean)})
        of_mean = norm.logpdf(np.sqrt(len(B)) * mean, scale=s).sum()
        values.append(value - of_mean)
        slopes.append(np.asarray(slope["Z"]).T @ B)
    return {"log density": values, "gradient in W": slopes}


def density_of_map(problem: Problem[Triplets], change: Change = same) -> Values:
    """Return the density of ``density_of_places`` in closed form, from the map."""
    function, args = closed(change(problem))
    both = jax.jit(jax.value_and_grad(function))
    values, slopes = zip(*(both(at, *args) for at in maps_around(problem)), strict=True)
    return {"log density": values, "gradient in W": [g["W"] for g in slopes]}


def _end(problem: Problem[Triplets]) -> Sites:
    return {
        "Z": np.asarray(problem.data.X) @ np.asarray(fit_problem(problem).params.W).T
    }


def places_reference(problem: Problem[Triplets]) -> xr.Dataset:
    """Sample the places of 4 objects with NUTS from the default initialization."""
    del problem
    args = (_answered(8, 4, 80), embedding_prior(4, 2))
    drawn = sampled(places, args, seed=3, n_draws=1000, sampler=NUTS(n_warmup=500))
    return as_dataset({"log distance": 0.5 * np.log(drawn.values["squared"])})


def embedding_estimate(problem: Problem[Triplets], lam: float = 1.0) -> xr.Dataset:
    """Sample the map of the objects' rows, around its mode; wrong in λ."""
    del problem
    data, prior = _answered(8, 4, 80), embedding_prior(4, 2, lam)
    with jax.enable_x64(True):
        params = fit(data, prior, start=embedding_start(data, 2)).params
        around = posterior(params, data, prior)
        drawn = CAREFUL.draw(around, seed=4, n_draws=1000, progress=False)
    G = of_objects(drawn).values["M"]
    norms = np.einsum("csii->csi", G)
    following = np.einsum("csii->csi", G[..., :-1, 1:])
    squared = norms[..., 1:] + norms[..., :-1] - 2 * following
    return as_dataset({"log distance": 0.5 * np.log(squared)})


CHECKS = (
    by_gradient(
        "log joint density of the map equals that of the places, with its gradient",
        reference=density_of_places,
        estimate=density_of_map,
        controls=controls(density_of_map, WRONG),
    ),
    mode(
        places,
        _end,
        name="the fit is a mode of the density of places",
        wrong={**WRONG, "another prior width": prior_times(lam=1.1)},
        atol=1e-6,
    ),
    by_sampling(
        "distances equal those of places drawn independently",
        reference=places_reference,
        estimate=embedding_estimate,
        controls={"prior a third as wide": partial(embedding_estimate, lam=9.0)},
        tol=0.25,
        slow=True,
    ),
)
