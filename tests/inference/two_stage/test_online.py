"""Incremental EM: the sums equal their definition, and those of chunks add up."""

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from probmetric.inference.mixture.em import em_step
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.start import mixture_data
from probmetric.inference.mixture.statistics import MixtureParams, MixtureStats
from probmetric.inference.two_stage import online

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2)) + 4 * (np.arange(60) % 2)[:, None]
PARAMS = MixtureParams(
    np.array([0.4, 0.6]),
    np.array([[0.5, -0.2], [3.0, 4.5]]),
    np.array([np.eye(2), [[2.0, 0.3], [0.3, 1.0]]]),
)
PRIOR = default_prior(X, 2)


def assert_equal(got, wanted, rtol):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def defined_sums(params, rows):
    """Eq. (2) about the origin, from SciPy's densities."""
    parts = zip(*params, strict=True)
    p = np.stack([c * multivariate_normal(m, S).pdf(rows) for c, m, S in parts], 1)
    r = p / p.sum(1, keepdims=True)
    second = np.einsum("nk,ni,nj->kij", r, rows, rows)
    return MixtureStats(np.log(p.sum(1)).sum(), r.sum(0), r.T @ rows, second)


def test_the_sums_are_those_of_their_definition():
    state = online.start(PARAMS, X, PRIOR)
    assert_equal(state.sums, defined_sums(PARAMS, X), 1e-10)


@pytest.mark.long
def test_two_parts_give_the_em_step_of_all_points():
    """Both parts under the first parameters: start there and add once."""
    start = online.start(PARAMS, X[:25], PRIOR)
    got = online.add(start, X[25:]).params
    assert_equal(got, em_step(PARAMS, mixture_data(X, prior=PRIOR))[0], 1e-10)
    # A control: the first part alone gives something else.
    other = em_step(PARAMS, mixture_data(X[:25], prior=PRIOR))[0]
    assert np.abs(np.asarray(other.means) - got.means).max() > 1e-3


def test_a_part_that_is_passed_again_counts_again():
    start = online.start(PARAMS, X, PRIOR)
    twice = jax.tree.map(lambda a: 2 * a, start.sums)
    assert_equal(online.add(start, X).sums, twice, 1e-12)
