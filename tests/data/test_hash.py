"""An order of rows that shuffled rows and permuted columns do not change; ties."""

import numpy as np

from probmetric.data.hash import canonical_order

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
