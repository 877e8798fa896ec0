"""LCA's second derivatives, certificate, Laplace and bootstrap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.data.containers import Pairs
from probmetric.inference import lca as inference
from probmetric.inference.lca import laplace as lca_laplace
from probmetric.inference.lca.curvature import (
    generalized_rate,
    log_evidence,
)
from probmetric.inference.lca.laplace import laplace, laplace_draws
from probmetric.inference.lca.statistics import prepare
from probmetric.models.lca import LCAParams, LCAPrior, simulate

pytestmark = pytest.mark.usefixtures("x64")


def rotation_tangents(W):
    """vec(ΩW) for the p(p-1)/2 elementary skew Ω, with a zero for log b."""
    columns = []
    for a, b in np.argwhere(np.triu(np.ones((len(W), len(W))), 1)):
        skew = np.zeros((len(W), len(W)))
        skew[a, b], skew[b, a] = 1, -1
        columns.append(np.append(skew @ W, 0.0))
    return np.array(columns).T


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 3))
    i, j = rng.integers(0, 60, (2, 200))
    truth = LCAParams(
        np.array([[1.0, 0.2, 0.0], [0.0, 0.9, -0.3], [0.1, 0.0, 0.7]]), np.array(-1.5)
    )
    with jax.enable_x64(True):
        pairs = simulate(jax.random.key(1), truth, Pairs(X, i, j, None))
        pairs = pairs._replace(y=np.asarray(pairs.y), w=rng.uniform(0.5, 1.5, 200))
        prior = LCAPrior(0.7 * np.eye(3), c=0.7, lam=5.0)
        found = inference.fit(pairs, prior, tol=1e-10, learning_rate=0.5)
    return pairs, prior, truth, found


def test_laplace_draws_leave_out_the_rotation_and_have_the_stated_covariance(problem):
    pairs, prior, _, found = problem
    approximation = laplace(found.params, prepare(pairs), prior, 0.5)
    tangents = rotation_tangents(np.asarray(found.params.W))
    leak = jnp.max(jnp.abs(tangents.T @ approximation.root))
    assert leak < 1e-10 * jnp.max(jnp.abs(tangents))
    draws = laplace_draws(approximation, jax.random.key(0), 20000)
    log_b = np.log(1.5 * np.log1p(2 * np.exp(np.asarray(draws.log_sigma2))))
    flat = np.concatenate([np.reshape(draws.W, (20000, -1)), log_b[:, None]], 1)
    want = approximation.root @ approximation.root.T
    sd = np.sqrt(np.diag(want))
    error = (np.cov(flat.T) - want) / np.outer(sd, sd)
    # se of a correlation-scaled covariance is at most sqrt(2/S); 100 entries, 5 se:
    # false alarm below 1e-4.
    assert np.abs(error).max() < 5 * np.sqrt(2 / 20000)


def test_laplace_refuses_more_parameters_than_stated(problem, monkeypatch):
    pairs, prior, _, found = problem
    monkeypatch.setattr(lca_laplace, "MAX_PARAMETERS", found.params.W.size)
    with pytest.raises(ValueError, match=r"params .* 9 parameters .* got 10"):
        laplace(found.params, prepare(pairs), prior, 0.5)


@pytest.mark.parametrize(
    ("p", "quotient", "shape"), [(2, True, (5, 4)), (3, False, (7, 7)), (3, True, None)]
)
def test_laplace_requires_at_most_as_many_components_as_features(p, quotient, shape):
    X = np.random.default_rng(0).normal(size=(12, 2))
    stats = prepare(Pairs(X, np.arange(11), np.arange(1, 12), np.arange(11) % 2))
    params = LCAParams(np.eye(p, 2) + 0.1, np.array(0.0))
    prior = LCAPrior(np.eye(p, 2), c=0.3, lam=50.0)
    if shape is None:
        with pytest.raises(ValueError, match=r"params must .* p = 3 .* d = 2"):
            laplace(params, stats, prior, quotient=quotient)
    else:
        root = laplace(params, stats, prior, quotient=quotient).root
        assert root.shape == shape


def test_laplace_refuses_a_point_that_is_no_mode(problem):
    pairs, prior, truth, _ = problem
    flat = prior._replace(lam=0.0)
    with pytest.raises(ValueError, match="posterior mode"):
        laplace(truth._replace(W=truth.W * 0.01), prepare(pairs), flat, quotient=False)


def test_evidence_is_the_determinant_of_the_kronecker_form(problem):
    pairs, prior, _, found = problem
    W, rho = np.asarray(found.params.W), float(found.params.log_sigma2)
    eta = 1 + 2 * np.exp(rho)
    delta = pairs.X[pairs.i] - pairs.X[pairs.j]
    g = delta @ W.T
    t = 1.5 * np.log(eta) + np.sum(g**2, 1) / (2 * eta)
    v = 0.5 * pairs.w / np.expm1(t)
    A = (g.T * v) @ g / eta**2 / v.sum()
    B = (delta.T * v) @ delta
    H = np.kron(A, B) + prior.lam / prior.c**2 * np.eye(9)
    want = 4.5 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(H)[1]
    got = log_evidence(found.params, pairs, found.objective, prior, 0.5)
    np.testing.assert_allclose(got - found.objective, want, rtol=1e-9)


@pytest.mark.long
def test_generalized_rate_is_half_for_pairs_that_share_no_point_and_counts_copies():
    # A true model: Σ over pairs of (score)² has mean I, and each pair's score counts
    # at both of its points, so J → 2I. Relative sd of the ratio over 20 seeds: 0.1.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 2))
    i = np.arange(600)
    truth = LCAParams(np.array([[1.0, 0.0], [0.3, 0.8]]), np.array(-1.0))
    pairs = simulate(jax.random.key(7), truth, Pairs(X, i, i + 600, None))
    prior = LCAPrior(0.8 * np.eye(2), c=0.8, lam=0.5)
    found = inference.fit(pairs, prior)
    rate = generalized_rate(found.params, pairs, prior, 1.0)
    assert 0.35 < rate < 0.65
    four = pairs._replace(**{k: np.tile(getattr(pairs, k), 4) for k in ("i", "j", "y")})
    repeated = generalized_rate(found.params, four, prior, 0.25)
    np.testing.assert_allclose(repeated, rate / 4, rtol=1e-6)
