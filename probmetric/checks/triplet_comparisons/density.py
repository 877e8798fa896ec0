"""Log joint density, gradient, Hessian and mode, against NumPyro's own density."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.checks.check import Problem, Values, by_gradient, zero
from probmetric.checks.sides import density_of
from probmetric.checks.triplet_comparisons.problems import fit_problem, flipped
from probmetric.data.containers import Triplets
from probmetric.inference.triplet_comparisons.curvature import hessian
from probmetric.inference.triplet_comparisons.fit import fit
from probmetric.inference.triplet_comparisons.likelihood import value_and_gradient
from probmetric.inference.triplet_comparisons.statistics import differences
from probmetric.models.triplet_comparisons import TripletParams, triplet_comparisons


def _numpyro(problem: Problem[Triplets]) -> Any:
    args = (problem.data, problem.prior)
    return density_of(triplet_comparisons, args, problem.options)


def maps_around(problem: Problem[Triplets]) -> list[np.ndarray]:
    """Return three maps, the fit's and around it."""
    rng, W = np.random.default_rng(0), np.asarray(problem.params.W)
    return [W + size * rng.normal(size=W.shape) for size in (0.0, 0.3, 1.0)]


def tabulated(found: list[Any]) -> Values:
    """Return values and gradients in W by name."""
    values, slopes = zip(*found, strict=True)
    return {"log density": list(values), "gradient in W": list(slopes)}


def density_reference(problem: Problem[Triplets]) -> Values:
    """Evaluate NumPyro's density and its derivative at three maps."""
    density = _numpyro(problem)
    found = [density({"W": jnp.asarray(W)}) for W in maps_around(problem)]
    return tabulated([(value, slope["W"]) for value, slope in found])


def density_estimate(
    problem: Problem[Triplets], lam: float = 1.0, answers: bool = True
) -> Values:
    """Evaluate the closed forms there; wrong in λ, or in the sense of answers."""
    prior = problem.prior._replace(lam=lam * problem.prior.lam)
    data = problem.data if answers else flipped(problem, answers=False).data
    stacked = differences(data, problem.options["learning_rate"])
    density = jax.jit(lambda W: value_and_gradient(W, stacked, prior))
    return tabulated([density(jnp.asarray(W)) for W in maps_around(problem)])


def _paired(problem: Problem[Triplets]) -> Problem[Triplets]:
    """Make quadruplets of triplets: far is seen from another point than the anchor."""
    data = problem.data
    n, far = len(np.asarray(data.X)), np.asarray(data.far)
    steps = np.random.default_rng(3).integers(1, n, len(far))
    return replace(problem, data=data._replace(other=(far + steps) % n))


def quadruplet_reference(problem: Problem[Triplets]) -> Values:
    """Evaluate NumPyro's density of quadruplets and its derivative at three maps."""
    return density_reference(_paired(problem))


def quadruplet_estimate(problem: Problem[Triplets], seen: bool = True) -> Values:
    """Evaluate the closed forms there; wrong: far is seen from the anchor."""
    return density_estimate(_paired(problem) if seen else problem)


def hessian_reference(problem: Problem[Triplets]) -> Values:
    """Differentiate NumPyro's density twice at three maps."""
    density, maps = _numpyro(problem), maps_around(problem)
    second = jax.jit(jax.jacfwd(lambda W: density({"W": W})[1]["W"]))
    q = maps[0].size
    return {"minus Hessian": [-np.asarray(second(W)).reshape(q, q) for W in maps]}


def hessian_estimate(
    problem: Problem[Triplets], lam: float = 1.0, answers: bool = True
) -> Values:
    """Return it in closed form; wrong in λ, or in the sense of answers."""
    prior = problem.prior._replace(lam=lam * problem.prior.lam)
    data = problem.data if answers else flipped(problem, answers=False).data
    stacked = differences(data, problem.options["learning_rate"])
    maps = [TripletParams(W) for W in maps_around(problem)]
    return {"minus Hessian": [hessian(W, stacked, prior) for W in maps]}


def mode_slope(problem: Problem[Triplets], lam: float = 1.0) -> Values:
    """Differentiate NumPyro's density where the fit ends, a triplet; wrong in λ."""
    prior = problem.prior._replace(lam=lam * problem.prior.lam)
    params = fit(problem.data, prior, **problem.options).params
    _, slope = _numpyro(problem)({"W": jnp.asarray(params.W)})
    return {"gradient in W": np.asarray(slope["W"]) / len(problem.data.anchor)}


def _wrong_sense(problem: Problem[Triplets]) -> Values:
    """Do so after a fit to answers of the wrong sense."""
    params = fit_problem(flipped(problem, answers=False)).params
    _, slope = _numpyro(problem)({"W": jnp.asarray(params.W)})
    return {"gradient in W": np.asarray(slope["W"]) / len(problem.data.anchor)}


CHECKS = (
    by_gradient(
        "log joint is the NumPyro density, value and gradient",
        reference=density_reference,
        estimate=density_estimate,
        controls={
            "another prior width": partial(density_estimate, lam=1.01),
            "answers of half the triplets the other way": partial(
                density_estimate, answers=False
            ),
        },
    ),
    by_gradient(
        "log joint of quadruplets is the NumPyro density, value and gradient",
        reference=quadruplet_reference,
        estimate=quadruplet_estimate,
        controls={
            "far seen from the anchor": partial(quadruplet_estimate, seen=False),
        },
    ),
    by_gradient(
        "Hessian is that of the NumPyro density",
        reference=hessian_reference,
        estimate=hessian_estimate,
        controls={
            "another prior width": partial(hessian_estimate, lam=1.01),
            "answers of half the triplets the other way": partial(
                hessian_estimate, answers=False
            ),
        },
    ),
    by_gradient(
        "the fit is a mode of the NumPyro density",
        reference=zero,
        estimate=mode_slope,
        controls={
            "λ a tenth too large": partial(mode_slope, lam=1.1),
            "answers of half the triplets the other way": _wrong_sense,
        },
        atol=1e-6,
    ),
)
