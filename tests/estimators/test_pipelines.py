"""Learners from pairs in scikit-learn's cross-validation, searches and routing."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils.metadata_routing import get_routing_for_object

import probmetric as pm

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 3))
Y = np.arange(80) % 2
X[:, 0] += 3 * Y
ONE, TWO = RNG.permutation(80).reshape(2, 40)
PAIRS, SAME = X[np.stack([ONE, TWO], 1)], np.where(Y[ONE] == Y[TWO], 1, -1)
FOLDS = StratifiedKFold(3)
LEARNERS = (pm.LCA(), pm.PairLDA(), pm.EigDML(max_iter=20), pm.HierarchicalLCA())


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda e: type(e).__name__)
def test_cross_validation_on_pairs_is_the_loop_by_hand(learner):
    scores = cross_val_score(learner, PAIRS, SAME, cv=FOLDS, error_score="raise")
    for score, (train, test) in zip(scores, FOLDS.split(PAIRS, SAME), strict=True):
        alone = clone(learner).fit_pairs(PAIRS[train], SAME[train])
        distance = alone.pair_distance(PAIRS[test])
        assert score == roc_auc_score(SAME[test], -distance)


def test_fit_of_pairs_is_fit_pairs_and_of_points_what_it_was():
    by_fit, by_name = (
        pm.PairLDA().fit(PAIRS, SAME),
        pm.PairLDA().fit_pairs(PAIRS, SAME),
    )
    np.testing.assert_array_equal(by_fit.components_, by_name.components_)
    assert by_fit.threshold_ == by_name.threshold_
    assert not hasattr(by_fit, "classes_")
    again = by_fit.fit(X, Y)
    assert again.classes_.tolist() == [0, 1]
    assert not hasattr(again, "score")
    np.testing.assert_array_equal(
        pm.PairLDA().fit(X.tolist(), Y).components_, again.components_
    )
    np.testing.assert_array_equal(
        pm.PairLDA().fit(PAIRS.tolist(), SAME).components_, by_name.components_
    )


def test_groups_of_pairs_go_through_fit():
    group = np.arange(40) % 2
    one = pm.HierarchicalLCA(spread=0.5).fit(PAIRS, SAME, groups=group)
    other = pm.HierarchicalLCA(spread=0.5).fit_pairs(PAIRS, SAME, groups=group)
    np.testing.assert_array_equal(one.group_components_, other.group_components_)


def test_grid_search_pipeline_and_other_scores_take_pairs():
    search = GridSearchCV(
        make_pipeline(pm.PairLDA()), {"pairlda__alpha": [0.01, 1.0]}, cv=FOLDS
    ).fit(PAIRS, SAME)
    chosen = pm.PairLDA(alpha=search.best_params_["pairlda__alpha"])
    whole = chosen.fit_pairs(PAIRS, SAME)
    assert search.score(PAIRS, SAME) == whole.score(PAIRS, SAME)
    np.testing.assert_array_equal(search.predict(PAIRS), whole.predict(PAIRS))
    right = cross_val_score(whole, PAIRS, SAME, cv=FOLDS, scoring="accuracy")
    said = cross_val_predict(whole, PAIRS, SAME, cv=FOLDS)
    sizes = [len(test) for _, test in FOLDS.split(PAIRS, SAME)]
    np.testing.assert_allclose(right @ sizes / 40, np.mean(said == SAME))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_score_of_shuffled_pairs_is_chance():
    """The negative control: nothing leaks from a fold into the fit on the others."""
    rng, scores = np.random.default_rng(0), []
    learner = pm.EigDML(solver="frank_wolfe", max_iter=10)
    for _ in range(10):
        labels = rng.permutation(SAME)
        scores.extend(cross_val_score(learner, PAIRS, labels, cv=FOLDS))
    assert abs(np.mean(scores) - 0.5) < 0.1
    assert cross_val_score(learner, PAIRS, SAME, cv=FOLDS).mean() > 0.7


def test_cross_validation_on_labels_says_what_judges_them():
    with pytest.raises(AttributeError) as caught:
        cross_val_score(pm.PairLDA(), X, Y, error_score="raise")
    assert "KNeighborsClassifier(metric=...)" in str(caught.value.__cause__)


def test_three_axes_that_are_no_pairs_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^X must have shape \(n, d\), or \(N, 2, d"):
        pm.LCA().fit(X[None], Y)
    with pytest.raises(ValueError, match=r"^X must have shape \(n, d\), got"):
        pm.LDA().fit(PAIRS, SAME)


@pytest.mark.parametrize("learner", [*LEARNERS, pm.LDA()])
def test_data_is_no_metadata(learner):
    requests = get_routing_for_object(learner)
    for method in ("predict", "decision_function", "score"):
        assert getattr(requests, method).requests == {}


NUMBERS = np.stack([ONE, TWO], 1)
NAMES = np.array([f"scan {k:03d}" for k in range(80)])
SEEN = []
SMALL = partial(pm.DCAGM, n_gaussians=1)


def by_name(keys):
    SEEN.append(list(keys))
    return np.stack([X[int(key.split()[1])] for key in keys])


@pytest.mark.long
@pytest.mark.parametrize(
    "learner, source, entries",
    [
        (pm.PairLDA, X, np.arange(80)),
        (pm.LDA, X.tolist(), np.arange(80)),
        (pm.LCA, by_name, NAMES),
        (SMALL, by_name, NAMES),
    ],
)
def test_numbers_and_names_are_the_points_that_they_stand_for(learner, source, entries):
    plain = learner().fit(X, Y)
    found = learner(preprocessor=source).fit(entries, Y)
    np.testing.assert_array_equal(found.components_, plain.components_)
    np.testing.assert_array_equal(found.transform(entries[:5]), plain.transform(X[:5]))
    np.testing.assert_array_equal(found.transform(X[:5]), plain.transform(X[:5]))
    at = np.stack([entries[ONE], entries[TWO]], 1)
    np.testing.assert_array_equal(found.pair_distance(at), plain.pair_distance(PAIRS))
    if learner is SMALL:
        np.testing.assert_array_equal(found.predict(entries), plain.predict(X))


def test_pairs_of_names_are_cross_validated_and_each_is_read_once():
    plain = cross_val_score(pm.PairLDA(), PAIRS, SAME, cv=FOLDS)
    named = NAMES[NUMBERS]
    learner = pm.PairLDA(preprocessor=by_name)
    found = cross_val_score(learner, named, SAME, cv=FOLDS, error_score="raise")
    np.testing.assert_allclose(found, plain)
    learner = pm.PairLDA(preprocessor=X)
    found = cross_val_score(learner, NUMBERS, SAME, cv=FOLDS, error_score="raise")
    np.testing.assert_allclose(found, plain)
    SEEN.clear()
    pm.PairLDA(preprocessor=by_name).fit_pairs(
        NAMES[[[0, 1], [1, 2], [0, 2]]], [1, 0, 0]
    )
    assert SEEN[0] == ["scan 000", "scan 001", "scan 002"]


WRONG = {
    "row": (
        X,
        [0, 80],
        r"^X must be row numbers of the preprocessor, 0\.\.79, got 0\.\.80",
    ),
    "negative": (X, [-1, 0], r"^X must be row numbers .* got -1\.\.0"),
    "fraction": (X, [0.0, 1.0], r"^X must be row numbers .* got float64"),
    "text": (X, NAMES[:2], r"^X must be row numbers .* got <U8"),
    "kinds": (by_name, np.array([1, "a"], object), r"^X: entries must have one type"),
    "floats": (by_name, [0.0, 1.0], r"^X must be integers or text .* got float64"),
    "too few": (
        lambda keys: X[:1],
        [0, 1],
        r"^preprocessor must return one row for each",
    ),
    "no points": (lambda keys: X[0], [0, 1], r"^preprocessor must have shape \(n, d\)"),
    "table": ("abc", [0, 1], r"^preprocessor must be numbers, got text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_stands_for_nothing_is_refused_by_name(name):
    source, entries, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        pm.PairLDA(preprocessor=source).fit(entries, [0, 1])
    pairs = np.stack([entries, entries], 1)
    with pytest.raises(ValueError, match=message.replace("^X", "^pairs")):
        pm.PairLDA(preprocessor=source).fit_pairs(pairs, [0, 1])


def test_what_a_preprocessor_raises_is_raised():
    with pytest.raises(IndexError):
        pm.PairLDA(preprocessor=lambda keys: X[keys]).fit([0, 80], [0, 1])
