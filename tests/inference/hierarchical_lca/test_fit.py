"""Hierarchical LCA: limits in the spread, its marginal density, draws, new groups."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from probmetric.checks.hierarchical_lca import toy
from probmetric.data.containers import Pairs
from probmetric.inference.effects.arrow import arrow, gradient
from probmetric.inference.effects.draws import (
    laplace_draws,
    new_groups,
    off_rotations,
)
from probmetric.inference.effects.fit import (
    GROUPS,
    data_of,
    fit,
    mode_at,
    spread_posterior,
)
from probmetric.inference.effects.groups import objective, position, to_params
from probmetric.inference.lca.fit import fit as fit_lca
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior, identified


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return toy(0)


def of_arrays(problem):
    """The problem as the inner functions take it."""
    return data_of(problem.data, problem.prior, problem.options["learning_rate"])[1]


def posterior(problem, **options):
    options |= problem.options
    return spread_posterior(problem.params, problem.data, problem.prior, **options)


@pytest.mark.long
def test_at_a_spread_of_zero_it_is_lca(problem):
    prior, rate = problem.prior, problem.options["learning_rate"]
    one = fit(problem.data, prior, learning_rate=rate, spread=0.0)
    lca = fit_lca(problem.data, prior.common, learning_rate=rate, tol=1e-9)
    np.testing.assert_allclose(
        identified(one.params)["M"],
        lca.params.W.T @ lca.params.W / (1 + 2 * np.exp(lca.params.log_sigma2)),
        rtol=1e-4,
    )
    np.testing.assert_array_equal(one.params.W_groups[0], one.params.W)


@pytest.mark.long
def test_at_a_large_spread_a_group_does_not_see_the_others(problem):
    # Under ω = 50 the prior of a group's map is flat on the scale of its likelihood.
    prior, n = problem.prior, problem.options["n_groups"]
    flat = prior._replace(common=prior.common._replace(b_shape=400.0, b_rate=1000.0))
    options = {"spread": 50.0, "n_groups": n, "tol": 1e-8, "max_steps": 2000}
    whole = fit(problem.data, flat, **options).params
    anchor = np.asarray(problem.data.anchor)
    y = np.where(anchor == 0, problem.data.y, 1 - problem.data.y)
    other = fit(problem.data._replace(y=y), flat, **options).params
    M, changed = (identified(each)["M_group"] for each in (whole, other))
    # b, held by its prior within 5 %, is all that they share.
    assert np.abs(changed[0] - M[0]).max() < 0.1 * np.abs(M[0]).max()
    assert np.abs(changed[1] - M[1]).max() > 0.3 * np.abs(M[1]).max()


def test_groups_that_are_copies_of_one_have_no_spread(problem):
    rows = np.flatnonzero(np.asarray(problem.data.anchor) == 2)
    pick = np.concatenate([rows] * 4)
    group = np.repeat(np.arange(4), len(rows))
    fields = {k: np.asarray(getattr(problem.data, k))[pick] for k in ("i", "j", "y")}
    copies = problem.data._replace(**fields, w=None, anchor=group)
    found = fit(copies, problem.prior)
    assert float(found.params.spread) == 0


@pytest.mark.long
def test_gradient_is_that_of_autodiff_away_from_the_mode(problem):
    stats, prior, rate = of_arrays(problem)
    with jax.enable_x64(True):
        at = position(problem.params, prior)
        at = {k: v + 0.1 for k, v in at.items()}
        slope = jax.jit(jax.grad(objective))(
            at, ((stats, prior, rate), np.asarray(0.7))
        )
        params = to_params({**at, "spread": np.asarray(0.7)}, prior)
    wanted = np.concatenate([np.ravel(slope[k]) for k in ("W", "log_b", "E")])
    found = gradient(params, at["E"], stats, prior, rate)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.long
def test_root_is_that_of_the_inverse_of_autodiffs_hessian(problem):
    from jax.flatten_util import ravel_pytree

    stats, prior, rate = of_arrays(problem)
    with jax.enable_x64(True):
        mode = mode_at(
            GROUPS, 0.5, position(problem.params, prior), (stats, prior, rate)
        )
        flat, unravel = ravel_pytree(mode.at)
        data = ((stats, prior, rate), np.asarray(0.5))
        hessian = jax.jit(jax.hessian(lambda x: -objective(unravel(x), data)))
        H = np.asarray(hessian(flat))
    m, q = mode.params.W.size, mode.params.W.size + 1
    n = len(H)
    # ravel_pytree sorts by name: E, W, log b.
    order = np.r_[n - q : n - 1, n - 1, : n - q]
    assert m + 1 == q
    H = H[np.ix_(order, order)]
    R = arrow(mode.params, stats, prior, rate).root
    np.testing.assert_allclose(R.T @ H @ R, np.eye(n), atol=1e-8)
    assert mode.gap < 1e-12


@pytest.mark.long
def test_posterior_of_the_spread_sums_to_one_and_holds_the_fit(problem):
    found = posterior(problem)
    assert found.probability.sum() == pytest.approx(1)
    assert found.spread[0] < float(problem.params.spread) < found.spread[-1]
    best = found.spread[found.probability.argmax()]
    step = found.spread[1] - found.spread[0]
    assert abs(best - float(problem.params.spread)) <= step


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


@pytest.mark.long
def test_laplace_draws_centre_on_the_mode_and_have_its_seed(problem):
    found = posterior(problem)
    one, same, other = (
        laplace_draws(found, problem.prior, 400, seed=s)["M_group"] for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_new_groups_have_the_mean_that_the_model_gives(problem):
    # E[M_new] = M + p ω²c²/τ² I, here over 20 000 draws: 5 standard errors.
    n, p, d = 20_000, 2, 3
    rng = np.random.default_rng(0)
    L = rng.normal(size=(p, d))
    ones = np.ones(n)
    values = {"M": np.tile(L.T @ L, (n, 1, 1)), "b": 0.4 * ones, "spread": 0.5 * ones}
    made = new_groups(values, width=0.8, scale=np.ones(d), p=p, seed=0)
    wanted = L.T @ L + p * (0.5 * 0.8) ** 2 / np.exp(2 * 0.4 / p) * np.eye(d)
    error = made.std(0) / np.sqrt(n)
    assert np.all(np.abs(made.mean(0) - wanted) < 5 * error)


def test_pairs_without_groups_labels_or_prior_are_refused(problem):
    pairs, prior = problem.data, problem.prior
    with pytest.raises(ValueError, match=r"pairs\.anchor .*None"):
        fit(pairs._replace(anchor=None), prior)
    with pytest.raises(ValueError, match=r"pairs\.y .*None"):
        fit(pairs._replace(y=None), prior)
    with pytest.raises(ValueError, match=r"n_groups must be at least 4.*got 2"):
        fit(pairs, prior, n_groups=2)
    flat = HierarchicalLCAPrior(prior.common._replace(lam=0.0))
    with pytest.raises(ValueError, match=r"lam must be > 0, got 0\.0"):
        fit(pairs, flat)


def test_a_group_without_pairs_is_the_common_one(problem):
    options = {"learning_rate": problem.options["learning_rate"]}
    found = fit(problem.data, problem.prior, n_groups=5, **options)
    W, last = found.params.W, found.params.W_groups[4]
    np.testing.assert_allclose(last, W, atol=1e-6)
    assert isinstance(problem.data, Pairs)


@pytest.mark.long
def test_a_vague_prior_of_the_spread_finds_what_the_default_does(problem):
    found = []
    for scale in (0.5, 100.0, 1000.0):
        prior = problem.prior._replace(spread=scale)
        params = fit(problem.data, prior, **problem.options).params
        found.append(float(params.spread))
    assert found[0] > 0.1
    assert found[1] == pytest.approx(found[0], rel=0.25)
    assert found[2] == pytest.approx(found[1], rel=0.01)


def test_a_known_spread_without_a_mode_is_refused(problem):
    far = replace(problem, params=problem.params._replace(spread=np.asarray(1e9)))
    with pytest.raises(ValueError, match="params must be a fit with a mode"):
        posterior(far, n_grid=1)
