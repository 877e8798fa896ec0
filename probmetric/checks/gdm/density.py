"""Density, Hessian and mode compared with NumPyro's density."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from probmetric.checks.check import Problem, Values, by_gradient, zero
from probmetric.checks.claims import (
    MODE,
    Change,
    Sites,
    density,
    hessian,
    numpyro_density,
    prior_times,
    same,
    size_of,
    untempered,
)
from probmetric.checks.gdm.problems import fit_problem
from probmetric.data.containers import Pairs
from probmetric.inference.gdm.likelihood import (
    Rows,
    log_joint,
    precisions,
    rows_of,
    to_beta,
    value_and_derivatives,
)
from probmetric.models.gdm import GDMPrior, gdm
from probmetric.typing import Scalar


def _points(problem: Problem[Pairs]) -> list[Sites]:
    """Return three values of (b, θ), away from the edge."""
    rng = np.random.default_rng(0)
    b, theta = np.asarray(problem.params.b), np.asarray(problem.params.theta)
    return [
        {
            "b": jnp.asarray(b + 0.1 * s),
            "theta": jnp.asarray(theta + s * rng.random(theta.shape)),
        }
        for s in (0.1, 0.5, 1.0)
    ]


def _rows(problem: Problem[Pairs]) -> Rows:
    return rows_of(problem.data, problem.prior, problem.options["learning_rate"])


def _closed(problem: Problem[Pairs], orders: float = 0.0) -> Any:
    """Return the log joint density; wrong: the log number of orders off."""
    rows = _rows(problem)
    return _density, (rows._replace(ways=rows.ways + orders), problem.prior)


def _density(sites: Sites, rows: Rows, prior: GDMPrior) -> Scalar:
    return log_joint(sites["b"], sites["theta"], rows, prior)


def _curvature(problem: Problem[Pairs], at: Sites) -> Any:
    beta = np.append(at["b"], at["theta"])
    return value_and_derivatives(beta, _rows(problem), precisions(problem.prior))[2]


def _slope(problem: Problem[Pairs], change: Change = same) -> Values:
    """Return NumPyro's gradient at the fit, without slopes that point out of β ≥ 0."""
    params = fit_problem(change(problem)).params
    at = {"b": jnp.asarray(params.b), "theta": jnp.asarray(params.theta)}
    slope = numpyro_density(gdm, problem)(at)[1]
    g, beta = np.append(slope["b"], slope["theta"]), to_beta(params)
    return {"gradient": np.where(beta > 0, g, np.maximum(g, 0)) / size_of(problem)}


CHECKS = (
    density(
        gdm,
        _points,
        _closed,
        wrong={
            "another prior width": prior_times(scale=1.01),
            "learning rate left out": untempered,
            "the log number of orders off by 1": {"orders": 1.0},
        },
    ),
    hessian(
        gdm,
        _points,
        _curvature,
        ("b", "theta"),
        wrong={"another prior width": prior_times(scale=1.01)},
    ),
    by_gradient(
        f"{MODE}, also at the edge of its support",
        reference=zero,
        estimate=_slope,
        controls={
            "prior a tenth too wide": partial(_slope, change=prior_times(scale=1.1))
        },
        atol=1e-6,
    ),
)
