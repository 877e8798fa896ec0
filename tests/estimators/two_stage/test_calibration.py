"""Calibrated ratios of ``TwoStageMixture``: values, bounds, invariance, laziness."""

import pickle

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

from probmetric import TwoStageMixture, nearest
from probmetric.estimators.two_stage import estimator


def measurements(n_sources):
    """Three instances of each source in d = 2, with noise of t with 3 degrees."""
    rng = np.random.default_rng(11)
    group = np.repeat(np.arange(n_sources), 3)
    noise = rng.normal(size=(3 * n_sources, 2))
    noise /= np.sqrt(rng.chisquare(3, size=(3 * n_sources, 1)) / 3)
    return 2 * rng.normal(size=(n_sources, 2))[group] + 0.5 * noise, group


@pytest.fixture(scope="module")
def data():
    return measurements(30)


@pytest.fixture(scope="module")
def model(data):
    return TwoStageMixture().fit(data[0], groups=data[1])


@pytest.fixture(scope="module")
def pairs(data):
    i, j = np.triu_indices(24, 1)
    return np.stack([data[0][i], data[0][j]], 1)


def log_ratio(model, pairs):
    """Return the log ratio of the model by scipy."""
    mu, B, W = model.means_[0], model.between_[0], model.within_[0]
    joint = np.block([[B + W, B], [B, B + W]])
    both = multivariate_normal(np.tile(mu, 2), joint).logpdf(pairs.reshape(-1, 4))
    single = multivariate_normal(mu, B + W).logpdf(pairs)
    return both - single.sum(1)


def test_scores_and_probabilities_are_calibrated_ratios_of_the_model(model, pairs):
    a, up, down, bound = model.calibration_
    limited = np.clip(log_ratio(model, pairs), -bound, bound)
    line = a + up * np.maximum(limited, 0) + down * np.minimum(limited, 0)
    expected = np.clip(line, -bound, bound)
    np.testing.assert_allclose(model.pair_score(pairs), expected, atol=1e-9)
    P = model.same_probability(pairs, prior_odds=0.1)
    np.testing.assert_allclose(P, expit(expected + np.log(0.1)), atol=1e-9)
    assert bound == pytest.approx(np.log(31))
    assert down < 0.9  # Wrong tails: the model overstates evidence against.


def test_without_calibration_the_score_is_the_ratio_of_the_model(data, pairs):
    plain = TwoStageMixture(calibration=None).fit(data[0], groups=data[1])
    assert plain.calibration_ is None
    np.testing.assert_allclose(plain.pair_score(pairs), log_ratio(plain, pairs))


def test_calibration_changes_no_neighbor(model, data):
    plain = TwoStageMixture(calibration=None).fit(data[0], groups=data[1])
    for a, b in zip(
        nearest(model.get_metric(), data[0][:9], data[0], 4),
        nearest(plain.get_metric(), data[0][:9], data[0], 4),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_calibration_depends_neither_on_row_order_nor_on_units(model, data):
    order = np.random.default_rng(0).permutation(90)
    X, group = data[0][order] * [1000.0, 0.01] + 3.0, data[1][order]
    other = TwoStageMixture().fit(X, groups=group)
    np.testing.assert_allclose(other.calibration_, model.calibration_, rtol=1e-5)


def test_fewer_than_five_sources_only_give_a_bound():
    X, group = measurements(4)
    few = TwoStageMixture().fit(X, groups=group)
    assert few.calibration_ == pytest.approx((0, 1, 1, np.log(5)))


def test_five_sources_are_calibrated():
    X, group = measurements(5)
    few = TwoStageMixture().fit(X, groups=group)
    assert few.calibration_ != pytest.approx((0, 1, 1, np.log(6)), abs=0.01)
    assert few.calibration_.bound == pytest.approx(np.log(6))
    reverse = TwoStageMixture().fit(X[::-1], groups=group[::-1])
    np.testing.assert_allclose(reverse.calibration_, few.calibration_, rtol=1e-5)


def test_points_and_pairs_have_no_calibration(data, pairs):
    assert TwoStageMixture().fit(data[0]).calibration_ is None
    assert TwoStageMixture().fit_pairs(pairs[:40]).calibration_ is None


def test_fit_does_not_calibrate_before_the_first_use(data, model, monkeypatch):
    def unexpected(recipe):
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(estimator, "calibrate", unexpected)
        fitted = TwoStageMixture().fit(data[0], groups=data[1])
        fitted.score(data[0])
    again = pickle.loads(pickle.dumps(fitted))
    assert again.calibration_ == model.calibration_


def test_blended_models_are_calibrated(data):
    X, group = data
    blended = TwoStageMixture((1, 2), blend="bic").fit(X, groups=group)
    assert np.all(np.isfinite(blended.calibration_))
    assert blended.calibration_ != pytest.approx((0, 1, 1, np.log(31)))
