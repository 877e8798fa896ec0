"""P(same) of learners: class probabilities after labels, a link for new classes."""

import pickle
from functools import cache, partial

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression

import probmetric as pm
from probmetric.data.hash import canonical_order
from probmetric.estimators import _same
from tests.dump import assert_refused

RNG = np.random.default_rng(11)
CENTERS = 2.0 * RNG.normal(size=(8, 3))
Y = np.repeat([f"c{k}" for k in range(8)], 6)
X = np.repeat(CENTERS, 6, 0) + RNG.normal(size=(48, 3))
Q = np.repeat(CENTERS, 2, 0) + RNG.normal(size=(16, 3))
PAIRS = np.stack([Q[:8], Q[8:]], 1)
METRICS = {
    "LCA": lambda: pm.LCA(max_iter=50),
    "RCA": lambda: pm.RCA(prior_strength=4),
    "PairLDA": lambda: pm.PairLDA(prior_strength=4),
    "TripletMetric": pm.TripletMetric,
}
CLASSIFIERS = {
    "GaussianClasses": pm.GaussianClasses,
    "GLML": lambda: pm.GLML(gamma=1, n_draws=0),
    "LCAClassifier": lambda: pm.LCAClassifier(regularization=10, prior_scale=2),
}


@cache
def fitted(name):
    return (METRICS | CLASSIFIERS)[name]().fit(X, Y)


@pytest.mark.long
@pytest.mark.parametrize("name", METRICS)
def test_metric_learners_use_the_votes_of_their_rows(name):
    model = fitted(name)
    knn = pm.KNeighborsClassifier(model.get_metric()).fit(X, Y)
    ends = np.r_[PAIRS, np.stack([Q[:8], X[::6]], 1), np.stack([X[:8], X[8:16]], 1)]
    np.testing.assert_allclose(
        model.same_probability(ends), knn.same_probability(ends), rtol=1e-12
    )
    P = knn.predict_proba(Q)
    np.testing.assert_allclose(
        model.same_probability(PAIRS), np.sum(P[:8] * P[8:], 1), rtol=1e-12
    )


@pytest.mark.long
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_use_predict_proba(name):
    model = fitted(name)
    P = model.predict_proba(Q)
    np.testing.assert_allclose(
        model.same_probability(PAIRS), np.sum(P[:8] * P[8:], 1), rtol=1e-9
    )
    known = model.same_probability(PAIRS, labels=["c3"] * 8)
    np.testing.assert_allclose(known, P[:8, 3], rtol=1e-9)
    beside = model.same_probability(np.stack([X[18:26], Q[:8]], 1))
    at = np.searchsorted(model.classes_, Y[18:26])
    np.testing.assert_allclose(beside, P[np.arange(8), at], rtol=1e-9)


def test_the_votes_are_made_at_the_first_call_and_forgotten_by_a_fit():
    model = METRICS["RCA"]().fit(X, Y)
    assert "_classifiers" not in vars(model)
    stored = pickle.loads(pickle.dumps(model))
    P = model.same_probability(PAIRS)
    np.testing.assert_array_equal(stored.same_probability(PAIRS), P)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.same_probability(PAIRS), P)
    again = METRICS["RCA"]().fit(X[::2], Y[::2]).same_probability(PAIRS)
    np.testing.assert_array_equal(
        model.fit(X[::2], Y[::2]).same_probability(PAIRS), again
    )
    assert np.abs(again - P).max() > 1e-3


def test_pairs_of_a_preprocessor_are_looked_up():
    points = np.r_[X, Q]
    model = pm.RCA(prior_strength=4, preprocessor=points).fit(np.arange(48), Y)
    ends = np.stack([np.arange(48, 56), np.arange(56, 64)], 1)
    np.testing.assert_allclose(
        model.same_probability(ends), fitted("RCA").same_probability(PAIRS), rtol=1e-9
    )


@pytest.mark.long
def test_groups_vote_under_their_own_metric():
    site = np.tile([0, 1], 24)
    model = pm.HierarchicalLCA(spread=0.5, max_iter=50).fit(X, Y, groups=site)
    rows = site == 1
    knn = pm.KNeighborsClassifier(model.get_metric(group=1)).fit(X[rows], Y[rows])
    np.testing.assert_allclose(
        model.same_probability(PAIRS, [1] * 8), knn.same_probability(PAIRS), rtol=1e-9
    )
    knn = pm.KNeighborsClassifier(model.get_metric()).fit(X, Y)
    labels = ["c1"] * 8
    np.testing.assert_allclose(
        model.same_probability(PAIRS, labels=labels),
        knn.same_probability(PAIRS, labels),
        rtol=1e-9,
    )


def test_the_probability_is_calibrated_for_gaussian_classes():
    # The truth: Bayes' rule with the densities. Seeds are fixed.
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    y, new = rng.integers(0, 3, 600), rng.integers(0, 3, 400)
    A, B = (means[c] + rng.normal(size=(len(c), 2)) for c in (y, new))
    model = pm.RCA(prior_strength=1).fit(A, y)
    made = model.same_probability(np.stack([B[:200], B[200:]], 1))
    density = np.stack([multivariate_normal(m).pdf(B) for m in means], 1)
    truth = density / density.sum(1, keepdims=True)
    truth = np.sum(truth[:200] * truth[200:], 1)
    assert np.abs(made - truth).mean() < 0.06
    assert abs(made.mean() - truth.mean()) < 0.02
    same = new[:200] == new[200:]
    assert abs(made.mean() - same.mean()) < 4 * np.sqrt(0.25 / 200)  # False alarm 6e-5.


# -- new classes


@pytest.mark.parametrize("name", ["RCA", pytest.param("LCA", marks=pytest.mark.long)])
def test_the_link_of_new_classes_is_fitted_to_pairs_of_classes_left_out(name):
    model = fitted(name)
    made = model.same_probability(PAIRS, new_classes=True, prior_odds=1 / 9)
    codes = np.unique(Y, return_inverse=True)[1]
    fold = np.empty(8, int)
    fold[np.random.default_rng(0).permutation(8)] = np.arange(8) % 4
    x, same = [], []
    for k in range(4):
        rest = fold[codes] != k
        settings = {"prior_strength": 4} if name == "RCA" else {
            "max_iter": 50,
            "regularization": model.regularization_,
            "prior_mean": model.prior_mean_,
            "learning_rate": model.learning_rate_,
        }  # fmt: skip
        L = type(model)(**settings).fit(X[rest], Y[rest]).components_
        out = np.flatnonzero(~rest)
        for a, i in enumerate(out):
            for j in out[a + 1 :]:
                x.append(np.log(np.sum((L @ (X[i] - X[j])) ** 2)))
                same.append(codes[i] == codes[j])
    x, same = np.array(x), np.array(same)
    n1, n0 = same.sum(), (~same).sum()
    t = np.where(same, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    peer = LogisticRegression(C=np.inf, tol=1e-10).fit(
        np.tile(x, 2)[:, None], np.repeat([1, 0], len(x)), np.r_[t, 1 - t]
    )
    new = 2 * np.log(model.pair_distance(PAIRS))[:, None]
    odds = peer.decision_function(new) + np.log(1 / 9) - np.log(n1 / n0)
    np.testing.assert_allclose(made, 1 / (1 + np.exp(-odds)), rtol=1e-5)
    assert np.all(np.diff(made[np.argsort(model.pair_distance(PAIRS))]) <= 0)


def test_rows_of_a_fold_are_a_sample_that_does_not_depend_on_their_order(monkeypatch):
    monkeypatch.setattr(_same, "MOST_ROWS", 5)
    order = canonical_order(X)[::-1]
    made = [
        METRICS["RCA"]().fit(X[rows], Y[rows])
        .same_probability(PAIRS, new_classes=True, prior_odds=1.0)
        for rows in (np.arange(48), order)
    ]  # fmt: skip
    np.testing.assert_allclose(*made, rtol=1e-9)


# -- errors


ERRORS = {
    "odds": {"new_classes": True},
    "not new": {"prior_odds": 0.1},
    "zero": {"new_classes": True, "prior_odds": 0.0},
    "labels": {"labels": ["d"] * 8},
    "new labels": {"labels": ["c0"] * 8, "new_classes": True, "prior_odds": 1.0},
}


def test_wrong_arguments_raise():
    ask = partial(fitted("RCA").same_probability, PAIRS)
    calls = {name: partial(ask, **options) for name, options in ERRORS.items()}
    assert_refused(calls, "estimators/same.txt")


def test_other_fits_raise():
    few = pm.RCA(prior_strength=4).fit(X[:18], Y[:18])
    ends = np.stack([X[:-6], X[6:]], 1)
    close = np.arange(42) % 2
    learned = pm.PairLDA(prior_strength=4).fit_pairs(ends, close)
    lca = pm.LCA(max_iter=50).fit(X, Y).fit_pairs(ends, close)
    D = lca.pair_distance(PAIRS) ** 2
    wanted = np.exp(-(lca.intercept_ + D / 2))
    np.testing.assert_allclose(lca.same_probability(PAIRS), wanted, rtol=1e-9)
    calls = [
        lambda: few.same_probability(PAIRS, new_classes=True, prior_odds=1.0),
        lambda: fitted("GaussianClasses").same_probability(
            PAIRS, new_classes=True, prior_odds=1.0
        ),
        lambda: learned.same_probability(PAIRS),
        lambda: lca.same_probability(PAIRS, labels=["c0"] * 8),
    ]
    assert_refused(calls, "estimators/same_fits.txt")
