"""Laplace's k-hat where there is no tail, and where there is one."""

import numpy as np

import probmetric as pm
from probmetric.inference.sampling import Gaussian, Target
from probmetric.inference.sampling.laplace import pareto_khat


def test_a_target_that_is_the_gaussian_has_weights_without_a_tail():
    target = Target(lambda x, sd: -0.5 * (x[0] / sd) ** 2, lambda x, sd: {"x": x[0]})
    start = Gaussian(np.zeros(1), 2 * np.eye(1))
    draws = pm.sample(target, 2.0, method="laplace", start=start)
    assert draws.attrs["khat"] == 0.0
    assert pareto_khat(np.zeros(100)) == 0.0
    # Weights of a tail of index 1/k have k: the rule of no tail hides none.
    heavy = np.random.default_rng(0).exponential(0.8, 4000)
    assert 0.6 < pareto_khat(heavy) < 1.0
