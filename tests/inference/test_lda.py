"""LDA and RCA against golden vectors, scikit-learn and the tied Gaussian model."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from probmetric.data.containers import Labeled
from probmetric.inference import lda
from probmetric.neighbors.strength import STRENGTHS, Chosen


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return Labeled((X - X.mean(0)) / X.std(0), y)


def case(golden):
    entry = golden("mix_glml_dml")["p_lda"]
    data = Labeled(np.asarray(entry["in"]["X"]), np.asarray(entry["in"]["y"]))
    return data, {k: np.asarray(v) for k, v in entry["out"].items()}


def test_eigenvalues_match_golden(golden):
    data, out = case(golden)
    np.testing.assert_allclose(
        lda.fit(data).params.eigenvalues, out["eigenvalues"], rtol=1e-13
    )


def test_class_mean_distances_match_golden(golden):
    data, out = case(golden)
    params = lda.fit(data).params
    Z = params.mean @ params.factor.T
    np.testing.assert_allclose(
        cdist(Z, Z, "sqeuclidean"), out["class_mean_sqdist_whitened"], rtol=1e-13
    )


@pytest.mark.parametrize("solver", ["eigen", "svd"])
def test_span_agrees_with_scikit_learn(wine, solver):
    theirs = LinearDiscriminantAnalysis(solver=solver).fit(wine.X, wine.y)
    ours = np.linalg.qr(lda.fit(wine).params.factor.T)[0]
    span = np.linalg.qr(theirs.scalings_[:, :2])[0]
    np.testing.assert_allclose(ours @ ours.T, span @ span.T, atol=1e-9)


def test_weights_repeat_points(wine):
    w = np.random.default_rng(0).integers(1, 4, len(wine.X))
    repeated = Labeled(np.repeat(wine.X, w, axis=0), np.repeat(wine.y, w))
    weighted = wine._replace(w=w.astype(float))
    np.testing.assert_allclose(
        lda.fit(repeated).params.factor, lda.fit(weighted).params.factor, rtol=1e-9
    )


def test_linear_map_of_the_inputs_changes_no_distance(wine):
    B = np.random.default_rng(1).standard_normal((13, 13))
    moved = wine._replace(X=wine.X @ B + 3.0)
    np.testing.assert_allclose(
        pdist(moved.X @ lda.fit(moved).params.factor.T),
        pdist(wine.X @ lda.fit(wine).params.factor.T),
        rtol=1e-8,
    )


def test_fewer_components_are_the_leading_ones(wine):
    np.testing.assert_allclose(
        lda.fit(wine, n_components=1).params.factor, lda.fit(wine).params.factor[:1]
    )


@pytest.mark.parametrize("k", [0, 3])
def test_more_components_than_classes_allow_are_refused(wine, k):
    with pytest.raises(
        ValueError, match=r"n_components must be from 1 to min\(C - 1, d\)"
    ):
        lda.fit(wine, n_components=k)


def test_singular_within_covariance_is_refused_and_a_prior_heals(wine):
    few = Labeled(wine.X[::20], wine.y[::20])
    with pytest.raises(ValueError, match=r"prior: .* singular"):
        lda.fit(few)
    prior = lda.shrinkage_prior(np.eye(13), 1.0)
    assert np.all(np.isfinite(lda.fit(few, prior).params.factor))


def test_empty_class_is_refused(wine):
    with pytest.raises(ValueError, match=r"y: .* class 1"):
        lda.fit(wine._replace(y=np.where(wine.y == 1, 3, wine.y)))


@pytest.mark.parametrize("step", [1, 20])
@pytest.mark.parametrize("how", [{}, {"n_components": 1}, {"chunks": True}])
def test_what_is_tried_in_folds_is_the_fit_of_a_fold(wine, monkeypatch, how, step):
    """One eigenproblem for all strengths gives what each gives by itself.

    Also in the span of nine points with 13 features, where the prior is isotropic.
    """
    wine = Labeled(wine.X[::step], wine.y[::step])
    A = np.random.default_rng(0).standard_normal((13, 13))
    T = np.eye(13) + 0.1 * A @ A.T
    found = []

    def kept(learn, *data, images):
        assert images
        found.append(learn)
        return Chosen(1.0, np.zeros(6), np.zeros(6))

    monkeypatch.setattr(lda, "choose_by_folds", kept)
    lda.choose_strength(wine, T, **how)
    rows = np.arange(0, len(wine.X) - 1)
    part = Labeled(wine.X[rows], wine.y[rows])
    for s, images in zip(STRENGTHS, found[0](rows), strict=True):
        prior = lda.shrinkage_prior(T, s)
        if how.get("chunks"):
            own = lda.whitening(lda.class_moments(part, prior)[2])
        elif np.isinf(s) and not how:
            own = lda.whole(part, prior).factor
        else:
            own = lda.fit(part, prior, how.get("n_components")).params.factor
        wanted = cdist(wine.X @ own.T, wine.X @ own.T, "sqeuclidean")
        found_now = cdist(images, images, "sqeuclidean")
        np.testing.assert_allclose(found_now, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("classes", [3, 20])
def test_all_directions_make_the_metric_of_rca(classes):
    rng = np.random.default_rng(0)
    data = Labeled(rng.standard_normal((60, 5)), np.arange(60) % classes)
    prior = lda.shrinkage_prior(np.eye(5), 3.0)
    params = lda.whole(data, prior)
    L = lda.whitening(params.within)
    np.testing.assert_allclose(params.factor.T @ params.factor, L.T @ L, atol=1e-12)
    some = lda.fit(data, prior).params
    k = len(some.factor)
    np.testing.assert_allclose(params.factor[:k], some.factor, rtol=1e-9)
    np.testing.assert_allclose(params.eigenvalues[:k], some.eigenvalues)
    np.testing.assert_allclose(params.eigenvalues[k:], 0, atol=1e-12)
