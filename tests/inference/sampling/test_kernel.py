"""The compiled kernel: starts, mass matrices, blocks and chains."""

import json

import jax
import numpy as np
import pytest

from probmetric.checks.compare import compare
from probmetric.inference.sampling.kernel import Settings, init
from probmetric.inference.sampling.laplace import laplace_fit
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.sample import sample
from probmetric.inference.sampling.target import (
    Gaussian,
    Posterior,
    gaussian_draw,
    whitened,
)
from tests.inference.sampling.problems import GAUSSIAN, POSITION, gaussian_data


def drawn(n_draws, n_chains=4, **settings):
    posterior = Posterior(GAUSSIAN, gaussian_data(), POSITION)
    sampler = NUTS(**{"n_warmup": 60, **settings})
    return sampler.draw(posterior, seed=3, n_draws=n_draws, n_chains=n_chains)


@pytest.mark.long
def test_a_target_is_sampled_from_its_laplace_approximation_with_a_short_warm_up(
    x64,
):
    data = gaussian_data()
    start = laplace_fit(GAUSSIAN, data, POSITION)
    dense = NUTS(dense_mass=True)
    draws = sample(GAUSSIAN, data, method=dense, start=start, seed=1)
    reference = {"a": data[0][:2], "b": data[0][2]}
    assert compare(reference, draws).attrs["verdict"] == "agree"
    # The exact inverse mass matrix makes the target round: few steps a draw.
    assert float(draws["sample_stats"]["n_steps"].mean()) < 5


@pytest.mark.slow
def test_chains_side_by_side_are_the_same_chains(x64):
    # Equal up to rounding, which chaotic trajectories enlarge: the first draws.
    one = drawn(n_draws=3, n_warmup=20)
    side = drawn(n_draws=3, n_warmup=20, vectorized=True)
    np.testing.assert_allclose(one.values["a"], side.values["a"], rtol=1e-5)


ADAPTED = {  # Settings: (dense, adapt_mass) of the kernel
    "default": ({}, (False, True)),
    "dense": ({"dense_mass": True}, (True, True)),
    "kept": ({"dense_mass": True, "adapt_mass": False}, (False, False)),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n != "default")) for n in ADAPTED],
)
def test_the_mass_matrix_is_dense_or_kept_on_request(x64, name, tmp_path):
    settings, expected = ADAPTED[name]
    start = Gaussian({"a": np.zeros(2), "b": np.zeros(())}, np.eye(3))
    posterior = Posterior(GAUSSIAN, gaussian_data(), start)
    sampler = NUTS(n_warmup=30, **settings, checkpoint=tmp_path)
    draws = sampler.draw(posterior, seed=0, n_draws=2)
    found = draws.attributes["dense"], draws.attributes["adapt_mass"]
    assert found == expected
    # Blocks of the time when a state held positions are another run's.
    with np.load(next(tmp_path.glob("block_*"))) as block:
        assert json.loads(str(block["run"]))["coordinates"] == "whitened"


@pytest.mark.long
def test_the_block_size_does_not_change_the_draws(x64):
    one = drawn(n_draws=25, block_size=100)
    cut = drawn(n_draws=25, block_size=7)
    np.testing.assert_array_equal(one.values["a"], cut.values["a"])


def test_start_positions_are_over_dispersed(x64):
    data = gaussian_data()
    start = laplace_fit(GAUSSIAN, data, POSITION)
    state = init(whitened(GAUSSIAN), Settings(10), 400, 0, start, (start, data))
    at = jax.vmap(lambda e: gaussian_draw(start, e))(state.z)
    density = jax.vmap(lambda z: GAUSSIAN.log_density(z, data))(at)
    np.testing.assert_allclose(state.potential_energy, -density, rtol=1e-10)
    sd = np.std(np.asarray(at["b"]))
    # Twice the posterior's, within five standard errors (5 / √800).
    expected = 2 * np.sqrt(np.linalg.solve(data[1], np.eye(3))[2, 2])
    assert abs(sd / expected - 1) < 5 / np.sqrt(800)


@pytest.mark.long
def test_thinned_draws_are_every_second_draw_of_the_same_run(x64):
    every = drawn(n_draws=20, n_chains=2)
    second = drawn(n_draws=10, n_chains=2, thin=2)
    for name in ("a", "b"):
        np.testing.assert_array_equal(second.values[name], every.values[name][:, 1::2])
    steps = every.statistics["n_steps"].reshape(2, 10, 2).sum(-1)
    np.testing.assert_array_equal(second.statistics["n_steps"], steps)


def test_chains_begin_with_the_energy_and_the_gradient_of_their_positions(x64):
    data = gaussian_data()
    state = init(GAUSSIAN, Settings(10), 400, 0, POSITION, data)

    def potential(z):
        return -GAUSSIAN.log_density(z, data)

    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(potential)))(state.z)
    np.testing.assert_allclose(state.potential_energy, value, rtol=1e-12)
    for name, found in state.z_grad.items():
        np.testing.assert_allclose(found, gradient[name], rtol=1e-12, atol=1e-12)


def test_without_a_gaussian_chains_begin_between_minus_two_and_two(x64):
    state = init(GAUSSIAN, Settings(10), 400, 0, POSITION, gaussian_data())
    at = np.concatenate([np.ravel(z) for z in state.z.values()])
    # Of 1,200 uniform numbers one lies beyond 1.9 either way, but in 1e-13 of cases.
    assert -2 <= at.min() < -1.9
    assert 1.9 < at.max() <= 2
