"""``sample`` keeps a user's own data as they are and names axes that mean something."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import probmetric as pm
from probmetric.data.containers import Groups, Pairs, Points, Triplets
from probmetric.inference.sampling.datatree import provenance, to_datatree
from probmetric.inference.sampling.target import Draws
from probmetric.models.lca import Coincidence

N_POINTS, N_PAIRS = 40, 20


class Couples(NamedTuple):
    """Pairs as a user may write them: more points than pairs, and columns besides."""

    X: Any
    i: Any
    j: Any
    y: Any
    strict: Any
    rank: Any
    site: Any
    scale: Any


def couples():
    rng = np.random.default_rng(0)
    rows = rng.permutation(N_POINTS)
    return Couples(
        X=rng.normal(size=(N_POINTS, 2)),
        i=rows[:N_PAIRS],
        j=rows[N_PAIRS:],
        y=rng.integers(0, 2, N_PAIRS),
        strict=rng.uniform(size=N_PAIRS) < 0.5,
        rank=np.arange(5, dtype=np.int8),
        site=np.arange(N_POINTS, dtype=np.uint16),
        scale=np.float32(2.0),
    )


def own_model(data):
    log_w = numpyro.sample("log_w", dist.Normal(0.0, 1.0))
    squared = jnp.sum((data.X[data.i] - data.X[data.j]) ** 2, -1)
    with numpyro.plate("n", N_PAIRS):
        label = Coincidence(-0.1 - jnp.exp(log_w) * squared)
        numpyro.sample("y", label, obs=data.y)


@pytest.fixture(scope="module")
def tree():
    options = {"method": "laplace", "n_chains": 1, "n_draws": 100}
    return pm.sample(own_model, couples(), seed=0, log_likelihood=True, **options)


@pytest.mark.long
def test_arrays_of_a_users_own_container_are_kept_bit_for_bit(tree):
    kept, given = tree["constant_data"].to_dataset(), couples()
    assert set(kept.data_vars) == set(Couples._fields) - {"y"}
    for name in kept.data_vars:
        value = np.asarray(getattr(given, str(name)))
        assert kept[name].dtype == value.dtype, name
        assert kept[name].shape == value.shape, name
        assert kept[name].to_numpy().tobytes() == value.tobytes(), name


def test_axes_are_named_by_what_they_count(tree):
    kept = tree["constant_data"].to_dataset()
    assert kept["X"].dims == ("point", "feature")
    assert kept["i"].dims == kept["j"].dims == kept["strict"].dims == ("pair",)
    assert kept["site"].dims == ("point",)
    assert kept["rank"].dims == ("rank_dim_0",)
    assert tree["observed_data"]["y"].dims == ("pair",)
    assert tree["log_likelihood"]["y"].dims == ("chain", "draw", "pair")


def test_loo_refuses_a_users_own_pairs_that_share_a_point(tree):
    constant = tree["constant_data"].to_dataset()
    shared = tree.copy()
    shared["constant_data"] = shared["constant_data"].assign(i=constant["j"])
    with pytest.raises(ValueError, match=f"got {N_PAIRS} pairs of {N_PAIRS} points"):
        pm.loo(shared)


def test_containers_with_as_many_pairs_as_points_keep_both_axes():
    rows = np.arange(4)
    data = Pairs(np.zeros((4, 3)), rows, rows[::-1].copy(), rows % 2)
    draws = Draws({"b": np.zeros((2, 5))}, {}, {})
    kept = to_datatree(draws, data=data)["constant_data"].to_dataset()
    assert kept["X"].dims == ("point", "feature")
    assert kept["i"].dims == kept["y"].dims == ("pair",)


@pytest.mark.parametrize(
    "data, total",
    [
        (Points(np.zeros((5, 2))), 5.0),
        (Groups(np.zeros((5, 2)), np.zeros(5, int), np.full(5, 0.5)), 2.5),
        (Pairs(np.zeros((5, 2)), *np.zeros((3, 7), int)), 7.0),
        (Triplets(np.zeros((5, 2)), *np.zeros((4, 9), int)), 9.0),
        (Triplets(np.zeros((5, 2)), *np.zeros((4, 2), int), np.array([0.5, 0])), 0.5),
        (couples(), float(N_POINTS)),
        ({"X": np.zeros((5, 2))}, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_sum_of_weights_counts_observations_of_each_container(data, total):
    found = provenance(pm.Mahalanobis, data, {})
    assert found.get("sum_of_weights") == total
