"""LCA's pooled log joint density against NumPyro's, pair by pair."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.data import Pairs
from probmetric.inference.lca import statistics
from probmetric.inference.lca.likelihood import (
    log_likelihood,
)
from probmetric.inference.lca.statistics import prepare, squared_lengths
from tests.inference.lca.problem import simulated
from tests.oracles import lca_log_likelihood

pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture(scope="module")
def problem():
    return simulated()


@pytest.mark.parametrize("packed", [0, 1 << 17])
def test_squared_lengths_are_those_of_the_images(monkeypatch, packed):
    monkeypatch.setattr(statistics, "PACKED", packed)
    rng = np.random.default_rng(1)
    X, i, j = rng.normal(size=(50, 4)), rng.integers(0, 50, 30), np.arange(30)
    stats = prepare(Pairs(X, i, j, np.zeros(30, int)))
    W = rng.normal(size=(4, 4))
    W[2:] = W[:2]  # So that images of two directions are zero but for rounding.
    null = rng.normal(size=(40, 2)) @ np.linalg.svd(W)[2][2:]
    more = np.concatenate([null, np.zeros((1, 4))])
    M, a, b = W.T @ W, *np.triu_indices(4)
    assert ((M[a, b] * (2 - (a == b)) * null[:, a] * null[:, b]).sum(1) < 0).any()
    stats = stats._replace(X=np.concatenate([stats.X, more]))
    delta = np.concatenate([X[i] - X[j], more])
    found = jax.jit(lambda W: squared_lengths(W, stats))(W)  # Traced for each way.
    expected = np.array([((W @ row) ** 2).sum() for row in delta])
    scale = np.linalg.norm(W, 2) ** 2 * (delta**2).sum(1)
    assert np.all(np.abs(found - expected) <= 16 * np.finfo(float).eps * scale)
    assert (np.asarray(found) >= 0).all()
    slope = jax.grad(lambda W: jnp.sum(squared_lengths(W, stats)))(W)
    np.testing.assert_allclose(slope, 2 * W @ (delta.T @ delta), rtol=1e-12)

    def of_one(w):
        return jnp.sum(squared_lengths(jnp.zeros((4, 4)).at[0].set(w), stats))

    curvature = jax.hessian(of_one)(np.zeros(4))
    np.testing.assert_allclose(curvature, 2 * delta.T @ delta, rtol=1e-12)


def test_points_far_from_the_origin_are_centred(problem):
    pairs = problem[0]
    # A multiple of 2: adding it and taking the mean away lose 1e-9 at most.
    far = pairs._replace(X=np.asarray(pairs.X) + 2.0**20)
    got, want = (prepare(p, by_points=True).X for p in (far, pairs))
    np.testing.assert_allclose(got, want, atol=1e-8)


def test_oracle_agrees_with_the_likelihood(problem):
    pairs, _, truth = problem
    want = lca_log_likelihood(pairs, truth.W, float(np.exp(truth.log_sigma2)))
    np.testing.assert_allclose(log_likelihood(truth, prepare(pairs)), want, rtol=1e-12)
