"""Simultaneous bands: how many whole curves they hold, and joined bins."""

import numpy as np
import pytest

from probmetric.posterior.bands import band, binned, deviation, merged

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("prob", [0.5, 0.9])
def test_a_band_holds_that_share_of_new_curves_whole(prob):
    scale = np.array([1.0, 5.0, 0.1, 2.0, 1.0])
    curves, fresh = (RNG.normal(size=(4000, 5)) * scale + scale for _ in range(2))
    low, high = band(curves, prob)
    inside = np.all((fresh >= low) & (fresh <= high), 1).mean()
    assert abs(inside - prob) < 4 * np.sqrt(prob * (1 - prob) / 2000)
    # Each bin alone holds more: a band of pointwise limits would hold fewer whole.
    pointwise = np.quantile(curves, [(1 - prob) / 2, (1 + prob) / 2], axis=0)
    assert np.all(high - low > pointwise[1] - pointwise[0])


def test_the_deviation_is_that_of_the_worst_bin():
    got = deviation(np.array([[1.0, 2.0], [0.0, -9.0]]), np.ones(2), np.array([1, 2.0]))
    np.testing.assert_allclose(got, [0.5, 5.0])


def test_a_bin_that_never_varies_counts_only_where_it_is_missed():
    curves = np.column_stack([np.zeros(50), RNG.normal(size=50)])
    low, high = band(curves, 0.9)
    assert low[0] == high[0] == 0
    sd = curves.std(0)
    assert deviation(np.array([0.0, 0.0]), curves.mean(0), sd) < 1
    assert deviation(np.array([0.1, 0.0]), curves.mean(0), sd) > 1e6


def test_bins_have_equal_counts_and_their_own_means():
    values = RNG.permutation(100).astype(float)
    which, centres = binned(values, 4)
    assert list(np.bincount(which)) == [25] * 4
    np.testing.assert_allclose(centres, [12, 37, 62, 87])


def test_bins_are_joined_until_each_column_suffices():
    which = np.repeat(np.arange(5), 10)
    size = np.stack([np.repeat([0.05, 0.05, 0.3, 1, 0.1], 10), np.ones(50)], 1)
    # 0.5 + 0.5 + 3 reach 2 together; 10 alone; the last 1 joins those.
    assert list(merged(which, size, 2.0)[::10]) == [0, 0, 0, 1, 1]
    assert set(merged(which, size, 1e9)) == {0}


def test_a_value_at_an_inner_edge_belongs_to_the_bin_above():
    which, centers = binned(np.array([4.0, 0, 2, 1, 3]), 2)  # Edges 0, 2, 4.
    assert which.tolist() == [1, 0, 1, 0, 1]
    assert centers.tolist() == [0.5, 3.0]


def test_a_band_lies_about_the_mean_of_skewed_replicates():
    replicates = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [8.0, 0.0]])
    low, high = band(replicates, 1.0)  # Means 2 and 1, variances 12 and 1/2.
    np.testing.assert_allclose(low, [2 - 6, 1 - np.sqrt(3 / 2)])
    np.testing.assert_allclose(high, [2 + 6, 1 + np.sqrt(3 / 2)])


def test_a_bin_is_full_at_the_least_sum_itself():
    assert merged(np.arange(4), np.full((4, 1), 2.0), 2.0).tolist() == [0, 1, 2, 3]
