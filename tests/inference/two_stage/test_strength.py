"""The prior of W and B chosen by votes: its size, its limits, its dissimilarity."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import probmetric as pm
from probmetric.data.containers import Groups
from probmetric.inference.solvers.result import Result
from probmetric.inference.two_stage import strength
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.strength import (
    choose_prior,
    dissimilarity,
    prior_of,
    settled,
    variances,
)
from probmetric.metric import PairSimilarity
from probmetric.models.two_stage import to_metric
from probmetric.neighbors.strength import Chosen
from probmetric.neighbors.votes import BANDWIDTHS

X, y = pm.datasets.load("iris")
X, y = np.asarray((X - X.mean(0)) / X.std(0)), np.asarray(y)


def thin(n, seed):
    """Classes that differ in one direction, among four that vary ten times as much."""
    draw = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    Z = draw.standard_normal((n, 5)) * [1, 10, 10, 10, 10]
    Z[:, 0] += 6 * codes
    return Z @ np.linalg.qr(draw.standard_normal((5, 5)))[0], codes


def centred(D):
    """Return dissimilarities less what belongs to the query alone."""
    return D - D.mean(1, keepdims=True)


def test_variances_are_unbiased():
    """Of 4000 sources of 1 to 5 instances, W = .3² I and B = 2² I."""
    draw = np.random.default_rng(0)
    size = 1 + np.arange(4000) % 5
    codes = np.repeat(np.arange(4000), size)
    Z = 2 * draw.standard_normal((4000, 3))[codes]
    Z += 0.3 * draw.standard_normal(Z.shape)
    w, b = variances(Z, codes)
    assert w == pytest.approx(0.09, rel=0.03)
    assert b == pytest.approx(4, rel=0.05)


def test_the_prior_means_are_the_variances():
    for s in (1.0, 64.0):
        p, (w, b) = prior_of(X, y, s), variances(X, y)
        for df, scale, size in (
            (p.within_df, p.within_scale, w),
            (p.df, p.scale, b),
        ):
            np.testing.assert_allclose(scale / (df - 5), size * np.eye(4), rtol=1e-12)


@pytest.mark.parametrize("codes", [[0, 0, 0, 0], [0, 1, 2, 3]])
def test_one_source_or_sources_of_one_point_are_refused(codes):
    with pytest.raises(ValueError, match=r"groups .* got"):
        choose_prior(Groups(X[:4], np.array(codes)))


@pytest.mark.long
def test_the_dissimilarity_is_that_of_the_metric():
    params = fit(Groups(X, y), prior=prior_of(X, y, 4)).params
    theirs = np.asarray(to_metric(params).pairwise(X[::3], X))
    ours = dissimilarity(params, X[::3], X)
    np.testing.assert_allclose(centred(ours), centred(theirs), atol=1e-10)
    # Control: another prior gives another.
    other = fit(Groups(X, y), prior=prior_of(X, y, 256)).params
    assert np.abs(centred(dissimilarity(other, X[::3], X)) - centred(ours)).max() > 0.1


@pytest.mark.long
@pytest.mark.parametrize("s", [1.0, 64.0])
def test_em_on_the_host_ends_where_the_compiled_one_does(s, monkeypatch):
    monkeypatch.setattr(strength, "TOLERANCE", 1e-12)
    monkeypatch.setattr(strength, "MOST_STEPS", 5000)
    size = np.array([2, 9, 1, 30, 4])  # Unbalanced, with a source of one.
    codes = np.repeat(np.arange(5), size)
    Z = X[:46] + 0.3 * np.random.default_rng(2).standard_normal((5, 4))[codes]
    prior = prior_of(Z, codes, s)._replace(mean=np.arange(4.0), strength=0.5)
    end = fit(Groups(Z, codes), prior=prior, tol=1e-15, max_steps=5000).params
    start = fit(Groups(Z, codes), prior=prior, max_steps=1).params
    ours = strength.learned(strength.sums_of(Z, codes), prior, start)
    for found, wanted in zip(ours, end, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.long
def test_losses_are_those_of_the_classifier():
    A, a, Q, own = X[::2], y[::2], X[1::2], y[1::2]
    params = fit(Groups(A, a), prior=prior_of(A, a, 16)).params
    losses = strength._losses(params, A, a, Q, own)
    for b, found in zip(BANDWIDTHS, losses, strict=True):
        fixed = dict(bandwidth=b, sharpness=1.0)
        knn = pm.KNeighborsClassifier(to_metric(params), 5, **fixed).fit(A, a)
        P = knn.predict_proba(Q)[np.arange(len(own)), own]
        np.testing.assert_allclose(found, -np.log(P), rtol=1e-7, atol=1e-10)


@pytest.mark.long
def test_of_infinite_strength_pairs_are_ordered_as_by_euclid():
    end = settled(fit(Groups(X, y), prior=prior_of(X, y, np.inf)), np.inf)
    assert int(end.result) == Result.CONVERGED
    w = variances(X, y)[0]
    np.testing.assert_allclose(end.params.within[0], w * np.eye(4), atol=1e-6)
    D = np.asarray(to_metric(end.params).pairwise(X[:9], X))
    E = cdist(X[:9], X, "sqeuclidean")
    np.testing.assert_allclose(centred(4 * w * D), centred(E), atol=1e-4)
    # Control: of a finite strength they are not.
    weak = fit(Groups(X, y), prior=prior_of(X, y, 1)).params
    D = np.asarray(to_metric(weak).pairwise(X[:9], X))
    assert np.corrcoef(centred(D).ravel(), centred(E).ravel())[0, 1] < 0.99


def test_a_fall_of_the_objective_is_excused_at_infinity_alone():
    end = fit(Groups(X, y), prior=prior_of(X, y, 4))
    fell = end._replace(result=np.asarray(int(Result.DECREASED)))
    assert int(settled(fell, np.inf).result) == Result.CONVERGED
    assert int(settled(fell, 256.0).result) == Result.DECREASED


def fitted(Z, codes, **settings):
    return pm.TwoStageMixture(prior="cv", **settings).fit(Z, groups=codes)


@pytest.mark.parametrize("seed", range(2))
def test_what_can_be_learned_is(seed):
    assert choose_prior(Groups(*thin(150, seed))).strength <= 16


@pytest.mark.long
def test_labels_without_meaning_mostly_teach_little():
    """As everywhere a choice by sixty points errs at times, here in one draw of 3."""
    codes = np.arange(60) % 2
    draws = [np.random.default_rng(s).standard_normal((60, 15)) for s in range(3)]
    found = [choose_prior(Groups(Z, codes)).strength for Z in draws]
    assert np.sum(np.array(found) >= 256) >= 2


def test_neither_order_nor_names_nor_units_matter():
    order = np.random.default_rng(1).permutation(len(X))
    names, scale = np.array(["z", "a", "m"]), np.array([1.0, 1e3, 1e-2, 7.0])
    plain = fitted(X, y)
    moved = fitted(X[order] * scale, names[y[order]])
    assert moved.prior_strength_ == plain.prior_strength_
    at = np.outer(scale, scale)
    np.testing.assert_allclose(moved.within_, plain.within_ * at, rtol=1e-6)


def test_where_nothing_was_learned_nothing_is_drawn(monkeypatch):
    nothing = Chosen(np.inf, np.zeros(1), np.zeros(1))
    monkeypatch.setattr(strength, "choose_strength", lambda *a, **k: nothing)
    model = fitted(X, y)
    assert np.isinf(model.prior_strength_)
    assert isinstance(model.get_metric(), PairSimilarity)
    with pytest.raises(ValueError, match="prior_strength_ = inf"):
        model.sample("laplace", n_draws=5)


@pytest.mark.parametrize(
    "settings, given, message",
    [
        ({}, {}, "some groups must have at least two members"),
        ({"n_components": 2}, {"groups": y}, "n_components must be 1"),
        ({"covariance": "proportional"}, {"groups": y}, "covariance must be 'free'"),
        ({}, {"X": np.where(X > 2, np.nan, X), "groups": y}, "X must not have NaN"),
    ],
)
def test_where_votes_cannot_choose_it_is_said(settings, given, message):
    with pytest.raises(ValueError, match=f"^{message}.*prior='cv'"):
        pm.TwoStageMixture(prior="cv", **settings).fit(**{"X": X, **given})
