"""Figures of merit against their definitions in plain loops and scikit-learn's."""

import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from probmetric.evaluation import ranking
from probmetric.evaluation.evaluate import (
    evaluate,
    retrieval,
    scored_pairs,
)
from probmetric.metric import Mahalanobis, PairSimilarity
from probmetric.metric.pair_similarity import Calibration
from probmetric.posterior.metric import PosteriorMetric
from tests.metric_kinds import build
from tests.oracles import retrieval_figures


@pytest.fixture
def blobs():
    rng = np.random.default_rng(3)
    y = np.repeat(["a", "b", "c"], [12, 25, 6])
    centre = 1.2 * np.eye(3)[np.unique(y, return_inverse=True)[1]]
    return rng.normal(size=(43, 3)) + centre, y


def codes_of(y):
    return np.unique(y, return_inverse=True)[1]


def area(metric, X, codes, max_pairs=10**6):
    same, D = scored_pairs(metric, X, codes, max_pairs=max_pairs, seed=0)
    return roc_auc_score(same, -D)


@pytest.mark.parametrize("tile", [5, 512])
def test_retrieval_figures_follow_their_definitions(blobs, tile, monkeypatch):
    X, y = blobs
    monkeypatch.setattr(sys.modules[evaluate.__module__], "QUERY_TILE", tile)
    metric = build("Mahalanobis")
    found = retrieval(metric, X, codes_of(y))
    assert found == pytest.approx(retrieval_figures(metric.pairwise(X, X), y))


def test_map_at_r_weights_by_precision_as_in_the_hand_worked_case():
    # From 0: neighbors 1 (same), 2 (other), 3 (same); R = 2: only the first counts.
    X = np.array([[0.0], [1.0], [2.1], [3.3]])
    found = retrieval(Mahalanobis(np.eye(1)), X, np.array([0, 0, 1, 0]))
    # Queries 0 and 1: r = (1, 0). Query 3: nearest 2 (other), then 1 (same).
    assert found["r_precision"] == pytest.approx((1 / 2 + 1 / 2 + 1 / 2) / 3)
    assert found["map_at_r"] == pytest.approx((1 / 2 + 1 / 2 + 1 / 4) / 3)
    assert found["precision_at_1"] == pytest.approx(2 / 3)


def test_retrieval_holds_no_full_matrix():
    rng = np.random.default_rng(0)
    n = 4000
    X, codes = rng.normal(size=(n, 2)), rng.integers(0, 400, n)
    tracemalloc.start()
    retrieval(Mahalanobis(np.eye(2)), X, codes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.1 * 8 * n**2


def test_sampled_pairs_are_of_all_rows():
    """The later row of a random pair of n is at 2 n / 3, with sd n / √18."""
    i, j = ranking.chosen_pairs(1000, 2000, 0, symmetric=True)
    assert len(i) == 2000
    assert abs(j.mean() - 2000 / 3) < 4 * 1000 / np.sqrt(18 * 2000)
    assert abs(i.mean() - 1000 / 3) < 4 * 1000 / np.sqrt(18 * 2000)


def test_sampled_pairs_give_the_area_within_its_standard_error():
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 2)) + y[:, None]
    metric = Mahalanobis(np.eye(2))
    full = area(metric, X, y)
    some = area(metric, X, y, max_pairs=20_000)
    # s.e. ≤ .5/√(10⁴): 4 s.e. is a false alarm once in 16 000 keys, and this is one.
    assert abs(some - full) < 4 * 0.5 / np.sqrt(1e4)
    assert some != full


def test_a_data_frame_reaches_the_classifier_with_its_names():
    frame, y = load_iris(return_X_y=True, as_frame=True)
    model = LogisticRegression(max_iter=1000).fit(frame, y)
    assert evaluate(frame, y, classifier=model)["accuracy"] > 0.9  # No warning.


def test_a_posterior_is_evaluated_by_its_mean_metric(blobs):
    X, y = blobs
    posterior = PosteriorMetric([build("Mahalanobis", s) for s in (0, 1)], "prediction")
    figures = evaluate(X, y, metric=posterior)
    assert figures == evaluate(X, y, metric=posterior.mean_metric())
    assert "accuracy" not in figures


def test_evaluation_warns_of_ratios_that_are_not_calibrated():
    """Noise has variance 1; the first model assumes 0.01."""
    rng = np.random.default_rng(6)
    y = np.repeat(np.arange(30), 3)
    X = 3 * rng.normal(size=(30, 1))[y] + rng.normal(size=(90, 1))

    def similarity(noise, calibration=None):
        B, W = np.full((1, 1, 1), 9.0), np.full((1, 1, 1), noise)
        prior = np.zeros(1), np.zeros((1, 1))
        return PairSimilarity(*prior, B, W, calibration=calibration)

    with pytest.warns(UserWarning, match="Cllr is 35.*calibration='auto'"):
        overstated = evaluate(X, y, metric=similarity(0.01))
    assert overstated["cllr"] > 1
    no_evidence = similarity(0.01, Calibration(0.0, 0.0, 0.0, 3.0))
    assert evaluate(X, y, metric=no_evidence)["cllr"] == pytest.approx(1)
    evaluate(X, y, metric=similarity(1.0))
