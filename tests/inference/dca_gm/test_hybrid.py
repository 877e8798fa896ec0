"""The hybrid of EM and conjugate gradients, step by step from its parts.

Its parts, an EM step, the likelihood and the centers before the projection, are held by
golden values in ``test_em``.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_iris

from probmetric.data.containers import Labeled
from probmetric.inference.dca_gm.em import EMData, EMPrior, em_step, source_centres
from probmetric.inference.dca_gm.hybrid import Penalty, fit_hybrid
from probmetric.inference.dca_gm.likelihood import conditional_log_likelihood
from probmetric.inference.dca_gm.start import start

N_EM, N_STEPS, PULL, PRIOR = 2, 3, 2.0, EMPrior(rho=0.01)

step, centers = jax.jit(em_step), jax.jit(source_centres)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return Labeled(X, y, 0.5 + np.arange(len(X)) % 3)


def projected(A, theta, mu, tied):
    """Return parameters with another projection, and centers Aμ' that follow it."""
    return theta._replace(A=A, mu=mu @ A.T if tied else theta.mu)


@jax.jit
def _likelihood(A, theta, mu, data, tied):
    free = projected(A, theta, mu, False)
    follow = projected(A, theta, mu, True)
    return jnp.where(
        tied,
        conditional_log_likelihood(follow, data),
        conditional_log_likelihood(free, data),
    )


likelihood = jax.jit(jax.value_and_grad(_likelihood))


def in_gauge(theta):
    """Return θ where the pooled covariance is I, and the change of coordinates."""
    share = np.exp(np.asarray(theta.log_alpha)[:, None] + np.asarray(theta.log_beta))
    S = np.asarray(theta.chol @ jnp.swapaxes(theta.chol, 2, 3))
    pooled = np.einsum("ck,ckpq->pq", share, np.broadcast_to(S, (*share.shape, 2, 2)))
    values, U = np.linalg.eigh(pooled)
    B = (U / np.sqrt(values)) @ U.T
    chol = np.linalg.cholesky(B @ S @ B.T)
    return theta._replace(A=B @ theta.A, mu=theta.mu @ B.T, chol=chol), B


def by_definition(theta, data, tied):
    center = np.asarray(theta.A)
    last_g, last_r = np.zeros_like(center), np.zeros_like(center)
    trace, ends, evaluations = [], [], 0
    for _ in range(N_STEPS):
        for _ in range(N_EM):
            theta = step(theta, EMData(data.X @ theta.A.T, data.y, data.w, PRIOR))[0]
        theta, B = in_gauge(theta)
        last_g, last_r = np.linalg.solve(B.T, last_g), B @ last_r
        mu = centers(theta, data.X, data.y, data.w)

        def value(A, theta=theta, mu=mu):
            reached, slope = likelihood(A, theta, mu, data, tied)
            off = np.asarray(A) - center
            penalty = PULL / 2 * np.sum(off**2)
            return float(reached) - penalty, np.asarray(slope) - PULL * off

        before, g = value(theta.A)
        size = np.sum(last_g**2)
        beta = max(0.0, np.sum(g * (g - last_g)) / size) if size else 0.0
        r = g + beta * last_r  # Polak-Ribière, or the gradient where it falls.
        r = r if np.sum(r * g) > 0 else g
        length = 0.5 * np.linalg.norm(theta.A) / np.linalg.norm(r)
        evaluations += 2
        while value(theta.A + length * r)[0] < before + 1e-4 * length * np.sum(g * r):
            length, evaluations = length / 2, evaluations + 1
        theta = projected(theta.A + length * r, theta, mu, tied)
        last_g, last_r = g, r
        trace.append(value(theta.A, theta)[0])
        ends.append(theta)
    return ends[int(np.argmax(trace))], trace, evaluations


@pytest.mark.long
@pytest.mark.parametrize("tied", [False, True])
def test_the_hybrid_takes_the_steps_of_its_definition(iris, tied, x64):
    data = jax.tree.map(jnp.asarray, iris)
    theta = jax.tree.map(jnp.asarray, start(iris, 2, n_gaussians=2))
    end = fit_hybrid(
        theta,
        data,
        Penalty(theta.A, PULL),
        PRIOR,
        max_steps=N_STEPS,
        n_em=N_EM,
        tied=tied,
    )
    best, trace, evaluations = by_definition(theta, data, tied)
    np.testing.assert_allclose(end.trace, trace, rtol=1e-6)
    assert int(end.n_evaluations) == evaluations
    for name in ("A", "mu", "log_alpha", "log_beta"):
        np.testing.assert_allclose(
            getattr(end.params, name), getattr(best, name), rtol=1e-6, atol=1e-8
        )
