"""Draws of LCA with point effects: against NUTS on its NumPyro model, and worlds."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from probmetric.checks.check import (
    Check,
    Problem,
    by_sampling,
    by_sbc,
    near_sampling,
)
from probmetric.checks.sbc import model_story, sbc
from probmetric.checks.sides import as_dataset, sampled
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Pairs
from probmetric.inference.effects.draws import laplace_draws
from probmetric.inference.effects.fit import (
    POINTS,
    Dense,
    point_data,
    posterior_on_grid,
)
from probmetric.inference.effects.target import POINT_TARGET, start
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Posterior, cast, model_target
from probmetric.models.lca import LCAPrior
from probmetric.models.point_effects import (
    PointEffectsPrior,
    point_effects,
)


def _summaries(problem: Problem[Pairs], values: Any, attrs: Any = None) -> xr.Dataset:
    """Return distances of five pairs, log b, log b of three points, and the spread."""
    pairs = problem.data
    delta = np.asarray(pairs.X)[pairs.i[:5]] - np.asarray(pairs.X)[pairs.j[:5]]
    squared = np.einsum("pk,cskl,pl->csp", delta, values["M"], delta)
    shown = {
        "distance": np.sqrt(squared),
        "log b": np.log(values["b"]),
        "log b of points": np.log(values["b_point"][..., :3]),
    }
    return as_dataset({**shown, "spread": values["spread"]}, attrs)


def _posterior(problem: Problem[Pairs], lam: float = 1.0) -> tuple[Posterior, Any]:
    common = problem.prior.common
    prior = problem.prior._replace(common=common._replace(lam=lam * common.lam))
    data = point_data(problem.data, prior, **problem.options)
    found = posterior_on_grid(POINTS, problem.params, data)
    return Posterior(POINT_TARGET, data, start(found)), found


def nuts_reference(problem: Problem[Pairs]) -> xr.Dataset:
    """Sample the NumPyro model, told nothing of where its posterior lies."""
    args, options = (problem.data, problem.prior), dict(problem.options)
    sampler = NUTS(n_warmup=500)
    draws = sampled(point_effects, args, options, seed=3, n_draws=2000, sampler=sampler)
    return _summaries(problem, draws.values)


def target_estimate(
    problem: Problem[Pairs], lam: float = 1.0, n_draws: int = 2000
) -> xr.Dataset:
    """Sample the closed form from Laplace's start; wrong in λ."""
    with jax.enable_x64(True):
        posterior, _ = _posterior(problem, lam)
        draws = NUTS().draw(posterior, seed=4, n_draws=n_draws, progress=False)
    return _summaries(problem, draws.values)


def laplace_estimate(problem: Problem[Pairs], wide: float = 1.0) -> xr.Dataset:
    """Draw from the grid of ω and the Gaussians at its modes; too wide, if asked."""
    with jax.enable_x64(True):
        _, found = _posterior(problem)
        modes = tuple(
            m._replace(factors=Dense(m.factors.lower / wide)) for m in found.modes
        )
        values = laplace_draws(found._replace(modes=modes), 4000, seed=5)
    return _summaries(problem, values, {"method": "laplace", "khat": float("nan")})


def _world() -> tuple[Pairs, PointEffectsPrior]:
    """Return 120 pairs of 15 points in d = 2, without labels."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(15, 2))
    i = np.arange(120) % 15
    j = (i + rng.integers(1, 15, 120)) % 15
    common = LCAPrior(0.8 * np.eye(2), c=0.8, lam=5.0)
    return Pairs(X, i, j, None), PointEffectsPrior(common, 1.0)


def _observe(pairs: Pairs, sites: Any) -> Pairs:
    return pairs._replace(y=sites["y"])


def overconfident(pairs: Pairs, prior: PointEffectsPrior) -> None:
    """Write a wrong model: each label counts twice."""
    point_effects(pairs, prior, learning_rate=2.0)


def calibrate(
    problem: Problem[Pairs],
    model: Callable[..., None] = point_effects,
    n_simulations: int = 600,
) -> Ranks:
    """Rank true values among draws of ``model``, in worlds made by the story."""
    del problem
    pairs, prior = _world()
    target, story, data = model_story(point_effects, pairs, _observe, prior=prior)
    if model is not point_effects:
        with jax.enable_x64(True):
            labelled = pairs._replace(y=np.zeros(len(pairs.i), np.int32))
            args = cast((labelled, prior), "float64")
            target = model_target(model, args, {})[0]
    return sbc(
        target, story, data, seed=11, n_simulations=n_simulations, progress=False
    )


CHECKS: tuple[Check, ...] = (
    by_sampling(
        "draws of the closed form are those of the NumPyro model",
        reference=nuts_reference,
        estimate=target_estimate,
        controls={
            "prior a third as wide": partial(target_estimate, lam=9.0, n_draws=500)
        },
        tol=0.25,  # ω mixes least.
        slow=True,
    ),
    near_sampling(
        "Laplace's distances, b and spread are near NUTS's",
        reference=nuts_reference,
        estimate=laplace_estimate,
        controls={"four times too wide": partial(laplace_estimate, wide=4.0)},
        bound=1.0,
        slow=True,
    ),
    by_sbc(
        "posterior is calibrated over simulated worlds, the spread included",
        estimate=calibrate,
        controls={
            "labels count twice": partial(
                calibrate, model=overconfident, n_simulations=100
            )
        },
        slow=True,
    ),
)
