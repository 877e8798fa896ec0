"""Weight 2 equals a row entered twice, weight 0 leaves it out; other base rates."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import probmetric as pm

RNG = np.random.default_rng(0)
Y = np.arange(24) % 3
X = RNG.normal(size=(24, 3)) * [1, 5, 0.2] + 2 * np.eye(3)[Y]
W = RNG.integers(0, 4, 24).astype(float)
LEARNERS = [
    pm.LDA(prior_strength=4),
    pm.RCA(prior_strength=4),
    pm.PairLDA(prior_strength=4),
    pm.GaussianClasses(prior="evidence"),
    pm.DCAGM(1, n_gaussians=1, prior_strength=4),
]


def map_of(learner, *data, **options):
    fitted = clone(learner).fit(*data, **options)
    if hasattr(fitted, "predict_proba"):
        return fitted.predict_proba(X)
    return np.asarray(fitted.get_metric().matrix)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_weights_equal_repeated_rows(learner):
    rows = np.repeat(np.arange(24), W.astype(int))
    weighted = map_of(learner, X, Y, sample_weight=W)
    tolerance = 1e-4 if isinstance(learner, pm.DCAGM) else 1e-9  # L-BFGS stops at tol.
    np.testing.assert_allclose(
        weighted, map_of(learner, X[rows], Y[rows]), rtol=tolerance, atol=tolerance
    )
    assert np.abs(weighted - map_of(learner, X, Y)).max() > 1e-3


def test_weighted_pairs_must_be_all_pairs():
    with pytest.raises(ValueError, match="pairs must be 'all'"):
        pm.PairLDA(pairs="nearest").fit(X, Y, sample_weight=W)
    holes = np.where(np.eye(24, 3) > 0, np.nan, X)
    with pytest.raises(ValueError, match="sample_weight must be None if X has missing"):
        pm.GaussianClasses(missing="integrate").fit(holes, Y, sample_weight=W)


@pytest.mark.parametrize("votes", ["soft", "count"])
def test_votes_are_multiplied_by_weights(votes):
    """By hand from the definition, at the bandwidth and the scale of the fit."""
    how = {"votes": votes, "bandwidth": 0.7, "sharpness": 2.0, "prior_weight": 0.1}
    knn = pm.KNeighborsClassifier(**how).fit(X, Y, sample_weight=W)
    P, y, w = X[W > 0], Y[W > 0], W[W > 0]
    D = ((X[:, None] - P) ** 2).sum(-1)
    one_hot = np.eye(3)[y] * w[:, None]
    size = one_hot.sum(0)
    if votes == "soft":
        shares = np.exp(-D / (2 * 0.7 * knn.scale_[0])) @ one_hot
        shares = size * (shares / size) ** 2
        share = 0.1
    else:
        near = np.argsort(D, 1)[:, :5]
        shares, share = one_hot[near].sum(1), 0.1 / 5.1
    shares = shares / shares.sum(1, keepdims=True)
    expected = (1 - share) * shares + share * size / size.sum()
    np.testing.assert_allclose(knn.predict_proba(X), expected, rtol=1e-9)


def test_tuning_of_votes_weighs_the_log_scores():
    """Equal weights change nothing; a row without weight is not scored."""
    plain = pm.KNeighborsClassifier().fit(X, Y)
    equal = pm.KNeighborsClassifier().fit(X, Y, sample_weight=np.full(24, 1.0))
    np.testing.assert_allclose(equal.loo_scores_, plain.loo_scores_, rtol=1e-9)
    knn = pm.KNeighborsClassifier().fit(X, Y, sample_weight=W)
    at = 3, 1
    b, t = 0.35, 1.5
    P, y, w = X[W > 0], Y[W > 0], W[W > 0]
    scores = []
    for i in range(len(P)):
        rest = np.arange(len(P)) != i
        fixed = pm.KNeighborsClassifier(bandwidth=b, sharpness=t, prior_weight=0.02)
        fixed.fit(P[rest], y[rest], sample_weight=w[rest])
        fixed._near = fixed._near._replace(scales=knn.scale_)
        scores.append(np.log(fixed.predict_proba(P[[i]])[0, y[i]]))
    mean = np.average(scores, weights=w)
    np.testing.assert_allclose(knn.loo_scores_[*at, 0], mean, rtol=1e-9)


def test_a_learner_in_the_neighbors_receives_the_weights():
    knn = pm.KNeighborsClassifier(pm.RCA(prior_strength=4)).fit(X, Y, sample_weight=W)
    alone = pm.RCA(prior_strength=4).fit(X[W > 0], Y[W > 0], sample_weight=W[W > 0])
    np.testing.assert_allclose(knn.metric_.matrix, alone.get_metric().matrix)


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: pm.KNeighborsClassifier(bandwidth=1.0, sharpness=1.0, **k),
        lambda **k: pm.GaussianClasses(prior="evidence", **k),
    ],
)
def test_other_base_rates_multiply_the_odds_of_classes(make):
    rates = {0: 0.7, 1: 0.2, 2: 0.1}
    plain = make().fit(X, Y, sample_weight=W)
    log_p = plain.predict_log_proba(X) + np.log([0.7, 0.2, 0.1] / plain.class_prior_)
    expected = log_p - logsumexp(log_p, 1, keepdims=True)
    for given in (rates, [0.7, 0.2, 0.1]):
        other = make(class_prior=given).fit(X, Y, sample_weight=W)
        np.testing.assert_allclose(other.predict_log_proba(X), expected, atol=1e-9)
    same = make(class_prior=plain.class_prior_).fit(X, Y, sample_weight=W)
    np.testing.assert_allclose(same.predict_proba(X), plain.predict_proba(X))
    for wrong in ([0.5, 0.5], [0.5, 0.6, 0.1], {0: 0.5, 1: 0.5}, [1.0, 0.0, 0.0]):
        with pytest.raises(ValueError, match="class_prior must"):
            make(class_prior=wrong).fit(X, Y)


def test_weights_are_routed_through_pipelines_and_cross_validation():
    with config_context(enable_metadata_routing=True):
        knn = pm.KNeighborsClassifier(bandwidth=1.0)
        knn.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), knn)
        pipe.fit(X, Y, sample_weight=W)
        assert len(pipe[-1].fit_X_) == (W > 0).sum()
        scores = cross_validate(pipe, X, Y, params={"sample_weight": W}, cv=3)
        assert np.isfinite(scores["test_score"]).all()
