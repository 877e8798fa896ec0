"""Laplace's approximation of LCA refuses more components than features by name."""

import numpy as np
import pytest

from probmetric.data.pairs import all_pairs
from probmetric.inference.lca.laplace import laplace
from probmetric.inference.lca.statistics import prepare
from probmetric.models.lca import LCAParams, LCAPrior


def approximate(p, **options):
    rng = np.random.default_rng(0)
    pairs = all_pairs(rng.normal(size=(12, 2)), np.repeat([0, 1], 6))
    params = LCAParams(np.eye(p, 2) + 0.1, np.array(0.0))
    prior = LCAPrior(np.eye(p, 2), c=0.3, lam=50.0)
    return laplace(params, prepare(pairs), prior, **options)


def test_more_components_than_features_are_refused_by_name():
    with pytest.raises(ValueError, match=r"params must .* p = 3 .* d = 2"):
        approximate(3)


def test_as_many_components_as_features_are_accepted():
    assert approximate(2).root.shape == (5, 4)


def test_without_the_quotient_any_number_of_components_is_accepted():
    assert approximate(3, quotient=False).root.shape == (7, 7)
