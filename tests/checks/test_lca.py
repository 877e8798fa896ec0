"""LCA's checks judge the Gaussians that its estimator draws from."""

from types import SimpleNamespace

import jax
import pytest

from probmetric.checks.lca.sampling import laplace_estimate
from probmetric.inference.lca.draws import posterior
from probmetric.inference.sampling.laplace import Laplace
from probmetric.registry import MODELS


def test_the_khat_of_laplaces_check_is_that_of_the_estimators_draws():
    problem = MODELS["lca"].toy(0)
    fitted: object = SimpleNamespace(
        pairs=problem.data,
        prior=problem.prior,
        learning_rate=problem.options["learning_rate"],
        fit=SimpleNamespace(params=problem.params),
    )
    with jax.enable_x64(True):
        own = Laplace().draw(posterior(fitted, Laplace()), seed=6).attributes["khat"]
    khat = laplace_estimate(problem).attrs["khat"]
    # With the rotations left in it is .95 here.
    assert khat == pytest.approx(own, rel=1e-4)
    assert khat < 0.7
