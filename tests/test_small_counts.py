"""Counts of NumPy's small integer types are the numbers that they stand for."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.arguments import check_count, check_counts, check_number

pytestmark = pytest.mark.usefixtures("unchecked")
SMALL = pytest.mark.parametrize("small", [np.int8, np.uint8])
LINE = np.arange(130.0)[:, None]
EUCLID = pm.Mahalanobis(np.eye(1))


@SMALL
def test_checked_counts_are_python_integers(small):
    found = (
        check_number("n", small(100), 1, whole=True),
        check_count("n", small(100), 127, "why"),
    )
    assert [type(n) for n in (*found, *check_counts(n=small(100)))] == [int] * 3


@SMALL
def test_nearest_returns_100_of_130_points_on_a_line(small):
    _, index = pm.nearest(EUCLID, [[-1.0]], LINE, small(100))
    assert index.tolist() == [list(range(100))]
