"""Random small inputs: a finite result of the right shape, or one clear error.

Hypothesis draws a unit of the data, a fault or none, and a container; few shapes are
used, so that compiled programs are shared. The draws are the same in every run.
"""

import re
import traceback
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import probmetric as pm
from tests.learners import ESTIMATORS
from tests.metric_kinds import NAMES, D, build

N = 24
RANDOM = settings(
    max_examples=5,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def put(value):
    """Return a fault that replaces the first entry."""

    def change(X):
        X = X.astype(np.result_type(X, np.asarray(value).dtype))
        X.flat[0] = value
        return X

    return change


SCALES = st.sampled_from([1.0, 1e-8, 1e8, 1e-100, 1e100])
CONTAINERS = {
    "array": np.asarray,
    "list": lambda X: X.tolist(),
    "float32": lambda X: np.clip(X, -1e30, 1e30).astype(np.float32),
    "Fortran order": np.asfortranarray,
    "objects": lambda X: X.astype(object),
    "not writable": lambda X: np.lib.stride_tricks.as_strided(X, writeable=False),
}
BORDERLINE = {
    "none": lambda X: X,
    "a constant column": lambda X: X * [1.0, 0.0, 1.0],
    "repeated rows": lambda X: np.repeat(X[: len(X) // 2], 2, 0),
    "a far row": lambda X: np.concatenate([X[:1] * 1e12, X[1:]]),
    "far from the origin": lambda X: X + np.abs(X).max() * 1e6,
    "all zero": lambda X: X * 0.0,
    "whole numbers": lambda X: np.rint(4 * X / np.abs(X).max()).astype(int),
    "squares overflow": lambda X: X / np.abs(X).max() * 1e300,
}
INVALID = {
    "NaN": put(np.nan),
    "infinity": put(-np.inf),
    "imaginary parts": lambda X: X + 5j,
    "words": lambda X: np.full(X.shape, "word"),
    "an object": lambda X: put(object())(X.astype(object)),
    "one dimension": lambda X: X.ravel(),
    "four dimensions": lambda X: X[None, None],
    "no columns": lambda X: X[:, :0],
}
WRONG = [None, -1, 2.5, np.nan, np.inf, "a", [], {}, b"x", 3 + 4j]
"""Values of options that are of another kind or out of range."""


MAY_BE_INFINITE = r"prior_strength_|gamma_$|trace$|loo_scores_"
"""Fitted values for which infinity, or NaN of a score, is documented."""


def plain(n=N):
    """Return three classes of normal points."""
    y = np.arange(n) % 3
    return np.random.default_rng(n).normal(size=(n, D)) + 0.8 * y[:, None], y


def outcome(work):
    """Return a result, or None after an error that a user can act on."""
    try:
        with warnings.catch_warnings(record=True, action="always"):
            return work()
    except (ValueError, TypeError, RuntimeError) as caught:
        error = caught
    deepest = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    assert not {"jax", "jaxlib", "numpyro"} & {*deepest.parts}, "raised inside JAX"
    assert re.search(r"\w+", str(error)), "an error without words"
    if type(error) is RuntimeError:  # A fit that found no result.
        assert re.search(r"^[A-Z]\w+: ", str(error)), error
    return None


def assert_finite(name, value):
    value = np.asarray(value)
    if value.dtype.kind in "fc" and not re.search(MAY_BE_INFINITE, name):
        assert value.dtype.kind == "f", f"{name} is complex"
        assert np.isfinite(value).all(), f"{name} contains NaN or infinity"


def assert_use_is_finite(learner, X):
    """Check fitted arrays, and the rows and values of what methods return."""
    for name, value in vars(learner).items():
        if name.endswith("_") and isinstance(value, float | np.ndarray):
            assert_finite(name, value)
    pairs = np.stack([X, X[::-1]], 1)
    calls = dict.fromkeys(["transform", "predict_proba", "score_samples"], X)
    calls |= dict.fromkeys(["pair_distance", "same_probability"], pairs)
    for name, argument in calls.items():
        if hasattr(learner, name) and type(learner).__name__ != "ClassicalMDS":
            value = outcome(lambda n=name, a=argument: getattr(learner, n)(a))
            if value is not None:
                assert len(value) == len(X), name
                assert_finite(name, value)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@RANDOM
@given(st.sampled_from([*BORDERLINE]), SCALES, st.sampled_from([*CONTAINERS]))
def test_a_fit_to_unusual_data_is_finite_or_one_error(name, fault, scale, container):
    X, y = plain()
    X = BORDERLINE[fault](X * scale)
    entries = CONTAINERS[container](X)
    learner = outcome(lambda: getattr(pm, name)(**ESTIMATORS[name]).fit(entries, y))
    if learner is not None:
        assert_use_is_finite(learner, np.asarray(X, float))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@pytest.mark.parametrize("fault", INVALID)
def test_a_fit_to_invalid_points_is_refused(name, fault):
    X, y = plain()
    learner = getattr(pm, name)(**ESTIMATORS[name])
    if fault != "NaN" or not learner.__sklearn_tags__().input_tags.allow_nan:
        assert outcome(lambda: learner.fit(INVALID[fault](X), y)) is None


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@RANDOM
@given(st.data())
def test_a_wrong_option_is_refused_or_the_fit_is_finite(name, data):
    X, y = plain()
    option = data.draw(st.sampled_from(sorted(getattr(pm, name)().get_params())))
    options = ESTIMATORS[name] | {option: data.draw(st.sampled_from(WRONG))}
    learner = outcome(lambda: getattr(pm, name)(**options).fit(X, y))
    if learner is not None and options.get("preprocessor") is None:
        assert_use_is_finite(learner, X)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@RANDOM
@given(st.sampled_from([*BORDERLINE]), SCALES, st.sampled_from([*CONTAINERS]))
def test_dissimilarities_of_unusual_points_are_finite_or_one_error(
    name, fault, scale, container
):
    metric, (P, _) = build(name), plain()
    Q, P = P[:4] * scale, CONTAINERS[container](BORDERLINE[fault](P * scale))
    shapes = {"pairwise": (4, N), "nearest": (4, 2)}
    results = {
        "pairwise": outcome(lambda: metric.pairwise(Q, P)),
        "nearest": outcome(lambda: pm.nearest(metric, Q, P, 2)),
    }
    for method, result in results.items():
        for value in result if isinstance(result, tuple) else (result,):
            if value is not None:
                assert np.shape(value) == shapes[method]
                assert_finite(method, value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", INVALID)
def test_dissimilarities_of_invalid_points_are_refused_or_finite(name, fault):
    """NaN is a missing value of PairSimilarity; curves of a spline end at infinity."""
    metric, (P, _) = build(name), plain()
    wrong = INVALID[fault](P)
    D = outcome(lambda: metric.pairwise(wrong, P))
    near = outcome(lambda: pm.nearest(metric, P[:4], wrong, 2))
    limits = {("NaN", "PairSimilarity"), ("infinity", "SplineCityBlock")}
    assert (D is None and near is None) or (fault, name) in limits
    for value in (D, *(near or ())):
        if value is not None:
            assert_finite("dissimilarity", value)


def test_a_silent_nan_and_an_error_inside_jax_would_be_noticed():
    with pytest.raises(AssertionError, match="contains NaN"):
        assert_finite("components_", np.array([1.0, np.nan]))
    assert_finite("prior_strength_", np.inf)
    with pytest.raises(AssertionError, match="inside JAX"):
        outcome(lambda: __import__("jax").numpy.ones(2).reshape(3))


@cache
def fitted(name):
    with warnings.catch_warnings(record=True):
        return getattr(pm, name)(**ESTIMATORS[name]).fit(*plain())


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@RANDOM
@given(st.data())
def test_methods_refuse_invalid_points(name, data):
    learner = fitted(name)
    methods = ["transform", "predict_proba", "score_samples", "kneighbors", "predict"]
    methods = [m for m in methods if hasattr(learner, m)]
    if methods and name != "ClassicalMDS":
        method = data.draw(st.sampled_from(methods))
        fault = data.draw(st.sampled_from([*INVALID]))
        X = INVALID[fault](plain(3)[0])
        if fault != "NaN" or not learner.__sklearn_tags__().input_tags.allow_nan:
            assert outcome(lambda: getattr(learner, method)(X)) is None
