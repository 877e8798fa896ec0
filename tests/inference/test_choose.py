"""``choose``: the table of held-out losses that a rule gets."""

import numpy as np

from probmetric.inference import choose as module
from probmetric.inference.choose import choose
from probmetric.neighbors.strength import Fold

POINTS = np.array([4, 1, 3])
FOLDS = [
    Fold(np.array([0, 3]), np.array([3]), np.array([1, 4])),
    Fold(np.array([0, 1, 4]), np.array([1, 4]), np.array([3])),
    Fold(np.array([0, 1, 3]), np.array([1, 3]), np.array([4])),
]


def table_of(learn, **options):
    """Return the mean losses that the rule gets; a loss is model plus row number."""
    return choose(
        ("a", "b"),
        learn,
        lambda model, fold: model + fold.asked,
        lambda table, grid: (table, grid),
        folds=FOLDS,
        points=POINTS,
        name="letter",
        **options,
    )


def test_losses_are_averaged_over_the_folds_that_hold_a_point_out():
    table, grid = table_of(lambda rows: [10.0 * len(rows), 100.0 * len(rows)])
    # Point 4 is held out twice, after learning from 2 and from 3 rows.
    np.testing.assert_array_equal(table, [[29, 21, 33], [254, 201, 303]])
    assert grid == ("a", "b")


def test_a_setting_that_cannot_be_fitted_has_infinite_losses():
    table, _ = table_of(lambda rows: [None if len(rows) == 2 else 0.0, 0.0])
    np.testing.assert_array_equal(table, [[np.inf, np.inf, 3], [4, 1, 3]])


def test_losses_broadcast_over_leading_axes():
    table, _ = table_of(lambda rows: [np.zeros((2, 1)), np.ones((2, 1))], shape=(2,))
    np.testing.assert_array_equal(table[1], [[5, 2, 4], [5, 2, 4]])


def test_points_that_no_fold_holds_out_have_no_loss():
    every = choose(
        (0,),
        lambda rows: [1.0],
        lambda model, fold: np.ones(len(fold.asked)),
        lambda table, _: table,
        folds=FOLDS,
        points=np.arange(5),
        name="nothing",
    )
    np.testing.assert_array_equal(every, [[0, 1, 0, 1, 1]])


def test_folds_have_a_progress_bar(monkeypatch):
    labels = []

    def bar(items, label, show, unit):
        labels.append((len(items), label, unit))
        return items

    monkeypatch.setattr(module, "progress_bar", bar)
    table_of(lambda rows: [0.0, 0.0])
    assert labels == [(3, "choose letter", "fold")]
