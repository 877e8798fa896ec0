"""The held-out table of the report: what is scored, and on what."""

import numpy as np
import pytest

from probmetric.evaluation.cross_validate import (
    _table,
    euclid,
    stratified_folds,
)


def test_held_out_errors_are_those_of_a_sum_over_points():
    worse, better = np.array([-1.0, -2.0, -4.0]), np.array([-1.0, -1.0, -1.5])
    table = _table({"worse": worse, "better": better})
    assert table.index.tolist() == ["better", "worse"]
    assert table["elpd"].tolist() == [-3.5, -7.0]
    # Variances of a point: 1/12 and 7/3; of the differences 0, 1 and 2.5: 19/12.
    np.testing.assert_allclose(table["se"], np.sqrt([3 / 12, 7]))
    assert table["elpd_diff"].tolist() == [0, 3.5]
    np.testing.assert_allclose(table["dse"], [0, np.sqrt(19 / 4)])


def test_euclid_standardizes_and_leaves_constant_columns():
    X = np.column_stack([np.arange(5.0), np.full(5, 3.0)])
    np.testing.assert_allclose(euclid(X).factor, np.diag([1 / X[:, 0].std(), 1]))


def test_folds_need_a_class_of_two_rows():
    """Single rows stay in training; if all are single, nothing can be held out."""
    folds = stratified_folds(np.array([0, 1, 0, 2]), 2, seed=0)
    assert sorted(np.concatenate([test for _, test in folds])) == [0, 2]
    assert all({1, 3} <= set(train) for train, _ in folds)
    with pytest.raises(ValueError, match=r"n_folds must be .* got 2"):
        stratified_folds(np.arange(3), 2, seed=0)
