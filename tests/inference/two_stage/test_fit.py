"""Fits of the two-stage mixture: limits, data kinds, bad starts."""

from itertools import permutations

import jax
import numpy as np
import pytest

from probmetric.data.containers import Groups, Pairs, Points
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.solvers.result import Result
from probmetric.inference.two_stage.draws import relabel
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.groups import group_data
from probmetric.inference.two_stage.proportional import (
    ProportionalParams,
    em_step_proportional,
)
from probmetric.models.two_stage import TwoStageParams, invariant
from tests.inference.two_stage.test_em import small


@pytest.mark.long
@pytest.mark.parametrize("covariance", ["free", "proportional"])
def test_grouped_em_never_falls(covariance):
    end = fit(small(3), n_components=2, covariance=covariance, tol=1e-12)
    trace = end.trace[: int(end.n_steps)]
    assert np.all(np.diff(trace) > -1e-12 * abs(trace[-1]))


def test_balanced_groups_of_one_component_reach_the_closed_form(x64):
    """K = 1, balanced: W = ΣS_i/(G(n - 1)), B = Cov(x̄) - W/n (maths 1.9)."""
    groups = small(5, k=1, groups=200, size=4)
    end = fit(groups, prior=None, tol=1e-15, max_steps=5000)
    X = groups.X.reshape(200, 4, 2)
    mean = X.mean(1)
    e = (X - mean[:, None]).reshape(-1, 2)
    W = e.T @ e / (200 * 3)
    B = np.cov(mean.T, bias=True) - W / 4
    np.testing.assert_allclose(end.params.means[0], mean.mean(0), rtol=1e-10)
    # EM stops at a gap of 1e-15 of the objective: parameters to its square root.
    np.testing.assert_allclose(end.params.within[0], W, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(end.params.between[0], B, rtol=1e-6, atol=1e-7)


@pytest.mark.long
def test_pairs_are_groups_of_two_or_twice_one():
    X = small().X
    pairs = Pairs(X, np.array([0, 3, 6]), np.array([1, 4, 9]), np.array([1, 1, 0]))
    rows = X[[0, 1, 3, 4, 6, 9]]
    groups = Groups(rows, np.array([0, 0, 1, 1, 2, 3]))
    ends = [fit(data, n_components=2, max_steps=5) for data in (pairs, groups)]
    np.testing.assert_array_equal(ends[0].params.within, ends[1].params.within)


@pytest.mark.long
def test_singletons_leave_alpha_at_its_prior_mode(x64):
    """The likelihood is flat in α: EM moves it only along the Beta prior."""
    data = Groups(small().X, np.arange(90))
    prior = default_prior(data.X, 1, alpha=(3.0, 5.0))
    start = ProportionalParams(
        np.ones(1), np.zeros((1, 2)), np.eye(2)[None], np.array(0.6)
    )
    packed = group_data(data, prior=prior)

    @jax.jit
    def steps(start):
        step = lambda _, params: em_step_proportional(params, packed)[0]  # noqa: E731
        return jax.lax.fori_loop(0, 3000, step, start)

    assert float(steps(start).alpha) == pytest.approx(2 / 6, abs=1e-3)


def test_zero_weight_removes_a_point_and_two_doubles_it():
    X = small().X
    w = np.ones(90)
    w[:30], w[30:60] = 0, 2
    prior = default_prior(X, 2)
    a = fit(Points(X, w), n_components=2, prior=prior, start=toy_params())
    b = fit(
        Points(np.concatenate([X[30:60], X[30:60], X[60:]])),
        n_components=2,
        prior=prior,
        start=toy_params(),
    )
    np.testing.assert_allclose(a.objective, b.objective, rtol=1e-9)
    np.testing.assert_allclose(a.params.means, b.params.means, rtol=1e-6)


def toy_params():
    eye = np.stack([np.eye(2)] * 2) / 2
    return TwoStageParams(np.array([0.5, 0.5]), np.array([[0, 0], [4, 1.0]]), eye, eye)


def test_collapse_without_a_prior_is_reported_and_not_hidden():
    """Four points, three components: the likelihood has no maximum."""
    X = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [9.0, 1.0]])
    end = fit(Points(X), n_components=3, prior=None, max_steps=200)
    assert int(end.result) == Result.NONFINITE


def test_relabelling_undoes_permutations_that_are_not_their_own_inverse():
    """Of three components the two cyclic ones are not; of two, every one is."""
    rng = np.random.default_rng(0)
    spread = np.stack([(1 + k) * np.eye(2) for k in range(3)])
    reference = TwoStageParams(
        np.array([0.2, 0.3, 0.5]), 5 * rng.normal(size=(3, 2)), 0.5 * spread, spread
    )
    orders = np.array(list(permutations(range(3))))
    draws = TwoStageParams(*(np.asarray(a)[orders] for a in reference))
    again = relabel(draws, reference)
    for got, want in zip(again, reference, strict=True):
        np.testing.assert_array_equal(got, np.broadcast_to(want, got.shape))
    for draw in range(6):  # Label-invariant functions of a draw stay as they are.
        own = invariant(TwoStageParams(*(a[draw] for a in draws)))
        for name, value in invariant(reference).items():
            np.testing.assert_allclose(own[name], value, rtol=1e-12, atol=1e-12)
