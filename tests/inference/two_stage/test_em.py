"""The two-stage mixture's EM: golden steps, NumPyro gradients, limits, additivity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density as numpyro_log_density
from scipy.stats import invwishart, multivariate_normal
from sklearn.mixture import GaussianMixture

from probmetric.data.containers import Groups, Points
from probmetric.data.groups import stack
from probmetric.inference.mixture import em as mixture
from probmetric.inference.mixture.missing import e_step_missing
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.mixture.start import mixture_data
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.solvers.result import Result
from probmetric.inference.two_stage.fit import fit
from probmetric.inference.two_stage.groups import e_step, em_step, group_data, m_step
from probmetric.inference.two_stage.proportional import (
    ProportionalParams,
    proportional_m_step,
)
from probmetric.models.two_stage import TwoStageParams, to_metric, two_stage

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


def test_grouped_em_without_its_posterior_covariance_is_rejected(golden, x64):
    """The classic EM bug: plugging in h for x, dropping V."""
    case = golden("mix_glml_dml")["y_grouped_em"]
    mu, W, B = arrays(case, "mu", "W", "B")
    resp = np.array(case["out"]["resp"])
    total = np.zeros((2, 2, 2))
    for i, g in enumerate(case["in"]["groups"]):
        X = np.array(g)
        for k in range(2):
            G = B[k] @ np.linalg.inv(B[k] + W[k] / len(X))
            h = mu[k] + G @ (X.mean(0) - mu[k])
            off = h - np.array(case["out"]["mu"][k])
            total[k] += resp[i, k] * np.outer(off, off)
    wrong = total / resp.sum(0)[:, None, None]
    assert np.max(np.abs(wrong - np.array(case["out"]["B"]))) > 0.05


def test_proportional_m_step_equals_the_profile_search(golden, x64):
    case = golden("mix_glml_dml")["y_constrained_mstep"]
    B, W, R, N = arrays(case, "Btilde", "Wtilde", "R", "N")
    args = B[None], W[None], R[None], N[None], 0.5
    S, alpha = proportional_m_step(*map(jnp.asarray, args), sweeps=500)
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


def test_recentred_statistics_give_the_same_m_step(start, x64):
    data = jax.tree.map(jnp.asarray, mixture_data(small().X))
    prior = default_prior(data.X, 2)
    stats = mixture.e_step(start, data)
    elsewhere = jnp.asarray(start.means) + 3.0
    moved = mixture.recentre(stats, jnp.asarray(start.means), elsewhere)
    for got, want in zip(
        mixture.m_step(moved, elsewhere, prior),
        mixture.m_step(stats, jnp.asarray(start.means), prior),
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_complete_rows_give_the_same_statistics_as_the_missing_route(start, x64):
    data = jax.tree.map(jnp.asarray, mixture_data(small().X, np.linspace(0, 2, 90)))
    whole = mixture.e_step(start, data)
    other = jax.jit(e_step_missing)(start, data.X, data.w)
    for got, want in zip(other, whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.long
def test_missing_entries_are_integrated_out_of_the_likelihood_and_its_gradient(x64):
    """EM's fixed point is stationary for the density of the seen entries (autodiff)."""
    rng = np.random.default_rng(1)
    X = small().X.copy()
    X[rng.random(X.shape) < 0.2] = np.nan
    end = fit(Points(X), n_components=2, prior=None, tol=1e-13, max_steps=3000)
    assert int(end.result) == Result.CONVERGED

    def log_likelihood(c, mu, S):
        metric = to_metric(TwoStageParams(c, mu, 0.5 * S, 0.5 * S))
        return jnp.sum(metric.log_marginal(X))

    p = end.params
    args = [jnp.asarray(a) for a in (p.weights, p.means, p.within + p.between)]
    value, grads = jax.jit(jax.value_and_grad(log_likelihood, (0, 1, 2)))(*args)
    np.testing.assert_allclose(value, end.objective, rtol=1e-12)
    np.testing.assert_allclose(grads[1], 0, atol=1e-3)
    np.testing.assert_allclose(grads[2], 0, atol=1e-3)


def log_joint(params, data, prior, covariance):
    """Return the NumPyro model's log joint density at constrained values."""
    if covariance == "free":
        sites = params._asdict()
    else:
        sites = {**dict(zip(("weights", "means", "covariances"), params, strict=False))}
        sites["alpha"] = params[3]
    options = {"n_components": len(params[0]), "covariance": covariance}
    return numpyro_log_density(two_stage, (data, prior), options, sites)[0]


@pytest.mark.long
@pytest.mark.parametrize("covariance", ["proportional"])
def test_objective_is_the_numpyro_density_and_the_fixed_point_its_mode(covariance, x64):
    groups = small()
    prior = default_prior(groups.X, 2)._replace(concentration=1.5, strength=0.5)
    end = fit(
        groups,
        n_components=2,
        prior=prior,
        covariance=covariance,
        tol=1e-14,
        max_steps=3000,
    )
    assert int(end.result) == Result.CONVERGED
    p = end.params
    if covariance == "proportional":
        total = p.within + p.between
        p = ProportionalParams(
            p.weights, p.means, total, p.within[0, 0, 0] / total[0, 0, 0]
        )
    stacks = stack(groups)
    p = jax.tree.map(jnp.asarray, p)

    @jax.jit
    @jax.value_and_grad
    def density(p, prior):
        return log_joint(p, stacks, prior, covariance)

    value, slope = density(p, prior)
    np.testing.assert_allclose(value, end.objective, rtol=1e-12)
    tangent = slope.weights - slope.weights.mean()  # along the simplex
    scale = abs(float(end.objective))
    for name, g in [("weights", tangent), *list(slope._asdict().items())[1:]]:
        np.testing.assert_allclose(g, 0, atol=1e-5 * scale, err_msg=name)
    # Negative control: under another prior it is not stationary there.
    _, other = density(p, prior._replace(df=prior.df + 50.0))
    assert max(float(jnp.max(jnp.abs(g))) for g in other) > 1e-3 * scale


@pytest.mark.long
def test_m_step_without_the_mean_priors_degree_of_freedom_is_rejected(x64):
    """ν + d + 1 in Eq. (5), an inverse Wishart's own count, misses the mode."""
    groups = small()
    prior = default_prior(groups.X, 1)._replace(strength=0.5)
    end = fit(Points(groups.X), prior=prior)
    S = np.asarray(end.params.within + end.params.between)
    n = len(groups.X) + float(prior.df) + 2
    wrong = jnp.asarray(S * (n + 2) / (n + 1))

    def density(S):
        sites = {"weights": jnp.ones(1), "means": jnp.asarray(end.params.means)}
        sites["covariances"] = S
        options = {"n_components": 1, "covariance": "proportional", "alpha": 0.5}
        data = stack(Points(groups.X))
        return numpyro_log_density(two_stage, (data, prior), options, sites)[0]

    slope = jax.jit(jax.grad(density))
    right = jnp.max(jnp.abs(slope(jnp.asarray(S))))
    assert right < 1e-8 * n
    assert jnp.max(jnp.abs(slope(wrong))) > 1e-3 * n


@pytest.mark.long
def test_the_m_step_of_w_is_the_mode_under_its_inverse_wishart_prior(x64):
    """Its degrees of freedom are ν_W + d + 1: no mean's prior holds W."""
    groups = small()
    prior = default_prior(groups.X, 1)
    prior = prior._replace(within_df=7.0, within_scale=np.array([[2.0, 0.3], [0.3, 1]]))
    data = jax.tree.map(jnp.asarray, group_data(groups, prior=prior))
    one, mean = jnp.eye(2)[None], jnp.asarray(groups.X.mean(0))[None]
    before = TwoStageParams(jnp.ones(1), mean, 0.5 * one, one)
    stats = jax.jit(e_step)(before, data)
    W = np.asarray(jax.jit(m_step)(stats, mean, prior).within[0])
    N, scatter = float(stats.instances[0]), np.asarray(stats.within[0])

    def density(W):
        data = -0.5 * (
            N * np.linalg.slogdet(W)[1] + np.trace(np.linalg.solve(W, scatter))
        )
        return data + invwishart(prior.within_df, prior.within_scale).logpdf(W)

    h = 1e-4  # Central differences: rounding about N eps/h, h² of the third derivative.
    for E in (np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.ones((2, 2))):
        slope, off = (
            (density(at + h * E) - density(at - h * E)) / (2 * h)
            for at in (W, W * (N + 10) / (N + 11))  # ν_W + d + 1 = 10
        )
        assert abs(slope) < 1e-5 * N
        assert abs(off) > 1e-3 * N  # Negative control: one degree of freedom more.


def test_the_default_prior_is_the_size_of_a_component_if_k_tiled_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) * [1.0, 10.0, 0.1]
    prior = default_prior(X, 8)
    # k^{2/d} = 8^{2/3} = 4 in d = 3.
    np.testing.assert_allclose(prior.scale, np.diag(X.var(0)) / 4, rtol=1e-12)
    np.testing.assert_allclose(prior.within_scale, prior.scale / 2, rtol=1e-15)
