"""What draws of a metric cannot answer is refused with the reason."""

import numpy as np
import pytest

from probmetric.neighbors import nearest
from probmetric.posterior.metric import PosteriorMetric
from tests.metric_kinds import NAMES, build

N_DRAWS = 18  # More than one tile of draws, and not a multiple of it.


@pytest.fixture
def X():
    return np.random.default_rng(1).normal(size=(12, 3))


def draws_of(name="Mahalanobis", n=N_DRAWS):
    return [build(name, seed) for seed in range(n)]


@pytest.fixture
def posterior():
    return PosteriorMetric(draws_of(), "intervals", source="bootstrap")


@pytest.mark.parametrize("name", [n for n in NAMES if not build(n).is_distance])
def test_what_is_no_distance_has_no_ratio(name, X):
    posterior = PosteriorMetric(draws_of(name, 2), "intervals", source="bootstrap")
    with pytest.raises(ValueError, match=r"ratio_interval .*got"):
        posterior.ratio_interval((X[0], X[1]), (X[2], X[3]))


def test_nearest_wants_a_single_metric(posterior, X):
    with pytest.raises(ValueError, match="got a posterior"):
        nearest(posterior, X, X, 1)


@pytest.mark.parametrize(
    "ask, words",
    [
        (lambda p, X: p.interval(X, X, prob=1.0), "prob must .*got 1.0"),
        (lambda p, X: p.interval(X[:, :2], X[:, :2]), r"A must have .*3 features"),
        (lambda p, X: p.pairwise(X * np.nan, X), "Q must be finite"),
    ],
)
def test_bad_questions_are_named(posterior, X, ask, words):
    with pytest.raises(ValueError, match=words):
        ask(posterior, X)
