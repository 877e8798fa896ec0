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
    """Return three maps: the fit's and around it, with lapse rates if learned."""
    rate = {} if problem.prior.lapse is None else {"logit_lapse": -2.0}
    return around({"W": problem.params.W, **rate})


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
    """Return odd-one-out responses to the same triplets, a tenth of them lapses."""
    data = OddOneOut(*problem.data)
    y = np.arange(len(np.asarray(data.anchor))) % 3
    options = {**problem.options, "lapse_rate": 0.1}
    return replace(problem, data=data._replace(y=y), options=options)


def rated(
    problem: Problem[Triplets], lapse: tuple[float, float] = (1.5, 8.0)
) -> Problem[Triplets]:
    """Learn the lapse rate of odd-one-out responses."""
    return replace(odd(problem), prior=problem.prior._replace(lapse=lapse))


def _attentive(problem: Problem[Triplets]) -> Problem[Triplets]:
    return replace(problem, options={**problem.options, "lapse_rate": 0.09})


def _two_alternatives(problem: Problem[Triplets]) -> Problem[Triplets]:
    y = np.minimum(np.asarray(problem.data.y), 1)
    return replace(problem, data=Triplets(*problem.data)._replace(y=y))


def _curvature(problem: Problem[Triplets], at: Sites) -> Any:
    stacked = differences(problem.data, **problem.options)
    return curvature(TripletParams(np.asarray(at["W"])), stacked, problem.prior)


def _end(problem: Problem[Triplets]) -> Sites:
    W, rate = fit_problem(problem).params
    return {"W": W} if rate is None else {"W": W, "logit_lapse": logit(rate)}


_MORE_LAPSES = {"another prior of lapses": partial(rated, lapse=(1.5, 6.0))}


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
        name="log joint density of the map and the lapse rate equals NumPyro's",
        changed=rated,
        wrong={**WRONG, **_MORE_LAPSES},
    ),
    mode(
        triplet_comparisons,
        _end,
        name="the fit with a learned lapse rate is a mode of the NumPyro density",
        changed=rated,
        wrong=_MORE_LAPSES,
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
