"""The regressor: scikit-learn's where it is the same, brute force where it is not."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import KNeighborsRegressor as Reference
from sklearn.utils.estimator_checks import parametrize_with_checks

import probmetric as pm
from probmetric.neighbors.regressor import quantile_codes
from probmetric.neighbors.votes import BANDWIDTHS
from probmetric.posterior.metric import PosteriorMetric
from tests.metric_kinds import build

X, Y = (a[:90] for a in load_diabetes(return_X_y=True))
X = X[:, 2:5] / X[:, 2:5].std(0)


@pytest.mark.long
@parametrize_with_checks(
    [
        pm.KNeighborsRegressor(),
        pm.KNeighborsRegressor(votes="count"),
        pm.KNeighborsRegressor(metric=pm.LDA()),
    ],
    expected_failed_checks=lambda _: {
        "check_array_api_input": "needs SCIPY_ARRAY_API in the environment"
    },
)
@pytest.mark.filterwarnings("ignore:X. ", "ignore:score. the metric was learned")
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_count_votes_are_scikit_learns_regressor():
    ours = pm.KNeighborsRegressor(None, 7, votes="count").fit(X[:60], Y[:60])
    theirs = Reference(7).fit(X[:60], Y[:60])
    np.testing.assert_allclose(ours.predict(X[60:]), theirs.predict(X[60:]), rtol=1e-12)


def brute_force(metrics, bandwidth, Q, points, y, own=None):
    """Return the mean over draws of the weighted mean of y, Eq. (1) of the votes."""
    found = []
    for metric in metrics:
        near = np.sort(np.asarray(metric.pairwise(points, points)), 1)
        h = bandwidth * np.median(near[:, 5])  # Column 0 is the point itself.
        D = np.array(metric.pairwise(Q, points))
        if own is not None:
            D[np.arange(len(Q)), own] = np.inf
        w = np.exp(-(D - D.min(1, keepdims=True)) / (2 * h))
        found.append((w @ y) / w.sum(1))
    return np.mean(found, 0)


@pytest.mark.long
@pytest.mark.parametrize("n_draws", [1, 3])
def test_soft_votes_are_the_weighted_mean_of_all_points_averaged_over_draws(n_draws):
    metrics = [build("Mahalanobis", s) for s in range(n_draws)]
    knn = pm.KNeighborsRegressor(PosteriorMetric(metrics, "prediction"), bandwidth=0.5)
    knn.fit(X[:60], Y[:60])
    expected = brute_force(metrics, 0.5, X[60:], X[:60], Y[:60])
    np.testing.assert_allclose(knn.predict(X[60:]), expected, rtol=1e-9)


def test_the_bandwidth_has_the_least_leave_one_out_error():
    knn = pm.KNeighborsRegressor().fit(X, Y)
    euclid = [pm.Mahalanobis(np.eye(3))]
    own = np.arange(len(X))
    errors = [
        np.mean((brute_force(euclid, b, X, X, Y, own) - Y) ** 2) for b in BANDWIDTHS
    ]
    np.testing.assert_allclose(-knn.loo_scores_, errors, rtol=1e-9)
    assert knn.bandwidth_ == BANDWIDTHS[int(np.argmin(errors))]
    fixed = pm.KNeighborsRegressor(bandwidth=2.0).fit(X, Y)
    assert fixed.bandwidth_ == 2.0
    assert np.isnan(fixed.loo_scores_).all()


def test_predictions_stay_within_the_values_and_follow_their_units():
    knn = pm.KNeighborsRegressor(bandwidth=1.0)
    P = knn.fit(X[:60], Y[:60]).predict(X)
    assert (P >= Y[:60].min()).all()
    assert (P <= Y[:60].max()).all()
    moved = knn.fit(X[:60], 1e6 + 1e-3 * Y[:60]).predict(X)
    np.testing.assert_allclose(moved, 1e6 + 1e-3 * P, rtol=1e-12)
    assert (knn.fit(X[:60], np.full(60, 7.0)).predict(X) == 7.0).all()


@pytest.mark.long
def test_a_learner_learns_in_each_fold_from_classes_of_about_equal_size():
    folds = KFold(3, shuffle=True, random_state=0)
    model = pm.KNeighborsRegressor(pm.LDA(), n_bins=3)
    expected = []
    for train, test in folds.split(X):
        codes = quantile_codes(Y[train], 3)
        assert np.ptp(np.bincount(codes)) <= 3  # Ties at the cuts.
        metric = pm.LDA().fit(X[train], codes).get_metric()
        knn = pm.KNeighborsRegressor(metric).fit(X[train], Y[train])
        expected.append(knn.score(X[test], Y[test]))
    np.testing.assert_array_equal(cross_val_score(model, X, Y, cv=folds), expected)
    grid = {"n_neighbors": [3, 9], "metric__prior_strength": [0.1, 10.0]}
    scores = GridSearchCV(model, grid, cv=2).fit(X, Y).cv_results_["mean_test_score"]
    assert len({*scores}) == 4


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(votes="hard"), "votes must be one of 'soft', 'count'"),
        (dict(n_neighbors=91, votes="count"), "n_neighbors must be at most 90"),
        (dict(bandwidth=0.0), "bandwidth must be 'loo' or a number"),
        (dict(bandwidth=np.inf), r"bandwidth must be .*\(0, inf\), got inf"),
        (dict(n_bins=1), "n_bins must be a whole number in"),
        (dict(metric="euclidean"), "metric .*got str"),
        (dict(draws="prediction"), "draws .*got 'prediction'"),
    ],
)
def test_bad_arguments_are_named_at_fit(options, words):
    with pytest.raises(ValueError, match=words):
        pm.KNeighborsRegressor(**options).fit(X, Y)


@pytest.mark.parametrize(
    "y, sizes",
    [
        (np.r_[np.zeros(125), np.arange(1.0, 26)], [125, 25]),
        (np.r_[np.zeros(10), np.ones(2)], [10, 2]),
        (np.arange(8.0), [2, 2, 2, 2]),
    ],
)
def test_many_equal_values_leave_two_classes(y, sizes):
    assert np.bincount(quantile_codes(y, 4)).tolist() == sizes


@pytest.mark.parametrize(
    "n, n_bins, sizes",
    [(4, 4, [2, 2]), (5, 4, [2, 3]), (9, 4, [2, 2, 2, 3]), (12, 10**6, [2] * 6)],
)
def test_a_class_of_one_point_joins_the_next(n, n_bins, sizes):
    y = np.random.default_rng(0).permutation(n) * 1.0
    codes = quantile_codes(y, n_bins)
    assert np.bincount(codes).tolist() == sizes
    assert np.all(np.diff(codes[np.argsort(y)]) >= 0)


@pytest.mark.parametrize("y", [[1.0, 2.0, 3.0], [1.0] * 6, [0.0, 0.0, 0.0, 5.0]])
def test_too_few_values_for_a_learner_are_named(y):
    with pytest.raises(ValueError, match=r"y .*two classes"):
        pm.KNeighborsRegressor(pm.LDA()).fit(np.eye(len(y)), y)
