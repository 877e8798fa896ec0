"""Estimators compute in float64 and do not see where the features' origin is."""

import inspect

import jax
import numpy as np
import pytest
from sklearn.base import is_regressor

import probmetric
from tests.learners import ESTIMATORS, make

SHIFT = 1e6
POINTS = lambda m, X, P: (X,)  # noqa: E731
PAIRS = lambda m, X, P: (P,)  # noqa: E731

METHODS = {
    "aic": POINTS,
    "bic": POINTS,
    "class_log_probability": POINTS,
    "decision_function": lambda m, X, P: (P,) if hasattr(m, "pair_score") else (X,),
    "get_mahalanobis_matrix": lambda m, X, P: (),
    "local_metric": POINTS,
    "pair_dissimilarity": PAIRS,
    "pair_distance": PAIRS,
    "pair_score": PAIRS,
    "predict_log_proba": POINTS,
    "predict_proba": POINTS,
    "same_probability": PAIRS,
    "score_samples": POINTS,
    "kneighbors": POINTS,
    "transform": POINTS,
    "typicality": POINTS,
    "triplet_probability": lambda m, X, P: (X.reshape(12, 3, 3),),
}
SAME_UP_TO_A_SHIFT = {"transform"}

OTHERS = """
    deviance_shares effects importance calibrate_threshold fit fit_alpha curves
    fit_sites fit_pairs fit_triplets fit_transform get_feature_names_out get_metric
    local_metric_summary partial_fit posterior_metric predict sample
    spread_posterior summary triplet_score score
""".split()
"""Methods that return no array, or that tests of their learner ask."""

SKLEARN = "get_metadata_routing", "get_params", "set_"


def methods(estimator):
    names = [n for n in dir(estimator) if not n.startswith(("_", *SKLEARN))]
    return [n for n in names if inspect.isfunction(getattr(estimator, n, None))]


def data(shift):
    """Three classes on a grid of 2^-10, and pairs of them, moved by a whole number.

    Of three features, as in ``test_as_they_come`` and ``test_range``: what one compiles
    serves the others.
    """
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 12)
    X = rng.normal(size=(36, 3)) + 2.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]])[y]
    X = np.round(X * 1024) / 1024 + shift
    return X, y, X.reshape(18, 2, 3)


def answers(name, shift):
    X, y, P = data(shift)
    model = make(name).fit(X, y)
    found = {"predict": [model.predict(X)]} if is_regressor(model) else {}
    for method in methods(type(model)):
        refused = name == "TwoStageMixture" and method == "pair_distance"
        if method in METHODS and hasattr(model, method) and not refused:
            value = getattr(model, method)(*METHODS[method](model, X, P))
            leaves = [np.asarray(a) for a in jax.tree.leaves(value)]
            found[method] = [a for a in leaves if a.dtype.kind == "f"]
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", ESTIMATORS)
def test_answers_are_float64_and_do_not_see_a_shift(name):
    near, far = answers(name, 0.0), answers(name, SHIFT)
    assert near
    for method, values in near.items():
        assert values, method
        assert all(a.dtype == np.float64 for a in (*values, *far[method])), method
        for a, b in zip(values, far[method], strict=True):
            if method in SAME_UP_TO_A_SHIFT:
                a, b = a - a.mean(0), b - b.mean(0)
            # 4500 eps of a coordinate at the shift, in units of the largest entry.
            atol = 1e-6 * max(1.0, np.abs(a).max())
            np.testing.assert_allclose(b, a, rtol=0, atol=atol, err_msg=method)


def test_every_method_is_asked_or_has_a_reason():
    found = {n: getattr(probmetric, n) for n in ESTIMATORS}
    names = {m for c in found.values() for m in methods(c)}
    unasked = names - METHODS.keys() - {*OTHERS}
    assert not unasked, "add each to METHODS or to OTHERS"
    assert not (METHODS.keys() | {*OTHERS}) - names
