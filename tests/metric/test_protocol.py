"""Every kind of metric is a ``Metric``: how many features, what a call means, hash."""

import copy
import pickle

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import pairwise_distances

import probmetric as pm
from probmetric.metric import Dissimilarity, Metric
from probmetric.metric.mean import MeanDissimilarity
from probmetric.metric.protocol import MetricDraws
from probmetric.neighbors.table import neighbor_table
from tests.metric_kinds import NAMES, Wrapped, as_distances, build

RNG = np.random.default_rng(3)
Q, P = RNG.normal(size=(4, 3)), RNG.normal(size=(6, 3))
EPS = np.finfo(float).eps


def make(name):
    """Return a metric of a kind, the mean over draws of another kind among them."""
    if name == "MeanDissimilarity":
        return MeanDissimilarity((build("LocalFisher"), build("LocalFisher", 1)))
    return build(name)


every_kind = pytest.mark.parametrize("name", [*NAMES, "MeanDissimilarity"])


@every_kind
def test_every_kind_is_a_metric_on_its_features(name):
    metric = make(name)
    assert isinstance(metric, Metric)
    assert metric.n_features == 3
    other = make(name)  # Equal numbers, another metric.
    assert metric in [other, metric]
    assert len({metric, metric, other}) == 2


def test_a_class_without_a_call_is_a_dissimilarity_and_no_metric():
    own = Wrapped(build("Mahalanobis"))
    assert isinstance(own, Dissimilarity)
    assert not isinstance(own, Metric)


@every_kind
def test_draws_are_told_from_a_single_metric(name):
    assert isinstance(
        pm.posterior.PosteriorMetric([make(name)], "prediction"), MetricDraws
    )
    assert not isinstance(make(name), MetricDraws)


@pytest.mark.long
@every_kind
def test_a_call_is_the_distance_or_else_the_dissimilarity(name):
    metric = make(name)
    expected = as_distances(metric, metric.pairwise(Q, P))
    # Sums of some hundred products each, of numbers of the size of the largest.
    atol = 1000 * EPS * np.abs(expected).max()
    values = pairwise_distances(Q, P, metric=metric)
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=atol)


@pytest.mark.long
@every_kind
@pytest.mark.parametrize(
    "remake",
    [
        lambda m: pickle.loads(pickle.dumps(m)),
        copy.deepcopy,
        lambda m: clone(pm.KNeighborsClassifier(m)).metric,
        lambda m: jax.tree.unflatten(jax.tree.structure(m), jax.tree.leaves(m)),
    ],
    ids=["pickle", "deepcopy", "clone", "tree"],
)
def test_a_copy_is_another_object_with_the_same_numbers(name, remake):
    metric = make(name)
    again = remake(metric)
    assert again is not metric
    assert jax.tree.structure(again) == jax.tree.structure(metric)
    np.testing.assert_array_equal(again.pairwise(Q, P), metric.pairwise(Q, P))


@pytest.mark.long
@every_kind
def test_a_jitted_function_is_traced_once_for_metrics_of_one_kind(name):
    """What it says of the other kinds: tests/posterior/test_answers.py, of draws."""
    traced = []

    @jax.jit
    def distances(metric, Q, P):
        traced.append(metric)
        return metric.pairwise(Q, P)

    with jax.enable_x64(True):
        for metric in (make(name), make(name)):
            distances.trace(metric, Q, P)
        assert len(traced) == 1
        if name == "MeanDissimilarity":
            expected = metric.pairwise(Q, P)
            np.testing.assert_allclose(distances(metric, Q, P), expected, rtol=1e-12)


def _fit(metric, X):
    knn = pm.KNeighborsClassifier(metric, n_neighbors=1, votes="count")
    return knn.fit(X, np.arange(len(X)) % 2)


ASKED = {
    "dissimilarity": ("q", lambda m, X: m.dissimilarity(X[0], X)),
    "pairwise": ("Q", lambda m, X: m.pairwise(X, X)),
    "call": ("u", lambda m, X: m(X[0], X[1])),
    "nearest": ("queries", lambda m, X: pm.nearest(m, X, X, 1)),
    "neighbor_table": ("points", lambda m, X: neighbor_table(m, X, k=1)),
    "fit": ("X", _fit),
    "draws": (
        "Q",
        lambda m, X: pm.posterior.PosteriorMetric([m], "prediction").pairwise(X, X),
    ),
    "jit": ("Q", lambda m, X: jax.jit(lambda m, X: m.pairwise(X, X))(m, X)),
}


@every_kind
@pytest.mark.parametrize("asked", ASKED)
def test_points_with_other_features_are_refused(name, asked):
    argument, ask = ASKED[asked]
    words = rf"^{argument} must have 3 features, as the metric, got 2(\n|$)"
    with pytest.raises(ValueError, match=words):
        ask(make(name), np.ones((5, 2)))


def test_a_metric_that_does_not_say_its_features_is_taken_as_it_is():
    own = Wrapped(build("Mahalanobis"))
    assert pm.nearest(own, Q, P, 2)[1].shape == (4, 2)
    _fit(own, P)
    mean = pm.posterior.PosteriorMetric([own, own], "prediction").mean_metric()
    assert pm.nearest(mean, Q, P, 2)[1].shape == (4, 2)


@every_kind
def test_an_argument_of_one_feature_is_never_broadcast(unchecked, name):
    """Without the checks of annotations, which refuse it first."""
    metric, ones = make(name), np.ones
    for argument, ask in {
        "q": lambda: metric.dissimilarity(ones(1), ones((2, 3))),
        "Y": lambda: metric.dissimilarity(ones(3), ones((2, 1))),
        "Q": lambda: metric.pairwise(ones((2, 1)), ones((2, 3))),
        "P": lambda: metric.pairwise(ones((2, 3)), ones((2, 1))),
        "u": lambda: metric(ones(1), ones(3)),
        "v": lambda: metric(ones(3), ones(1)),
    }.items():
        with pytest.raises(
            ValueError, match=f"^{argument} must have 3 features, as the metric"
        ):
            ask()
