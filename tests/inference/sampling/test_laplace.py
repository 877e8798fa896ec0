"""Laplace's k-hat where there is no tail, and where there is one."""

import jax
import jax.numpy as jnp
import numpy as np

import probmetric as pm
from probmetric.inference.sampling import Gaussian, Target
from probmetric.inference.sampling.laplace import (
    BLOCK,
    WHOLE,
    Laplace,
    laplace_fit,
    pareto_khat,
)
from probmetric.inference.sampling.target import Posterior


def test_a_target_that_is_the_gaussian_has_weights_without_a_tail():
    target = Target(lambda x, sd: -0.5 * (x[0] / sd) ** 2, lambda x, sd: {"x": x[0]})
    start = Gaussian(np.zeros(1), 2 * np.eye(1))
    draws = pm.sample(target, 2.0, method="laplace", start=start)
    assert draws.attrs["khat"] == 0.0
    assert pareto_khat(np.zeros(100)) == 0.0
    # Weights of a tail of index 1/k have k: the rule of no tail hides none.
    heavy = np.random.default_rng(0).exponential(0.8, 4000)
    assert 0.6 < pareto_khat(heavy) < 1.0


def test_a_hessian_of_many_rows_is_computed_in_blocks_and_is_the_same():
    """A Gaussian with a known covariance, and twice the density as a control."""
    k = WHOLE + BLOCK + 3  # Neither whole, nor a number of blocks.
    rng = np.random.default_rng(0)
    L = np.eye(k) + np.tril(rng.normal(size=(k, k)), -1) / k
    target = Target(
        lambda x, L: -0.5 * ((x["a"] @ L) ** 2).sum(), lambda x, L: {"a": x["a"]}
    )
    for scale, right in (1.0, True), (np.sqrt(2), False):
        found = laplace_fit(target, scale * L, {"a": np.ones(k)})
        covariance = found.factor @ found.factor.T
        error = np.abs(covariance @ (L @ L.T) - np.eye(k)).max()
        assert (error < 1e-9) == right


def test_independent_draws_are_as_many_as_n_draws_unless_chains_are_given():
    target = Target(lambda x, sd: -0.5 * (x[0] / sd) ** 2, lambda x, sd: {"x": x[0]})
    start = Gaussian(np.zeros(1), 2 * np.eye(1))
    options = {"method": "laplace", "start": start, "n_draws": 100}
    assert pm.sample(target, 2.0, **options)["posterior"]["x"].shape == (1, 100)
    chains = pm.sample(target, 2.0, n_chains=3, **options)
    assert chains["posterior"]["x"].shape == (1, 300)


def test_laplace_of_heavy_tails_has_the_modes_curvature_and_the_khat_of_its_weights():
    """Student's t with 4 degrees of freedom, in three correlated coordinates."""
    A, df, mode = np.array([[2.0, 1.0, 1.0], [0, 1, 0], [0, 0, 1]]), 4.0, [1.5, -1, 0.5]

    def log_density(at, df):
        z = A @ jnp.append(at["a"], at["b"]) - A @ np.array(mode)
        return -(df + 1) / 2 * jnp.sum(jnp.log1p(z**2 / df))

    target = Target(log_density, lambda at, df: {"x": jnp.append(at["a"], at["b"])})
    begin, H = {"a": np.zeros(()), "b": np.zeros(2)}, (df + 1) / df * A.T @ A
    with jax.enable_x64(True):
        found = laplace_fit(target, np.asarray(df), begin)
        drawn = Laplace().draw(
            Posterior(target, np.asarray(df), begin), seed=4, n_draws=500
        )
    np.testing.assert_allclose(np.append(found.mean["a"], found.mean["b"]), mode, 1e-4)
    np.testing.assert_allclose(
        found.factor @ found.factor.T @ H, np.eye(3), rtol=1e-4, atol=1e-4
    )
    off = np.asarray(drawn.values["x"])[0] - mode
    log_p = -(df + 1) / 2 * np.sum(np.log1p((off @ A.T) ** 2 / df), 1)
    weights = log_p + np.sum(off @ H * off, 1) / 2
    khat = float(drawn.attributes["khat"])
    np.testing.assert_allclose(khat, pareto_khat(weights), rtol=1e-3)
