"""A Mahalanobis metric whose factor is no real matrix is refused by the name of it."""

import numpy as np
import pytest

import probmetric as pm

X = np.random.default_rng(0).normal(size=(5, 3))
METHODS = {
    "transform": lambda m: m.transform(X),
    "pairwise": lambda m: m.pairwise(X, X),
    "call": lambda m: m(X[0], X[1]),
    "matrix": lambda m: m.matrix,
    "nearest": lambda m: pm.nearest(m, X, X, 2),
}
FACTORS = {
    "vector": np.ones(3),
    "complex": np.eye(3) + 1j,
    "list": np.eye(3).tolist(),
    "none": None,
}


def holding(factor):
    """Return such a metric; the constructor is checked in tests, not for users."""
    metric = object.__new__(pm.Mahalanobis)
    vars(metric).update(factor=factor, link=None)
    return metric


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", FACTORS)
def test_a_factor_that_is_no_matrix_is_refused_by_name(method, factor):
    with pytest.raises(ValueError, match=r"^(factor|metric).*real numbers"):
        METHODS[method](holding(FACTORS[factor]))
