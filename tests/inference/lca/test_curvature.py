"""LCA's second derivatives, certificate and Laplace."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.data.containers import Pairs
from probmetric.inference import lca as inference
from probmetric.inference.lca import laplace as lca_laplace
from probmetric.inference.lca.curvature import (
    certificate,
    gradient,
    hessian,
    log_evidence,
    precision,
)
from probmetric.inference.lca.laplace import laplace, laplace_draws
from probmetric.inference.lca.likelihood import log_likelihood
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


def at(theta, W):
    """Return parameters at (vec W, log b): σ² = (e^{2b/p} - 1)/2, as a user would."""
    sigma2 = jnp.expm1(2 * jnp.exp(theta[-1]) / len(W)) / 2
    return LCAParams(theta[:-1].reshape(W.shape), jnp.log(sigma2), jnp.asarray(1.0))


def theta_of(params):
    """Return (vec W, log b), with b = (p/2) log(1 + 2σ²)."""
    b = 0.5 * len(params.W) * np.log1p(2 * np.exp(params.log_sigma2))
    return jnp.append(jnp.ravel(params.W), np.log(b))


@pytest.mark.long
@pytest.mark.parametrize("by_points", [False, True])
def test_gradient_and_hessian_match_autodiff(problem, by_points):
    pairs, _, truth, _ = problem
    stats = prepare(pairs, by_points=by_points)
    theta = theta_of(truth)

    def value(theta):
        return log_likelihood(at(theta, truth.W), stats)

    wanted = jax.jit(lambda at: (jax.grad(value)(at), jax.hessian(value)(at)))(theta)
    np.testing.assert_allclose(
        gradient(truth, stats), wanted[0], rtol=1e-10, atol=1e-11
    )
    np.testing.assert_allclose(hessian(truth, stats), wanted[1], rtol=1e-9, atol=1e-10)


def test_hessian_has_exactly_the_rotations_in_its_null_space_at_the_mle(problem):
    pairs, _, _, _ = problem
    flat = LCAPrior(0.7 * np.eye(3), lam=0.0, b_shape=0.0, b_rate=0.0)
    found = inference.fit(pairs, flat, tol=1e-12)
    H = hessian(found.params, prepare(pairs))
    assert int(np.sum(np.abs(np.linalg.eigvalsh(H)) < 1e-4)) == 3
    tangents = rotation_tangents(np.asarray(found.params.W))
    assert float(jnp.max(jnp.abs(H @ tangents))) < 1e-3


def test_certificate_holds_at_the_maximum_and_not_elsewhere(problem):
    pairs, _, truth, _ = problem
    stats = prepare(pairs)
    flat = LCAPrior(0.7 * np.eye(3), lam=0.0, b_shape=0.0, b_rate=0.0)
    best = certificate(inference.fit(pairs, flat, tol=1e-12).params, stats)
    assert best.largest < 1e-5
    assert best.stationarity < 1e-5
    elsewhere = certificate(truth._replace(W=truth.W * 3.0), stats)
    assert elsewhere.stationarity > 1e-2
    low = LCAPrior(0.7 * np.eye(1, 3), lam=0.0, b_shape=0.0, b_rate=0.0)
    assert (
        certificate(inference.fit(pairs, low, tol=1e-12).params, stats).largest > 1e-2
    )


def test_laplace_root_inverts_the_precision_where_nothing_is_removed(problem):
    pairs, prior, _, found = problem
    stats = prepare(pairs)
    whole = laplace(found.params, stats, prior, 0.5, quotient=False)
    H = precision(found.params, stats, prior, 0.5)
    np.testing.assert_allclose(whole.root @ whole.root.T @ H, np.eye(len(H)), atol=1e-8)


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
    with pytest.raises(ValueError, match=r"params .* 9 param.* got 10.*'svi'"):
        laplace(found.params, prepare(pairs), prior, 0.5)


def test_laplace_requires_at_most_as_many_components_as_features():
    X = np.random.default_rng(0).normal(size=(12, 2))
    stats = prepare(Pairs(X, np.arange(11), np.arange(1, 12), np.arange(11) % 2))
    params = LCAParams(np.eye(3, 2) + 0.1, np.array(0.0))
    with pytest.raises(ValueError, match=r"params: .* p = 3 .* d = 2"):
        laplace(params, stats, LCAPrior(np.eye(3, 2), c=0.3, lam=50.0))


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
