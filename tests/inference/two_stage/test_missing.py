"""Missing entries integrated out of grouped EM and of the NumPyro likelihood."""

from functools import partial

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy.stats import multivariate_normal

from probmetric.data.containers import Groups, Points
from probmetric.data.groups import stack
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.groups import e_step, em_step, group_data
from probmetric.inference.two_stage.groups_missing import filled, group_rows
from probmetric.models.two_stage import TwoStageParams, two_stage

pytestmark = pytest.mark.usefixtures("x64")

AT = TwoStageParams(
    np.array([0.6, 0.4]),
    np.array([[0.2, -0.1], [3.0, 1.0]]),
    np.array([[[0.4, 0.1], [0.1, 0.3]], [[0.3, -0.1], [-0.1, 0.5]]]),
    np.array([[[1.0, 0.3], [0.3, 0.6]], [[0.5, -0.2], [-0.2, 1.2]]]),
)


@pytest.fixture(scope="module")
def groups():
    """25 sources of 1 to 3 instances in d = 2, a quarter of the entries missing."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(25), 1 + np.arange(25) % 3)
    means = np.array([[0.0, 0.0], [4.0, 1.0]])[np.arange(25) % 2]
    X = (means + rng.normal(size=(25, 2)))[group] + 0.5 * rng.normal(size=(49, 2))
    X[rng.random(X.shape) < 0.25] = np.nan
    X[group == 7] = np.nan  # a source of which nothing was seen
    return Groups(X, group)


def by_scipy(params, groups):
    """Return Σ log Σ_k c_k N of what was seen, from the whole covariance."""
    c, mu, W, B = params
    total = 0.0
    for g in np.unique(groups.group):
        X = groups.X[groups.group == g]
        n, seen = len(X), ~np.isnan(X.ravel())
        if not seen.any():
            continue
        density = 0.0
        for k in range(len(c)):
            S = np.kron(np.ones((n, n)), B[k]) + np.kron(np.eye(n), W[k])
            law = multivariate_normal(np.tile(mu[k], n)[seen], S[np.ix_(seen, seen)])
            density += c[k] * law.pdf(X.ravel()[seen])
        total += np.log(density)
    return total


@partial(jax.jit, static_argnames=("covariance", "latent"))
def density(sites, stacks, prior=None, *, covariance="free", latent=False):
    options = {"n_components": 2, "covariance": covariance, "latent": latent}
    return log_density(two_stage, (stacks, prior), options, sites)[0]


e_step, em_step = jax.jit(e_step), jax.jit(em_step)


def test_grouped_e_step_has_the_likelihood_of_what_was_seen(groups):
    got = e_step(AT, group_rows(groups)).log_likelihood
    np.testing.assert_allclose(got, by_scipy(AT, groups), rtol=1e-12)


@pytest.mark.long
def test_numpyro_density_is_that_of_what_was_seen(groups):
    got = density(AT._asdict(), stack(groups))
    wanted = by_scipy(AT, groups)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    imputed = density(AT._asdict(), stack(filled(groups)))
    assert abs(imputed - wanted) > 1


def test_latent_form_integrates_to_the_marginal_one(groups):
    """One source, two instances, three entries seen: quadrature over x, d = 2."""
    X = np.array([[0.5, np.nan], [0.9, 0.3]])
    one = Groups(X, np.zeros(2, int))
    axis = np.arange(-9, 12, 0.15)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 1, 2)

    @jax.jit
    def at(sites, x):
        return jax.vmap(
            lambda x: density({**sites, "representative_2": x}, stack(one), latent=True)
        )(x)

    log_p = at(AT._asdict(), grid)
    total = jax.scipy.special.logsumexp(log_p) + 2 * np.log(0.15)
    np.testing.assert_allclose(total, by_scipy(AT, one), rtol=1e-9)


def test_nothing_missing_gives_the_statistics_of_complete_groups(groups):
    whole = filled(groups)
    got = e_step(AT, group_rows(whole))
    want = e_step(AT, group_data(whole))
    for name, a in got._asdict().items():
        np.testing.assert_allclose(
            a, getattr(want, name), rtol=1e-11, atol=1e-11, err_msg=name
        )


@pytest.mark.long
def test_groups_of_one_give_what_single_instances_give(groups):
    """The likelihood at the end of mixture EM with NaN, whatever the split of S."""
    X = groups.X[~np.isnan(groups.X).all(1)]
    end = fit(Points(X), n_components=2, prior=None, max_steps=30)
    single = Groups(X, np.arange(len(X)))
    got = e_step(end.params, group_rows(single)).log_likelihood
    again = fit(Points(X), n_components=2, prior=None, start=end.params, max_steps=1)
    np.testing.assert_allclose(got, again.trace[0], rtol=1e-12)


def test_pairs_and_groups_inside_jit_are_asked_for_as_stacks(groups):
    def trace(data):
        seeded = handlers.seed(two_stage, jax.random.key(0))
        handlers.trace(seeded).get_trace(data, None, n_components=1)

    with pytest.raises(ValueError, match=r"data must be prepared .* jax\.jit"):
        jax.jit(trace)(groups)
