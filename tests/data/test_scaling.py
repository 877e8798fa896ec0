"""Scaling: what a constant column becomes, by definition."""

import tracemalloc

import numpy as np
import pytest

from probmetric.data.scaling import (
    constant_columns,
    standardize_features,
)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(30, 3))


def with_constant(X, value):
    return np.insert(X, 1, value, axis=1)


@pytest.mark.parametrize("value", [0.0, 7.3, -1e9])
def test_a_constant_column_is_kept_with_scale_1_and_named(X, value):
    with pytest.warns(UserWarning, match=r"constant columns \['b'\]\. They"):
        Z, scaler = standardize_features(with_constant(X, value), list("abcd"))
    assert scaler.scale[1] == 1
    np.testing.assert_array_equal(Z[:, 1], 0)
    others, alone = standardize_features(X)
    np.testing.assert_array_equal(np.delete(Z, 1, 1), others)
    np.testing.assert_array_equal(np.delete(scaler.scale, 1), alone.scale)


def test_a_column_constant_up_to_rounding_is_constant_and_one_beyond_is_not(X):
    rounded = 0.1 + np.linspace(0, 4, 30) * np.spacing(0.1)
    assert constant_columns(with_constant(X, rounded)).tolist() == [0, 1, 0, 0]
    assert not constant_columns(with_constant(X, 0.1 + 1e-13 * X[:, 0])).any()
    with pytest.warns(UserWarning, match=r"constant columns \[1\]"):
        Z, _ = standardize_features(with_constant(X, rounded))
    assert not Z[:, 1].any()


def test_standardizing_holds_the_result_and_little_more():
    X = np.random.default_rng(0).normal(size=(400_000, 8)) + 5
    tracemalloc.start()
    Z, scaler = standardize_features(X)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 1.7 * X.nbytes  # It was 2.25, and 3.3 of few rows.
    np.testing.assert_allclose(scaler.mean, X.mean(0), rtol=1e-12)
    np.testing.assert_allclose(scaler.scale, X.std(0), rtol=1e-12)
    np.testing.assert_allclose(Z[:9], ((X - X.mean(0)) / X.std(0))[:9], atol=1e-11)
