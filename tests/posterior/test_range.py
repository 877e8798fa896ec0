"""Posteriors and embeddings answer rightly at any scale, or refuse by name."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.metric import Link

LINK = Link(np.array(0.1), np.array(0.5))
A = np.random.default_rng(0).normal(size=(3, 2))
B = A[::-1] + 1.0


@pytest.fixture
def draws():
    return pm.posterior.PosteriorMetric(
        [pm.Mahalanobis(np.eye(2) * s, LINK) for s in (1.0, 1.5, 2.0)],
        "intervals",
        pairs_independent=True,
        source="bootstrap",
    )


@pytest.mark.parametrize(
    "question",
    [
        lambda d: d.pairwise(A * 1e160, B),
        lambda d: d.dissimilarity(A[0], B * 1e160),
        lambda d: d.pair_draws(A * 1.7e308, -B * 1e308),
        lambda d: d.interval(A * 1.7e308, -B * 1e308),
        lambda d: d.closer_probability(A, A * 1.7e308, -B * 1e308),
        lambda d: d.same_interval(A * 1e160, B),
    ],
    ids=["pairwise", "one", "rows", "interval", "closer", "same"],
)
def test_a_figure_beyond_float64_is_refused(draws, question):
    with pytest.raises(ValueError, match=r"^\w+: the result is not finite"):
        question(draws)


def test_a_probability_that_underflows_is_zero(draws):
    np.testing.assert_array_equal(draws.same_probability(A * 1e100, -B * 1e100), 0.0)


def test_ranks_do_not_depend_on_the_unit(draws):
    """Powers of two scale without rounding."""
    expected = draws.rank_interval(A[0], B)
    for scale in (2.0**-450, 2.0**450):
        found = draws.rank_interval(A[0] * scale, B * scale)
        np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected[0])) > 1
    with pytest.raises(ValueError, match=r"below 1e150"):
        draws.rank_interval(A[0], B * 1e160)
