"""DCA-GM's derivation: the gradient, the gauges and the EM step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.em import (
    EMData,
    EMPrior,
    em_step,
    own_shares,
    source_centres,
)
from probmetric.inference.dca_gm.likelihood import (
    apply_gauge,
    class_log_probability,
    conditional_log_likelihood,
    fix_gauge,
    gradient_A,
    gradient_A_tied,
    with_fisher,
)
from probmetric.inference.dca_gm.start import em_prior, start
from probmetric.metric.class_distribution import pooled_covariance
from probmetric.models.dca_gm import DCAGMParams, log_weight
from probmetric.precision import to_numpy
from tests.dca_gm import tilt

EPS = np.finfo(float).eps
step = jax.jit(em_step)


@pytest.fixture
def case(golden):
    return golden("lca_dca")["dca_gm"]


@pytest.fixture
def params(case):
    return DCAGMParams(
        A=np.array(case["A"]),
        log_alpha=np.log(case["alpha"]),
        log_beta=np.log(case["beta"]),
        mu=np.array(case["mu"]),
        chol=np.linalg.cholesky(case["Sigma"])[:, None],
    )


@pytest.fixture
def data(case):
    return Labeled(np.array(case["X"]), np.array(case["labels"]))


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return Labeled((X - X.mean(0)) / X.std(0), y)


def device(tree):
    return jax.tree.map(jnp.asarray, tree)


def covariances(params):
    return (params.chol @ np.swapaxes(params.chol, -1, -2))[:, 0]


@pytest.mark.long
def test_class_probabilities_objective_and_gradient_match_the_golden_ones(
    case, params, data, x64
):
    p = np.exp(class_log_probability(params, data.X))
    np.testing.assert_allclose(p, case["p_c_given_x"], rtol=0, atol=10 * EPS)
    value = conditional_log_likelihood(params, data)
    np.testing.assert_allclose(value, case["objective"], rtol=10 * EPS)
    found = jax.jit(gradient_A)(params, data)
    np.testing.assert_allclose(found, case["grad_A"], rtol=0, atol=1e3 * EPS)


def test_the_gradient_with_centres_that_follow_matches_the_golden_one(
    case, params, data, x64
):
    mu_prime = np.array(case["mu_prime"])
    found = jax.jit(gradient_A_tied)(params, mu_prime, data)
    np.testing.assert_allclose(found, case["grad_A_reparam"], rtol=0, atol=1e3 * EPS)
    tied = params._replace(mu=mu_prime @ params.A.T)
    value = conditional_log_likelihood(tied, data)
    expected = case["objective_reparam_mu_eq_A_mu_prime"]
    np.testing.assert_allclose(value, expected, rtol=10 * EPS)
    assert not np.allclose(jax.jit(gradient_A)(tied, data), found, rtol=0.1)


@pytest.mark.long
def test_both_gradients_are_those_of_autodiff_with_weights(case, params, data, x64):
    """Covariances of components; the golden ones are of classes."""
    w = np.linspace(0, 2, len(data.X))
    widen = np.array([1.0, 1.7])[None, :, None, None]
    params = device(params._replace(chol=params.chol * widen))
    data, mu_prime = device(data._replace(w=w)), jnp.asarray(case["mu_prime"])

    def plain(A):
        return conditional_log_likelihood(params._replace(A=A), data)

    def tied(A):
        moved = params._replace(A=A, mu=mu_prime @ A.T)
        return conditional_log_likelihood(moved, data)

    @jax.jit
    def gradients():
        ours = gradient_A(params, data), gradient_A_tied(params, mu_prime, data)
        return ours, (jax.grad(plain)(params.A), jax.grad(tied)(params.A))

    for found, expected in zip(*gradients(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e3 * EPS)


def test_the_tilt_matches_the_golden_parameters(case, params, x64):
    wanted = case["tilt"]
    found = tilt(device(params), jnp.array(wanted["Q"]), jnp.array(wanted["h"]))
    np.testing.assert_allclose(np.exp(found.log_alpha), wanted["alpha"], rtol=1e-13)
    np.testing.assert_allclose(np.exp(found.log_beta), wanted["beta"], rtol=1e-13)
    np.testing.assert_allclose(found.mu, wanted["mu"], rtol=1e-13)
    np.testing.assert_allclose(covariances(found), wanted["Sigma"], rtol=1e-13)


def test_the_fixed_gauge_has_unit_pooled_covariance_and_ordered_axes(params, data, x64):
    before = with_fisher(device(params), device(data))
    fixed = fix_gauge(before)
    pooled = pooled_covariance(log_weight(fixed), fixed.chol)
    np.testing.assert_allclose(pooled, np.eye(2), atol=1e-13)
    assert fixed.fisher[0, 0] > fixed.fisher[1, 1] > 0
    np.testing.assert_allclose(fixed.fisher[0, 1], 0, atol=1e-14)
    again = with_fisher(fixed, device(data))
    np.testing.assert_allclose(again.fisher, fixed.fisher, atol=1e-13)
    twice = fix_gauge(apply_gauge(before, jnp.array([[1.3, -0.4], [0.2, 0.7]])))
    np.testing.assert_allclose(twice.A, fixed.A, atol=1e-12)
    on_host = to_numpy(before)  # NumPy computes what JAX does, NaN included.
    np.testing.assert_allclose(fix_gauge(on_host).A, fixed.A, atol=1e-13)
    assert np.isnan(fix_gauge(on_host._replace(chol=0 * on_host.chol)).A).all()


@pytest.mark.long
def test_an_em_step_matches_the_golden_one(case, params, data, x64):
    params, data = device(params), device(data)
    w = jnp.ones(len(data.X))
    em = EMData(data.X @ params.A.T, data.y, w, EMPrior(0.0, 0.0, 0.0))
    wanted = case["em_step"]
    shares, _ = jax.jit(own_shares)(params, em.Y, em.y)
    np.testing.assert_allclose(shares, wanted["resp_own_class"], atol=10 * EPS)
    mu_prime = jax.jit(source_centres)(params, data.X, data.y, w)
    np.testing.assert_allclose(mu_prime, wanted["mu_prime"], atol=10 * EPS)
    found, before = step(params, em)
    _, after = step(found, em)
    np.testing.assert_allclose(before, wanted["joint_loglik_before"], rtol=10 * EPS)
    np.testing.assert_allclose(after, wanted["joint_loglik_after"], rtol=1e-13)
    np.testing.assert_allclose(np.exp(found.log_alpha), wanted["alpha"], rtol=1e-14)
    np.testing.assert_allclose(np.exp(found.log_beta), wanted["beta"], rtol=1e-13)
    np.testing.assert_allclose(found.mu, wanted["mu"], atol=1e-13)
    np.testing.assert_allclose(covariances(found), wanted["Sigma"], atol=1e-13)
    np.testing.assert_allclose(mu_prime @ params.A.T, found.mu, atol=1e-13)


@pytest.mark.long
@pytest.mark.parametrize("covariance", ["class", "component"])
def test_em_never_lowers_its_own_objective(iris, covariance, x64):
    params = device(start(iris, 2, covariance=covariance, n_em=0))
    prior = em_prior(iris, params.A)
    w = jnp.linspace(0.0, 2.0, len(iris.X))
    em = EMData(jnp.asarray(iris.X) @ params.A.T, jnp.asarray(iris.y), w, prior)
    values = []
    for _ in range(25):
        params, value = step(params, em)
        values.append(float(value))
    gains = np.diff(values)
    assert np.all(gains > -1e3 * EPS * np.abs(values[-1]))
    assert gains[0] > 0.1


def test_an_empty_component_keeps_its_centre_and_a_finite_weight(data, params, x64):
    far = np.array(params.mu)
    far[0, 1] = 1e6
    params, data = device(params._replace(mu=far)), device(data)
    em = EMData(data.X @ params.A.T, data.y, jnp.ones(9), EMPrior())
    found, _ = step(params, em)
    np.testing.assert_array_equal(found.mu[0, 1], far[0, 1])
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(found))
    mu_prime = source_centres(params, data.X, data.y, jnp.ones(9))
    np.testing.assert_allclose(mu_prime[0, 1] @ params.A.T, far[0, 1], rtol=1e-12)


def test_without_a_gauge_the_norm_penalty_has_no_optimum(params, data, x64):
    # Erratum 3: shrinking (A, mu, Sigma) together keeps L and lowers the penalty.
    params, data = device(params), device(data)
    shrunk = apply_gauge(params, 1e-3 * jnp.eye(2))
    np.testing.assert_allclose(
        conditional_log_likelihood(shrunk, data),
        conditional_log_likelihood(params, data),
        rtol=1e-10,
    )
    assert jnp.sum(shrunk.A**2) < 1e-5 * jnp.sum(params.A**2)


@pytest.mark.long
def test_the_covariance_of_an_em_step_is_the_mode_under_its_prior(x64):
    """Nothing else has a slope of 0 in log Σ of Σ log N + -(ν/2)(log|Σ| + ρ tr Σ⁻¹)."""
    rng = np.random.default_rng(0)
    nu, rho, n = 3.0, 0.7, 12
    Y = rng.normal(size=(n, 2)) @ [[1.0, 0.4], [0.0, 0.5]]
    y, zero = np.repeat([0, 1], n // 2), np.zeros((2, 1))
    params = device(
        DCAGMParams(
            A=np.eye(2),
            log_alpha=np.log([0.5, 0.5]),
            log_beta=zero,
            mu=np.zeros((2, 1, 2)),
            chol=np.broadcast_to(np.eye(2), (2, 1, 2, 2)),
        )
    )
    em = EMData(*device((Y, y, np.ones(n))), EMPrior(0.0, nu, rho))
    found, _ = step(params, em)

    def density(cov, c):
        own = Y[y == c]
        fit = multivariate_normal(own.mean(0), cov).logpdf(own).sum()
        penalty = np.linalg.slogdet(cov)[1] + rho * np.trace(np.linalg.inv(cov))
        return fit - 0.5 * nu * penalty

    h = 1e-4  # Central differences: rounding about eps/h, h² of the third derivative.
    for c, cov in enumerate(covariances(found)):
        for E in (np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.ones((2, 2))):
            slope = (density(cov + h * E, c) - density(cov - h * E, c)) / (2 * h)
            assert abs(slope) < 1e-5
            wider = 1.1 * cov
            off = density(wider + h * E, c) - density(wider - h * E, c)
            assert abs(off / (2 * h)) > 1e-2  # Negative control: a tenth too wide.
