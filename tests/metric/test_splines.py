"""I-splines and the city-block metric of them: by hand, ties, ends, files."""

import numpy as np
import pytest

from probmetric.metric import Link, SplineCityBlock
from probmetric.metric.splines import i_splines

KNOTS = np.array([[0.0, 1.0, 4.0], [-2.0, -2.0, 3.0], [5.0, 5.0, 5.0]])
METRIC = SplineCityBlock(KNOTS, np.array([[1.0, 0.5, 2.0], [3.0, 0.0, 1.0], [9, 9, 9]]))


def test_i_splines_are_areas_of_triangles_counted_by_many_small_steps():
    x = np.linspace(-3, 6, 9001)
    row = KNOTS[0]
    padded = np.concatenate([row[:1], row, row[-1:]])
    found = i_splines(x[:, None], row[None])[:, 0]
    for k in range(3):
        left, top, right = padded[k : k + 3]
        rise = np.where(top > left, (x - left) / max(top - left, 1e-300), 1.0)
        fall = np.where(right > top, (right - x) / max(right - top, 1e-300), 1.0)
        inside = (x >= left) & (x <= right)
        height = np.where(inside, np.minimum(rise, fall), 0.0) * 2 / (right - left)
        area = np.cumsum(height) * (x[1] - x[0])
        # Steps of h = 1e-3 under a height of at most 2: errors below 2h.
        np.testing.assert_allclose(found[:, k], area, atol=2e-3)


def test_they_rise_from_exactly_zero_to_one_and_stay_there():
    found = i_splines(np.array([[-1e9], [0.0], [4.0], [1e9]]), KNOTS[:1])[:, 0]
    np.testing.assert_array_equal(found[:2], 0)
    np.testing.assert_allclose(found[2:], 1, rtol=4e-16)


def test_triangles_without_width_are_left_out():
    X = np.array([[0.0, -2.0, 4.0], [0.0, 3.0, 6.0]])
    found = i_splines(X, KNOTS)
    np.testing.assert_array_equal(found[:, 2], 0)  # A constant covariate
    np.testing.assert_array_equal(found[:, 1, 0], 0)  # Its first two knots are one.
    np.testing.assert_allclose(found[1, 1, 1:], 1)


def test_distances_are_sums_of_differences_of_curves():
    A, B = np.array([[0.0, -2.0, 0.0]]), np.array([[4.0, 3.0, 99.0]])
    # Whole heights: 1 + ½ + 2 of the first, 0 + 1 of the second, none of the third.
    np.testing.assert_allclose(METRIC.distance(A, B), 4.5)
    np.testing.assert_allclose(METRIC.pairwise(A, B), [[4.5]])
    images = METRIC.transform(np.concatenate([A, B]))
    np.testing.assert_allclose(np.abs(images[1] - images[0]).sum(), 4.5)
    assert METRIC(A[0], B[0]) == pytest.approx(4.5)


def test_the_model_of_the_link_is_that_of_the_distance():
    linked = SplineCityBlock(KNOTS, METRIC.heights, Link(np.array(0.3), np.array(1.0)))
    A, B = np.array([[0.0, -2.0, 0.0]]), np.array([[4.0, 3.0, 99.0]])
    np.testing.assert_allclose(linked.same_probability(A, B), np.exp(-4.8))
    with pytest.raises(ValueError, match="this metric only has distances"):
        METRIC.same_probability(A, B)
