"""GLML: scikit-learn's contract, scales, draws, baselines, small and bad data."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from probmetric.estimators.glml import GLML
from probmetric.metric import LocalMahalanobis


@pytest.mark.slow
@parametrize_with_checks([GLML(n_draws=0, gamma=0.1), GLML(n_draws=2)])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def halves():
    X, y = load_iris(return_X_y=True)
    odd = np.arange(len(X)) % 2 == 1
    return X[~odd], y[~odd], X[odd], y[odd]


@pytest.fixture(scope="module")
def fitted():
    X, y, _, _ = halves()
    return GLML(n_draws=4, random_state=0).fit(X, y)


def test_it_classifies(fitted):
    _, _, X_new, y_new = halves()
    assert fitted.score(X_new, y_new) > 0.9
    np.testing.assert_allclose(fitted.predict_proba(X_new).sum(1), 1, rtol=1e-12)


def test_draws_are_reproducible_and_the_metric_pickles(fitted):
    X, y, X_new, _ = halves()
    again = clone(fitted).fit(X, y)
    np.testing.assert_array_equal(
        again.predict_proba(X_new), fitted.predict_proba(X_new)
    )
    metric = pickle.loads(pickle.dumps(fitted)).get_metric()
    assert isinstance(metric, LocalMahalanobis)
    np.testing.assert_array_equal(
        metric.matrix_at(X_new[:3]), fitted.local_metric(X_new[:3])
    )


def test_rescaling_a_feature_changes_no_neighbour(fitted):
    X, y, X_new, _ = halves()
    scale = np.array([1e3, 1.0, 1e-3, 7.0])
    scaled = clone(fitted).fit(X * scale, y)
    assert scaled.gamma_ == fitted.gamma_
    np.testing.assert_allclose(
        scaled.predict_proba(X_new * scale), fitted.predict_proba(X_new), atol=1e-7
    )
    np.testing.assert_allclose(
        scaled.local_metric(X_new[:3] * scale) * np.outer(scale, scale),
        fitted.local_metric(X_new[:3]),
        rtol=1e-6,
    )


def test_posterior_gives_intervals_and_a_summary(fitted):
    X, _, X_new, _ = halves()
    low, high = fitted.posterior_metric("intervals").interval(X_new[:5], X[:5])
    assert (low < high).all()
    mean, spread = fitted.local_metric_summary(X_new[:3])
    assert mean.shape == (3, 4, 4)
    assert (spread > 0).all()
    wanted = 2 * np.linalg.slogdet(fitted.metric_.frame)[1]
    np.testing.assert_allclose(np.linalg.slogdet(mean)[1], wanted, rtol=1e-9)


def test_infinite_gamma_is_the_pooled_mahalanobis_metric(fitted):
    X, y, X_new, _ = halves()
    pooled = GLML(n_draws=0, gamma=np.inf, votes="count").fit(X, y)
    F = pooled.metric_.frame
    A = pooled.local_metric(X_new[:3])
    np.testing.assert_allclose(A, np.broadcast_to(F.T @ F, A.shape), rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "expected_bias", "n_draws": 3},
        {"rule": "zero_bias", "densities": "mle", "n_draws": 0, "gamma": 1.0},
        {"rule": "fisher", "n_draws": 0, "covariance": "tied"},
        {"rule": "regularised", "n_draws": 0, "covariance": "diagonal"},
    ],
    ids=lambda o: o["rule"],
)
def test_every_rule_serves_in_a_pipeline(options):
    X, y, X_new, y_new = halves()
    model = make_pipeline(
        StandardScaler(), GLML(votes="count", random_state=0, **options)
    )
    assert model.fit(X, y).score(X_new, y_new) > 0.85


def test_few_points_one_class_of_one_and_twenty_features():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(7, 20))
    y = np.array([0, 0, 0, 1, 1, 1, 2])
    model = GLML(n_neighbors=3, n_draws=0, gamma=0.1).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.local_metric(X)).all()


def test_classes_of_one_distribution_are_no_problem():
    rng = np.random.default_rng(2)
    X = np.tile(rng.normal(size=(25, 4)), (3, 1))
    y = np.repeat([0, 1, 2], 25)
    model = GLML(n_draws=0, gamma=0.0).fit(X, y)
    F = model.metric_.frame
    A = model.local_metric(X[:3])
    np.testing.assert_allclose(A, np.broadcast_to(F.T @ F, A.shape), atol=1e-6)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rule": "best"}, "rule: wanted one of"),
        ({"gamma": -1.0}, "gamma: wanted a number"),
        ({"gamma": "cv"}, "gamma: wanted a number"),
        ({"densities": "mle"}, "n_draws: wanted 0"),
        ({"rule": "expected_bias", "n_draws": 0}, "n_draws: wanted at least 2"),
        ({"n_draws": -1}, "n_draws: wanted a whole number"),
        ({"votes": "hard"}, "votes: wanted"),
        ({"n_neighbors": 0}, "n_neighbors: wanted"),
    ],
)
def test_bad_options_are_refused_by_name(options, message):
    X, y, _, _ = halves()
    with pytest.raises(ValueError, match=message):
        GLML(**options).fit(X, y)


def test_no_draws_no_posterior():
    X, y, _, _ = halves()
    model = GLML(n_draws=0, gamma=0.0).fit(X, y)
    with pytest.raises(ValueError, match="n_draws: wanted at least 1"):
        model.posterior_metric("intervals")
