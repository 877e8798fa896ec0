"""GLML beyond its matrices: bias by simulation, posterior of the metric, γ, models."""

from functools import partial

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

from probmetric.data.containers import Labeled
from probmetric.densities.classes import class_log_densities
from probmetric.inference.gaussian_classes import local_metric as local
from probmetric.inference.gaussian_classes import posterior as gc
from probmetric.models.gaussian_classes import (
    GaussianClassesParams,
    NIWPrior,
    gaussian_classes,
    simulate,
    to_densities,
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


def neighbor_errors(params, x, A, n, n_worlds, seed):
    """Error at x of the nearest of n points, over worlds, by the true posterior."""
    rng = np.random.default_rng(seed)
    c, d = params.mean.shape
    y = rng.integers(0, c, (n_worlds, n))
    noise = rng.normal(size=(n_worlds, n, d))
    X = params.mean[y] + np.einsum("wnij,wnj->wni", params.chol[y], noise)
    delta = X - x
    nearest = np.einsum("wni,ij,wnj->wn", delta, A, delta).argmin(1)
    classes = to_densities(params)

    def posterior(points):
        logs = jax.vmap(lambda z: class_log_densities(classes, z))(points)
        return np.asarray(jax.nn.softmax(logs + np.log(params.weights), 1))

    rho = posterior(x[None])[0]
    return 1 - posterior(X[np.arange(n_worlds), nearest]) @ rho


@pytest.mark.slow
def test_bias_at_a_point_shrinks_as_predicted_and_is_removed():
    """Worlds 4000, n = 100 and 400: |z| < 4 of 2 predictions (false alarm < 2e-4).

    The reach E r² is itself asymptotic: a quarter of the bias is allowed for it.
    """
    Sigma = [
        np.diag([1.0, 0.7, 1.3]),
        [[1.2, 0.3, 0], [0.3, 1.5, -0.2], [0, -0.2, 0.6]],
    ]
    mean = np.array([[0.0, 0.0, 0.0], [0.8, 0.4, -0.3]])
    params = GaussianClassesParams(np.full(2, 0.5), mean, np.linalg.cholesky(Sigma))
    x = np.array([0.3, -0.6, 0.9])
    classes = to_densities(params)
    A = np.asarray(to_metric(params, frame="identity").matrix_at(x[None])[0])
    density = np.asarray(class_log_densities(classes, x))
    log_p = np.log(np.mean(np.exp(density)))
    for n in (100, 400):
        reach = float(local.expected_squared_reach(log_p, n, 3))
        for metric, removed in ((np.eye(3), False), (A, True)):
            limit, slope = map(float, local.error_expansion(classes, x, metric))
            errors = neighbor_errors(params, x, metric, n, 4000, n)
            bias = errors.mean() - limit
            mcse = errors.std() / np.sqrt(len(errors))
            plain = float(local.error_expansion(classes, x, np.eye(3))[1]) * reach
            slack = 0.25 * abs(plain)
            assert abs(bias - slope * reach) < 4 * mcse + slack
            if removed:
                assert abs(slope * reach) < 1e-8
            else:
                assert abs(bias) > 4 * mcse  # there is something to remove


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


def sites_of(model, *args, **kwargs):
    seeded = handlers.seed(model, jax.random.key(0))
    trace = handlers.trace(seeded).get_trace(*args, **kwargs)
    return {name: site["value"] for name, site in trace.items()}


NIW = NIWPrior(np.zeros(2), np.eye(2), 1.0, 4.0)


@pytest.mark.long
@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal"])
def test_model_without_labels_simulates_points_and_classes(covariance):
    data, options = Labeled(np.zeros((5, 2)), None), {"covariance": covariance}
    simulated = partial(sites_of, gaussian_classes, data, NIW, n_classes=3, **options)
    if covariance == "diagonal":
        sites = jax.jit(simulated)()
    else:  # Shapes need no numbers.
        sites = jax.eval_shape(simulated)
    assert sites["x"].shape == (5, 2)
    assert sites["y"].shape == (5,)
    q = 1 if covariance == "tied" else 3
    assert sites["chol"].shape == (q, 2, 2)
    if covariance == "diagonal":
        assert (np.asarray(sites["chol"])[:, 1, 0] == 0).all()
