"""Groups: which points stand together, and the weight of a group."""

import numpy as np

from probmetric.data.containers import Groups, Pairs
from probmetric.data.groups import as_groups, stack

X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])


def test_a_pair_is_one_group_of_two_or_two_groups_of_one_with_its_weight():
    i, j, y = np.array([[0, 2, 1], [1, 3, 3], [1, 0, 1]])
    groups = as_groups(Pairs(X, i, j, y, np.array([2.0, 3.0, 5.0])))
    assert groups.X.ravel().tolist() == [0, 1, 2, 3, 1, 3]
    assert groups.group.tolist() == [0, 0, 1, 2, 3, 3]
    assert groups.w.tolist() == [2, 2, 3, 3, 5, 5]


def test_groups_are_stacked_by_size_with_the_mean_weight_of_their_points():
    group, w = np.array([7, 5, 7, 9, 5, 7]), np.array([1.0, 2.0, 3.0, 4.0, 5.0, 8.0])
    result = stack(Groups(X, group, w))
    assert [part[..., 0].tolist() for part in result.X] == [
        [[3]],
        [[1, 4]],
        [[0, 2, 5]],
    ]
    assert [part.tolist() for part in result.w] == [[4], [3.5], [4]]
    assert result.seen is None
