"""What metric-learn and scikit-learn promise, kept or refused on purpose.

Each is in docs/other_libraries.md; meanings that a learner's own tests hold are there.
"""

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from sklearn.metrics import roc_auc_score

import probmetric as pm

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2
X[:, 0] += 2 * Y
PAIRS = np.stack([X[:20], X[20:]], 1)
SAME = np.where(np.arange(20) % 3 == 0, 1, -1)


@pytest.fixture(scope="module")
def learned():
    return pm.PairLDA().fit_pairs(PAIRS, SAME)


def test_metric_learn_score_is_the_area_under_the_curve(learned):
    expected = roc_auc_score(SAME, -learned.pair_distance(PAIRS))
    assert learned.score(PAIRS, SAME) == expected


def test_metric_learn_decision_and_prediction_are_of_the_threshold(learned):
    distance = learned.pair_distance(PAIRS)
    np.testing.assert_array_equal(learned.decision_function(PAIRS), -distance)
    expected = np.where(distance <= learned.threshold_, 1, -1)
    np.testing.assert_array_equal(learned.predict(PAIRS), expected)


def test_metric_learn_get_metric_is_callable_and_scipys_distance(learned):
    M = learned.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, learned.components_.T @ learned.components_)
    expected = mahalanobis(X[0], X[1], M)
    np.testing.assert_allclose(learned.get_metric()(X[0], X[1]), expected, rtol=1e-12)


def test_metric_learn_preprocessors_may_be_functions(learned):
    at = np.stack([np.arange(20), np.arange(20, 40)], 1)
    called = pm.PairLDA(preprocessor=lambda keys: X[keys]).fit(at, SAME)
    np.testing.assert_allclose(called.components_, learned.components_, rtol=1e-12)
    np.testing.assert_array_equal(called.transform([2, 1]), called.transform(X[[2, 1]]))


@pytest.mark.parametrize(
    "strategy, rate",
    [("accuracy", None), ("f_beta", None), ("max_tpr", 0.5), ("max_tnr", 0.5)],
)
def test_metric_learn_thresholds_are_the_best_of_all_cuts(learned, strategy, rate):
    found = pm.PairLDA().fit_pairs(PAIRS, SAME)
    found.calibrate_threshold(PAIRS, SAME, strategy, min_rate=rate)
    distance, same = found.pair_distance(PAIRS), SAME == 1

    def gain(cut):
        said = distance <= cut
        true, false = (said & same).sum(), (said & ~same).sum()
        if strategy == "accuracy":
            return np.mean(said == same)
        if strategy == "f_beta":
            return 2 * true / (said.sum() + same.sum())
        rates = [true / same.sum(), 1 - false / (~same).sum()]
        won, kept = rates if strategy == "max_tpr" else rates[::-1]
        return won if kept >= rate else -1.0

    best = max(gain(cut) for cut in [-1.0, *distance])
    np.testing.assert_allclose(gain(found.threshold_), best, rtol=1e-12)


def test_differs_from_metric_learn_no_negative_threshold_or_beta(learned):
    with pytest.raises(ValueError, match=r"^threshold must be"):
        pm.PairLDA().fit_pairs(PAIRS, SAME).set_threshold(-1.0)
    with pytest.raises(ValueError, match=r"^beta must be"):
        learned.calibrate_threshold(PAIRS, SAME, "f_beta", beta=-1.0)


def test_differs_from_metric_learn_labels_give_no_threshold():
    with pytest.raises(AttributeError, match="has no attribute 'predict'"):
        pm.PairLDA().fit(X, Y).predict(PAIRS)


def test_differs_from_scikit_learn_ties_go_to_the_lowest_index():
    points, labels = np.array([[0.0], [1.0], [1.0], [3.0]]), np.array([0, 1, 0, 1])
    knn = pm.KNeighborsClassifier(n_neighbors=1, votes="count").fit(points, labels)
    assert knn.predict([[1.0]]) == [1]
