"""How ``LCA`` chooses its prior: folds, no learning, evidence."""

import pickle

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_random_state

from probmetric.data.containers import Labeled
from probmetric.data.hash import canonical_order
from probmetric.data.pairs import nearest_pairs
from probmetric.estimators.lca import tuning as lca_tuning
from probmetric.estimators.lca.estimator import LCA
from probmetric.estimators.lca.posterior import drawable
from probmetric.neighbors.strength import deal

IRIS_X, IRIS_Y = load_iris(return_X_y=True)
Z_IRIS = (IRIS_X - IRIS_X.mean(0)) / IRIS_X.std(0)


@pytest.fixture(scope="module")
def by_folds():
    """Return a fit whose prior folds chose."""
    return LCA(regularization="cv", standardize=False).fit(Z_IRIS[::3], IRIS_Y[::3])


def within(X, y):
    """Return S, the covariance within classes, as it is documented."""
    spread = X - np.array([X[y == c].mean(0) for c in y])
    S = len(X) * ledoit_wolf(spread, assume_centered=True)[0]
    return S + np.eye(X.shape[1]) * np.mean(spread**2)


def prior_mean(X, y, power):
    """Return S^(-g/2), scaled so that half of the target pairs are nearer than 1."""
    A = fractional_matrix_power(within(X, y), -power / 2)
    pairs = nearest_pairs(X, y)
    same = pairs.y == 1
    delta = (X[pairs.i[same]] - X[pairs.j[same]]) @ A
    squared = np.sum(delta**2, 1)
    return A / np.sqrt(np.median(squared[squared > 0]))


@pytest.mark.long
def test_the_choice_is_that_of_a_loop_over_folds_and_settings(by_folds):
    """Prior means and votes are computed here by other code."""
    X, y = Z_IRIS[::3], IRIS_Y[::3]
    fold = deal(X, y, 4, check_random_state(0).randint(2**31))
    found = {}
    settings = [(g, lam) for g in (0, 0.5, 1) for lam in (np.inf, 10.0, 3.0)]
    for g, lam in settings:
        right = []
        for k in range(4):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            train = train[canonical_order(X[train], y[train])]  # Breaks ties of votes.
            W0 = prior_mean(X[train], y[train], g)
            if np.isinf(lam):
                A, B = X[train] @ W0.T, X[test] @ W0.T
            else:
                fit = LCA(prior_mean=W0, regularization=lam, standardize=False).fit(
                    X[train], y[train]
                )
                A, B = fit.transform(X[train]), fit.transform(X[test])
            right.append(
                [
                    KNeighborsClassifier(k).fit(A, y[train]).score(B, y[test])
                    for k in (1, 3, 5, 7)
                ]
            )
        found[g, lam] = np.mean(right), np.mean(right, 0)[1]
    name = {0: "identity", 0.5: "half_within", 1: "within"}
    table = by_folds.choices_
    made = {choice[:2]: choice[3:] for choice in table}
    assert len({round(a, 6) for a, _ in found.values()}) > 3  # They do differ.
    assert len(made) == len(found)
    for (g, lam), wanted in found.items():
        np.testing.assert_allclose(made[name[g], lam], wanted, atol=1e-9)
    order = [(-round(c.accuracy, 9), -round(c.accuracy_3nn, 9)) for c in table]
    assert order == sorted(order)
    chosen = by_folds.prior_mean_, by_folds.regularization_, by_folds.n_refresh_
    assert chosen == table[0][:3]


def test_a_mean_asked_for_is_tried_with_more_settings_and_many_points_with_more():
    recipe = lca_tuning.Recipe(n_components=4)
    tried = lca_tuning.settings_for(recipe, 1000, 4)
    assert tried == (("identity", "half_within", "within"), (10, 3), (1,))
    of_pca = lca_tuning.settings_for(recipe._replace(n_components=2), 1001, 4)
    assert of_pca[:2] == (("pca", "half_within", "within"), (100, 30, 10, 3))
    of_all = recipe._replace(pairs="all")
    assert lca_tuning.settings_for(of_all, 1000, 4).refreshes == (0,)
    for mean in ("identity", np.eye(4)):
        one = lca_tuning.settings_for(recipe._replace(prior_mean=mean), 1000, 4)
        assert one.means[0] is mean
        assert one[1:] == ((30, 10, 3, 1), (0, 1))


@pytest.fixture(scope="module")
def stretched():
    """Return classes apart along the direction of least spread within them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)) @ np.diag([9.0, 3, 1, 0.3])
    y = np.arange(90) % 3
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return (X + 0.9 * y[:, None] * np.eye(4)[3]) @ turn, y


@pytest.mark.long
def test_a_chosen_prior_mean_is_used_by_all_that_fits_again(stretched):
    X, y = stretched
    chosen = LCA(regularization="cv").fit(X, y)
    assert chosen.prior_mean_ in ("within", "half_within")
    plain = LCA(regularization="cv", prior_mean="identity").fit(X, y)
    assert {choice.prior_mean for choice in plain.choices_} == {"identity"}
    again = LCA(
        prior_mean=chosen.prior_mean_,
        regularization=chosen.regularization_,
        n_refresh=chosen.n_refresh_,
    ).fit(X, y)
    assert not again.choices_
    np.testing.assert_array_equal(chosen.components_, again.components_)
    loaded = pickle.loads(pickle.dumps(chosen))
    assert drawable(loaded)[1].prior_mean == drawable(again)[1].prior_mean


@pytest.mark.long
@pytest.mark.parametrize("name", ["within", "half_within"])
def test_the_prior_mean_by_name_is_that_of_a_matrix(stretched, name):
    X, y = stretched
    X = (X - X.mean(0)) / X.std(0)
    W0 = prior_mean(X, y, 1 if name == "within" else 0.5)
    named = LCA(prior_mean=name, standardize=False).fit(X, y)
    given = LCA(prior_mean=W0, standardize=False).fit(X, y)
    for one, two in zip(named.fitted_.prior, given.fitted_.prior, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10)
    np.testing.assert_allclose(named.components_, given.components_, rtol=1e-6)
    weaker = LCA(prior_mean=name, regularization="evidence").fit(X, y)
    assert weaker.regularization_ in lca_tuning.EVIDENCE_GRID


def test_folds_choose_no_learning_where_labels_are_noise():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(80, 2)), np.tile([0, 1], 40)
    data, recipe = Labeled(X, y), lca_tuning.Recipe(n_components=2)
    table = lca_tuning.choose_by_folds(data, recipe)
    unlearned = next(c for c in table if np.isinf(c.lam))
    fitted = lca_tuning.unlearned(data, recipe)
    pairs, prior = fitted.pairs, fitted.prior
    assert unlearned.n_refresh == 0
    np.testing.assert_array_equal(fitted.fit.params.W, prior.mean)
    # At the optimum over b alone a step either way is worse, by either formula.
    rate = lca_tuning.rate_for(pairs, recipe)
    delta = (X[pairs.i] - X[pairs.j]) @ prior.mean.T

    def value(log_b):
        b = np.exp(log_b)
        t = b + 0.5 * np.exp(-b) * np.sum(delta**2, 1)  # p = 2: τ² = e^b
        log_p = np.where(pairs.y == 1, -t, np.log(-np.expm1(-t)))
        return rate * np.sum(log_p) + log_b - b

    best = np.log(np.log1p(2 * np.exp(fitted.fit.params.log_sigma2)))
    assert value(best) > max(value(best - 0.01), value(best + 0.01))
