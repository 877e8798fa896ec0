"""LCA's closed forms against golden vectors made by quadrature and differences."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.data.containers import Pairs
from probmetric.inference import lca as inference
from probmetric.inference.lca.em import m_step, moments, spectrum
from probmetric.inference.lca.latent import odds, pair_posterior
from probmetric.inference.lca.likelihood import log_likelihood
from probmetric.inference.lca.statistics import prepare
from probmetric.inference.solvers.result import Result
from probmetric.models.lca import (
    LCAParams,
    coincidence_exponent,
    log1mexp,
    log_sigma2_of,
)
from tests.inference.lca.problem import flat_prior
from tests.oracles import lca_em_step

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


def test_pair_probabilities_match_quadrature(golden):
    for case in golden("lca_dca")["lca_pairs"]:
        W = np.array(case["W"])
        delta = np.array(case["x"]) - np.array(case["xp"])
        D = np.sum((W @ delta) ** 2)
        t = coincidence_exponent(D, case["sigma2"], case["kappa2"], len(W))
        nu, _ = odds(t)
        got = [jnp.exp(-t), -t, log1mexp(t), nu]
        want = [case[k] for k in ("P1", "log_P1", "log_P0", "nu")]
        np.testing.assert_allclose(got, want, rtol=RTOL)


@pytest.mark.parametrize("y", [0, 1])
def test_posterior_of_the_latent_pair_matches_quadrature(golden, y):
    for case in golden("lca_dca")["lca_pairs"]:
        got = jax.jit(pair_posterior)(
            np.array([case["x"]]),
            np.array([case["xp"]]),
            np.array([y]),
            np.array(case["W"]),
            case["sigma2"],
            case["kappa2"],
        )
        want = case[f"post_y{y}"]
        np.testing.assert_allclose(got.mean[0], want["mean"], rtol=RTOL, atol=1e-14)
        np.testing.assert_allclose(got.cov[0], want["cov"], rtol=RTOL, atol=1e-14)
        for side in ("eps2_z", "eps2_zp"):
            np.testing.assert_allclose(got.eps2[0], want[side], rtol=RTOL)


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


@pytest.mark.long
@pytest.mark.parametrize("by_points", [False, True])
def test_likelihood_gradient_and_hessian_match_differences(data, by_points):
    case, pairs, params = data
    stats = prepare(pairs, by_points=by_points)

    def value(theta):
        W = theta[:-1].reshape(params.W.shape)
        return log_likelihood(LCAParams(W, theta[-1]), stats)

    @jax.jit
    def found(theta):
        return jax.value_and_grad(value)(theta), jax.hessian(value)(theta)

    want = case["kappa2=1,weighted"]
    (loglik, gradient), hessian = found(np.append(params.W, params.log_sigma2))
    np.testing.assert_allclose(loglik, want["loglik"], rtol=RTOL)
    np.testing.assert_allclose(gradient, want["grad"], rtol=RTOL, atol=1e-13)
    np.testing.assert_allclose(hessian, want["hessian"], rtol=RTOL, atol=1e-12)


@partial(jax.jit, static_argnames="full")
def em_step(params, stats, prior, *, full):
    found = moments(params, stats), stats, prior, 1.0
    basis = spectrum(stats.S if full else stats.T)
    return m_step(params, *found, basis, full=full)


@pytest.mark.long
@pytest.mark.parametrize("full", [True, False])
def test_em_steps_match_golden(data, full):
    case, pairs, params = data
    want = case[f"em_step_{'full' if full else 'reduced'} kappa2=1 weighted"]
    stats = prepare(pairs)
    W, log_b = em_step(params, stats, flat_prior(params.W), full=full)
    np.testing.assert_allclose(W, want["W"], rtol=RTOL, atol=1e-13)
    sigma2 = jnp.exp(log_sigma2_of(log_b, len(W)))
    np.testing.assert_allclose(sigma2, want["sigma2"], rtol=RTOL)


def test_em_step_equals_brute_force_over_every_latent_pair(data):
    # The oracle forms z̄, z̄' and every covariance of every pair, then regresses.
    _, pairs, params = data
    stats = prepare(pairs)
    found = em_step(params, stats, flat_prior(params.W), full=True)
    W, sigma2 = lca_em_step(pairs, params.W, float(np.exp(params.log_sigma2)))
    np.testing.assert_allclose(found[0], W, rtol=1e-11, atol=1e-13)
    got = jnp.exp(log_sigma2_of(found[1], len(W)))
    np.testing.assert_allclose(got, sigma2, rtol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("solver", ["lbfgs", "em"])
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
