"""Scores of stated probabilities by answers: those of every judgment by itself."""

import numpy as np
import pytest

from probmetric.evaluation import answer_scores


def test_what_was_impossible_costs_infinitely_if_it_happens_and_nothing_if_not():
    assert answer_scores([0.0, 1.0], [0, 1])["log_loss"] == 0
    assert answer_scores([0.0, 1.0], [1, 1])["log_loss"] == np.inf
    assert np.isnan(answer_scores([0.2, 0.4], [1, 1])["roc_auc"])
    weighted = answer_scores([0.0, 0.5], [1, 1], sample_weight=[0, 1])
    np.testing.assert_allclose(weighted["log_loss"], np.log(2))


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
