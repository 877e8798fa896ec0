"""One row of a class: a non-match of all others, never a match, and no obstacle."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import probmetric as pm
from probmetric.data import nearest_pairs
from probmetric.evaluation.cross_validate import held_out

RNG = np.random.default_rng(3)
Y = np.array(["a"] * 11 + ["b"] * 8 + ["rare"])
X = (
    RNG.normal(size=(20, 2))
    + 3.0 * (Y == "b")[:, None]
    + [0.0, 5.0] * (Y == "rare")[:, None]
)
LEARNERS = [
    pm.LDA(),
    pm.RCA(),
    pm.PairLDA(),
    pytest.param(pm.EigDML(), marks=pytest.mark.long),
    pm.LCA(),
    pytest.param(pm.LCA(regularization="cv"), marks=pytest.mark.long),
    pm.LCA(pairs="impostors"),
    pytest.param(pm.DCAGM(), marks=pytest.mark.long),
]


def test_the_only_row_of_a_class_is_paired_as_different_only():
    line = [[0.0], [1.0], [5.0], [7.0], [2.5]]
    pairs = nearest_pairs(line, ["a", "a", "b", "b", "rare"], 1, 1)
    found = list(zip(pairs.i.tolist(), pairs.j.tolist(), pairs.y.tolist(), strict=True))
    assert found == [
        (0, 1, 1),
        (0, 4, 0),
        (1, 0, 1),
        (1, 4, 0),
        (2, 3, 1),
        (2, 4, 0),
        (3, 2, 1),
        (3, 4, 0),
        (4, 1, 0),
    ]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_class_of_one_row_is_a_warning_with_its_name(learner):
    with pytest.warns(UserWarning, match="y: class 'rare' has only one row"):
        metric = learner.fit(X, Y).get_metric()
    assert np.isfinite(metric.pairwise(X, X)).all()


@pytest.mark.filterwarnings(
    "ignore:y. class .* only one row", "ignore:The least populated"
)
@pytest.mark.parametrize(
    "model", [pm.KNeighborsClassifier(pm.LDA()), pm.LCAClassifier()], ids=repr
)
def test_cross_validation_with_a_class_of_one_row_returns_numbers(model):
    scores = cross_val_score(model, X, Y, cv=3, error_score="raise")
    assert np.all(scores > 0.6)


@pytest.mark.filterwarnings("ignore:y. class .* only one row")
def test_held_out_log_scores_leave_the_only_row_of_a_class_in():
    table = held_out({"LDA": pm.LDA()}, X, Y, n_folds=4)
    assert np.isfinite(table["elpd"]).all()


def test_rows_from_files_learn_the_same_from_a_class_of_one_row():
    with pytest.warns(UserWarning, match="class 'rare' has only one row"):
        plain = pm.LDA(prior_strength=2.0).fit(X, Y)
    with pytest.warns(UserWarning, match="label: class 'rare' has only one row"):
        streamed = pm.LDA(prior_strength=2.0).fit(pm.open(X, label=Y))
    np.testing.assert_allclose(
        streamed.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix(), rtol=1e-9
    )


def test_a_different_label_in_every_row_is_refused():
    with pytest.raises(ValueError, match="y must contain a class with at least 2 rows"):
        pm.LDA().fit(X[:3], ["a", "b", "c"])


@pytest.mark.parametrize("learner", [pm.LDA, pm.RCA])
def test_folds_without_a_point_to_predict_are_left_out(learner):
    X = np.random.default_rng(0).normal(size=(4, 3))
    with pytest.warns(UserWarning, match="one"):
        assert np.isfinite(learner().fit(X, [0, 0, 1, 2]).components_).all()
