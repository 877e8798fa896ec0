"""GLML beyond its matrices: bias by simulation, posterior of the metric, γ, models."""

from functools import partial

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

from probmetric.data.containers import Labeled
from probmetric.inference.gaussian_classes import local_metric as local
from probmetric.inference.gaussian_classes import posterior as gc
from probmetric.inference.gaussian_classes.local_metric import choose_gamma
from probmetric.models.gaussian_classes import (
    GaussianClassesParams,
    LKJPrior,
    NIWPrior,
    gaussian_classes,
    gaussian_mixture_classes,
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


def test_gamma_is_infinite_where_the_local_metric_is_nonsense():
    """Densities of two classes that have nothing to do with the labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    codes = (X[:, 2] > 0).astype(int)
    wrong = gaussians(seed=3)
    wrong = wrong._replace(chol=wrong.chol * np.array([0.05, 1.0, 3.0])[:, None])
    metric = to_metric(wrong, rule="zero_bias", frame="identity")
    gamma, scores = choose_gamma([metric], X, codes, 5)
    assert scores.shape == (7,)
    assert gamma >= 1
    assert scores[0] > scores[-1]


def test_gamma_scores_are_those_of_a_direct_count():
    rng = np.random.default_rng(1)
    X, codes = rng.normal(size=(30, 3)), np.arange(30) % 2
    metric = to_metric(gaussians())
    _, scores = choose_gamma([metric], X, codes, 3, gammas=(1.0,))
    A = np.asarray(metric.matrix_at(X))
    F = np.asarray(metric.frame)
    A = A * (3 / np.trace(np.linalg.solve(F.T @ F, A), axis1=1, axis2=2))[:, None, None]
    total = 0.0
    for i in range(30):
        D = np.einsum("nj,jk,nk->n", X - X[i], 0.5 * A[i] + 0.5 * F.T @ F, X - X[i])
        D[i] = np.inf
        same = np.sum(codes[np.argsort(D)[:3]] == codes[i])
        total += np.log((same + 14 / 29) / 4)
    np.testing.assert_allclose(scores[1], total / 30, rtol=1e-10)


def test_gamma_scores_of_draws_are_those_of_their_mean_votes():
    rng = np.random.default_rng(1)
    X, codes = rng.normal(size=(30, 3)), np.arange(30) % 2
    metric = to_metric(gaussians())
    _, once = choose_gamma([metric], X, codes, 3)
    _, thrice = choose_gamma([metric] * 3, X, codes, 3)
    np.testing.assert_allclose(thrice, once, rtol=1e-12)


def sites_of(model, *args, **kwargs):
    seeded = handlers.seed(model, jax.random.key(0))
    trace = handlers.trace(seeded).get_trace(*args, **kwargs)
    return {name: site["value"] for name, site in trace.items()}


LKJ = LKJPrior(np.zeros(2), np.ones(2), np.ones(2))
NIW = NIWPrior(np.zeros(2), np.eye(2), 1.0, 4.0)


@pytest.mark.long
@pytest.mark.parametrize(
    "prior, covariance", [(LKJ, "full"), (NIW, "tied"), (LKJ, "diagonal")]
)
def test_model_without_labels_simulates_points_and_classes(prior, covariance):
    data, options = Labeled(np.zeros((5, 2)), None), {"covariance": covariance}
    simulated = partial(sites_of, gaussian_classes, data, prior, n_classes=3, **options)
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


@pytest.mark.long
def test_mixture_model_of_one_component_is_the_plain_model():
    params = gaussians(d=2)
    data = Labeled(np.random.default_rng(0).normal(size=(6, 2)), np.arange(6) % 2)
    theta = {"weights": params.weights, "mean": params.mean, "chol": params.chol}

    @partial(jax.jit, static_argnums=0)
    def density(model, theta):
        return log_density(model, (data, NIW), {"n_classes": 2}, theta)[0]

    plain = density(gaussian_classes, theta)
    theta = {
        "weights": params.weights,
        "mix": np.ones((2, 1)),
        "mean": params.mean[:, None],
        "chol": params.chol[:, None],
    }
    one = partial(gaussian_mixture_classes, n_components=1)
    mixed = density(one, theta)
    np.testing.assert_allclose(mixed, plain, rtol=1e-12)


def test_mixtures_refuse_data_weights():
    data = Labeled(np.zeros((3, 2)), None, np.ones(3))
    with pytest.raises(ValueError, match=r"w.* None .* weights"):
        sites_of(gaussian_mixture_classes, data, NIW, n_classes=2, n_components=2)


def test_simulate_draws_from_mixtures_within_classes():
    params = GaussianClassesParams(
        np.array([0.5, 0.5]),
        np.array([[[-5.0], [5.0]], [[0.0], [0.0]]]),
        np.full((2, 2, 1, 1), 0.1),
        np.array([[0.5, 0.5], [1.0, 0.0]]),
    )
    data = simulate(jax.random.key(0), params, Labeled(np.zeros((400, 1)), None))
    own = np.asarray(data.X)[np.asarray(data.y) == 0, 0]
    assert np.abs(np.abs(own) - 5).max() < 1
    # 200 fair signs: |sum| < 4.5 sd has false-alarm rate 7e-6.
    assert abs(np.sign(own).sum()) < 4.5 * np.sqrt(len(own))
