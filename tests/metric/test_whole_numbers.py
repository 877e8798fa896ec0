"""Whole numbers are points like others: every kind answers as for the same floats.

In a process of its own: the annotations that are checked in tests ask for floats.
Differences of uint8 are modulo 256, and products of int8 overflow, where code forgets.
"""

import json
import subprocess
import sys

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
METHODS += ("neighbor_probability", "closer_probability", "refine")
SEARCHES = ("nearest", "kneighbors", "predict_proba", "call")


def points(dtype):
    """Return points from one end of the type to the other."""
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random((12, D)) < 0.5
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -300), min(info.max, 300), (12, D), dtype, True)


def kind(name):
    """Return a metric of a kind, in units in which such points are some 1 apart."""
    if name in NAMES:
        return in_units(build(name), 100.0)
    draws = [in_units(build("Mahalanobis", seed), 100.0) for seed in (0, 1)]
    if name == "MeanDissimilarity":
        return MeanDissimilarity(tuple(draws))
    return PosteriorMetric(draws, "intervals", source="bootstrap")


def answer(metric, asked, X):
    """Return what a metric, or a search under it, says of points."""
    Q, P = X[:4], X[4:]
    knn = pm.KNeighborsClassifier(metric, n_neighbors=2)
    calls = {
        "nearest": lambda: pm.nearest(metric, Q, P, 3),
        "kneighbors": lambda: knn.fit(P, np.arange(8) % 2).kneighbors(Q),
        "predict_proba": lambda: knn.fit(P, np.arange(8) % 2).predict_proba(Q),
        "call": lambda: metric(Q[0], P[0]),
        "dissimilarity": lambda: metric.dissimilarity(Q[0], P),
        "closer_probability": lambda: metric.closer_probability(Q, P[:4], P[4:]),
        "neighbor_probability": lambda: metric.neighbor_probability(Q, P, 2),
        "refine": lambda: metric.refine(Q, P, np.arange(8).reshape(4, 2)),
        "pairwise": lambda: metric.pairwise(Q, P),
    }
    rows = {"transform", "matrix_at", "log_probability", "log_marginal"}
    pairs = (Q,) if asked in rows else (Q, P[:4])
    found = calls.get(asked, lambda: getattr(metric, asked)(*pairs))()
    return np.concatenate([np.ravel(part) for part in np.atleast_1d(found)])


def asked_of(name):
    """Return what can be asked of a kind."""
    metric = kind(name)
    searches = SEARCHES[1:] if name == "PosteriorMetric" else SEARCHES
    methods = [method for method in METHODS if hasattr(metric, method)]
    return [s for s in searches if s != "call" or callable(metric)] + methods


def differences():
    """Return the largest difference between whole numbers and the same floats."""
    found = {}
    for name in KINDS:
        for dtype in DTYPES:
            X = points(dtype)
            for asked in asked_of(name):
                whole, floats = (answer(kind(name), asked, A) for A in (X, X * 1.0))
                assert np.ptp(floats) > 0 or asked == "call"
                found[f"{name} {asked} {dtype}"] = float(np.abs(whole - floats).max())
    return found


@pytest.fixture(scope="module")
def found():
    """Ask every kind, in a process without checks of annotations."""
    code = (
        "import json; from tests.metric.test_whole_numbers import differences; "
        "print(json.dumps(differences()))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    "question", [f"{name} {asked}" for name in KINDS for asked in asked_of(name)]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_numbers_are_answered_as_the_same_floats(found, question, dtype):
    assert found[f"{question} {dtype}"] == 0


def test_the_points_would_show_a_wrap_around():
    """Negative control: plain differences of these points are not those of floats."""
    for dtype in ("int8", "uint8"):
        X = points(dtype)
        with np.errstate(over="ignore"):
            assert (X[:4] - X[4:8] != X[:4] * 1.0 - X[4:8]).any()
