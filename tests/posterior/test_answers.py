"""Questions to draws of a metric: answered draw by draw, or refused with the reason."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probmetric.metric import Mahalanobis
from probmetric.neighbors import nearest
from probmetric.posterior import intervals
from probmetric.posterior.metric import PosteriorMetric
from tests.dump import assert_refused
from tests.metric_kinds import NAMES, as_distances, build

N_DRAWS = 18  # More than one tile of draws, and not a multiple of it.


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(12, 3))


def draws_of(name="Mahalanobis", n=N_DRAWS):
    return [build(name, seed) for seed in range(n)]


@pytest.fixture
def posterior():
    return PosteriorMetric(
        draws_of(), "intervals", pairs_independent=True, source="bootstrap"
    )


@pytest.fixture
def distances(X):
    """Distances of X[:4] to X[4:8] under each draw, by plain NumPy."""
    return np.stack(
        [
            [
                np.linalg.norm(m.factor @ (a - b))
                for a, b in zip(X[:4], X[4:8], strict=True)
            ]
            for m in draws_of()
        ]
    )


# --- Draws ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_answers_draw_by_draw(name, X):
    draws = draws_of(name, 3)
    found = PosteriorMetric(draws, "intervals").pairwise(X[:4], X[4:10])
    expected = [metric.pairwise(X[:4], X[4:10]) for metric in draws]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_rows_are_matched_for_every_kind(name, X):
    draws = draws_of(name, 3)
    found = PosteriorMetric(draws, "intervals").pair_draws(X[:4], X[4:8])
    diagonal = [np.diagonal(metric.pairwise(X[:4], X[4:10])) for metric in draws]
    expected = as_distances(draws[0], diagonal)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_it_is_a_pytree(posterior, X):
    doubled = jax.tree.map(lambda a: 2 * a, posterior)
    assert isinstance(doubled, PosteriorMetric)
    assert (doubled.purpose, doubled.source) == ("intervals", "bootstrap")
    np.testing.assert_allclose(
        doubled.pair_draws(X, X[0]), 2 * posterior.pair_draws(X, X[0])
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled:
    """A kind without shape annotations, so that a stack of it may exist in tests."""

    scale: Any
    is_distance: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    def dissimilarity(self, q, Y):
        return self.scale * jnp.sum(jnp.abs(Y - q), -1)

    def pairwise(self, Q, P):
        return jax.vmap(lambda q: self.dissimilarity(q, P))(Q)

    def distance(self, A, B):
        return self.scale * jnp.sum(jnp.abs(A - B), -1)


def test_draws_may_come_as_one_tree_with_a_leading_axis(X):
    stacked = jax.vmap(Scaled)(jnp.arange(1.0, 4.0))
    posterior = PosteriorMetric(stacked, "prediction")
    assert posterior.n_draws == 3
    city = np.abs(X[0] - X[1]).sum()
    np.testing.assert_allclose(
        posterior.pair_draws(X[0], X[1]), city * np.arange(1.0, 4.0), rtol=1e-12
    )


# --- Intervals ------------------------------------------------------------------------


@pytest.fixture
def exact():
    return PosteriorMetric(draws_of(), "intervals", source="exact")


def noisy_maps(W, noise, n, seed=0):
    """Draws of a map with independent normal noise, each under another rotation."""
    rng = np.random.default_rng(seed)
    maps = W + noise * rng.normal(size=(n, *W.shape))
    turns = np.linalg.qr(rng.normal(size=(n, len(W), len(W))))[0]
    return PosteriorMetric([Mahalanobis(L) for L in turns @ maps], "intervals",
                           pairs_independent=True, source="bootstrap")  # fmt: skip


def test_limits_invert_the_distribution_of_the_length_of_a_noisy_vector():
    rng = np.random.default_rng(0)
    W, delta = np.diag([1.0, 0.6, 0.3, 0.1]), np.ones((1, 4))
    maps = W + 0.1 * rng.normal(size=(4000, 4, 4))
    lengths, (size,) = intervals.true_lengths(maps, delta)
    low, high = np.quantile(lengths, [0.05, 0.95])
    noise = 0.2 * rng.normal(size=(100_000, 4))

    def reached(x):
        """P(length of a noisy vector of length x ≤ the length of the estimate)."""
        return np.mean((x + noise[:, 0]) ** 2 + (noise[:, 1:] ** 2).sum(1) <= size**2)

    # Five standard errors of a quantile of 4000 draws: a false alarm in 10⁶ seeds.
    assert reached(low) == pytest.approx(0.95, abs=0.017)
    assert reached(high) == pytest.approx(0.05, abs=0.017)
    ends = np.quantile(np.linalg.norm(maps @ delta[0], axis=1), [0.05, 0.95])
    assert reached(ends[1]) < 0.03  # Lengths of draws contain the noise twice.


def test_limits_of_one_row_are_quantiles_of_its_lengths():
    posterior = noisy_maps(np.array([[1.0, 2.0, 0.0]]), 0.3, 300)
    A = np.random.default_rng(2).normal(size=(3, 3)) + [1, 2, 0]
    expected = np.quantile(posterior.pair_draws(A, 0 * A), [0.05, 0.95], axis=0)
    np.testing.assert_allclose(posterior.interval(A, 0 * A), expected, rtol=1e-9)


def test_a_ratio_cancels_a_common_factor_and_noise_of_equal_vectors():
    posterior = noisy_maps(np.eye(2), 0.2, 200)
    A = np.array([1.0, 0.5])
    found = posterior.ratio_interval((3 * A, 0 * A), (A, 0 * A))
    np.testing.assert_allclose(found, 3.0, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_limits_follow_the_units_of_features_and_of_the_metric(unit):
    posterior = noisy_maps(np.diag([1.0, 0.5]), 0.2, 100)
    A, scale = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([1e-3, 1e4])
    draws = [Mahalanobis(m.factor * scale * unit) for m in posterior.metrics()]
    scaled = PosteriorMetric(
        draws, "intervals", pairs_independent=True, source="bootstrap"
    )
    expected = np.array(posterior.interval(A, 0 * A))
    found = np.array(scaled.interval(A / scale, 0 * A)) / unit
    np.testing.assert_allclose(found, expected, rtol=1e-7)


# --- Orders ---------------------------------------------------------------------------


def test_a_rank_interval_holds_ranks_from_one(posterior, X):
    lower, upper = posterior.rank_interval(X[0], X, prob=0.9)
    ranks = np.stack(
        [1 + np.argsort(np.argsort(m.dissimilarity(X[0], X))) for m in draws_of()]
    )
    # 5% and 95% of 18 draws are 0.9 and 17.1 draws: the first, and the eighteenth.
    np.testing.assert_array_equal(lower, np.sort(ranks, 0)[0])
    np.testing.assert_array_equal(upper, np.sort(ranks, 0)[17])
    assert lower[0] == upper[0] == 1
    assert (lower <= upper).all()
    assert (lower == np.round(lower)).all()


# --- Means ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["Mahalanobis", "LocalFisher", "PairSimilarity"])
def test_the_mean_metric_gives_the_mean_dissimilarity(name, X):
    draws, Q, P = draws_of(name, 3), X[:4], X[4:10]
    mean = PosteriorMetric(draws, "prediction").mean_metric()
    expected = np.mean([metric.pairwise(Q, P) for metric in draws], 0)
    np.testing.assert_allclose(mean.pairwise(Q, P), expected, rtol=1e-9, atol=1e-9)
    index = nearest(mean, Q, P, 4)[1]
    np.testing.assert_array_equal(index, np.argsort(expected, 1)[:, :4])


def test_the_mean_of_mahalanobis_metrics_is_one_without_a_link(posterior):
    mean = posterior.mean_metric()
    assert isinstance(mean, Mahalanobis)
    assert mean.link is None
    expected = np.mean([m.matrix for m in draws_of()], 0)
    np.testing.assert_allclose(mean.matrix, expected, rtol=1e-10, atol=1e-12)


def test_draws_of_a_similarity_answer_at_prior_odds(X):
    draws = draws_of("PairSimilarity", 5)
    found = PosteriorMetric(draws, "intervals", pairs_independent=True)
    A, B = X[:4], X[4:8]
    each = np.stack(
        [m.same_probability(A, B, prior_odds=np.asarray(0.02)) for m in draws]
    )
    own = found.same_probability(A, B, prior_odds=0.02)
    np.testing.assert_allclose(own, each.mean(0), rtol=1e-9)
    half = {"prob": 0.5}  # Quartiles of five draws are draws: the second and fourth.
    limits = found.same_interval(A, B, prior_odds=0.02, **half)
    np.testing.assert_allclose(limits, np.sort(each, 0)[[1, 3]], rtol=1e-9)
    even = found.same_interval(A, B, prior_odds=1.0, **half)
    np.testing.assert_allclose(even, found.same_interval(A, B, **half), rtol=1e-9)
    with pytest.raises(ValueError, match="prior_odds"):
        found.same_interval(A, B, prior_odds=0.0)


def test_intervals_of_noisy_draws_contain_their_distance():
    """The mean of the distances of draws counts the noise twice."""
    rng = np.random.default_rng(0)
    draws = [Mahalanobis(0.3 * np.eye(2) + rng.normal(size=(2, 2))) for _ in range(60)]
    made = PosteriorMetric(draws, "intervals", pairs_independent=True)
    A, B = rng.normal(size=(2, 3, 2))
    low, high = made.interval(A, B)
    value = made.distance(A, B)
    assert np.all((low <= value) & (value <= high))
    assert np.all(made.pair_draws(A, B).mean(0) > value)


def test_bad_questions_are_named(posterior, X):
    calls = {
        "prob": lambda: posterior.interval(X, X, prob=1.0),
        "features": lambda: posterior.interval(X[:, :2], X[:, :2]),
        "NaN": lambda: posterior.pairwise(X * np.nan, X),
        "no metric": lambda: nearest(posterior, X, X, 1),
    }
    assert_refused(calls, "posterior/questions.txt")
