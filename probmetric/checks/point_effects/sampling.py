"""Draws of LCA with point effects: compared with NUTS, and calibration."""

from functools import partial

import jax
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem, near_sampling
from probmetric.checks.claims import calibrated, nuts, nuts_draws, prior_times
from probmetric.checks.sides import as_dataset
from probmetric.data.containers import Pairs
from probmetric.inference.effects.draws import laplace_draws, start
from probmetric.inference.effects.fit import (
    Dense,
    Mode,
    SpreadPosterior,
    data_of,
    spread_posterior,
)
from probmetric.inference.effects.target import POINT_TARGET
from probmetric.inference.sampling.target import Draws, Posterior
from probmetric.models.lca import LCAPrior
from probmetric.models.point_effects import PointEffectsPrior, point_effects


def _summary(problem: Problem[Pairs], drawn: Draws) -> xr.Dataset:
    """Return distances of five pairs, log b, log b of three points, and the spread."""
    pairs, values = problem.data, drawn.values
    delta = np.asarray(pairs.X)[pairs.i[:5]] - np.asarray(pairs.X)[pairs.j[:5]]
    squared = np.einsum("pk,cskl,pl->csp", delta, values["M"], delta)
    shown = {
        "distance": np.sqrt(squared),
        "log b": np.log(values["b"]),
        "log b of points": np.log(values["b_point"][..., :3]),
    }
    return as_dataset({**shown, "spread": values["spread"]}, drawn.attributes)


def _grid(problem: Problem[Pairs]) -> SpreadPosterior:
    return spread_posterior(
        problem.params, problem.data, problem.prior, **problem.options
    )


def _posterior(problem: Problem[Pairs]) -> Posterior:
    data = data_of(problem.data, problem.prior, **problem.options)[1]
    return Posterior(POINT_TARGET, data, start(_grid(problem)))


def _stretched(mode: Mode, wide: float) -> Mode:
    assert isinstance(mode.factors, Dense)
    return mode._replace(factors=Dense(mode.factors.lower / wide))


def _laplace(problem: Problem[Pairs], wide: float = 1.0) -> xr.Dataset:
    """Draw from the grid of ω and the Gaussians at its modes; ``wide`` stretches."""
    with jax.enable_x64(True):
        grid = _grid(problem)
        modes = tuple(_stretched(mode, wide) for mode in grid.modes)
        values = laplace_draws(grid._replace(modes=modes), problem.prior, 4000, seed=5)
    return _summary(problem, Draws(values, {}, {"khat": float("nan")}))


def _world() -> tuple[Pairs, PointEffectsPrior]:
    """Return 120 pairs of 15 points in d = 2, without labels."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(15, 2))
    i = np.arange(120) % 15
    j = (i + rng.integers(1, 15, 120)) % 15
    common = LCAPrior(0.8 * np.eye(2), c=0.8, lam=5.0)
    return Pairs(X, i, j, None), PointEffectsPrior(common, 1.0)


def overconfident(pairs: Pairs, prior: PointEffectsPrior) -> None:
    """Negative control: the model with every label counted twice."""
    point_effects(pairs, prior, learning_rate=2.0)


REFERENCE = nuts_draws(point_effects, _summary, n_draws=2000)

CHECKS = (
    nuts(
        REFERENCE,
        _summary,
        _posterior,
        n_draws=2000,
        n_wrong=500,
        wrong={"prior a third as wide": prior_times(lam=9.0)},
    ),
    near_sampling(
        "Laplace's distances, b and spread are near NUTS draws",
        reference=REFERENCE,
        estimate=_laplace,
        controls={"four times too wide": partial(_laplace, wide=4.0)},
        bound=1.0,
        slow=True,
    ),
    calibrated(
        point_effects,
        _world,
        n_simulations=600,
        wrong={"labels counted twice": overconfident},
    ),
)
