"""The prior chosen by folds, and what the local metric is a share of."""

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.metrics import log_loss

import probmetric as pm
from probmetric.data.containers import Labeled
from probmetric.inference.gaussian_classes import choice
from probmetric.inference.gaussian_classes.choice import (
    EXCESS,
    KAPPA,
    STRENGTHS,
    Strengths,
    choose_prior,
    folds_of,
    prior_of,
    statistics_of,
)
from probmetric.inference.gaussian_classes.local_metric import (
    EUCLID,
    LADDER,
    choose_by_folds,
    student_metric,
    with_euclids_distance,
)
from probmetric.inference.gaussian_classes.posterior import posterior, statistics
from probmetric.inference.gaussian_classes.predict import predict_log_proba
from probmetric.precision import to_numpy

X, y = pm.datasets.load("wine")
Z = (X - X.mean(0)) / X.std(0)
rng = np.random.default_rng(0)


def test_statistics_are_those_of_the_compiled_program():
    with jax.enable_x64(True):
        wanted = statistics(Labeled(Z, y), 3)
    for ours, theirs in zip(statistics_of(Z, y, 3), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def joints_of(stats, Q, covariance):
    """Return log P(class, query) over the whole grid."""
    return np.stack(
        [
            np.concatenate(list(choice._log_joints(stats, s, Q, covariance, 0.5)))
            for s in STRENGTHS
        ]
    )


@pytest.mark.parametrize("d", [2, 13])
def test_one_decomposition_gives_the_squares_of_every_prior(d):
    """Classes of 1 and 4 points, fewer than features, and of 20."""
    a = np.repeat([0, 1, 2], [1, 4, 20])
    stats, Q = statistics_of(Z[:25, :d], a, 3), Z[30:33, :d]
    Psi = np.eye(d) + 0.5
    gap = stats.mean - Z[:25, :d].mean(0)
    delta, t, r = (
        Q - stats.mean[:, None],
        np.array([[0.2], [0.9]]),
        np.array([[3], [1.5]]),
    )
    at_kappa = (np.repeat(t, 3, 1), np.repeat(r, 3, 1))
    excess = np.array([1.0, 1e6])
    forms = choice._full(choice._Problem(Psi, stats, delta, gap, at_kappa))
    log_det, squares = forms(excess[:, None, None])
    for e, k, c in np.ndindex(2, 2, 3):
        A = excess[e] * Psi + stats.scatter[c] + r[k] * np.outer(gap[c], gap[c])
        u = delta[c] + t[k] * gap[c]
        wanted = np.einsum("md,de,me->m", u, np.linalg.inv(A), u)
        np.testing.assert_allclose(squares[e, k, c], wanted, rtol=1e-9)
        assert log_det[e, k, c] == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal"])
@pytest.mark.parametrize("d", [1, 5])
def test_probabilities_are_those_of_the_exact_predictive(monkeypatch, covariance, d):
    """Every 23rd point of the grid, one class without points among them."""
    A, a, Q = Z[:120:3, :d], y[:120:3], Z[1::30, :d]
    stats = statistics_of(A, a, 3)
    assert stats.n[2] == 0
    joints = joints_of(stats, Q, covariance)
    for i, j, k in list(np.ndindex(joints.shape[:3]))[::23]:
        strengths = Strengths(STRENGTHS[i], EXCESS[j], KAPPA[k])
        prior = prior_of(stats, strengths, covariance=covariance, alpha=0.5)
        with jax.enable_x64(True):
            post = posterior(stats, prior, covariance=covariance)
            wanted = predict_log_proba(post, Q)
        ours = joints[i, j, k] - logsumexp(joints[i, j, k], 1)[:, None]
        # At ν₀ = 10⁶ log Γ is rounded to some 10⁻⁹.
        np.testing.assert_allclose(ours, wanted, atol=1e-6)
    # Of large arrays only some ν₀ are computed at once.
    monkeypatch.setattr(choice, "TOGETHER", 3 * len(KAPPA) * 3 * Q.size)
    np.testing.assert_allclose(joints_of(stats, Q, covariance), joints, rtol=1e-10)


def test_folds_are_no_more_than_the_smallest_class_and_predict_all_alike():
    codes = np.repeat([0, 1, 2], [20, 3, 1])
    parts = list(folds_of(rng.standard_normal((24, 2)), codes))
    assert len(parts) == 15
    for learned, _, asked in parts:
        assert not set(learned) & set(asked)
        assert len(learned) + len(asked) == 24
        assert np.sum(codes[asked] == 1) == 1
    asked = np.concatenate([asked for _, _, asked in parts])
    assert set(np.bincount(asked)) == {5}


def test_of_many_points_a_thousand_are_predicted():
    many, codes = rng.standard_normal((1500, 2)), np.arange(1500) % 3
    parts = list(folds_of(many, codes))
    assert len(parts) == 5
    assert sum(len(asked) for _, _, asked in parts) == 1000
    assert {len(learned) for learned, _, _ in parts} == {1200}


@pytest.mark.long
def test_labels_without_meaning_leave_the_class_shares():
    A, a = rng.standard_normal((60, 15)), np.arange(60) % 3 // 2
    found = choose_prior(Labeled(A, a), 2)
    assert found.strengths.kappa >= 10
    P = pm.GaussianClasses().fit(A, a).predict_proba(rng.standard_normal((200, 15)))
    assert log_loss(rng.random(200) < 1 / 3, P) < 0.7


def test_what_can_be_learned_is():
    """Classes apart: weak κ₀. Classes of different spread: a covariance each."""
    a = np.arange(150) % 2
    apart = rng.standard_normal((150, 3)) + 3 * a[:, None]
    assert choose_prior(Labeled(apart, a), 2).strengths.kappa <= 1
    spread = rng.standard_normal((150, 3)) * np.where(a, 4.0, 1.0)[:, None]
    assert choose_prior(Labeled(spread, a), 2).strengths.excess <= 30
    tied = rng.standard_normal((150, 3)) * [4, 1, 1] + 2 * a[:, None]
    assert choose_prior(Labeled(tied, a), 2).strengths.excess >= 100


def test_the_order_of_points_and_the_names_of_classes_change_no_choice():
    order, names = rng.permutation(len(Z)), np.array([2, 0, 1])
    plain = choose_prior(Labeled(Z, y), 3)
    moved = choose_prior(Labeled(Z[order], names[y[order]]), 3)
    assert moved.strengths == plain.strengths
    np.testing.assert_allclose(moved.losses, plain.losses, rtol=1e-8)
    np.testing.assert_allclose(moved.prior.Psi, plain.prior.Psi, atol=1e-9)


def test_equal_points_have_no_prior():
    with np.errstate(all="raise"):
        found = choose_prior(Labeled(np.repeat(Z[:2], 5, 0), np.arange(10) // 5), 2)
    assert np.isnan(found.prior.kappa)
    nearly = np.repeat(Z[:2], [9, 1], 0)
    assert np.isfinite(choose_prior(Labeled(nearly, np.arange(10) % 2), 2).prior.nu)


USUAL = Strengths(16, 10, 0.3)


@jax.jit
def learned(stats, prior):
    return student_metric(posterior(stats, prior))


def student(rows, points, codes, strengths=USUAL):
    """Learn a local metric of some rows."""
    some = statistics_of(points[rows], codes[rows], int(codes.max()) + 1)
    with jax.enable_x64(True):
        return to_numpy(learned(some, prior_of(some, strengths)))


@pytest.mark.long
def test_with_euclid_chosen_the_metric_is_that_of_the_axes():
    metric = student(np.arange(len(Z)), Z, y)
    plain = with_euclids_distance(metric)
    np.testing.assert_allclose(
        plain.dissimilarity(Z[0], Z[:9]), np.sum((Z[0] - Z[:9]) ** 2, 1), rtol=1e-12
    )
    # The densities are the same, in other coordinates.
    back = plain.classes.factor[0, 0] @ plain.classes.factor[0, 0].T
    there = metric.classes.factor[0, 0] @ metric.classes.factor[0, 0].T
    np.testing.assert_allclose(metric.frame @ back @ metric.frame.T, there, atol=1e-9)


@pytest.mark.long
def test_noise_is_left_to_euclid_and_its_own_rows_are_never_learned_from():
    A, a = rng.standard_normal((60, 4)), np.arange(60) % 2
    seen = []

    def learn(rows):
        seen.append(rows)
        return student(rows, A, a)

    chosen, scores = choose_by_folds(learn, A, a)
    assert chosen == EUCLID
    assert len(scores) == len(LADDER)
    assert [set(rows) for rows in seen] == [set(rows) for rows, _, _ in folds_of(A, a)]


@pytest.mark.long
def test_what_a_pooled_or_a_local_metric_adds_is_taken():
    """One direction among noise: the pooled metric. Twonorm: a local one."""
    a = np.arange(160) % 2
    thin = rng.standard_normal((160, 4)) * [1, 6, 6, 6] + 5 * a[:, None] * [1, 0, 0, 0]
    mixed = thin @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    assert choose_by_folds(lambda rows: student(rows, mixed, a), mixed, a)[0] != EUCLID
    norms, codes = pm.datasets.load("twonorm")
    A, a = norms[:160] / norms[:160].std(0), codes[:160]
    tied = Strengths(64, 1e6, 0.01)
    chosen = choose_by_folds(lambda rows: student(rows, A, a, tied), A, a)[0]
    assert chosen in LADDER[2:]


def test_metrics_that_cannot_be_learned_leave_euclid():
    chosen, scores = choose_by_folds(lambda rows: None, Z, y)
    assert chosen == EUCLID
    assert np.isfinite(scores[0])
    assert np.isneginf(scores[1:]).all()


@pytest.mark.long
def test_the_choice_is_that_of_the_folds_by_hand():
    """The scores of γ = ∞ from the classifier's own votes, fold by fold."""
    A, a = Z[::4], y[::4]
    metrics = {}

    def learn(rows):
        return metrics.setdefault(tuple(rows), student(rows, A, a))

    scores = choose_by_folds(learn, A, a)[1]
    best = -np.inf
    for bandwidth in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0):
        found, count = 0.0, 0
        for learned, _, asked in folds_of(A, a):
            frame = metrics[tuple(learned)].frame
            fixed = dict(bandwidth=bandwidth, sharpness=1.0)
            knn = pm.KNeighborsClassifier(pm.Mahalanobis(frame), 5, **fixed)
            P = knn.fit(A[learned], a[learned]).predict_proba(A[asked])
            found += np.sum(np.log(P[np.arange(len(asked)), a[asked]]))
            count += len(asked)
        best = max(best, found / count)
    np.testing.assert_allclose(scores[1], best, rtol=1e-9)
