"""``TripletMetric``: scikit-learn's contract, units, triplets, draws, bad input."""

from functools import partial

import numpy as np
import pytest

import probmetric as pm
from probmetric.data import OddOneOut
from probmetric.estimators.triplet_comparisons.estimator import TripletMetric
from probmetric.storage import posterior_of
from tests.dump import assert_refused


def answers(seed=0, n=400):
    """Answers by the first of two features alone, with logistic noise."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(60, 2))
    rows = np.stack([rng.permutation(60)[:3] for _ in range(n)])
    squared = 2 * (points[rows] - points[rows[:, :1]])[..., 0] ** 2
    y = rng.logistic(size=n) < squared[:, 2] - squared[:, 1]
    return points, rows, y.astype(int)


@pytest.fixture(scope="module")
def fitted():
    points, rows, y = answers()
    return TripletMetric(preprocessor=points).fit_triplets(rows, y)


@pytest.mark.long
def test_the_feature_that_answers_follow_is_found(fitted):
    M = fitted.get_mahalanobis_matrix()
    assert M[0, 0] > 10 * abs(M[1, 1])
    assert abs(M[0, 0] - 2) < 1
    assert fitted.gap_ < 1e-6
    assert fitted.learning_rate_ == 1


def test_three_forms_of_triplets_are_one_fit(fitted):
    points, rows, y = answers()
    side = TripletMetric().fit_triplets(points[rows], y)
    own = TripletMetric().fit_triplets(pm.Triplets(points, *rows.T, y))
    M = fitted.get_mahalanobis_matrix()
    np.testing.assert_allclose(own.get_mahalanobis_matrix(), M, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(side.get_mahalanobis_matrix(), M, rtol=1e-6, atol=1e-8)


def slope(y, p):
    """Logistic regression of answers on the log odds of p: slope, standard error.

    Without an intercept, which would change when near and far are exchanged.
    """
    p, b = np.clip(p, 1e-9, 1 - 1e-9), 0.0
    t = np.log(p / (1 - p))
    for _ in range(20):
        q = 1 / (1 + np.exp(-b * t))
        information = np.sum(t**2 * q * (1 - q))
        b += np.sum(t * (y - q)) / information
    return b, 1 / np.sqrt(information)


def test_probabilities_are_calibrated_on_other_answers():
    points, rows, y = answers(n=2000)
    model = TripletMetric(preprocessor=points).fit_triplets(rows, y)
    points, rows, y = answers(seed=1, n=2000)
    found, error = slope(y, model.triplet_probability(points[rows]))
    # As many answers made the fit, whose scale is as uncertain.
    assert abs(found - 1) < 3 * np.sqrt(2) * error < 0.35
    model.components_ = model.components_ * np.sqrt(3)
    sure, error = slope(y, model.triplet_probability(points[rows]))
    assert abs(sure - 1) > 6 * np.sqrt(2) * error


def test_probabilities_turn_with_the_question(fitted):
    points, rows, y = answers(seed=1, n=2000)
    p = fitted.triplet_probability(points[rows])
    turned = fitted.triplet_probability(points[rows][:, [0, 2, 1]])
    np.testing.assert_allclose(p + turned, 1, atol=1e-12)
    assert fitted.triplet_score(points[rows], y) > 0.7


@pytest.mark.long
@pytest.mark.parametrize("p", [1, 2])
def test_triplets_of_weight_zero_are_as_if_absent(p):
    # Scale and prior are set by the questions: large ones of no weight must not.
    points, rows, y = answers()
    side, w = points[rows], np.repeat([1.0, 0.0], 400)
    padded = np.concatenate([side, 100 * side + 7])
    alone = TripletMetric(p).fit_triplets(side, y)
    given = np.tile(y, 2)
    both = TripletMetric(p).fit_triplets(padded, given, sample_weight=w)
    np.testing.assert_array_equal(both.components_, alone.components_)
    assert both.prior_.c == alone.prior_.c
    counted = TripletMetric(p).fit_triplets(padded, given)
    assert np.abs(counted.components_ - alone.components_).max() > 0.1


def test_even_odds_are_half_right_whichever_answer_came(fitted):
    equal = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]])
    model = TripletMetric().fit_triplets(answers()[0][answers()[1]], answers()[2])
    assert model.triplet_score(equal, [0]) == model.triplet_score(equal, [1]) == 0.5


# Two hundred draws are enough for this, and not for R-hat.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::probmetric.inference.sampling.SamplingWarning")
def test_draws_become_metrics_and_are_stored(fitted, tmp_path):
    draws = fitted.sample(pm.NUTS(n_warmup=150), n_draws=100, n_chains=2)
    M = draws["posterior"]["M"].to_numpy().reshape(-1, 2, 2)
    near = fitted.posterior_metric("intervals", draws=draws)
    assert len(near.draws) == 200
    np.testing.assert_allclose(near.draws[3].matrix, M[3], atol=1e-9)
    low, high = np.quantile(M[:, 0, 0], [0.005, 0.995])
    assert low < fitted.get_mahalanobis_matrix()[0, 0] < high
    pm.save_draws(draws, tmp_path / "draws.nc")
    kept = pm.load_draws(tmp_path / "draws.nc")
    np.testing.assert_array_equal(kept["posterior"]["M"], draws["posterior"]["M"])
    again = posterior_of(kept, purpose="intervals")
    for a, b in zip(again.draws, near.draws, strict=True):
        np.testing.assert_array_equal(a.matrix, b.matrix)


REFUSED = [
    lambda m: m.fit_triplets(np.zeros((4, 2, 3))),
    lambda m: m.triplet_probability(np.zeros((4, 3, 5))),
    lambda m: m.posterior_metric("votes"),
    lambda m: m.posterior_metric("intervals", method="x", n_draws=0),
    lambda m: m.fit_triplets(m.triplets_._replace(y=None)),
    lambda m: m.triplet_score(m.triplets_._replace(y=None)),
    lambda m: m.sample("bootstrap"),
]


def test_bad_input_is_refused():
    points, rows, y = answers(n=60)
    model = TripletMetric().fit_triplets(points[rows], y)
    calls = [partial(call, model) for call in REFUSED]
    assert_refused(calls, "estimators/triplet_comparisons.txt")


def test_the_default_prior_is_weaker_for_independent_triplets_than_for_labels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.repeat([0, 1], 10)
    triplets = np.stack([rng.permutation(20)[:3] for _ in range(40)])
    judged = TripletMetric(preprocessor=X).fit_triplets(
        triplets, rng.integers(0, 2, 40)
    )
    assert judged.prior_.lam == 0.3
    assert TripletMetric().fit(X, y).prior_.lam == 1
    assert TripletMetric(regularization=2).fit(X, y).prior_.lam == 2


def test_odd_one_out_of_labels_has_the_other_class_as_the_odd_one():
    X, y = pm.datasets.load("iris")
    X, y = X[::5], np.asarray(y)[::5]
    model = TripletMetric(odd_one_out=True).fit(X, y)
    assert isinstance(model.triplets_, OddOneOut)
    last, first = X[[[0, 1, 29]]], X[[[29, 0, 1]]]  # Two of one class and another.
    assert model.triplet_probability(last) > 0.9
    assert model.triplet_score(last) == model.triplet_score(first, [2]) == 1
    assert model.triplet_score(first) == 0
    own = OddOneOut(X, *np.array([[29], [0], [1]]), np.array([2]))
    assert TripletMetric(standardize=False).fit_triplets(own).triplet_score(own) == 1
