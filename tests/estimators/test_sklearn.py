"""scikit-learn's conventions: its own checks in full, and what users build on them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import probmetric as pm
from probmetric.estimators.lca.classifier import LCAClassifier
from probmetric.estimators.lca.estimator import LCA
from tests.learners import LEARNERS, make

X, y = load_iris(return_X_y=True)
X3 = X[:, 1:]  # As many features as the data of other tests.

# Needs an environment variable set before SciPy is imported.
MAY_SKIP = {"check_array_api_input"}

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
COPIES = "points have no nearest neighbor but copies: no scale, with or without weights"
UNLIKE = {
    "LCA": {
        WEIGHTS: "a repeated row pairs with its copies, a weighted one does not",
        "check_sample_weights_shape": COPIES,
        "check_sample_weights_not_overwritten": COPIES,
    },
    # Equal: test_weights_equal_repeated_rows.
    "PairLDA": {WEIGHTS: "decision_function exists only after fit_pairs"},
    "DCAGM": {WEIGHTS: "L-BFGS stops at tol=1e-5"},
}


def assert_passes(estimator):
    """Run all of scikit-learn's checks that apply to an estimator."""
    records = check_estimator(
        estimator,
        on_skip=None,
        on_fail=None,
        expected_failed_checks=UNLIKE.get(type(estimator).__name__, {}),
    )
    failed = {
        r["check_name"]: r["exception"] for r in records if r["status"] == "failed"
    }
    assert not failed
    assert {r["check_name"] for r in records if r["status"] == "skipped"} <= MAY_SKIP
    assert len(records) > 30


CHECKED = [
    LCA(),
    LCAClassifier(regularization=30.0, prior_scale=2.0),
    pm.LDA(prior_strength=9),
    pm.RCA(prior_strength=9),
    pm.PairLDA(prior_strength=9),
    pm.PairLDA(method="kissme", prior_strength=9),
    pm.EigDML(solver="frank_wolfe", tol=0.3, prior_strength=0.0),
    pm.EigDML(tol=0.3, prior_strength=9.0),
    pm.ClassicalMDS(1),
    pm.HierarchicalLCA(),
    pm.TripletMetric(),
    pm.GaussianClasses(),
    pm.GaussianClasses(prior="evidence"),
    pm.GLML(n_draws=0, gamma=0.1),
    pm.DCAGM(n_gaussians=1, prior_strength=4),
    pm.TwoStageMixture(),
    pytest.param(pm.PointEffectsLCA(), marks=pytest.mark.slow),
    pytest.param(pm.GDM(), marks=pytest.mark.slow),
]
OTHERS = [
    make(name)
    for name in LEARNERS
    if not name.startswith("LCA") and f"{name}(" not in repr(CHECKED)
]


@pytest.mark.filterwarnings("ignore:y. class .* has only one row")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.long
@pytest.mark.parametrize("estimator", [*CHECKED, *OTHERS], ids=repr)
def test_scikit_learns_checks_pass(estimator):
    assert_passes(estimator)


@pytest.mark.long
@pytest.mark.parametrize("learner", [pm.LDA(), LCA()], ids=repr)
def test_how_points_lie_in_memory_changes_no_bit(learner):
    by_row = clone(learner).fit(np.ascontiguousarray(X3), y).get_metric()
    by_column = clone(learner).fit(np.asfortranarray(X3), y).get_metric()
    np.testing.assert_array_equal(by_row.pairwise(X3, X3), by_column.pairwise(X3, X3))


def test_grid_search_in_a_pipeline_runs_in_processes():
    pipeline = make_pipeline(LCA(), KNeighborsClassifier(3))
    search = GridSearchCV(pipeline, {"lca__regularization": [3.0, 30.0]}, cv=2)
    search.fit(X[::2], y[::2])
    assert search.best_score_ > 0.9


def test_pandas_in_gives_names_and_pandas_out():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    fitted = LCA(n_components=2).set_output(transform="pandas").fit(frame, y)
    out = fitted.transform(frame)
    assert out.columns.tolist() == ["lca0", "lca1"]
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(out.to_numpy(), X @ fitted.components_.T)
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("estimator", [LCA(max_iter=1), LCAClassifier(max_iter=1)])
def test_early_stop_warns_with_the_remedy(estimator):
    with pytest.warns(ConvergenceWarning, match="MAX_STEPS.*raise max_iter"):
        estimator.fit(X, y)


SETTINGS = {
    "n_components": (0, r"n_components must be a whole number in \[1, 4\], got 0"),
    "n_components ": (5, r"n_components must be a whole number in \[1, 4\], got 5"),
    "regularization ": ("tight", "regularization must be one of 'auto'.*'tight'"),
}
OWN = {
    "n_targets": (60, r"n_targets .*\[1, 49\].* got 60"),
    "n_impostors": (101, r"n_impostors .*\[1, 100\]"),
    "prior_mean": ("lda", "prior_mean must be one of 'auto', 'identity', 'pca'"),
    "prior_mean ": (np.eye(3), r"prior_mean must have shape \(4, 4\) and full rank"),
    "prior_mean  ": (np.ones((4, 4)), r"full rank, got shape \(4, 4\) and rank 1"),
}


@pytest.mark.parametrize("name", SETTINGS | OWN)
def test_bad_settings_are_refused_by_name(name):
    value, message = (SETTINGS | OWN)[name]
    kinds = [LCA] if name in OWN else [LCA, LCAClassifier]
    for kind in kinds:
        with pytest.raises(ValueError, match=message):
            kind(**{name.strip(): value}).fit(X, y)


def test_classes_of_equal_points_are_refused():
    doubled = np.repeat(X[[0, 60]], 5, 0)
    with pytest.raises(
        ValueError, match=r"one pair with y = 1 must have two different"
    ):
        LCA().fit(doubled, np.repeat([0, 1], 5))
