"""The one fit of the log-logistic link, against a solver of SciPy's."""

import numpy as np
import pytest
from scipy.optimize import minimize

from probmetric.inference.lca import link as link_fit
from probmetric.inference.lca.link import log_logistic, platt_targets
from probmetric.metric.link import AT_RANDOM


def numbers(link):
    return [link.intercept, link.slope]


def labeled(seed=0, n=400, slope=1.5):
    rng = np.random.default_rng(seed)
    D = np.exp(rng.normal(size=n))
    return D, rng.uniform(size=n) < 1 / (1 + (D / 0.8) ** slope)


def separable(seed, d=50):
    """Thirty classes of two points nearly alike, all ordered pairs."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(30), 2)
    X = rng.normal(size=(30, d))[codes] + 0.05 * rng.normal(size=(60, d))
    i, j = np.nonzero(~np.eye(60, dtype=bool))
    return np.sum((X[i] - X[j]) ** 2, 1), codes[i] == codes[j]


def by_scipy(D, same):
    """Return the minimum by Newton's method in a trust region."""
    n1, n0 = same.sum(), (~same).sum()
    target = np.where(same, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    x = np.log(D)
    centre, unit = x.mean(), x.std()
    Z = np.stack([np.ones(len(x)), -(x - centre) / unit], 1)

    def loss(theta):
        eta = Z @ theta
        return np.sum(np.logaddexp(0, eta) - target * eta)

    def slope(theta):
        return Z.T @ (1 / (1 + np.exp(-Z @ theta)) - target)

    def curvature(theta):
        P = 1 / (1 + np.exp(-Z @ theta))
        return (Z * (P * (1 - P))[:, None]).T @ Z

    options = {"gtol": 1e-11}
    best = minimize(
        loss,
        [0.0, 0.0],
        jac=slope,
        hess=curvature,
        method="trust-exact",
        options=options,
    ).x
    return [best[0] + best[1] * centre / unit, best[1] / unit]


GIVEN = {
    **{f"separable {seed}": separable(seed) for seed in range(3)},
    **{f"ordinary {k}": labeled(k, 200 * k, 0.5 * k) for k in range(1, 6)},
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_link_is_the_minimum_of_its_loss(name):
    D, same = GIVEN[name]
    link = log_logistic(D, same, AT_RANDOM)
    np.testing.assert_allclose(numbers(link), by_scipy(D, same), rtol=1e-6)
    assert link.floor == D.min()
    assert link.odds == same.sum() / (~same).sum()
    assert link.pairs == AT_RANDOM
    np.testing.assert_allclose(
        link.log_odds(np.array([0.0, D.min(), 1.0])),
        link.intercept - link.slope * np.log([D.min(), D.min(), 1.0]),
        rtol=1e-6,
    )


def test_separable_pairs_keep_a_finite_slope_and_rising_ones_a_flat_one():
    D = np.linspace(0.1, 2, 50)
    steep = log_logistic(D, D < 1, AT_RANDOM)
    assert 5 < steep.slope < 1e3
    flat = log_logistic(D, D > 1, AT_RANDOM)
    assert flat.slope == 0
    np.testing.assert_allclose(1 / (1 + np.exp(-flat.intercept)), 0.5, atol=0.02)


def test_a_fit_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(link_fit, "N_STEPS", 2)
    with pytest.raises(RuntimeError, match=r"new classes: .* in 2 steps"):
        log_logistic(*labeled(), AT_RANDOM)


def test_platts_targets():
    got = platt_targets(np.array([True, False, False]))
    np.testing.assert_allclose(got, [2 / 3, 1 / 4, 1 / 4])


@pytest.mark.parametrize("D", [np.zeros(20), np.full(20, 3.0)])
def test_equal_distances_give_the_share_of_same(D):
    link = log_logistic(D, np.arange(20) % 4 == 3, AT_RANDOM)
    # Platt's targets of 5 same and 15 different: (5 · 6/7 + 15/17)/20.
    wanted = (5 * 6 / 7 + 15 / 17) / 20
    np.testing.assert_allclose(link.probability(np.array([0.0, 9.0])), wanted)


def test_equal_points_have_the_p_same_of_the_smallest_distance():
    D, same = labeled()
    D = np.where(np.arange(len(D)) % 10 == 0, 0.0, D)
    P = log_logistic(D, same, AT_RANDOM).probability(np.array([0.0, D[D > 0].min()]))
    assert 0 < P[0] == P[1] < 1
