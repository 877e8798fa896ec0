"""Claims that LCA with groups and LCA with point effects share.

Density, modes and Laplace's density of the spread ω are compared with NumPyro's
density, gradient and Hessian. Draws are compared with NUTS draws. Simulation (SBC)
checks the calibration.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from probmetric.checks.check import Check, Problem, Values, by_gradient, zero
from probmetric.checks.claims import (
    Sites,
    around,
    calibrated,
    curvature,
    density,
    mode,
    near,
    nuts,
    nuts_draws,
    prior_times,
    reweighted,
)
from probmetric.data.containers import Pairs
from probmetric.inference.effects.draws import laplace_draws, start
from probmetric.inference.effects.fit import (
    GROUPS,
    POINTS,
    Effect,
    Mode,
    SpreadPosterior,
    data_of,
    fit,
    mode_at,
    spread_posterior,
)
from probmetric.inference.effects.profile import log_half_normal
from probmetric.inference.effects.target import GROUP_TARGET, POINT_TARGET
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Draws, Model, Posterior
from probmetric.inference.solvers.result import Fit
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
from probmetric.typing import Scalar

SPREADS = (0.1, 0.4, 0.9)


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit the spread of a problem, then the other parameters."""
    return fit(problem.data, problem.prior, **problem.options)


def _effect(problem: Problem[Pairs]) -> tuple[Effect[Any, Any], Any]:
    return data_of(problem.data, problem.prior, **problem.options)


def points(problem: Problem[Pairs]) -> list[Sites]:
    """Return the sites at the fit, and two positions around it."""
    effect, data = _effect(problem)
    spread = float(problem.params.spread) or 0.05
    at = {**effect.position(problem.params, data), "spread": spread}
    return around(at, positive=("spread",))


def _closed(problem: Problem[Pairs]) -> tuple[Callable[..., Scalar], tuple[Any]]:
    return _density, (_effect(problem)[1],)


def _density(sites: Sites, data: Any) -> Scalar:
    effect = GROUPS if isinstance(data[1], HierarchicalLCAPrior) else POINTS
    at = {name: sites[name] for name in ("W", "log_b", effect.name)}
    value = effect.objective(at, (data, sites["spread"]))
    return value + log_half_normal(sites["spread"], data[1].spread)


def _end(problem: Problem[Pairs], pooled: bool = False) -> Sites:
    """Return the sites where the fit ends; wrong: without effects."""
    effect, data = _effect(problem)
    params = fit_problem(problem).params
    at = {**effect.position(params, data), "spread": params.spread}
    return {**at, effect.name: 0 * at[effect.name]} if pooled else at


def _mode(problem: Problem[Pairs], spread: float) -> Mode:
    effect, data = _effect(problem)
    return mode_at(effect, spread, effect.position(problem.params, data), data)


def _spread_score(problem: Problem[Pairs], factor: float = 1.0) -> Values:
    """Compute the score of ω by central differences, in posterior sd; 0 if ω = 0."""
    spread = float(fit_problem(problem).params.spread)
    spread = spread if factor == 1.0 else max(factor * spread, 0.5)
    if spread == 0:
        return {"score of ω": 0.0}
    h = 0.01 * spread
    low, middle, high = (
        _mode(problem, spread + k * h).log_density for k in (-1.0, 0.0, 1.0)
    )
    curved = -(high - 2 * middle + low) / h**2
    return {"score of ω": (high - low) / (2 * h) / np.sqrt(abs(curved))}


def _spread_density(problem: Problem[Pairs], joint: bool = False) -> Values:
    """Return Laplace's log density of ω; wrong: without determinant."""
    modes = [_mode(problem, spread) for spread in SPREADS]
    values = [
        m.log_density + (m.factors.log_determinant / 2 if joint and m.factors else 0.0)
        for m in modes
    ]
    return {"log density of ω": values}


def _grid(problem: Problem[Pairs]) -> SpreadPosterior:
    args = problem.params, problem.data, problem.prior
    return spread_posterior(*args, **problem.options)


def _posterior(problem: Problem[Pairs]) -> Posterior:
    effect, data = _effect(problem)
    target = GROUP_TARGET if effect is GROUPS else POINT_TARGET
    return Posterior(target, data, start(_grid(problem)))


def effect_claims(
    model: Model,
    effect: Effect[Any, Any],
    shown: Callable[[Pairs, dict[str, Any]], xr.Dataset],
    world: Callable[[], tuple[Pairs, Any]],
    *,
    n_draws: int,
    slow: bool,
    **calibration: Any,
) -> tuple[Check, ...]:
    """Return the claims about a model; ``shown`` selects the values to compare."""
    names = ("W", "log_b", effect.name)
    another = {"another prior width": prior_times(lam=1.01)}

    def summary(problem: Problem[Pairs], drawn: Draws) -> xr.Dataset:
        return shown(problem.data, drawn.values).assign_attrs(drawn.attributes)

    def laplace(problem: Problem[Pairs]) -> xr.Dataset:
        """Draw from the grid of ω and the Gaussians at its modes."""
        with jax.enable_x64(True):
            values = laplace_draws(_grid(problem), problem.prior, 4000, seed=5)
        return summary(problem, Draws(values, {}, {"khat": float("nan")}))

    def by_hessian(problem: Problem[Pairs]) -> Values:
        both, values = curvature(model, problem, names), list[float]()
        for spread in SPREADS:
            at = jax.tree.map(jnp.asarray, _mode(problem, spread).at)
            value, H = both({**at, "spread": jnp.asarray(spread)})
            log_det = np.linalg.slogdet(np.asarray(H) / (2 * np.pi))[1]
            values.append(float(value) - log_det / 2)
        return {"log density of ω": values}

    return (
        density(
            model, points, _closed, wrong={**another, "other data weights": reweighted}
        ),
        mode(
            model,
            _end,
            names=names,
            wrong={
                "λ a tenth too large": prior_times(lam=1.1),
                "no effects": {"pooled": True},
            },
            atol=1e-8,
        ),
        by_gradient(
            "Laplace's density of the spread has the determinant of NumPyro's Hessian",
            reference=by_hessian,
            estimate=_spread_density,
            controls={"no determinant": partial(_spread_density, joint=True)},
            rtol=1e-8,
        ),
        by_gradient(
            "the spread is a mode of its density, in posterior sd",
            reference=zero,
            estimate=_spread_score,
            controls={"ω half too large": partial(_spread_score, factor=1.5)},
            atol=0.02,
        ),
        nuts(
            nuts_draws(model, summary, n_draws=n_draws),
            summary,
            _posterior,
            # ω mixes slowest: the fewest effective draws seen are 1,438.
            n_draws=2500,
            sampler=NUTS(n_warmup=600),
            wrong={"common prior a third as wide": prior_times(lam=9.0)},
        ),
        near(
            "Laplace's distances, b and spread are near NUTS draws",
            nuts_draws(model, summary, n_draws=2000),
            laplace,
            bound=1.0,
            slow=slow,
        ),
        calibrated(model, world, **calibration),
    )
