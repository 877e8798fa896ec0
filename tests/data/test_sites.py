"""Pairs of sites: indices of Sørensen and of Bray and Curtis; what is refused."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from probmetric.data import site_pairs

X = np.arange(8.0)[:, None]


@pytest.mark.parametrize("index", ["dice", "braycurtis"])
def test_dissimilarities_are_those_of_scipy(index):
    rng = np.random.default_rng(0)
    table = rng.poisson(1.5, size=(8, 12)) + (np.arange(12) == 0)
    table = (table > 1).astype(int) + (np.arange(12) == 0) if index == "dice" else table
    table = np.minimum(table, 1) if index == "dice" else table
    pairs = site_pairs(X, table)
    given = table.astype(bool) if index == "dice" else table
    np.testing.assert_allclose(1 - pairs.y / pairs.trials, pdist(given, index))
    assert pairs.trials[0] == table[0].sum() + table[1].sum()


def test_cover_counts_each_pair_once():
    table = np.random.default_rng(0).random((8, 5))
    pairs = site_pairs(X, table, measure="cover")
    np.testing.assert_allclose(pairs.w * pairs.trials, 1)
    got = 1 - pairs.y / pairs.trials
    np.testing.assert_allclose(got, pdist(table, "braycurtis"), atol=1e-6)
    with pytest.raises(ValueError, match=r"measure must be one of .*got 'biomass'"):
        site_pairs(X, table, measure="biomass")
