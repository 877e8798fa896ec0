"""``sbc`` of a NumPyro model: right ones agree, wrong posteriors do not."""

from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import probmetric as pm
from tests.dump import assert_refused

X = np.random.default_rng(0).normal(size=(20, 2))
FAST = {"n_simulations": 300, "n_draws": 39, "thin": 2, "n_warmup": 100}


def lapse(data, width):
    """Classes by a line, with a share of labels at random; a covariate beside them."""
    points, y = data
    w = numpyro.sample("w", dist.Normal(0, width).expand([2]).to_event(1))
    rate = numpyro.sample("rate", dist.Beta(1, 9))
    p = rate / 2 + (1 - rate) / (1 + np.e ** -(points @ w))
    with numpyro.plate("n", len(points)):
        numpyro.sample("y", dist.Bernoulli(p), obs=y)


@pytest.fixture(scope="module")
def found():
    return pm.sbc(lapse, (X, np.zeros(20, int)), args=(2.0,), **FAST)


@pytest.mark.slow
def test_a_right_model_agrees_and_each_wrong_posterior_is_rejected(found):
    # Family-wise false-alarm rate 1 % over four quantities and two tests.
    assert set(found.ranks.ranks) == {"w[0]", "w[1]", "rate", "log_likelihood"}
    assert set(found.controls) == {
        *("posterior = prior", "η = 2"),
        "shuffled observations",
    }
    assert found.missed == ()
    assert found.verdict == "agree"
    assert "3 of 3 wrong posteriors rejected: agree" in str(found)


@pytest.mark.slow
def test_a_check_whose_controls_are_not_rejected_says_nothing(found):
    blind = replace(found, controls={**found.controls, "η = 2": found.table})
    assert blind.missed == ("η = 2",)
    assert blind.verdict == "inconclusive"


@pytest.mark.long
def test_only_named_quantities_are_ranked():
    data = (X[:5], np.zeros(5, int))
    few = {**FAST, "n_simulations": 10, "n_control": 0}
    found = pm.sbc(lapse, data, args=(2.0,), identified=["rate"], **few)
    assert set(found.ranks.ranks) == {"rate", "log_likelihood"}
    assert found.controls == {}
    with pytest.raises(
        ValueError, match=r"identified must only contain names of \['rate', 'w"
    ):
        pm.sbc(lapse, data, args=(2.0,), identified=["W"], **few)


def centred(x, drawn):
    """Observe eight numbers about a mean, of scale 1; ``drawn`` is that of draws."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("n", 8):
        numpyro.sample("x", Mismatched(mu, drawn), obs=x)


class Mismatched(dist.Normal):
    """A normal of scale 1 that draws with another one."""

    def __init__(self, loc, drawn):
        super().__init__(loc, 1.0)
        self.drawn = drawn

    def sample(self, key, sample_shape=()):
        return dist.Normal(self.loc, self.drawn).sample(key, sample_shape)


@pytest.mark.slow
def test_a_density_that_is_not_what_draws_disagrees():
    # In the sizes of ``validate``, whose program it is.
    sizes = {"n_simulations": 100, "n_draws": 39, "n_control": 0}
    found = pm.sbc(centred, np.zeros(8), args=(np.array(3.0),), **sizes)
    assert found.verdict == "disagree"
    assert "mu is not uniform" in str(found)


def unproper(x):
    mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("x", dist.Normal(mu, 1), obs=x)


def factored(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.factor("fit", -((x - mu) ** 2).sum())


def test_what_cannot_be_simulated_or_called_is_refused():
    calls = [
        lambda: pm.sbc(unproper, np.zeros(3)),
        lambda: pm.sbc(factored, np.zeros(3)),
        lambda: pm.sbc(lapse, (X, np.zeros(20))),
    ]
    assert_refused(calls, "checks/own_refused.txt")


@pytest.mark.slow
def test_a_model_is_validated_by_its_ranks_and_wrong_posteriors_fail():
    problem = pm.checks.Problem("eight numbers", None, np.zeros(8), prior=np.array(1.0))
    claims = pm.validate(centred, problem, progress=False)
    assert (claims.name, claims.verdict) == ("centred", "agree")
    broken = pm.validate(centred, problem, break_=True, progress=False)
    assert broken.counts.rejected == 2
