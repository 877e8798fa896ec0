"""Log joint density, gradient, Hessian and mode, compared with NumPyro's density."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logit

from probmetric.checks.check import Problem
from probmetric.checks.claims import (
    Sites,
    around,
    density,
    hessian,
    mode,
    prior_times,
)
from probmetric.checks.triplet_comparisons.problems import (
    answers_exchanged,
    fit_problem,
)
from probmetric.data.containers import OddOneOut, Triplets
from probmetric.inference.triplet_comparisons.curvature import hessian as curvature
from probmetric.inference.triplet_comparisons.statistics import Differences, differences
from probmetric.inference.triplet_comparisons.target import TARGET
from probmetric.models.triplet_comparisons import (
    TripletParams,
    TripletPrior,
    triplet_comparisons,
)
from probmetric.typing import Scalar

WRONG = {
    "another prior width": prior_times(lam=1.01),
    "answers to half of the triplets exchanged": answers_exchanged,
}


def maps_around(problem: Problem[Triplets]) -> list[Sites]:
    """Return three maps: the fit's and around it, with effects if any."""
    at: dict[str, Any] = {"W": problem.params.W}
    if problem.prior.spread is not None:
        at["effects"] = np.linspace(-1.0, 0.5, len(problem.prior.spread) - 1)
    if problem.prior.lapse is not None:
        at["logit_lapse"] = -2.0
    return around(at)


def closed(problem: Problem[Triplets], fourth: bool = True) -> Any:
    """Return the log joint density; wrong: far is compared with the anchor."""
    data = problem.data if fourth else problem.data._replace(other=None)
    stacked = differences(data, **problem.options)
    return _density, (stacked, problem.prior)


def _density(sites: Sites, stacked: Differences, prior: TripletPrior) -> Scalar:
    return TARGET.log_density(sites, (stacked, prior))


def _paired(problem: Problem[Triplets]) -> Problem[Triplets]:
    data = problem.data
    n, far = len(np.asarray(data.X)), np.asarray(data.far)
    steps = np.random.default_rng(3).integers(1, n, len(far))
    return replace(problem, data=data._replace(other=(far + steps) % n))


def odd(problem: Problem[Triplets]) -> Problem[Triplets]:
    """Return odd-one-out responses to the same triplets, with lapse rate 0.1."""
    data = OddOneOut(*problem.data)
    y = np.arange(len(np.asarray(data.anchor))) % 3
    options = {**problem.options, "lapse_rate": 0.1}
    return replace(problem, data=data._replace(y=y), options=options)


def rated(
    problem: Problem[Triplets],
    lapse: tuple[float, float] = (1.5, 8.0),
    spread: float = 0.6,
) -> Problem[Triplets]:
    """Learn the lapse rate and four raters' sharpness from odd-one-out responses."""
    prior = problem.prior._replace(lapse=lapse, spread=np.full(4, spread))
    data = odd(problem).data
    rater = (np.arange(len(np.asarray(data.anchor))) // 3) ** 2 % 4
    return replace(odd(problem), data=data._replace(rater=rater), prior=prior)


def _renamed(problem: Problem[Triplets]) -> Problem[Triplets]:
    rater = np.asarray(problem.data.rater)
    return replace(problem, data=problem.data._replace(rater=(rater + 1) % 4))


def _attentive(problem: Problem[Triplets]) -> Problem[Triplets]:
    return replace(problem, options={**problem.options, "lapse_rate": 0.09})


def _two_alternatives(problem: Problem[Triplets]) -> Problem[Triplets]:
    y = np.minimum(np.asarray(problem.data.y), 1)
    return replace(problem, data=Triplets(*problem.data)._replace(y=y))


def _curvature(problem: Problem[Triplets], at: Sites) -> Any:
    stacked = differences(problem.data, **problem.options)
    return curvature(TripletParams(np.asarray(at["W"])), stacked, problem.prior)


def _end(problem: Problem[Triplets]) -> Sites:
    W, rate, sharpness = fit_problem(problem).params
    z = problem.prior.effects(sharpness)
    at = {"W": W} if z is None else {"W": W, "effects": z}
    return at if rate is None else {**at, "logit_lapse": logit(rate)}


_OTHER_PRIORS = {
    "another prior of lapses": partial(rated, lapse=(1.5, 6.0)),
    "another spread of raters": partial(rated, spread=0.7),
}


CHECKS = (
    density(triplet_comparisons, maps_around, closed, wrong=WRONG),
    density(
        triplet_comparisons,
        maps_around,
        closed,
        name="log joint density of quadruplets equals the NumPyro density",
        changed=_paired,
        wrong={"far compared with the anchor": {"fourth": False}},
    ),
    density(
        triplet_comparisons,
        maps_around,
        closed,
        name="log joint density of odd-one-out responses with lapses equals NumPyro's",
        changed=odd,
        wrong={
            **WRONG,
            "without the third alternative": _two_alternatives,
            "another lapse rate": _attentive,
        },
    ),
    density(
        triplet_comparisons,
        maps_around,
        closed,
        name="log joint density of the map, raters and lapse rate equals NumPyro's",
        changed=rated,
        wrong={**WRONG, **_OTHER_PRIORS, "other raters": _renamed},
    ),
    mode(
        triplet_comparisons,
        _end,
        name="the fit with raters and a learned lapse rate is a mode of the model",
        changed=rated,
        wrong=_OTHER_PRIORS,
        atol=1e-6,
    ),
    hessian(triplet_comparisons, maps_around, _curvature, ("W",), wrong=WRONG),
    mode(
        triplet_comparisons,
        _end,
        wrong={**WRONG, "another prior width": prior_times(lam=1.1)},
        atol=1e-6,
    ),
)
