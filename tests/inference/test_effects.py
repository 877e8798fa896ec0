"""LCA with an effect: limits in the spread, its density, draws, which points are one.

``groups`` is hierarchical LCA (ω = 0.5), ``points`` is point effects (ω = 0.8).
"""

from dataclasses import replace

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats
from scipy.integrate import quad

from probmetric.checks.hierarchical_lca import toy as toy_groups
from probmetric.checks.point_effects import toy as toy_points
from probmetric.data.containers import Pairs
from probmetric.inference.effects.arrow import arrow, gradient
from probmetric.inference.effects.draws import (
    new_groups,
    off_rotations,
)
from probmetric.inference.effects.fit import (
    GROUPS,
    best_mode,
    data_of,
    fit,
    mode_at,
    spread_posterior,
)
from probmetric.inference.effects.groups import objective, position, to_params
from probmetric.inference.effects.left_out import point_log_likelihood
from probmetric.inference.effects.points import rows_of
from probmetric.inference.effects.recipe import merged
from probmetric.inference.lca.fit import fit as fit_lca
from probmetric.models import hierarchical_lca
from probmetric.models.point_effects import identified, intercept_of_new


@pytest.fixture(scope="module")
def groups():
    with jax.enable_x64(True):
        return toy_groups(0)


@pytest.fixture(scope="module")
def points():
    with jax.enable_x64(True):
        return toy_points(0)


@pytest.fixture(scope="module", params=["groups", "points"])
def problem(request):
    return request.getfixturevalue(request.param)


def posterior(problem, **options):
    options |= problem.options
    return spread_posterior(problem.params, problem.data, problem.prior, **options)


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
    assert far[1] < 0.15 * far[2] < far[2] < far[3], far


@pytest.mark.long
def test_at_a_large_spread_a_group_does_not_see_the_others(groups):
    # Under ω = 50 the prior of a group's map is flat on the scale of its likelihood.
    prior, n = groups.prior, groups.options["n_groups"]
    flat = prior._replace(common=prior.common._replace(b_shape=400.0, b_rate=1000.0))
    options = {"spread": 50.0, "n_groups": n, "tol": 1e-8, "max_steps": 2000}
    whole = fit(groups.data, flat, **options).params
    anchor = np.asarray(groups.data.anchor)
    y = np.where(anchor == 0, groups.data.y, 1 - groups.data.y)
    other = fit(groups.data._replace(y=y), flat, **options).params
    M, changed = (
        hierarchical_lca.identified(each)["M_group"] for each in (whole, other)
    )
    # b, held by its prior within 5 %, is all that they share.
    assert np.abs(changed[0] - M[0]).max() < 0.1 * np.abs(M[0]).max()
    assert np.abs(changed[1] - M[1]).max() > 0.3 * np.abs(M[1]).max()


def test_groups_that_are_copies_of_one_have_no_spread(groups):
    rows = np.flatnonzero(np.asarray(groups.data.anchor) == 2)
    pick = np.concatenate([rows] * 4)
    group = np.repeat(np.arange(4), len(rows))
    fields = {k: np.asarray(getattr(groups.data, k))[pick] for k in ("i", "j", "y")}
    copies = groups.data._replace(**fields, w=None, anchor=group)
    assert float(fit(copies, groups.prior).params.spread) == 0


@pytest.mark.long
def test_gradient_is_that_of_autodiff_away_from_the_mode(groups):
    data = data_of(groups.data, groups.prior, groups.options["learning_rate"])[1]
    stats, prior, rate = data
    with jax.enable_x64(True):
        at = position(groups.params, prior)
        at = {k: v + 0.1 for k, v in at.items()}
        slope = jax.jit(jax.grad(objective))(at, (data, np.asarray(0.7)))
        params = to_params({**at, "spread": np.asarray(0.7)}, prior)
    wanted = np.concatenate([np.ravel(slope[k]) for k in ("W", "log_b", "E")])
    found = gradient(params, at["E"], stats, prior, rate)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.long
def test_root_is_that_of_the_inverse_of_autodiffs_hessian(groups):
    data = data_of(groups.data, groups.prior, groups.options["learning_rate"])[1]
    with jax.enable_x64(True):
        mode = mode_at(GROUPS, 0.5, position(groups.params, data[1]), data)
        flat, unravel = ravel_pytree(mode.at)
        at = data, np.asarray(0.5)
        hessian = jax.jit(jax.hessian(lambda x: -objective(unravel(x), at)))
        H = np.asarray(hessian(flat))
    n, q = len(H), mode.params.W.size + 1
    # ravel_pytree sorts by name: E, W, log b.
    order = np.r_[n - q : n, : n - q]
    R = arrow(mode.params, *data).root
    np.testing.assert_allclose(R.T @ H[np.ix_(order, order)] @ R, np.eye(n), atol=1e-8)
    assert mode.gap < 1e-12


@pytest.mark.long
def test_posterior_of_the_spread_sums_to_one_and_holds_fit_and_truth(problem):
    found = posterior(problem)
    assert found.probability.sum() == pytest.approx(1)
    assert found.spread[0] < float(problem.params.spread) < found.spread[-1]
    best = found.spread[found.probability.argmax()]
    step = found.spread[1] - found.spread[0]
    assert abs(best - float(problem.params.spread)) <= step
    total = np.cumsum(found.probability)
    low, high = found.spread[np.searchsorted(total, [0.005, 0.995])]
    assert low < (0.5 if "n_groups" in problem.options else 0.8) < high


def test_a_part_along_rotations_is_taken_away_and_nothing_else():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(3, 4))
    omega = rng.normal(size=(3, 3))
    turn = (omega - omega.T) @ W
    symmetric = rng.normal(size=(3, 3))
    V = np.linalg.solve(W @ W.T, W).T  # WᵀW V-part: V Wᵀ is symmetric for S W⁻ᵀ.
    kept = ((symmetric + symmetric.T) @ V.T)[None]
    np.testing.assert_allclose(off_rotations(W, turn[None]), 0, atol=1e-12)
    np.testing.assert_allclose(off_rotations(W, kept), kept, atol=1e-10)


def test_new_groups_have_the_mean_that_the_model_gives():
    # E[M_new] = M + p ω²c²/τ² I, here over 4000 draws: 5 standard errors.
    n, p, d = 4000, 2, 3
    rng = np.random.default_rng(0)
    L = rng.normal(size=(p, d))
    ones = np.ones(n)
    values = {"M": np.tile(L.T @ L, (n, 1, 1)), "b": 0.4 * ones, "spread": 0.5 * ones}
    made = new_groups(values, width=0.8, scale=np.ones(d), p=p, seed=0)
    wanted = L.T @ L + p * (0.5 * 0.8) ** 2 / np.exp(2 * 0.4 / p) * np.eye(d)
    error = made.std(0) / np.sqrt(n)
    assert np.all(np.abs(made.mean(0) - wanted) < 5 * error)


def test_a_group_without_pairs_is_the_common_one(groups):
    rate = groups.options["learning_rate"]
    found = fit(groups.data, groups.prior, n_groups=5, learning_rate=rate)
    W, last = found.params.W, found.params.W_groups[4]
    np.testing.assert_allclose(last, W, atol=1e-6)


@pytest.mark.long
def test_a_vague_prior_of_the_spread_finds_what_the_default_does(groups):
    found = []
    for scale in (0.5, 100.0, 1000.0):
        prior = groups.prior._replace(spread=scale)
        params = fit(groups.data, prior, **groups.options).params
        found.append(float(params.spread))
    assert found[0] > 0.1
    assert found[1] == pytest.approx(found[0], rel=0.25)
    assert found[2] == pytest.approx(found[1], rel=0.01)


def test_the_certificate_is_small_at_the_fit_and_not_elsewhere(points):
    _, mode = best_mode(points.data, points.prior, **points.options)
    assert mode.gap < 1e-12
    _, early = best_mode(
        points.data, points.prior, spread=0.5, max_steps=1, **points.options
    )
    assert early.gap > mode.gap


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
    for wrong, message in (
        ([["a", "b"], ["c", "b"]], r"points .*'b'"),
        ([[5, 7], [6, 7]], r"points .* 7\.$"),
        (["a", "b"], r"points .*\(2, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            merged(pairs, wrong)


def test_intercepts_of_points_have_their_effects(points):
    found = identified(points.params)
    u = np.log(found["b_point"] / found["b"])
    np.testing.assert_allclose(u, points.params.effects, atol=1e-12)


def test_pairs_without_labels_and_flat_priors_are_refused(problem):
    pairs, prior = problem.data, problem.prior
    with pytest.raises(ValueError, match=r"pairs\.y .*None"):
        fit(pairs._replace(y=None), prior)
    flat = prior._replace(common=prior.common._replace(lam=0.0))
    with pytest.raises(ValueError, match=r"lam must be > 0, got 0\.0"):
        fit(pairs, flat)


def test_what_only_groups_or_points_cannot_have_is_refused(groups, points):
    pairs, prior = groups.data, groups.prior
    with pytest.raises(ValueError, match=r"pairs\.anchor .*None"):
        fit(pairs._replace(anchor=None), prior)
    with pytest.raises(ValueError, match=r"n_groups must be at least 4.*got 2"):
        fit(pairs, prior, n_groups=2)
    far = replace(groups, params=groups.params._replace(spread=np.asarray(1e9)))
    with pytest.raises(ValueError, match="fit did not converge for any value"):
        posterior(far, n_grid=1)
    pairs, prior = points.data, points.prior
    with pytest.raises(ValueError, match="paired with itself"):
        fit(pairs._replace(j=pairs.i), prior)
    with pytest.raises(ValueError, match=r"pairs: .*5000"):
        fit(pairs._replace(X=np.zeros((6000, 3))), prior)
