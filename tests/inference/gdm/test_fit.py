"""The mode of the generalized dissimilarity model: by hand, limits, certificate."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from probmetric.checks.gdm.problems import toy
from probmetric.data.containers import Pairs
from probmetric.inference import gdm
from probmetric.inference.gdm.bootstrap import leave_out, refits, site_weights
from probmetric.inference.gdm.fit import deviance_explained, gap_at
from probmetric.inference.gdm.likelihood import (
    precisions,
    rows_of,
    value_and_derivatives,
)
from probmetric.inference.gdm.target import start
from probmetric.models.gdm import GDMParams, GDMPrior


def line(y, trials, prior=10.0):
    """Pairs of site 0 with itself, with 1 and with 2, on a line of three sites."""
    i, j = np.zeros(3, int), np.arange(3)
    pairs = Pairs(np.array([[0.0], [1.0], [2.0]]), i, j, np.asarray(y))
    pairs = pairs._replace(trials=np.asarray(trials))
    return pairs, GDMPrior(gdm.knots_for(pairs.X), prior, prior)


def test_sites_of_equal_covariates_give_the_root_of_one_equation():
    # θ has no data: its mode is 0. b: a = 3 shared of 10, and -½ b² of scale 1.
    same = Pairs(np.zeros((2, 1)), *np.array([[0], [1], [3]]), trials=np.array([10]))
    params = gdm.fit(same, GDMPrior(np.zeros((1, 3)))).params
    root = brentq(lambda b: -3 + 7 / np.expm1(b) - b, 1e-3, 9)
    # A gap of 1e-12 nats leaves 1e-6 of b.
    np.testing.assert_allclose(params.b, root, rtol=1e-6)
    np.testing.assert_array_equal(params.theta, 0)


def test_with_a_flat_prior_the_fit_is_the_shares_where_curves_can_follow():
    pairs, prior = line([500, 184, 68], [1000] * 3, prior=1e4)
    params = gdm.fit(pairs, prior).params
    rows = rows_of(pairs, prior)
    t = rows.Z @ np.append(params.b, params.theta)
    np.testing.assert_allclose(np.exp(-t), [0.5, 0.184, 0.068], rtol=1e-4)


def test_curves_that_would_have_to_fall_are_flat():
    # Sites further apart share more: no height can follow, so that b alone is fitted.
    pairs, prior = line([100, 200, 300], [1000] * 3)
    params = gdm.fit(pairs, prior).params
    np.testing.assert_array_equal(params.theta, 0)
    np.testing.assert_allclose(np.exp(-params.b), 0.2, rtol=1e-3)


@pytest.mark.parametrize("seed", range(2))
def test_the_gap_bounds_what_another_solver_finds(seed):
    problem = toy(seed)
    rows = rows_of(problem.data, problem.prior, 0.8)
    precision = precisions(problem.prior)

    def down(beta):
        value, slope, _ = value_and_derivatives(beta, rows, precision)
        return -value, -slope

    best = minimize(
        down, np.full(10, 0.3), jac=True, method="L-BFGS-B", bounds=[(1e-12, None)] * 10
    )
    fit = gdm.fit(problem.data, problem.prior, learning_rate=0.8)
    mode = np.append(fit.params.b, fit.params.theta)
    rng = np.random.default_rng(seed)
    for size in (0.0, 1e-3, 0.1, 1.0):
        beta = mode + size * rng.random(10)
        value, slope, _ = value_and_derivatives(beta, rows, precision)
        # Of the other solver's value as of this one's: a bound of both, up to 1e-9.
        assert gap_at(beta, slope, precision) >= -best.fun - value - 1e-9
    # Negative control: with too much curvature it is no bound.
    assert gap_at(beta, slope, 1000 * precision) < -best.fun - value
    assert gdm.gap(fit.params, problem.data, problem.prior, learning_rate=0.8) < 1e-8


def test_deviance_explained_is_that_of_a_generalized_linear_model():
    pairs, prior = line([50, 20, 5], [100, 100, 100])
    params = gdm.fit(pairs, prior).params
    share = np.array([0.5, 0.2, 0.05])

    def deviance(P):
        same = share * np.log(share / P)
        return 2 * 100 * np.sum(same + (1 - share) * np.log((1 - share) / (1 - P)))

    rows = rows_of(pairs, prior)
    P = np.exp(-rows.Z @ np.append(params.b, params.theta))
    want = 1 - deviance(P) / deviance(np.full(3, 0.25))
    np.testing.assert_allclose(deviance_explained(params, pairs), want)
    # Shares of 0 and 1 have a saturated likelihood of 1; pairs of one kind say nothing.
    sure, _ = line([1, 1, 0], [1, 1, 1])
    P = np.exp(-rows.Z @ np.append(params.b, params.theta))
    fitted, null = np.log([*P[:2], 1 - P[2]]).sum(), np.log([2 / 3, 2 / 3, 1 / 3]).sum()
    want = 1 - fitted / null
    np.testing.assert_allclose(deviance_explained(params, sure), want)
    for same in (line([0, 0, 0], [1, 1, 1])[0], line([1, 1, 1], [1, 1, 1])[0]):
        assert deviance_explained(params, same) == 0


def test_the_mode_of_logarithms_is_inside_and_stationary():
    problem = toy(1)
    rows = rows_of(problem.data, problem.prior, 0.8)
    found = start(problem.params, rows, problem.prior)
    u = np.append(found.mean["log_b"], found.mean["log_theta"])
    beta = np.exp(u)
    _, slope, H = value_and_derivatives(beta, rows, precisions(problem.prior))
    np.testing.assert_allclose(beta * slope, -1, atol=1e-5)
    # Minus the Hessian there, from its definition: the factor's inverse square.
    curvature = beta[:, None] * H * beta - np.diag(beta * slope)
    product = found.factor.T @ curvature @ found.factor
    np.testing.assert_allclose(product, np.eye(10), atol=1e-4)


def test_refits_are_fits_to_weighted_pairs():
    problem = toy(2)
    pairs, prior = problem.data, problem.prior
    u = site_weights(40, replicate=5, seed=1)
    found = refits(pairs, prior, problem.params, [u], learning_rate=0.8)
    weighted = pairs._replace(w=pairs.w * u[pairs.i] * u[pairs.j])
    want = gdm.fit(weighted, prior, learning_rate=0.8).params
    np.testing.assert_allclose(found.theta[0], want.theta, atol=1e-6)
    left = leave_out(
        pairs, prior, problem.params, np.arange(40) % 20, learning_rate=0.8
    )
    kept = (pairs.i % 20 != 3) & (pairs.j % 20 != 3)
    some = {k: v[kept] for k, v in pairs._asdict().items() if k in "ijyw"}
    rest = pairs._replace(**some, trials=pairs.trials[kept])
    want = gdm.fit(rest, prior, learning_rate=0.8).params
    np.testing.assert_allclose(left.theta[3], want.theta, atol=1e-6)


def test_knots_are_quantiles_of_what_varies():
    X = np.array([[0, 0, 7.0], [0, 1, 7], [0, 2, 7], [0, 3, 7], [5, 4, 7]])
    knots = gdm.knots_for(X, 3)
    np.testing.assert_array_equal(knots[1], [0, 2, 4])
    np.testing.assert_array_equal(knots[0], [0, 2.5, 5])  # Two values: evenly spaced.
    np.testing.assert_array_equal(knots[2], [7, 7, 7])


@pytest.mark.parametrize(
    "change, said",
    [
        ({"knots": np.zeros((2, 3))}, r"knots .* \(1, k\)"),
        ({"knots": np.zeros((1, 1))}, "with k ≥ 2"),
        ({"scale": 0.0}, r"prior\.scale must be > 0, got 0\.0"),
        ({"b_scale": np.inf}, r"prior\.b_scale must be > 0, got inf"),
    ],
)
def test_priors_that_are_none_are_refused(change, said):
    pairs, prior = line([1, 1, 0], [2, 2, 2])
    with pytest.raises(ValueError, match=said):
        gdm.fit(pairs, prior._replace(**change))


def test_pairs_without_answers_and_groups_without_rest_are_refused():
    pairs, prior = line([1, 1, 0], [2, 2, 2])
    with pytest.raises(ValueError, match=r"pairs\.y .*None"):
        gdm.fit(pairs._replace(y=None), prior)
    params = GDMParams(np.array(0.5), np.ones((1, 3)), prior.knots)
    with pytest.raises(ValueError, match=r"pairs must .* got .* without group 0"):
        leave_out(pairs, prior, params, np.arange(3))
