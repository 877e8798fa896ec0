"""LCA's closed forms against golden vectors made by quadrature and differences."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.data.containers import Pairs
from probmetric.inference import lca as inference
from probmetric.inference.lca.em import best_log_kappa2, m_step, moments, spectrum
from probmetric.inference.lca.latent import odds
from probmetric.inference.lca.statistics import Statistics, prepare
from probmetric.inference.solvers.result import Result
from probmetric.models.lca import (
    LCAParams,
    coincidence_exponent,
    log1mexp,
    log_sigma2_of,
)
from tests.inference.lca.problem import flat_prior

pytestmark = pytest.mark.usefixtures("x64")
RTOL = 1e-10  # the golden vectors' own accuracy is 1e-11


@pytest.fixture(scope="module")
def data(request):
    """The golden data set of six weighted pairs, as points 0-5 against 6-11."""
    case = request.getfixturevalue("golden")("lca_dca")["lca_dataset"]
    X = np.concatenate([case["X"], case["Xp"]])
    i = np.arange(6)
    pairs = Pairs(X, i, i + 6, np.array(case["y"]), np.array(case["weights"]), i)
    params = LCAParams(np.array(case["W"]), np.log(np.array(case["sigma2"])))
    return case, pairs, params


def test_extremes_of_the_exponent_are_accurate_and_finite(golden):
    for row in golden("lca_dca")["lca_extremes"]["rows"]:
        t = jnp.asarray(row["t"])
        # atol: the golden file rounds what is below 1e-300 to zero.
        np.testing.assert_allclose(
            log1mexp(t), row["log1mexp"], rtol=1e-14, atol=1e-300
        )
        nu, nu2 = odds(t)
        if row["nu"] is not None and np.isfinite(row["nu"]):
            np.testing.assert_allclose(nu, row["nu"], rtol=1e-14, atol=1e-300)
        if row["nu_1pnu"] is not None and np.isfinite(row["nu_1pnu"]):
            np.testing.assert_allclose(nu2, row["nu_1pnu"], rtol=1e-14, atol=1e-300)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_are_finite_at_the_extremes(golden, dtype):
    slope = jax.jit(jax.grad(log1mexp))
    for row in golden("lca_dca")["lca_extremes"]["rows"]:
        # ν ~ 1/t overflows below: the derivative of log(1 - e^{-t}) with it.
        if row["t"] > 1 / np.finfo(dtype).max * 4:
            t = np.asarray(row["t"], dtype)
            if t > np.finfo(dtype).tiny:
                assert np.isfinite(slope(t)), row["t"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_estep_stays_bounded_as_noise_vanishes(golden, dtype):
    rtol = {"float32": 1e-5, "float64": 1e-10}[dtype]
    for row in golden("lca_dca")["lca_extremes"]["nus_limit"]:
        if dtype == "float32" and row["sigma2"] < 1e-30:
            continue  # σ² itself is not representable
        s2, k2 = jnp.asarray(row["sigma2"], dtype), jnp.asarray(row["kappa2"], dtype)
        t = coincidence_exponent(jnp.asarray(row["D"], dtype), s2, k2, row["p"])
        nu_s = odds(t)[0] * s2 / (k2 + 2 * s2)
        np.testing.assert_allclose(nu_s, row["nu_s"], rtol=rtol)


@partial(jax.jit, static_argnames="full")
def em_step(params, stats, prior, *, full):
    found = moments(params, stats), stats, prior, 1.0
    basis = spectrum(stats.S if full else stats.T)
    return m_step(params, *found, basis, full=full)


@pytest.mark.long
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("per_anchor", [False, True])
def test_em_steps_match_golden(data, full, per_anchor):
    case, pairs, params = data
    name = f"em_step_{'full' if full else 'reduced'} kappa2"
    want = case[name + (" per pair weighted" if per_anchor else "=1 weighted")]
    kappa2 = jnp.asarray(case["kappa2_per_pair"]) if per_anchor else jnp.asarray(1.0)
    params = params._replace(kappa2=kappa2)
    stats = prepare(pairs, per_anchor=per_anchor)
    W, log_b = em_step(params, stats, flat_prior(params.W), full=full)
    np.testing.assert_allclose(W, want["W"], rtol=RTOL, atol=1e-13)
    sigma2 = jnp.exp(log_sigma2_of(log_b, len(W)))
    np.testing.assert_allclose(sigma2, want["sigma2"], rtol=RTOL)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["lbfgs", "squarem", "em"])
def test_maximum_likelihood_matches_golden(golden, solver):
    case = golden("lca_dca")["lca_mle"]
    X = np.concatenate([case["X"], case["Xp"]])
    i = np.arange(len(case["y"]))
    pairs = Pairs(X, i, i + len(i), np.array(case["y"]))
    start = LCAParams(np.array([[0.9, 0.2], [-0.1, 0.8]]), np.log(np.array(0.3)))
    found = inference.fit(
        pairs,
        flat_prior(np.eye(2)),
        init=start,
        solver=solver,
        tol=1e-12,
        max_steps=5000,
    )
    assert found.result == Result.CONVERGED
    np.testing.assert_allclose(found.objective, case["loglik"], rtol=1e-11)
    W = np.asarray(found.params.W)
    np.testing.assert_allclose(W.T @ W, case["WtW"], rtol=1e-5)
    np.testing.assert_allclose(
        np.exp(found.params.log_sigma2), case["sigma2"], rtol=1e-4
    )


def test_kappa_line_search_matches_golden(golden):
    case = golden("lca_dca")["lca_kappa_linesearch"]
    y = np.array(case["y"])
    empty = np.zeros((0, 0))
    stats = Statistics(
        empty,
        None,
        None,
        y == 1,
        np.ones(len(y)),
        np.zeros(len(y), int),
        np.array(0.0),
        empty,
        np.array(5.0),
        empty,
        empty,
    )
    best = jax.jit(best_log_kappa2, static_argnums=3)
    tau = best(np.array(case["D"]), stats, np.zeros(1), case["p"], case["sigma2"])
    np.testing.assert_allclose(np.exp(tau[0]), case["argmax_kappa2"], rtol=1e-10)
