"""The score of classifiers: the weighted share of right labels."""

import numpy as np

from probmetric.data.truth import right_share


def test_the_share_of_right_labels_counts_rows_by_their_weights():
    predicted, y = np.array([*"abba"]), np.array([*"aabb"])  # Rows 0 and 2 are right.
    assert right_share(predicted, y) == 1 / 2
    assert right_share(predicted, y, [1, 2, 4, 8]) == 5 / 15
