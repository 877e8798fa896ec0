"""Votes are what their formula says; leave-one-out is what refits say."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier as Reference

from probmetric.neighbors import KNeighborsClassifier, scan
from probmetric.neighbors import votes as neighbor_votes
from probmetric.neighbors.votes import (
    GRIDS,
    VOTE_TILE,
    neighborhood,
    soft_votes,
)
from probmetric.posterior.metric import PosteriorMetric
from tests.metric_kinds import Wrapped, build, build_euclid
from tests.oracles import loo_log_score, soft_vote_shares, sorted_neighbors


@pytest.fixture
def blobs():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1, 2], 20)
    return rng.normal(size=(60, 3)) + 1.5 * np.eye(3)[y], y


def test_soft_votes_are_their_formula(blobs):
    X, y = blobs
    metric = build("Mahalanobis")
    h = 0.5 * 1.7
    y = np.minimum(y, 1)  # Classes of 20 and 40 points.
    found = soft_votes(
        *([metric], np.array([1.7]), np.array([0.5]), X[:9], X, y, 2),
        sharpness=(1.0, 2.5),
    )[0]
    for shares, t in zip(found, (1.0, 2.5), strict=True):
        expected = soft_vote_shares(metric.pairwise(X[:9], X), y, 2, h, t)
        np.testing.assert_allclose(shares, expected, rtol=1e-10)


def test_a_sharp_vote_of_wide_kernels_is_the_mean_distance_to_the_class(blobs):
    X, y = blobs[0], np.minimum(blobs[1], 1)
    t = 1e4
    knn = KNeighborsClassifier(bandwidth=t, sharpness=t, prior_weight=0.0).fit(X, y)
    D = np.sum((X[:, None] + 0.4 - X) ** 2, 2) / (2 * knn.scale_[0])
    score = np.stack([np.log(np.sum(y == c)) - D[:, y == c].mean(1) for c in (0, 1)], 1)
    expected = np.exp(score) / np.exp(score).sum(1, keepdims=True)
    np.testing.assert_allclose(knn.predict_proba(X + 0.4), expected, rtol=1e-2)


def test_soft_votes_over_several_tiles_are_their_formula():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(VOTE_TILE + 90, 2)), rng.integers(0, 2, VOTE_TILE + 90)
    X[0], X[-1] = 0.01, 0.0  # The nearest point comes in the last tile.
    Q = np.zeros((4, 2))
    found = soft_votes([build_euclid()], np.ones(1), np.array([0.05]), Q, X, y, 2)[0, 0]
    expected = soft_vote_shares(build_euclid().pairwise(Q, X), y, 2, 0.05)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("n", [60, VOTE_TILE + 90])
def test_a_neighborhood_prepares_a_tile_once_and_votes_as_by_itself(monkeypatch, n):
    rng = np.random.default_rng(5)
    X, y, asked = rng.normal(size=(n, 3)), rng.integers(0, 2, n), []
    real = scan.ready_alone
    monkeypatch.setattr(scan, "ready_alone", lambda *a: asked.append(1) or real(*a))
    local = build("LocalMahalanobis")
    metrics = [replace(local, gamma=local.gamma + by) for by in (0.0, 1.0, 3.0)]
    near, found = neighborhood(metrics, X, 4, [0.5, 2.0], y, 2, np.arange(n))
    # One tile serves both; of more the search's and the votes' have other sizes.
    assert len(asked) == (3 if n == 60 else 3 * 3)
    expected = soft_votes(
        metrics, near.scales, np.array([0.5, 2.0]), X, X, y, 2, np.arange(n)
    )
    np.testing.assert_allclose(found, expected[:, :, np.arange(n), y], rtol=1e-12)
    assert near.scales[0] != near.scales[1]
    assert neighborhood(metrics, X, 4, [], y, 2, np.arange(n))[1].shape == (0, 1, n)


def test_a_far_query_gets_the_class_of_its_nearest_point_not_nan(blobs):
    X, y = blobs
    knn = KNeighborsClassifier(bandwidth=0.1, prior_weight=0.0).fit(X, y)
    P = knn.predict_proba([[1e8, 0.0, 0.0], [0.0, -1e140, 0.0]])
    np.testing.assert_allclose(P.sum(1), 1.0, rtol=1e-12)
    nearest_class = y[np.argmax(X[:, 0])]
    assert P[0, nearest_class] == pytest.approx(1.0)


def test_a_shift_per_query_changes_no_probability(blobs):
    X, y = blobs
    plain, moved = (
        KNeighborsClassifier(Wrapped(build_euclid(3), by), sharpness=2.0).fit(X + 3, y)
        for by in (0.0, -50.0)
    )
    # The unshifted kind has its zero, so its scale is another; b makes up for it.
    moved.bandwidth_ *= (
        plain.scale_[0] * plain.bandwidth_ / (moved.scale_[0] * moved.bandwidth_)
    )
    np.testing.assert_allclose(
        moved.predict_proba(X + 3.5), plain.predict_proba(X + 3.5), rtol=1e-7
    )


def test_without_a_zero_the_scale_is_the_gap_between_first_and_kth(blobs):
    X, y = blobs
    knn = KNeighborsClassifier(Wrapped(build_euclid(3), -50.0)).fit(X, y)
    D = sorted_neighbors(np.eye(3), X, X, 5, exclude_self=True)[0]
    assert knn.scale_[0] == pytest.approx(np.median(D[:, 4] - D[:, 0]), rel=1e-9)


@pytest.mark.parametrize("metric", [None, Wrapped(build_euclid(3))])
def test_with_a_zero_the_scale_is_the_kth_dissimilarity(blobs, metric):
    X, y = blobs
    knn = KNeighborsClassifier(metric, n_neighbors=7).fit(X, y)
    D = sorted_neighbors(np.eye(3), X, X, 7, exclude_self=True)[0]
    assert knn.scale_[0] == pytest.approx(np.median(D[:, 6]), rel=1e-12)


def test_duplicates_do_not_make_the_scale_zero():
    X = np.array([[0.0]] * 8 + [[3.0]] * 2)
    knn = KNeighborsClassifier().fit(X, [0] * 8 + [1] * 2)
    assert knn.scale_[0] == 9.0
    assert np.isfinite(knn.predict_proba([[1.0]])).all()


def test_count_votes_are_scikit_learns_with_a_prior_mixed_in(blobs):
    X, y = blobs
    ours = KNeighborsClassifier(votes="count", prior_weight=2.0).fit(X, y)
    shares = Reference(5).fit(X, y).predict_proba(X + 0.1)
    expected = (5 * shares + 2.0 * np.bincount(y) / len(y)) / 7.0
    np.testing.assert_allclose(ours.predict_proba(X + 0.1), expected, rtol=1e-12)


@pytest.mark.parametrize("votes", ["soft", "count"])
def test_probabilities_are_averaged_over_draws_not_distances(blobs, votes):
    X, y = blobs
    draws = [build("Mahalanobis", seed) for seed in range(4)]
    options = dict(votes=votes, bandwidth=0.5, sharpness=2.0, prior_weight=0.1)
    joint = KNeighborsClassifier(PosteriorMetric(draws, "prediction"), **options)
    P = joint.fit(X, y).predict_proba(X + 0.3)
    each = [KNeighborsClassifier(m, **options).fit(X, y) for m in draws]
    mean = np.mean([one.predict_proba(X + 0.3) for one in each], 0)
    np.testing.assert_allclose(P, mean, rtol=1e-10)
    averaged = KNeighborsClassifier(joint.metric_.mean_metric(), **options)
    assert np.abs(averaged.fit(X, y).predict_proba(X + 0.3) - P).max() > 0.01


@pytest.mark.parametrize("votes", ["soft", "count"])
def test_leave_one_out_scores_the_averaged_prediction_of_refits(blobs, votes):
    X, y = blobs[0][::2], blobs[1][::2]
    draws = [build("Mahalanobis", seed) for seed in range(2)]
    posterior = PosteriorMetric(draws, "prediction")
    knn = KNeighborsClassifier(posterior, votes=votes).fit(X, y)
    D = posterior.pairwise(X, X)
    if votes == "soft":
        best = -np.inf
        for (i, b), (j, t) in product(enumerate(GRIDS[0]), enumerate(GRIDS[1])):
            h = b * knn.scale_
            score = loo_log_score(D, y, 3, h=h, share=0.02, sharpness=t)
            assert knn.loo_scores_[i, j, 0] == pytest.approx(score, rel=1e-9)
            penalized = 30 * score - 2 * np.log(b / 0.5) ** 2 - np.log(t) ** 2
            if penalized > best:
                best, chosen = penalized, (b, t)
        assert (knn.bandwidth_, knn.sharpness_) == chosen
    else:
        weights = (0.5, 1.0, 2.0, 4.0)
        expected = [loo_log_score(D, y, 3, k=5, share=a / (5 + a)) for a in weights]
        assert knn.prior_weight_ == weights[int(np.argmax(expected))]
        np.testing.assert_allclose(knn.loo_scores_[0, 0], expected, rtol=1e-9)


def test_leave_one_out_leaves_lonely_classes_out_of_the_score(blobs):
    X, y = blobs
    X, y = np.vstack([X, [[9.0, 9.0, 9.0]]]), np.append(y, 7)
    knn = KNeighborsClassifier().fit(X, y)
    assert np.isfinite(knn.loo_scores_).all()


def test_many_points_are_tuned_on_some_whatever_the_order_of_rows(blobs, monkeypatch):
    X, y = blobs
    monkeypatch.setattr(neighbor_votes, "MOST_TUNED", 25)
    order = np.random.default_rng(0).permutation(60)
    some = KNeighborsClassifier().fit(X, y)
    again = KNeighborsClassifier().fit(X[order], y[order])
    np.testing.assert_allclose(again.loo_scores_, some.loo_scores_, rtol=1e-9)
    np.testing.assert_allclose(again.scale_, some.scale_, rtol=1e-12)
    monkeypatch.undo()
    assert KNeighborsClassifier().fit(X, y).scale_ != some.scale_


@pytest.mark.parametrize(
    ("kind", "shift"), [("Mahalanobis", 1e6), ("PairSimilarity", 0.0)]
)
def test_votes_do_not_depend_on_the_size_of_tiles(blobs, monkeypatch, kind, shift):
    X, y = np.vstack([blobs[0], [[shift, 0, 0]]]), np.append(blobs[1] % 2, 1)
    y = 7 * y + np.arange(61) // 30  # Classes that no point has.
    own, b, t = np.arange(5, 40), np.array(GRIDS[0]), GRIDS[1]
    metric = build(kind)
    D = np.array(metric.pairwise(X[own], X))
    D[np.arange(35), own] = np.inf

    def votes(**more):
        options = dict(own_rows=own, sharpness=t, **more)
        return soft_votes([metric], np.array([1.3]), b, X[own], X, y, 10, **options)

    every = votes()
    monkeypatch.setattr(neighbor_votes, "BLOCK", 1)
    monkeypatch.setattr(neighbor_votes, "TILE", 64)
    np.testing.assert_allclose(votes(), every, rtol=1e-9, atol=1e-300)
    some = votes(wanted=y[own])
    for (g, h), (k, power) in product(enumerate(1.3 * b), enumerate(t)):
        for i, row in enumerate(D):
            w = np.exp((row.min() - row) / (2 * h))
            sizes = np.bincount(np.delete(y, own[i]), minlength=10)
            mean = np.bincount(y, w, 10) / np.maximum(sizes, 1)
            shares = sizes * mean**power
            shares /= shares.sum()
            np.testing.assert_allclose(every[g, k, i], shares, rtol=1e-8, atol=1e-300)
            assert some[g, k, i] == pytest.approx(shares[y[own[i]]], rel=1e-8)


def test_ballots_vote_as_their_classes(blobs):
    X, y = blobs
    options = dict(own_rows=np.arange(60), sharpness=(1.0, 3.0))
    arguments = [build_euclid(3)], np.ones(1), np.array([0.5, 0.2]), X, X
    hard = soft_votes(*arguments, y, 3, **options)
    np.testing.assert_allclose(
        soft_votes(*arguments, np.eye(3)[y], 3, **options), hard, rtol=1e-12
    )
