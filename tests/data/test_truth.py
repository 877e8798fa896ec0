"""Base rates of classes, and the score: the weighted share of right labels."""

import numpy as np

from probmetric.data.truth import at_base_rates, right_share, shift_to


def test_probabilities_move_by_the_ratio_of_the_base_rates():
    """1/2 and 1/2 at shares 0.8 and 0.2; at 0.3 and 0.7: 3/8 against 7/2, or 3/31."""
    shift = shift_to({"b": 0.7, "a": 0.3}, np.array(["a", "b"]), np.array([0.8, 0.2]))
    found = np.exp(at_base_rates(np.log([[0.5, 0.5]]), shift))
    np.testing.assert_allclose(found, [[3 / 31, 28 / 31]])


def test_the_share_of_right_labels_counts_rows_by_their_weights():
    predicted, y = np.array([*"abba"]), np.array([*"aabb"])  # Rows 0 and 2 are right.
    assert right_share(predicted, y) == 1 / 2
    assert right_share(predicted, y, [1, 2, 4, 8]) == 5 / 15
