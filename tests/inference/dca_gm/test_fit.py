"""DCA-GM's fits: the start, the joint mode, the hybrid, and what is refused."""

import jax
import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from probmetric.data.containers import Labeled
from probmetric.data.padding import pad_labeled
from probmetric.inference.dca_gm.em import EMData, EMPrior, em_step
from probmetric.inference.dca_gm.fit import default_prior, fit
from probmetric.inference.dca_gm.hybrid import _polak_ribiere
from probmetric.inference.dca_gm.likelihood import (
    conditional_log_likelihood,
    gradient_A,
)
from probmetric.inference.dca_gm.start import default_rows, lda_rca, start
from probmetric.models.dca_gm import DCAGMParams, log_weight


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return Labeled((X - X.mean(0)) / X.std(0), y)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return Labeled((X - X.mean(0)) / X.std(0), y)


@pytest.fixture(scope="module")
def padded(iris):
    """As the learner takes it, in whose size the solvers are compiled anyway."""
    return pad_labeled(iris)


@pytest.fixture(scope="module")
def hybrid_of_iris(padded):
    return fit(padded, solver="hybrid")


@pytest.mark.long
def test_the_em_step_can_lower_the_conditional_likelihood(iris, hybrid_of_iris, x64):
    # Erratum 4: the hybrid is no ascent on the paper's objective.
    params = hybrid_of_iris.params
    em = EMData(iris.X @ params.A.T, iris.y, np.ones(len(iris.X)), EMPrior())
    after, _ = jax.jit(em_step)(params, em)
    before = conditional_log_likelihood(params, iris)
    assert conditional_log_likelihood(after, iris) < before - 1e-3


def test_the_start_spans_scikit_learns_lda(iris):
    found = lda_rca(iris, 2, ridge=1e-12)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(iris.X, iris.y)
    wanted = lda.scalings_[:, :2]
    cosines = np.linalg.svd(np.linalg.qr(found.T)[0].T @ np.linalg.qr(wanted)[0])[1]
    np.testing.assert_allclose(cosines, 1, atol=1e-9)


@pytest.mark.parametrize("s", [0.0, 30.0, np.inf])
def test_the_start_whitens_the_classes_with_variances_that_count_as_points(iris, s):
    X, y = iris.X[::3] * [1.0, 2.0, 3.0, 4.0], iris.y[::3]
    residual = X - np.stack([X[y == c].mean(0) for c in range(3)])[y]
    within, T = residual.T @ residual / 50, np.diag(X.var(0))
    shrunk = T if np.isinf(s) else (50 * within + s * T) / (50 + s)
    A = lda_rca(Labeled(X, y), 2, ridge=0.0, strength=s)
    np.testing.assert_allclose(A @ shrunk @ A.T, np.eye(2), atol=1e-10)
    assert np.allclose(A @ within @ A.T, np.eye(2), atol=1e-3) == (s == 0)


def test_the_start_is_completed_beyond_the_rank_of_lda(wine):
    two = Labeled(wine.X[:130], wine.y[:130])
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
    params = start(Labeled(X, y), 2, n_gaussians=3)
    assert np.isfinite(params.log_beta).sum(1).tolist() == [2, 3, 3]


@pytest.mark.long
def test_the_hybrid_returns_its_best_iterate_in_a_fixed_gauge(hybrid_of_iris):
    found = hybrid_of_iris
    assert found.objective == np.nanmax(found.trace) > found.trace[29]
    assert found.n_steps == 30
    L, share = found.params.chol, np.exp(log_weight(found.params))
    pooled = np.einsum("ck,ckab->ab", share, L @ np.swapaxes(L, -1, -2))
    np.testing.assert_allclose(pooled, np.eye(2), atol=1e-12)


def test_the_prior_of_the_centres_is_of_the_points_and_their_weights(iris):
    A = lda_rca(iris, 2)
    begin = DCAGMParams(A, *np.zeros((4, 3, 1)))
    spread = np.sqrt(np.mean((iris.X @ A.T) ** 2))
    for data in (iris, pad_labeled(iris)):
        assert default_prior(begin, data).mu_scale == pytest.approx(spread)
    w = np.arange(len(iris.X)) % 3
    data = iris._replace(w=w.astype(float))
    repeated = np.repeat(iris.X, w, 0) @ A.T
    expected = np.sqrt(np.mean(repeated**2))
    assert default_prior(begin, data).mu_scale == pytest.approx(expected)
    assert expected != pytest.approx(spread, rel=1e-3)


@pytest.mark.long
def test_data_weights_stand_for_repeated_points(iris, x64):
    rows = np.arange(0, 150, 3)
    twice = np.concatenate([rows, rows[:20]])
    w = np.ones(len(rows))
    w[:20] = 2
    weighted = Labeled(iris.X[rows], iris.y[rows], w)
    repeated = Labeled(iris.X[twice], iris.y[twice])
    params = start(weighted, 2, n_em=0)

    @jax.jit
    def step(data):
        em = EMData(data.X @ params.A.T, data.y, data.w, EMPrior())
        moved, value = em_step(params, em)
        return moved, value, gradient_A(moved, data)

    ends = [step(pad_labeled(data)) for data in (weighted, repeated)]
    for one, other in zip(*map(jax.tree.leaves, ends), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    for s in (0.0, 9.0):
        one, other = (lda_rca(data, 2, strength=s) for data in (weighted, repeated))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"y": None}, r"data .* None"),
        ({"y": np.zeros(150, int)}, r"y .* one class"),
        ({"y": np.repeat([0, 2], 75)}, r"y .* got \[0 2\]"),
    ],
)
def test_bad_data_are_refused_by_name(iris, change, message):
    with pytest.raises(ValueError, match=message):
        fit(iris._replace(**change))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_latent": 5}, r"n_latent .* 4, .* got 5"),
        ({"n_latent": 0}, "n_latent"),
        ({"n_gaussians": 0}, "n_gaussians"),
        ({"n_gaussians": [1, 2]}, "n_gaussians"),
        ({"solver": "newton"}, "solver"),
        ({"covariance": "full"}, "covariance"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 0, "solver": "hybrid"}, "max_steps"),
    ],
)
def test_bad_options_are_refused_by_name(iris, options, message):
    with pytest.raises(ValueError, match=message):
        fit(iris, **options)


def test_constant_features_alone_are_refused():
    with pytest.raises(ValueError, match=r"X .* constant"):
        fit(Labeled(np.ones((6, 2)), np.array([0, 1] * 3)))


def test_the_ridge_of_the_start_follows_the_units(iris):
    larger = Labeled(10 * iris.X, iris.y)
    np.testing.assert_allclose(
        10 * lda_rca(larger, 2, ridge=0.5), lda_rca(iris, 2, ridge=0.5), rtol=1e-9
    )


def test_a_conjugate_direction_is_kept_where_it_ascends():
    # (2, 1) (-1) has a negative sum and a positive slope along the gradient.
    gradient, before = np.array([[-1.0, -1.0]]), np.array([[-1.0, 0.0]])
    found = _polak_ribiere(gradient, before, before)
    np.testing.assert_array_equal(found, [[-2.0, -1.0]])
    np.testing.assert_array_equal(
        _polak_ribiere(gradient, before, -4 * gradient), gradient
    )


@pytest.mark.parametrize(
    ("n_classes", "d", "p"), [(2, 1, 1), (2, 9, 2), (3, 9, 2), (5, 9, 4), (9, 4, 4)]
)
def test_the_means_of_the_classes_set_the_number_of_rows(n_classes, d, p):
    assert default_rows(n_classes, d) == p
    X = np.random.default_rng(0).normal(size=(3 * n_classes, d))
    y = np.repeat(np.arange(n_classes), 3)
    assert lda_rca(Labeled(X, y), p).shape == (p, d)
