"""LCA's log joint density and EM against NumPyro's own density and its gradient.

Controls: pairs forgotten by the pooled path, another prior, EM with the seed's
variance (erratum 1), EM stopped early.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import log_density

from probmetric.checks.check import Check, Problem
from probmetric.inference import lca as closed_form
from probmetric.inference.lca.em import m_step, moments, reduced_step, spectrum
from probmetric.inference.lca.latent import odds
from probmetric.inference.lca.likelihood import log_joint, log_prior, to_params
from probmetric.inference.lca.statistics import prepare, project
from probmetric.inference.solvers.em import run_em
from probmetric.models.lca import LCAParams, coincidence_exponent, lca

__all__ = ["CHECKS"]


def _points(problem: Problem) -> list[LCAParams]:
    """Three parameter values around the problem's, from a fixed seed."""
    rng = np.random.default_rng(0)
    W, rho = np.asarray(problem.params.W), float(problem.params.log_sigma2)
    size = np.sqrt(np.mean(W**2))
    return [
        LCAParams(
            jnp.asarray(W + scale * size * rng.normal(size=W.shape)),
            jnp.asarray(rho + scale * rng.normal()),
            jnp.ones(()),
        )
        for scale in (0.0, 0.3, 1.0)
    ]


def numpyro_density(problem: Problem, params: LCAParams) -> tuple[Any, Any]:
    """Value and gradient of the NumPyro model's log density, per pair."""
    options = {"learning_rate": problem.options["learning_rate"]}

    def density(sites: dict[str, Any]) -> Any:
        return log_density(lca, (problem.data, problem.prior), options, sites)[0]

    sites = {"W": params.W, "log_sigma2": params.log_sigma2}
    return jax.value_and_grad(density)(sites)


def _density_table(values: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {
        "log density": [float(v) for v, _ in values],
        "gradient in W": np.array([np.asarray(g["W"]) for _, g in values]),
        "gradient in log σ²": [float(g["log_sigma2"]) for _, g in values],
    }


def density_reference(problem: Problem) -> dict[str, Any]:
    """Evaluate the NumPyro density at three points."""
    return _density_table([numpyro_density(problem, q) for q in _points(problem)])


def _pooled(problem: Problem, n_same: float = 1.0, prior: Any = None) -> Any:
    stats = prepare(problem.data)  # pyright: ignore[reportArgumentType]
    stats = stats._replace(n_same=n_same * stats.n_same)
    prior = problem.prior if prior is None else prior

    def value(sites: dict[str, Any]) -> Any:
        rate = problem.options["learning_rate"]
        return log_joint(to_params(sites), stats, prior, rate)

    both = jax.jit(jax.value_and_grad(value))
    sites = [{"W": q.W, "log_sigma2": q.log_sigma2} for q in _points(problem)]
    return _density_table([both(s) for s in sites])


def _slope_at(problem: Problem, params: LCAParams) -> dict[str, Any]:
    """Gradient of the NumPyro density a unit of data, zero at a mode."""
    _, slope = numpyro_density(problem, params)
    stats = prepare(problem.data)  # pyright: ignore[reportArgumentType]
    n = float(stats.n) * problem.options["learning_rate"]
    return {
        "gradient in W": np.asarray(slope["W"]) / n,
        "gradient in log σ²": np.asarray(slope["log_sigma2"]) / n,
    }


def _map_em(problem: Problem, max_steps: int) -> LCAParams:
    found = closed_form.fit(
        problem.data,  # pyright: ignore[reportArgumentType]
        problem.prior,
        solver="squarem",
        learning_rate=problem.options["learning_rate"],
        max_steps=max_steps,
        tol=1e-14,
    )
    return found.params


def _seed_step(unconstrained: dict[str, Any], data: Any) -> tuple[Any, Any]:
    """One step of reduced EM with the seed's y = 0 spread left out (erratum 1)."""
    stats, prior, rate, decomposed = data
    params = to_params(unconstrained)
    found = moments(params, stats)
    W, sigma2 = params.W, jnp.exp(params.log_sigma2)
    D = jnp.sum(project(W, stats) ** 2, -1)
    s = sigma2 / (1 + 2 * sigma2)
    missing = odds(coincidence_exponent(D, sigma2, 1.0, W.shape[0]))[1] * s**2 * D
    wrong = found._replace(cov_u=found.cov_u + 4 * jnp.sum(stats.w * missing))
    value = rate * found.log_likelihood + log_prior(params, prior)
    W, log_sigma2 = m_step(params, wrong, stats, prior, rate, decomposed, full=False)
    return {"W": W, "log_sigma2": log_sigma2}, value


def _seed_em(problem: Problem) -> LCAParams:
    """Iterate EM with the seed's variance to where it stays."""
    stats = prepare(problem.data)  # pyright: ignore[reportArgumentType]
    data = (stats, problem.prior, problem.options["learning_rate"], spectrum(stats.T))
    state = {
        "W": jnp.asarray(problem.params.W),
        "log_sigma2": jnp.asarray(problem.params.log_sigma2),
    }

    @jax.jit
    def iterate(state: Any) -> Any:
        return jax.lax.fori_loop(0, 500, lambda _, q: _seed_step(q, data)[0], state)

    return to_params(iterate(state))


def zero_gradient(problem: Problem) -> dict[str, Any]:
    """Say what stationarity means."""
    shape = np.shape(problem.params.W)
    return {"gradient in W": np.zeros(shape), "gradient in log σ²": np.zeros(())}


def climb(problem: Problem) -> dict[str, Any]:
    """Largest fall of the log joint density along EM from the prior mean."""
    return _fall(problem, reduced_step)


def _fall(problem: Problem, step: Any) -> dict[str, Any]:
    stats = prepare(problem.data)  # pyright: ignore[reportArgumentType]
    data = (stats, problem.prior, problem.options["learning_rate"], spectrum(stats.T))
    begin = {
        "W": jnp.asarray(problem.params.W),
        "log_sigma2": jnp.asarray(problem.params.log_sigma2, stats.T.dtype) + 1.0,
    }
    found = run_em(step, begin, data, max_steps=100, tol=0.0)
    trace = np.asarray(found.trace[: int(found.n_steps)])
    return {"largest fall": np.max(-np.diff(trace)) / np.abs(trace[-1])}


def _seed_fall(problem: Problem) -> float:
    """Fall of the objective when EM with the seed's variance leaves the mode."""
    there = problem._replace(
        params=problem.params._replace(log_sigma2=problem.params.log_sigma2 - 1.0)
    )
    return float(_fall(there, _seed_step)["largest fall"])


CHECKS: tuple[Check, ...] = (
    Check(
        "pooled log joint is the NumPyro density, value and gradient",
        "exact",
        density_reference,
        _pooled,
        {
            "y=1 pairs forgotten in the normaliser": lambda p: _pooled(p, 0.0),
            "another prior width": lambda p: _pooled(
                p, prior=p.prior._replace(lam=1.01 * p.prior.lam)
            ),
        },
        rtol=1e-9,
        layer="gradient",
    ),
    Check(
        "EM's fixed point is a mode of the NumPyro density",
        "exact",
        zero_gradient,
        lambda problem: _slope_at(problem, _map_em(problem, 2000)),
        {
            "EM with the seed's variance (erratum 1)": lambda problem: _slope_at(
                problem, _seed_em(problem)
            ),
            "EM stopped after two cycles": lambda problem: _slope_at(
                problem, _map_em(problem, 2)
            ),
        },
        atol=1e-6,
        layer="gradient",
    ),
    Check(
        "EM never lowers the log joint density",
        "exact",
        lambda problem: {"largest fall": 0.0},
        lambda problem: {"largest fall": max(climb(problem)["largest fall"], 0.0)},
        {
            "EM with the seed's variance (erratum 1)": lambda problem: {
                "largest fall": max(_seed_fall(problem), 0.0)
            }
        },
        atol=1e-12,
        layer="gradient",
    ),
)
