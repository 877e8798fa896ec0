"""Density, derivatives, modes, and integrals over effects, of LCA with point effects.

All stand against NumPyro's own density; P(same) of new points and the densities of
left-out points against quadrature over effects.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.integrate import quad

from probmetric.checks.check import (
    Check,
    Problem,
    Values,
    by_gradient,
    zero,
)
from probmetric.checks.point_effects.problems import fit_problem
from probmetric.checks.sides import density_of
from probmetric.data.containers import Pairs
from probmetric.inference.effects.fit import POINTS, mode_at, point_data
from probmetric.inference.effects.fit import fit_points as fit
from probmetric.inference.effects.left_out import point_log_likelihood
from probmetric.inference.effects.points import (
    derivatives,
    log_joint,
    position,
    rows_of,
)
from probmetric.inference.effects.profile import log_half_normal
from probmetric.models.point_effects import (
    identified,
    intercept_of_new,
    point_effects,
)

type Sites = dict[str, Any]


def _sites(problem: Problem[Pairs]) -> Sites:
    """Return the fit by the names of its sites; z = 0 where the spread is."""
    at = jax.tree.map(jnp.asarray, position(problem.params))
    return {**at, "spread": jnp.asarray(float(problem.params.spread) or 0.05)}


def _numpyro(problem: Problem[Pairs]) -> Any:
    return density_of(point_effects, (problem.data, problem.prior), problem.options)


def _points(problem: Problem[Pairs]) -> list[Sites]:
    """Return three positions: the fit, and around it."""
    rng, at, found = np.random.default_rng(0), _sites(problem), []
    for size in (0.0, 0.3, 1.0):
        moved = {k: v + size * rng.normal(size=v.shape) for k, v in at.items()}
        moved["spread"] = at["spread"] * np.exp(size * rng.normal())
        found.append(moved)
    return found


def _tabulated(problem: Problem[Pairs], density: Any) -> Values:
    found = [density(at) for at in _points(problem)]
    slopes = {f"gradient in {k}": [s[k] for _, s in found] for k in _sites(problem)}
    return {"log density": [value for value, _ in found], **slopes}


def density_reference(problem: Problem[Pairs]) -> Values:
    """Evaluate the NumPyro density and its derivative at three positions."""
    return _tabulated(problem, _numpyro(problem))


def density_estimate(
    problem: Problem[Pairs], lam: float = 1.0, normal: float = 1.0
) -> Values:
    """Evaluate the closed form there; wrong in λ, or in the prior of the effects."""
    prior, rate = problem.prior, problem.options["learning_rate"]
    prior = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    rows = rows_of(problem.data, rate)
    return _tabulated(problem, lambda at: _closed_form(at, rows, prior, normal))


@jax.jit
@jax.value_and_grad
def _closed_form(sites: Sites, rows: Any, prior: Any, normal: Any) -> Any:
    extra = 0.5 * (1 - normal) * jnp.sum(sites["z"] ** 2)
    on_spread = log_half_normal(sites["spread"], prior.spread)
    return log_joint(sites, rows, prior) + on_spread + extra


NAMES = ("W", "log_b", "z")


def _expanded(problem: Problem[Pairs]) -> Any:
    """Return NumPyro's density, and its derivatives in (W, log b, z), of the sites."""
    density = _numpyro(problem)
    unravel = ravel_pytree({k: _sites(problem)[k] for k in NAMES})[1]

    def value(x: Any, spread: Any) -> Any:
        return density({**unravel(x), "spread": spread})[0]

    @jax.jit
    def expanded(at: Sites) -> tuple[Any, Any, Any]:
        x, spread = ravel_pytree({k: at[k] for k in NAMES})[0], at["spread"]
        slope, H = jax.grad(value)(x, spread), jax.hessian(value)(x, spread)
        return value(x, spread), slope, H

    return expanded


def hessian_reference(problem: Problem[Pairs]) -> Values:
    """Differentiate NumPyro's density twice at three positions."""
    expanded = _expanded(problem)
    found = [expanded(at) for at in _points(problem)]
    return {
        "gradient": [slope for _, slope, _ in found],
        "minus Hessian": [-np.asarray(H) for _, _, H in found],
    }


def hessian_estimate(
    problem: Problem[Pairs], lam: float = 1.0, alone: bool = False
) -> Values:
    """Return both in closed form; wrong in λ, or with points that are not shared."""
    prior, rate = problem.prior, problem.options["learning_rate"]
    prior = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    rows = rows_of(problem.data, rate)
    found = [derivatives(at, rows, prior) for at in _points(problem)]
    gradients, hessians = ([each[k] for each in found] for k in (0, 1))
    if alone:  # Curvature between points left out.
        m = problem.params.W.size + 1
        for H in hessians:
            H[m:, m:] = np.diag(np.diag(H[m:, m:]))
    return {"gradient": gradients, "minus Hessian": hessians}


def mode_slope(problem: Problem[Pairs], lam: float = 1.0) -> Values:
    """Differentiate NumPyro's density in (W, log b, z) where the fit ends."""
    prior = problem.prior
    wrong = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    found = fit(problem.data, wrong, **problem.options)
    sites = _sites(replace(problem, params=found.params))
    if float(found.params.spread) == 0:
        sites["spread"] = 0 * sites["spread"]
    _, slope = _numpyro(problem)(sites)
    n = len(problem.data.i) * problem.options["learning_rate"]
    return {f"gradient in {k}": np.asarray(slope[k]) / n for k in NAMES}


SPREADS = (0.1, 0.4, 0.9)


def _mode(problem: Problem[Pairs], spread: float) -> Any:
    data = point_data(problem.data, problem.prior, **problem.options)
    return mode_at(POINTS, spread, position(problem.params), data)


def dense_evidence(problem: Problem[Pairs]) -> Values:
    """Apply Laplace's method to NumPyro's density, by its Hessian."""
    expanded, found = _expanded(problem), list[float]()
    for spread in SPREADS:
        at = jax.tree.map(jnp.asarray, _mode(problem, spread).at)
        value, slope, H = expanded({**at, "spread": jnp.asarray(spread)})
        constant = 0.5 * len(slope) * np.log(2 * np.pi)
        determinant = np.linalg.slogdet(-np.asarray(H))[1]
        found.append(float(value) + constant - determinant / 2)
    return {"log density of ω": found}


def evidence(problem: Problem[Pairs], joint: bool = False) -> Values:
    """Return the same of the fit; without the determinant, as a joint mode has it."""
    found: list[float] = []
    for spread in SPREADS:
        mode = _mode(problem, spread)
        extra = mode.factors.log_determinant / 2 if joint else 0.0
        found.append(mode.log_density + extra)
    return {"log density of ω": found}


def score_of_spread(problem: Problem[Pairs], factor: float = 1.0) -> Values:
    """Differentiate that density at the fitted ω, in its posterior sd; 0 at an end.

    By central differences, h = 1 % of ω.
    """
    spread = factor * float(fit_problem(problem).params.spread)
    if factor != 1.0:
        spread = max(spread, 0.5)
    if spread == 0:
        return {"score of ω": 0.0}
    h = 0.01 * spread
    low, here, high = (
        _mode(problem, spread + k * h).log_density for k in (-1.0, 0.0, 1.0)
    )
    curvature = -(high - 2 * here + low) / h**2
    return {"score of ω": (high - low) / (2 * h) / np.sqrt(abs(curvature))}


def _new_by_quadrature(problem: Problem[Pairs]) -> Values:
    """Integrate e^{-b_i/2} over the effect of a new point by SciPy's quad."""
    b = float(identified(problem.params)["b"])
    found: list[float] = []
    for spread in SPREADS:

        def density(z: float, spread: float = spread) -> float:
            h = 0.5 * b * np.exp(spread * z)
            return np.exp(-h - z**2 / 2) / np.sqrt(2 * np.pi)

        mean = quad(density, -12, 12, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        found.append(-2 * np.log(mean))
    return {"b of new points": found}


def _new(problem: Problem[Pairs], typical: bool = False) -> Values:
    """Return it as the model does; of a typical point instead."""
    b = float(identified(problem.params)["b"])
    spreads = 0 * np.array(SPREADS) if typical else np.array(SPREADS)
    return {"b of new points": np.asarray(intercept_of_new(b + 0 * spreads, spreads))}


def _one_draw(problem: Problem[Pairs]) -> dict[str, np.ndarray]:
    found = identified(problem.params)
    spread = np.array(max(float(found["spread"]), 0.5))
    values = {**found, "spread": spread}
    return {k: np.asarray(v)[None, None] for k, v in values.items()}


def _left_out_by_quadrature(problem: Problem[Pairs]) -> Values:
    """Integrate the density of all pairs of three points over the effect of each."""
    values, pairs = _one_draw(problem), problem.data
    b, spread, b_point = (values[k][0, 0] for k in ("b", "spread", "b_point"))
    delta = np.asarray(pairs.X)[pairs.i] - np.asarray(pairs.X)[pairs.j]
    half = 0.5 * np.einsum("nd,de,ne->n", delta, values["M"][0, 0], delta)
    found: list[float] = []
    for point in range(3):
        own = (np.asarray(pairs.i) == point) | (np.asarray(pairs.j) == point)
        other = np.where(np.asarray(pairs.i) == point, pairs.j, pairs.i)[own]
        rest, same = half[own] + 0.5 * b_point[other], np.asarray(pairs.y)[own] == 1

        def log_density(z: Any, rest: Any = rest, same: Any = same) -> Any:
            t = rest + 0.5 * b * np.exp(spread * z)
            return np.where(same, -t, np.log(-np.expm1(-t))).sum() - z**2 / 2

        top = max(log_density(z) for z in np.linspace(-6, 6, 601))

        def density(z: float, at: Any = log_density, top: float = top) -> float:
            return float(np.exp(at(z) - top))

        area = quad(density, -12, 12, points=[-3, -1, 0, 1, 3], limit=400)[0]
        found.append(top + np.log(area) - 0.5 * np.log(2 * np.pi))
    return {"log density of a point's pairs": found}


def _left_out(problem: Problem[Pairs], known: bool = False) -> Values:
    """Return it as ``left_out`` does; with the effect taken as known, ω = 0."""
    values = _one_draw(problem)
    if known:
        values["spread"] = 0 * values["spread"]
    found = point_log_likelihood(values, rows_of(problem.data))
    return {"log density of a point's pairs": found[0, 0, :3]}


CHECKS: tuple[Check, ...] = (
    by_gradient(
        "log joint is the NumPyro density, value and gradient",
        reference=density_reference,
        estimate=density_estimate,
        controls={
            "another prior width": partial(density_estimate, lam=1.01),
            "effects of variance 1/2": partial(density_estimate, normal=2.0),
        },
    ),
    by_gradient(
        "gradient and Hessian are those of the NumPyro density",
        reference=hessian_reference,
        estimate=hessian_estimate,
        controls={
            "another prior width": partial(hessian_estimate, lam=1.01),
            "no curvature between points": partial(hessian_estimate, alone=True),
        },
    ),
    by_gradient(
        "the fit is a mode of the NumPyro density given the spread",
        reference=zero,
        estimate=mode_slope,
        controls={
            "λ a tenth too large": partial(mode_slope, lam=1.1),
        },
        atol=1e-8,
    ),
    by_gradient(
        "Laplace's density of the spread is that of NumPyro's Hessian",
        reference=dense_evidence,
        estimate=evidence,
        controls={
            "no determinant, as a joint mode has it": partial(evidence, joint=True)
        },
        rtol=1e-8,
    ),
    by_gradient(
        "the spread is a mode of its density, in posterior sd",
        reference=zero,
        estimate=score_of_spread,
        controls={"ω half too large": partial(score_of_spread, factor=1.5)},
        atol=0.02,
    ),
    Check(
        "P(same) of new points is integrated over their effects",
        "exact",
        reference=_new_by_quadrature,
        estimate=_new,
        controls={"that of typical points": partial(_new, typical=True)},
        rtol=1e-9,
        layer="quadrature",
    ),
    Check(
        "pairs of a left-out point are integrated over its effect",
        "exact",
        reference=_left_out_by_quadrature,
        estimate=_left_out,
        controls={"its effect left out as well": partial(_left_out, known=True)},
        rtol=1e-7,
        layer="quadrature",
    ),
)
