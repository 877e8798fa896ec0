"""Whole numbers are points like others: every kind answers as for the same floats.

The annotations that are checked in tests ask for floats, and are left alone here.
Differences of uint8 are modulo 256, and products of int8 overflow, where code forgets.
"""

import numpy as np
import pytest

import probmetric as pm
from probmetric.metric.mean import MeanDissimilarity
from probmetric.posterior.metric import PosteriorMetric
from tests.metric_kinds import NAMES, D, build, in_units

DTYPES = ("int64", "int8", "uint8", "bool")
KINDS = (*NAMES, "MeanDissimilarity", "PosteriorMetric")
METHODS = ("dissimilarity", "pairwise", "distance", "same_probability", "pair_score")
METHODS += ("transform", "matrix_at", "log_probability", "log_marginal", "pair_draws")
METHODS += ("interval", "neighbor_probability", "closer_probability", "refine")


def points(dtype):
    """Return points from one end of the type to the other."""
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random((10, D)) < 0.5
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -300), min(info.max, 300), (10, D), dtype, True)


def kind(name):
    """Return a metric of a kind, in units in which such points are some 1 apart."""
    if name in NAMES:
        return in_units(build(name), 100.0)
    if name == "MeanDissimilarity":
        draws = (build("LocalFisher"), build("LocalFisher", 1))
        return in_units(MeanDissimilarity(draws), 100.0)
    draws = [in_units(build("Mahalanobis", seed), 100.0) for seed in (0, 1)]
    return PosteriorMetric(draws, "intervals", pairs_independent=True)


def answer(metric, asked, X):
    """Return the values of a method, or of a search under the metric."""
    Q, P = X[:4], X[4:]
    calls = {
        "nearest": lambda: pm.nearest(metric, Q, P, 3),
        "call": lambda: metric(Q[0], P[0]),
        "dissimilarity": lambda: metric.dissimilarity(Q[0], P),
        "closer_probability": lambda: metric.closer_probability(Q, P[:4], P[3::-1]),
        "neighbor_probability": lambda: metric.neighbor_probability(Q, P, 2),
        "refine": lambda: metric.refine(Q, P, np.arange(2, 6)[:, None]),
        "pairwise": lambda: metric.pairwise(Q, P),
    }
    rows = {"transform", "matrix_at", "log_probability", "log_marginal"}
    pairs = (Q,) if asked in rows else (Q, P[:4])
    found = calls.get(asked, lambda: getattr(metric, asked)(*pairs))()
    return np.concatenate([np.ravel(part) for part in np.atleast_1d(found)])


def asked_of(name):
    """Return what can be asked of a kind."""
    metric = kind(name)
    methods = [method for method in METHODS if hasattr(metric, method)]
    return methods if name == "PosteriorMetric" else ["nearest", "call", *methods]


@pytest.mark.long
@pytest.mark.parametrize("name, asked", [(n, a) for n in KINDS for a in asked_of(n)])
def test_whole_numbers_are_answered_as_the_same_floats(unchecked, name, asked):
    for dtype in DTYPES:
        X = points(dtype)
        whole, floats = (answer(kind(name), asked, A) for A in (X, X * 1.0))
        assert np.isfinite(floats).all()
        assert np.ptp(floats) > 0 or asked == "call"
        np.testing.assert_array_equal(whole, floats, dtype)
