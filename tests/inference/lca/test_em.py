"""LCA's EM and L-BFGS: monotone, and at modes of the NumPyro density."""

import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.inference import lca as inference
from probmetric.inference.lca.em import (
    full_step,
    m_step,
    moments,
    reduced_step,
    spectrum,
)
from probmetric.inference.lca.latent import odds
from probmetric.inference.lca.likelihood import to_params
from probmetric.inference.lca.statistics import prepare
from probmetric.inference.lca.target import position
from probmetric.inference.solvers.em import run_em
from probmetric.inference.solvers.result import Result
from probmetric.models.lca import (
    LCAParams,
    coincidence_exponent,
)
from tests.inference.lca.problem import flat_prior, simulated

pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture(scope="module")
def problem():
    return simulated()


def uncorrected_full_step(unconstrained, data):
    """EM with the seed's y = 0 variance (erratum 1), a negative control."""
    stats, prior, learning_rate, decomposed = data
    params = to_params(unconstrained)
    found = moments(params, stats)
    sigma2 = jnp.exp(params.log_sigma2)
    s = sigma2 / (1 + 2 * sigma2)
    from probmetric.inference.lca.statistics import project

    D = jnp.sum(project(params.W, stats) ** 2, -1)
    t = coincidence_exponent(D, sigma2, 1.0, params.W.shape[0])
    missing = jnp.sum(stats.w * odds(t)[1] * s**2 * D)
    W, log_b = m_step(
        params,
        found._replace(eps2=found.eps2 + missing),
        stats,
        prior,
        learning_rate,
        decomposed,
        full=True,
    )
    _, value = full_step(unconstrained, data)
    return {"W": W, "log_b": log_b}, value


@pytest.mark.long
@pytest.mark.parametrize("step", [reduced_step, full_step])
def test_em_never_falls_beyond_rounding(problem, step):
    pairs, prior, _ = problem
    stats = prepare(pairs)
    flat = flat_prior(prior.mean)
    start = {"W": jnp.asarray(prior.mean), "log_b": jnp.asarray(0.9)}
    C = stats.S if step is full_step else stats.T
    found = run_em(step, start, (stats, flat, 1.0, spectrum(C)), max_steps=400, tol=0.0)
    gains = np.diff(found.trace[: int(found.n_steps)])
    assert gains.min() > -1e-12 * abs(float(found.objective))


@pytest.mark.long
def test_em_with_the_seeds_variance_falls_and_stops_elsewhere(problem):
    pairs, prior, _ = problem
    stats = prepare(pairs)
    flat = flat_prior(prior.mean)
    right = inference.fit(
        pairs, flat, init=LCAParams(prior.mean, np.array(-1.2)), tol=1e-9
    )
    start = position(right.params)
    found = run_em(
        uncorrected_full_step,
        start,
        (stats, flat, 1.0, spectrum(stats.S)),
        max_steps=300,
        tol=1e-12,
    )
    assert found.result == Result.DECREASED
    after = run_em(full_step, start, (stats, flat, 1.0, spectrum(stats.S)), max_steps=9)
    assert after.result != Result.DECREASED


@pytest.mark.long
def test_reduced_em_and_lbfgs_ignore_a_translation_of_the_points(problem):
    pairs, prior, _ = problem
    moved = pairs._replace(X=pairs.X + np.array([30.0, -20.0, 10.0]))
    for solver in ("em", "lbfgs"):
        a = inference.fit(pairs, prior, solver=solver)
        b = inference.fit(moved, prior, solver=solver)
        assert abs(int(a.n_evaluations) - int(b.n_evaluations)) <= 3
        np.testing.assert_allclose(a.objective, b.objective, rtol=1e-8)
