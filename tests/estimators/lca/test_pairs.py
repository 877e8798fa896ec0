"""``LCA`` on pairs: both forms, thresholds and refusals."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import probmetric as pm
from probmetric.estimators.lca.estimator import LCA
from probmetric.inference.lca.curvature import log_evidence
from tests.dump import assert_refused

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


def test_classifying_pairs_waits_for_a_threshold():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    assert not hasattr(fitted, "predict")
    with pytest.raises(AttributeError, match="predict"):
        fitted.predict(IRIS_X[:2][None])
    assert hasattr(fitted.set_threshold(1.0), "predict")
    assert not hasattr(fitted.fit(IRIS_X, IRIS_Y), "threshold_")


BAD_PAIRS = {
    "constant": lambda: LCA().fit_pairs(np.ones((3, 2, 2)), [0, 1, 1]),
    "cv": lambda: LCA(regularization="cv").fit_pairs(*pair_problem()),
    "within": lambda: LCA(prior_mean="within").fit_pairs(*pair_problem()),
    "few members": lambda: LCA(regularization="cv").fit(
        IRIS_X[[0, 1, 2, 60, 61]], [0, 0, 0, 1, 1]
    ),
}


def test_bad_pair_input_is_refused_by_name():
    assert_refused(BAD_PAIRS, "estimators/lca_pairs.txt")


def test_pairs_of_another_width_and_bad_strategies_are_refused():
    fitted = LCA().fit(IRIS_X, IRIS_Y)
    pairs, y = pair_problem()
    calls = [
        lambda: fitted.pair_distance(pairs),
        lambda: fitted.calibrate_threshold(IRIS_X[:2][None], [1], "youden"),
        lambda: LCA().fit_pairs(pairs, y).calibrate_threshold(pairs, y, "max_tpr"),
        lambda: fitted.set_threshold(-1.0),
    ]
    assert_refused(calls, "estimators/lca_thresholds.txt")


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


@pytest.mark.long
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
