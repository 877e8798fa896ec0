"""EM against the NumPyro density and its gradient: value, stationarity, ascent."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import log_density

from probmetric.checks.check import Check, Problem
from probmetric.data.containers import Groups, Points
from probmetric.data.groups import Stacks, stack
from probmetric.inference.solvers.em import run_em
from probmetric.inference.two_stage.fit import fit, start_groups
from probmetric.inference.two_stage.groups import e_step, em_step, group_data, m_step
from probmetric.inference.two_stage.groups_missing import filled, group_rows
from probmetric.models.two_stage import TwoStageParams, two_stage

__all__ = ["CHECKS"]

EARLY = 2
FEW = 3
"""Instances of a source in the check of missing entries."""


def _density(params: TwoStageParams, stacks: Stacks, prior: Any) -> Any:
    options = {"n_components": len(params.weights)}
    return log_density(two_stage, (stacks, prior), options, params._asdict())[0]


_value_and_grad = jax.jit(jax.value_and_grad(_density))


def _singles(params: Any, stacks: Stacks, prior: Any) -> Any:
    c, mu, S = params
    sites = {"weights": c, "means": mu, "covariances": S}
    options = {"n_components": len(c), "covariance": "proportional", "alpha": 0.5}
    return log_density(two_stage, (stacks, prior), options, sites)[0]


_singles_grad = jax.jit(jax.grad(_singles))


def _start(problem: Problem) -> tuple[TwoStageParams, Any]:
    data = group_data(problem.data, prior=problem.prior)  # pyright: ignore[reportArgumentType]
    start = start_groups(data, problem.options["n_components"])
    return jax.tree.map(jnp.asarray, start), data


def value_reference(problem: Problem) -> dict[str, Any]:
    """Evaluate NumPyro's log joint density at EM's start."""
    start, _ = _start(problem)
    return {
        "log joint density": _value_and_grad(start, _stacks(problem), problem.prior)[0]
    }


def _stacks(problem: Problem) -> Stacks:
    return stack(problem.data)  # pyright: ignore[reportArgumentType]


def value_estimate(problem: Problem) -> dict[str, Any]:
    """Return the objective that EM reports at its start."""
    start, data = _start(problem)
    return {"log joint density": jax.jit(em_step)(start, data)[1]}


def value_without_prior(problem: Problem) -> dict[str, Any]:
    """Forget the prior in the objective."""
    start, data = _start(problem)
    return {"log joint density": jax.jit(em_step)(start, data._replace(prior=None))[1]}


def _slope(gradient: Any, n: int) -> dict[str, Any]:
    """Return gradients per point, that of the weights along the simplex."""
    g = [np.asarray(a) / n for a in gradient]
    return {"weights": g[0] - g[0].mean(), **{f"{i}": a for i, a in enumerate(g[1:])}}


def zero_slope(problem: Problem) -> dict[str, Any]:
    """Return zeros of the shapes of the gradient."""
    return {k: np.zeros_like(v) for k, v in grouped_slope(problem).items()}


def grouped_slope(problem: Problem, max_steps: int = 20_000) -> dict[str, Any]:
    """Differentiate NumPyro's density where grouped EM ends."""
    start, data = _start(problem)
    end = run_em(em_step, start, data, max_steps=max_steps, tol=1e-15)
    slope = _value_and_grad(end.params, _stacks(problem), problem.prior)[1]
    return _slope(slope, len(np.asarray(problem.data.X)))  # pyright: ignore[reportAttributeAccessIssue]


def mixture_slope(problem: Problem, factor: float = 1.0) -> dict[str, Any]:
    """Differentiate NumPyro's density of single instances where mixture EM ends.

    EM is run under a prior whose scale matrix is ``factor`` times that of NumPyro's.
    """
    data: Any = problem.data
    points, k = Points(np.asarray(data.X)), problem.options["n_components"]
    prior = problem.prior._replace(scale=factor * problem.prior.scale)
    end = fit(points, n_components=k, prior=prior, max_steps=20_000, tol=1e-15)
    p = end.params
    params = tuple(jnp.asarray(a) for a in (p.weights, p.means, p.within + p.between))
    return _slope(_singles_grad(params, stack(points), problem.prior), len(points.X))


def _with_holes(problem: Problem) -> Groups:
    """Return the first instances of each source, a fifth of the entries missing."""
    groups: Any = problem.data
    codes = np.asarray(groups.group)
    few = np.concatenate([np.flatnonzero(codes == g)[:FEW] for g in np.unique(codes)])
    X = np.asarray(groups.X)[few]
    hole = np.random.default_rng(3).random(X.shape) < 0.2
    return Groups(np.where(hole, np.nan, X), codes[few])


def missing_slope(problem: Problem, fill: bool = False) -> dict[str, Any]:
    """Differentiate NumPyro's density of what was seen where grouped EM ends."""
    groups, start = _with_holes(problem), _start(problem)[0]
    if fill:
        data: Any = group_data(filled(groups), prior=problem.prior)
    else:
        data = group_rows(groups, prior=problem.prior)
    end = run_em(em_step, start, data, max_steps=20_000, tol=1e-15)
    slope = _value_and_grad(end.params, stack(groups), problem.prior)[1]
    return _slope(slope, len(groups.X))


def zero_missing_slope(problem: Problem) -> dict[str, Any]:
    """Return zeros of the shapes of the gradient."""
    shapes = _slope(_start(problem)[0], 1)
    return {k: np.zeros_like(v) for k, v in shapes.items()}


def zero_mixture_slope(problem: Problem) -> dict[str, Any]:
    """Return zeros of the shapes of the gradient."""
    return {k: np.zeros_like(v) for k, v in mixture_slope(problem).items()}


def step_without_spread(params: Any, data: Any) -> tuple[Any, Any]:
    """Do a wrong EM step, every x_i replaced by its component's mean estimate."""
    stats = e_step(params, data)
    _, objective = em_step(params, data)
    f = stats.first
    point = jnp.einsum("ki,kj->kij", f, f) / stats.mass[:, None, None]
    wrong = stats._replace(between=point)
    return m_step(wrong, params.means, data.prior), objective


def _fall(problem: Problem, step: Any) -> dict[str, Any]:
    start, data = _start(problem)
    trace = np.asarray(run_em(step, start, data, max_steps=60, tol=0.0).trace)
    trace = trace[np.isfinite(trace)]
    fall = np.max(np.maximum(-np.diff(trace), 0.0), initial=0.0)
    return {"largest fall": fall / abs(trace[-1])}


CHECKS: tuple[Check, ...] = (
    Check(
        "EM's objective is the NumPyro log joint density, constants included",
        "exact",
        value_reference,
        value_estimate,
        {"prior forgotten": value_without_prior},
        rtol=1e-10,
        layer="gradient",
    ),
    Check(
        "grouped EM ends where the NumPyro density is stationary",
        "exact",
        zero_slope,
        grouped_slope,
        {"stopped early": lambda problem: grouped_slope(problem, EARLY)},
        atol=1e-5,
        layer="gradient",
    ),
    Check(
        "grouped EM with missing entries ends where the NumPyro density is stationary",
        "exact",
        zero_missing_slope,
        missing_slope,
        {"missing entries filled": lambda problem: missing_slope(problem, True)},
        atol=1e-5,
        layer="gradient",
    ),
    Check(
        "mixture EM ends where the NumPyro density is stationary",
        "exact",
        zero_mixture_slope,
        mixture_slope,
        {"scale matrix doubled": lambda problem: mixture_slope(problem, 2.0)},
        atol=1e-5,
        layer="gradient",
    ),
    Check(
        "grouped EM never lowers its objective",
        "exact",
        lambda problem: {"largest fall": 0.0},
        lambda problem: _fall(problem, em_step),
        {"posterior covariance dropped": lambda p: _fall(p, step_without_spread)},
        atol=1e-11,
        layer="algebra",
    ),
)
