"""Groups of rows that are not independent: pairs, folds, refits and links."""

from functools import partial

import numpy as np
import pytest

import probmetric as pm
from probmetric.data.pairs import nearest_pairs
from probmetric.estimators.lca import tuning
from probmetric.neighbors.strength import deal
from probmetric.posterior import jackknife
from tests.dump import assert_refused


@pytest.fixture(scope="module")
def clouds():
    """24 points of four classes; each twice, with its number as its group."""
    rng = np.random.default_rng(4)
    y = np.repeat([0, 1, 2, 3], 6)
    X = (
        rng.normal(size=(24, 3)) @ [[1, 0.5, 0], [0, 1, 0], [0, 0, 2]]
        + 1.5 * y[:, None]
    )
    return X, y, np.repeat(np.arange(24), 2)


def twice(X, y):
    return np.repeat(X, 2, 0), np.repeat(y, 2)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.long),
        {"pairs": "all", "prior_mean": 0.5},
        {"prior_mean": 0.5},
    ],
    ids=str,
)
def test_copies_in_groups_do_not_change_the_fit(clouds, settings):
    X, y, group = clouds
    once = pm.LCA(**settings).fit(X, y)
    copied = pm.LCA(**settings).fit(*twice(X, y), groups=group)
    # The optimizer stops at a gain, so the last digits depend on the order of sums.
    np.testing.assert_allclose(copied.components_, once.components_, atol=1e-6)
    assert copied.prior_mean_ == once.prior_mean_
    assert copied.regularization_ == once.regularization_
    apart = pm.LCA(**settings).fit(*twice(X, y))
    assert np.abs(apart.components_ - once.components_).max() > 0.01


def test_the_fit_does_not_depend_on_the_order_of_rows(clouds):
    X, y, _ = clouds
    group = np.random.default_rng(0).integers(0, 12, 24)
    order = np.random.default_rng(1).permutation(24)
    one = pm.LCA(regularization=3).fit(X, y, groups=group)
    other = pm.LCA(regularization=3).fit(X[order], y[order], groups=group[order])
    np.testing.assert_allclose(other.components_, one.components_, atol=1e-6)


def test_copies_in_groups_do_not_change_intervals(clouds, monkeypatch):
    monkeypatch.setattr(jackknife, "REPEATS", 1)
    X, y, group = clouds
    learner = pm.LCA(prior_mean=0.5, regularization=3)
    wanted = learner.fit(X, y).posterior_metric("intervals").interval(X[:6], X[6:12])
    learner.fit(*twice(X, y), groups=group)
    found = learner.posterior_metric("intervals").interval(X[:6], X[6:12])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_neighbors_are_the_nearest_rows_of_the_nearest_other_groups(clouds):
    X, y, _ = clouds
    group = np.random.default_rng(3).integers(0, 9, 24)
    pairs = nearest_pairs(X, y, k=2, m=3, groups=group)
    found = {}
    for i, j, same in zip(pairs.i, pairs.j, pairs.y, strict=True):
        found.setdefault((int(i), int(same)), []).append(int(j))
    for i in range(24):
        for same, most in ((1, 2), (0, 3)):
            seen, wanted = {group[i]}, []
            for j in np.argsort(np.sum((X - X[i]) ** 2, 1)):
                if (y[j] == y[i]) == same and group[j] not in seen:
                    seen.add(group[j])
                    wanted.append(int(j))
            assert found.get((i, same), []) == wanted[:most]


def test_folds_hold_groups_together_and_ignore_copies(clouds):
    X, y, group = clouds
    np.testing.assert_array_equal(
        deal(*twice(X, y), 5, 1, groups=group), np.repeat(deal(X, y, 5, 1), 2)
    )
    mixed = np.random.default_rng(2).integers(0, 8, 24)
    fold = deal(X, y, 4, 0, groups=mixed)
    assert len(np.unique(np.stack([mixed, fold]), axis=1).T) == len(np.unique(mixed))


def test_no_fold_of_cv_is_scored_on_copies_of_its_rows(clouds, monkeypatch):
    X, y, group = clouds
    shared = []

    def score(train, test, recipe, tried):
        shared.append(len({*map(tuple, train.X)} & {*map(tuple, test.X)}))
        return {(0, np.inf, 0): np.zeros(4)}

    monkeypatch.setattr(tuning, "_score_fold", score)
    learner = pm.LCA(regularization="cv", prior_mean="identity")
    learner.fit(*twice(X, y), groups=group)
    assert shared == [0] * 4
    learner.fit(*twice(X, y))
    assert min(shared[4:]) > 0


def test_rows_that_are_left_out_have_no_group(clouds):
    X, y, group = clouds
    rows, labels = twice(X, y)
    labels = np.where(np.arange(48) < 2, -1, labels)
    some = pm.LCA(unlabeled=-1, regularization=3, prior_mean=0.5)
    some.fit(rows, labels, groups=group)
    fewer = pm.LCA(regularization=3, prior_mean=0.5).fit(X[1:], y[1:])
    np.testing.assert_allclose(some.components_, fewer.components_, atol=1e-6)
    w = (np.arange(48) >= 2) * 1.0
    fewer = pm.LCA(regularization=3, prior_mean=0.5)
    fewer.fit(*twice(X, y), groups=group, sample_weight=w)
    np.testing.assert_allclose(some.components_, fewer.components_, atol=1e-6)


def test_the_link_of_new_classes_has_no_pairs_within_groups(clouds):
    X, y, group = clouds
    pairs = np.stack([X[:9], X[9:18]], 1)
    learner = pm.LCA(regularization=3, prior_mean=0.5)
    once = learner.fit(X, y).same_probability(pairs, new_classes=True, prior_odds=1.0)
    learner.fit(*twice(X, y), groups=group)
    copied = learner.same_probability(pairs, new_classes=True, prior_odds=1.0)
    # The link has a weak prior, which counts less next to four times as many pairs.
    np.testing.assert_allclose(copied, once, atol=0.02)


SETTINGS = [
    {"pairs": "impostors"},
    {"n_anchors": 9},
    {"n_components": "cv"},
]


def test_settings_that_do_not_support_groups_raise(clouds):
    X, y, group = clouds
    X, y = twice(X, y)
    calls = [partial(pm.LCA(**how).fit, X, y, groups=group) for how in SETTINGS]
    assert_refused(calls, "estimators/lca_group_settings.txt")


def test_groups_that_cannot_be_used_raise(clouds):
    X, y, group = clouds
    lca = pm.LCA(prior_mean=0.5).fit(*twice(X, y), groups=group)
    calls = [
        lambda: pm.LCA().fit(X, y, groups=group),
        lambda: pm.LCA().fit(X, y, groups=y),
        lambda: pm.LCA().fit(X.reshape(12, 2, 3), y[:12] > 0, groups=y[:12]),
        lambda: lca.posterior_metric("prediction"),
    ]
    assert_refused(calls, "estimators/lca_groups.txt")
