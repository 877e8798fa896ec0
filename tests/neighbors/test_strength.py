"""The strength of a prior chosen by votes in folds: the votes, the folds, the rule."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import probmetric as pm
from probmetric.inference.choose import choose_strength
from probmetric.neighbors import strength
from probmetric.neighbors.strength import by_class
from probmetric.neighbors.votes import BANDWIDTHS
from tests.oracles import loo_log_score

X, y = pm.datasets.load("iris")
rng = np.random.default_rng(0)


def unlearned(rows):
    """Learn nothing, whatever the strength."""
    return [np.eye(4)] * len(strength.STRENGTHS)


def test_distances_by_a_product_are_sums_of_squared_differences():
    A = rng.standard_normal((30, strength.WIDE)) + 1e3
    A[10:20] = A[:10]
    D = strength.squares(A[5:], A)
    np.testing.assert_allclose(D, cdist(A[5:], A, "sqeuclidean"), rtol=1e-11)
    own = strength.squares(A, A)  # By one triangle of the product.
    np.testing.assert_allclose(own, cdist(A, A, "sqeuclidean"), rtol=1e-11)
    assert (np.diagonal(D, 5) == 0).all()  # Also for duplicates.
    assert (np.sum(D == 0, 1) == np.r_[[2] * 15, [1] * 10]).all()


@pytest.mark.parametrize("duplicates", [0, 30])
def test_losses_are_those_of_the_classifier(duplicates):
    L = rng.standard_normal((3, 4))
    A, a = np.vstack([X[::2], *[X[:1]] * duplicates]), y[::2]
    a = np.append(a, np.zeros(duplicates, int))
    ours = strength.map_losses(L, A, a, X[1::2], y[1::2])
    for b, losses in zip(BANDWIDTHS, ours, strict=True):
        knn = pm.KNeighborsClassifier(
            pm.Mahalanobis(L), 5, bandwidth=b, sharpness=1.0
        ).fit(A, a)
        P = knn.predict_proba(X[1::2])[np.arange(75), y[1::2]]
        np.testing.assert_allclose(losses, -np.log(P), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 3])
def test_tuned_losses_have_the_bandwidth_of_best_leave_one_out_score(rows):
    L, A, a = rng.standard_normal((rows, 4)), X[::3], y[::3]
    metric = pm.Mahalanobis(L)
    D, s = np.asarray(metric.pairwise(A, A))[None], strength.reach(A @ L.T)
    scores = [loo_log_score(D, a, 3, h=[b * s], share=0.02) for b in BANDWIDTHS]
    best = BANDWIDTHS[int(np.argmax(scores))]
    knn = pm.KNeighborsClassifier(metric, 5, bandwidth=best, sharpness=1.0).fit(A, a)
    P = knn.predict_proba(X[1::2])[np.arange(75), y[1::2]]
    ours = strength.tuned_losses(L, A, a, X[1::2], y[1::2])
    np.testing.assert_allclose(ours[0], -np.log(P), rtol=1e-9, atol=1e-12)


def test_voters_that_are_surer_than_new_points_choose_a_bandwidth_that_costs_these():
    """On a line voters lie on their class's side, new points on either."""
    A, a = np.linspace(0, 1, 20)[:, None], np.repeat([0, 1], 10)
    Q, own = np.linspace(0, 1, 40)[:, None], np.arange(40) % 2
    best = strength.map_losses(np.eye(1), A, a, Q, own).mean(1).min()
    paid = strength.tuned_losses(np.eye(1), A, a, Q, own).mean()
    assert paid > best + 0.5
    # The control: new points that lie as the voters do.
    near = strength.map_losses(np.eye(1), A, a, A + 0.01, a).mean(1).min()
    assert strength.tuned_losses(np.eye(1), A, a, A + 0.01, a).mean() < near + 0.05


def test_who_is_alone_in_a_class_is_not_scored():
    lost = strength.map_losses(np.eye(4), X[:100], y[:100], X[[7, 120]], y[[7, 120]])
    assert np.all(lost[:, 0] > 0)
    assert np.all(lost[:, 1] == 0)


def test_small_classes_are_in_as_many_folds_as_they_have_members():
    codes = np.repeat([0, 1, 2, 3], [2, 40, 3, 5])
    points = rng.standard_normal((50, 2))
    fold = np.empty(50, int)
    fold[by_class(points, codes, 0)] = np.arange(50) % strength.N_FOLDS
    for c in (0, 2, 3):
        assert len(set(fold[codes == c])) == np.sum(codes == c)
    assert np.bincount(fold[codes == 1]).tolist() == [8] * 5


def test_folds_follow_points_and_neither_their_order_nor_the_names_of_classes():
    order = rng.permutation(len(X))
    names = np.array([2, 0, 1])
    plain = by_class(X, y, 1)
    moved = by_class(X[order], names[y[order]], 1)
    np.testing.assert_array_equal(X[order][moved], X[plain])
    assert not np.array_equal(X[by_class(X, y, 2)], X[plain])


def test_each_strength_learns_from_all_points_but_a_fold():
    seen = []
    choose_strength(lambda rows: seen.append(rows) or unlearned(rows), X, y)
    assert len(seen) == strength.N_FOLDS * strength.N_REPEATS
    for part in np.split(np.array([len(X) - len(rows) for rows in seen]), 3):
        assert part.sum() == len(X)
    left_out = [np.setdiff1d(np.arange(len(X)), rows) for rows in seen[:5]]
    np.testing.assert_array_equal(np.sort(np.concatenate(left_out)), np.arange(len(X)))


def test_of_many_points_a_thousand_vote():
    many, codes = rng.standard_normal((1500, 4)), rng.integers(0, 3, 1500)
    learned, asked = [], []

    def counted(factor, X, codes, Q, own):
        asked.append((len(X), len(Q)))
        return np.zeros((1, len(Q)))

    def learn(rows):
        learned.append(len(rows))
        return [np.eye(4)]

    choose_strength(learn, many, codes, (1.0,), losses=counted)
    assert learned == [1200] * 5
    assert {kept + out for kept, out in asked} == {1000}
    assert sum(out for _, out in asked) == 1000


def losses_of(*means, spread=1.0, n=100):
    """Return losses of strengths at one bandwidth, by a common and an own part."""
    draw = np.random.default_rng(1).standard_normal((len(means), 1, n))
    draw -= draw.mean(2, keepdims=True)
    return np.array(means)[:, None, None] + spread * draw


def test_the_strongest_within_half_a_standard_error_is_chosen():
    names = (np.inf, 16.0, 1.0)
    # Differences have a standard deviation of about √2, their mean one of .14.
    assert strength.strongest(losses_of(1.05, 1.02, 1.0), names)[0] == np.inf
    assert strength.strongest(losses_of(1.09, 1.05, 1.0), names)[0] == 16.0
    assert strength.strongest(losses_of(1.09, 1.08, 1.0), names)[0] == 1.0
    sure = losses_of(1.05, 1.02, 1.0, spread=0.01)
    assert strength.strongest(sure, names)[0] == 1.0


def test_equals_take_the_strongest_and_learn_nothing():
    assert choose_strength(unlearned, X, y).strength == np.inf


def test_a_strength_that_fails_in_a_fold_is_not_chosen():
    fails = iter([None] + [np.eye(4)] * 100)
    found = choose_strength(
        lambda rows: [next(fails), np.eye(4)], X, y, strengths=(np.inf, 4.0)
    )
    assert found.strength == 4.0
    assert np.isinf(found.losses[0])
    none = choose_strength(lambda rows: [None, None], X, y, strengths=(np.inf, 4.0))
    assert none.strength == 4.0


def thin(n, seed):
    """Classes that differ in one direction, among four that vary ten times as much."""
    draw = np.random.default_rng(seed)
    y = np.arange(n) % 2
    Z = draw.standard_normal((n, 5)) * [1, 10, 10, 10, 10]
    Z[:, 0] += 6 * y
    return Z @ np.linalg.qr(draw.standard_normal((5, 5)))[0], y


@pytest.mark.parametrize("kind", [pm.LDA, pm.PairLDA])
def test_what_can_be_learned_is(kind):
    assert kind().fit(*thin(150, 0)).prior_strength_ <= 16


@pytest.mark.parametrize("kind", [pm.LDA, pm.PairLDA])
def test_labels_without_meaning_teach_little(kind):
    Z = np.random.default_rng(0).standard_normal((60, 15))
    assert kind().fit(Z, np.arange(60) % 2).prior_strength_ >= 256


def test_the_tolerance_is_in_standard_errors_of_the_paired_differences():
    """Each point loses q more without learning; the mean q is .75 standard errors."""
    q = np.random.default_rng(2).standard_normal(50)
    q = (q - q.mean()) / q.std(ddof=1) + 0.75 / np.sqrt(50)

    def lost(factor, X, codes, Q, own):
        return np.tile(factor * Q[:, 0], (len(BANDWIDTHS), 1))

    given = lambda rows: [1.0, 0.0], q[:, None], np.arange(50) % 2, (np.inf, 4.0)
    assert choose_strength(*given, losses=lost).strength == 4.0
    assert choose_strength(*given, losses=lost, tolerance=1).strength == np.inf
    assert choose_strength(*given, losses=lost, tolerance=0.7).strength == 4.0
