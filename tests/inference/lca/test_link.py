"""The one fit of the log-logistic link, against a solver of SciPy's."""

import numpy as np
import pytest

from probmetric.inference.lca import link as link_fit
from probmetric.inference.lca.link import log_logistic, platt_targets
from probmetric.metric.link import AT_RANDOM


def labeled(seed=0, n=400, slope=1.5):
    rng = np.random.default_rng(seed)
    D = np.exp(rng.normal(size=n))
    return D, rng.uniform(size=n) < 1 / (1 + (D / 0.8) ** slope)


def test_the_link_keeps_the_smallest_distance_and_the_odds_of_its_pairs():
    D, same = labeled()
    link = log_logistic(D, same, AT_RANDOM)
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
    with pytest.raises(RuntimeError, match=r"link: .* in 2 steps"):
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
