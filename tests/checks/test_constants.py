"""SBC of quantities that do not vary, or only between a few values.

The world: mu ~ N(0, I₂), four observations x ~ N(mu, 1), NUTS of the right posterior.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.checks.ranks import LOG_LIKELIHOOD, Story, _rank, sbc
from probmetric.checks.uniformity import Ranks, uniformity
from probmetric.inference.sampling.target import Target


class World(NamedTuple):
    x: object


def log_likelihood(position, world):
    return -0.5 * jnp.sum((world.x - position) ** 2)


def log_density(position, world):
    return log_likelihood(position, world) - 0.5 * jnp.sum(position**2)


def report(position, world):
    """Say a diagonal matrix, whose zeros are structure, and indicators."""
    del world
    return {
        "M": jnp.diag(jnp.exp(position)),
        "positive": position > 0,
        "count": jnp.sum(position > 0),
    }


def simulate(key, world):
    a, b = jax.random.split(key)
    mu = jax.random.normal(a, (2,), world.x.dtype)
    return mu, World(mu + jax.random.normal(b, world.x.shape, world.x.dtype))


STORY = Story(simulate, log_likelihood)
FAST = {"n_simulations": 300, "n_draws": 39, "thin": 2, "n_warmup": 100, "seed": 0}


@pytest.fixture(scope="module")
def ranks():
    return sbc(Target(log_density, report), STORY, World(np.zeros((4, 2))), **FAST)


@pytest.mark.long
def test_structural_zeros_agree_and_are_not_counted_as_tests(ranks):
    assert ranks.constants == {"M[0, 1]": True}
    table = uniformity(ranks)
    zero = [name for name in table["entry"].to_numpy() if "M[0, 1]" in name]
    assert set(table["verdict"].sel(entry=zero).to_numpy()) == {"agree"}
    assert table.attrs["m"] == 2 * (len(ranks.ranks) - 1)


@pytest.mark.long
def test_a_right_posterior_with_structural_zeros_and_counts_is_calibrated(ranks):
    # Family-wise false-alarm rate 1 % over six quantities and two tests.
    assert set(ranks.ranks) == {
        *("M[0, 0]", "M[0, 1]", "M[1, 1]"),
        *("positive[0]", "positive[1]", "count", LOG_LIKELIHOOD),
    }
    assert uniformity(ranks).attrs["verdict"] == "agree"


def test_a_constant_that_differs_from_the_truth_disagrees():
    rng = np.random.default_rng(0)
    rows = {"mu": rng.integers(0, 100, 400), "zero": np.zeros(400, int)}
    right = uniformity(Ranks(rows, 99, {"zero": True}))
    wrong = uniformity(Ranks(rows, 99, {"zero": False}))
    assert right.attrs["verdict"] == "agree"
    assert wrong.attrs["verdict"] == "disagree"
    failed = wrong["entry"].to_numpy()[wrong["verdict"].to_numpy() == "disagree"]
    assert set(failed) == {"mean rank of zero", "shape of ranks of zero"}


def test_a_constant_is_judged_however_few_simulations_there_are():
    few = {"zero": np.zeros(3, int)}
    assert uniformity(Ranks(few, 9, {"zero": True})).attrs["verdict"] == "agree"
    assert uniformity(Ranks(few, 9, {"zero": False})).attrs["verdict"] == "disagree"


@pytest.mark.long
def test_a_sampler_that_never_moves_disagrees():
    stuck = Target(stuck_density, report)
    found = sbc(stuck, STORY, World(np.zeros((4, 2))), **(FAST | {"n_warmup": 1}))
    assert not any(found.constants[name] for name in ("M[0, 0]", "M[1, 1]"))
    assert found.constants["M[0, 1]"]
    assert uniformity(found).attrs["verdict"] == "disagree"


def stuck_density(position, world):
    """Give every proposal an infinite energy but where it starts."""
    del world
    return 0.0 * jnp.sum(position) - jnp.inf


@pytest.mark.parametrize(
    ("truth", "split", "rank"),
    [(4.0, 0.1, 4), (0.5, 0.9, 0), (2.0, 0.1, 1), (2.0, 0.5, 2), (2.0, 0.9, 3)],
)
def test_the_rank_is_how_many_draws_lie_below_with_ties_by_lot(truth, split, rank):
    draws = np.array([[1.0], [2.0], [2.0], [3.0], [5.0]])
    result = _rank(np.array(split), np.array([truth]), draws)
    assert result.rank.tolist() == [rank]
    assert not result.constant[0]
