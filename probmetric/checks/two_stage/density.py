"""EM and the samplers' density compared with the NumPyro density and its gradient."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.infer.util import potential_energy

from probmetric.checks.check import Problem, Values, by_algebra, by_gradient, zero
from probmetric.checks.sides import density_of, largest_fall
from probmetric.checks.two_stage.similarity import near
from probmetric.data.containers import Groups, Points
from probmetric.data.groups import stack
from probmetric.inference.sampling.target import Arrays
from probmetric.inference.solvers.em import run_em
from probmetric.inference.two_stage.fit import fit, start_groups
from probmetric.inference.two_stage.groups import (
    GroupData,
    e_step,
    em_step,
    group_data,
    m_step,
)
from probmetric.inference.two_stage.groups_missing import GroupRows, filled, group_rows
from probmetric.inference.two_stage.target import (
    TARGET,
    Data,
    Fitted,
    pack,
    position,
)
from probmetric.models.two_stage import TwoStageParams, two_stage
from probmetric.typing import Array, ArrayLike, Scalar

FEW = 3
"""Instances of a source in the claims about missing entries and the target."""


def _numpyro(
    data: Groups | Points, problem: Problem[Groups], **options: str | float
) -> Callable[[Mapping[str, Array]], tuple[Array, Arrays]]:
    args = stack(data), problem.prior
    return density_of(two_stage, args, {**problem.options, **options})


def _start(problem: Problem[Groups]) -> tuple[TwoStageParams, GroupData]:
    data = group_data(problem.data, prior=problem.prior)
    start = start_groups(data, **problem.options)
    return jax.tree.map(jnp.asarray, start), data


def _slope(gradient: Mapping[str, Array], n: int, total: ArrayLike) -> Values:
    """Return gradients per point in units of unit covariance, along the simplex."""
    L = np.linalg.cholesky(np.asarray(total))
    slope = {name: np.asarray(g) / n for name, g in gradient.items()}
    for name, g in slope.items():
        if name == "means":
            slope[name] = np.einsum("kji,kj->ki", L, g)
        elif name in ("within", "between", "covariances"):
            slope[name] = np.swapaxes(L, 1, 2) @ g @ L
    return {**slope, "weights": slope["weights"] - slope["weights"].mean()}


def _slope_at_end(
    problem: Problem[Groups],
    groups: Groups,
    data: GroupData | GroupRows,
    max_steps: int = 20_000,
) -> Values:
    """Differentiate NumPyro's density where EM ends; compare it with the objective."""
    start, _ = _start(problem)
    end = run_em(em_step, start, data, max_steps=max_steps, tol=1e-15)
    p = end.params
    value, gradient = _numpyro(groups, problem)(p._asdict())
    n = len(groups.X)
    slope = _slope(gradient, n, p.within + p.between)
    return {**slope, "log joint density": (value - end.objective) / n}


def grouped_slope(problem: Problem[Groups], **stop: int) -> Values:
    """Differentiate NumPyro's density where grouped EM ends."""
    return _slope_at_end(problem, problem.data, _start(problem)[1], **stop)


def mixture_slope(problem: Problem[Groups], factor: float = 1.0) -> Values:
    """Differentiate NumPyro's density where mixture EM ends; ``factor`` scales Ψ."""
    points = Points(np.asarray(problem.data.X))
    prior = problem.prior._replace(scale=factor * problem.prior.scale)
    settings: Any = {**problem.options, "max_steps": 20_000, "tol": 1e-15}
    end = fit(points, prior=prior, **settings).params
    total = end.within + end.between
    sites = {"weights": end.weights, "means": end.means, "covariances": total}
    sites = jax.tree.map(jnp.asarray, sites)
    density = _numpyro(points, problem, covariance="proportional", alpha=0.5)
    return _slope(density(sites)[1], len(points.X), total)


def proportional_slope(problem: Problem[Groups], b: float = 0.0) -> Values:
    """Differentiate NumPyro's density where EM with W = αΣ ends.

    It also returns that density minus the objective. ``b`` is added to Beta(a, b).
    """
    prior = problem.prior._replace(alpha_b=problem.prior.alpha_b + b)
    table: dict[str, ArrayLike] = {}
    for name, groups in (("", problem.data), (", missing", _with_holes(problem))):
        end = fit(
            groups,
            **problem.options,
            covariance="proportional",
            prior=prior,
            max_steps=20_000,
            tol=1e-15,
        )
        p, n = end.params, len(groups.X)
        total = p.within + p.between
        alpha = p.within[0, 0, 0] / total[0, 0, 0]
        sites = {"weights": p.weights, "means": p.means, "covariances": total}
        sites = jax.tree.map(jnp.asarray, {**sites, "alpha": alpha})
        value, gradient = _numpyro(groups, problem, covariance="proportional")(sites)
        slope = _slope(gradient, n, total)
        table |= {k + name: v for k, v in slope.items()}
        table["log joint density" + name] = (value - end.objective) / n
    return table


def _with_holes(problem: Problem[Groups]) -> Groups:
    """Return the first instances of each source, a fifth of the entries missing."""
    groups = problem.data
    codes = np.asarray(groups.group)
    few = np.concatenate([np.flatnonzero(codes == g)[:FEW] for g in np.unique(codes)])
    X = np.asarray(groups.X)[few]
    hole = np.random.default_rng(3).random(X.shape) < 0.2
    w = None if groups.w is None else np.asarray(groups.w)[few]
    return Groups(np.where(hole, np.nan, X), codes[few], w)


def missing_slope(problem: Problem[Groups], fill: bool = False) -> Values:
    """Differentiate NumPyro's density of the observed entries where grouped EM ends."""
    groups = _with_holes(problem)
    data = (
        group_data(filled(groups), prior=problem.prior)
        if fill
        else group_rows(groups, prior=problem.prior)
    )
    return _slope_at_end(problem, groups, data)


def step_without_spread(
    params: TwoStageParams, data: GroupData
) -> tuple[TwoStageParams, Scalar]:
    """Take a wrong EM step: every x_i replaced by its component's mean estimate."""
    stats = e_step(params, data)
    _, objective = em_step(params, data)
    f = stats.first
    point = jnp.einsum("ki,kj->kij", f, f) / stats.mass[:, None, None]
    wrong = stats._replace(between=point)
    return m_step(wrong, params.means, data.prior), objective


def climb(
    problem: Problem[Groups],
    step: Callable[
        [TwoStageParams, GroupData], tuple[TwoStageParams, Scalar]
    ] = em_step,
) -> Values:
    """Follow grouped EM from its start."""
    return largest_fall(step, *_start(problem), max_steps=60)


def _fitted(problem: Problem[Groups]) -> dict[str, Fitted]:
    p = near(problem)._asdict()
    p = TwoStageParams(**{name: np.asarray(a) for name, a in p.items()})
    total = p.within + p.between
    tied = p._replace(within=0.35 * total, between=0.65 * total)
    prior = problem.prior
    codes = np.asarray(problem.data.group)
    # NumPyro stacks all instances of a source: few of each.
    few = [np.flatnonzero(codes == g)[:FEW] for g in np.unique(codes)]
    rows = np.concatenate(few)
    w = None if problem.data.w is None else np.asarray(problem.data.w)[rows]
    data = Groups(np.asarray(problem.data.X)[rows], codes[rows], w)
    return {
        "free": Fitted(data, prior, p, False, None),
        "α sampled": Fitted(data, prior, tied, True, None),
        "α fixed": Fitted(data, prior, tied, True, 0.35),
    }


def target_by_numpyro(problem: Problem[Groups]) -> Values:
    """Evaluate NumPyro's potential on the real line, and the moments of the mixture."""
    table: dict[str, Any] = {}
    for name, fitted in _fitted(problem).items():
        options: dict[str, Any] = {"n_components": len(fitted.params.weights)}
        if fitted.proportional:
            options |= {"covariance": "proportional", "alpha": fitted.alpha}
        args = stack(fitted.data), fitted.prior
        at = jax.tree.map(jnp.asarray, position(fitted))

        def potential(at: Any, args: Any = args, options: Any = options) -> Array:
            return jnp.asarray(potential_energy(two_stage, args, options, at))

        table[f"log density, {name}"] = -jax.jit(potential)(at)
        p = fitted.params
        c, mean = p.weights, p.weights @ p.means
        second = sum(
            c[k] * (p.within[k] + p.between[k] + np.outer(p.means[k], p.means[k]))
            for k in range(len(c))
        )
        table |= {
            f"W, {name}": p.within,
            f"B, {name}": p.between,
            f"mean, {name}": mean,
            f"average of W, {name}": sum(c[k] * p.within[k] for k in range(len(c))),
            f"covariance, {name}": second - np.outer(mean, mean),
        }
    return table


@jax.jit
def _at(at: Arrays, data: Data) -> tuple[Array, Array, Arrays]:
    """Return the target, the same without its Jacobian, and its functionals."""
    assert TARGET.parts is not None
    parts, likelihood = TARGET.parts(at, data)
    density = jnp.asarray(TARGET.log_density(at, data))
    without = jnp.asarray(likelihood + sum(parts.values()))
    return density, without, TARGET.functionals(at, data)


def target(problem: Problem[Groups], jacobian: bool = True) -> Values:
    """Return the same of the target; wrong: without its Jacobian."""
    table: dict[str, Any] = {}
    for name, fitted in _fitted(problem).items():
        data = jax.device_put(pack(fitted))
        at = jax.tree.map(jnp.asarray, position(fitted))
        whole, without, values = _at(at, data)
        table |= {
            f"log density, {name}": whole if jacobian else without,
            f"W, {name}": values["within"],
            f"B, {name}": values["between"],
            f"mean, {name}": values["mean"],
            f"average of W, {name}": values["within_average"],
            f"covariance, {name}": values["covariance_total"],
        }
    return table


CHECKS = (
    by_gradient(
        "grouped EM ends at a stationary point of the NumPyro density",
        reference=zero,
        estimate=grouped_slope,
        controls={"stopped early": partial(grouped_slope, max_steps=2)},
        atol=1e-5,
    ),
    by_gradient(
        "grouped EM ends at a stationary point of the density of observed entries",
        reference=zero,
        estimate=missing_slope,
        controls={"missing entries filled": partial(missing_slope, fill=True)},
        atol=1e-5,
    ),
    by_gradient(
        "mixture EM ends at a stationary point of the NumPyro density",
        reference=zero,
        estimate=mixture_slope,
        controls={"scale matrix doubled": partial(mixture_slope, factor=2.0)},
        atol=1e-5,
    ),
    by_gradient(
        "EM with W = αΣ ends at a stationary point of the NumPyro density",
        reference=zero,
        estimate=proportional_slope,
        controls={"Beta(a, b + 1), not Beta(a, b)": partial(proportional_slope, b=1.0)},
        atol=1e-5,
    ),
    by_algebra(
        "grouped EM never lowers its objective",
        reference=zero,
        estimate=climb,
        controls={
            "posterior covariance left out": partial(climb, step=step_without_spread)
        },
        atol=1e-11,
    ),
    by_gradient(
        "the samplers' density equals NumPyro's potential, free or W = αΣ",
        reference=target_by_numpyro,
        estimate=target,
        controls={"Jacobian left out": partial(target, jacobian=False)},
        rtol=1e-8,
        atol=1e-10,  # Means of centered data are rounding.
    ),
)
