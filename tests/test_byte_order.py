"""Arrays of the other byte order give the values of native ones.

JAX refuses them before a program is compiled and misreads them afterwards: each case
runs on native arrays first. Its value is known by hand.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probmetric as pm
from probmetric.inference import lca, triplet_comparisons
from probmetric.models.lca import LCAPrior, to_metric

LINE = np.array([[0.0], [1.0], [3.0]])


def swapped(values):
    """Return an array in the byte order that is not the machine's."""
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("S"))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class CityBlock:
    """A metric of the user's."""

    weight: object
    is_distance, symmetric = False, True

    def dissimilarity(self, q, Y):
        return jnp.sum(self.weight * jnp.abs(Y - q), -1)

    def pairwise(self, Q, P):
        return jax.vmap(lambda q: self.dissimilarity(q, P))(Q)


def images(order):
    """Return (1, 2) under diag(1, 3)."""
    metric = pm.Mahalanobis(order(np.diag([1.0, 3.0])))
    return metric.transform(order(np.array([[1.0, 2.0]])))[0]


def own_metric(order):
    """Return the dissimilarity 2 · |1 - 0| of the nearest to 0, and its row."""
    points = order(np.array([[3.0], [1.0]]))
    D, index = pm.nearest(CityBlock(order([2.0])), order([[0.0]]), points, 1)
    return [D[0, 0], index[0, 0]]


def judged(order):
    """Return P(same) of two pairs: the shares of their judgments, 4/8 and 1/8."""
    counts = map(order, ([0, 0], [1, 2], [4, 1]))
    pairs = pm.Pairs(order(LINE), *counts, trials=order([8, 8]))
    prior = LCAPrior(order(np.eye(1)), lam=0.0, b_shape=0.0, b_rate=0.0)
    metric = to_metric(lca.fit(pairs, prior).params)
    return metric.same_probability(LINE[[0, 0]], LINE[[1, 2]])


def log_odds(order):
    """Return the gap of a fit to one triplet at its mode, 0."""
    columns = [0], [1], [2], [1]
    triplets = pm.Triplets(order([[0.0], [1.0], [2.0]]), *map(order, columns))
    prior = triplet_comparisons.prior_for(triplets)
    params = triplet_comparisons.fit(triplets, prior).params
    return triplet_comparisons.gap(params, triplets, prior)


def posterior_mean(order):
    """Return E[mu | x] = Σ x / (n + 1) = 1.5 under a standard normal prior."""
    import numpyro
    import numpyro.distributions as dist

    def model(data):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("x", dist.Normal(mu, 1).mask(data["seen"] > 0), obs=data["x"])

    data = {"x": order([1.0, 2.0, 3.0, 9.0]), "seen": order([1, 1, 1, 0])}
    draws = pm.sample(model, data, method="laplace", n_draws=2000, n_chains=1)
    return draws["posterior"]["mu"].to_numpy().mean().round(1)


def stored(order, folder):
    """Return the distance 5 of (0, 0) and (3, 2) under a metric from a file."""
    path = folder / "metric.npz"
    pm.save_metric(pm.Mahalanobis(np.diag([1.0, 2.0])), path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    numbers = {name: order(a) for name, a in arrays.items() if a.dtype.kind == "f"}
    np.savez(path, **arrays | numbers)
    return float(pm.load_metric(path).distance(np.zeros(2), np.array([3.0, 2.0])))


CASES = {
    images: [1.0, 6.0],
    own_metric: [2.0, 1],
    judged: [0.5, 0.125],
    log_odds: 0.0,
    posterior_mean: 1.5,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_byte_order_changes_no_value(case):
    for order in (np.asarray, swapped):
        np.testing.assert_allclose(case(order), CASES[case], rtol=1e-4, atol=1e-6)


def test_a_stored_metric_of_another_byte_order_is_read(tmp_path):
    assert [stored(order, tmp_path) for order in (np.asarray, swapped)] == [5.0, 5.0]
