"""Laplace and variational draws: exact where they should be, with an honest k-hat."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
import xarray as xr
from numpyro import infer

from probmetric.checks.compare import distance
from probmetric.inference.sampling.laplace import laplace_fit
from probmetric.inference.sampling.sample import sample
from probmetric.inference.sampling.svi import SVI, Bound
from probmetric.inference.sampling.target import Gaussian, Target
from probmetric.inference.sampling.warnings import SamplingWarning
from tests.inference.sampling.problems import (
    GAUSSIAN,
    POSITION,
    PRIOR,
    gaussian_data,
    normal_model,
    normal_posterior,
    points,
)


def test_laplace_of_a_gaussian_is_exact_and_says_so(x64):
    data = gaussian_data()
    draws = sample(
        GAUSSIAN, data, start=POSITION, method="laplace", seed=0, n_draws=5000
    )
    posterior = draws["posterior"]
    x = np.c_[posterior["a"][0].to_numpy(), posterior["b"][0].to_numpy()]
    covariance = np.linalg.solve(data[1], np.eye(3))
    error = np.sqrt(np.diag(covariance) / len(x))
    # Five standard errors of three means; k-hat of equal weights is far below 0.
    assert np.all(np.abs(x.mean(0) - data[0]) < 5 * error)
    spread = 5 * covariance.max() * np.sqrt(2 / len(x))
    np.testing.assert_allclose(np.cov(x.T), covariance, atol=spread)
    assert draws.attrs["khat"] < 0.5
    assert draws["posterior"].attrs["khat"] == draws.attrs["khat"]


def test_the_k_hat_of_a_far_too_narrow_gaussian_is_large(x64):
    data = gaussian_data()
    good = laplace_fit(GAUSSIAN, data, POSITION)
    narrow = Gaussian(good.mean, 0.2 * good.factor)
    with pytest.warns(SamplingWarning, match="k-hat"):
        draws = sample(GAUSSIAN, data, start=narrow, method="laplace", seed=0)
    assert draws.attrs["khat"] > 0.7


def flat_density(position, data):
    return -0.5 * jnp.sum(position[:1] ** 2) + 0 * data


def test_laplace_refuses_a_posterior_that_is_flat_along_a_direction(x64):
    target = Target(flat_density, lambda position, data: {"x": position})
    with pytest.raises(ValueError, match=r"model: the Hessian .* got eigenvalues"):
        laplace_fit(target, np.zeros(()), np.ones(2))


@pytest.mark.long
def test_svi_of_a_conjugate_normal_is_close_to_it():
    draws = sample(normal_model, points(), prior=PRIOR, method=SVI(n_steps=2000),
                   seed=0)  # fmt: skip
    mean, variance = normal_posterior(points(), 2.0)
    exact = np.random.default_rng(0).normal(mean, variance**0.5, size=(4, 2000, 2))
    reference = xr.Dataset({"mu": (("chain", "draw", "k"), exact)})
    table = distance(reference, draws)
    assert float(np.abs(table["shift"]).max()) < 0.2
    assert float(np.abs(table["log_sd_ratio"]).max()) < 0.2
    assert draws.attrs["khat"] < 0.7
    assert {"mu", "square"} <= set(draws["posterior"].data_vars)


@pytest.mark.parametrize("n_particles, batch", [(1, None), (3, 5)])
def test_the_bound_is_that_of_numpyro_from_the_same_key(x64, n_particles, batch):
    """With its gradient, and with the weights of a subsample."""
    guide = infer.autoguide.AutoNormal(normal_model)
    given = jax.tree.map(jnp.asarray, (points(), PRIOR))
    engine = infer.SVI(normal_model, guide, numpyro.optim.Adam(0.1), Bound(n_particles))

    @jax.jit
    def both(key):
        state = engine.init(key, *given, batch=batch)

        def of(bound):
            def value(params):
                key = jax.random.key(1)
                return bound.loss(key, params, normal_model, guide, *given, batch=batch)

            return jax.value_and_grad(value)(engine.get_params(state))

        return of(engine.loss), of(infer.Trace_ELBO(n_particles))

    (ours, slope), (theirs, other) = both(jax.random.key(0))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    for name, g in other.items():
        np.testing.assert_allclose(slope[name], g, rtol=1e-10, atol=1e-12)


@pytest.mark.long
def test_svi_takes_a_subsample_and_keeps_the_whole_data():
    options = {"batch": 5}
    run = dict(prior=PRIOR, seed=0, options=options, n_draws=200)
    with pytest.warns(SamplingWarning, match="k-hat"):  # 40 steps are too few.
        draws = sample(normal_model, points(), method=SVI(n_steps=40), **run)
    assert draws["observed_data"]["x"].shape == (20, 2)
