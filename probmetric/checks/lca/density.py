"""LCA's log joint density and EM against NumPyro's own density and its gradient.

Controls: pairs forgotten by the pooled path, another prior, EM with the seed's
variance (erratum 1), EM stopped early.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.checks.check import Problem, Values, by_gradient, zero
from probmetric.checks.sides import density_of, largest_fall
from probmetric.data.containers import Pairs
from probmetric.inference.lca.em import m_step, moments, reduced_step, spectrum
from probmetric.inference.lca.fit import fit
from probmetric.inference.lca.latent import odds
from probmetric.inference.lca.likelihood import log_joint, log_prior, to_params
from probmetric.inference.lca.statistics import prepare, project
from probmetric.models.lca import coincidence_exponent, lca

type Sites = dict[str, Any]


def _sites(problem: Problem[Pairs], shift: float = 0.0) -> Sites:
    """Return the problem's parameters, log b shifted, by the names of their sites."""
    params = problem.params
    W = jnp.asarray(params.W)
    b = 0.5 * len(W) * jnp.log1p(2 * jnp.exp(jnp.asarray(params.log_sigma2, W.dtype)))
    return {"W": W, "log_b": jnp.log(b) + shift}


def _at_three_points(problem: Problem[Pairs], density: Any) -> Values:
    """Tabulate a density and its gradient around the problem's parameters."""
    rng = np.random.default_rng(0)
    at = _sites(problem)
    size = jnp.sqrt(jnp.mean(at["W"] ** 2))
    found: list[Any] = []
    for scale in (0.0, 0.3, 1.0):
        W = at["W"] + scale * size * rng.normal(size=at["W"].shape)
        found.append(density({"W": W, "log_b": at["log_b"] + scale * rng.normal()}))
    return {
        "log density": [value for value, _ in found],
        "gradient in W": [gradient["W"] for _, gradient in found],
        "gradient in log b": [gradient["log_b"] for _, gradient in found],
    }


def _numpyro(problem: Problem[Pairs]) -> Any:
    """Return the NumPyro model's log density and its gradient, per pair."""
    return density_of(lca, (problem.data, problem.prior), problem.options)


def density_reference(problem: Problem[Pairs]) -> Values:
    """Evaluate the NumPyro density at three points."""
    return _at_three_points(problem, _numpyro(problem))


def pooled_values(
    problem: Problem[Pairs], n_same: float = 1.0, lam: float = 1.0, ways: float = 1.0
) -> Values:
    """Evaluate the pooled density at three points, parts of it times a factor."""
    stats, rate = prepare(problem.data), problem.options["learning_rate"]
    stats = stats._replace(n_same=n_same * stats.n_same, ways=ways * stats.ways)
    prior = problem.prior._replace(lam=lam * problem.prior.lam)
    return _at_three_points(problem, lambda at: _pooled_density(at, stats, prior, rate))


@jax.jit
@jax.value_and_grad
def _pooled_density(sites: Sites, stats: Any, prior: Any, rate: Any) -> Any:
    return log_joint(to_params(sites), stats, prior, rate)


def _slope_at(problem: Problem[Pairs], sites: Sites) -> Values:
    """Return the gradient of the NumPyro density a unit of data, zero at a mode."""
    _, slope = _numpyro(problem)(sites)
    n = float(prepare(problem.data).n) * problem.options["learning_rate"]
    return {f"gradient in {name}": np.asarray(g) / n for name, g in slope.items()}


def em_slope(problem: Problem[Pairs], max_steps: int = 20_000) -> Values:
    """Differentiate NumPyro's density where accelerated EM ends."""
    found = fit(
        problem.data,
        problem.prior,
        solver="squarem",
        **problem.options,
        max_steps=max_steps,
        tol=1e-14,
    )
    return _slope_at(problem, _sites(replace(problem, params=found.params)))


def _seed_step(unconstrained: Sites, data: Any) -> tuple[Sites, Any]:
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
    W, log_b = m_step(params, wrong, stats, prior, rate, decomposed, full=False)
    return {"W": W, "log_b": log_b}, value


def _em_data(problem: Problem[Pairs]) -> Any:
    stats = prepare(problem.data)
    return stats, problem.prior, problem.options["learning_rate"], spectrum(stats.T)


def seed_slope(problem: Problem[Pairs]) -> Values:
    """Differentiate it where EM with the seed's variance stays."""
    data = _em_data(problem)

    @jax.jit
    def iterate(sites: Sites) -> Sites:
        return jax.lax.fori_loop(0, 500, lambda _, q: _seed_step(q, data)[0], sites)

    return _slope_at(problem, iterate(_sites(problem)))


def climb(problem: Problem[Pairs], step: Any = reduced_step, shift: float = 1.0) -> Any:
    """Follow EM from another b."""
    return largest_fall(step, _sites(problem, shift), _em_data(problem), max_steps=100)


CHECKS = (
    by_gradient(
        "pooled log joint is the NumPyro density, value and gradient",
        reference=density_reference,
        estimate=pooled_values,
        controls={
            "y=1 pairs forgotten in the normaliser": partial(pooled_values, n_same=0.0),
            "another prior width": partial(pooled_values, lam=1.01),
        },
    ),
    by_gradient(
        "EM's fixed point is a mode of the NumPyro density",
        reference=zero,
        estimate=em_slope,
        controls={
            "EM with the seed's variance (erratum 1)": seed_slope,
            "EM stopped after two cycles": partial(em_slope, max_steps=2),
        },
        atol=5e-6,
    ),
    by_gradient(
        "EM never lowers the log joint density",
        reference=zero,
        estimate=climb,
        controls={
            "EM with the seed's variance (erratum 1)": partial(
                climb, step=_seed_step, shift=0.0
            )
        },
        atol=1e-12,
    ),
)
