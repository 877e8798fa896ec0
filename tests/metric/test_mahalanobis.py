"""What every kind of metric promises, and what a Mahalanobis metric promises more."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.neighbors import NearestNeighbors

from probmetric.metric import Mahalanobis
from probmetric.neighbors import nearest
from tests.metric_kinds import NAMES, build

EPS = np.finfo(float).eps
every_kind = pytest.mark.parametrize("name", NAMES)
every_distance = pytest.mark.parametrize(
    "name", [name for name in NAMES if build(name).is_distance]
)


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(30, 3))


@every_kind
def test_a_kind_is_immutable(name):
    metric = build(name)
    with pytest.raises(FrozenInstanceError):
        setattr(metric, fields(metric)[0].name, None)


def test_a_factor_that_is_no_matrix_is_refused_by_name(unchecked):
    with pytest.raises(ValueError, match=r"^factor must be .* real numbers .*\(3,\)$"):
        Mahalanobis(np.ones(3)).transform(np.ones((2, 3)))


@pytest.mark.long
@every_kind
def test_pairwise_holds_the_dissimilarities_of_each_query(name, X):
    metric = build(name)
    rows = np.stack([metric.dissimilarity(q, X[4:10]) for q in X[:4]])
    found = metric.pairwise(X[:4], X[4:10])
    np.testing.assert_allclose(found, rows, rtol=1e-9, atol=1e-9)


@pytest.mark.long
@every_kind
def test_neighbors_are_those_of_a_full_sort(name, X):
    metric, k, X = build(name), 3, np.concatenate([X, X[::-1] + 0.1])
    # Six at a time, as other tests ask, so that jit is reused.
    parts = [[metric.dissimilarity(q, P) for q in X[:3]] for P in np.split(X, 10)]
    rows = np.concatenate(parts, 1)
    order = np.argsort(rows, 1, kind="stable")[:, :k]
    D, index = nearest(metric, X[:3], X, k, tile=32)
    np.testing.assert_array_equal(index, order)
    np.testing.assert_allclose(
        D, np.take_along_axis(rows, order, 1), rtol=1e-9, atol=1e-9
    )


@every_kind
def test_symmetry_is_as_declared(name, X):
    metric = build(name)
    if metric.symmetric:
        D = metric.pairwise(X[:6], X[:6])
        np.testing.assert_allclose(D, D.T, rtol=1e-12, atol=1e-12)
    else:
        assert not metric.is_distance


@every_distance
def test_equal_points_are_at_distance_zero(name, X):
    np.testing.assert_array_equal(build(name).distance(X[:4], X[:4]), 0.0)


@every_distance
def test_the_triangle_inequality_holds_in_all_triples(name, X):
    metric = build(name)
    n = len(X)
    i, j = np.divmod(np.arange(n * n), n)
    D = np.asarray(metric.distance(X[i], X[j])).reshape(n, n)
    excess = D[:, None, :] - (D[:, :, None] + D[None, :, :])
    assert excess.max() <= 100 * EPS * D.max()


# --- Mahalanobis, on numbers nobody chose ---------------------------------------------

number = st.floats(-1e3, 1e3, allow_subnormal=False, width=64)
factor = arrays(np.float64, (2, 3), elements=number)
three = arrays(np.float64, (3, 3), elements=number)
exhaust = settings(max_examples=20, deadline=None, derandomize=True, database=None)


def rounding(L, points):
    """Bound on the rounding of a distance: 64 eps ‖L‖ Σ‖x‖."""
    return 64 * EPS * np.linalg.norm(L) * np.linalg.norm(points, axis=1).sum()


@exhaust
@given(factor, three)
def test_the_distance_is_euclids_between_images(L, points):
    # NumPy's norm underflows for numbers whose squares are below 1e-308.
    L, points = (np.where(np.abs(a) < 1e-70, 0.0, a) for a in (L, points))
    metric, (a, b, _) = Mahalanobis(L), points[:, None]
    euclid = np.linalg.norm(metric.transform(a) - metric.transform(b), axis=-1)
    np.testing.assert_allclose(
        metric.distance(a, b), euclid, rtol=0, atol=rounding(L, points)
    )


@exhaust
@given(factor, arrays(np.float64, (12, 3), elements=number))
def test_neighbor_distances_are_scikit_learns(L, points):
    k = 4
    # Squares below 1e-308 are refused: tests/neighbors/test_range.py.
    L, points = (np.where(np.abs(a) < 1e-70, 0.0, a) for a in (L, points))
    D, _ = nearest(Mahalanobis(L), points, points, k)
    Z = points @ L.T
    # The tree takes differences; brute force would cancel for close points.
    far, _ = NearestNeighbors(algorithm="kd_tree").fit(Z).kneighbors(Z, k)
    np.testing.assert_allclose(np.sqrt(D), far, rtol=1e-9, atol=rounding(L, points))
