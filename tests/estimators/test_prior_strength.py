"""The strength of the prior: chosen by folds, ∞, and of pairs handed in."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine

import probmetric as pm
from probmetric.data.pairs import all_pairs
from tests.estimators.data_checks import OF_TRANSFORMERS

X, y = load_wine(return_X_y=True)
OF_PAIRS = [
    pm.PairLDA(),
    pytest.param(pm.EigDML(pairs="all"), marks=pytest.mark.long),
]
LEARNERS = [pm.LDA(), pm.RCA(), pm.PairLDA(), pm.EigDML()]
CHOOSING = [
    *(pm.LDA(), pm.RCA(), pm.PairLDA(), pm.PairLDA(method="rca", pairs="nearest")),
    *(pm.PairLDA(method="kissme"), pm.EigDML(pairs="impostors")),
]


@pytest.mark.long
@pytest.mark.parametrize("learner", CHOOSING, ids=repr)
def test_the_number_that_was_chosen_gives_the_same_fit(learner):
    chosen = clone(learner).fit(X[::3], y[::3])
    assert chosen.prior_strength_ in (np.inf, 256, 64, 16, 4, 1)
    same = clone(learner).set_params(prior_strength=chosen.prior_strength_)
    np.testing.assert_array_equal(
        same.fit(X[::3], y[::3]).components_, chosen.components_
    )


@pytest.mark.long
@pytest.mark.parametrize("check", OF_TRANSFORMERS)
@pytest.mark.parametrize("learner", [pm.LDA(), pm.PairLDA()], ids=repr)
def test_the_choice_takes_all_kinds_of_data(learner, check):
    check(type(learner).__name__, clone(learner))


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_no_learning_is_the_euclidean_distance_of_standardized_points(learner):
    model = clone(learner).set_params(prior_strength=np.inf).fit(X, y)
    M = model.get_mahalanobis_matrix() * np.outer(X.std(0), X.std(0))
    np.testing.assert_allclose(M / M[0, 0], np.eye(13), atol=1e-5)


def test_a_given_rank_is_kept_even_if_nothing_is_learned():
    rng = np.random.default_rng(0)
    Z, labels = rng.standard_normal((30, 6)), np.arange(30) % 3
    assert pm.LDA(2).fit(Z, labels).components_.shape == (2, 6)
    chosen = pm.LDA().fit(Z, labels)
    assert chosen.prior_strength_ == np.inf
    assert chosen.components_.shape == (6, 6)


@pytest.mark.parametrize("learner", OF_PAIRS, ids=repr)
def test_pairs_handed_in_choose_no_prior_and_count_for_a_number(learner):
    few, labels = X[::4], y[::4]
    pairs = all_pairs(few, labels)
    rows = few[np.stack([pairs.i, pairs.j], 1)]
    assert clone(learner).fit_pairs(rows, pairs.y).prior_strength_ == 0
    s = 10 * len(pairs.y) / len(few)
    handed = clone(learner).set_params(prior_strength=s).fit_pairs(rows, pairs.y)
    learned = clone(learner).set_params(prior_strength=10).fit(few, labels)
    np.testing.assert_allclose(
        handed.get_mahalanobis_matrix(), learned.get_mahalanobis_matrix(), rtol=1e-5
    )
