"""The held-out table of the report: what is scored, and on what."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedShuffleSplit

from probmetric.datasets import loading as datasets
from probmetric.evaluation.cross_validate import (
    _table,
    class_spread,
    euclid,
    stratified_folds,
    summary,
    vote_scores,
)
from probmetric.metric import Mahalanobis
from probmetric.neighbors import KNeighborsClassifier
from probmetric.posterior.metric import PosteriorMetric


def test_the_table_has_means_over_splits_and_the_paired_error():
    plain = pd.DataFrame(
        {
            "metric": "plain",
            "split": [0, 1, 2],
            "accuracy": [0.5, 1.0, 0.5],
            "log_score": [-0.3, -0.2, -0.6],
            "brier": [0.4, 0.2, 0.6],
        }
    )
    # Better by 0.1, 0.1 and 0.4 in a split: mean 0.2, standard error 0.1.
    better = plain["log_score"] + [0.1, 0.1, 0.4]
    learned = plain.assign(metric="learned", log_score=better)
    table = summary(pd.concat([plain, learned]))
    assert table["neighbors under"].tolist() == ["plain", "learned"]
    assert table["error, %"].tolist() == [33.33, 33.33]
    assert table["log score"].tolist() == [-0.3667, -0.1667]
    assert table["Brier score"].tolist() == [0.4, 0.4]
    paired = table["log score against plain"].tolist()
    assert paired == ["", "+0.2000 ± 0.1000"]


def test_held_out_errors_are_those_of_a_sum_over_points():
    worse, better = np.array([-1.0, -2.0, -4.0]), np.array([-1.0, -1.0, -1.5])
    table = _table({"worse": worse, "better": better})
    assert table.index.tolist() == ["better", "worse"]
    assert table["elpd"].tolist() == [-3.5, -7.0]
    # Variances of a point: 1/12 and 7/3; of the differences 0, 1 and 2.5: 19/12.
    np.testing.assert_allclose(table["se"], np.sqrt([3 / 12, 7]))
    assert table["elpd_diff"].tolist() == [0, 3.5]
    np.testing.assert_allclose(table["dse"], [0, np.sqrt(19 / 4)])


def test_scores_of_a_split_are_those_of_its_probabilities_and_labels():
    X, y = datasets.load("iris")
    X, y = X[::3], y[::3]
    scores = vote_scores({"euclid": lambda A, b: euclid(A)}, X, y, n_splits=2, seed=5)
    splits = StratifiedShuffleSplit(2, test_size=0.3, random_state=5).split(X, y)
    for k, (train, test) in enumerate(splits):
        knn = KNeighborsClassifier(euclid(X[train])).fit(X[train], y[train])
        P, truth = knn.predict_proba(X[test]), np.eye(3)[codes_of(y)[test]]
        right = P.argmax(1) == truth.argmax(1)
        want = {
            "accuracy": right.mean(),
            "log_score": np.log((P * truth).sum(1)).mean(),
            "brier": ((P - truth) ** 2).sum(1).mean(),
        }
        assert scores.loc[k, list(want)].to_dict() == pytest.approx(want, rel=1e-12)
    assert 0 < scores["accuracy"].mean() < 1


def codes_of(y):
    return np.unique(y, return_inverse=True)[1]


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


def test_folds_need_a_class_of_two_rows():
    """Single rows stay in training; if all are single, nothing can be held out."""
    folds = stratified_folds(np.array([0, 1, 0, 2]), 2, seed=0)
    assert sorted(np.concatenate([test for _, test in folds])) == [0, 2]
    assert all({1, 3} <= set(train) for train, _ in folds)
    with pytest.raises(ValueError, match=r"n_folds must be .* got 2"):
        stratified_folds(np.arange(3), 2, seed=0)
