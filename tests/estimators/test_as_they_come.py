"""Data as they come: constant columns, in every learner and in every fold."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import probmetric as pm
from tests.estimators.test_precision import data
from tests.learners import ESTIMATORS

WHOLE = data(0.0)[0]
X, y = WHOLE[:, :2], data(0.0)[1]  # A third column is added that does not vary.
STANDARDISING = [
    name for name in ESTIMATORS if hasattr(getattr(pm, name)(), "standardize")
]


@pytest.mark.long
@pytest.mark.parametrize("name", STANDARDISING)
def test_a_constant_column_is_kept_and_named(name):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(same=7.3)
    model = getattr(pm, name)(**ESTIMATORS[name])
    with pytest.warns(UserWarning, match=r"constant columns \['same'\]\. They"):
        model.fit(frame, y)
    assert model.n_features_in_ == 3
    for method in ("transform", "predict_proba"):
        if hasattr(model, method):
            moved = frame.assign(same=8.3)
            assert np.isfinite(getattr(model, method)(frame)).all()
            assert np.isfinite(getattr(model, method)(moved)).all()


@pytest.mark.long
@pytest.mark.parametrize("name", ["GaussianClasses", "GLML"])
def test_what_never_varied_moves_no_probability(name):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(same=0.0)
    with pytest.warns(UserWarning, match="constant columns"):
        model = getattr(pm, name)(**ESTIMATORS[name]).fit(frame, y)
    expected = model.predict_proba(frame)
    np.testing.assert_array_equal(model.predict_proba(frame.assign(same=1.0)), expected)


LINEAR = ["DCAGM", "EigDML", "LCA", "LCAClassifier", "LDA", "PairLDA", "RCA"]


@pytest.mark.long
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("name", LINEAR)
def test_what_never_varied_has_no_weight_in_any_unit(name, standardize):
    constant = np.column_stack([X, np.full(len(X), 7.0)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has constant columns")
        options = {**ESTIMATORS[name], "standardize": standardize}
        model = getattr(pm, name)(**options).fit(constant, y)
    moved = constant + [0.0, 0.0, 1e6]
    methods = "transform", "predict_proba", "class_log_probability"
    for method in (m for m in methods if hasattr(model, m)):
        expected = getattr(model, method)(constant)
        np.testing.assert_allclose(getattr(model, method)(moved), expected, rtol=1e-9)
    if hasattr(model, "pair_distance"):
        assert np.all(model.pair_distance(np.stack([constant, moved], 1)) <= 1e-9)


@pytest.mark.long
def test_draws_give_no_weight_to_what_never_varied_either():
    constant = np.column_stack([X, np.full(len(X), 7.0)])
    with pytest.warns(UserWarning, match="constant columns"):
        model = pm.LCA().fit(constant, y)
    tree = model.sample("laplace", n_draws=20, n_chains=1, prior_draws=5)
    for M in (tree[group]["M"].to_numpy() for group in ("posterior", "prior")):
        assert np.all(M[..., 2, :] == 0)
        assert np.all(M[..., 0, 0] > 0)
    own = model.posterior_metric("prediction", n_draws=20)
    for draws in own, model.posterior_metric("prediction", draws=tree):
        moved = constant + [0.0, 0.0, 1e6]
        assert np.all(draws.mean_metric().pairwise(constant, moved).diagonal() <= 1e-9)


@pytest.mark.long
def test_folds_of_digits_do_not_fail_because_a_pixel_is_constant():
    digits = [a[:300] for a in load_digits(return_X_y=True)]
    model = make_pipeline(pm.LDA(), pm.KNeighborsClassifier())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has constant columns")
        scores = cross_val_score(model, *digits, cv=3, error_score="raise")
    assert (scores > 0.8).all()


MAPS = [name for name in STANDARDISING if hasattr(getattr(pm, name), "transform")]


@pytest.fixture(scope="module", params=MAPS)
def mapping(request):
    return getattr(pm, request.param)(**ESTIMATORS[request.param]).fit(WHOLE, y)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, int])
def test_images_have_the_float_type_of_the_points(mapping, dtype):
    points = np.round(WHOLE).astype(dtype)
    images = mapping.transform(points)
    wanted = np.dtype(float if dtype is int else dtype)
    assert images.dtype == wanted
    exact = points.astype(float) @ mapping.components_.T
    np.testing.assert_array_equal(images, exact.astype(wanted))


def test_images_that_the_type_of_the_points_does_not_hold_are_refused():
    model = pm.LDA().fit(X * 1e-3, y)
    with pytest.raises(ValueError, match="transformed points overflow float32"):
        model.transform(np.full((1, 2), 3e38, np.float32))
