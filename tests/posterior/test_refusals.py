"""What draws of a metric cannot answer is refused with the reason."""

import numpy as np
import pytest

from probmetric.metric import Link, Mahalanobis
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


def test_draws_for_prediction_give_no_intervals(X):
    posterior = PosteriorMetric(draws_of(n=2), "prediction")
    for ask in (
        lambda: posterior.interval(X[0], X[1]),
        lambda: posterior.ratio_interval((X[0], X[1]), (X[2], X[3])),
        lambda: posterior.rank_interval(X[0], X),
        lambda: posterior.same_interval(X[0], X[1]),
    ):
        with pytest.raises(
            ValueError, match=r"purpose='intervals'.*got purpose='prediction'"
        ):
            ask()


INTERVALS = {
    "interval": lambda p, X: p.interval(X[0], X[1]),
    "ratio_interval": lambda p, X: p.ratio_interval((X[0], X[1]), (X[2], X[3])),
    "rank_interval": lambda p, X: p.rank_interval(X[0], X),
}


@pytest.mark.long
@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_of_dependent_pairs_come_with_a_warning(name, X):
    posterior = PosteriorMetric(draws_of(n=2), "intervals", source="nuts")
    with pytest.warns(
        UserWarning, match=f"^{name}: .*'nuts' draws have a wrong width if"
    ):
        INTERVALS[name](posterior, X)


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize(
    "facts", [dict(source="bootstrap"), dict(source="nuts", pairs_independent=True)]
)
def test_intervals_that_mean_what_they_say_come_alone(name, facts, X):
    # Any warning is an error here.
    INTERVALS[name](PosteriorMetric(draws_of(n=2), "intervals", **facts), X)


@pytest.mark.parametrize("name", [n for n in NAMES if not build(n).is_distance])
def test_what_is_no_distance_has_no_ratio(name, X):
    posterior = PosteriorMetric(draws_of(name, 2), "intervals", source="bootstrap")
    with pytest.raises(ValueError, match=r"ratio_interval .*got"):
        posterior.ratio_interval((X[0], X[1]), (X[2], X[3]))


def test_a_ratio_to_nothing_is_refused(posterior, X):
    with pytest.raises(ValueError, match=r"second .*distance zero"):
        posterior.ratio_interval((X[0], X[1]), (X[2], X[2]))


@pytest.mark.parametrize("source", ["laplace", "nuts", "svi", "exact"])
def test_p_same_is_not_averaged_over_label_built_pairs(source, X):
    posterior = PosteriorMetric(draws_of(n=2), "intervals", source=source)
    with pytest.raises(ValueError, match=r"same_probability .*got source="):
        posterior.same_probability(X[0], X[1])


@pytest.mark.parametrize(
    "facts", [dict(source="bootstrap"), dict(source="nuts", pairs_independent=True)]
)
def test_p_same_is_averaged_where_that_is_sound(facts, X):
    links = [Link(np.array(0.1 * s), np.array(0.5)) for s in range(3)]
    draws = [Mahalanobis(build("Mahalanobis", s).factor, links[s]) for s in range(3)]
    posterior = PosteriorMetric(draws, "intervals", **facts)
    expected = np.mean([m.same_probability(X[:2], X[2:4]) for m in draws], 0)
    np.testing.assert_allclose(posterior.same_probability(X[:2], X[2:4]), expected)


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


def test_p_same_is_refused_where_the_metric_defines_none(X):
    draws = draws_of("LocalMahalanobis", 2)
    posterior = PosteriorMetric(draws, "intervals", pairs_independent=True)
    with pytest.raises(ValueError, match="got LocalMahalanobis"):
        posterior.same_probability(X[0], X[1])
