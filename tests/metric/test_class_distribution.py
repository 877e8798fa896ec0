"""Class distributions: divergences, Fisher matrices, and the two metrics on them."""

import jax
import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import multivariate_normal

from probmetric.metric import (
    ClassDistribution,
    LocalFisher,
    class_distribution,
    fisher,
)

EPS = np.finfo(float).eps

class_log_joint = jax.jit(class_distribution.class_log_joint)
scores = jax.jit(class_distribution.scores)
hellinger_squared = jax.jit(class_distribution.hellinger_squared)
jensen_shannon = jax.jit(class_distribution.jensen_shannon)
pooled_covariance = jax.jit(class_distribution.pooled_covariance)
fisher_factor = jax.jit(fisher.fisher_factor)
mean_fisher = jax.jit(fisher.mean_fisher)


@pytest.fixture
def dca(golden):
    """Golden parameters as arrays: A, log_weight, mu, chol (c, 1, p, p) and X."""
    case = {
        k: np.asarray(v)
        for k, v in golden("lca_dca")["dca_gm"].items()
        if k
        in ("A", "X", "alpha", "beta", "mu", "Sigma", "J_y", "J_x_mean", "p_c_given_x")
    }
    case["log_weight"] = np.log(case["alpha"])[:, None] + np.log(case["beta"])
    case["chol"] = np.linalg.cholesky(case["Sigma"])[:, None]
    return case


def theta(dca):
    return dca["log_weight"], dca["mu"], dca["chol"]


@pytest.mark.parametrize("widen", [np.ones(1), np.array([1.0, 2.5])])
def test_the_density_is_the_sum_of_scipys(dca, x64, widen):
    """One covariance for the components of a class, or one for each."""
    Y = dca["X"] @ dca["A"].T
    chol = dca["chol"] * np.sqrt(widen)[None, :, None, None]
    expected = np.zeros((len(Y), 3))
    for c in range(3):
        for k in range(2):
            normal = multivariate_normal(dca["mu"][c, k], widen[-k] * dca["Sigma"][c])
            expected[:, c] += dca["alpha"][c] * dca["beta"][c, k] * normal.pdf(Y)
    found = class_log_joint(Y, dca["log_weight"], dca["mu"], chol)
    np.testing.assert_allclose(found, np.log(expected), rtol=0, atol=100 * EPS)


@jax.jit
def gradients_at(Y, log_weight, mu, chol):
    def one(y):
        return class_distribution.class_log_joint(y[None], log_weight, mu, chol)[0]

    return jax.vmap(jax.jacobian(one))(Y)


@pytest.mark.long
@pytest.mark.parametrize("per_component", [False, True])
def test_the_scores_are_minus_the_gradients_of_the_log_density(dca, x64, per_component):
    Y = dca["X"] @ dca["A"].T
    log_weight, mu, chol = theta(dca)
    if per_component:
        chol = chol * np.array([1.0, 1.5])[None, :, None, None]

    _, m = scores(Y, log_weight, mu, chol)
    gradients = gradients_at(Y, log_weight, mu, chol)
    np.testing.assert_allclose(m, -gradients, atol=1e3 * EPS)


def test_a_component_a_class_does_not_have_changes_nothing(dca, x64):
    Y = dca["X"] @ dca["A"].T
    log_weight, mu, chol = theta(dca)
    padded = (
        np.concatenate([log_weight, np.full((3, 1), -np.inf)], 1),
        np.concatenate([mu, np.zeros((3, 1, 2))], 1),
        chol,
    )
    plain = class_log_joint(Y, log_weight, mu, chol)
    np.testing.assert_allclose(class_log_joint(Y, *padded), plain, atol=10 * EPS)
    gradient = gradients_at(Y, *padded)
    assert np.isfinite(gradient).all()


def test_fisher_matrices_match_the_golden_ones(dca, x64):
    metric = LocalFisher(dca["A"], *theta(dca))
    A, X = dca["A"], dca["X"]
    F = fisher_factor(*scores(X @ A.T, *theta(dca)))
    J_y = np.swapaxes(F, 1, 2) @ np.asarray(F)
    np.testing.assert_allclose(J_y, dca["J_y"], atol=1e2 * EPS)
    np.testing.assert_allclose(
        metric.matrix_at(X).mean(0), dca["J_x_mean"], atol=1e2 * EPS
    )


def test_a_weight_of_two_is_a_point_twice_in_the_mean_fisher(dca, x64):
    Y = dca["X"] @ dca["A"].T
    args = theta(dca)
    w = np.r_[2.0, 0.0, np.ones(len(Y) - 2)]
    twice = np.concatenate([Y[:1], Y[:1], Y[2:]])
    np.testing.assert_allclose(
        mean_fisher(Y, *args, w), mean_fisher(twice, *args), rtol=1e2 * EPS
    )


def test_pooled_covariance_is_the_weighted_mean_of_the_covariances(dca, x64):
    expected = np.einsum("c,cij->ij", dca["alpha"], dca["Sigma"])
    found = pooled_covariance(dca["log_weight"], dca["chol"])
    np.testing.assert_allclose(found, expected, atol=10 * EPS)


def test_jensen_shannon_is_scipys():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(4), (2, 50))
    with jax.enable_x64(True):
        found = jensen_shannon(np.log(p), np.log(q))
    # SciPy's own difference of entropies is good to eps absolute.
    np.testing.assert_allclose(found, jensenshannon(p, q, axis=1) ** 2, atol=10 * EPS)


def test_divergences_of_close_points_keep_their_digits(x64):
    # Second order: 1 - BC = t²/8·Σp, and JS alike; for p = ½ exactly (1 ± t)/2.
    t = 1e-7
    log_p = np.log([0.5, 0.5])
    log_q = np.log([0.5 * (1 + t), 0.5 * (1 - t)])
    np.testing.assert_allclose(hellinger_squared(log_p, log_q), t**2 / 8, rtol=1e-7)
    np.testing.assert_allclose(jensen_shannon(log_p, log_q), t**2 / 8, rtol=1e-7)


def test_divergences_of_certain_and_opposite_classes_are_their_bounds(x64):
    log_p, log_q = np.array([0.0, -800.0]), np.array([-800.0, 0.0])
    np.testing.assert_allclose(hellinger_squared(log_p, log_q), 1.0, rtol=4 * EPS)
    np.testing.assert_allclose(jensen_shannon(log_p, log_q), np.log(2), rtol=4 * EPS)


@pytest.mark.long
@pytest.mark.parametrize("divergence", ["hellinger", "jensen_shannon"])
def test_eight_times_the_divergence_is_the_local_metric_of_close_points(
    dca, divergence
):
    metric = ClassDistribution(dca["A"], *theta(dca), divergence)
    local = LocalFisher(dca["A"], *theta(dca))
    step = 1e-5 * np.random.default_rng(1).normal(size=4)
    X = dca["X"][1:7]
    far = metric.distance(X, X + step) ** 2
    near = np.array([local.dissimilarity(x, x[None] + step)[0] for x in X])
    # Third-order terms are of relative size ‖step‖ times the scores, some 10.
    np.testing.assert_allclose(8 * far, near, rtol=1e-3)
    assert not np.allclose(4 * far, near, rtol=1e-3, atol=0)


@pytest.mark.parametrize("divergence", ["hellinger", "jensen_shannon"])
def test_the_distance_of_class_distributions_is_a_pseudo_metric(dca, divergence):
    metric = ClassDistribution(dca["A"], *theta(dca), divergence)
    X = dca["X"]
    D = np.sqrt(metric.pairwise(X, X))
    np.testing.assert_allclose(D, D.T, atol=10 * EPS)
    np.testing.assert_array_equal(np.diag(D), 0)
    assert np.all(D[:, None, :] <= D[:, :, None] + D[None, :, :] + 100 * EPS)
    np.testing.assert_allclose(metric(X[0], X[1]), D[0, 1], rtol=1e2 * EPS)


@pytest.mark.long
def test_a_local_metric_sees_a_pair_from_its_query(dca):
    metric = LocalFisher(dca["A"], *theta(dca))
    X = dca["X"]
    D, matrices = metric.pairwise(X[:3], X), metric.matrix_at(X)
    for i in range(3):
        J, delta = matrices[i], X - X[i]
        expected = np.einsum("nd,de,ne->n", delta, J, delta)
        np.testing.assert_allclose(D[i], expected, rtol=1e-10, atol=1e-13)
    assert not np.isclose(D[0, 1], D[1, 0])
