"""scikit-learn's conventions: its own checks in full, and what users build on them."""

import pickle

import joblib
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
from probmetric.inference.solvers.lbfgs import _value_and_gradient
from tests.learners import LEARNERS, make

X, y = load_iris(return_X_y=True)
X3 = X[:, 1:]  # As many features as the data of other tests.

# Needs an environment variable set before SciPy is imported.
MAY_SKIP = {"check_array_api_input"}

COPIES = "points have no nearest neighbor but copies: no scale, with or without weights"
UNLIKE = {
    LCA: {
        "check_sample_weight_equivalence_on_dense_data": "a repeated row pairs with "
        "its copies, a weighted one does not",
        "check_sample_weights_shape": COPIES,
        "check_sample_weights_not_overwritten": COPIES,
    },
    LCAClassifier: {},
}


@pytest.mark.long
def test_check_estimator_passes_within_ten_compilations():
    objective = _value_and_gradient
    objective.clear_cache()
    quick = LCAClassifier(regularization=30.0, prior_scale=2.0)
    for estimator in (LCA(), quick):
        records = check_estimator(
            estimator,
            on_skip=None,
            on_fail=None,
            expected_failed_checks=UNLIKE[type(estimator)],
        )
        failed = {
            r["check_name"]: r["exception"] for r in records if r["status"] == "failed"
        }
        assert not failed
        skipped = {r["check_name"] for r in records if r["status"] == "skipped"}
        assert skipped <= MAY_SKIP
        assert len(records) > 40
    assert 0 < objective._cache_size() <= 10


CHECKED = [
    pm.LDA(prior_strength=9),
    pm.RCA(prior_strength=9),
    pm.PairLDA(prior_strength=9),
    pm.PairLDA(method="kissme", prior_strength=9),
    pm.EigDML(solver="frank_wolfe", tol=0.3, prior_strength=0.0),
    pm.EigDML(tol=0.3, prior_strength=9.0),
    pm.ClassicalMDS(1, random_state=0),
    pm.ClassicalMDS(1, solver="landmark", random_state=0),
    pm.HierarchicalLCA(),
    pm.TripletMetric(),
    pytest.param(pm.PointEffectsLCA(), marks=pytest.mark.slow),
    pytest.param(pm.GDM(), marks=pytest.mark.slow),
]
ELSEWHERE = {
    *("DCAGM", "GLML", "GaussianClasses", "LCA", "LCAClassifier", "TwoStageMixture")
}
"""Learners to which other tests apply these checks."""

OTHERS = [
    make(name)
    for name in LEARNERS
    if name not in ELSEWHERE and f"{name}(" not in repr(CHECKED)
]


@pytest.mark.filterwarnings("ignore:y. class .* has only one row")
@pytest.mark.long
@pytest.mark.parametrize("estimator", [*CHECKED, *OTHERS], ids=repr)
def test_scikit_learns_checks_pass(estimator):
    unlike = {}
    if isinstance(estimator, pm.PairLDA):  # Equal: test_weights_equal_repeated_rows.
        name = "check_sample_weight_equivalence_on_dense_data"
        unlike = {name: "decision_function exists only after fit_pairs"}
    records = check_estimator(
        estimator, on_skip=None, on_fail=None, expected_failed_checks=unlike
    )
    failed = {
        r["check_name"]: r["exception"] for r in records if r["status"] == "failed"
    }
    assert not failed
    assert {r["check_name"] for r in records if r["status"] == "skipped"} <= MAY_SKIP
    assert len(records) > 35


def test_folds_of_different_sizes_share_one_compilation():
    objective = _value_and_gradient
    objective.clear_cache()
    for drop in (0, 1, 7, 30):
        LCA().fit(X[drop:], y[drop:])
    assert objective._cache_size() == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "learner",
    [
        *(pm.LDA(), pm.RCA(), pm.PairLDA(), LCA(), pm.TwoStageMixture()),
        pm.EigDML(max_iter=20),
    ],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.filterwarnings("ignore:EigDML. MAX_STEPS")
def test_how_points_lie_in_memory_changes_no_bit(learner):
    by_row = clone(learner).fit(np.ascontiguousarray(X3), y).get_metric()
    by_column = clone(learner).fit(np.asfortranarray(X3), y).get_metric()
    np.testing.assert_array_equal(by_row.pairwise(X3, X3), by_column.pairwise(X3, X3))


@pytest.mark.parametrize("estimator", [LCA(n_components=2), LCAClassifier()])
def test_pickle_joblib_and_clone_keep_an_estimator(estimator, tmp_path):
    fitted = clone(estimator).fit(X3, y)
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    copies = (
        pickle.loads(pickle.dumps(fitted)),
        joblib.load(tmp_path / "fitted.joblib"),
        clone(fitted).fit(X3, y),
    )
    for copy in copies:
        np.testing.assert_array_equal(copy.components_, fitted.components_)
        assert copy.get_params() == fitted.get_params()


def test_metric_survives_pickling_and_is_a_copy():
    fitted = LCA().fit(X, y)
    metric = pickle.loads(pickle.dumps(fitted.get_metric()))
    before = metric(X[0], X[60])
    fitted.components_[:] = 0
    assert before == metric(X[0], X[60]) > 0


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


ONE_EACH = np.arange(len(y))
FRAME = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "colour": ["r", "g", "b", "r"]})


def with_cell(value):
    bad = X.copy()
    bad[3, 2] = value
    return bad


BAD = {
    "NaN": (
        (with_cell(np.nan), y),
        r"X must be finite numbers, got NaN in 1 of 150 rows, columns \[2\]. Drop",
    ),
    "infinity": (
        (with_cell(np.inf), y),
        r"X must be finite numbers, got infinity in 1 of 150 rows, columns \[2\]",
    ),
    "3-D": (
        (X[None], y),
        r"X must have shape \(n, d\).*, got \(1, 150, 4\)",
    ),
    "length": ((X, y[:-1]), "inconsistent numbers of samples"),
    "constant": ((0 * with_cell(0), y), r"got only constant columns \[0, 1, 2, 3\]"),
    "text column": ((FRAME, [0, 0, 1, 1]), "X must have numeric columns, got 'colour'"),
    "missing label": ((X[:4], [0, 0, 1, None]), "y must have a label in every row"),
    "NaN label": (
        (X[:4], [0.0, 0, 1, np.nan]),
        "y must have a label in every row|contains NaN",
    ),
    "continuous": ((X, y + 0.5 * X[:, 0]), "Unknown label type"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", [LCA, LCAClassifier])
def test_bad_labeled_input_is_a_value_error_that_says_what(kind, name):
    arguments, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        kind().fit(*arguments)


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
    "prior_mean  ": (np.ones((4, 4)), r"full rank .*got \(4, 4\), rank 1"),
}


@pytest.mark.parametrize("name", SETTINGS | OWN)
def test_bad_settings_are_refused_by_name(name):
    value, message = (SETTINGS | OWN)[name]
    kinds = [LCA] if name in OWN else [LCA, LCAClassifier]
    for kind in kinds:
        with pytest.raises(ValueError, match=message):
            kind(**{name.strip(): value}).fit(X, y)


@pytest.mark.parametrize("kind", [LCA, LCAClassifier])
def test_duplicate_rows_give_finite_results(kind):
    fitted = kind().fit(np.repeat(X[::3], 2, 0), np.repeat(y[::3], 2))
    assert np.all(np.isfinite(fitted.components_))


def test_classes_of_equal_points_are_refused():
    doubled = np.repeat(X[[0, 60]], 5, 0)
    with pytest.raises(ValueError, match=r"pairs: in all .* both points are equal"):
        LCA().fit(doubled, np.repeat([0, 1], 5))
