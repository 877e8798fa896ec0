"""Limits of a length: against brute force, closed forms, and known coverage."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from probmetric.posterior import noncentral
from probmetric.posterior.noncentral import distance_limits

UNEQUAL = np.diag([0.3, 0.3, 0.2, 0.2, 0.1])


def law(x, v, S, rng, n=200_000):
    """Draw squared lengths at a true length x by brute force, Eq. (1)."""
    u = v / np.linalg.norm(v)
    P = np.eye(len(v)) - np.outer(u, u)
    lam = np.maximum(np.linalg.eigvalsh(P @ S @ P), 0)
    along = (x + np.sqrt(u @ S @ u) * rng.standard_normal(n)) ** 2
    return along + rng.standard_normal((n, len(v))) ** 2 @ lam


@pytest.mark.parametrize("length", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("prob", [0.5, 0.9])
def test_limits_have_the_tail_probabilities_of_brute_force(length, prob):
    rng = np.random.default_rng(1)
    v = rng.standard_normal(5)
    v *= length / np.linalg.norm(v)
    low, high = (float(e[0]) for e in distance_limits(v[None], UNEQUAL[None], prob))
    a = (1 - prob) / 2

    def G(x):
        return np.mean(law(x, v, UNEQUAL, rng) <= length**2)

    error = 4e-3  # Four standard errors of G, and as much for the nodes.
    if low > 0:
        assert abs(G(low) - (1 - a)) < error
    else:
        assert G(0) < 1 - a + error
    if high > length:  # Else the estimate itself is the limit.
        assert abs(G(high) - a * G(0)) < error


@pytest.mark.parametrize(
    "p, length, variance",
    [(2, 3.0, 0.25), (5, 0.5, 0.3), (13, 1.0, 0.5), (1, 0.1, 1.0), (64, 2.0, 0.3)],
)
def test_equal_variances_give_the_noncentral_chi_square(p, length, variance):
    """Also where the estimate is so short that G(0) is 1e-18."""
    v = np.zeros((1, p))
    v[0, 0] = length
    low, high = distance_limits(v, variance * np.eye(p)[None])

    def G(x):
        of = stats.ncx2(p, x**2 / variance) if x else stats.chi2(p)
        return of.cdf(length**2 / variance)

    wanted = brentq(lambda x: G(x) / G(0) - 0.05, 0, length + 9)
    np.testing.assert_allclose(high[0], max(wanted, length), rtol=0.015)
    if G(0) > 0.95:
        wanted = brentq(lambda x: G(x) - 0.95, 0, length)
        np.testing.assert_allclose(low[0], wanted, rtol=0.015)
    else:
        assert low[0] == 0


@pytest.mark.parametrize("p, length", [(20, 2.0), (40, 2.0), (64, 3.0), (100, 3.0)])
def test_upper_limits_of_many_dimensions_are_right(p, length):
    """Where the estimate is far shorter than the noise."""
    v = np.zeros((1, p))
    v[0, 0] = length
    _, high = distance_limits(v, np.eye(p)[None])
    of_zero = stats.chi2(p).cdf(length**2)

    def above(x):
        return stats.ncx2(p, x**2).cdf(length**2) / of_zero - 0.05

    wanted = max(length, brentq(above, 1e-3, length + 9))
    np.testing.assert_allclose(high[0], wanted, rtol=4e-3)


@pytest.mark.long
@pytest.mark.parametrize("true", [0.3, 1.0, 3.0])
def test_limits_cover_and_the_percentile_does_not(true):
    """Where v ~ N(μ, S) is known; the percentile of a bootstrap is the control."""
    rng = np.random.default_rng(0)
    m = 1000
    mean = np.zeros(5)
    mean[0] = true
    v = mean + rng.standard_normal((m, 5)) @ np.sqrt(UNEQUAL)
    low, high = distance_limits(v, np.broadcast_to(UNEQUAL, (m, 5, 5)))
    covered = np.mean((low <= true) & (true <= high))
    assert 0.88 <= covered <= 0.975
    assert np.mean(true < low) < 0.075
    assert np.mean(true > high) < 0.075
    draws = v + rng.standard_normal((500, m, 5)) @ np.sqrt(UNEQUAL)
    q = np.quantile(np.linalg.norm(draws, axis=-1), [0.05, 0.95], axis=0)
    percentile = np.mean((q[0] <= true) & (true <= q[1]))
    assert percentile < (0.05, 0.7, 0.885)[(0.3, 1.0, 3.0).index(true)]


def test_limits_hold_the_length_and_grow_with_prob_and_noise():
    rng = np.random.default_rng(2)
    v = rng.standard_normal((50, 4)) * np.exp(rng.standard_normal((50, 1)))
    A = rng.standard_normal((50, 4, 4))
    S = 0.1 * A @ A.transpose(0, 2, 1)
    size = np.linalg.norm(v, axis=1)
    some, more = distance_limits(v, S, 0.5), distance_limits(v, S, 0.9)
    noisy = distance_limits(v, 4 * S, 0.9)
    for low, high in (some, more, noisy):
        assert np.all((low >= 0) & (low <= size) & (size <= high))
    for (low, high), (lower, higher) in ((some, more), (more, noisy)):
        assert np.all(lower <= low + 1e-6)
        assert np.all(higher >= high - 1e-6)


def test_the_unit_of_length_does_not_matter():
    rng = np.random.default_rng(3)
    v, S = rng.standard_normal((5, 3)), np.broadcast_to(0.2 * np.eye(3), (5, 3, 3))
    one, other = distance_limits(v, S), distance_limits(1e6 * v, 1e12 * S)
    np.testing.assert_allclose(other, 1e6 * np.array(one), rtol=1e-9)


def test_no_noise_leaves_the_length_and_no_length_leaves_noise():
    v = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
    S = np.stack([np.zeros((2, 2)), np.zeros((2, 2)), np.eye(2)])
    low, high = distance_limits(v, S)
    np.testing.assert_allclose(low, [5, 0, 0], rtol=1e-9)
    # σ √(2 log 1/a): the limit for a length of zero.
    np.testing.assert_allclose(high, [5, 0, np.sqrt(-2 * np.log(0.05))], rtol=1e-2)


def test_few_nodes_would_be_seen(monkeypatch):
    """The negative control of the tests above: 4 nodes in place of 256."""
    monkeypatch.setattr(noncentral, "N_NODES", 4)
    noncentral._squared_normals.cache_clear()
    v = np.zeros((1, 20))
    v[0, 0] = 2.0
    _, high = distance_limits(v, np.eye(20)[None])
    noncentral._squared_normals.cache_clear()
    assert abs(high[0] / 2.6937 - 1) > 0.02
