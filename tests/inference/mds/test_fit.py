"""Classical MDS against golden vectors, brute force and scikit-learn."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from probmetric.data.containers import Distances
from probmetric.inference import mds
from probmetric.inference.mds.fit import additive_constant, to_metric

EPS = np.finfo(float).eps


@pytest.fixture(scope="module")
def planar():
    """Distances of 60 points in the plane, with unequal spread."""
    X = np.random.default_rng(3).standard_normal((60, 2)) * [3.0, 1.0]
    return X, cdist(X, X)


@pytest.fixture(scope="module")
def rough():
    """Dissimilarities that no points have: Euclid's plus symmetric noise."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((80, 6)) * np.arange(6, 0, -1)
    D = cdist(X, X) + 2 * rng.random((80, 80))
    D = (D + D.T) / 2
    np.fill_diagonal(D, 0)
    return D


def case(golden):
    entry = golden("mix_glml_dml")["p_cmds"]
    out = {k: np.asarray(v) for k, v in entry["out"].items()}
    return np.asarray(entry["in"]["D"]), entry["in"]["k"], out


def test_eigenvalues_and_embedded_distances_match_golden(golden):
    D, k, out = case(golden)
    params, values = mds.fit(Distances(D), k).params, out["eigenvalues_desc"]
    np.testing.assert_allclose(params.eigenvalues, values[:k], rtol=50 * EPS)
    np.testing.assert_allclose(params.min_eigenvalue, values[-1], rtol=50 * EPS)
    share = -values[values < 0].sum() / np.abs(values).sum()
    np.testing.assert_allclose(params.negative_share, share, rtol=100 * EPS)
    Q = params.embedding
    np.testing.assert_allclose(cdist(Q, Q), out["embedded_distances"], atol=1e-13)


@pytest.mark.parametrize(
    ("correction", "key"),
    [("lingoes", "lingoes_add_to_D2_offdiag"), ("cailliez", "cailliez_constant")],
)
def test_additive_constant_matches_golden(golden, correction, key):
    D, _, out = case(golden)
    np.testing.assert_allclose(additive_constant(D, correction), out[key], rtol=1e-13)


def test_no_correction_for_euclidean_distances(planar):
    assert additive_constant(planar[1], "lingoes") == 0.0
    assert additive_constant(planar[1], "cailliez") == 0.0


def test_self_terms_are_the_diagonal_of_the_centred_matrix(rough):
    n = len(rough)
    C = np.eye(n) - 1 / n
    M = -0.5 * C @ rough**2 @ C
    params = mds.fit(Distances(rough), 3).params
    np.testing.assert_allclose(params.self_terms, np.diag(M), rtol=1e-10)


def test_dimensions_without_a_positive_eigenvalue_are_zero(planar):
    params = mds.fit(Distances(planar[1]), 5).params
    assert np.all(params.embedding[:, 2:] == 0)
    assert np.all(params.eigenvalues[2:] == 0)
    assert np.all(params.coefficients[2:] == 0)


def test_identical_objects_have_a_zero_embedding():
    params = mds.fit(Distances(np.zeros((4, 4))), 2).params
    assert np.all(params.embedding == 0)
    assert params.negative_share == 0


def test_metric_of_profiles_is_distance_in_the_embedding(rough):
    params = mds.fit(Distances(rough), 3).params
    metric = to_metric(params)
    np.testing.assert_allclose(
        metric.pairwise(rough[:5] ** 2, rough**2),
        cdist(params.embedding[:5], params.embedding, "sqeuclidean"),
        atol=1e-9,
    )
