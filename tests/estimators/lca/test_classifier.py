"""``LCAClassifier``: golden scores, class pairs and ties."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from probmetric.data.containers import Pairs
from probmetric.estimators.lca.classifier import LCAClassifier
from probmetric.inference import lca
from probmetric.inference.lca.fit import scaled_identity
from probmetric.models.lca import LCAPrior

WINE_X, WINE_Y = load_wine(return_X_y=True)
QUICK = {"regularization": 30.0, "prior_scale": 2.0**1.5}
"""What is near the choice of the default, which takes folds."""


def with_parameters(classes, labels):
    """Return a classifier that holds given parameters."""
    made = LCAClassifier()
    W = np.array([c["W"] for c in classes], float)
    sigma2 = np.array([c["sigma2"] for c in classes])
    eta = 1 + 2 * sigma2
    made.classes_ = np.array(labels)
    made.means_ = np.array([c["mu"] for c in classes], float)
    made.components_ = W / np.sqrt(eta)[:, None, None]
    made.intercepts_ = 0.5 * W.shape[1] * np.log(eta)
    made.n_features_in_ = W.shape[2]
    return made


def test_scores_and_labels_are_the_golden_ones(golden):
    entry = golden("lca_dca")["lca_mixture"]
    made = with_parameters(entry["classes"], [0, 1])
    X = np.array([q["x"] for q in entry["queries"]])
    wanted = [q["log_P"] for q in entry["queries"]]
    np.testing.assert_allclose(made.class_log_probability(X), wanted, rtol=1e-12)
    assert made.predict(X).tolist() == [q["label"] for q in entry["queries"]]
    # The third query lies so far out that P is no normal number; its log is.
    assert np.exp(made.class_log_probability(X)[2, 0]) < np.finfo(float).tiny


def test_ties_go_to_the_first_class_in_sorted_order():
    one = {"W": [[1.0, 0.0]], "sigma2": 0.3, "mu": [0.0, 0.0]}
    made = with_parameters([one, {**one, "mu": [2.0, 0.0]}], ["a", "b"])
    assert made.predict([[1.0, 5.0]]).tolist() == ["a"]
    assert made.predict([[1.0 + 1e-9, 5.0]]).tolist() == ["b"]


@pytest.mark.long
def test_each_class_is_an_lca_fit_of_its_mean_with_every_point():
    own = {"regularization": 5.0, "prior_scale": None}
    made = LCAClassifier(**own, standardize=False).fit(WINE_X / 100, WINE_Y)
    X, member = WINE_X / 100, WINE_Y == 1
    mean = X[member].mean(0)
    pairs = Pairs(
        np.vstack([X, mean]), np.full(178, 178), np.arange(178), member.astype(int)
    )
    W0, c = scaled_identity(pairs)
    params = lca.fit(pairs, LCAPrior(W0, c=c, lam=5.0)).params
    eta = 1 + 2 * np.exp(params.log_sigma2)
    M = made.components_[1].T @ made.components_[1]
    wanted = params.W.T @ params.W / eta
    # Both stop at a gradient of 1e-6 of the objective.
    np.testing.assert_allclose(M, wanted, atol=1e-5 * np.abs(wanted).max())
    np.testing.assert_allclose(made.means_[1], mean)
    np.testing.assert_allclose(made.sigma2_[1], np.exp(params.log_sigma2), rtol=1e-4)


def test_display_probabilities_are_the_scores_normalised():
    made = LCAClassifier(2, **QUICK).fit(WINE_X, WINE_Y)
    P = np.exp(made.class_log_probability(WINE_X[:5]))
    proba = made.predict_proba(WINE_X[:5])
    np.testing.assert_allclose(proba, P / P.sum(1, keepdims=True), rtol=1e-10)
    assert made.components_.shape == (3, 2, 13)


def test_class_metric_carries_the_score_as_its_link():
    made = LCAClassifier(2, **QUICK).fit(WINE_X, WINE_Y)
    metric = made.get_metric(2)
    mean = np.broadcast_to(made.means_[2], (5, 13))
    np.testing.assert_allclose(
        np.log(metric.same_probability(WINE_X[:5], mean)),
        made.class_log_probability(WINE_X[:5])[:, 2],
        rtol=1e-10,
    )
    with pytest.raises(ValueError, match=r"label must be one of \[0, 1, 2\], got 7"):
        made.get_metric(7)
