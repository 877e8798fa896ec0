"""How ``LCA`` chooses the number of rows of its map, by folds."""

from functools import partial

import numpy as np
import pytest

import probmetric as pm
from probmetric.estimators.lca.rank import TOLERANCE
from probmetric.inference.choose import choose_strength
from tests.dump import assert_refused


def classes_in(rows, n, seed, *, noise=3):
    """Return n points, with noise, of ``rows + 1`` classes at a simplex's corners."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % (rows + 1)
    corners = np.vstack([np.zeros(rows), 6 * np.eye(rows)])
    X = corners[y] + rng.normal(size=(n, rows))
    return np.hstack([X, rng.normal(size=(n, noise))]), y


@pytest.mark.long
def test_classes_apart_in_one_direction_need_one_row_and_in_three_more():
    X, y = classes_in(1, 60, 0)
    model = pm.LCA("cv").fit(X, y)
    assert len(model.components_) == 1
    assert [choice.n_components for choice in model.ranks_] == [1, 2, 3, 4]
    X, y = classes_in(3, 60, 0, noise=1)
    model = pm.LCA("cv").fit(X, y)
    assert len(model.components_) > 1
    least = min(choice.loss for choice in model.ranks_)
    assert model.ranks_[0].loss - least > 3 * model.ranks_[0].standard_error


@pytest.fixture(scope="module")
def by_folds():
    """Return points, classes and a map whose rows folds chose."""
    X, y = classes_in(2, 45, 1, noise=1)
    return X, y, pm.LCA("cv", standardize=False).fit(X, y)


@pytest.mark.long
def test_losses_of_cv_are_those_of_the_whole_recipe_on_folds(by_folds):
    X, y, model = by_folds

    def learn(rows):
        for choice in model.ranks_:
            own = pm.LCA(choice.n_components, standardize=False)
            yield own.fit(X[rows], y[rows]).components_

    ranks = [choice.n_components for choice in model.ranks_]
    by_hand = choose_strength(learn, X, y, ranks, tolerance=1.0)
    assert len(model.components_) == by_hand.strength
    losses = [choice.loss for choice in model.ranks_]
    np.testing.assert_allclose(losses, by_hand.losses, rtol=1e-9)


@pytest.mark.long
def test_the_fewest_rows_within_a_standard_error_are_taken(by_folds):
    model = by_folds[2]
    least = min(choice.loss for choice in model.ranks_)
    fits = [c.loss - least <= TOLERANCE * c.standard_error for c in model.ranks_]
    assert model.ranks_[fits.index(True)].n_components == len(model.components_)
    assert not fits[0], "one row should be too few here, or this test says nothing"
    best = min(model.ranks_, key=lambda choice: choice.loss)
    assert best.standard_error == 0


@pytest.mark.long
def test_what_follows_a_fit_has_the_rows_chosen():
    X, y = classes_in(1, 24, 0, noise=1)
    model = pm.LCA("cv", regularization="cv").fit(X, y)
    assert model.choices_
    p = len(model.components_)
    assert p < X.shape[1]
    again = pm.LCA(p, regularization="cv").fit(X, y)
    np.testing.assert_array_equal(model.components_, again.components_)
    assert not again.ranks_
    drawn = model.sample("laplace", n_draws=3, n_chains=1)
    M = drawn["posterior"]["M"].values[0]
    assert [np.linalg.matrix_rank(one, tol=1e-6) for one in M] == [p] * 3


OTHERS = [
    {"n_anchors": 20},
    {"prior_mean": np.eye(5)[:2]},
]


def test_what_folds_cannot_have_is_refused():
    X, y = classes_in(2, 45, 1)
    calls = [partial(pm.LCA("cv", **given).fit, X, y) for given in OTHERS]
    assert_refused(calls, "estimators/lca_cv.txt")


@pytest.mark.long
def test_folds_need_three_of_a_class_and_take_no_more_neighbors_than_there_are():
    X, y = classes_in(1, 24, 0, noise=1)
    small = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:2]]
    words = r"n_components='cv' requires at least 3 rows in each class.* with 2\."
    with pytest.raises(ValueError, match=words):
        pm.LCA("cv").fit(X[small], y[small])
    found = pm.LCA("cv", n_targets=11, n_impostors=12).fit(X, y)
    assert np.isfinite([choice.loss for choice in found.ranks_]).all()


def test_pairs_weights_sources_and_other_words_are_refused():
    X, y = classes_in(2, 45, 1)
    pairs = np.stack([X[:20], X[20:40]], 1)
    calls = [
        lambda: pm.LCA("cv").fit_pairs(pairs, np.arange(20) % 2),
        lambda: pm.LCA("cv").fit(X, y, sample_weight=np.ones(len(y))),
        lambda: pm.LCA("cv").fit(pm.open(X, label=y)),
        lambda: pm.LCA("elbow").fit(X, y),
    ]
    assert_refused(calls, "estimators/lca_rank.txt")
