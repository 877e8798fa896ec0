"""Triplet comparisons: hand-solved cases, limits, the certificate of the mode."""

import jax
import numpy as np
import pytest
from scipy.optimize import brentq

from probmetric.checks.triplet_comparisons.problems import flipped, toy, triples
from probmetric.data.containers import Triplets
from probmetric.data.triplets import nearest_triplets, triplets_from_arrays
from probmetric.inference import triplet_comparisons as triplet
from probmetric.models.triplet_comparisons import (
    Answer,
    TripletParams,
    TripletPrior,
    log_odds,
    simulate,
)


@pytest.fixture(scope="module")
def problem():
    with jax.enable_x64(True):
        return toy(0)


def test_in_one_dimension_the_mode_is_the_root_of_its_equation():
    # u² - v² = 3: three answers yes, one no, so that t = 3 m² has a finite optimum.
    X, zero = np.array([[0.0], [1.0], [2.0]]), np.zeros(4, int)
    data = Triplets(X, zero, zero + 1, zero + 2, np.array([1, 1, 1, 0]))
    prior = TripletPrior(np.array([[0.5]]), 1.0, 2.0)

    def slope(w):
        p = 1 / (1 + np.exp(-3 * w**2))
        return 6 * w * (3 * (1 - p) - p) - 2 * (w - 0.5)

    found = triplet.fit(data, prior).params.W
    np.testing.assert_allclose(found, brentq(slope, 0.3, 3.0), rtol=1e-6)


def test_log_odds_are_differences_of_squared_distances(problem):
    data, W = problem.data, np.asarray(problem.params.W)
    squared = ((data.X[:, None] - data.X) @ W.T) ** 2
    D = squared.sum(-1)
    wanted = D[data.anchor, data.far] - D[data.anchor, data.near]
    np.testing.assert_allclose(log_odds(problem.params, data), wanted, atol=1e-12)


def test_without_weight_the_prior_is_all_there_is(problem):
    none = problem.data._replace(w=np.zeros(len(problem.data.anchor)))
    found = triplet.fit(none, problem.prior)
    np.testing.assert_allclose(found.params.W, problem.prior.mean, atol=1e-12)


def test_a_weight_of_two_is_the_triplet_twice(problem):
    data = problem.data._replace(w=None)
    twice = Triplets(data.X, *(np.tile(np.asarray(column), 2) for column in data[1:5]))
    once = data._replace(w=np.full(len(data.anchor), 2.0))
    a, b = (triplet.fit(d, problem.prior).params.W for d in (twice, once))
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_the_gap_certifies_the_mode_and_refuses_what_is_none(problem):
    given = problem.data, problem.prior
    assert triplet.gap(problem.params, *given, **problem.options) < 1e-8
    off = TripletParams(problem.params.W + 0.05)
    assert triplet.gap(off, *given, **problem.options) > 1e-3
    # At W = 0 the likelihood has a saddle wherever answers say anything.
    weak = problem.prior._replace(lam=1e-6)
    none = TripletParams(0 * problem.params.W)
    assert triplet.gap(none, problem.data, weak) == np.inf
    with pytest.raises(ValueError, match="params: expected a mode"):
        triplet.posterior(none, problem.data, weak)


def test_the_true_metric_is_found_as_triplets_grow():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(300, 2)), np.array([[1.0, 0.3], [0.0, 0.5]])
    asked = Triplets(X, *triples(rng, 300, 20000), None)
    with jax.enable_x64(True):
        data = simulate(jax.random.key(0), TripletParams(W), asked)
    data = data._replace(y=np.asarray(data.y))
    found = triplet.fit(data, triplet.prior_for(data)).params.W
    # Four standard errors, of the order 2/sqrt(20000) an entry.
    np.testing.assert_allclose(found.T @ found, W.T @ W, atol=0.06)


def test_answers_far_from_even_odds_have_finite_log_probability():
    with jax.enable_x64(True):
        found = Answer(np.array([-2000.0, 2000.0])).log_prob(np.array([1, 0]))
    np.testing.assert_allclose(found, -2000.0)


def test_answers_the_other_way_change_the_fit(problem):
    wrong = triplet.fit(flipped(problem, answers=False).data, problem.prior).params.W
    W = problem.params.W
    assert np.abs(wrong.T @ wrong - W.T @ W).max() > 0.1


@pytest.mark.parametrize(
    "prior, said",
    [
        (TripletPrior(np.zeros((2, 3))), "a map other than 0"),
        (TripletPrior(np.eye(2)), r"expected shape \(p, 3\)"),
        (TripletPrior(np.eye(3), lam=0.0), "prior.lam: expected a number > 0"),
    ],
)
def test_priors_without_a_mode_to_look_for_are_refused(problem, prior, said):
    with pytest.raises(ValueError, match=said):
        triplet.fit(problem.data, prior)


def test_triplets_without_answers_are_refused(problem):
    with pytest.raises(ValueError, match=r"triplets.y: expected answers"):
        triplet.fit(problem.data._replace(y=None), problem.prior)


def test_triplets_of_labels_are_nearest_of_each_kind():
    X = np.array([[0.0], [1.0], [1.5], [5.0], [6.0]])
    found = nearest_triplets(X, [0, 0, 0, 1, 1], 2, 1)
    rows = np.stack([found.anchor, found.near, found.far], 1)[:2]
    np.testing.assert_array_equal(rows, [[0, 1, 3], [0, 2, 3]])
    assert np.all(found.y == 1)


@pytest.mark.parametrize(
    "triplets, y, w, said",
    [
        ([[0, 1, 1]], None, None, "two different points near and far"),
        ([[0, 1, 9]], None, None, r"whole numbers 0..2"),
        ([[0, 1]], None, None, r"expected shape \(N, 3\)"),
        ([[0, 1, 2]], [2], None, "y: expected pair labels"),
        ([[0, 1, 2]], None, [-1.0], "sample_weight: expected finite"),
        ([[0, 1, 2]], None, [0.0], "sample_weight: expected a positive"),
    ],
)
def test_bad_triplets_are_refused(triplets, y, w, said):
    with pytest.raises(ValueError, match=said):
        triplets_from_arrays(triplets, y, w, X=np.arange(3.0)[:, None])
