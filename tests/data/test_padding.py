"""Rows added up to a size: what is there stays, and so does its dtype."""

import numpy as np
import pytest

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.padding import pad_labeled, pad_pairs, pad_rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_padding_adds_rows_of_the_fill_and_changes_nothing_else(dtype):
    rows = np.arange(6, dtype=dtype).reshape(3, 2)
    got = pad_rows(rows, 5, -1)
    np.testing.assert_array_equal(got[:3], rows)
    np.testing.assert_array_equal(got[3:], np.full((2, 2), -1))
    assert got.dtype == dtype


def test_padding_has_no_weight_and_leaves_the_weights_that_there_are():
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1, 0, 1])
    w = np.array([0.5, 2.0, 3.0])
    points = pad_labeled(Labeled(X, y, w))
    assert len(points.X) == len(points.y) == 512
    np.testing.assert_array_equal(points.w, np.append(w, np.zeros(509)))
    pairs = pad_pairs(Pairs(X, np.array([0, 0, 1]), np.array([1, 2, 2]), y, w))
    assert (len(pairs.X), len(pairs.i)) == (512, 1024)
    np.testing.assert_array_equal(pairs.w, np.append(w, np.zeros(1021)))
    assert (pairs.y.sum(), (pairs.y == 0).sum()) == (512, 512)
    np.testing.assert_array_equal(pad_pairs(pairs._replace(w=None)).w[:1024], 1)
