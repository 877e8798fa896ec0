"""The prior of LCA: of b in closed form; of W, M alike on either sheet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats import ess, rhat
from numpyro.infer import MCMC, init_to_uniform
from numpyro.infer import NUTS as NUTS_OF_NUMPYRO
from numpyro.infer.util import log_density
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import pdist

import probmetric as pm
from probmetric.data.containers import Pairs
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.lca.curvature import prior_precision
from probmetric.inference.lca.em import _log_b
from probmetric.inference.lca.fit import (
    fit,
    scaled_identity,
    scaled_pca,
    scaled_within,
    whitened,
    whitenings,
)
from probmetric.inference.lca.likelihood import log_prior
from probmetric.inference.lca.target import (
    TARGET,
    closed_form,
    position,
    target_data,
)
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Posterior
from probmetric.inference.sampling.warnings import SamplingWarning
from probmetric.models.lca import (
    LCAParams,
    LCAPrior,
    lca,
    log_b_of,
    log_sigma2_of,
    mirrored,
    simulate,
)

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("p", [1, 13, 64])
def test_probability_of_identical_points_is_uniform_whatever_p_is(p):
    # The density in log b, times d log b / dP0 = 1/(b P0), integrates to P0.
    prior = LCAPrior(np.eye(p), lam=0.0)

    def density(P0):
        b = -np.log(P0)
        params = LCAParams(np.eye(p), np.log(np.expm1(2 * b / p) / 2))
        return float(np.exp(log_prior(params, prior))) / (b * P0)

    for low, high in ((0.05, 0.999), (0.2, 0.5)):
        assert quad(density, low, high, limit=20)[0] == pytest.approx(high - low)


@pytest.mark.parametrize("p", [1, 2, 40])
def test_log_b_and_log_sigma2_are_inverse_without_overflow(p):
    log_b = np.linspace(-40, np.log(300 * p), 50)
    np.testing.assert_allclose(log_b_of(log_sigma2_of(log_b, p), p), log_b, atol=1e-12)
    assert np.isfinite(log_sigma2_of(np.log(1e4), p))


@pytest.mark.long
@pytest.mark.parametrize("p", [1, 5, 60])
def test_the_m_step_of_b_is_the_minimum_of_its_equation(p):
    rng, log_b = np.random.default_rng(p), jax.jit(_log_b, static_argnums=2)
    for _ in range(20):
        A, ratio = rng.gamma(2.0) * 50, np.exp(rng.normal(-3, 3))
        shape, rate = rng.gamma(1.0) * 3, rng.gamma(1.0) * 3

        def f(x, A=A, B=A * ratio, a=shape, r=rate):
            rho = np.log(np.expm1(2 * np.exp(x) / p) / 2)
            return A * rho + B * np.exp(-rho) - a * x + r * np.exp(x)

        got = float(log_b(A, A * ratio, p, shape, rate))
        near = minimize_scalar(f, bracket=(got - 0.5, got + 0.5), tol=1e-12)
        assert got == pytest.approx(near.x, abs=1e-5)


def hidden(seed=0):
    """500 pairs of 1000 points, d = 5, p = 2, and the prior at their scaled PCA."""
    rng = np.random.default_rng(seed)
    X, i = rng.normal(size=(1000, 5)), np.arange(500)
    truth = LCAParams(rng.normal(size=(2, 5)) * 0.6, np.log(0.3))
    pairs = simulate(jax.random.key(seed), truth, Pairs(X, i, i + 500, None))
    pairs = pairs._replace(y=np.asarray(pairs.y))
    return pairs, LCAPrior(*scaled_pca(pairs, 2), lam=10.0)


def worst(M):
    """Return the largest R-hat and the smallest bulk ESS of the entries of M."""
    upper = M[..., *np.triu_indices(M.shape[-1])]
    entries = np.moveaxis(upper, -1, 0)
    return max(map(rhat, entries)), min(ess(e, method="bulk") for e in entries)


@pytest.mark.long
def test_uniform_starts_agree_where_the_models_own_density_has_two_sheets():
    pairs, prior = hidden()
    mode = fit(pairs, prior).params
    found = []
    for at, n_draws in ((mode, 500), (None, 200)):
        data = target_data(pairs, prior, 1.0, at)
        posterior = Posterior(TARGET, data, position(mode))
        sampler = NUTS(n_warmup=500)
        draws = sampler.draw(posterior, n_draws=n_draws, seed=0, progress=False)
        r, n = worst(draws.values["M"])
        found.append((r, 1e3 * n / draws.statistics["n_steps"].sum()))
    (good, speed), (control, slow) = found
    assert good < 1.01
    assert speed >= 40
    assert control > 1.05  # two sheets: what every sampler met before
    assert slow < 5


@pytest.mark.long
def test_the_generic_door_starts_at_the_mode_of_the_pooled_density():
    pairs, prior = hidden()
    options = {"log_likelihood": True, "progress": False}
    tree = pm.sample(lca, pairs, prior=prior, **options)
    drawn, steps = tree["posterior"], tree["sample_stats"]["n_steps"].to_numpy()
    assert {"W", "log_b", "sigma2", "M", "b"} == set(drawn.data_vars)
    r, n = worst(drawn["M"].to_numpy())
    assert r < 1.01
    assert 1e3 * n / steps.sum() >= 40
    W, M = drawn["W"].to_numpy(), drawn["M"].to_numpy()
    scale = 1 + 2 * drawn["sigma2"].to_numpy()[..., None, None]
    np.testing.assert_allclose(np.swapaxes(W, -1, -2) @ W / scale, M, rtol=1e-9)
    # One mode, so that W itself agrees between chains.
    assert np.ptp((W * prior.mean).sum((-1, -2)).mean(1)) < 0.1


def plain_numpyro(pairs, prior):
    """NumPyro's own NUTS on the model, from uniform starts; R-hat and ESS of M."""
    kernel = NUTS_OF_NUMPYRO(lca, init_strategy=init_to_uniform)
    run = MCMC(
        kernel, num_warmup=1000, num_samples=1000, num_chains=4,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    run.run(jax.random.key(0), pairs, prior, extra_fields=("num_steps",))
    steps = np.sum(run.get_extra_fields()["num_steps"])
    r, n = worst(np.asarray(run.get_samples(group_by_chain=True)["M"]))
    return r, 1e3 * n / steps


@pytest.mark.slow
def test_plain_numpyro_agrees_between_chains_under_the_mirrored_prior():
    pairs, prior = hidden()
    mode = fit(pairs, prior).params
    good, speed = plain_numpyro(pairs, mirrored(prior, mode.W))
    assert good < 1.01
    assert speed >= 40
    control, _ = plain_numpyro(pairs, prior)
    assert control > 1.05


def of_the_model(pairs, prior):
    """Return NumPyro's log density at rate 0.7, as a function of W and log b."""
    return jax.jit(
        lambda W, log_b: log_density(
            lca, (pairs, prior), {"learning_rate": 0.7}, {"W": W, "log_b": log_b}
        )[0]
    )


@pytest.mark.long
def test_the_mirrored_density_is_the_mean_of_the_models_over_a_reflection():
    pairs, prior = hidden()
    mode = fit(pairs, prior).params
    data = target_data(pairs, prior, 0.7, mode)
    u, rng = data[3], np.random.default_rng(1)
    assert np.linalg.norm(u) == pytest.approx(1)
    reflect = np.eye(2) - 2 * np.outer(u, u)
    ours, theirs = jax.jit(TARGET.log_density), of_the_model(pairs, prior)
    with_mirrored = of_the_model(pairs, mirrored(prior, mode.W))
    for _ in range(3):
        W, log_b = prior.mean + 0.3 * rng.normal(size=(2, 5)), rng.normal() - 2
        own = [theirs(V, log_b) for V in (W, reflect @ W)]
        for V in (W, reflect @ W):
            got = ours({"W": V, "log_b": log_b}, data)
            want = np.logaddexp(*map(float, own)) - np.log(2)
            assert float(got) == pytest.approx(want, rel=1e-12)
            assert float(with_mirrored(V, log_b)) == pytest.approx(want, rel=1e-12)


def test_a_prior_centred_at_zero_is_refused():
    pairs, prior = hidden()
    zero = prior._replace(mean=np.zeros((2, 5)))
    for call in (lambda: fit(pairs, zero), lambda: pm.sample(lca, pairs, prior=zero)):
        with pytest.raises(ValueError, match=r"prior\.mean .* got zeros"):
            call()


@pytest.mark.long
def test_a_flat_prior_of_b_adds_no_curvature_whatever_its_rate():
    params = LCAParams(np.eye(2), np.asarray(-1.0))
    flat = LCAPrior(np.eye(2), b_shape=0)
    assert prior_precision(params, flat)[-1] == 0.0
    proper = flat._replace(b_shape=2.0, b_rate=3.0)

    def of_log_b(log_b):
        return log_prior(params._replace(log_sigma2=log_sigma2_of(log_b, 2)), proper)

    curved = jax.jit(jax.hessian(of_log_b))(jnp.asarray(log_b_of(-1.0, 2)))
    np.testing.assert_allclose(prior_precision(params, proper)[-1], -curved, rtol=1e-8)


def test_chains_that_have_no_mode_to_start_from_are_told_of(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    pairs = Pairs(X, np.arange(20), np.arange(20, 40), rng.integers(0, 2, 20))
    prior = LCAPrior(np.eye(2, 3))
    assert closed_form(pairs, prior) is not None

    def none(*_):
        raise ValueError("no curvature")

    monkeypatch.setattr("probmetric.inference.lca.target.start", none)
    with pytest.warns(SamplingWarning, match="start at random.*no curvature"):
        assert closed_form(pairs, prior) is None


def test_of_few_points_there_are_as_many_axes_as_asked_for():
    X, one = np.random.default_rng(0).normal(size=(3, 6)), np.array([1])
    W0, c = scaled_pca(Pairs(X, one - 1, one, one), 5)
    np.testing.assert_allclose(W0 @ W0.T, c**2 * np.eye(5), atol=1e-12)


def labeled_pairs(d=4):
    """Return the nearest pairs of three classes of 20 points, and the classes."""
    rng, codes = np.random.default_rng(0), np.arange(60) % 3
    X = rng.normal(size=(60, d)) @ rng.normal(size=(d, d)) + codes[:, None]
    return nearest_pairs(X, codes), codes


def test_no_power_of_the_covariance_within_is_the_identity_and_turns_turn_it():
    pairs, codes = labeled_pairs()
    W0, c = scaled_within(pairs, codes, 0.0)
    np.testing.assert_allclose(W0, scaled_identity(pairs)[0], rtol=1e-12, atol=1e-15)
    assert c == pytest.approx(scaled_identity(pairs)[1], rel=1e-12)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    turned = pairs._replace(X=np.asarray(pairs.X) @ turn)
    for power in (0.5, 1.0):
        W0 = scaled_within(pairs, codes, power)[0]
        again = scaled_within(turned, codes, power)[0]
        np.testing.assert_allclose(again, turn.T @ W0 @ turn, rtol=1e-9, atol=1e-12)
        assert not np.allclose(W0, c * np.eye(4), rtol=0.1)


def test_few_axes_of_the_covariance_within_are_those_that_tell_classes_apart():
    """At g = 1 they are discriminants: they diagonalise both scatters."""
    pairs, codes = labeled_pairs()
    X = np.asarray(pairs.X)
    W0, c = scaled_within(pairs, codes, 1.0, 2)
    whole = scaled_within(pairs, codes, 1.0)[0]
    V = W0 @ np.linalg.inv(whole)
    np.testing.assert_allclose(V @ V.T, np.eye(2) * (V @ V.T)[0, 0], atol=1e-10)
    spread = np.cov(X @ W0.T, rowvar=False)
    assert abs(spread[0, 1]) < 1e-10 * spread[0, 0]
    assert spread[0, 0] > spread[1, 1]
    assert c == pytest.approx(np.sqrt(np.sum(W0**2) / 2))


@pytest.mark.parametrize("n, d", [(20, 60), (60, 20)])
def test_images_of_points_have_the_distances_of_the_whitened_points(n, d):
    """Column 3 is constant in the rows that define the covariance, not in others."""
    X, codes = np.random.default_rng(2).normal(size=(n, d)), np.arange(n) % 3
    rows, powers = np.arange(n // 2), (0.0, 0.5, 1.0)
    X[rows, 3] = 1.0
    maps = whitenings(X[rows], codes[rows], powers)
    for A, Z in zip(maps, whitened(X, rows, codes, powers), strict=True):
        np.testing.assert_allclose(pdist(Z), pdist(X @ A), rtol=1e-9)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_constant_columns_have_no_part_in_the_covariance_within(power):
    pairs, codes = labeled_pairs()
    W0, c = scaled_within(pairs, codes, power)
    wider = pairs._replace(X=np.pad(np.asarray(pairs.X), ((0, 0), (0, 9))))
    again, same = scaled_within(wider, codes, power)
    assert same == pytest.approx(c, rel=1e-12)
    np.testing.assert_allclose(again[:4, :4], W0, rtol=1e-12)


def test_classes_without_spread_within_them_set_no_scale():
    X, codes = np.repeat(np.eye(3), 4, 0), np.repeat([0, 1, 2], 4)
    i = np.arange(11)
    pairs = Pairs(X, i, i + 1, (codes[i] == codes[i + 1]).astype(int))
    with pytest.raises(
        ValueError, match=r"one pair with y = 1 must have two different"
    ):
        scaled_within(pairs, codes)


@pytest.mark.filterwarnings("ignore:LCA. 0 held-out")
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:LCA. P.same. stays")
@pytest.mark.parametrize("p", [3, 6, 8])
def test_the_order_of_few_points_does_not_matter(p):
    rng = np.random.default_rng(1)
    X, y, new = rng.normal(size=(4, 8)), np.array([0, 0, 1, 1]), rng.normal(size=(2, 8))
    found = []
    for rows in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 0, 3, 1]):
        model = pm.LCA(p).fit(X[rows], y[rows])
        assert model.components_.shape == (p, 8)
        found.append(model.get_metric().distance(new[:1], new[1:])[0])
    np.testing.assert_allclose(found, found[0], rtol=1e-5)
