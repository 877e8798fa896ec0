"""The normal log density against SciPy, whole and with missing entries (NaN)."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from probmetric.densities.gaussian import log_normal, log_normal_seen, restricted

pytestmark = pytest.mark.usefixtures("x64")
EPS = np.finfo(float).eps
D = 3
RNG = np.random.default_rng(0)
ROOT = RNG.normal(size=(D, D))
COV = ROOT @ ROOT.T + 0.5 * np.eye(D)
MEAN, X = RNG.normal(size=(2, D))
# Each term of the log density, of order 10, is right to the condition number in eps.
ATOL = 100 * np.linalg.cond(COV) * EPS
PATTERNS = list(itertools.product([False, True], repeat=D))


def scipy_on_seen(seen):
    """The density of the seen entries, from the sub-vector and sub-matrix."""
    keep = np.flatnonzero(seen)
    if not keep.size:
        return 0.0
    return multivariate_normal(MEAN[keep], COV[np.ix_(keep, keep)]).logpdf(X[keep])


def test_log_normal_of_rows_equals_scipy():
    rows = RNG.normal(size=(7, D))
    got = log_normal(jnp.linalg.cholesky(COV), jnp.asarray(rows))
    wanted = multivariate_normal(np.zeros(D), COV).logpdf(rows)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=ATOL)


@pytest.mark.parametrize("seen", PATTERNS)
def test_seen_entries_have_scipys_density(seen):
    x = np.where(seen, X, np.nan)
    got = log_normal_seen(jnp.asarray(x), jnp.asarray(MEAN), jnp.asarray(COV))
    np.testing.assert_allclose(got, scipy_on_seen(seen), rtol=0, atol=ATOL)


def test_a_missing_entry_counted_as_seen_at_the_mean_is_told_apart():
    seen = (True, False, True)
    at_mean = np.where(seen, X, MEAN)
    wrong = multivariate_normal(MEAN, COV).logpdf(at_mean)
    assert abs(wrong - scipy_on_seen(seen)) > 1e6 * ATOL


@pytest.mark.parametrize("seen", PATTERNS)
def test_gradients_are_finite_and_those_of_the_seen_entries(seen):
    x = jnp.asarray(np.where(seen, X, np.nan))
    of_x, of_mean, of_cov = jax.grad(log_normal_seen, argnums=(0, 1, 2))(
        x, jnp.asarray(MEAN), jnp.asarray(COV)
    )
    keep = np.flatnonzero(seen)
    slope = np.zeros(D)
    block = COV[np.ix_(keep, keep)]
    slope[keep] = np.linalg.solve(block, (X - MEAN)[keep])
    np.testing.assert_allclose(of_mean, slope, rtol=0, atol=ATOL)
    np.testing.assert_allclose(of_x, -slope, rtol=0, atol=ATOL)
    assert np.isfinite(of_cov).all()


def test_restricting_a_batch_restricts_each_matrix():
    seen = np.array(PATTERNS)
    got = restricted(jnp.asarray(COV), jnp.asarray(seen))
    for matrix, there in zip(got, seen, strict=True):
        wanted = np.eye(D)
        wanted[np.ix_(there, there)] = COV[np.ix_(there, there)]
        np.testing.assert_array_equal(matrix, wanted)
