"""Problems: standardized data, and changes that dispatch on the container."""

from dataclasses import replace

import numpy as np
import pytest

from probmetric.checks.check import Problem
from probmetric.checks.problems import (
    permuted,
    translated,
)
from probmetric.data.containers import Groups, Labeled, Pairs
from probmetric.models.gaussian_classes import NIWPrior

X = np.random.default_rng(0).normal(size=(6, 2)) * [3.0, 0.1] + 5.0
Y = np.array([2, 0, 0, 1, 2, 1])
PRIOR = NIWPrior(np.zeros(2), np.eye(2), 1.0, 4.0)
PAIRS = Pairs(X, np.arange(5), np.arange(1, 6), np.array([1, 0, 0, 1, 0]), Y[:5] + 1.0)


def rows(data):
    """What every unit is, whatever its place: its point or points, label and weight."""
    points = (
        [data.X] if not isinstance(data, Pairs) else [data.X[data.i], data.X[data.j]]
    )
    label = data.group if isinstance(data, Groups) else data.y
    weight = np.ones(len(label)) if data.w is None else data.w
    return np.column_stack([*points, label, weight])


@pytest.mark.parametrize("data", [Labeled(X, Y), Groups(X, Y, Y + 1.0), PAIRS])
def test_a_permutation_moves_every_unit_as_a_whole(data):
    before, after = rows(data), rows(permuted(Problem("p", None, data)).data)
    assert not np.array_equal(before, after)
    order = [np.lexsort(table.T) for table in (before, after)]
    np.testing.assert_array_equal(before[order[0]], after[order[1]])


def test_the_prior_mean_of_points_moves_with_them_that_of_a_map_does_not():
    problem = Problem("p", None, Labeled(X, Y), PRIOR)
    moved = translated(problem)
    np.testing.assert_allclose(moved.data.X - X, 3.0)
    np.testing.assert_allclose(moved.prior.mean, 3.0)
    of_pairs = translated(replace(problem, data=PAIRS))
    np.testing.assert_allclose(of_pairs.data.X - X, 3.0)
    assert of_pairs.prior is PRIOR
