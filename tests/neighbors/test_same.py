"""P(same class) from votes: by hand, by brute force, and equal to ``predict_proba``."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.neighbors.voting import with_votes

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 3)) + np.repeat([[0, 0, 0], [1, 1, 0]], 20, 0)
Y = np.repeat(["a", "b"], 20)
Q = RNG.normal(size=(8, 3)) + 0.5
METRIC = pm.Mahalanobis(np.diag([1.0, 0.5, 2.0])[:2])


def pairs_of(A, B):
    return np.stack([A, B], 1)


def fitted(**settings):
    return pm.KNeighborsClassifier(METRIC, **settings).fit(X, Y)


def left_out_by_hand(knn, i):
    """Eqs. (1), (3) and (4) of ``neighbors.votes`` for row i, without row i."""
    rest = np.arange(len(X)) != i
    D = np.sum(((X[rest] - X[i]) @ METRIC.factor.T) ** 2, 1)
    w = np.exp(-(D - D.min()) / (2 * knn.bandwidth_ * knn.scale_[0]))
    n = np.array([np.sum(Y[rest] == c) for c in "ab"])
    W = np.array([w[Y[rest] == c].sum() for c in "ab"])
    votes = n * (W / n) ** knn.sharpness_
    a = knn.prior_weight_
    return (1 - a) * votes / votes.sum() + a * n / n.sum()


def test_one_neighbor_on_a_line_by_hand():
    # Nearest: 0 -> 1 (a), 1 -> 0 (a), 3 -> 1 (a), 4 -> 3 (b). Shares are 3/4 and 1/4
    # of one vote and a prior of weight 1, without the row itself.
    line, labels = np.array([[0.0], [1.0], [3.0], [4.5]]), ["a", "a", "b", "b"]
    knn = pm.KNeighborsClassifier(None, 1, votes="count", prior_weight=1.0)
    knn.fit(line, labels)
    new = np.array([[0.1], [4.4]])
    a, b = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    np.testing.assert_allclose(knn.same_probability(pairs_of(new[:1], new[1:])), a @ b)
    # Next to a training row, its label; with labels, the label of the second point.
    ends = pairs_of(new, line[[0, 2]])
    np.testing.assert_allclose(knn.same_probability(ends), [a[0], b[1]])
    known = knn.same_probability(pairs_of(new, new), labels=["b", "a"])
    np.testing.assert_allclose(known, [a[1], b[0]])
    # Two rows: one vote for a and (1, 2)/3 of the prior; one vote for b, and (2, 1)/3.
    first, last = np.array([1 + 1 / 3, 2 / 3]) / 2, np.array([2 / 3, 1 + 1 / 3]) / 2
    made = knn.same_probability([[line[0], line[3]], [line[0], line[0]]])
    np.testing.assert_allclose(made, [first @ last, first @ first])


@pytest.mark.parametrize("votes", ["soft", "count"])
def test_new_points_agree_with_predict_proba(votes):
    knn = fitted(votes=votes)
    P = knn.predict_proba(Q)
    made = knn.same_probability(pairs_of(Q[:4], Q[4:]))
    np.testing.assert_allclose(made, np.sum(P[:4] * P[4:], 1), rtol=1e-12)
    made = knn.same_probability(pairs_of(Q, X[::5]))
    np.testing.assert_allclose(
        made, P[np.arange(8), (Y[::5] == "b").astype(int)], rtol=1e-12
    )
    swapped = knn.same_probability(pairs_of(X[::5], Q))
    np.testing.assert_array_equal(swapped, made)


def test_two_training_rows_are_left_out_one_at_a_time():
    knn = fitted()
    P = np.array([left_out_by_hand(knn, i) for i in range(len(X))])
    made = knn.same_probability(pairs_of(X[:-1], X[1:]))
    np.testing.assert_allclose(made, np.sum(P[:-1] * P[1:], 1), rtol=1e-9)
    # With a known label, the first row uses its votes, not its label.
    known = knn.same_probability(pairs_of(X, X[::-1]), labels=Y[::-1])
    np.testing.assert_allclose(
        known, P[np.arange(40), (Y[::-1] == "b").astype(int)], rtol=1e-9
    )
    # The scores that chose the votes are of the same probabilities.
    own = np.log(P[np.arange(40), (Y == "b").astype(int)]).mean()
    assert np.abs(knn.loo_scores_ - own).min() < 1e-12


def test_equal_rows_of_two_classes_have_the_shares_of_their_labels():
    knn = pm.KNeighborsClassifier().fit(np.r_[X, X[:1], X[:1]], np.r_[Y, ["b", "b"]])
    p = knn.predict_proba(Q[:1])[0]
    made = knn.same_probability([[Q[0], X[0]], [-X[0], -0.0 * X[0]]])
    np.testing.assert_allclose(made[0], p @ [1 / 3, 2 / 3], rtol=1e-12)
    # Probabilities next to a and next to b sum to 1, also of a row that occurs thrice.
    ends = pairs_of(X[[0, 0]], X[[1, 1]])
    assert knn.same_probability(ends, labels=["a", "b"]).sum() == pytest.approx(1)


def test_weights_count_in_the_labels_and_votes_of_equal_rows():
    rows, labels = np.r_[X, X[:1]], np.r_[Y, ["b"]]
    w = np.ones(41)
    w[-1] = 3
    knn = pm.KNeighborsClassifier().fit(rows, labels, sample_weight=w)
    p = knn.predict_proba(Q[:1])[0]
    made = knn.same_probability([[Q[0], X[0]]])
    np.testing.assert_allclose(made, [p @ [1 / 4, 3 / 4]], rtol=1e-12)
    own = knn._probabilities(rows[[0, 40, 5]], np.array([0, 40, 5]))
    both = np.array([1 / 4, 3 / 4]) @ own[:2]
    made = knn.same_probability([[X[0], X[5]]])
    np.testing.assert_allclose(made, [both @ own[2]], rtol=1e-12)


def test_the_order_of_rows_does_not_matter():
    tied, order = np.round(X), RNG.permutation(40)
    ends = pairs_of(np.r_[tied, Q], np.r_[tied[::-1], tied[:8]])
    made = [
        pm.KNeighborsClassifier().fit(tied[rows], Y[rows]).same_probability(ends)
        for rows in (np.arange(40), order)
    ]
    np.testing.assert_allclose(made[0], made[1], atol=1e-9)


@pytest.mark.parametrize(
    ("prior", "weighted"), [(None, True), ({"a": 0.7, "b": 0.3}, False)]
)
def test_stored_votes_are_those_of_the_classifier(tmp_path, prior, weighted):
    w = RNG.uniform(0.1, 4, 40) if weighted else None
    knn = pm.KNeighborsClassifier(METRIC, class_prior=prior)
    knn.fit(X, Y, sample_weight=w)
    pm.save_metric(with_votes(knn), tmp_path / "metric.npz")
    metric = pm.load_metric(tmp_path / "metric.npz")
    A, B = np.r_[Q, X[:8], Q], np.r_[Q[::-1], X[8:16], X[:8]]
    wanted = knn.same_probability(pairs_of(A, B))
    np.testing.assert_allclose(metric.same_probability(A, B), wanted, rtol=1e-9)
    labels = np.repeat(["b"], 24)
    np.testing.assert_allclose(
        metric.same_probability(A, B, labels=labels),
        knn.same_probability(pairs_of(A, B), labels),
        rtol=1e-9,
    )
    np.testing.assert_array_equal(metric.pairwise(A, B), METRIC.pairwise(A, B))
    with pytest.raises(ValueError, match="prior_odds must be None"):
        metric.same_probability(A, B, prior_odds=1.0)
    with pytest.raises(ValueError, match="store-votes"):
        METRIC.same_probability(A, B)
    with pytest.raises(ValueError, match="metric must be a Mahalanobis"):
        with_votes(pm.KNeighborsClassifier(metric).fit(X, Y))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["c"] * 8, "labels must be classes of fit, got 'c'.*new_classes"),
        (["a"] * 7, r"labels must have shape \(8,\), got \(7,\)"),
    ],
)
def test_wrong_labels_raise(labels, message):
    with pytest.raises(ValueError, match=message):
        fitted().same_probability(pairs_of(Q, Q), labels=labels)


def test_base_rates_of_a_stack_shift_the_mixture():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [40, 20])
    X = rng.normal(size=(60, 2)) + y[:, None]
    metrics = [pm.Mahalanobis(np.diag([1.0, s])) for s in (0.0, 1.0)]
    plain, shifted = (
        pm.KNeighborsClassifier(metrics, class_prior=prior).fit(X, y)
        for prior in (None, [0.5, 0.5])
    )
    np.testing.assert_array_equal(plain.weights_, shifted.weights_)
    P = plain.predict_proba(X) * [0.5 / (2 / 3), 0.5 / (1 / 3)]
    np.testing.assert_allclose(shifted.predict_proba(X), P / P.sum(1, keepdims=True))
