"""DCA-GM's derivation: gradient, gauges, EM, start, hybrid and joint fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from probmetric.data import Labelled
from probmetric.inference.dca_gm import Conditioned, default_prior, fit, log_joint
from probmetric.inference.dca_gm_em import (
    EMData,
    EMPrior,
    em_step,
    own_shares,
    source_centres,
)
from probmetric.inference.dca_gm_hybrid import Penalty, fit_hybrid
from probmetric.inference.dca_gm_likelihood import (
    apply_gauge,
    class_log_probability,
    conditional_log_likelihood,
    fix_gauge,
    gradient_A,
    gradient_A_tied,
    tilt,
    with_fisher,
)
from probmetric.inference.dca_gm_start import em_prior, lda_rca, start
from probmetric.inference.results import Result
from probmetric.metric._class_distribution import pooled_covariance
from probmetric.models.dca_gm import DCAGMParams, log_weight, unconstrain

EPS = np.finfo(float).eps


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
    return Labelled(np.array(case["X"]), np.array(case["labels"]))


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return Labelled((X - X.mean(0)) / X.std(0), y)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return Labelled((X - X.mean(0)) / X.std(0), y)


def device(tree):
    return jax.tree.map(jnp.asarray, tree)


def covariances(params):
    return (params.chol @ np.swapaxes(params.chol, -1, -2))[:, 0]


def test_class_probabilities_objective_and_gradient_match_the_golden_ones(
    case, params, data
):
    p = np.exp(class_log_probability(params, data.X))
    np.testing.assert_allclose(p, case["p_c_given_x"], rtol=0, atol=10 * EPS)
    value = conditional_log_likelihood(params, data)
    np.testing.assert_allclose(value, case["objective"], rtol=10 * EPS)
    found = gradient_A(params, data)
    np.testing.assert_allclose(found, case["grad_A"], rtol=0, atol=1e3 * EPS)


def test_the_gradient_with_centres_that_follow_matches_the_golden_one(
    case, params, data
):
    mu_prime = np.array(case["mu_prime"])
    found = gradient_A_tied(params, mu_prime, data)
    np.testing.assert_allclose(found, case["grad_A_reparam"], rtol=0, atol=1e3 * EPS)
    tied = params._replace(mu=mu_prime @ params.A.T)
    value = conditional_log_likelihood(tied, data)
    expected = case["objective_reparam_mu_eq_A_mu_prime"]
    np.testing.assert_allclose(value, expected, rtol=10 * EPS)
    assert not np.allclose(gradient_A(tied, data), found, rtol=0.1)


@pytest.mark.parametrize("per_component", [False, True])
def test_both_gradients_are_those_of_autodiff_with_weights(
    case, params, data, per_component, x64
):
    w = np.linspace(0, 2, len(data.X))
    widen = np.array([1.0, 1.7])[None, :, None, None] if per_component else 1.0
    params = device(params._replace(chol=params.chol * widen))
    data, mu_prime = device(data._replace(w=w)), jnp.asarray(case["mu_prime"])

    def plain(A):
        return conditional_log_likelihood(params._replace(A=A), data)

    def tied(A):
        moved = params._replace(A=A, mu=mu_prime @ A.T)
        return conditional_log_likelihood(moved, data)

    expected = jax.grad(plain)(params.A)
    np.testing.assert_allclose(gradient_A(params, data), expected, atol=1e3 * EPS)
    expected = jax.grad(tied)(params.A)
    found = gradient_A_tied(params, mu_prime, data)
    np.testing.assert_allclose(found, expected, atol=1e3 * EPS)


def test_the_gauge_and_the_tilt_leave_class_probabilities_alone(
    case, params, data, x64
):
    params, X = device(params), jnp.asarray(data.X)
    before = class_log_probability(params, X)
    moved = apply_gauge(params, jnp.array(case["gauge"]["B"]))
    np.testing.assert_allclose(class_log_probability(moved, X), before, atol=1e-12)
    tilted = tilt(params, jnp.array(case["tilt"]["Q"]), jnp.array(case["tilt"]["h"]))
    np.testing.assert_allclose(class_log_probability(tilted, X), before, atol=1e-12)


def test_covariances_moved_without_their_centres_change_class_probabilities(
    case, params, data, x64
):
    params, X = device(params), jnp.asarray(data.X)
    moved = apply_gauge(params, jnp.array(case["gauge"]["B"]))
    wrong = moved._replace(mu=params.mu)
    difference = class_log_probability(wrong, X) - class_log_probability(params, X)
    assert jnp.max(jnp.abs(difference)) > 0.1


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


def test_an_em_step_matches_the_golden_one(case, params, data, x64):
    params, data = device(params), device(data)
    w = jnp.ones(len(data.X))
    em = EMData(data.X @ params.A.T, data.y, w, EMPrior(0.0, 0.0, 0.0))
    wanted = case["em_step"]
    shares, _ = own_shares(params, em.Y, em.y)
    np.testing.assert_allclose(shares, wanted["resp_own_class"], atol=10 * EPS)
    mu_prime = source_centres(params, data.X, data.y, w)
    np.testing.assert_allclose(mu_prime, wanted["mu_prime"], atol=10 * EPS)
    found, before = em_step(params, em)
    _, after = em_step(found, em)
    np.testing.assert_allclose(before, wanted["joint_loglik_before"], rtol=10 * EPS)
    np.testing.assert_allclose(after, wanted["joint_loglik_after"], rtol=1e-13)
    np.testing.assert_allclose(np.exp(found.log_alpha), wanted["alpha"], rtol=1e-14)
    np.testing.assert_allclose(np.exp(found.log_beta), wanted["beta"], rtol=1e-13)
    np.testing.assert_allclose(found.mu, wanted["mu"], atol=1e-13)
    np.testing.assert_allclose(covariances(found), wanted["Sigma"], atol=1e-13)
    np.testing.assert_allclose(mu_prime @ params.A.T, found.mu, atol=1e-13)


@pytest.mark.parametrize("covariance", ["class", "component"])
def test_em_never_lowers_its_own_objective(iris, covariance, x64):
    params = device(start(iris, 2, covariance=covariance, n_em=0))
    prior = em_prior(iris, params.A)
    w = jnp.linspace(0.0, 2.0, len(iris.X))
    em = EMData(jnp.asarray(iris.X) @ params.A.T, jnp.asarray(iris.y), w, prior)
    step, values = jax.jit(em_step), []
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
    found, _ = em_step(params, em)
    np.testing.assert_array_equal(found.mu[0, 1], far[0, 1])
    assert all(jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(found))
    mu_prime = source_centres(params, data.X, data.y, jnp.ones(9))
    np.testing.assert_allclose(mu_prime[0, 1] @ params.A.T, far[0, 1], rtol=1e-12)


def test_the_em_step_can_lower_the_conditional_likelihood(wine, x64):
    # Erratum 4: the hybrid is no ascent on the paper's objective.
    found = fit(wine, solver="hybrid", max_steps=5)
    data, params = device(wine), device(found.params)
    em = EMData(data.X @ params.A.T, data.y, jnp.ones(len(data.X)), EMPrior())
    after, _ = em_step(params, em)
    before = conditional_log_likelihood(params, data)
    assert conditional_log_likelihood(after, data) < before - 1e-3


def test_the_start_spans_scikit_learns_lda(iris):
    found = lda_rca(iris, 2, ridge=1e-12)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(iris.X, iris.y)
    wanted = lda.scalings_[:, :2]
    cosines = np.linalg.svd(np.linalg.qr(found.T)[0].T @ np.linalg.qr(wanted)[0])[1]
    np.testing.assert_allclose(cosines, 1, atol=1e-9)


def test_the_start_whitens_the_classes(iris):
    A = lda_rca(iris, 2, ridge=0.0)
    residual = (
        iris.X - np.stack([iris.X[iris.y == c].mean(0) for c in range(3)])[iris.y]
    )
    Y = residual @ A.T
    np.testing.assert_allclose(Y.T @ Y / len(Y), np.eye(2), atol=1e-10)


def test_the_start_is_completed_beyond_the_rank_of_lda(wine):
    two = Labelled(wine.X[:130], wine.y[:130])
    A = lda_rca(two, 4, ridge=0.0)
    means = np.stack([two.X[two.y == c].mean(0) for c in range(2)])
    residual = two.X - means[two.y]
    within = residual.T @ residual / len(two.X)
    np.testing.assert_allclose(A @ within @ A.T, np.eye(4), atol=1e-10)
    # Nothing of the class means is left for the completed rows.
    np.testing.assert_allclose(A[1:] @ (means[1] - means[0]), 0, atol=1e-10)
    assert abs(A[0] @ (means[1] - means[0])) > 1


def test_a_class_with_few_distinct_points_has_as_many_components(iris):
    X, y = iris.X.copy(), iris.y
    X[y == 0] = X[0]
    X[np.flatnonzero(y == 0)[0]] = X[1] + 0.5
    params = start(Labelled(X, y), 2, n_gaussians=3)
    assert np.isfinite(params.log_beta).sum(1).tolist() == [2, 3, 3]


def test_the_joint_fit_ends_where_the_gradient_vanishes(iris, x64):
    found = fit(iris, n_gaussians=[1, 2, 3])
    assert found.result == Result.CONVERGED
    begin = device(start(iris, 2, n_gaussians=[1, 2, 3]))
    given = Conditioned(device(iris), default_prior(begin, device(iris)))
    sites = unconstrain(device(found.params._replace(fisher=None)))
    gradient = jax.grad(log_joint)(sites, given)
    largest = max(float(jnp.max(jnp.abs(g))) for g in gradient)
    at_start = jax.grad(log_joint)(unconstrain(begin), given)
    # tol = 1e-5 of the objective at the start, in whitened coordinates; the features'
    # correlations make up to a factor of 20 of it here.
    assert largest < 2e-4 * abs(float(log_joint(unconstrain(begin), given)))
    assert largest < 1e-3 * max(float(jnp.max(jnp.abs(g))) for g in at_start)
    np.testing.assert_allclose(log_joint(sites, given), found.objective, rtol=1e-12)
    assert found.objective > log_joint(unconstrain(begin), given) + 1


def test_the_hybrid_returns_its_best_iterate_in_a_fixed_gauge(wine):
    found = fit(wine, solver="hybrid", max_steps=12)
    assert found.objective == np.nanmax(found.trace)
    assert found.n_steps == 12
    pooled = pooled_covariance(
        jnp.asarray(log_weight(found.params)), jnp.asarray(found.params.chol)
    )
    # In float32 outside an x64 scope.
    np.testing.assert_allclose(pooled, np.eye(2), atol=1e-5)


def test_the_hybrids_objective_is_the_likelihood_less_the_penalty(iris, x64):
    params = device(start(iris, 2))
    penalty = Penalty(jnp.zeros_like(params.A), 0.4)
    for tied in (False, True):
        found = fit_hybrid(params, device(iris), penalty, EMPrior(), tied=tied)
        value = conditional_log_likelihood(found.params, device(iris))
        value -= 0.2 * jnp.sum(found.params.A**2)
        np.testing.assert_allclose(found.objective, value, rtol=1e-10)
        assert found.objective > found.trace[0]


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


def test_data_weights_stand_for_repeated_points(iris, x64):
    rows = np.arange(0, 150, 3)
    twice = np.concatenate([rows, rows[:20]])
    w = np.ones(len(rows))
    w[:20] = 2
    weighted = device(Labelled(iris.X[rows], iris.y[rows], w))
    repeated = device(Labelled(iris.X[twice], iris.y[twice]))
    params, prior = start(weighted, 2, n_em=0), EMPrior()
    ends = []
    for data in (weighted, repeated):
        ones = jnp.ones(len(data.X)) if data.w is None else data.w
        em = EMData(data.X @ params.A.T, data.y, ones, prior)
        moved, value = em_step(params, em)
        ends.append((moved, value, gradient_A(moved, data)))
    for one, other in zip(*map(jax.tree.leaves, ends), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        lda_rca(weighted, 2), lda_rca(repeated, 2), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"y": None}, "wanted labels"),
        ({"y": np.zeros(150, int)}, "at least 2 classes"),
        ({"y": np.repeat([0, 2], 75)}, "codes 0..C-1"),
        ({"X": np.full((150, 4), np.nan)}, "finite values"),
        ({"w": -np.ones(150)}, "finite weights"),
        ({"w": np.repeat([1.0, 0.0], [100, 50])}, "positive total weight"),
    ],
)
def test_bad_data_are_refused_by_name(iris, change, message):
    with pytest.raises(ValueError, match=message):
        fit(iris._replace(**change))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_latent": 5}, "n_latent: wanted between 1 and the 4 features, got 5"),
        ({"n_latent": 0}, "n_latent"),
        ({"n_gaussians": 0}, "n_gaussians"),
        ({"n_gaussians": [1, 2]}, "n_gaussians"),
        ({"solver": "newton"}, "solver"),
        ({"covariance": "full"}, "covariance"),
    ],
)
def test_bad_options_are_refused_by_name(iris, options, message):
    with pytest.raises(ValueError, match=message):
        fit(iris, **options)


def test_constant_features_alone_are_refused():
    with pytest.raises(ValueError, match="feature that varies"):
        fit(Labelled(np.ones((6, 2)), np.array([0, 1] * 3)))
