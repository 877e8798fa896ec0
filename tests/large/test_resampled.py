"""Resampled sources: weights by the numbers of rows, and what learners make of them."""

import numpy as np
import pytest
from scipy import stats

import probmetric as pm
from probmetric.large.files import Rows
from probmetric.large.passes import hash_of
from probmetric.large.resampled import group_of, without_group
from probmetric.large.source import Part, Source

N = 5000
X = np.arange(N, dtype=float)[:, None]


def weights(source, rows=700):
    blocks = [b for part in source.parts for b in source.read(part, rows)]
    return np.concatenate([b.w for b in blocks])


def test_groups_part_the_rows_about_evenly():
    group = group_of(np.arange(N), 50, seed=3)
    counts = np.bincount(group, minlength=50)
    # A false alarm in a thousand seeds; this one is fixed.
    assert stats.chisquare(counts).pvalue > 1e-3
    left = np.stack([weights(without_group(pm.open(X), k, seed=3)) for k in range(50)])
    np.testing.assert_array_equal(left, np.arange(50)[:, None] != group)


def test_groups_of_two_seeds_are_independent():
    row = np.arange(N)
    one, other = group_of(row, 50, seed=0), group_of(row, 50, seed=1)
    assert abs(np.mean(one == other) - 1 / 50) < 5 * np.sqrt(0.02 / N)


def test_weights_do_not_depend_on_parts_and_multiply_those_there_are():
    y, w = np.arange(N) % 3, np.linspace(0, 2, N)
    whole, parts = Rows(X, y, w), Rows(X, y, w)
    parts.parts = [Part("", 0, 1), Part("", 1, 2000, start=1),
                   Part("", 2001, N - 2001, start=2001)]  # fmt: skip
    found = weights(without_group(whole, 2))
    np.testing.assert_array_equal(weights(without_group(parts, 2)), found)
    np.testing.assert_array_equal(found, weights(without_group(pm.open(X), 2)) * w)


def test_it_is_a_source_that_says_which():
    source = pm.open(X, label=np.arange(N) % 3)
    views = [source, *(without_group(source, k) for k in range(2))]
    views.append(without_group(source, 0, seed=1))
    assert all(isinstance(view, Source) for view in views)
    assert len({hash_of(view) for view in views}) == len(views)
    assert {view.labeled for view in views} == {True}
    assert {view.feature_names for view in views} == {("x0",)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: without_group(s, 50), "group must be a whole number in"),
        (lambda s: without_group(s, 0, n_groups=1), "n_groups must be"),
        (lambda s: without_group(s, 0, seed=2**32), "seed must be"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make(pm.open(X))


def test_a_group_that_no_row_is_in_is_refused():
    with pytest.raises(ValueError, match="group must be a whole number in"):
        without_group(pm.open(X[:150]), 170, n_groups=200)


def test_a_class_whose_rows_have_no_weight_is_not_there():
    y, w = np.arange(60) % 3, np.ones(60)
    Z = np.random.default_rng(0).normal(size=(60, 2)) + y[:, None]
    w[y == 2] = 0
    found = pm.LDA(prior_strength=1.0).fit(pm.open(Z, label=y, weight=w))
    wanted = pm.LDA(prior_strength=1.0).fit(Z[y < 2], y[y < 2])
    np.testing.assert_allclose(found.covariance_, wanted.covariance_, rtol=1e-9)
    w[2] = 1e-9
    y[2] = 7  # Of weight, it is a class.
    with pytest.warns(UserWarning, match="label: class 7 has only one row"):
        pm.LDA(prior_strength=1.0).fit(pm.open(Z, label=y, weight=w))
