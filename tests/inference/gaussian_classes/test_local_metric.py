"""GLML beyond its matrices: bias by simulation, posterior of the metric, γ, models."""

import jax
import numpy as np
import pytest

from probmetric.data.containers import Labeled
from probmetric.inference.gaussian_classes import local_metric as local
from probmetric.inference.gaussian_classes import posterior as gc
from probmetric.models.gaussian_classes import (
    GaussianClassesParams,
    NIWPrior,
    simulate,
    to_metric,
)

pytestmark = pytest.mark.usefixtures("x64")


def gaussians(seed=0, c=2, d=3):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(c, d, d + 1))
    return GaussianClassesParams(
        np.full(c, 1 / c),
        rng.normal(size=(c, d)),
        np.linalg.cholesky(A @ np.swapaxes(A, 1, 2) / d),
    )


def toy_posterior(n=40, d=3):
    params = gaussians(d=d)
    data = simulate(jax.random.key(0), params, Labeled(np.zeros((n, d)), None))
    prior = NIWPrior(np.zeros(d), np.eye(d), 0.5, d + 2.0)
    return data, gc.posterior(gc.statistics(data, 2), prior)


def test_reach_of_the_nearest_point_is_that_of_a_uniform_density():
    """In the unit disc seen from its centre, P(r² > s) = (1 - s)ⁿ: E r² = 1/(n + 1)."""
    found = float(local.expected_squared_reach(-np.log(np.pi), 1000, 2))
    np.testing.assert_allclose(found, 1 / 1001, rtol=2e-3)


@pytest.mark.long
def test_a_draw_has_the_metric_of_its_own_densities_frame_and_all():
    data, post = toy_posterior()
    params = gc.draw(jax.random.key(1), post, 8)
    base = local.student_metric(post, gamma=0.4)
    draws = local.drawn_metrics(params, base)
    X = np.asarray(data.X)[:4]
    with jax.enable_x64(True):
        third = to_metric(jax.tree.map(lambda a: a[3], params), gamma=0.4)
        wanted = np.asarray(third.matrix_at(X))
    np.testing.assert_allclose(draws[3].matrix_at(X), wanted, rtol=1e-9)
    assert np.abs(draws[3].frame - base.frame).max() > 0.01
    A = np.stack([metric.frame_matrix_at(X) for metric in draws])
    assert A.std(0).max() > 0.05
    summary = local.log_euclidean(A)
    np.testing.assert_allclose(np.linalg.slogdet(summary.mean)[1], 0, atol=1e-9)
    assert (summary.spread > 0).all()


def test_log_euclidean_of_a_matrix_and_its_inverse_is_the_identity():
    A = np.array([[2.0, 0.5], [0.5, 0.625]])
    pair = np.stack([A, np.linalg.inv(A)])[:, None]
    mean, spread = local.log_euclidean(pair)
    np.testing.assert_allclose(mean[0], np.eye(2), atol=1e-14)
    np.testing.assert_allclose(
        spread[0], np.sqrt(np.sum(np.log(np.linalg.eigvalsh(A)) ** 2)), rtol=1e-12
    )
