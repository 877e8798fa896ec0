"""What users hand in: both forms of pairs, and every refusal by name."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from probmetric.data.inputs import not_finite, pairs_from_arrays, real


@pytest.mark.parametrize("low", [0, -1])
def test_both_label_conventions_give_the_same_pairs(low):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(6, 2, 3))
    y = np.array([1, low, low, 1, 1, low])
    made = pairs_from_arrays(points, y)
    np.testing.assert_array_equal(made.y, [1, 0, 0, 1, 1, 0])
    np.testing.assert_array_equal(made.X[made.i], points[:, 0])
    np.testing.assert_array_equal(made.X[made.j], points[:, 1])


def test_index_pairs_equal_point_pairs():
    rng = np.random.default_rng(0)
    X, index, y = rng.normal(size=(5, 2)), [[0, 1], [2, 4], [3, 3]], [1, 0, 1]
    made, weight = pairs_from_arrays(index, y, [1, 2, 0.5], X=X), [1, 2, 0.5]
    np.testing.assert_array_equal(made.X[made.i], X[[0, 2, 3]])
    np.testing.assert_array_equal(made.X[made.j], X[[1, 4, 3]])
    np.testing.assert_array_equal(made.w, weight)


X4, Y4 = np.arange(8.0).reshape(4, 2), [0, 0, 1, 1]


def test_a_sparse_matrix_is_named_with_the_remedy():
    untyped = real.__wrapped__  # As users call it, without the types of the tests.
    with pytest.raises(
        ValueError, match=r"^Q must .* got a sparse matrix\. Use Q\.toarray\("
    ):
        untyped(csr_matrix(X4), "Q")


def test_rows_with_several_missing_entries_are_counted_once():
    X = np.ones((4, 3))
    X[1], X[3, 0] = np.nan, np.nan
    said = not_finite(X, missing=True)
    assert "got NaN in 2 of 4 rows, columns [0, 1, 2]." in said
