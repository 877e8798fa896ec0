"""LCA's checks judge the Gaussians that its estimator draws from."""

import jax
import pytest

from probmetric.checks.lca.sampling import laplace_estimate
from probmetric.inference.lca.target import TARGET, start, target_data
from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.target import Posterior
from probmetric.registry import MODELS


@pytest.mark.long
def test_the_khat_of_laplaces_check_is_that_of_the_estimators_draws():
    problem = MODELS["lca"].toy(0)
    rate, params = problem.options["learning_rate"], problem.params
    khat = {}
    with jax.enable_x64(True):
        data = target_data(problem.data, problem.prior, rate, params)
        for quotient in (True, False):
            around = Posterior(TARGET, data, start(params, data, quotient=quotient))
            n_draws = 1000 if quotient else 4000
            drawn = Laplace().draw(around, seed=6, n_draws=n_draws)
            khat[quotient] = drawn.attributes["khat"]
    judged = laplace_estimate(problem).attrs["khat"]
    assert judged == pytest.approx(khat[True], rel=1e-6)
    assert judged < 0.7 < 0.9 < khat[False]
