"""Laplace's k-hat where there is no tail, and where there is one."""

import numpy as np

import probmetric as pm
from probmetric.inference.sampling import Gaussian, Target
from probmetric.inference.sampling.laplace import BLOCK, WHOLE, laplace_fit, pareto_khat


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
