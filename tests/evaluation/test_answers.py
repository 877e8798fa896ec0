"""Scores of stated probabilities by answers: those of every judgment by itself."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from probmetric.evaluation import answer_scores


@pytest.fixture
def answered():
    """Probabilities, counts, judgments, weights; and every judgment in a row."""
    rng = np.random.default_rng(0)
    P = np.append(rng.uniform(0.02, 0.98, 40).round(2), 0.5)
    trials = rng.integers(1, 9, 41)
    y = rng.binomial(trials, P)
    weight = rng.integers(0, 3, 41).astype(float)
    at = np.repeat(np.arange(41), trials)
    each = np.concatenate([np.arange(m) < k for k, m in zip(y, trials, strict=True)])
    return P, y, trials, weight, at, each.astype(int)


def test_scores_of_counts_are_those_of_every_judgment(answered):
    P, y, trials, weight, at, each = answered
    found = answer_scores(P, y, trials=trials, sample_weight=weight)
    given = {"sample_weight": weight[at]}
    right = np.where(P[at] == 0.5, 0.5, (P[at] > 0.5) == each)
    want = {
        "accuracy": np.average(right, weights=weight[at]),
        "log_loss": log_loss(each, P[at], **given),
        "brier": brier_score_loss(each, P[at], **given),
        "roc_auc": roc_auc_score(each, P[at], **given),
    }
    for name, value in want.items():
        # Sums of some 200 terms, in another order.
        np.testing.assert_allclose(found[name], value, rtol=1e-12)
    # Whoever forgets the judgments, or the weights, gets other scores.
    without = answer_scores(P, y, trials=trials)
    assert all(abs(found[name] - without[name]) > 1e-3 for name in want)


def test_gaps_of_bins_do_not_cancel_in_the_calibration_error():
    # Two bins: P of 0.2 and 0.4 with 4 yes of 5, P of 0.5 and 0.9 with 1 yes of 4.
    P, y, trials = [0.2, 0.4, 0.5, 0.9], [1, 3, 0, 1], [2, 3, 3, 1]
    low, high = 4 - (2 * 0.2 + 3 * 0.4), 1 - (3 * 0.5 + 0.9)
    result = answer_scores(P, y, trials=trials, n_bins=2)
    assert result["ece"] == pytest.approx((low - high) / 9, rel=1e-12)
    # The third answer twice: its gap grows, and so does the number of judgments.
    high = 1 - (6 * 0.5 + 0.9)
    result = answer_scores(P, y, trials=trials, sample_weight=[1, 1, 2, 1], n_bins=2)
    assert result["ece"] == pytest.approx((low - high) / 12, rel=1e-12)


def test_what_was_impossible_costs_infinitely_if_it_happens_and_nothing_if_not():
    assert answer_scores([0.0, 1.0], [0, 1])["log_loss"] == 0
    assert answer_scores([0.0, 1.0], [1, 1])["log_loss"] == np.inf
    assert np.isnan(answer_scores([0.2, 0.4], [1, 1])["roc_auc"])
    weighted = answer_scores([0.0, 0.5], [1, 1], sample_weight=[0, 1])
    np.testing.assert_allclose(weighted["log_loss"], np.log(2))


@pytest.mark.parametrize(
    ("P", "y", "more", "words"),
    [
        ([1.2], [1], {}, r"P must be in \[0, 1\], got 1.2"),
        ([], [], {}, r"P must have shape .* got \(0,\)"),
        ([np.nan], [1], {}, "P must be finite"),
        ([0.5], [2], {}, "y must be 0 or 1, got 2"),
        ([0.5], [3], {"trials": [2]}, "y must be .* trials, got 3"),
        ([0.5], [0], {"trials": [0]}, "trials must be .* got 0"),
        ([0.5], [0, 1], {}, r"y must have shape \(1,\)"),
        ([0.5], [0], {"sample_weight": [0]}, "sample_weight must be"),
        ([0.5], [0], {"n_bins": 0}, "n_bins"),
    ],
)
def test_bad_answers_are_refused(P, y, more, words):
    with pytest.raises(ValueError, match=words):
        answer_scores(P, y, **more)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e308])
def test_the_unit_of_weights_and_of_trials_changes_no_score(size):
    """Two of three judgments are right, by weight; (0.75 - 1)² and 0.25² are 0.0625."""
    scores = answer_scores([0.75, 0.25, 0.75], [1, 0, 0], sample_weight=[size] * 3)
    brier = (2 * 0.0625 + 0.5625) / 3
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["brier"] == pytest.approx(brier)
    assert scores["roc_auc"] == 0.75
    many = answer_scores([0.75], [3e307], trials=[4e307], sample_weight=[size])
    assert many["accuracy"] == pytest.approx(0.75)
