"""I-splines against quadrature; density, derivatives and mode against NumPyro's."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import BSpline
from scipy.optimize import minimize

from probmetric.checks.check import (
    Problem,
    Values,
    by_algebra,
    by_gradient,
    by_quadrature,
    zero,
)
from probmetric.checks.sides import density_of
from probmetric.data.containers import Pairs
from probmetric.inference.gdm.fit import fit
from probmetric.inference.gdm.likelihood import (
    log_joint,
    precisions,
    rows_of,
    to_beta,
    value_and_derivatives,
)
from probmetric.metric.splines import i_splines
from probmetric.models.gdm import gdm, to_metric


def _grid(problem: Problem[Pairs]) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the range of each covariate (g, d) with its ends, and knots."""
    knots = np.asarray(problem.prior.knots, float)
    share = np.linspace(0, 1, 33)[:, None]
    return knots[:, 0] * (1 - share) + knots[:, -1] * share, knots


def quadrature(problem: Problem[Pairs]) -> Values:
    """Integrate SciPy's B-splines of degree 1, scaled to M-splines, by antiderivative.

    The M-spline of order 2 on (l, m, r) is the B-spline there times 2/(r - l).
    """
    X, knots = _grid(problem)
    found = np.zeros((*X.shape, knots.shape[1]))
    for f, row in enumerate(knots):
        padded = np.concatenate([row[:1], row, row[-1:]])
        for k in range(len(row)):
            ends = padded[k : k + 3]
            # A basis element by its own knots; the whole basis sums to one on the row.
            chosen = np.zeros(len(row))
            chosen[k] = 2 / (ends[2] - ends[0])
            integral = BSpline(padded, chosen, 1).antiderivative()
            found[:, f, k] = integral(X[:, f]) - integral(row[0])
    return {"I-splines": found}


def closed_splines(problem: Problem[Pairs], shift: int = 0) -> Values:
    """Evaluate Eq. (1) of ``metric.splines``; of the next spline, if asked."""
    X, knots = _grid(problem)
    return {"I-splines": np.roll(i_splines(X, knots), shift, -1)}


def by_differences(problem: Problem[Pairs]) -> Values:
    """Sum absolute differences of curves, feature by feature."""
    X, knots = np.asarray(problem.data.X), np.asarray(problem.params.knots)
    theta = np.asarray(problem.params.theta)
    curves = np.stack(
        [i_splines(X, knots)[:, f] @ theta[f] for f in range(len(theta))], 1
    )
    D = np.abs(curves[:, None] - curves[None]).sum(-1)
    b = float(problem.params.b)
    row = D[0]
    return {
        "all pairs": D,
        "prepared": D,
        "one query": row,
        "distance": row,
        "call": D[0, 1],
        "P(same)": np.exp(-(b + row)),
        "images": curves,
    }


def asked(problem: Problem[Pairs], squared: bool = False) -> Values:
    """Ask the metric in each way; for squares of it, if asked."""
    metric, X = to_metric(problem.params), np.asarray(problem.data.X)
    first = np.broadcast_to(X[0], X.shape)
    power = 2 if squared else 1
    return {
        "all pairs": metric.pairwise(X, X) ** power,
        "prepared": metric.from_prepared(metric.prepare(X), X) ** power,
        "one query": metric.dissimilarity(X[0], X) ** power,
        "distance": metric.distance(first, X) ** power,
        "call": metric(X[0], X[1]) ** power,
        "P(same)": metric.same_probability(first, X),
        "images": metric.transform(X),
    }


def _numpyro(problem: Problem[Pairs]) -> Any:
    args = (problem.data, problem.prior)
    return density_of(gdm, args, problem.options)


def _points(problem: Problem[Pairs]) -> list[dict[str, np.ndarray]]:
    """Return three values of (b, θ), away from the edge."""
    rng = np.random.default_rng(0)
    b, theta = np.asarray(problem.params.b), np.asarray(problem.params.theta)
    return [
        {"b": np.asarray(b + 0.1 * s), "theta": theta + s * rng.random(theta.shape)}
        for s in (0.1, 0.5, 1.0)
    ]


def density_reference(problem: Problem[Pairs]) -> Values:
    """Evaluate NumPyro's density and its derivatives at three places."""
    density, found = _numpyro(problem), []
    for at in _points(problem):
        value, slope = density(jax.tree.map(jnp.asarray, at))
        found.append((value, np.append(slope["b"], slope["theta"])))
    values, slopes = zip(*found, strict=True)
    return {"log density": list(values), "gradient": list(slopes)}


def density_estimate(
    problem: Problem[Pairs], scale: float = 1.0, orders: bool = True
) -> Values:
    """Evaluate the closed forms there; wrong in the prior, or without orders."""
    prior = problem.prior._replace(scale=scale * problem.prior.scale)
    rows = rows_of(problem.data, prior.knots, problem.options["learning_rate"])
    rows = rows if orders else rows._replace(ways=np.zeros(()))
    precision = precisions(prior)
    values = [log_joint(at["b"], at["theta"], rows, prior) for at in _points(problem)]
    slopes = [
        value_and_derivatives(np.append(at["b"], at["theta"]), rows, precision)[1]
        for at in _points(problem)
    ]
    return {"log density": values, "gradient": slopes}


def hessian_reference(problem: Problem[Pairs]) -> Values:
    """Differentiate NumPyro's density twice."""
    density, shape = _numpyro(problem), np.shape(problem.prior.knots)

    def slope(beta: Any) -> Any:
        at = {"b": beta[0], "theta": beta[1:].reshape(shape)}
        found = density(at)[1]
        return jnp.append(found["b"], found["theta"])

    second = jax.jit(jax.jacfwd(slope))
    betas = [np.append(at["b"], at["theta"]) for at in _points(problem)]
    return {"minus Hessian": [-np.asarray(second(beta)) for beta in betas]}


def hessian_estimate(problem: Problem[Pairs], scale: float = 1.0) -> Values:
    """Return it in closed form; wrong in the prior."""
    prior = problem.prior._replace(scale=scale * problem.prior.scale)
    rows = rows_of(problem.data, prior.knots, problem.options["learning_rate"])
    betas = [np.append(at["b"], at["theta"]) for at in _points(problem)]
    return {
        "minus Hessian": [
            value_and_derivatives(beta, rows, precisions(prior))[2] for beta in betas
        ]
    }


def mode_slope(problem: Problem[Pairs], scale: float = 1.0) -> Values:
    """Return what of NumPyro's gradient a move could follow, a pair; wrong in scale.

    That of entries above 0, and the part that points inwards of those at 0.
    """
    prior = problem.prior._replace(scale=scale * problem.prior.scale)
    params = fit(problem.data, prior, **problem.options).params
    at = {"b": jnp.asarray(params.b), "theta": jnp.asarray(params.theta)}
    slope = _numpyro(problem)(at)[1]
    g, beta = np.append(slope["b"], slope["theta"]), to_beta(params)
    return {"gradient": np.where(beta > 0, g, np.maximum(g, 0)) / len(problem.data.i)}


def other_solver(problem: Problem[Pairs]) -> Values:
    """Maximise NumPyro's density by SciPy's L-BFGS-B, from elsewhere."""
    density, shape = _numpyro(problem), np.shape(problem.prior.knots)

    def down(beta: np.ndarray) -> tuple[float, np.ndarray]:
        at = {"b": jnp.asarray(beta[0]), "theta": jnp.asarray(beta[1:].reshape(shape))}
        value, slope = density(at)
        return -float(value), -np.append(slope["b"], slope["theta"])

    q = 1 + int(np.prod(shape))
    bounds = [(1e-9, None)] * q  # NumPyro's half-normal has density 0 at 0.
    found = minimize(
        down,
        np.full(q, 0.5),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-9},
    )
    return {"b, heights": found.x, "log density": -found.fun}


def own_solver(problem: Problem[Pairs], scale: float = 1.0) -> Values:
    """Return the fit; wrong in the prior."""
    prior = problem.prior._replace(scale=scale * problem.prior.scale)
    found = fit(problem.data, prior, **problem.options)
    return {"b, heights": to_beta(found.params), "log density": float(found.objective)}


CHECKS = (
    by_quadrature(
        "I-splines are integrals of M-splines",
        reference=quadrature,
        estimate=closed_splines,
        controls={"of the next knot": partial(closed_splines, shift=1)},
        rtol=1e-10,
        atol=1e-12,
    ),
    by_algebra(
        "the metric is one distance, whichever way it is asked for",
        reference=by_differences,
        estimate=asked,
        controls={"its square": partial(asked, squared=True)},
        rtol=1e-10,
        atol=1e-12,
    ),
    by_gradient(
        "log joint is the NumPyro density, value and gradient",
        reference=density_reference,
        estimate=density_estimate,
        controls={
            "another prior width": partial(density_estimate, scale=1.01),
            "the number of orders forgotten": partial(density_estimate, orders=False),
        },
    ),
    by_gradient(
        "Hessian is that of the NumPyro density",
        reference=hessian_reference,
        estimate=hessian_estimate,
        controls={"another prior width": partial(hessian_estimate, scale=1.01)},
    ),
    by_gradient(
        "the fit is the mode of the NumPyro density, at the edge too",
        reference=zero,
        estimate=mode_slope,
        controls={"prior a tenth too wide": partial(mode_slope, scale=1.1)},
        atol=1e-6,
    ),
    by_gradient(
        "the fit is where another solver ends",
        reference=other_solver,
        estimate=own_solver,
        controls={"prior a tenth too wide": partial(own_solver, scale=1.1)},
        rtol=1e-6,
        atol=1e-4,
    ),
)
