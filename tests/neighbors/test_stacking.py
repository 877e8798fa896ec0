"""Weights of a stack by quadrature and sampling, and the classifiers that use them."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import probmetric as pm
from probmetric.neighbors.stacking import held_out, stack

RNG = np.random.default_rng(0)


def blobs(n, seed=0):
    y = np.arange(n) % 3
    return np.random.default_rng(seed).normal(size=(n, 3)) + 2 * np.eye(3)[y], y


@pytest.mark.parametrize("points", [1.0, 5.0, 20.0])
def test_weights_of_two_parts_are_the_mode_and_the_curvature_by_quadrature(points):
    P = RNG.beta(2, 1, size=(2, 60)) * [[1.0], [0.6]]
    z = np.linspace(-12, 12, 200_001)
    w = expit(z)
    log_p = np.log(w[:, None] * P[0] + (1 - w)[:, None] * P[1]).sum(1)
    log_p += points / 2 * (np.log(w) + np.log1p(-w))
    top, step = log_p.argmax(), z[1] - z[0]
    curvature = (log_p[top - 50] - 2 * log_p[top] + log_p[top + 50]) / (50 * step) ** 2
    made = stack(P, points)
    assert made.weights[0] == pytest.approx(w[top], abs=1e-4)
    slope = w[top] * (1 - w[top])
    assert made.sd[0] == pytest.approx(slope / np.sqrt(-curvature), rel=1e-3)
    assert made.weights.sum() == pytest.approx(1, abs=1e-12)


def test_standard_deviations_are_those_of_the_posterior_by_gibbs_sampling():
    """Equal to 15%; the error of 4000 draws is about 3%."""
    P = RNG.beta(2, 1, size=(3, 150))
    q, draws = np.full(3, 1 / 3), []
    for _ in range(4000):
        shares = q[:, None] * P
        part = (RNG.random(150) < np.cumsum(shares / shares.sum(0), 0)).argmax(0)
        q = RNG.dirichlet(5 / 3 + np.bincount(part, minlength=3))
        draws.append(q)
    made = stack(P)
    np.testing.assert_allclose(made.sd, np.std(draws, 0), rtol=0.15)
    np.testing.assert_allclose(made.weights, np.mean(draws, 0), atol=0.02)


def test_without_points_weights_are_equal_and_many_points_find_the_best_part():
    good, bad = np.full(500, 0.9), np.full(500, 0.3)
    made = stack(np.stack([good, bad]))
    assert made.weights[0] > 0.98
    np.testing.assert_allclose(made.log_scores, np.log([0.9, 0.3]))
    np.testing.assert_allclose(
        stack(np.stack([good, bad]), 1e9).weights, 0.5, atol=1e-6
    )
    alone = stack(good[None])
    assert (alone.weights[0], alone.sd[0]) == (1, 0)


def test_held_out_probabilities_are_of_refits_without_the_point():
    """The refit of a fold predicts its points by the shares of the other points."""
    X, y = blobs(20)
    P = held_out([DummyClassifier(strategy="prior")], X, y, y)
    others = (np.bincount(y)[y] - np.arange(1, 5)[:, None]) / 16
    assert all(p in others[:, i] for i, p in enumerate(P[0]))


PARTS = [GaussianNB(), ("linear", LogisticRegression()), pm.RCA(prior_strength=1)]


def test_a_stack_averages_fitted_classifiers_of_any_kind_with_names():
    X, y = blobs(60)
    labels = np.array(["a", "b", "c"])[y]
    made = pm.StackingClassifier(PARTS).fit(X, labels)
    parts = [
        GaussianNB(),
        LogisticRegression(),
        pm.KNeighborsClassifier(pm.RCA(prior_strength=1)),
    ]
    P = [part.fit(X, labels).predict_proba(X) for part in parts]
    np.testing.assert_allclose(
        made.predict_proba(X), np.tensordot(made.weights_, P, 1), rtol=1e-9
    )
    assert made.summary().index.tolist() == ["GaussianNB", "linear", "RCA"]
    assert (made.predict(X) == labels).mean() > 0.8
    np.testing.assert_allclose(np.exp(made.predict_log_proba(X)), made.predict_proba(X))
    assert clone(made).classifiers[1][0] == "linear"
    twice = pm.StackingClassifier([GaussianNB(), GaussianNB()]).fit(X, y)
    assert twice.names_ == ["GaussianNB 1", "GaussianNB 2"]


def test_neighbors_under_several_metrics_vote_with_the_weights_of_a_stack():
    X, y = blobs(60)
    metrics = [None, pm.RCA(prior_strength=1), pm.Mahalanobis(np.diag([9.0, 1.0, 1.0]))]
    many = pm.KNeighborsClassifier(metrics, novelty=0.05, outlier_label=-1).fit(X, y)
    single = [pm.KNeighborsClassifier(m) for m in metrics]
    made = stack(held_out(single, X, y, y))
    np.testing.assert_allclose(many.weights_, made.weights, rtol=1e-9)
    np.testing.assert_allclose(many.weights_sd_, made.sd, rtol=1e-9)
    P = [knn.fit(X, y).predict_proba(X) for knn in single]
    np.testing.assert_allclose(
        many.predict_proba(X), np.tensordot(made.weights, P, 1), rtol=1e-9
    )
    best = single[made.weights.argmax()]
    np.testing.assert_array_equal(many.kneighbors(X)[1], best.kneighbors(X)[1])
    np.testing.assert_allclose(many.typicality(X + 1), best.typicality(X + 1))
    assert many.predict(X + 50)[0] == -1


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda X, y: pm.StackingClassifier([]).fit(X, y), "at least one classifier"),
        (lambda X, y: pm.StackingClassifier([3]).fit(X, y), "predict_proba or"),
        (lambda X, y: pm.KNeighborsClassifier([]).fit(X, y), "at least one metric"),
        (
            lambda X, y: pm.StackingClassifier(PARTS, prior_strength=0).fit(X, y),
            "prior_strength must be",
        ),
    ],
)
def test_bad_stacks_are_named(fit, words):
    with pytest.raises(ValueError, match=words):
        fit(*blobs(20))
