"""What users hand in: both forms of pairs, and every refusal by name."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from probmetric.data.inputs import check_one_kind, pairs_from_arrays, real
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
    "one class": (X4, [1, 1, 1, 1], r"labels: expected at least 2 classes, got one"),
    "singletons": (X4, [0, 1, 2, 3], r"k: .* members"),
    "NaN": ([[0, np.nan], *X4[1:]], Y4, r"X: expected finite numbers, got NaN"),
    "inf": ([[0, np.inf], *X4[1:]], Y4, r"X: expected finite numbers"),
    "mixed kinds": (X4, [0, "a", 0, "a"], r"labels: expected one kind, got .*mixed"),
    "missing label": (
        X4,
        [0, None, 0, 1],
        r"labels: expected a label of every row.*row 1 ",
    ),
    "NaN label": (X4, [0, np.nan, 0, 1], r"labels: expected a label of every row"),
    "object": (X4, [(1,), (2,), (1,), (2,)], r"labels: expected"),
    "complex": (X4, np.array([1j, 2, 1j, 2]), r"labels: expected numbers or strings"),
    "length": (X4, [0, 0, 1], r"labels: expected one per row of X \(4\), got 3"),
    "label shape": (X4, [[0], [0], [1], [1]], r"labels: expected shape \(n,\)"),
    "empty": (np.zeros((0, 2)), [], r"X: expected shape"),
    "ndim": (np.zeros(4), Y4, r"X: expected shape \(n, d\)"),
    "text": ([["a", "b"]] * 4, Y4, r"X: expected numbers"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labeled_input_is_refused_by_name(name):
    X, labels, message = BAD_LABELS[name]
    with pytest.raises(ValueError, match=message):
        nearest_pairs(X, labels, 1, 1)


BAD_CALLS = {
    "k too large": (lambda: nearest_pairs(X4, Y4, 2), r"k: expected at most 1 .*got 2"),
    "m too large": (lambda: nearest_pairs(X4, Y4, 1, 3), r"m: expected at most 2"),
    "k zero": (lambda: nearest_pairs(X4, Y4, 0), r"k: expected a whole number"),
    "k bool": (lambda: impostor_pairs(X4, Y4, True), r"k: expected a whole number"),
    "impostor k": (lambda: impostor_pairs(X4, Y4, 2), r"k: expected at most 1"),
    "none": (lambda: impostor_pairs(X4, Y4, 1), r"labels: expected at least one imp"),
    "factor": (
        lambda: nearest_pairs(X4, Y4, 1, 1, np.eye(3)),
        r"factor: expected shape \(p, 2\), got \(3, 3\)",
    ),
    "no two": (lambda: all_pairs(X4[:2], [0, 1]), r"expected a class of two members"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_impossible_constructions_are_refused_by_name(name):
    call, message = BAD_CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()


BAD_PAIRS = {
    "one label": ((P3, [1, 1]), {}, r"y: expected pairs of both labels"),
    "mixed": ((np.zeros((3, 2, 1)), [1, 0, -1]), {}, r"y: expected pair labels all in"),
    "alien": ((P3, [1, 2]), {}, r"y: expected pair labels all in"),
    "text": ((P3, ["same", "not"]), {}, r"y: expected labels 0/1 or -1/\+1"),
    "length": ((P3, [1, 0, 1]), {}, r"y: expected shape \(2,\), got \(3,\)"),
    "shape": ((np.zeros((2, 3, 3)), [1, 0]), {}, r"pairs must have shape \(N, 2, d\)"),
    "no X": (([[0, 1], [1, 0]], [1, 0]), {}, r"pairs must have shape \(N, 2, d\)"),
    "both": ((P3, [1, 0]), {"X": X4}, r"rows of X, got \(2, 2, 3\)"),
    "range": (([[0, 1], [1, 4]], [1, 0]), {"X": X4}, r"pairs: expected rows 0..3"),
    "reals": (([[0.0, 1], [1, 2]], [1, 0]), {"X": X4}, r"pairs: expected integers"),
    "NaN": ((np.full((2, 2, 1), np.nan), [1, 0]), {}, r"pairs: expected finite"),
    "empty": ((np.zeros((0, 2, 3)), []), {}, r"pairs must have shape"),
    "ragged": (([[[0], [1, 2]]], [1]), {}, r"pairs: expected a regular array"),
    "weight": (
        (P3, [1, 0], [1, -1]),
        {},
        r"sample_weight: expected finite weights ≥ 0",
    ),
    "weights": (
        (P3, [1, 0], [1]),
        {},
        r"sample_weight: expected shape \(2,\), got \(1,\)",
    ),
    "zero": (
        (P3, [1, 0], [1, 0]),
        {},
        r"sample_weight: expected a positive weight on a pair with",
    ),
    "anchor": ((P3, [1, 0]), {"anchor": [0, -1]}, r"anchor: expected integers ≥ 0"),
}


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_bad_pairs_are_refused_by_name(name):
    arguments, options, message = BAD_PAIRS[name]
    with pytest.raises(ValueError, match=message):
        pairs_from_arrays(*arguments, **options)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        pd.Series(["a", pd.NA, "b"], dtype="category"),
        pd.Series([1, pd.NA, 2], dtype="Int64"),
        pd.Series([True, pd.NA, False], dtype="boolean"),
        np.array([1.0, np.nan, 2.0], object),
    ],
)
def test_a_missing_label_is_named(labels):
    row = r"^y: expected a label of every row.*row 1 \(rows are counted from 0\)"
    with pytest.raises(ValueError, match=row):
        check_one_kind(labels)


def test_a_sparse_matrix_is_named_with_the_remedy():
    untyped = real.__wrapped__  # As users call it, without the types of the tests.
    with pytest.raises(ValueError, match=r"^Q: .* got a sparse matrix; Q\.toarray\("):
        untyped(csr_matrix(X4), "Q")
