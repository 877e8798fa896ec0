"""A metric learned inside ``fit``: nothing of a held-out fold reaches it."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import probmetric as pm
from probmetric.metric import Mahalanobis
from tests.metric_kinds import build_euclid

WINE = load_wine(return_X_y=True)
IRIS = load_iris(return_X_y=True)
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


SETTING = {None: "prior_strength", "prediction": "regularization"}


def learner(draws, value):
    if draws is None:
        return pm.LDA(**{SETTING[draws]: value})
    return pm.LCA(6, **{SETTING[draws]: value})


def by_hand(draws, k, value, train, test, X, y):
    """Learn, draw, vote and score without the estimator's own learning."""
    fitted = learner(draws, value).fit(X[train], y[train])
    near = fitted.get_metric() if draws is None else fitted.posterior_metric(draws)
    knn = pm.KNeighborsClassifier(near, k).fit(X[train], y[train])
    return knn.score(X[test], y[test])


@pytest.mark.long
@pytest.mark.parametrize(
    "every, draws",
    [(1, None), pytest.param(2, "prediction", marks=pytest.mark.study)],
)
def test_nested_cross_validation_is_the_hand_written_loop_exactly(every, draws):
    X, y = (a[::every] for a in WINE)
    values = [0.3, 30.0]
    grid = {"n_neighbors": [3, 7], f"metric__{SETTING[draws]}": values}
    model = pm.KNeighborsClassifier(learner(draws, 1.0), draws=draws)
    found = cross_val_score(GridSearchCV(model, grid, cv=2), X, y, cv=FOLDS)
    # The order of scikit-learn's grid: names sorted, the last varies fastest.
    tried = [(k, value) for value in values for k in grid["n_neighbors"]]
    expected = []
    for train, test in FOLDS.split(X, y):
        halves = StratifiedKFold(2).split(train, y[train])
        inner = [(train[a], train[b]) for a, b in halves]
        means = [
            np.mean([by_hand(draws, *each, a, b, X, y) for a, b in inner])
            for each in tried
        ]
        best = tried[int(np.argmax(means))]
        expected.append(by_hand(draws, *best, train, test, X, y))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.long
def test_draws_learned_in_each_fold_are_the_hand_written_loop():
    X, y = (a[::3] for a in IRIS)
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    lca = partial(pm.LCA, 2, regularization=3.0)
    model = pm.KNeighborsClassifier(lca(), draws="prediction")
    found = cross_val_score(model, X, y, cv=folds)
    expected = []
    for train, test in folds.split(X, y):
        near = lca().fit(X[train], y[train]).posterior_metric("prediction")
        knn = pm.KNeighborsClassifier(near).fit(X[train], y[train])
        expected.append(knn.score(X[test], y[test]))
    np.testing.assert_array_equal(found, expected)


def test_a_learner_is_cloned_and_sees_only_the_points_of_the_fit():
    X, y = WINE
    lda = pm.LDA()
    knn = pm.KNeighborsClassifier(lda).fit(X[::2], y[::2])
    assert not hasattr(lda, "components_")
    alone = pm.KNeighborsClassifier(pm.LDA().fit(X[::2], y[::2]).get_metric())
    np.testing.assert_array_equal(
        knn.predict_proba(X), alone.fit(X[::2], y[::2]).predict_proba(X)
    )
    assert knn.learner_.n_features_in_ == 13
    assert alone.learner_ is None
    assert isinstance(knn.metric_, Mahalanobis)
    clone(knn).fit(X, y)  # A fitted learner is a learner: it is fitted again.


@pytest.mark.long
@pytest.mark.parametrize("learner", [pm.TwoStageMixture(1), pm.RCA(), pm.LCA()])
def test_any_learner_of_one_metric_serves_also_in_a_pipeline(learner):
    model = make_pipeline(StandardScaler(), pm.KNeighborsClassifier(learner))
    assert cross_val_score(model, *IRIS, cv=3, error_score="raise").mean() > 0.9


def test_scoring_the_points_that_were_learned_from_warns():
    X, y = IRIS
    knn = pm.KNeighborsClassifier(pm.LDA()).fit(X[::2], y[::2])
    with pytest.warns(UserWarning, match=r"score: .* 75 rows"):
        knn.score(X[::2], y[::2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knn.score(X[1::2], y[1::2])  # One point of them has a twin in the others.
        pm.KNeighborsClassifier().fit(X, y).score(X, y)


@pytest.mark.filterwarnings("error")
def test_equal_answers_of_different_people_are_no_leakage():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    answers = (rng.random((60, 3)) < 0.3 + 0.4 * y[:, None]).astype(float)
    knn = pm.KNeighborsClassifier(pm.LDA(prior_strength=1.0))
    cross_val_score(knn, answers, y, cv=5)


@pytest.mark.parametrize(
    "options, words",
    [
        (
            dict(metric=pm.PairLDA(), draws="prediction"),
            "draws .*PairLDA.*, got 'prediction'",
        ),
        (dict(metric=pm.LCA(), draws="posterior"), "draws must be one of 'predict"),
        (dict(metric=build_euclid(4), draws="prediction"), "draws .*got 'prediction'"),
        (dict(draws="prediction"), "draws .*got 'prediction'"),
        (dict(metric=pm.GaussianClasses()), "metric .*, got Gaussian"),
        (dict(metric=pm.LCAClassifier()), "metric .*, got LCAClass"),
        (dict(metric=pm.LDA), "a learner or None, got ABCMeta|got type"),
    ],
)
def test_what_cannot_be_learned_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        pm.KNeighborsClassifier(**options).fit(*IRIS)
