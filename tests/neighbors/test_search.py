"""Neighbors are exact, ties included, in bounded memory."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from probmetric.metric import Mahalanobis
from probmetric.neighbors import nearest, neighbor_table
from probmetric.neighbors import scan as neighbors_scan
from probmetric.neighbors.scan import empty, keep_best
from tests.metric_kinds import (
    Coarse,
    Wrapped,
    build,
    build_euclid,
    largest_intermediate,
)
from tests.oracles import sorted_neighbors

EPS = np.finfo(float).eps


@pytest.fixture
def grid():
    """Integer points with duplicates: nearly every query has ties."""
    rng = np.random.default_rng(0)
    points = rng.integers(-2, 3, (90, 2)).astype(float)
    return points, rng.integers(-2, 3, (40, 2)).astype(float)


KINDS = {"linear": lambda metric: metric, "scanned": Wrapped}
both_paths = pytest.mark.parametrize("path", KINDS)


@pytest.mark.long
@both_paths
@pytest.mark.parametrize("tile", [7, 1024])
@pytest.mark.parametrize("d", [2, 17], ids=["tree", "brute"])
def test_ties_go_to_the_lowest_index(grid, path, tile, d):
    points, queries = (np.pad(A, ((0, 0), (0, d - 2))) for A in grid)
    L = np.eye(d) * 2.0
    L[0, 1] = 1.0
    D, index = nearest(KINDS[path](Mahalanobis(L)), queries, points, 5, tile=tile)
    expected_D, expected = sorted_neighbors(L, queries, points, 5)
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(D, expected_D, rtol=4 * EPS)


@both_paths
def test_a_point_is_not_its_own_neighbor_but_its_duplicate_is(grid, path):
    points = grid[0]
    metric = KINDS[path](Mahalanobis(np.eye(2)))
    D, index = nearest(metric, points, points, 5, exclude_self=True, tile=16)
    expected_D, expected = sorted_neighbors(
        np.eye(2), points, points, 5, exclude_self=True
    )
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(D, expected_D, rtol=4 * EPS)
    assert (index != np.arange(len(points))[:, None]).all()
    assert (D[:, 0] == 0).any()


def test_ties_far_from_the_origin_are_seen(grid):
    points, queries = (A + 2.0**22 for A in grid)
    _, index = nearest(Mahalanobis(np.eye(2)), queries, points, 5)
    expected = sorted_neighbors(np.eye(2), *grid[::-1], 5)[1]
    np.testing.assert_array_equal(index, expected)


def test_a_shortlist_is_deepened_until_refinement_settles_it(grid):
    points, queries = grid
    # At this offset the product form is off by units of 64: all ranks are noise.
    coarse = Coarse(np.array(2.0**29))
    near = nearest(Wrapped(Coarse(np.array(0.0))), queries, points, 3)[1]
    rough = nearest(Wrapped(coarse), queries, points, 3)[1]
    settled = nearest(coarse, queries, points, 3)[1]
    np.testing.assert_array_equal(settled, near)
    assert rough.shape == settled.shape


def refined(metric, monkeypatch, numbers, q=40, k=23):
    """Return what ``refine`` gives for a shortlist, so many numbers at a time."""
    rng = np.random.default_rng(0)
    P, index = rng.normal(size=(90, 3)), rng.integers(0, 90, (q, k))
    Q = neighbors_scan.in_tiles(P[:q], neighbors_scan.bucket(q, 64))[0]
    monkeypatch.setattr(neighbors_scan, "REFINED", numbers)
    shared = neighbors_scan.ready_alone(metric, Q)
    return neighbors_scan._refined(metric, Q, P, index, shared)


REFINING = {
    "LocalMahalanobis": build("LocalMahalanobis"),
    "PairSimilarity": build("PairSimilarity"),
    "differences": Coarse(np.array(0.0)),
}


@pytest.mark.parametrize("name", REFINING)
def test_a_shortlist_refined_in_blocks_is_that_refined_at_once(monkeypatch, name):
    whole = refined(REFINING[name], monkeypatch, 1 << 40)
    for numbers in (1, 3 * 64 * 7):
        blocks = refined(REFINING[name], monkeypatch, numbers)
        # Not bit for bit: XLA rounds programs of few rows in ways of their own.
        assert np.abs(blocks - whole).max() <= 16 * EPS * np.abs(whole).max()


def test_infinite_dissimilarities_come_last_and_never_from_padding():
    points = np.arange(5.0)[:, None]

    far = Wrapped(Mahalanobis(np.full((1, 1), 1e200)))
    own = np.arange(5)
    D, index = neighbors_scan.nearest_scanned(far, points, points, 4, own, 64)
    np.testing.assert_array_equal(D, np.inf)
    np.testing.assert_array_equal(index[2], [0, 1, 3, 4])


def test_the_search_holds_no_queries_by_points_array_in_a_linear_search():
    n = 6000
    X = np.random.default_rng(0).normal(size=(n, 2))
    tracemalloc.start()
    nearest(Mahalanobis(np.eye(2)), X, X, 3, tile=64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.05 * 8 * n**2


def test_a_scanned_tile_holds_nothing_larger_than_itself():
    t, d = 32, 2
    Q, P, own = np.zeros((t, d)), np.zeros((t, d)), np.zeros(t, int)
    metric = Wrapped(Mahalanobis(np.eye(d)))
    largest = largest_intermediate(
        lambda q, p: neighbors_scan.tile_of(metric, q, None, p, t, own), Q, P
    )
    assert largest <= t * t * d


def brute_force(D, k):
    """Sort whole rows by (value, column)."""
    order = np.argsort(np.where(D == 0, 0.0, D), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, 1), order


@pytest.mark.parametrize("values", [2, 50, 10**6], ids=["ties", "some ties", "few"])
@pytest.mark.parametrize("ends", [np.inf, -np.inf, 0.0], ids=str)
@pytest.mark.parametrize("k", [1, 6])
def test_what_is_kept_over_tiles_equals_a_sort_of_whole_rows(values, ends, k):
    rng = np.random.default_rng(k)
    D = rng.integers(0, values, (30, 64)) - values / 2
    D[rng.random(D.shape) < 0.4] = ends
    D[rng.random(D.shape) < 0.1] = -0.0
    kept = empty(len(D), k)
    for first in range(0, 64, 16):
        kept = keep_best(kept, D[:, first : first + 16], first)
    expected = brute_force(D, k)
    np.testing.assert_array_equal(kept[1], expected[1])
    np.testing.assert_array_equal(kept[0], expected[0])


def test_a_hidden_entry_is_kept_by_nobody():
    D = np.array([[np.nan, np.inf, np.nan, 1.0], [np.inf, np.nan, np.inf, np.inf]])
    kept = keep_best(empty(2, 2), D[:, :2], 0)
    values, index = keep_best(kept, D[:, 2:], 2)
    np.testing.assert_array_equal(index, [[3, 1], [0, 2]])
    np.testing.assert_array_equal(values, [[1, np.inf], [np.inf, np.inf]])


X3 = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(points=np.full((3, 2), np.nan)), "points must be finite"),
        (
            dict(queries=np.zeros((3, 3)), points=np.zeros((3, 3))),
            "queries must have 2 features, as the metric, got 3",
        ),
        (dict(points=np.zeros((0, 2))), "points must have shape"),
        (dict(k=0), "k must be a whole number in"),
        (dict(k=4), "k .*1 to 3"),
        (dict(k=3, exclude_self=True), "k .*1 to 2"),
        (dict(queries=X3[:2], exclude_self=True), "exclude_self .*got True"),
        (dict(tile=0), "tile must be a whole number in"),
    ],
)
def test_bad_input_is_named(arguments, words):
    given = dict(queries=X3, points=X3, k=1) | arguments
    with pytest.raises(ValueError, match=words):
        nearest(build_euclid(), **given)


def test_a_metric_that_gives_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        nearest(Wrapped(build_euclid(), np.nan), X3, X3, 1)


def test_a_table_wants_a_label_a_point(grid):
    with pytest.raises(ValueError, match=r"labels .*shape \(\d+,"):
        neighbor_table(Mahalanobis(np.eye(2)), grid[0], 1, labels=[0, 1])


def test_a_table_names_rows_of_frames_by_their_index():
    """Distances and labels are still those of the rows."""
    points = pd.DataFrame({"a": [0.0, 5.0, 1.0]}, index=["x", "y", "z"])
    queries = pd.DataFrame({"a": [4.0, 0.4]}, index=[7, 3])
    euclid = Mahalanobis(np.eye(1))
    own = neighbor_table(euclid, points, 1, labels=[10, 20, 30])
    assert own["query"].tolist() == ["x", "y", "z"]
    assert own["neighbor"].tolist() == ["z", "z", "x"]
    assert own["label"].tolist() == [30, 30, 10]
    assert own["distance"].tolist() == [1, 4, 1]
    asked = neighbor_table(euclid, points, 1, queries=queries)
    assert asked["query"].tolist() == [7, 3]
    assert asked["neighbor"].tolist() == ["y", "x"]
    bare = neighbor_table(euclid, points.to_numpy(), 1)
    assert bare["neighbor"].tolist() == [2, 2, 0]
