"""The held-out table of the report: what is scored, and on what."""

import numpy as np

from probmetric.datasets import loading as datasets
from probmetric.evaluation.cross_validate import (
    class_spread,
    euclid,
    summary,
    vote_scores,
)
from probmetric.metric import Mahalanobis
from probmetric.posterior.metric import PosteriorMetric


def test_vote_scores_are_those_of_the_stated_probabilities():
    X, y = datasets.load("iris")
    sizes = []

    def fit(A, b):
        sizes.append(len(A))
        return euclid(A)

    scores = vote_scores({"first": fit, "again": fit}, X, y, n_splits=2, seed=0)
    assert sizes == [105] * 4
    first, again = (scores[scores["metric"] == name] for name in ("first", "again"))
    np.testing.assert_array_equal(first["log_score"], again["log_score"])
    assert first["accuracy"].mean() > 0.9
    # The Brier score is 0 if certain and right, 2 if certain and wrong.
    assert first["brier"].between(0, 2).all()
    table = summary(scores)
    assert table["log score against first"].tolist() == ["", "+0.0000 ± 0.0000"]


def test_euclid_standardizes_and_leaves_constant_columns():
    X = np.column_stack([np.arange(5.0), np.full(5, 3.0)])
    np.testing.assert_allclose(euclid(X).factor, np.diag([1 / X[:, 0].std(), 1]))


def test_the_spread_over_draws_has_the_averaged_classifiers_mean():
    X, y = datasets.load("iris")
    draws = PosteriorMetric([Mahalanobis(np.eye(4) * s) for s in (1, 2)], "prediction")
    spread = class_spread(draws, X, y, X[70], bandwidth=0.5)
    assert spread.shape == (2, 3)
    np.testing.assert_allclose(spread.sum(1), 1)
    # Votes do not depend on the scale of a metric: both draws agree.
    np.testing.assert_allclose(spread[0], spread[1], rtol=1e-10)
