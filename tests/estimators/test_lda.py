"""``LDA`` and ``RCA``: scikit-learn's conventions, its own LDA, and bad input."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from probmetric.estimators.lda import LDA, RCA
from probmetric.inference import lda

X, y = load_wine(return_X_y=True)


def test_distances_agree_with_scikit_learn_without_a_prior():
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(X, y)
    ours = LDA(prior_strength=0).fit(X, y)
    share = ours.explained_variance_ratio_
    np.testing.assert_allclose(share, theirs.explained_variance_ratio_[:2], rtol=1e-9)
    np.testing.assert_allclose(
        pdist(ours.transform(X)), pdist(theirs.transform(X)[:, :2]), rtol=1e-7
    )


@pytest.mark.parametrize("kind", [LDA, RCA])
def test_components_whiten_the_covariance_in_input_units(kind):
    fitted = kind().fit(X, y)
    L = fitted.components_
    np.testing.assert_allclose(L @ fitted.covariance_ @ L.T, np.eye(len(L)), atol=1e-10)


def test_rca_without_a_prior_is_the_inverse_of_the_pooled_covariance():
    pooled = sum(np.cov(X[y == c].T, bias=True) * np.mean(y == c) for c in range(3))
    M = RCA(prior_strength=0).fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(M @ pooled, np.eye(13), atol=1e-9)


def test_prior_shrinks_towards_total_variances():
    plain, held = (RCA(prior_strength=s).fit(X, y).covariance_ for s in (0, 178))
    np.testing.assert_allclose(held, (plain + np.diag(X.var(0))) / 2, rtol=1e-9)


@pytest.mark.parametrize("kind", [LDA, RCA])
def test_more_features_than_points_need_a_prior(kind):
    few = np.r_[0:4, 60:64, 140:144]
    with pytest.raises(ValueError, match="must have full rank"):
        kind(prior_strength=0).fit(X[few], y[few])
    assert np.all(np.isfinite(kind().fit(X[few], y[few]).components_))


def test_classes_with_equal_means_are_refused():
    """Also where sums in another order make them differ by a rounding."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(7, 3))
    for _ in range(5):
        X = np.vstack([rows, rng.permutation(rows)])
        with pytest.raises(ValueError, match="y: class means must differ"):
            LDA().fit(X, np.repeat([0, 1], 7))


@pytest.mark.long
@pytest.mark.parametrize("kind", [LDA, RCA])
def test_draws_scatter_about_the_fit_in_input_units(kind):
    model = kind().fit(X, np.array(["a", "b", "c"])[y])
    drawn = model.sample(n_draws=2000, seed=0)["posterior"]
    assert drawn.sizes["chain"] == 1
    assert drawn.sizes["draw"] == 2000
    assert list(drawn["class"].to_numpy()) == ["a", "b", "c"]
    for name, fitted in (
        ("mean", model.means_),
        ("covariance", model.covariance_[None]),
    ):
        values = drawn[name].to_numpy()[0]
        # Five standard errors of the mean of 2000 independent draws.
        limit = 5 * values.std(0) / np.sqrt(2000)
        assert np.all(np.abs(values.mean(0) - fitted) <= limit), name
    again = kind().fit(X, y).sample(n_draws=2000, seed=0)["posterior"]
    np.testing.assert_array_equal(again["M"], drawn["M"])


@pytest.mark.long
def test_each_draw_has_the_metric_of_its_own_classes():
    # Of two classes more than there are directions; one is kept.
    drawn = LDA(1).fit(X, y).sample(n_draws=50, n_chains=2)["posterior"]
    own = [drawn[name].to_numpy()[0] for name in ("weights", "mean", "covariance")]
    for k, (weights, mean, covariance) in enumerate(zip(*own, strict=True)):
        U = lda.discriminants(weights, mean, covariance[0], 1)[1]
        M = drawn["M"].to_numpy()[0, k]
        np.testing.assert_allclose(M, U.T @ U, rtol=1e-8, atol=1e-9 * M.max())
    drawn = RCA().fit(X, y).sample(n_draws=50, n_chains=2)["posterior"]
    product = drawn["M"].to_numpy()[0] @ drawn["covariance"].to_numpy()[0, :, 0]
    np.testing.assert_allclose(product, np.tile(np.eye(13), (100, 1, 1)), atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("kind", [LDA, RCA])
def test_the_posterior_metric_is_of_its_draws(kind):
    model = kind().fit(X, y)
    near = model.posterior_metric("prediction", seed=3)
    assert (len(near.draws), near.source) == (100, "exact")
    drawn = model.sample(n_draws=100, n_chains=1, seed=3)
    M = drawn["posterior"]["M"].to_numpy()[0]
    for metric, own in zip(near.draws, M, strict=True):
        assert len(metric.factor) == len(model.components_)
        np.testing.assert_allclose(metric.matrix, own, atol=1e-9 * own.max())
    np.testing.assert_allclose(drawn["constant_data"]["X"], X, rtol=1e-12)
    kept = model.posterior_metric("intervals", draws=drawn, n_draws=2)
    assert len(kept.draws) == 2
    low, high = model.posterior_metric("intervals").interval(X[:1], X[1:2])
    assert 0 < low < high
    with pytest.raises(ValueError, match="method must be one of 'exact'"):
        model.sample("nuts")


@pytest.mark.long
@pytest.mark.parametrize("kind", [LDA, RCA])
def test_draws_at_an_infinite_strength_are_of_scaled_features(kind):
    model = kind(prior_strength=np.inf).fit(X, y)
    drawn = model.sample(n_draws=100, n_chains=1)["posterior"]
    # A draw of Σ scatters by √(2/s) = 1.4e-9, and so does that of M.
    np.testing.assert_allclose(
        drawn["M"].to_numpy()[0] * np.outer(X.std(0), X.std(0)),
        np.tile(np.eye(13), (100, 1, 1)),
        atol=1e-8,
    )
    metric = model.posterior_metric("prediction")
    assert {metric.draws[0].factor.shape} == {(13, 13)}


@pytest.mark.long
def test_without_learning_the_directions_that_tell_classes_apart_come_first():
    model = LDA(prior_strength=np.inf).fit(X, y)
    assert model.components_.shape == (13, 13)
    assert np.all(model.eigenvalues_[:2] > 0.1)
    np.testing.assert_allclose(model.eigenvalues_[2:], 0, atol=1e-12)
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), 1)
    held = LDA(2, prior_strength=np.inf).fit(X, y)
    np.testing.assert_allclose(held.components_, model.components_[:2], rtol=1e-9)
    drawn = held.posterior_metric("prediction").draws
    assert {metric.factor.shape for metric in drawn} == {(2, 13)}


def test_row_numbers_as_pairs_are_refused_with_a_form_that_works():
    X, y = load_wine(return_X_y=True)
    learned = LDA(prior_strength=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"pairs must .*got \(1, 2\).* X\[pairs\]"):
        learned.pair_distance([[0, 1]])
    expected = learned.get_metric().distance(X[0], X[1])
    np.testing.assert_allclose(learned.pair_distance(X[[[0, 1]]]), [expected])


SETTINGS = [
    ({"n_components": 3}, r"n_components must be from 1 to min\(C - 1, d\) = 2"),
]


@pytest.mark.parametrize("settings, message", SETTINGS)
def test_bad_settings_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        LDA(**settings).fit(X, y)
