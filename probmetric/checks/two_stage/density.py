"""EM and the samplers' density compared with the NumPyro density and its gradient."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.infer.util import potential_energy

from probmetric.checks.check import Check, Problem, Values, by_gradient, zero
from probmetric.checks.claims import Change, Wrong, controls, prior_times, same
from probmetric.checks.sides import density_of
from probmetric.checks.two_stage.similarity import near
from probmetric.data.containers import Groups, Points
from probmetric.data.groups import stack
from probmetric.inference.sampling.target import Arrays
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.groups_missing import filled
from probmetric.inference.two_stage.target import (
    TARGET,
    Data,
    Fitted,
    pack,
    position,
)
from probmetric.models.two_stage import two_stage
from probmetric.typing import Array, ArrayLike

FEW = 3
"""Instances of a source in the claims about missing entries and the target."""


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


def _few(problem: Problem[Groups]) -> Groups:
    """Return the first instances of each source, because NumPyro stacks instances."""
    groups, codes = problem.data, np.asarray(problem.data.group)
    few = np.concatenate([np.flatnonzero(codes == g)[:FEW] for g in np.unique(codes)])
    w = None if groups.w is None else np.asarray(groups.w)[few]
    return Groups(np.asarray(groups.X)[few], codes[few], w)


def _with_holes(problem: Problem[Groups]) -> Groups:
    """Return a few instances of each source, a fifth of the entries missing."""
    few = _few(problem)
    hole = np.random.default_rng(3).random(few.X.shape) < 0.2
    return few._replace(X=np.where(hole, np.nan, few.X))


def slope_at_end(
    problem: Problem[Groups],
    data: Callable[[Problem[Groups]], Groups | Points],
    change: Change = same,
    fill: bool = False,
    max_steps: int = 20_000,
    **form: str | float,
) -> Values:
    """Differentiate NumPyro's density at the result of EM, for one form of the model.

    Wrong: the fit of a changed problem, of filled missing entries, or stopped early.
    """
    rows, tied = data(problem), {k: v for k, v in form.items() if k == "covariance"}
    settings: Any = {**problem.options, **tied, "max_steps": max_steps, "tol": 1e-15}
    seen = filled(rows) if fill else rows
    end = fit(seen, prior=change(problem).prior, **settings)
    p, total = end.params, end.params.within + end.params.between
    sites: dict[str, Any] = {**p._asdict()}
    if form:
        sites = {"weights": p.weights, "means": p.means, "covariances": total}
        if "alpha" not in form:
            sites["alpha"] = p.within[0, 0, 0] / total[0, 0, 0]
    args, options = (stack(rows), problem.prior), {**problem.options, **form}
    density = density_of(two_stage, args, options)
    value, gradient = density(jax.tree.map(jnp.asarray, sites))
    n = len(rows.X)
    gap = {"log joint density": (value - end.objective) / n}
    return {**_slope(gradient, n, total), **gap}


def _stationary(
    name: str, data: Callable[..., Any], wrong: Wrong, **form: str | float
) -> Check:
    estimate = partial(slope_at_end, data=data, **form)
    return by_gradient(
        name,
        reference=zero,
        estimate=estimate,
        controls=controls(estimate, wrong),
        atol=1e-5,
    )


def _fitted(problem: Problem[Groups]) -> dict[str, Fitted]:
    p, data, prior = near(problem), _few(problem), problem.prior
    total = p.within + p.between
    tied = p._replace(within=0.35 * total, between=0.65 * total)
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
    """Return the target, the target without its Jacobian, and its functionals."""
    assert TARGET.parts is not None
    parts, likelihood = TARGET.parts(at, data)
    density = jnp.asarray(TARGET.log_density(at, data))
    without = jnp.asarray(likelihood + sum(parts.values()))
    return density, without, TARGET.functionals(at, data)


def target(problem: Problem[Groups], jacobian: bool = True) -> Values:
    """Return the values of ``target_by_numpyro`` in closed form; wrong: no Jacobian."""
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
    _stationary(
        "grouped EM ends at a stationary point of the NumPyro density",
        lambda p: p.data,
        {"stopped early": {"max_steps": 2}},
    ),
    _stationary(
        "grouped EM ends at a stationary point of the density of observed entries",
        _with_holes,
        {"missing entries filled": {"fill": True}},
    ),
    _stationary(
        "mixture EM ends at a stationary point of the NumPyro density",
        lambda p: Points(np.asarray(p.data.X)),
        {"scale matrix doubled": prior_times(scale=2.0)},
        covariance="proportional",
        alpha=0.5,
    ),
    *(
        _stationary(
            f"EM with W = αΣ ends at a stationary point of the {density}",
            data,
            {"Beta(a, 1.2 b), not Beta(a, b)": prior_times(alpha_b=1.2)},
            covariance="proportional",
        )
        for density, data in (
            ("NumPyro density", lambda p: p.data),
            ("density of observed entries", _with_holes),
        )
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
