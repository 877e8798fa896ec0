"""Simultaneous bands: how many whole curves they hold, and joined bins."""

import numpy as np
import pytest

from probmetric.posterior.bands import band, deviation

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


def test_a_bin_that_never_varies_counts_only_where_it_is_missed():
    curves = np.column_stack([np.zeros(50), RNG.normal(size=50)])
    low, high = band(curves, 0.9)
    assert low[0] == high[0] == 0
    sd = curves.std(0)
    assert deviation(np.array([0.0, 0.0]), curves.mean(0), sd) < 1
    assert deviation(np.array([0.1, 0.0]), curves.mean(0), sd) > 1e6
