"""A shortlist under the base metric: exact if it contains all points."""

import numpy as np
import pytest

from probmetric.neighbors import nearest
from tests.metric_kinds import build, build_euclid


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    Q, P = rng.normal(size=(30, 3)), rng.normal(size=(200, 3))
    return build("LocalMahalanobis"), Q, P


def test_a_shortlist_of_all_points_is_exact(problem):
    metric, Q, P = problem
    exact = nearest(metric, Q, P, 4)
    short = nearest(metric, Q, P, 4, shortlist=len(P))
    np.testing.assert_array_equal(short[1], exact[1])
    np.testing.assert_allclose(short[0], exact[0], rtol=1e-12)


def test_a_shortlist_is_reranked_by_the_local_metric(problem):
    """Brute force: the m nearest under FᵀF, sorted by (x - q)ᵀA(q)(x - q)."""
    metric, Q, P = problem
    _, index = nearest(metric, Q, P, 3, shortlist=10, tile=4)
    A = metric.matrix_at(Q)
    for q, a, found in zip(Q, A, index, strict=True):
        delta = P - q
        base = np.sum((delta @ metric.frame.T) ** 2, 1)
        some = np.argsort(base, kind="stable")[:10]
        local = np.einsum("ni,ij,nj->n", delta[some], a, delta[some])
        np.testing.assert_array_equal(found, some[np.argsort(local)][:3])


def test_a_point_is_not_on_its_own_shortlist(problem):
    metric, _, P = problem
    index = nearest(metric, P, P, 2, exclude_self=True, shortlist=5)[1]
    assert (index != np.arange(len(P))[:, None]).all()


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"metric": build_euclid(3)}, "shortlist .*got 10 with Mahalanobis"),
        ({"shortlist": 2}, "shortlist .*got 2"),
        ({"shortlist": 201}, "shortlist .*got 201"),
    ],
)
def test_a_shortlist_that_cannot_serve_is_refused(problem, arguments, words):
    metric, Q, P = problem
    given = {"metric": metric, "shortlist": 10} | arguments
    with pytest.raises(ValueError, match=words):
        nearest(given["metric"], Q, P, 3, shortlist=given["shortlist"])
