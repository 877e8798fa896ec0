"""``LCA`` on pairs: both forms, thresholds and refusals."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_iris

import probmetric as pm
from probmetric.estimators.lca.estimator import LCA
from probmetric.inference.lca.curvature import log_evidence

IRIS_X, IRIS_Y = load_iris(return_X_y=True)


def pair_problem(seed=0, n_pairs=120, d=3):
    """Independent pairs whose first feature alone decides."""
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(n_pairs, 2, d)) * [1.0, 10.0, 0.1][:d]
    near = np.exp(-0.5 * (1.5 * (pairs[:, 0, 0] - pairs[:, 1, 0])) ** 2)
    return pairs, (rng.uniform(size=n_pairs) < near).astype(int)


def test_a_weight_of_two_is_the_pair_twice():
    pairs, y = pair_problem()
    twice = np.concatenate([pairs, pairs[:30]]), np.concatenate([y, y[:30]])
    # The prior's scale is a median that does not weigh; give it the same one.
    settings = {"standardize": False, "regularization": 5.0, "tol": 1e-9}
    one, two = (LCA(prior_mean=np.eye(3), **settings) for _ in range(2))
    one.fit_pairs(*twice)
    two.fit_pairs(pairs, y, sample_weight=np.where(np.arange(120) < 30, 2.0, 1.0))
    np.testing.assert_allclose(
        two.get_mahalanobis_matrix(),
        one.get_mahalanobis_matrix(),
        rtol=1e-5,
        atol=1e-7,
    )


def test_pairs_recover_the_feature_that_decides():
    pairs, y = pair_problem(n_pairs=600)
    fitted = LCA(regularization=0.1).fit_pairs(pairs, y)
    importance = np.diag(fitted.get_mahalanobis_matrix()) * fitted.scale_**2
    assert importance[0] > 5 * importance[1:].max()
    assert fitted.learning_rate_ == 1


def test_threshold_may_call_no_pair_same():
    pairs, _ = pair_problem(4, n_pairs=40)
    fitted = LCA().fit_pairs(pairs, np.arange(40) % 2)
    order = np.argsort(fitted.pair_distance(pairs))
    labels = np.zeros(40, int)
    labels[order[-1]] = 1  # only the farthest pair is same
    fitted.calibrate_threshold(pairs, labels)
    assert not fitted.predict(pairs).any()


def test_classifying_pairs_waits_for_a_threshold():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    assert not hasattr(fitted, "predict")
    with pytest.raises(AttributeError, match="predict"):
        fitted.predict(IRIS_X[:2][None])
    assert hasattr(fitted.set_threshold(1.0), "predict")
    assert not hasattr(fitted.fit(IRIS_X, IRIS_Y), "threshold_")


BAD_PAIRS = {
    "constant": (
        lambda: LCA().fit_pairs(np.ones((3, 2, 2)), [0, 1, 1]),
        r"got only constant columns \[0, 1\]",
    ),
    "cv": (
        lambda: LCA(regularization="cv").fit_pairs(*pair_problem()),
        "regularization must be 'auto', 'evidence' or a number for pairs",
    ),
    "within": (
        lambda: LCA(prior_mean="within").fit_pairs(*pair_problem()),
        "prior_mean must .* for pairs .*got 'within'",
    ),
    "few members": (
        lambda: LCA(regularization="cv").fit(
            IRIS_X[[0, 1, 2, 60, 61]], [0, 0, 0, 1, 1]
        ),
        "regularization='cv' requires 4 rows in each class",
    ),
}


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_bad_pair_input_is_refused_by_name(name):
    call, message = BAD_PAIRS[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_pairs_of_another_width_and_bad_strategies_are_refused():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    pairs, y = pair_problem()
    with pytest.raises(
        ValueError, match="pairs must have 4 features, as in fit, got 3"
    ):
        fitted.pair_distance(pairs)
    with pytest.raises(ValueError, match="strategy must be one of 'accuracy'"):
        fitted.calibrate_threshold(IRIS_X[:2][None], [1], "youden")
    with pytest.raises(ValueError, match=re.escape("min_rate must be a number in")):
        LCA().fit_pairs(pairs, y).calibrate_threshold(pairs, y, "max_tpr")
    with pytest.raises(ValueError, match="threshold must be a number in"):
        fitted.set_threshold(-1.0)


def judged_pairs(seed=0, n=150):
    """Independent pairs in three features, of which one does not count."""
    rng = np.random.default_rng(seed)
    A, delta = rng.normal(size=(2, n, 3))
    t = 0.1 + 0.5 * ((delta * [2.0, 1.0, 0.0]) ** 2).sum(1)
    return np.stack([A, A + delta], 1), (rng.exponential(size=n) > t).astype(int)


def test_the_prior_of_pairs_is_the_weakest_within_three_nats_of_the_best():
    pairs, y = judged_pairs()
    fits = {
        lam: LCA(regularization=lam).fit_pairs(pairs, y).fitted_
        for lam in (100.0, 30.0, 10.0, 3.0, 1.0)
    }
    value = {
        lam: log_evidence(
            f.fit.params._replace(kappa2=np.float64(1.0)), f.pairs, f.fit.objective,
            f.prior, 1.0,
        )
        for lam, f in fits.items()
    }  # fmt: skip
    best = max(value, key=value.__getitem__)
    weakest = min(lam for lam in value if value[lam] > value[best] - 3)
    assert weakest < best  # Otherwise the test could not tell the rules apart.
    assert LCA().fit_pairs(pairs, y).regularization_ == weakest
    assert LCA(regularization="evidence").fit_pairs(pairs, y).regularization_ == best


def test_draws_after_pairs_answer_all_questions_without_options():
    pairs, y = judged_pairs()
    model = LCA().fit_pairs(pairs, y)
    posterior = pm.draws_to_metric(model.sample("laplace", n_draws=60, n_chains=1))
    A, B = pairs[:5, 0], pairs[5:10, 1]
    low, high = posterior.interval(A, B)  # No warning: the pairs are independent.
    distance = model.get_metric().distance(A, B)
    assert ((low < distance) & (distance < high)).all()
    P = posterior.closer_probability(A[0], B[0], B[1])
    assert P + posterior.closer_probability(A[0], B[1], B[0]) == pytest.approx(1)
    assert posterior.neighbor_probability(A, B, 2).sum(1) == pytest.approx(2)
    knn = pm.KNeighborsClassifier(posterior, 3).fit(B, [0, 1, 0, 1, 0])
    assert knn.predict_proba(A).shape == (5, 2)


def test_draws_after_labels_are_marked_as_dependent():
    X, y = load_iris(return_X_y=True)
    drawn = LCA().fit(X, y).sample("laplace", n_draws=5, n_chains=1)
    with pytest.warns(UserWarning, match="interval: intervals from 'laplace' draws"):
        pm.draws_to_metric(drawn).interval(X[0], X[60])


def test_f_beta_strategy_is_the_best_of_all_cuts():
    pairs, y = pair_problem(6)
    fitted = LCA().fit_pairs(pairs, y)

    def f2(threshold):
        found = fitted.set_threshold(threshold).predict(pairs)
        hits = np.sum((found == 1) & (y == 1))
        return 5 * hits / (np.sum(found == 1) + 4 * np.sum(y == 1))

    best = max(f2(cut) for cut in fitted.pair_distance(pairs))
    chosen = fitted.calibrate_threshold(pairs, y, "f_beta", beta=2).threshold_
    assert f2(chosen) == pytest.approx(best)
