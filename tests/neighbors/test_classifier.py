"""The classifier keeps scikit-learn's conventions and names what is wrong."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier as Reference
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from probmetric.metric import Mahalanobis
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.metric import PosteriorMetric
from tests.metric_kinds import build, build_euclid


@pytest.fixture
def blobs():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1, 2], 20)
    return rng.normal(size=(60, 3)) + 1.5 * np.eye(3)[y], y


@pytest.mark.long
@parametrize_with_checks(
    [KNeighborsClassifier(), KNeighborsClassifier(votes="count")],
    expected_failed_checks=lambda _: {
        "check_array_api_input": "needs SCIPY_ARRAY_API in the environment",
        "check_sample_weight_equivalence_on_dense_data": "scales and tuning count each "
        "row once",
    },
)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_kneighbors_gives_distances_not_squares(blobs):
    X, y = blobs
    ours = KNeighborsClassifier().fit(X, y).kneighbors(X[:5] + 0.1)
    theirs = Reference().fit(X, y).kneighbors(X[:5] + 0.1)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    np.testing.assert_array_equal(ours[1], theirs[1])


def test_kneighbors_uses_a_kinds_own_distance(blobs):
    X, y = (a[::2] for a in blobs)
    knn = KNeighborsClassifier(build("ClassDistribution"), votes="count").fit(X, y)
    D, index = knn.kneighbors(X[:2], 2)
    expected = knn.metric.distance(np.repeat(X[:2], 2, 0), X[index.ravel()])
    np.testing.assert_allclose(D.ravel(), expected, rtol=1e-9)


def test_kneighbors_without_queries_excludes_each_point_itself(blobs):
    X, y = blobs
    index = KNeighborsClassifier().fit(X, y).kneighbors(return_distance=False)
    assert (index != np.arange(len(X))[:, None]).all()


def test_it_abstains_below_the_threshold_and_only_there(blobs):
    X, y = blobs
    knn = KNeighborsClassifier(reject_below=0.9, reject_label=-1).fit(X, y)
    doubtful = knn.predict_proba(X).max(1) < 0.9
    assert 0 < doubtful.sum() < len(X)
    np.testing.assert_array_equal(knn.predict(X) == -1, doubtful)


@pytest.mark.parametrize("label", [None, 0, "no", [1]])
def test_a_reject_label_must_be_a_new_one_of_the_same_kind(blobs, label):
    knn = KNeighborsClassifier(reject_below=0.5, reject_label=label)
    with pytest.raises(ValueError, match="reject_label"):
        knn.fit(*blobs)


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(votes="hard"), "votes must be"),
        (dict(n_neighbors=0), "n_neighbors must be a whole"),
        (dict(n_neighbors=2.5), "n_neighbors must be a whole"),
        (dict(n_neighbors=61, votes="count"), "n_neighbors .*got 61"),
        (dict(bandwidth=0.0), "bandwidth must be"),
        (dict(bandwidth="auto"), "bandwidth must be"),
        (dict(prior_weight=1.0), "prior_weight must be"),
        (dict(prior_weight=np.nan), "prior_weight must be"),
        (dict(reject_below=1.5), "reject_below must be"),
        (dict(metric="euclidean"), "metric .*got str"),
        (dict(metric=build_euclid(2)), "X must have 2 features"),
    ],
)
def test_bad_arguments_are_named_at_fit(blobs, options, words):
    with pytest.raises(ValueError, match=words):
        KNeighborsClassifier(**options).fit(*blobs)


def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y = load_iris(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), KNeighborsClassifier())
    metrics = [None, Mahalanobis(np.array([[0.0, 0.0, 1.0, 1.0]]))]
    search = GridSearchCV(pipe, {"kneighborsclassifier__metric": metrics}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9


def test_clone_and_pickle_keep_the_metric(blobs):
    posterior = PosteriorMetric([build("Mahalanobis", s) for s in (0, 1)], "prediction")
    knn = KNeighborsClassifier(posterior).fit(*blobs)
    P = knn.predict_proba(blobs[0])
    again = clone(knn).fit(*blobs)
    np.testing.assert_array_equal(again.predict_proba(blobs[0]), P)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(knn)).predict_proba(blobs[0]), P
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, votes",
    [
        ("LocalFisher", "soft"),
        ("LocalMahalanobis", "count"),
        ("PairSimilarity", "soft"),
    ],
)
def test_kinds_that_are_no_distance_classify(blobs, kind, votes):
    X, y = (a[::2] for a in blobs)
    knn = KNeighborsClassifier(build(kind), votes=votes).fit(X, y)
    np.testing.assert_allclose(knn.predict_proba(X).sum(1), 1.0, rtol=1e-12)
