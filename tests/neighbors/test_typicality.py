"""P-values of novelty: exact for a fixed metric, cross-fitted for a learned one."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import probmetric as pm
from probmetric.neighbors import KNeighborsClassifier
from probmetric.neighbors.typicality import fold_rows, reference
from tests.metric_kinds import build

RNG = np.random.default_rng(0)


def blobs(n, d=2, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.normal(size=(n, d)) + 4 * np.eye(max(d, classes))[y, :d], y


def full_conformal(metric, X, x):
    """Rank the score of x among the scores of all rows with x added to the data."""
    Z = np.vstack([X, x])
    D = np.array(metric.pairwise(Z, Z))
    np.fill_diagonal(D, np.inf)
    scores = D.min(1)
    return np.mean(scores >= scores[-1] * (1 - 1e-12))


@pytest.mark.parametrize("votes", ["soft", "count"])
def test_p_values_of_a_fixed_metric_are_those_of_full_conformal_prediction(votes):
    (X, y), Q = blobs(40), RNG.normal(size=(25, 2)) * 3
    metric = pm.Mahalanobis(np.array([[1.0, 0.5], [0.0, 2.0]]))
    knn = KNeighborsClassifier(metric, votes=votes).fit(X, y)
    expected = [full_conformal(metric, X, x) for x in Q]
    np.testing.assert_allclose(knn.typicality(Q), expected, rtol=1e-12)


def test_equal_scores_count_as_at_least_as_large():
    grid = np.arange(5.0)[:, None]
    p = reference(pm.Mahalanobis(np.eye(1)), grid).p_values(np.array([[5.0], [5.5]]))
    np.testing.assert_allclose(p, [1, 1 / 6])


def test_new_members_are_called_novel_at_the_nominal_rate():
    """The rate is 2/40 for 39 rows. The test fails by chance once in 10⁵ times."""
    euclid, X = pm.Mahalanobis(np.eye(2)), RNG.normal(size=(150, 40, 2))
    novel = [reference(euclid, Z[:39]).p_values(Z[39:])[0] <= 0.05 for Z in X]
    assert abs(np.mean(novel) - 0.05) < 4.4 * np.sqrt(0.05 * 0.95 / len(X))


class Overfit(BaseEstimator):
    """A metric that is zero within the directions of its training rows."""

    def fit(self, X, y):
        scores = np.linalg.svd(X - X.mean(0), full_matrices=True)[2]
        self.factor_ = scores[np.linalg.matrix_rank(X - X.mean(0)) :]
        return self

    def get_metric(self):
        return pm.Mahalanobis(self.factor_)


def test_a_learned_metric_is_judged_by_rows_that_it_was_not_learned_from():
    """Training rows are at distance zero of each other, and new ones are not."""
    X, y = blobs(60, d=80)
    knn = KNeighborsClassifier(Overfit()).fit(X[:40], y[:40])
    assert np.mean(knn.typicality(X[40:]) <= 0.05) < 0.5
    fixed = KNeighborsClassifier(knn.metric_).fit(X[:40], y[:40])
    assert np.mean(fixed.typicality(X[40:]) <= 0.05) == 1


def test_cross_fitted_p_values_count_the_rows_of_each_fold():
    (X, y), Q = blobs(30), RNG.normal(size=(9, 2)) * 3
    knn = KNeighborsClassifier(pm.RCA(prior_strength=1)).fit(X, y)
    total = np.ones(len(Q))
    for rows in fold_rows(X, y):
        others = np.setdiff1d(np.arange(30), rows)
        metric = pm.RCA(prior_strength=1).fit(X[others], y[others]).get_metric()
        own = np.array(metric.pairwise(X, X))
        np.fill_diagonal(own, np.inf)
        new = np.asarray(metric.pairwise(Q, X)).min(1)
        total += (own[rows].min(1) >= new[:, None]).sum(1)
    np.testing.assert_allclose(knn.typicality(Q), total / 31, rtol=1e-12)


def test_p_values_depend_neither_on_the_order_of_rows_nor_on_scores_that_are_negative():
    (X, y), Q = blobs(30), RNG.normal(size=(9, 2)) * 3
    order = RNG.permutation(30)
    one, other = (
        KNeighborsClassifier(pm.RCA(prior_strength=1)).fit(X[rows], y[rows])
        for rows in (np.arange(30), order)
    )
    np.testing.assert_allclose(one.typicality(Q), other.typicality(Q), rtol=1e-12)
    score = build("PairSimilarity")
    Z = RNG.normal(size=(30, score.n_features))
    knn = KNeighborsClassifier(score).fit(Z, y)
    far, near = knn.typicality(np.vstack([Z[0] + 1e3, Z[0] + 1e-9]))
    assert far < near


def test_predict_returns_the_outlier_label_and_probabilities_stay():
    X, y = blobs(60)
    Q = np.vstack([X[:5] + 0.01, [[40.0, 40.0]]])
    plain, knn = (
        KNeighborsClassifier(**more).fit(X, np.array(["a", "b", "c"])[y])
        for more in ({}, {"novelty": 0.05, "outlier_label": "none of them"})
    )
    assert knn.predict(Q)[-1] == "none of them"
    assert (knn.predict(Q)[:5] == plain.predict(Q)[:5]).all()
    np.testing.assert_array_equal(knn.predict_proba(Q), plain.predict_proba(Q))


def test_evaluate_counts_false_alarms_and_catches():
    X, y = blobs(90)
    train = (np.arange(90) < 60) & (y < 2)
    knn = KNeighborsClassifier(novelty=0.1, outlier_label=9).fit(X[train], y[train])
    figures = pm.evaluate(X[60:], y[60:], classifier=knn)
    novel = knn.typicality(X[60:]) <= 0.1
    assert figures["false_alarms"] == np.mean(novel[y[60:] < 2])
    assert figures["caught"] == np.mean(novel[y[60:] == 2]) > 0.5
    knn.set_params(novelty=None)
    with pytest.raises(ValueError, match="only classes of the classifier"):
        pm.evaluate(X[60:], y[60:], classifier=knn)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"novelty": 0.05, "outlier_label": 9}, "at least 1/.n . 1. = 0.0526"),
        ({"novelty": 1.5, "outlier_label": 9}, "novelty must be"),
        ({"novelty": 0.3}, "outlier_label must have the type"),
        ({"novelty": 0.3, "outlier_label": 2}, "must not be one of the classes"),
    ],
)
def test_bad_options_of_novelty_are_named(options, words):
    X, y = blobs(18)
    with pytest.raises(ValueError, match=words):
        KNeighborsClassifier(**options).fit(X, y)


def test_rows_on_disk_have_the_p_values_of_rows_in_memory():
    X, y = blobs(60)
    Q = RNG.normal(size=(9, 2)) * 3
    source = pm.open(X, label=y)
    disk = KNeighborsClassifier(votes="count").fit(source)
    memory = KNeighborsClassifier(votes="count").fit(X, y)
    np.testing.assert_array_equal(disk.typicality(Q), memory.typicality(Q))


def test_a_level_that_no_p_value_reaches_is_refused_after_folds():
    """The only row of a class is in no fold: 18 of 19 points are compared."""
    X = np.random.default_rng(0).normal(size=(19, 2))
    y = np.r_[np.arange(18) % 2, 2]
    knn = KNeighborsClassifier(pm.RCA(prior_strength=1), novelty=0.05, outlier_label=-1)
    with pytest.warns(UserWarning, match="only one row"):
        with pytest.raises(ValueError, match=r"novelty must be .* n = 18"):
            knn.fit(X, y)
