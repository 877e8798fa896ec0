"""Rows without a label are left out if they are named, and -1 as a class warns."""

import warnings

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.cli.inputs import labeled
from probmetric.cli.options import DataSpec
from probmetric.large.files import Rows
from probmetric.registry import estimator_of, estimators
from tests.cli.runs import refused

OTHERS = "mds", "two_stage", "triplet_embedding"
"""Learners without class labels."""
CLASSES = [
    *(estimator_of(name) for name in estimators() if name not in OTHERS),
    *(pm.GaussianClasses, pm.LCAClassifier, pm.KNeighborsClassifier),
]
rng = np.random.default_rng(0)
Y = np.array([0, 1, 2, -1, 1, 0, 2, -1, 0, 2])
X = rng.normal(size=(10, 2)) + np.outer(Y, [2.0, -1.0])
LEFT = [0, 1, 2, 4, 5, 6, 8, 9]
WARNING = r"y contains -1 besides 0, 1, 2, .*unlabeled=-1.*unlabeled=None"


@pytest.mark.parametrize("kind", CLASSES)
def test_minus_one_next_to_other_classes_is_warned_about(unchecked, kind):
    with pytest.raises(UserWarning, match=WARNING):
        kind().fit(X, Y)


@pytest.mark.parametrize("kind", CLASSES)
def test_unlabeled_rows_are_left_out(unchecked, kind):
    """One class is left, which is refused before anything is compiled."""
    y = np.where(Y == -1, -1, 7)
    if kind is pm.KNeighborsClassifier:
        assert kind(unlabeled=-1).fit(X, y).classes_.tolist() == [7]
        return
    with pytest.raises(ValueError, match=r"at least 2 classes, got one class \(7"):
        kind(unlabeled=-1).fit(X, y)


@pytest.mark.parametrize(
    "labels, unlabeled",
    [
        (Y, -1),
        (Y.astype(float), -1),
        (Y.astype(str), "-1"),
        (pd.Series(Y, index=range(50, 60)), -1),
        (np.where(Y == -1, np.nan, Y), np.nan),
        (np.array([None if v == -1 else v for v in Y], object), np.nan),
        ([float("nan") if v == -1 else f"c{v}" for v in Y], np.nan),
        (pd.array([pd.NA if v == -1 else v for v in Y], "Int64"), float("nan")),
        (np.array(["?", *"abc"])[Y + 1], "?"),
    ],
)
def test_a_fit_without_unlabeled_rows_equals_that_to_the_others(
    unchecked, labels, unlabeled
):
    frame = pd.DataFrame(X, columns=["a", "b"])
    fit = pm.LDA(prior_strength=1.0, unlabeled=unlabeled).fit(frame, labels)
    other = pm.LDA(prior_strength=1.0).fit(X[LEFT], Y[LEFT])
    np.testing.assert_array_equal(fit.components_, other.components_)
    assert list(fit.feature_names_in_) == ["a", "b"]


def test_none_makes_minus_one_a_class_without_a_warning():
    learned = pm.KNeighborsClassifier(pm.LDA(prior_strength=1.0), unlabeled=None)
    learned.fit(X, Y)
    assert learned.classes_.tolist() == [-1, 0, 1, 2]
    assert learned.learner_.classes_.tolist() == [-1, 0, 1, 2]


def test_a_classifier_warns_once_for_itself_and_its_learner():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pm.KNeighborsClassifier(pm.LDA(prior_strength=1.0)).fit(X, Y)
    assert [str(w.message).split(" contains ")[0] for w in seen] == ["y"]


def test_groups_of_unlabeled_rows_are_left_out(unchecked, monkeypatch):
    seen = []
    monkeypatch.setattr(pm.TwoStageMixture, "_fit", lambda self, *a: seen.append(a))
    groups = [4, 4, -1, 5, 5, -1, 4, -1, 6, 6]
    mixture = pm.TwoStageMixture(standardize=False, unlabeled=-1)
    mixture.fit(X, groups=groups)
    ((data,),) = seen
    np.testing.assert_array_equal(data.X, X[[0, 1, 3, 4, 6, 8, 9]])
    assert data.group.tolist() == [0, 0, 1, 1, 0, 2, 2]
    with pytest.raises(UserWarning, match="groups contains -1 besides 4, 5, 6, "):
        pm.TwoStageMixture().fit(X, groups=groups)


def test_classes_in_groups_lose_rows_without_either(unchecked, monkeypatch):
    seen = []
    monkeypatch.setattr(pm.HierarchicalLCA, "_store", lambda self, *a: seen.append(a))
    y = np.array([0, 1, 0, 1, -1] * 4)
    groups = np.array([0] * 10 + [1] * 9 + [-1])
    points = rng.normal(size=(20, 2))
    model = pm.HierarchicalLCA(unlabeled=-1, standardize=False)
    model.fit(points, y, groups)
    left = [k for k in range(20) if k % 5 < 4]
    np.testing.assert_array_equal(
        np.unique(seen[0][0].X, axis=0), np.unique(points[left], axis=0)
    )
    assert (model.classes_.tolist(), model.groups_.tolist()) == ([0, 1], [0, 1])
    pairs, same = points.reshape(10, 2, 2), np.array([1, -1] * 5)
    monkeypatch.setattr(pm.HierarchicalLCA, "calibrate_threshold", lambda *a: a[1])
    which = [0, 0, 0, 1, 1, 1, -1, 0, 1, 1]
    judged = model.fit_pairs(pairs, same, groups=which)
    np.testing.assert_array_equal(judged, pairs[[0, 1, 2, 3, 4, 5, 7, 8, 9]])


@pytest.mark.parametrize("kind", [pm.LDA, pm.LCA, pm.KNeighborsClassifier])
def test_labels_of_a_dataset_on_disk_are_warned_about(unchecked, kind):
    count = {"votes": "count"} if kind is pm.KNeighborsClassifier else {}
    strength = {"prior_strength": 1.0} if kind is pm.LDA else {}
    source = Rows(np.repeat(X, 2, 0), np.repeat(Y, 2))
    with pytest.raises(UserWarning, match="label contains -1 besides 0, 1, 2, "):
        kind(**count, **strength).fit(source)
    with pytest.raises(ValueError, match=r"unlabeled must be None or 'warn' .*got -1"):
        kind(**count, **strength, unlabeled=-1).fit(source)


@pytest.fixture
def path(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(group=[0, 1] * 5, kind=Y)
    frame.loc[9, "group"] = -1
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def test_labels_of_a_file_are_warned_about_and_left_out(path):
    with pytest.raises(UserWarning, match=r"label contains -1 .*\(--unlabeled -1\)"):
        pm.datasets.load(path, drop="group")
    data = pm.datasets.load(path, groups="group", label="kind", unlabeled=-1)
    np.testing.assert_allclose(data.X, X[LEFT[:-1]])
    assert data.labels.tolist() == ["0", "1", "2", "1", "0", "2", "0"]
    assert data.groups.tolist() == [0, 1, 0, 0, 1, 0, 0]
    path.write_text(path.read_text().replace(",-1\n", ",\n"))
    data = pm.datasets.load(path, drop="group", unlabeled=np.nan)
    np.testing.assert_allclose(data.X, X[LEFT])


@pytest.mark.filterwarnings("default")
def test_commands_print_the_warning_as_a_note(path, capsys):
    labeled(DataSpec(str(path), "kind"))
    assert "  note: label contains -1 besides 0, 1, 2, " in capsys.readouterr().err


def test_unlabeled_is_an_option_and_no_setting(path, tmp_path):
    asked = ["fit", "lda", "--data", path, "--out", tmp_path / "o"]
    said = refused(*asked, "--set", "unlabeled=-1")
    assert "--set cannot set unlabeled. Use --unlabeled TEXT" in said
