"""The posterior for samplers is NumPyro's, on the real line, Jacobian included."""

import jax
import numpy as np
import pytest

from probmetric.checks.gdm.problems import toy
from probmetric.inference.gdm.draws import posterior
from probmetric.inference.gdm.target import TARGET
from probmetric.inference.sampling.target import MODEL, Call
from probmetric.models.gdm import gdm as model


@pytest.mark.long
def test_its_density_and_quantities_are_those_of_the_numpyro_model():
    with jax.enable_x64(True):
        problem = toy(0)
        args, options = (problem.data, problem.prior), dict(problem.options)
        target, data = MODEL, Call(model, args, options)
        around = posterior(
            problem.params, problem.data, problem.prior, learning_rate=0.8
        )
        rng, at = np.random.default_rng(0), _at(around).items()
        for size in (0.1, 1.0):
            u = {k: np.asarray(v + size * rng.normal(size=v.shape)) for k, v in at}
            want = target.log_density({"b": u["log_b"], "theta": u["log_theta"]}, data)
            got = TARGET.log_density(u, around.data)
            np.testing.assert_allclose(got, want, rtol=1e-12)
            named = TARGET.functionals(u, around.data)
            theirs = target.functionals(
                {"b": u["log_b"], "theta": u["log_theta"]}, data
            )
            for name, value in named.items():
                np.testing.assert_allclose(value, theirs[name], rtol=1e-12)
            prior, likelihood = TARGET.parts(u, around.data)
            jacobian = u["log_b"] + u["log_theta"].sum()
            np.testing.assert_allclose(
                sum(prior.values()) + likelihood + jacobian, got, rtol=1e-12
            )


def _at(posterior):
    return {k: np.asarray(v) for k, v in posterior.start.mean.items()}
