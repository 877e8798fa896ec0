"""What users hand in: both forms of pairs, and every refusal by name."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from probmetric.data.inputs import not_finite, pairs_from_arrays, real
from probmetric.data.pairs import all_pairs, impostor_pairs, nearest_pairs


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
P3 = np.zeros((2, 2, 3))
BAD_LABELS = {
    "one class": (X4, [1, 1, 1, 1], r"labels must have at least 2 classes, got one"),
    "singletons": (X4, [0, 1, 2, 3], r"k must .* members"),
    "NaN": ([[0, np.nan], *X4[1:]], Y4, r"X must be finite numbers, got NaN"),
    "mixed kinds": (
        X4,
        [0, "a", 0, "a"],
        r"labels must be all numbers or all text, got ",
    ),
    "missing label": (
        X4,
        [0, None, 0, 1],
        r"labels must have a label in every row.*row 1 ",
    ),
    "length": (X4, [0, 0, 1], r"labels must have one entry per row of X \(4\), got 3"),
    "ndim": (np.zeros(4), Y4, r"X must have shape \(n, d\)"),
    "text": ([["a", "b"]] * 4, Y4, r"X must be numbers"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labeled_input_is_refused_by_name(name):
    X, labels, message = BAD_LABELS[name]
    with pytest.raises(ValueError, match=message):
        nearest_pairs(X, labels, 1, 1)


BAD_CALLS = {
    "k too large": (lambda: nearest_pairs(X4, Y4, 2), r"k must be at most 1 .*got 2"),
    "m too large": (lambda: nearest_pairs(X4, Y4, 1, 3), r"m must be at most 2"),
    "none": (lambda: impostor_pairs(X4, Y4, 1), r"labels must have impostors"),
    "factor": (
        lambda: nearest_pairs(X4, Y4, 1, 1, np.eye(3)),
        r"factor must have shape \(p, 2\), got \(3, 3\)",
    ),
    "no two": (
        lambda: all_pairs(X4[:2], [0, 1]),
        r"labels must have a class with at least two",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_impossible_constructions_are_refused_by_name(name):
    call, message = BAD_CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()


BAD_PAIRS = {
    "one label": ((P3, [1, 1]), {}, r"y must have both labels"),
    "mixed": ((np.zeros((3, 2, 1)), [1, 0, -1]), {}, r"y must be pair labels all in"),
    "length": ((P3, [1, 0, 1]), {}, r"y must have shape \(2,\), got \(3,\)"),
    "shape": ((np.zeros((2, 3, 3)), [1, 0]), {}, r"pairs must have shape \(N, 2, d\)"),
    "both": ((P3, [1, 0]), {"X": X4}, r"row numbers of X per pair, got \(2, 2, 3\)"),
    "range": (([[0, 1], [1, 4]], [1, 0]), {"X": X4}, r"pairs must be row numbers of X"),
    "reals": (([[0.0, 1], [1, 2]], [1, 0]), {"X": X4}, r"pairs must be integer row"),
    "ragged": (([[[0], [1, 2]]], [1]), {}, r"pairs must have rows of equal length"),
    "weight": (
        (P3, [1, 0], [1, -1]),
        {},
        r"sample_weight must be finite weights ≥ 0",
    ),
    "zero": (
        (P3, [1, 0], [1, 0]),
        {},
        r"sample_weight must have a weight above 0 for at least one pair",
    ),
    "anchor": ((P3, [1, 0]), {"anchor": [0, -1]}, r"anchor must be integers ≥ 0"),
}


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_bad_pairs_are_refused_by_name(name):
    arguments, options, message = BAD_PAIRS[name]
    with pytest.raises(ValueError, match=message):
        pairs_from_arrays(*arguments, **options)


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
