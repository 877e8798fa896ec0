"""Mixtures within classes: the mode of the NumPyro model, and metrics through it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density

from probmetric.data.containers import Labeled
from probmetric.densities.classes import class_hessians
from probmetric.inference.gaussian_classes import posterior as gc
from probmetric.inference.gaussian_classes.local_metric import error_expansion
from probmetric.inference.gaussian_classes.mixtures import fit_mixtures, mixture_prior
from probmetric.inference.gaussian_classes.prior import evidence_prior
from probmetric.inference.solvers.result import Result
from probmetric.models.gaussian_classes import (
    gaussian_mixture_classes,
    to_densities,
    to_metric,
)

pytestmark = pytest.mark.usefixtures("x64")
C, K, D = 2, 2, 2


@pytest.fixture(scope="module")
def fitted():
    """Two classes of two lumps each, interleaved on a line."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        y, lump = np.arange(80) % 2, np.arange(80) // 2 % 2
        centre = np.stack([2.5 * y + 5.0 * lump, 0.0 * y], 1)
        X = centre + rng.normal(size=(80, D)) * np.array([0.5, 1.0])
        data = Labeled(X, y)
        whole = evidence_prior(gc.statistics(data, C), alpha=1.5)
        prior = mixture_prior(whole, K)
        fit = fit_mixtures(data, prior, n_classes=C, n_components=K, concentration=1.5)
        return data, prior, fit


@pytest.mark.long
def test_the_fit_is_a_mode_of_the_numpyro_model_and_reports_its_density(fitted):
    data, prior, fit = fitted
    assert int(fit.result) == Result.CONVERGED
    options = {"n_classes": C, "n_components": K, "concentration": 1.5}

    def density(params):
        sites = dict(params._asdict())
        value, _ = log_density(gaussian_mixture_classes, (data, prior), options, sites)
        # The site is the Cholesky factor: |dΣ/dL| = 2^d Π L_ii^(d - i + 1).
        diagonal = jnp.diagonal(params.chol, axis1=-2, axis2=-1)
        volume = D * jnp.log(2.0) + jnp.log(diagonal) @ (D - jnp.arange(D))
        return value - jnp.sum(volume)

    params = jax.tree.map(jnp.asarray, fit.params)
    value, gradient = jax.jit(jax.value_and_grad(density))(params)
    np.testing.assert_allclose(fit.objective, value, rtol=1e-11)
    # EM stops at a gap of 3e-6; with curvatures up to 20 / .5² that leaves 0.02.
    np.testing.assert_allclose(gradient.mean, 0, atol=0.05)
    np.testing.assert_allclose(np.tril(gradient.chol), 0, atol=0.05)
    # On the simplex the gradient is the same in all directions at a mode.
    for by_weight in (gradient.weights, *gradient.mix):
        np.testing.assert_allclose(by_weight, by_weight[0], rtol=1e-3)


@pytest.mark.long
def test_the_local_metric_of_mixtures_removes_their_bias(fitted):
    """Wherever some metric can; the metric of one normal a class does not."""
    data, _, fit = fitted
    classes = to_densities(fit.params)
    metric = to_metric(fit.params)
    single = to_metric(gc.plug_in(gc.statistics(data, C)))

    expansion = jax.jit(error_expansion)

    def slope(metric, x):
        A = np.asarray(metric.matrix_at(x[None]))[0]
        return abs(float(expansion(classes, x, A)[1]))

    H = np.asarray(jax.jit(jax.vmap(lambda x: class_hessians(classes, x)))(data.X[:30]))
    low, high = np.linalg.eigvalsh(H[:, 0] - H[:, 1]).T
    mixed = np.flatnonzero(
        (low < 0) & (high > 0) & (-low < 50 * high) & (high < -50 * low)
    )
    assert len(mixed) >= 3
    for x in data.X[mixed[:5]]:
        plain = abs(float(expansion(classes, x, np.eye(D))[1]))
        assert slope(metric, x) < 1e-6 * plain
    assert max(slope(single, x) for x in data.X[mixed[:5]]) > 0.01


def test_more_components_than_points_are_refused():
    data = Labeled(np.random.default_rng(0).normal(size=(5, 2)), np.arange(5) % 2)
    prior = mixture_prior(evidence_prior(gc.statistics(data, 2)), 3)
    with pytest.raises(ValueError, match=r"n_components .* 2, .* got"):
        fit_mixtures(data, prior, n_classes=2, n_components=3)
