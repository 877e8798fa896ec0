"""What cannot be sampled is refused by name; what went badly is warned of by name."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from probmetric.inference.sampling.laplace import Laplace
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sample
from probmetric.inference.sampling.svi import SVI
from probmetric.inference.sampling.target import Gaussian, Posterior, Target
from tests.inference.sampling.problems import GAUSSIAN, PRIOR, normal_model, points


def subsampled(data):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("n", len(data), subsample_size=2) as i:
        numpyro.sample("x", dist.Normal(mu, 1.0), obs=data[i])


def discrete(data):
    numpyro.sample("k", dist.Bernoulli(0.5))
    numpyro.sample("x", dist.Normal(0.0, 1.0), obs=data)


def nothing_observed(data):
    numpyro.sample("mu", dist.Normal(0.0, 1.0))


def never_finite(position, data):
    return jnp.sum(jnp.log(-(position**2))) + data


X = np.zeros(3)
AT_X = Posterior(GAUSSIAN, X, X)
FLAT = Gaussian(X, np.eye(3)[:, :2])
BAD = {
    "batch": (
        lambda: sample(normal_model, points(), prior=PRIOR, options={"batch": 5}),
        "options must not contain batch",
    ),
    "subsample": (lambda: sample(subsampled, X), "model must .*'n'.*subsample"),
    "discrete": (lambda: sample(discrete, X), "model: .*discrete site 'k'"),
    "nothing": (lambda: sample(nothing_observed, X), "model must .*observed"),
    "method": (lambda: sample(subsampled, X, method="gibbs"), "method must .*'gibbs'"),
    "a class": (lambda: sample(subsampled, X, method=NUTS), "method must .*<class"),
    "start": (lambda: sample(GAUSSIAN, X), "start must .*None"),
    "prior": (
        lambda: sample(GAUSSIAN, X, start=X, prior={"lam": 5.0}),
        "prior, options and args must not be set for a Target",
    ),
    **{
        name: (
            lambda name=name: sample(GAUSSIAN, X, start=X, **{name: True}),
            f"{name} must not be set for a Target",
        )
        for name in ("log_likelihood", "predictive", "prior_draws")
    },
    "a Gaussian with directions left out": (
        lambda: NUTS().draw(Posterior(GAUSSIAN, X, FLAT), seed=0),
        r"start: the covariance must have full rank, got .* \(3, 2\)",
    ),
    "a Gaussian with a flat direction": (
        lambda: NUTS().draw(
            Posterior(GAUSSIAN, X, FLAT._replace(factor=np.diag([1.0, 0.0, 2.0]))),
            seed=0,
        ),
        r"start: the covariance must have full rank, got a singular",
    ),
    "dense": (lambda: NUTS(dense_mass="no"), "dense_mass must .*'no'"),
    "resume": (lambda: NUTS(resume="no"), "resume must .*'no'"),
    "checkpoint": (
        lambda: NUTS(resume=True).draw(AT_X, seed=0),
        "checkpoint must be a folder if resume=True, got None",
    ),
    "draws": (
        lambda: Laplace().draw(AT_X, seed=0, n_draws=10**40), "n_draws .*got 10{40}",
    ),
    "chains": (lambda: Laplace().draw(AT_X, seed=0, n_chains=0), "n_chains .*got 0"),
    "tail": (lambda: SVI().draw(AT_X, seed=0, n_draws=9), "n_draws must .*100.*got 9"),
    "dtype": (lambda: NUTS().draw(AT_X, seed=0, dtype="f"), "dtype must be"),
    "accept": (lambda: NUTS(target_accept=1.0), "target_accept must .*got 1.0"),
    "warm-up": (lambda: NUTS(n_warmup=0), "n_warmup must .*got 0"),
    "thin": (lambda: NUTS(thin=0), "thin must .*got 0"),
    "guide": (lambda: SVI(guide="AutoDelta"), "guide must .*got 'AutoDelta'"),
    "steps": (lambda: SVI(n_steps=3), "n_steps must .*got 3"),
    "mode": (lambda: Laplace(max_steps=0), "max_steps must .*got 0"),
    "names": (
        lambda: sample(normal_model, points(), prior=PRIOR, method="laplace",
                       feature_names=["a"]),
        "feature_names must",
    ),
    "dims": (
        lambda: sample(normal_model, points(), prior=PRIOR, method="laplace",
                       dims={"nu": ["feature"]}),
        "dims must",
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_the_name_of_its_argument(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_target_without_a_finite_starting_point_is_refused():
    target = Target(never_finite, lambda position, data: {"x": position})
    with pytest.raises(ValueError, match="must be finite for each chain"):
        NUTS().draw(Posterior(target, np.zeros(()), X), seed=0)


def shifted(data, shift, *, scale):
    mu = numpyro.sample("mu", dist.Normal(shift, scale))
    numpyro.sample("x", dist.Normal(mu, 1.0), obs=data)


def test_arguments_beside_the_data_reach_the_model_and_its_provenance():
    x, given = np.zeros(3), {"args": (np.array(2.0),), "kwargs": {"scale": 1e-3}}
    draws = sample(shifted, x, method="laplace", n_draws=20, n_chains=1, **given)
    np.testing.assert_allclose(draws["posterior"]["mu"].mean(), 2.0, atol=0.01)
    assert draws.attrs["model_arguments"] == '{"args": [2.0], "scale": 0.001}'
    same = {"prior": np.array(2.0), "options": {"scale": 1e-3}}
    again = sample(shifted, x, method="laplace", n_draws=20, n_chains=1, **same)
    np.testing.assert_array_equal(draws["posterior"]["mu"], again["posterior"]["mu"])


@pytest.mark.parametrize(
    ("model", "given", "words"),
    [
        (
            shifted,
            {},
            r"accept 1 arguments, got shifted\(data, shift, \*, s",
        ),
        (shifted, {"args": (1.0,), "kwargs": {"sd": 1}}, r"\['sd'\] by name"),
        (shifted, {"args": PRIOR}, r"args must be a tuple"),
        (NUTS, {}, "model must be a NumPyro model"),
    ],
)
def test_a_model_that_cannot_be_called_so_is_refused_with_what_it_takes(
    model, given, words
):
    with pytest.raises(TypeError, match=words):
        sample(model, np.zeros(3), **given)
