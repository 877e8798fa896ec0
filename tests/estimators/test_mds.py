"""``ClassicalMDS``: scikit-learn's conventions, its embedding, and bad input."""

import pickle
from functools import partial

import numpy as np
import pytest
import sklearn.manifold
from scipy.spatial.distance import cdist
from sklearn.datasets import load_wine

from probmetric.estimators.mds import ClassicalMDS
from probmetric.metric import Mahalanobis
from tests.dump import assert_refused

X = load_wine().data
X = (X - X.mean(0)) / X.std(0)
D = cdist(X, X)
ROUGH = D + np.abs(np.subtract.outer(np.sin(X[:, 0]), np.sin(X[:, 0])))


@pytest.mark.skipif(
    not hasattr(sklearn.manifold, "ClassicalMDS"), reason="scikit-learn has it from 1.8"
)
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("solver", ["eigh", "lanczos"])
def test_embedding_agrees_with_scikit_learn_sign_included(metric, solver):
    ours = ClassicalMDS(3, metric=metric, solver=solver).fit(X)
    theirs = sklearn.manifold.ClassicalMDS(n_components=3, metric=metric).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(ours.embedding_, theirs.embedding_, atol=1e-7)


def test_metric_of_ours_is_euclid_after_its_transform():
    L = np.random.default_rng(0).standard_normal((4, 13))
    ours = ClassicalMDS(metric=Mahalanobis(L)).fit(X)
    np.testing.assert_allclose(
        ours.embedding_, ClassicalMDS().fit_transform(X @ L.T), atol=1e-9
    )
    np.testing.assert_allclose(ours.transform(X), ours.embedding_, atol=1e-9)


@pytest.mark.parametrize("correction", [None, "lingoes", "cailliez"])
def test_transform_puts_known_objects_in_their_place(correction):
    fitted = ClassicalMDS(3, metric="precomputed", correction=correction).fit(ROUGH)
    np.testing.assert_allclose(fitted.transform(ROUGH), fitted.embedding_, atol=1e-8)


def test_linear_map_is_what_transform_does():
    fitted = ClassicalMDS().fit(X[:120])
    np.testing.assert_allclose(
        fitted.transform(X), (X - fitted.mean_) @ fitted.components_.T, atol=1e-10
    )


def test_metric_measures_distances_in_the_embedding():
    fitted = ClassicalMDS(metric=Mahalanobis(np.diag(np.arange(1.0, 14)))).fit(X)
    pairs = np.stack([X[:20], X[40:60]], 1)
    metric = pickle.loads(pickle.dumps(fitted.get_metric()))
    np.testing.assert_allclose(
        metric.distance(X[:20], X[40:60]), fitted.pair_distance(pairs), rtol=1e-9
    )
    np.testing.assert_allclose(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
    np.testing.assert_allclose(metric.matrix, fitted.get_mahalanobis_matrix())


def test_metric_is_refused_where_the_embedding_is_not_linear():
    with pytest.raises(ValueError, match="requires a Euclidean or Mahalanobis metric"):
        ClassicalMDS(metric="manhattan").fit(X).get_metric()


def test_negative_eigenvalues_are_reported_and_corrected():
    plain = ClassicalMDS(metric="precomputed").fit(ROUGH)
    assert plain.min_eigenvalue_ < 0
    assert 0 < plain.negative_share_ < 1
    assert plain.constant_ == 0
    fixed = ClassicalMDS(metric="precomputed", correction="lingoes").fit(ROUGH)
    np.testing.assert_allclose(fixed.constant_, -2 * plain.min_eigenvalue_, rtol=1e-9)


def changed(row, column, value, both=True):
    bad = D.copy()
    bad[row, column] = value
    if both:
        bad[column, row] = value
    return bad


BAD = {
    "missing": changed(1, 2, np.nan),
    "infinite": changed(1, 2, np.inf),
    "negative": changed(1, 2, -1.0),
    "one-sided": changed(1, 2, 99.0, both=False),
    "diagonal": changed(3, 3, 1.0),
    "not square": D[:, :50],
}


def test_bad_dissimilarities_are_refused():
    fit = ClassicalMDS(metric="precomputed").fit
    calls = {name: partial(fit, matrix) for name, matrix in BAD.items()}
    assert_refused(calls, "estimators/mds.txt")


class Divergence:
    """A comparison that is not symmetric."""

    is_distance = False
    symmetric = False

    def dissimilarity(self, q, Y):
        return np.sum(np.abs(Y - q), 1)

    def pairwise(self, Q, P):
        return cdist(Q, P)


SETTINGS = {
    "n_components": (179, "n_components must be at most 178"),
    "metric": (Divergence(), "metric must be a distance"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_bad_settings_are_refused_by_name(name):
    value, message = SETTINGS[name]
    with pytest.raises(ValueError, match=message):
        ClassicalMDS(**{name.strip(): value}).fit(X)
