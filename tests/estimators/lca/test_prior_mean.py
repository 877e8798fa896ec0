"""The prior mean W₀ of LCA: the choice by folds, and what uses it."""

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_breast_cancer, load_wine

from probmetric.data.containers import Labeled
from probmetric.data.pairs import nearest_pairs
from probmetric.estimators.hierarchical_lca import HierarchicalLCA
from probmetric.estimators.lca.classifier import LCAClassifier
from probmetric.estimators.lca.estimator import LCA
from probmetric.estimators.point_effects.estimator import PointEffectsLCA
from probmetric.inference.lca.recipe import POWERS, choose_power
from probmetric.neighbors.strength import folds
from probmetric.neighbors.votes import BANDWIDTHS


def stretched(n=60, d=4):
    """Return classes apart along the direction of least spread within them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d)) @ np.diag([9.0, 3, 1, 0.3][:d])
    y = np.arange(n) % 3
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (X + 0.5 * y[:, None] * np.eye(d)[-1]) @ turn, y


X, Y = stretched()
Z = (X - X.mean(0)) / X.std(0)


def power_of_within(X, y, power):
    """Return S^(-g/2) for the covariance S within classes, as it is documented."""
    spread = X - np.array([X[y == c].mean(0) for c in y])
    S = len(X) * ledoit_wolf(spread, assume_centered=True)[0]
    S += np.eye(X.shape[1]) * np.mean(spread**2)
    return fractional_matrix_power(S, -power / 2)


def scaled(A, pairs):
    """Scale A so that half of the *same* pairs are nearer than 1."""
    same = pairs.y == 1
    delta = (pairs.X[pairs.i[same]] - pairs.X[pairs.j[same]]) @ A
    return A / np.sqrt(np.median(np.sum(delta**2, 1)))


def chosen_by_hand(X, y, powers=POWERS):
    """Return g by the rule of half a standard error, from loops over points."""
    rows = np.arange(len(X))
    losses = np.zeros((len(powers), len(BANDWIDTHS), len(X)))
    for fold in folds(X, y, 5, 3):
        rest, out = fold.learned, fold.asked
        for g, power in enumerate(powers):
            V = X @ power_of_within(X[rest], y[rest], power)
            D = cdist(V[rest], V[rest], "sqeuclidean")
            scale = np.median(np.sort(D, 1)[:, 5])
            D = cdist(V[out], V[rest], "sqeuclidean")
            for b, width in enumerate(BANDWIDTHS):
                w = np.exp(-(D - D.min(1, keepdims=True)) / (2 * scale * width))
                same = y[out][:, None] == y[rest]
                vote = (w * same).sum(1) / w.sum(1)
                share = np.mean(same, 1)
                losses[g, b, out] -= np.log(0.98 * vote + 0.02 * share) / 3
    best = np.argmin(losses.mean(2), 1)
    losses = losses[np.arange(len(powers)), best]
    gap = losses - losses[np.argmin(losses.mean(1))]
    error = gap.std(1, ddof=1) / np.sqrt(len(rows))
    return powers[np.argmax(gap.mean(1) <= error / 2)]


@pytest.mark.parametrize(("n", "powers"), [(29, (0.0, 0.25)), (60, POWERS)])
def test_the_choice_is_that_of_a_loop_over_folds(n, powers):
    rows, y = Z[:n], Y[:n]
    assert choose_power(Labeled(rows, y)) == chosen_by_hand(rows, y, powers) > 0


def test_the_prior_of_the_model_has_the_chosen_mean():
    model = LCA().fit(X, Y)
    g = model.prior_mean_
    assert g == choose_power(Labeled(Z, Y)) > 0
    W0 = scaled(power_of_within(Z, Y, g), nearest_pairs(Z, Y))
    prior = model.fitted_.prior
    np.testing.assert_allclose(prior.mean, W0, rtol=1e-10)
    np.testing.assert_allclose(prior.c, np.linalg.norm(W0) / 2, rtol=1e-12)
    np.testing.assert_array_equal(
        LCA(prior_mean=g).fit(X, Y).components_, model.components_
    )


def test_nothing_learned_about_the_mean_is_the_identity():
    rows, y = load_breast_cancer(return_X_y=True)
    rows, y = rows[::12, :5], y[::12]
    auto, identity = (LCA(prior_mean=m).fit(rows, y) for m in ("auto", "identity"))
    assert auto.prior_mean_ == "identity"
    np.testing.assert_array_equal(auto.components_, identity.components_)


def test_pairs_and_weighted_points_keep_the_identity():
    pairs = np.stack([X[:-1], X[1:]], 1)
    same = (Y[::-1][:-1] == Y[1:]).astype(int)
    same[::2] = 1
    assert LCA().fit_pairs(pairs, same).prior_mean_ == "identity"
    weighted = LCA().fit(X, Y, sample_weight=np.ones(len(X)))
    assert weighted.prior_mean_ == "identity"


@pytest.mark.parametrize("mean", [-0.1, 1.5])
def test_a_power_outside_0_to_1_is_an_error(mean):
    with pytest.raises(ValueError, match=rf"prior_mean.*{mean}"):
        LCA(prior_mean=mean).fit(X, Y)


def test_the_classifier_has_one_mean_for_all_classes():
    wine, classes = load_wine(return_X_y=True)
    auto, identity = (
        LCAClassifier(regularization=1e6, prior_scale=2.0, prior_mean=mean).fit(
            wine[:, :4], classes
        )
        for mean in ("auto", "identity")
    )
    scale = wine[:, :4].std(0)
    for model, round_ in ((auto, False), (identity, True)):
        M = [(L * scale).T @ (L * scale) for L in model.components_]
        M = [m / np.trace(m) for m in M]
        np.testing.assert_allclose(M[0], M[1], atol=1e-3)
        assert np.allclose(M[0], np.eye(4) / 4, atol=1e-3) == round_


@pytest.mark.long
def test_effects_have_the_mean_of_points_inside_groups():
    groups = np.arange(len(X)) // 20
    shifted = X + 50 * groups[:, None]
    model = HierarchicalLCA().fit(shifted, Y, groups=groups)
    rows = (shifted - shifted.mean(0)) / shifted.std(0)
    rows -= np.array([rows[groups == g].mean(0) for g in groups])
    W0 = power_of_within(rows, Y, choose_power(Labeled(rows, Y)))
    mean = model.fitted_.prior.common.mean
    np.testing.assert_allclose(mean / mean[0, 0], W0 / W0[0, 0], rtol=1e-8)
    points = PointEffectsLCA(spread=0.0).fit(X, Y).fitted_.prior.common.mean
    W0 = power_of_within(Z, Y, choose_power(Labeled(Z, Y)))
    np.testing.assert_allclose(points / points[0, 0], W0 / W0[0, 0], rtol=1e-8)
    plain = PointEffectsLCA(spread=0.0, prior_mean="identity").fit(X, Y)
    mean = plain.fitted_.prior.common.mean
    np.testing.assert_allclose(mean, mean[0, 0] * np.eye(4))
