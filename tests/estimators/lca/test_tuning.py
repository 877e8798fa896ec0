"""How ``LCA`` chooses λ: folds, no learning, evidence."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.neighbors import KNeighborsClassifier

from probmetric.data.pairs import nearest_pairs
from probmetric.estimators.lca import tuning as lca_tuning
from probmetric.estimators.lca.estimator import LCA

WINE_X, WINE_Y = load_wine(return_X_y=True)
IRIS_X, IRIS_Y = load_iris(return_X_y=True)
Z_IRIS = (IRIS_X - IRIS_X.mean(0)) / IRIS_X.std(0)


@pytest.mark.long
def test_folds_choose_the_setting_of_best_held_out_accuracy():
    X, y = Z_IRIS[::3], IRIS_Y[::3]
    fitted = LCA(regularization="cv", standardize=False).fit(X, y)
    table = lca_tuning.choose_by_folds(X, y, lca_tuning.Recipe(n_components=4))
    assert len(table) == 1 + 2 * len(lca_tuning.GRID)
    assert table[0].accuracy == max(choice.accuracy for choice in table)
    assert fitted.regularization_ == table[0].lam
    assert fitted.n_refresh_ == table[0].n_refresh


def test_fold_accuracy_equals_scikit_learns():
    codes = IRIS_Y[::2]
    made = lca_tuning.accuracies(Z_IRIS[::2], codes, Z_IRIS[1::2], IRIS_Y[1::2])
    wanted = [
        KNeighborsClassifier(k)
        .fit(Z_IRIS[::2], codes)
        .score(Z_IRIS[1::2], IRIS_Y[1::2])
        for k in lca_tuning.NEIGHBORS
    ]
    np.testing.assert_allclose(made, wanted)


def test_folds_choose_no_learning_where_labels_are_noise():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(80, 2)), np.tile([0, 1], 40)
    table = lca_tuning.choose_by_folds(X, y, lca_tuning.Recipe(n_components=2))
    unlearned = next(c for c in table if np.isinf(c.lam))
    pairs = nearest_pairs(X, y)
    recipe = lca_tuning.Recipe(n_components=2)
    prior = lca_tuning.prior_for(pairs, recipe, np.inf)
    fitted = lca_tuning.unlearned(pairs, prior, recipe)
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


def test_evidence_chooses_from_its_grid():
    fitted = LCA(regularization="evidence").fit(IRIS_X, IRIS_Y)
    assert fitted.regularization_ in lca_tuning.EVIDENCE_GRID
