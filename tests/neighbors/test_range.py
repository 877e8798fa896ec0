"""Neighbors are those of exact arithmetic, or values out of range raise."""

import re

import numpy as np
import pytest

import probmetric as pm
from probmetric.evaluation.cross_validate import euclid
from probmetric.metric import LocalMahalanobis, Mahalanobis
from probmetric.metric.mean import MeanDissimilarity
from probmetric.neighbors.search import found_but_own
from probmetric.posterior.metric import PosteriorMetric
from tests.metric_kinds import NAMES, build, in_units
from tests.oracles import exact_square

rng = np.random.default_rng(0)
Y = np.arange(30) % 3
X = rng.normal(size=(30, 3)) + 0.8 * Y[:, None]
L = np.array([[1.0, 0.5, -0.25], [0.0, 2.0, 1.0], [0.3, -0.7, 1.5]])
WILD = np.where(np.arange(30)[:, None] == 7, [0.0, 1e308, 0.0], X)
UNITS = np.array([1e70, 1.0, 1e-70])


def exact_neighbors(factor, Q, P, k):
    """Sort by (square, index) in fractions."""
    rows = [[exact_square(factor, q, p) for p in P] for q in Q]
    return [sorted(range(len(P)), key=lambda j, r=r: (r[j], j))[:k] for r in rows]


LATTICE = rng.integers(-2, 3, (30, 3)).astype(float)  # Many ties.
CASES = {
    "scale 1": (L, X, X),
    "1e140": (L, X * 1e140, X * 1e140),
    "1e-140": (L, X * 1e-140, X * 1e-140),
    "a large metric": (L * 1e140, X, X),
    "a small metric": (L * 1e-140, X, X),
    "features in different units": (L / UNITS, X * UNITS, X * UNITS),
    "one feature 1e140": (L, X * [1e140, 1, 1], X * [1e140, 1, 1]),
    "ties at 2**-460": (np.eye(3), LATTICE * 2.0**-460, LATTICE * 2.0**-460),
    "ties at 2**460": (np.eye(3), LATTICE * 2.0**460, LATTICE * 2.0**460),
    "a flat metric": (np.eye(3)[:2] * 1e120, LATTICE, LATTICE),
}


@pytest.mark.parametrize("name", CASES)
def test_neighbors_are_those_of_exact_arithmetic(name):
    factor, Q, P = CASES[name]
    index = found_but_own(Mahalanobis(factor), Q, P, 4, None)[1]
    np.testing.assert_array_equal(index, exact_neighbors(factor, Q, P, 4))


BEYOND = {
    "points": (L, X, X * 1e150, "points: .*below 1e150"),
    "queries": (L, X * 1e160, X, "queries: .*below 1e150"),
    "one entry": (L, X, WILD, "points: .*below 1e150"),
    "a metric": (L * 1e150, X * 1e-100, X * 1e-100, "queries: .*below 1e150"),
    "small points": (L, X[:2] * 1e-170, X * 1e-170, "points: .*1e-150"),
    "a small metric": (L * 1e-170, X[:2] + 1, X, "points: .*1e-150"),
    "close pairs": (np.eye(3), X[:2] * 1e-180, X * 1e-180, "points: .*1e-150"),
}


@pytest.mark.parametrize("name", BEYOND)
def test_values_beyond_the_range_raise_by_name(name):
    factor, Q, P, message = BEYOND[name]
    with pytest.raises(ValueError, match=message):
        pm.nearest(Mahalanobis(factor), Q, P, 3)


def test_points_at_zero_from_each_other_are_no_underflow():
    P = np.repeat(X[:5], 2, 0) * 1e-100
    D, index = pm.nearest(Mahalanobis(L), P, P, 2)
    np.testing.assert_array_equal(D, 0)
    np.testing.assert_array_equal(index, np.arange(10).reshape(5, 2).repeat(2, 0))


def test_differences_in_the_null_space_of_a_metric_are_at_zero():
    """The first two features cancel; the third is 0 in the metric."""
    metric = Mahalanobis(np.array([[3.0, -3.0, 0.0]]))
    P = np.array([[0.0, 0.0, 0.0], [7e-200, 7e-200, 5.0], [1.0, 0.0, 0.0]])
    D, index = pm.nearest(metric, P[:1], P, 3)
    np.testing.assert_array_equal(D, [[0.0, 0.0, 9.0]])
    np.testing.assert_array_equal(index, [[0, 1, 2]])


def test_soft_votes_raise_for_queries_whose_squares_overflow():
    knn = pm.KNeighborsClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"X: .*below 1e150"):
        knn.predict_proba(X[:2] * 1e160)


SCALES = (1e-160, 1e-50, 1e50, 1e160)
KINDS = {name: build(name) for name in NAMES}
KINDS["a mean"] = MeanDissimilarity((build("LocalFisher"), build("LocalFisher", 1)))


def order_or_refusal(metric, scale):
    """Return the neighbors of points times a scale, or None if it is refused."""
    try:
        D, index = found_but_own(metric, X[:4] * scale, X * scale, 3, None)
    except ValueError as error:
        message = str(error)
    else:
        assert np.isfinite(D).all()
        return index
    # The message states the scale.
    assert re.search(r"largest entry (of (\w+ is )?)?\d\S*e[-+]\d", message)
    return None


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_kind_finds_the_same_neighbors_in_any_units_or_raises(name, scale):
    """The numbers in the metric are in the units of the points."""
    index = order_or_refusal(in_units(KINDS[name], scale), scale)
    if index is None:
        assert abs(np.log10(scale)) > 150
    else:
        np.testing.assert_array_equal(index, order_or_refusal(KINDS[name], 1.0))


@pytest.mark.parametrize("name", ["LocalMahalanobis", "LocalFisher"])
def test_local_metrics_raise_for_lost_squares(name):
    with pytest.raises(ValueError, match=r"points: .*1e-150"):
        pm.nearest(build(name), X[:4] * 1e-200, X * 1e-200, 3)


@pytest.mark.long
@pytest.mark.parametrize("rule", ["min_norm", "regularised", "fisher"])
def test_a_local_metric_refuses_queries_at_which_it_cannot_be_computed(rule):
    local = build("LocalMahalanobis")
    local = LocalMahalanobis(local.classes, local.frame, local.centre, rule=rule)
    assert np.isfinite(local.matrix_at(X[:2] * 1e70)).all()
    for call in (local.matrix_at, lambda Q: pm.nearest(local, Q, X, 2)):
        with pytest.raises(ValueError, match=r"below 1e75"):
            call(X[:2] * 1e80)


@pytest.mark.parametrize("method", ["pairwise", "pair_draws"])
def test_draws_refuse_infinite_answers(method):
    draws = PosteriorMetric([Mahalanobis(L), Mahalanobis(L * 1e200)], "prediction")
    far = X * (1e160 if method == "pairwise" else 1e200)
    with pytest.raises(ValueError, match="the result is not finite in float64"):
        getattr(draws, method)(far, far[::-1])


def test_a_metric_with_nan_is_blamed_itself():
    with pytest.raises(ValueError, match=r"metric.factor must be finite, got NaN"):
        pm.nearest(Mahalanobis(L * np.nan), X, X, 2)


def test_euclid_of_the_report_refuses_columns_it_cannot_standardize():
    for factor in (1e-310, 1e160):
        with pytest.raises(ValueError, match=r"X.*columns"):
            euclid(X * np.array([factor, 1.0, 1.0]))
