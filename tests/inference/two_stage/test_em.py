"""The two-stage mixture's EM: golden steps, NumPyro gradients, limits, additivity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from probmetric.data.containers import Groups
from probmetric.data.padding import pad_rows
from probmetric.data.scaling import Scaler
from probmetric.inference.mixture import em as mixture
from probmetric.inference.mixture.em import CHUNK, MixtureData
from probmetric.inference.mixture.missing import e_step_missing
from probmetric.inference.mixture.start import mixture_data
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.two_stage.groups import em_step, group_data
from probmetric.inference.two_stage.proportional import (
    proportional_m_step,
)
from probmetric.models.two_stage import TwoStageParams

RTOL = 1e-10


def arrays(case, *names):
    return [np.asarray(case["in"][name], float) for name in names]


def small(seed=0, k=2, groups=30, size=3):
    """Return grouped points of a two-stage mixture in d = 2."""
    rng = np.random.default_rng(seed)
    means = np.array([[0.0, 0.0], [4.0, 1.0], [-1.0, 5.0]])[:k]
    component = rng.integers(0, k, groups)
    group = np.repeat(np.arange(groups), size)
    x = means[component] + rng.normal(size=(groups, 2)) * [1.0, 0.6]
    return Groups(x[group] + 0.5 * rng.normal(size=(len(group), 2)), group)


@pytest.fixture(scope="module")
def start():
    c, mu = np.array([0.4, 0.6]), np.array([[0.5, -0.2], [3.0, 1.5]])
    return MixtureParams(c, mu, np.stack([np.eye(2), 2 * np.eye(2) + 0.3]))


def test_grouped_em_step_equals_quadrature(golden, x64):
    case = golden("mix_glml_dml")["y_grouped_em"]
    c, mu, W, B = arrays(case, "c", "mu", "W", "B")
    parts = [np.array(g) for g in case["in"]["groups"]]
    owner = np.repeat(np.arange(len(parts)), [len(g) for g in parts])
    data = group_data(Groups(np.concatenate(parts), owner))
    new, log_likelihood = jax.jit(em_step)(TwoStageParams(c, mu, W, B), data)
    out = case["out"]
    np.testing.assert_allclose(log_likelihood, out["loglik"], rtol=RTOL)
    wanted = TwoStageParams(out["c"], out["mu"], out["W"], out["B"])
    for got, want in zip(new, wanted, strict=True):
        np.testing.assert_allclose(got, np.array(want), rtol=RTOL, atol=RTOL)


def test_proportional_m_step_equals_the_profile_search(golden, x64):
    case = golden("mix_glml_dml")["y_constrained_mstep"]
    B, W, R, N = arrays(case, "Btilde", "Wtilde", "R", "N")
    sums = [jnp.asarray(a[None]) for a in (B, W, R, N)]
    sweep = jax.jit(lambda alpha: proportional_m_step(*sums, alpha))
    alpha = jnp.asarray(0.5)
    for _ in range(500):
        S, alpha = sweep(alpha)
    np.testing.assert_allclose(alpha, case["out"]["alpha"], rtol=RTOL)
    np.testing.assert_allclose(S[0], np.array(case["out"]["Sigma"]), rtol=RTOL)


def test_mixture_log_likelihood_and_shares_equal_scipys(start):
    X = small().X
    each = [
        c * multivariate_normal(m, S).pdf(X) for c, m, S in zip(*start, strict=True)
    ]
    got = mixture.e_step(start, mixture.MixtureData(X, np.ones(len(X))))
    wanted = np.sum(np.log(np.sum(each, 0)))
    np.testing.assert_allclose(got.log_likelihood, wanted, rtol=1e-12)
    shares = np.sum(each / np.sum(each, 0), 1)
    np.testing.assert_allclose(got.mass, shares, rtol=1e-9)


def test_ten_em_steps_equal_those_of_scikit_learn(start, x64):
    X = small().X
    other = GaussianMixture(
        2,
        reg_covar=0,
        tol=0,
        max_iter=10,
        weights_init=start.weights,
        means_init=start.means,
        precisions_init=np.linalg.inv(start.covariances),
    )
    with pytest.warns(UserWarning, match="did not converge"):
        other.fit(X)
    params, data = jax.tree.map(jnp.asarray, (start, mixture_data(X)))
    step = jax.jit(mixture.em_step)
    for _ in range(10):
        params, _ = step(params, data)
    np.testing.assert_allclose(params.weights, other.weights_, rtol=1e-9)
    np.testing.assert_allclose(params.means, other.means_, rtol=1e-8)
    np.testing.assert_allclose(params.covariances, other.covariances_, rtol=1e-8)


def test_statistics_of_chunks_add_up(start, x64):
    data = jax.tree.map(jnp.asarray, mixture_data(small().X, np.linspace(0, 2, 90)))
    whole = mixture.e_step(start, data)
    parts = [
        mixture.e_step(start, data._replace(X=data.X[s], w=data.w[s]))
        for s in (slice(0, 37), slice(37, 90))
    ]
    total = jax.tree.map(jnp.add, *parts)
    for got, want in zip(total, whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_chunks_of_padding_do_not_change_statistics(start, x64):
    X = np.random.default_rng(0).normal(size=(CHUNK + 9, 2))
    data = jax.tree.map(jnp.asarray, mixture_data(X))
    padded = MixtureData(*(pad_rows(a, 4 * CHUNK) for a in (data.X, data.w)))
    got, want = (mixture.e_step(start, some) for some in (padded, data))
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    other = jax.jit(e_step_missing)(start, data.X, data.w)  # Without chunks.
    for a, b in zip(got, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)


def test_statistics_with_a_scaler_are_those_of_standardized_rows(start, x64):
    scaler = Scaler(np.array([1e3, -2.0]), np.array([7.0, np.inf]))
    data = jax.tree.map(jnp.asarray, mixture_data(small().X))
    scaled = data._replace(X=(data.X - scaler.mean) / scaler.scale)
    got, want = mixture.e_step(start, data, scaler), mixture.e_step(start, scaled)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


def test_complete_rows_give_the_same_statistics_as_the_missing_route(start, x64):
    data = jax.tree.map(jnp.asarray, mixture_data(small().X, np.linspace(0, 2, 90)))
    whole = mixture.e_step(start, data)
    other = jax.jit(e_step_missing)(start, data.X, data.w)
    for got, want in zip(other, whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
