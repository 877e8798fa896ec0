"""Density, derivatives, modes, and integrals over effects, of LCA with point effects.

All are compared with NumPyro's density; P(same) of new points and the densities of
left-out points with quadrature over the effects.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import quad

from probmetric.checks.check import Problem, Values, by_quadrature
from probmetric.checks.claims import (
    SPREADS,
    Sites,
    around,
    density,
    hessian,
    mode,
    prior_times,
    spread_claims,
    untempered,
)
from probmetric.checks.point_effects.problems import fit_problem
from probmetric.data.containers import Pairs
from probmetric.inference.effects.fit import POINTS, Mode, data_of, mode_at
from probmetric.inference.effects.left_out import point_log_likelihood
from probmetric.inference.effects.points import (
    derivatives,
    log_joint,
    position,
    rows_of,
)
from probmetric.inference.effects.profile import log_half_normal
from probmetric.models.point_effects import identified, intercept_of_new, point_effects

NAMES = ("W", "log_b", "z")


def _points(problem: Problem[Pairs]) -> list[Sites]:
    at = position(problem.params)
    spread = float(problem.params.spread) or 0.05
    return around({**at, "spread": spread}, positive=("spread",))


def _rows(problem: Problem[Pairs]) -> Any:
    return rows_of(problem.data, problem.options["learning_rate"])


def _closed(problem: Problem[Pairs]) -> Any:
    return _density, (_rows(problem), problem.prior)


def _density(sites: Sites, rows: Any, prior: Any) -> Any:
    on_spread = log_half_normal(sites["spread"], prior.spread)
    return log_joint(sites, rows, prior) + on_spread


def _curvature(problem: Problem[Pairs], at: Sites, apart: bool = False) -> np.ndarray:
    """Return minus the Hessian; wrong: no curvature between points."""
    H = np.array(derivatives(at, _rows(problem), problem.prior)[1])
    if apart:
        m = problem.params.W.size + 1
        H[m:, m:] = np.diag(np.diag(H[m:, m:]))
    return H


def _end(problem: Problem[Pairs]) -> Sites:
    params = fit_problem(problem).params
    return {**position(params), "spread": params.spread}


def _mode(problem: Problem[Pairs], spread: float) -> Mode:
    data = data_of(problem.data, problem.prior, **problem.options)[1]
    return mode_at(POINTS, spread, position(problem.params), data)


def _half_log_determinant(at: Any) -> float:
    return at.factors.log_determinant / 2


def _new_by_quadrature(problem: Problem[Pairs]) -> Values:
    """Integrate e^{-b_i/2} over the effect of a new point."""
    b = float(identified(problem.params)["b"])

    def integrand(z: float, spread: float) -> float:
        return np.exp(-0.5 * b * np.exp(spread * z) - z**2 / 2) / np.sqrt(2 * np.pi)

    accurate: Any = {"epsabs": 1e-13, "epsrel": 1e-12, "limit": 200}
    means = [quad(integrand, -12, 12, (spread,), **accurate)[0] for spread in SPREADS]
    return {"b of new points": -2 * np.log(means)}


def _new(problem: Problem[Pairs], typical: bool = False) -> Values:
    """Return it in closed form; wrong: that of a typical point."""
    spreads = (0.0 if typical else 1.0) * np.array(SPREADS)
    b = float(identified(problem.params)["b"]) + 0 * spreads
    return {"b of new points": np.asarray(intercept_of_new(b, spreads))}


def _one_draw(problem: Problem[Pairs]) -> dict[str, np.ndarray]:
    values = identified(problem.params)
    spread = np.array(max(float(values["spread"]), 0.5))
    values = {**values, "spread": spread}
    return {k: np.asarray(v)[None, None] for k, v in values.items()}


def _left_out_by_quadrature(problem: Problem[Pairs]) -> Values:
    values, pairs = _one_draw(problem), problem.data
    b, spread, b_point = (values[k][0, 0] for k in ("b", "spread", "b_point"))
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    delta = np.asarray(pairs.X)[i] - np.asarray(pairs.X)[j]
    half = 0.5 * np.einsum("nd,de,ne->n", delta, values["M"][0, 0], delta)

    def log_density(z: float, point: int) -> float:
        rows = (i == point) | (j == point)
        other = np.where(i == point, j, i)[rows]
        t = half[rows] + 0.5 * (b_point[other] + b * np.exp(spread * z))
        same = np.asarray(pairs.y)[rows] == 1
        return float(np.where(same, -t, np.log(-np.expm1(-t))).sum()) - z**2 / 2

    logs: list[float] = []
    for point in range(3):
        top = max(log_density(z, point) for z in np.linspace(-6, 6, 601))

        def integrand(z: float, point: int = point, top: float = top) -> float:
            return float(np.exp(log_density(z, point) - top))

        area = quad(integrand, -12, 12, points=[-3, -1, 0, 1, 3], limit=400)[0]
        logs.append(top + float(np.log(area / np.sqrt(2 * np.pi))))
    return {"log density of a point's pairs": logs}


def _left_out(problem: Problem[Pairs], certain: bool = False) -> Values:
    """Return it as ``left_out`` does; wrong: without uncertainty of the effect."""
    values = _one_draw(problem)
    if certain:
        values["spread"] = 0 * values["spread"]
    logs = point_log_likelihood(values, rows_of(problem.data))
    return {"log density of a point's pairs": logs[0, 0, :3]}


CHECKS = (
    density(
        point_effects,
        _points,
        _closed,
        wrong={
            "another prior width": prior_times(lam=1.01),
            "learning rate left out": untempered,
        },
    ),
    hessian(
        point_effects,
        _points,
        _curvature,
        NAMES,
        wrong={
            "another prior width": prior_times(lam=1.01),
            "no curvature between points": {"apart": True},
        },
    ),
    mode(
        point_effects,
        _end,
        names=NAMES,
        wrong={"λ a tenth too large": prior_times(lam=1.1)},
        atol=1e-8,
    ),
    *spread_claims(
        point_effects,
        _mode,
        fit_problem,
        NAMES,
        wrong={"no determinant, as at a joint mode": _half_log_determinant},
    ),
    by_quadrature(
        "P(same) of new points is the integral over their effects",
        reference=_new_by_quadrature,
        estimate=_new,
        controls={"that of typical points": partial(_new, typical=True)},
    ),
    by_quadrature(
        "the density of a left-out point's pairs is the integral over its effect",
        reference=_left_out_by_quadrature,
        estimate=_left_out,
        controls={"its effect taken as certain": partial(_left_out, certain=True)},
        rtol=1e-7,
    ),
)
