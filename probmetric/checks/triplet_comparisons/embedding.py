"""The checks of an embedding of objects, against a story of their places alone.

``places`` draws the place of every object by itself: no rows stand for objects, no map
is learned, nothing is centred. That the map of rows with a prior centred at 0 says the
same is Eq. (1) of ``inference.triplet_comparisons.embedding``.
"""

from collections.abc import Callable
from dataclasses import replace
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
    by_algebra,
    by_gradient,
    by_sampling,
    by_sbc,
    zero,
)
from probmetric.checks.problems import fitted, standardised
from probmetric.checks.sbc import model_story, sbc
from probmetric.checks.sides import as_dataset, density_of, sampled
from probmetric.checks.triplet_comparisons.density import (
    density_estimate,
    hessian_estimate,
    hessian_reference,
    maps_around,
    tabulated,
)
from probmetric.checks.triplet_comparisons.problems import flipped, triples
from probmetric.checks.triplet_comparisons.sampling import CAREFUL
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Triplets, weights
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import cast, model_target
from probmetric.inference.solvers.result import Fit
from probmetric.inference.triplet_comparisons.embedding import (
    FLOOR,
    embedding_prior,
    embedding_start,
    object_rows,
    of_objects,
)
from probmetric.inference.triplet_comparisons.fit import fit
from probmetric.inference.triplet_comparisons.start import SPREAD
from probmetric.inference.triplet_comparisons.target import posterior
from probmetric.models.triplet_comparisons import TripletPrior, triplet_comparisons

MOST = 40
"""Objects of a labelled data set that are embedded."""


def places(
    triplets: Triplets, prior: TripletPrior, *, learning_rate: float = 1.0
) -> None:
    """Write the story of objects themselves: no rows, no map, no centre."""
    shape = len(triplets.X), len(prior.mean)
    scale = prior.c / jnp.sqrt(prior.lam)
    Z: Any = numpyro.sample("Z", dist.Normal(0, scale).expand(shape).to_event(2))
    near, far = (
        jnp.sum((Z[triplets.anchor] - Z[k]) ** 2, -1)
        for k in (triplets.near, triplets.far)
    )
    # The difference of the places of objects 0, 1, ... and of the next one.
    numpyro.deterministic("squared", jnp.sum((Z[1:] - Z[:-1]) ** 2, -1))
    counted = handlers.scale(scale=learning_rate * weights(triplets))
    with numpyro.plate("triplet", len(triplets.anchor)), counted:
        numpyro.sample("y", dist.Bernoulli(logits=far - near), obs=triplets.y)


def _asked(seed: int, n: int, size: int) -> tuple[Triplets, np.ndarray]:
    """Return answers about n objects that were at random places of the plane."""
    rng = np.random.default_rng(seed)
    a, near, far = triples(rng, n, size)
    Z = rng.normal(size=(n, 2))
    y = rng.logistic(size=size) < _log_odds(Z, a, near, far)
    return Triplets(object_rows(n), a, near, far, y.astype(np.int32)), Z


def _log_odds(Z: np.ndarray, a: Any, near: Any, far: Any) -> np.ndarray:
    D = np.sum((Z[:, None] - Z) ** 2, -1)
    return D[a, far] - D[a, near]


def toy(seed: int) -> Problem[Triplets]:
    """Simulate 600 answers about 30 objects of the plane, and place these.

    Nothing is its own neutral element: weights from 1/2 to 2, a learning rate of 0.8.
    """
    data = _asked(seed, 30, 600)[0]
    data = data._replace(w=0.5 + 0.75 * (np.arange(600) % 3))
    name, options = f"simulated, seed {seed}", {"learning_rate": 0.8}
    return fitted(fit_problem, name, data, embedding_prior(30, 2, 2.0), **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Triplets]:
    """Place points of a data set by answers about their distances; no label used.

    At most ``MOST`` points, and 20 random triplets for each of them, answered by the
    log odds of the story with a root mean square of 2.
    """
    Z = standardised(X, y)[0]
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


def _places_density(problem: Problem[Triplets]) -> Any:
    args = (problem.data, problem.prior)
    return density_of(places, args, problem.options)


def density_of_places(problem: Problem[Triplets]) -> Values:
    """Evaluate the density of places at three maps, moved off the centre.

    √n times the mean of the places, independent of all differences, is N(0, s²) in each
    coordinate: its density is taken off.
    """
    density, B = _places_density(problem), np.asarray(problem.data.X)
    s = float(problem.prior.c) / np.sqrt(float(problem.prior.lam))
    found: list[Any] = []
    for W in maps_around(problem):
        mean = 0.3 + np.arange(len(W))
        value, slope = density({"Z": jnp.asarray(B @ W.T + mean)})
        of_mean = norm.logpdf(np.sqrt(len(B)) * mean, scale=s).sum()
        found.append((value - of_mean, np.asarray(slope["Z"]).T @ B))
    return tabulated(found)


def slope_of_places(
    problem: Problem[Triplets], lam: float = 1.0, answers: bool = True
) -> Values:
    """Differentiate the density of places where the fit ends, a triplet.

    Wrong in λ, or fitted to answers of the wrong sense.
    """
    prior = problem.prior._replace(lam=lam * problem.prior.lam)
    other = replace(
        problem if answers else flipped(problem, answers=False), prior=prior
    )
    Z = np.asarray(problem.data.X) @ np.asarray(fit_problem(other).params.W).T
    slope = _places_density(problem)({"Z": jnp.asarray(Z)})[1]["Z"]
    return {"gradient in Z": np.asarray(slope) / len(problem.data.anchor)}


def start_by_hand(problem: Problem[Triplets]) -> Values:
    """Scale a first estimate classically, added up object by object."""
    data, n, p = problem.data, len(problem.data.X), len(problem.prior.mean)
    gram, w, y = np.zeros((n, n)), np.asarray(weights(data)), np.asarray(data.y)
    for a, near, far, answer, each in zip(*data[1:4], y, w, strict=True):
        for other, sense in ((far, 1), (near, -1)):
            e = np.eye(n)[a] - np.eye(n)[other]
            gram += each * (answer - 0.5) * sense * np.outer(e, e)
    D = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
    C = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * C @ D @ C)
    values, vectors = values[::-1][:p], vectors[:, ::-1][:, :p]
    Z = vectors * np.sqrt(np.maximum(values, FLOOR * values[0]))
    t = _log_odds(Z, *data[1:4])
    return {"Gram matrix": Z @ Z.T * SPREAD / np.sqrt(np.mean(t**2))}


def start_estimate(
    problem: Problem[Triplets], weighted: bool = True, answers: bool = True
) -> Values:
    """Return that of the map; wrong: without weights, or in the sense of answers."""
    data = problem.data if answers else flipped(problem, answers=False).data
    data = data if weighted else data._replace(w=None)
    Z = np.asarray(data.X) @ embedding_start(data, len(problem.prior.mean)).T
    return {"Gram matrix": Z @ Z.T}


def _gram(problem: Problem[Triplets]) -> Values:
    Z = np.asarray(problem.data.X) @ np.asarray(fit_problem(problem).params.W).T
    return {"Gram matrix": Z @ Z.T}


def _other_rows(problem: Problem[Triplets], longer: float = 1.0) -> Values:
    """Place objects that other orthonormal rows stand for; wrong: longer ones."""
    X = np.asarray(problem.data.X)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(X.shape[1],) * 2))[0]
    moved = problem.data._replace(X=longer * X @ turn)
    return _gram(replace(problem, data=moved))


def places_reference(problem: Problem[Triplets]) -> xr.Dataset:
    """Sample the places of 4 objects by NUTS, told nothing of where they lie."""
    del problem
    args = (_asked(8, 4, 80)[0], embedding_prior(4, 2))
    drawn = sampled(places, args, seed=3, n_draws=1000, sampler=NUTS(n_warmup=500))
    return as_dataset({"log distance": 0.5 * np.log(drawn.values["squared"])})


def embedding_estimate(problem: Problem[Triplets], lam: float = 1.0) -> xr.Dataset:
    """Sample the map of the objects' rows, around its mode; wrong in λ."""
    del problem
    data, prior = _asked(8, 4, 80)[0], embedding_prior(4, 2, lam)
    with jax.enable_x64(True):
        params = fit(data, prior, start=embedding_start(data, 2)).params
        around = posterior(params, data, prior)
        drawn = CAREFUL.draw(around, seed=4, n_draws=1000, progress=False)
    G = of_objects(drawn).values["M"]
    own = np.einsum("csii->csi", G)
    next_one = np.einsum("csii->csi", G[..., :-1, 1:])
    squared = own[..., 1:] + own[..., :-1] - 2 * next_one
    return as_dataset({"log distance": 0.5 * np.log(squared)})


def _observe(triplets: Triplets, sites: Any) -> Triplets:
    return triplets._replace(y=sites["y"])


def _identified(position: Any, data: Any) -> dict[str, Any]:
    """Return M alone: rotations of W are never learned, and mix slowly."""
    del data
    return {"M": position["W"].T @ position["W"]}


def calibrate(
    problem: Problem[Triplets],
    model: Callable[..., None] = triplet_comparisons,
    n_simulations: int = 800,
) -> Ranks:
    """Rank true values among draws of ``model``, in worlds of 6 objects, 80 answers."""
    del problem
    asked, prior = _asked(8, 6, 80)[0]._replace(y=None), embedding_prior(6, 2)
    target, story, data = model_story(triplet_comparisons, asked, _observe, prior=prior)
    if model is not triplet_comparisons:
        with jax.enable_x64(True):
            answered = asked._replace(y=np.zeros(len(asked.anchor), np.int32))
            target = model_target(model, cast((answered, prior), "float64"), {})[0]
    target = target._replace(functionals=_identified)
    return sbc(
        target, story, data, seed=11, n_simulations=n_simulations, progress=False
    )


def narrow(triplets: Triplets, prior: TripletPrior) -> None:
    """Write a wrong model: places half as far apart before answers are seen."""
    triplet_comparisons(triplets, prior._replace(lam=4 * prior.lam))


ANSWERS = "answers of half the triplets the other way"

CHECKS = (
    by_gradient(
        "log joint of the map is that of places, value and gradient",
        reference=density_of_places,
        estimate=density_estimate,
        controls={
            "another prior width": partial(density_estimate, lam=1.01),
            ANSWERS: partial(density_estimate, answers=False),
        },
    ),
    by_gradient(
        "Hessian is that of the NumPyro density",
        reference=hessian_reference,
        estimate=hessian_estimate,
        controls={
            "another prior width": partial(hessian_estimate, lam=1.01),
            ANSWERS: partial(hessian_estimate, answers=False),
        },
    ),
    by_gradient(
        "the fit is a mode of the density of places",
        reference=zero,
        estimate=slope_of_places,
        controls={
            "λ a tenth too large": partial(slope_of_places, lam=1.1),
            ANSWERS: partial(slope_of_places, answers=False),
        },
        atol=1e-6,
    ),
    by_algebra(
        "the start is classical scaling of a first estimate",
        reference=start_by_hand,
        estimate=start_estimate,
        controls={
            "weights left out": partial(start_estimate, weighted=False),
            ANSWERS: partial(start_estimate, answers=False),
        },
    ),
    by_algebra(
        "places do not depend on the rows that stand for objects",
        reference=_gram,
        estimate=_other_rows,
        controls={"rows a tenth longer": partial(_other_rows, longer=1.1)},
        rtol=1e-5,
    ),
    by_sampling(
        "distances are those of places drawn one by one",
        reference=places_reference,
        estimate=embedding_estimate,
        controls={"prior a third as wide": partial(embedding_estimate, lam=9.0)},
        tol=0.25,
        slow=True,
    ),
    by_sbc(
        "posterior is calibrated over simulated worlds",
        estimate=calibrate,
        controls={
            "places half as far apart": partial(
                calibrate, model=narrow, n_simulations=200
            )
        },
        slow=True,
    ),
)
