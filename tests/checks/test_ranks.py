"""SBC passes a right posterior and rejects wrong ones.

The world: mu ~ N(0, I₂), five observations x ~ N(mu, σ²). The posterior under test
believes in its own σ, which is an argument, so that the right posterior, a wrong scale
and a posterior that ignores the data (σ = ∞) are one compiled program.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from probmetric.checks.ranks import LOG_LIKELIHOOD, Story, sbc, simulation
from probmetric.checks.uniformity import uniformity
from probmetric.inference.sampling.target import Target


class World(NamedTuple):
    x: object
    believed: object


def log_likelihood(position, world):
    return -0.5 * jnp.sum((world.x - position) ** 2)


def believed_density(position, world):
    scaled = (world.x - position) / world.believed
    return -0.5 * jnp.sum(position**2) - 0.5 * jnp.sum(scaled**2)


def report(position, world):
    return {"mu": position, "outer": jnp.outer(position, position)}


def simulate(key, world):
    a, b = jax.random.split(key)
    mu = jax.random.normal(a, (2,), world.x.dtype)
    noise = jax.random.normal(b, world.x.shape, world.x.dtype)
    return mu, world._replace(x=mu + noise)


TARGET, STORY = Target(believed_density, report), Story(simulate, log_likelihood)
FAST = {"n_simulations": 300, "n_draws": 39, "thin": 2, "n_warmup": 100, "seed": 0}


def ranks_under(believed):
    world = World(np.zeros((5, 2)), np.asarray(believed))
    return sbc(TARGET, STORY, world, **FAST)


@pytest.mark.long
def test_the_right_posterior_is_calibrated():
    # Family-wise false-alarm rate 1 % over six quantities and two tests.
    table = uniformity(ranks_under(1.0))
    assert table.attrs["verdict"] == "agree"


@pytest.mark.long
def test_a_wrong_likelihood_scale_is_rejected():
    assert uniformity(ranks_under(1.6)).attrs["verdict"] == "disagree"


@pytest.mark.long
def test_a_posterior_that_ignores_the_data_is_rejected_by_the_log_likelihood_alone():
    table = uniformity(ranks_under(np.inf))
    failed = table["entry"].to_numpy()[table["verdict"].to_numpy() == "disagree"]
    assert len(failed)
    assert all(LOG_LIKELIHOOD in name for name in failed)


@pytest.mark.long
def test_ranks_are_counts_of_draws_in_every_simulation():
    ranks = ranks_under(1.0)
    symmetric = {"outer[0, 0]", "outer[0, 1]", "outer[1, 1]"}  # each entry once
    assert set(ranks.ranks) == {"mu[0]", "mu[1]", LOG_LIKELIHOOD} | symmetric
    for row in ranks.ranks.values():
        assert row.shape == (300,)
        assert row.min() >= 0
        assert row.max() <= ranks.n_draws == 39


def normal_model(x):
    """mu ~ N(0, 1), tau ~ Gamma(3, 3), x ~ N(mu, tau^-1/2): one site is positive."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    tau = numpyro.sample("tau", dist.Gamma(3.0, 3.0))
    numpyro.deterministic("cv", mu * jnp.sqrt(tau))
    with numpyro.plate("n", len(x)):
        likelihood = dist.Normal(mu, 1 / jnp.sqrt(tau)).mask(True)
        numpyro.sample("x", likelihood, obs=x)


@pytest.mark.long
def test_a_numpyro_model_is_calibrated():
    ranks = simulation(normal_model, np.zeros(8), (), {})(**FAST)
    assert set(ranks.ranks) == {"mu", "tau", "cv", LOG_LIKELIHOOD}
    assert uniformity(ranks).attrs["verdict"] == "agree"


def test_the_log_likelihood_of_a_model_is_that_of_its_observations(x64):
    _, story, world, _ = simulation(normal_model, np.zeros(8), (), {})
    position, world = story.simulate(jax.random.key(0), world)
    mu, tau = float(position["mu"]), float(np.exp(position["tau"]))
    x = np.asarray(world.observed["x"])
    assert np.ptp(x) > 0
    expected = stats.norm.logpdf(x, mu, tau**-0.5).sum()
    np.testing.assert_allclose(story.log_likelihood(position, world), expected, 1e-12)


def test_sizes_below_one_are_refused():
    with pytest.raises(ValueError, match="n_simulations must be"):
        sbc(
            TARGET, STORY, World(np.zeros((5, 2)), np.ones(())), seed=0, n_simulations=0
        )
