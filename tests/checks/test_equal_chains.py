"""One chain given twice is refused by name; chains that only look alike are not."""

import numpy as np
import pytest
import xarray as xr

from probmetric.checks.compare import compare, distance
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.summary import MOVES, equal_chains
from probmetric.inference.sampling.target import Posterior
from tests.inference.sampling.problems import GAUSSIAN, POSITION, gaussian_data


def dataset(**arrays):
    return xr.Dataset({name: (("chain", "draw"), a) for name, a in arrays.items()})


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def x(rng):
    return rng.normal(size=(4, 1000))


def test_four_equal_chains_are_refused_on_either_side(x):
    copies = dataset(x=np.repeat(x[:1], 4, 0))
    wanted = "must differ, got chains 0 and 1, chains 0 and 2, chains 0"
    with pytest.raises(ValueError, match=f"draws: chains {wanted}"):
        compare({"x": 0.0}, copies)
    with pytest.raises(ValueError, match=f"reference: chains {wanted}"):
        compare(copies, dataset(x=x))
    with pytest.raises(ValueError, match=f"reference: chains {wanted}"):
        distance(copies, dataset(x=x))


def test_two_equal_chains_of_four_are_refused_by_their_numbers(x):
    x[3] = x[1]
    with pytest.raises(ValueError, match="got chains 1 and 3 equal in every draw"):
        compare({"x": 0.0}, dataset(x=x, y=2 * x))


def test_chains_that_differ_in_one_draw_are_not_called_equal(x):
    x[3] = x[1]
    x[3, 500] += 1e-12
    assert equal_chains(dataset(x=x)) == []


def test_a_constant_is_not_taken_for_equal_chains(x):
    constant = np.full(x.shape, 0.1)
    assert compare({"c": 0.1}, dataset(c=constant)).attrs["verdict"] == "agree"
    found = compare({"x": 0.0, "c": 0.1}, dataset(x=x, c=constant), tol=0.2)
    assert found.attrs["verdict"] == "agree"


def test_indicators_of_a_rare_event_are_not_taken_for_equal_chains():
    # Once in 1000 draws, by chance at the same place in two chains.
    rare = np.zeros((4, 1000))
    rare[[0, 1, 2, 3], [7, 300, 300, 2]] = 1.0
    assert compare({"rare": 0.001}, dataset(rare=rare)).sizes["entry"] == 1
    often = np.zeros((2, 1000))
    often[:, 1 : 1 + MOVES : 2] = 1.0
    assert equal_chains(dataset(often=often)) == [(0, 1)]


@pytest.mark.long
def test_every_chain_of_nuts_has_a_key_of_its_own(x64):
    posterior = Posterior(GAUSSIAN, gaussian_data(), POSITION)
    draws = NUTS(n_warmup=60).draw(posterior, seed=3, n_draws=30).values["a"]
    for one in range(4):
        for other in range(one):
            # Continuous quantities: not one draw in common, by probability one.
            assert not np.any(draws[one] == draws[other])
