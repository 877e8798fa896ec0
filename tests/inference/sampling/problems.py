"""Posteriors known in closed form, shared by the tests of sampling."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from probmetric.data.containers import Points
from probmetric.inference.sampling.target import Target


class Prior(NamedTuple):
    """Prior variance, an array so that it is an argument of the compiled code."""

    variance: object


def normal_model(data, prior, *, noise=1.0, batch=None):
    """mu ~ N(0, variance I); X[n] ~ N(mu, noise²)."""
    d = data.X.shape[1]
    scale = jnp.sqrt(prior.variance)
    mu = numpyro.sample("mu", dist.Normal(jnp.zeros(d), scale).to_event(1))
    numpyro.deterministic("square", mu**2)
    with numpyro.plate("n", len(data.X), subsample_size=batch) as i:
        numpyro.sample("x", dist.Normal(mu, noise).to_event(1), obs=data.X[i])


def positive_model(data):
    """rate ~ Gamma(2, 1); counts ~ Poisson(rate): a site with a bijection."""
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    numpyro.sample(
        "count", dist.Poisson(rate).expand([len(data)]).to_event(1), obs=data
    )


def gaussian_density(position, data):
    """N(m, S) over a pytree of two leaves, with data (m, precision)."""
    delta = jnp.concatenate([position["a"], position["b"][None]]) - data[0]
    return -0.5 * delta @ data[1] @ delta


def gaussian_report(position, data):
    return {"a": position["a"], "b": position["b"]}


GAUSSIAN = Target(gaussian_density, gaussian_report)
POSITION = {"a": np.zeros(2), "b": np.zeros(())}


def gaussian_data(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, 3))
    return rng.normal(size=3), A @ A.T + 0.3 * np.eye(3)


def points(seed=0, n=20, d=2):
    return Points(np.random.default_rng(seed).normal(1.0, 1.0, size=(n, d)))


def normal_posterior(data, variance, noise=1.0):
    precision = 1 / variance + len(data.X) / noise**2
    return data.X.sum(0) / noise**2 / precision, 1 / precision


PRIOR = Prior(np.asarray(2.0))
