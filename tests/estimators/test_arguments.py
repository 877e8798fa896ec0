"""One set of checks for all learners: each wrong argument is one clear error."""

import inspect
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import probmetric as pm
from tests.estimators.test_precision import data
from tests.learners import ESTIMATORS

X, Y = data(0.0)[:2]
TEXT = {
    "array": X.astype(str),
    "objects": X.astype(str).astype(object),
    "list": X.astype(str).tolist(),
    "frame": pd.DataFrame(X, columns=["a", "b", "c"]).astype({"b": str}),
    "dates": X.astype("datetime64[D]"),
}
MIXED = ["a" if k % 2 else 1 for k in range(len(X))]
SETTINGS = {
    "standardize": ("no", np.nan, (1, 2)),
    "random_state": ("x", -1, 2.5),
    "tol": (np.nan, -1.0, ""),
    "max_iter": (0, 2.5, 10**20, "many"),
    **dict.fromkeys(
        ("n_targets", "n_impostors", "n_starts", "n_draws", "n_neighbors"),
        (-1, 2.5, 10**20, "many"),
    ),
    "n_components": (-1, 10**20, ""),
    "n_splines": (1,),
    **dict.fromkeys(("kappa", "prior_scale", "spread_scale"), (0.0,)),
    **dict.fromkeys(("alpha", "ridge"), (-1.0,)),
    "spread": (-1.0, 1e300),
    "regularization": (-1.0, np.nan),
    "learning_rate": ("fast", 0),
    **dict.fromkeys(("n_refresh", "max_impostors"), (-1,)),
    "prior_strength": (-1.0, "loo"),
    **dict.fromkeys(("solver", "pairs", "method", "weighting", "correction"), ("x",)),
}
WRONG = [
    (name, setting, value)
    for name in ESTIMATORS
    for setting in inspect.signature(getattr(pm, name)).parameters
    for value in SETTINGS.get(setting, ())
]
SUPERVISED = [name for name in ESTIMATORS if name != "ClassicalMDS"]


def fit(name, X=X, y=Y, **settings):
    model = getattr(pm, name)(**{**ESTIMATORS[name], **settings})
    if name == "TwoStageMixture":
        return model.fit(X, groups=y)
    return model.fit(X) if name == "ClassicalMDS" else model.fit(X, y)


@pytest.mark.parametrize("name, setting, value", WRONG)
def test_a_wrong_setting_is_named_with_what_was_expected(name, setting, value):
    message = rf"^{setting} must be .*got {re.escape(repr(value))}"
    with pytest.raises(ValueError, match=message):
        fit(name, **{setting: value})


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_text_and_dates_are_no_points_to_fit(name, kind):
    with pytest.raises(ValueError, match=r"^X must have numeric columns, got "):
        fit(name, TEXT[kind])


def test_a_column_of_text_is_named():
    with pytest.raises(ValueError, match="got numbers stored as text in column 'b'"):
        fit("LDA", TEXT["frame"])


def test_a_column_of_categories_is_named_with_the_remedy():
    """NumPy would take categories that are numbers for the numbers."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).round()
    given = frame.astype({"b": "category"})
    remedy = r"got 'b', which is categorical\. Convert it with pandas.get_dummies, or "
    with pytest.raises(ValueError, match=r"^points must .*" + remedy):
        pm.nearest(pm.Mahalanobis(np.eye(3)), X, given, 1)


@pytest.mark.parametrize("kind", [list, lambda y: np.array(y, object), pd.Series])
@pytest.mark.parametrize("name", SUPERVISED)
def test_labels_of_two_kinds_are_refused(name, kind):
    said = r"^(y|groups) must be all numbers or all text, got a mixture"
    if name == "KNeighborsRegressor":
        said = r"^y must be numbers, got text or dates"
    with pytest.raises(ValueError, match=said):
        fit(name, y=kind(MIXED))


@pytest.mark.parametrize("name", ["DCAGM", "EigDML", "LCA", "LCAClassifier", "PairLDA"])
def test_labels_that_are_no_classes_are_called_what_they_are(name):
    for y in (np.arange(len(X)), [f"row {k}" for k in range(len(X))]):
        said = rf"^y must .* got a different label in each of {len(X)} rows"
        with pytest.raises(ValueError, match=said):
            fit(name, y=y)
    with pytest.raises(ValueError, match=r"^y .*, got one class \(0\.0\)\. "):
        fit(name, y=np.zeros(len(X)))


@pytest.mark.long
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_index_among_the_features_is_warned_of_in_fit(name):
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame.insert(0, "Unnamed: 0", np.arange(len(X)))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        fitted = fit(name, frame)
    said = [str(w.message) for w in seen if "Unnamed: 0" in str(w.message)]
    assert len(said) == 1
    assert "X.drop(columns=['Unnamed: 0'])" in said[0]
    for method in ("transform", "predict"):
        if hasattr(fitted, method):
            getattr(fitted, method)(frame[:3])  # No word, which would be an error.
