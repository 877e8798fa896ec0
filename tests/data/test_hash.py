"""An order of rows that shuffled rows and permuted columns do not change; ties."""

import numpy as np

from probmetric.data.hash import canonical_order, first_best
from probmetric.data.pairs import smallest

RNG = np.random.default_rng(1)


def test_order_of_tied_rows_depends_only_on_the_set_of_rows():
    X = RNG.integers(0, 3, size=(60, 4)).astype(float)
    y = RNG.integers(0, 3, size=60)
    expected = np.column_stack([X, y])[canonical_order(X, y)]
    for _ in range(5):
        rows, columns = RNG.permutation(60), RNG.permutation(4)
        order = canonical_order(X[rows][:, columns], y[rows])
        np.testing.assert_array_equal(np.column_stack([X, y])[rows][order], expected)


def test_order_does_not_depend_on_units_names_of_classes_or_rounding():
    X = RNG.normal(size=(40, 3)).round(1)
    X[4, 1] = np.nan
    y = np.repeat([0, 1], [25, 15])
    changed = (X - [5.0, 1e3, 0.1]) / [3.0, 7.0, 1e-3]
    changed *= 1 + 1e-15 * RNG.normal(size=X.shape)
    np.testing.assert_array_equal(
        X[canonical_order(changed, 1 - y)], X[canonical_order(X, y)]
    )


def test_squared_distances_that_differ_by_rounding_tie_and_the_first_column_wins():
    e = 1e-13
    D = np.array([[9.0, 4.0 + e, 1.0, 4.0, 4.0 - e], [1.0, 1e-33, 0.0, 5.0, 5.0]])
    assert smallest(D, 2).tolist() == [[2, 1], [1, 2]]
    assert smallest(D, 4).tolist() == [[2, 1, 3, 4], [1, 2, 0, 3]]


def test_the_first_of_scores_that_differ_by_rounding_is_best():
    assert first_best(np.array([0.0, -1.0 + 1e-13, -1.0, np.nan])) == 0
    assert first_best(np.array([[-3.0, -2.0], [-2.0 + 1e-13, -np.inf]])) == 1
    assert first_best(np.array([-np.inf, -np.inf])) == 0
