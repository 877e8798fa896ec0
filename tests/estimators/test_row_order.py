"""Fits do not depend on the order of rows or columns, or on units of features."""

from functools import cache

import numpy as np
import pytest

import probmetric as pm

RNG = np.random.default_rng(7)
CENTERS = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.5, 0.0, 0.0], [0.0, 1.5, 2.0, 0.0]])
Y = np.repeat([0, 1, 2], [22, 16, 12])
# Rounded: distances tie, and some rows are equal, in one class or in two.
X = np.round(CENTERS[Y] + RNG.normal(size=(50, 4)) * [1.0, 0.7, 1.0, 2.0])
X[:3], X[22] = X[3], X[5]
QUERIES, UNITS = np.round(RNG.normal(size=(9, 4)), 1), np.ones(4)
ROWS, COLUMNS = RNG.permutation(50), np.array([2, 0, 3, 1])


def probabilities(model, columns):
    return model.predict_proba(QUERIES[:, columns])


def distances(model, columns):
    Q = QUERIES[:, columns]
    return model.get_metric().pairwise(Q, Q)


def same(model, columns):
    """New points, training rows (some equal rows have two labels), and both."""
    first = np.r_[QUERIES[:-1], X[:40] * UNITS, QUERIES][:, columns]
    second = np.r_[QUERIES[1:], X[10:] * UNITS, X[:9] * UNITS][:, columns]
    return model.same_probability(np.stack([first, second], 1))


LEARNERS = {
    "LDA": (lambda: pm.LDA(), [distances, same]),
    "PairLDA": (lambda: pm.PairLDA(), [distances, same]),
    "EigDML": (lambda: pm.EigDML(), [distances, same]),
    "LCA": (lambda: pm.LCA(), [distances, same]),
    "LCA cv": (lambda: pm.LCA(regularization="cv"), [distances]),
    "LCA rank": (lambda: pm.LCA("cv"), [distances]),
    "LCA impostors": (lambda: pm.LCA(pairs="impostors"), [distances, same]),
    "LCAClassifier": (lambda: pm.LCAClassifier(), [probabilities, same]),
    "GaussianClasses": (lambda: pm.GaussianClasses(), [probabilities, same]),
    "GLML": (lambda: pm.GLML(), [distances, probabilities, same]),
    "DCAGM": (lambda: pm.DCAGM(), [distances, probabilities, same]),
    "TwoStageMixture": (lambda: pm.TwoStageMixture(2), [distances]),
    "votes": (lambda: pm.KNeighborsClassifier(pm.LDA()), [probabilities]),
}


BY_FOLDS = "LCA cv", "LCA rank", "DCAGM", "GLML", "EigDML"
OTHERS = {
    "RCA": (lambda: pm.RCA(), [distances, same]),
    "HierarchicalLCA": (lambda: pm.HierarchicalLCA(spread=0.5), [distances]),
    "PointEffectsLCA": (lambda: pm.PointEffectsLCA(), [distances, same]),
    "TripletMetric": (lambda: pm.TripletMetric(), [distances]),
}


def cases(names):
    """Mark learners that choose by folds, which fit many times."""
    long = pytest.mark.long
    return [pytest.param(n, marks=long if n in BY_FOLDS else ()) for n in names]


@cache
def plain(name):
    return (LEARNERS | OTHERS)[name][0]().fit(X, Y)


@pytest.mark.filterwarnings("ignore:EigDML.*equal points")
@pytest.mark.parametrize("name", cases(LEARNERS | OTHERS))
def test_other_units_of_features_give_the_same_fit(name, monkeypatch):
    make, results = (LEARNERS | OTHERS)[name]
    wanted = [result(plain(name), np.arange(4)) for result in results]
    units = 2.0 ** np.array([10, -7, 0, 3])  # Powers of 2: no rounding breaks ties.
    moved = make().fit(X * units, Y)
    monkeypatch.setattr(f"{__name__}.QUERIES", QUERIES * units)
    monkeypatch.setattr(f"{__name__}.UNITS", units)
    for result, value in zip(results, wanted, strict=True):
        np.testing.assert_allclose(
            result(moved, np.arange(4)), value, rtol=1e-6, atol=1e-6
        )


@pytest.mark.filterwarnings("ignore:EigDML.*equal points")
@pytest.mark.parametrize("name", cases(LEARNERS))
def test_shuffled_rows_and_permuted_columns_give_the_same_fit(name):
    make, results = LEARNERS[name]
    every = np.arange(4)
    moved = make().fit(X[ROWS][:, COLUMNS], Y[ROWS])
    for result in results:
        np.testing.assert_allclose(
            result(moved, COLUMNS), result(plain(name), every), rtol=1e-6, atol=1e-6
        )
