"""LCA's NumPyro model: its forms, its priors, and the distribution of a label."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer import SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density
from numpyro.optim import Adam

from probmetric.data.containers import Pairs
from probmetric.metric import Mahalanobis
from probmetric.models.lca import (
    Coincidence,
    LCAParams,
    LCAPrior,
    identified,
    lca,
    simulate,
    to_metric,
)

pytestmark = pytest.mark.usefixtures("x64")
PRIOR = LCAPrior(0.8 * np.eye(2, 3), c=0.8, lam=4.0)
AT = {"W": np.array([[0.5, 0.1, -0.2], [0.0, 0.9, 0.3]]), "log_b": np.array(-0.6)}
LOG_SIGMA2 = np.log(np.expm1(np.exp(-0.6)) / 2)  # p = 2: 2b/p = b


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    i = np.arange(30) % 40
    j = (i + 7) % 40
    y = rng.integers(0, 2, 30)
    return Pairs(X, i, j, y, rng.uniform(0.5, 2.0, 30), i % 3)


def density(*args, **kwargs):
    return float(jax.jit(lambda: log_density(lca, args, kwargs, AT)[0])())


@pytest.mark.long
def test_labels_are_as_likely_in_the_latent_form_as_in_the_marginal_one(pairs):
    # Share of y = 1 per pair over 20 000 simulations of each form, at fixed
    # parameters: 30 two-sample z's, Bonferroni at 1 %: |z| < 4.
    n = 20_000
    given = handlers.condition(lca, data=AT)
    shares = []
    for latent, seed in ((True, 0), (False, 1)):
        predictive = Predictive(given, num_samples=n, return_sites=["y"])
        y = predictive(
            jax.random.key(seed), pairs._replace(y=None), PRIOR, latent=latent
        )["y"]
        shares.append(np.asarray(y).mean(0))
    pooled = sum(shares) / 2
    z = (shares[0] - shares[1]) / np.sqrt(2 * pooled * (1 - pooled) / n)
    assert np.abs(z).max() < 4


def test_simulate_draws_from_the_models_own_label_distribution(pairs):
    params = LCAParams(jnp.asarray(AT["W"]), jnp.asarray(LOG_SIGMA2))
    keys = jax.random.split(jax.random.key(3), 20_000)
    y = jax.vmap(lambda k: simulate(k, params, pairs).y)(keys)
    want = np.exp(
        -(
            identified(params)["b"]
            + 0.5
            * np.asarray(to_metric(params).distance(pairs.X[pairs.i], pairs.X[pairs.j]))
            ** 2
        )
    )
    z = (np.asarray(y).mean(0) - want) / np.sqrt(want * (1 - want) / 20_000)
    assert np.abs(z).max() < 4  # 30 z's, Bonferroni at 1 %


@pytest.mark.long
def test_log_density_is_prior_plus_weighted_tempered_labels(pairs):
    W, sigma2 = AT["W"], float(np.exp(LOG_SIGMA2))
    g = (pairs.X[pairs.i] - pairs.X[pairs.j]) @ W.T
    t = np.log1p(2 * sigma2) + np.sum(g**2, 1) / (2 * (1 + 2 * sigma2))
    labels = np.where(pairs.y == 1, -t, np.log1p(-np.exp(-t)))
    prior = dist.Normal(PRIOR.mean, PRIOR.c / np.sqrt(PRIOR.lam)).log_prob(W).sum()
    prior += AT["log_b"] - np.exp(AT["log_b"])  # b ~ Exponential(1), in log b
    want = float(prior) + 0.3 * float(np.sum(pairs.w * labels))
    np.testing.assert_allclose(
        density(pairs, PRIOR, learning_rate=0.3), want, rtol=1e-12
    )


def test_flat_priors_contribute_nothing(pairs):
    flat = LCAPrior(np.zeros((2, 3)), lam=0, b_shape=0.0, b_rate=0.0)
    no_labels = density(pairs._replace(w=np.zeros(30)), flat)
    assert no_labels == 0.0


def test_own_distribution_for_W_and_a_hyperprior_are_accepted(pairs):
    own = dist.Laplace(0.0, 1.0).expand([2, 3]).to_event(2)
    seeded = handlers.seed(lca, 0)
    assert handlers.trace(seeded).get_trace(pairs, own)["W"]["fn"] is own
    hyper = PRIOR._replace(lam=dist.Gamma(2.0, 0.5))
    sites = handlers.trace(handlers.seed(lca, 0)).get_trace(pairs, hyper)
    assert sites["lam"]["value"] > 0


@pytest.mark.long
def test_svi_runs_on_subsamples_of_the_plate(pairs):
    svi = SVI(lca, AutoNormal(lca), Adam(0.01), Trace_ELBO())

    @jax.jit
    def losses(key):
        def step(state, _):
            return svi.update(state, pairs, PRIOR, batch=8)

        start = svi.init(key, pairs, PRIOR, batch=8)
        return jax.lax.scan(step, start, length=20)[1]

    assert np.all(np.isfinite(losses(jax.random.key(0))))


def test_coincidence_of_equal_points_without_noise_is_finite_for_y_1():
    of = jax.jit(jax.value_and_grad(lambda lp: Coincidence(lp).log_prob(1)))
    value, slope = of(0.0)
    assert value == 0.0
    assert slope == 1.0


def test_metric_is_in_units_of_the_link():
    params = LCAParams(AT["W"], LOG_SIGMA2)
    metric = to_metric(params)
    assert isinstance(metric, Mahalanobis)
    np.testing.assert_allclose(metric.matrix, identified(params)["M"], rtol=1e-12)
    a, b = np.zeros((1, 3)), np.ones((1, 3))
    want = np.exp(-(identified(params)["b"] + 0.5 * metric.distance(a, b) ** 2))
    np.testing.assert_allclose(metric.same_probability(a, b), want, rtol=1e-12)
