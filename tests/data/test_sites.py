"""Pairs of sites: indices of Sørensen and of Bray and Curtis; what is refused."""

import numpy as np
from scipy.spatial.distance import pdist

from probmetric.data import site_pairs

X = np.arange(8.0)[:, None]


def test_dissimilarities_of_presences_are_those_of_scipy():
    rng = np.random.default_rng(0)
    table = rng.poisson(1.5, size=(8, 12)) + (np.arange(12) == 0)
    pairs = site_pairs(X, table, measure="presence")
    np.testing.assert_allclose(1 - pairs.y / pairs.trials, pdist(table > 0, "dice"))


def test_cover_counts_each_pair_once():
    table = np.random.default_rng(0).random((8, 5))
    pairs = site_pairs(X, table, measure="cover")
    np.testing.assert_allclose(pairs.w * pairs.trials, 1)
    got = 1 - pairs.y / pairs.trials
    np.testing.assert_allclose(got, pdist(table, "braycurtis"), atol=1e-6)
