"""LCA with point effects: limits in the spread, which points are one."""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from probmetric.checks.point_effects.problems import toy
from probmetric.data.containers import Pairs
from probmetric.inference.effects.fit import best_mode, fit, spread_posterior
from probmetric.inference.effects.left_out import point_log_likelihood
from probmetric.inference.effects.points import rows_of
from probmetric.inference.effects.recipe import merged
from probmetric.inference.lca.fit import fit as fit_lca
from probmetric.models.point_effects import identified, intercept_of_new


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return toy(0)


def matrix(params):
    return params.W.T @ params.W / (1 + 2 * np.exp(params.log_sigma2))


@pytest.mark.long
def test_as_the_spread_goes_to_zero_it_becomes_lca(problem):
    prior, rate = problem.prior, problem.options["learning_rate"]
    lca = matrix(fit_lca(problem.data, prior.common, learning_rate=rate, tol=1e-9)[0])
    far = []
    for spread in (0.0, 0.03, 0.1, 0.3):
        one = fit(problem.data, prior, learning_rate=rate, spread=spread)
        far.append(np.abs(matrix(one.params) - lca).max() / np.abs(lca).max())
    assert far[0] < 1e-5
    # The effects are of second order in ω, as their mode and their mean are 0 there.
    assert far[1] < 0.01 * 0.3
    assert far[1] < far[2] < far[3]


def test_the_certificate_is_small_at_the_fit_and_not_elsewhere(problem):
    _, mode = best_mode(problem.data, problem.prior, **problem.options)
    assert mode.gap < 1e-12
    _, early = best_mode(
        problem.data, problem.prior, spread=0.5, max_steps=1, **problem.options
    )
    assert early.gap > mode.gap


def test_the_spread_is_found_where_there_is_one(problem):
    # ω = .8: the grid's interval of 99 % holds it.
    found = spread_posterior(
        problem.params, problem.data, problem.prior, **problem.options
    )
    total = np.cumsum(found.probability)
    low, high = found.spread[np.searchsorted(total, [0.005, 0.995])]
    assert low < 0.8 < high
    assert found.probability.sum() == pytest.approx(1)


def test_new_points_are_the_typical_one_where_all_are_alike():
    b, zero, one = np.array(0.7), np.array(0.0), np.array(1.0)
    np.testing.assert_allclose(intercept_of_new(b, zero), 0.7, rtol=1e-12)
    assert intercept_of_new(b, one) < 0.7 * np.exp(0.5)  # Less than E[b_i]: Jensen.


def test_a_point_is_left_out_with_all_its_pairs_and_its_effect():
    """The integral over its effect, of pairs (0, 1) same, (0, 2) and (2, 1) not."""
    X = np.array([[0.0, 0.0], [1.0, 0.5], [-0.4, 2.0]])
    pairs = Pairs(X, np.array([0, 0, 2]), np.array([1, 2, 1]), np.array([1, 0, 0]))
    M, b, spread = np.array([[0.5, 0.1], [0.1, 0.2]]), 0.6, 0.7
    b_point = np.array([0.9, 0.4, 1.3])
    values = {"M": M, "b": b, "b_point": b_point, "spread": spread}
    result = point_log_likelihood(
        {name: np.array(value)[None, None] for name, value in values.items()},
        rows_of(pairs),
    )

    def exponent(i, j, at):
        """-log P(same) of a pair whose point i has the effect z."""
        delta = X[i] - X[j]
        b_i = b * np.exp(spread * at)
        return b_i / 2 + b_point[j] / 2 + delta @ M @ delta / 2

    def density(z, point):
        same = np.exp(-exponent(*((0, 1) if point == 0 else (1, 0)), z))
        by = {0: [(0, 2)], 1: [(1, 2)], 2: [(2, 0), (2, 1)]}[point]
        apart = np.prod([1 - np.exp(-exponent(i, j, z)) for i, j in by])
        return stats.norm.pdf(z) * (apart if point == 2 else same * apart)

    wanted = [np.log(quad(density, -9, 9, (point,))[0]) for point in range(3)]
    np.testing.assert_allclose(result[0, 0], wanted, rtol=1e-7)


def test_points_are_one_by_label_or_by_features():
    X = np.array([[0.0], [1.0], [0.0], [2.0]])
    pairs = Pairs(X, np.array([0, 2]), np.array([1, 3]), np.array([1, 0]))
    one, labels = merged(pairs)
    assert labels is None
    assert one.i.tolist() == [0, 0]
    assert one.j.tolist() == [1, 2]
    two, labels = merged(pairs, [["a", "b"], ["c", "b2"]])
    assert labels.tolist() == ["a", "b", "b2", "c"]
    np.testing.assert_array_equal(two.X[two.i], X[pairs.i])
    np.testing.assert_array_equal(two.X[two.j], X[pairs.j])
    with pytest.raises(ValueError, match=r"points .*'b'"):
        merged(pairs, [["a", "b"], ["c", "b"]])
    with pytest.raises(ValueError, match=r"points .* 7\.$"):
        merged(pairs, [[5, 7], [6, 7]])
    with pytest.raises(ValueError, match=r"points .*\(2, 2\)"):
        merged(pairs, ["a", "b"])


def test_pairs_without_labels_of_one_point_or_flat_priors_are_refused(problem):
    pairs, prior = problem.data, problem.prior
    with pytest.raises(ValueError, match=r"pairs\.y .*None"):
        fit(pairs._replace(y=None), prior)
    with pytest.raises(ValueError, match="paired with itself"):
        fit(pairs._replace(j=pairs.i), prior)
    flat = prior._replace(common=prior.common._replace(lam=0.0))
    with pytest.raises(ValueError, match=r"lam must be > 0, got 0\.0"):
        fit(pairs, flat)
    many = pairs._replace(X=np.zeros((6000, 3)))
    with pytest.raises(ValueError, match=r"pairs .*5000"):
        fit(many, prior)


def test_what_is_identified_has_the_intercepts_of_all_points(problem):
    found = identified(problem.params)
    u = np.log(found["b_point"] / found["b"])
    np.testing.assert_allclose(u, problem.params.effects, atol=1e-12)
