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
from probmetric.densities.classes import ClassDensities
from probmetric.evaluation import evaluate
from probmetric.inference import effects, lca, triplet_comparisons
from probmetric.metric import SplineCityBlock
from probmetric.metric.local import local_metric
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
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


def same_probability(order):
    """Return e^-(0 + ½ 2) = e^-1 of points at squared distance 2."""
    link = pm.metric.Link(order(0.0), order(0.5))
    metric = pm.Mahalanobis(order(np.eye(2)), link)
    return np.log(metric.same_probability(order(np.zeros(2)), order(np.ones(2))))


def calibrated(order):
    """Return P = 1/(1 + 2²) = 0.2 at D = 2 for γ = 2 and D₀ = 1."""
    link = pm.metric.LogLogisticLink(*map(order, (0.0, 2.0, 1e-3, 1.0)))
    return link.probability(order([2.0]))


def curves(order):
    """Return 2 (1 - (½)²) = 1.5, the rise of the first spline over half its range."""
    metric = SplineCityBlock(order([[0.0, 1.0]]), order([[2.0, 0.0]]))
    return metric.distance(order([[0.0]]), order([[0.5]]))


def score(order):
    """Return the log ratio at the mean: log N₂(0 | [[5, 4], [4, 5]]) / N(0 | 5)²."""
    one = np.ones((1, 1, 1))
    parts = np.zeros(1), np.zeros((1, 1)), 4 * one, one
    metric = pm.metric.PairSimilarity(*map(order, parts))
    return metric.log_ratio(order([[0.0]]), order([[0.0]]))


def local_odds(order):
    """Return the ratio of the local matrix between two normals, 5 (Fisher, γ = ½)."""
    one, centers = np.ones((2, 1)), np.array([[[-1.0, 0.0]], [[1.0, 0.0]]])
    factors = np.broadcast_to(np.eye(2), (2, 1, 2, 2))
    parts = np.log([0.5, 0.5]), 0 * one, centers, factors, 0 * one
    metric = local_metric(ClassDensities(*map(order, parts)), rule="fisher", gamma=0.5)
    M = metric.matrix_at(order(np.zeros((1, 2))))[0]
    return M[0, 0] / M[1, 1]


def own_metric(order):
    """Return the dissimilarity 2 · |1 - 0| of the nearest to 0, and its row."""
    points = order(np.array([[3.0], [1.0]]))
    D, index = pm.nearest(CityBlock(order([2.0])), order([[0.0]]), points, 1)
    return [D[0, 0], index[0, 0]]


def auc(order):
    """Return 1: the pair of one class, 0.4 apart, is nearer than the two others."""
    X, codes = np.array([[0.0], [1.0], [0.4]]), np.array([0, 1, 0])
    metric = pm.Mahalanobis(order(np.eye(1)))
    return evaluate(order(X), order(codes), metric=metric)["pair_roc_auc"]


def judged(order):
    """Return P(same) of two pairs: the shares of their judgments, 4/8 and 1/8."""
    counts = map(order, ([0, 0], [1, 2], [4, 1]))
    pairs = pm.Pairs(order(LINE), *counts, trials=order([8, 8]))
    prior = LCAPrior(order(np.eye(1)), lam=0.0, b_shape=0.0, b_rate=0.0)
    metric = to_metric(lca.fit(pairs, prior).params)
    return metric.same_probability(LINE[[0, 0]], LINE[[1, 2]])


def of_groups(order):
    """Return the map of both of two groups, 1.01 as LCA's, and the bytes of float64."""
    X = np.array([[0.0], [1.0], [2.0], [0.0], [1.0], [3.0]])
    columns = [0, 0, 3, 3], [1, 2, 4, 5], [1, 0, 1, 0]
    pairs = pm.Pairs(order(X), *map(order, columns), anchor=order([0, 0, 1, 1]))
    prior = HierarchicalLCAPrior(LCAPrior(order(np.eye(1))))
    found = effects.fit(pairs, prior, spread=0.0)
    W = found.params.W_groups
    return [*W.ravel().round(2), W.itemsize]


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
    same_probability: -1.0,
    calibrated: [0.2],
    curves: [1.5],
    score: [np.log(5) - 0.5 * np.log(25 - 16)],
    local_odds: 5.0,
    own_metric: [2.0, 1],
    auc: 1.0,
    judged: [0.5, 0.125],
    of_groups: [1.01, 1.01, 8],
    log_odds: 0.0,
    posterior_mean: 1.5,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_byte_order_changes_no_value(case):
    for order in (np.asarray, swapped):
        np.testing.assert_allclose(case(order), CASES[case], rtol=1e-4, atol=1e-6)


def test_a_stored_metric_of_another_byte_order_is_read(tmp_path):
    assert [stored(order, tmp_path) for order in (np.asarray, swapped)] == [5.0, 5.0]
