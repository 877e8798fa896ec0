"""The default recipe of LCA: pairs, prior and learning rate, by hand."""

import jax
import numpy as np
import pytest

from probmetric.data.containers import Labeled
from probmetric.data.padding import pad_pairs
from probmetric.inference.lca import recipe as module
from probmetric.inference.lca.fit import fit, scaled_within
from probmetric.inference.lca.recipe import (
    Recipe,
    auto_regularization,
    build,
    most_anchors,
    prior_for,
    rate_for,
    solve,
)

# Two classes that alternate in runs: 0 0 1 0 1 1 1 0, in a plane without height.
LINE = np.array([0.0, 1.0, 2.5, 4.5, 7.0, 10.0, 13.5, 17.5])
X = np.column_stack([LINE, np.zeros(8)])
CODES = np.array([0, 0, 1, 0, 1, 1, 1, 0])


def partners(pairs):
    """Return the partners of each point, of its class and of others."""
    return [
        (set(pairs.j[(pairs.i == k) & (pairs.y == 1)].tolist()),
         set(pairs.j[(pairs.i == k) & (pairs.y == 0)].tolist()))
        for k in range(8)
    ]  # fmt: skip


def test_each_point_is_paired_with_its_nearest_of_either_kind():
    pairs = build(Labeled(X, CODES), Recipe(2, n_targets=2, n_impostors=1))
    assert partners(pairs)[:4] == [
        ({1, 3}, {2}),
        ({0, 3}, {2}),
        ({4, 5}, {1}),
        ({1, 0}, {2}),
    ]
    # A refresh measures distances under the learned map, here by height only.
    high = X + np.column_stack([np.zeros(8), 1.5 ** np.arange(8)])
    refreshed = build(
        Labeled(high, CODES), Recipe(2, n_targets=1, n_impostors=1), np.diag([0.0, 1.0])
    )
    assert partners(refreshed)[7] == ({3}, {6})


def test_three_partners_of_each_kind_are_the_default():
    pairs = build(Labeled(X, CODES), Recipe(2))
    counts = np.bincount(pairs.i[pairs.y == 1]), np.bincount(pairs.i[pairs.y == 0])
    np.testing.assert_array_equal(counts, 3)
    assert rate_for(pairs, Recipe(2)) == pytest.approx(8 / 48)
    weighted = build(Labeled(X, CODES, np.arange(1.0, 9.0)), Recipe(2))
    np.testing.assert_array_equal(weighted.w, (weighted.i + 1.0) * (weighted.j + 1.0))


def test_the_prior_is_euclidean_in_units_of_pairs_of_one_class():
    pairs = build(Labeled(X, CODES), Recipe(2, n_targets=1, n_impostors=1))
    # Nearest of the class: 1, 1, 4.5, 3.5, 3, 3, 3.5 and 13; their median is 3.25.
    squared = np.median(np.array([1, 1, 4.5, 3.5, 3, 3, 3.5, 13]) ** 2)
    prior = prior_for(pairs, Recipe(2), 7.0)
    np.testing.assert_allclose(prior.mean, np.eye(2) / np.sqrt(squared))
    assert (float(prior.c), float(prior.lam)) == pytest.approx((squared**-0.5, 7.0))
    mean = np.array([[3.0, 4.0]])  # A prior mean sets c by its size: √(25/1).
    assert float(prior_for(pairs, Recipe(1, prior_mean=mean), 7.0).c) == 5.0


def test_the_covariance_within_classes_may_center_the_prior():
    recipe = Recipe(2, n_targets=2, n_impostors=1, prior_mean="within")
    data = Labeled(X + np.eye(8, 2), CODES)
    pairs = build(data, recipe)
    found = prior_for(pairs, recipe, 7.0, data)
    np.testing.assert_array_equal(found.mean, scaled_within(pairs, CODES)[0])


def test_the_strength_of_the_prior_grows_beyond_a_thousand_points():
    assert [auto_regularization(n) for n in (1, 1000, 2500)] == [10.0, 10.0, 25.0]


@pytest.mark.parametrize("mean", [0.5, "pca"])
def test_a_fit_in_the_span_of_few_points_is_the_fit_to_all_features(mean):
    rng = np.random.default_rng(0)
    codes = np.arange(12) % 3
    X = rng.normal(size=(12, 20)) + rng.normal(size=(3, 20))[codes]
    recipe = Recipe(20 if mean == 0.5 else 4, prior_mean=mean, tol=1e-12)
    pairs = build(Labeled(X, codes), recipe)
    prior = prior_for(pairs, recipe, 10.0, Labeled(X, codes))
    found = solve(pairs, prior, recipe, 0.2)
    with jax.enable_x64(True):
        whole = fit(pad_pairs(pairs), prior, learning_rate=0.2, tol=1e-12)
    np.testing.assert_allclose(found.params.W, whole.params.W, atol=1e-6)
    np.testing.assert_allclose(found.objective, whole.objective, rtol=1e-10)


def test_beyond_32000_points_a_sample_anchors_the_pairs():
    assert [most_anchors(n) for n in (9, 32_000, 64_000, 100_000, 10**6)] == [
        9, 32_000, 16_000, 10_240, 10_000,
    ]  # fmt: skip


def test_sampled_anchors_do_not_depend_on_the_order_of_rows(monkeypatch):
    monkeypatch.setattr(module, "FEWEST_ANCHORS", 12)
    monkeypatch.setattr(module, "SEARCHED", 0)
    rng = np.random.default_rng(0)
    points, codes = rng.normal(size=(60, 3)), np.arange(60) % 3
    order = rng.permutation(60)
    pairs = build(Labeled(points, codes), Recipe(3))
    again = build(Labeled(points[order], codes[order]), Recipe(3))
    assert len(np.unique(pairs.i)) == 12
    assert rate_for(pairs, Recipe(3)) * len(pairs.i) == pytest.approx(12)
    triples = set(zip(pairs.i, pairs.j, pairs.y, strict=True))
    assert triples == set(zip(order[again.i], order[again.j], again.y, strict=True))


def test_a_sample_of_anchors_counts_as_its_own_number_of_points(monkeypatch):
    """With 20 anchors of 60 points, η is 20/N, and λ has a third of its weight."""
    monkeypatch.setattr(module, "SEARCHED", 1200)
    monkeypatch.setattr(module, "FEWEST_ANCHORS", 5)
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 2)) + y[:, None]
    fitted = module.fit_labeled(Labeled(X, y), Recipe(2), 9.0)
    assert len(np.unique(fitted.pairs.anchor)) == 20
    assert fitted.learning_rate == 20 / len(fitted.pairs.y)
    assert float(fitted.prior.lam) == 3.0
