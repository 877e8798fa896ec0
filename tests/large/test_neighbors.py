"""Neighbors among points read in parts are those among all, bit for bit."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.large import neighbors as stream
from probmetric.large.source import Block, Part, Source
from probmetric.metric import Mahalanobis
from probmetric.neighbors.block import Candidates
from tests.metric_kinds import NAMES, Coarse, Wrapped, build, build_euclid

SIZES = (700, 1, 0, 1023, 5, 1300, 2)
N = sum(SIZES)


class Parts(Source):
    """Arrays in memory as a source, cut into parts of given sizes."""

    labeled = weighted = False
    name = "arrays"

    def __init__(self, X, sizes, block=None):
        self.X, self.block = X, block
        self.feature_names = tuple(f"x{j}" for j in range(X.shape[1]))
        firsts = np.cumsum([0, *sizes]).tolist()
        self.parts = [
            Part("arrays", first, size)
            for first, size in zip(firsts, sizes, strict=False)
        ]

    def read(self, part, rows, *, features=True):
        end = part.first + part.rows
        for a in range(part.first, end, self.block or rows):
            yield Block(self.X[a : min(a + (self.block or rows), end)], None, None, a)


def data(d=3, seed=0):
    """Return points with duplicates far from each other, and queries among them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d))
    X[1700:1800] = X[:100]  # The parts of rows 0 and 1700 are not the same.
    X[-2:] = X[50]
    rows = np.r_[:60, 1750:1760, N - 1]
    return X, rows


def same(found, expected):
    assert found[0].tobytes() == expected[0].tobytes()
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.long
@pytest.mark.parametrize("block", [None, 50, 1])
@pytest.mark.parametrize("d", [3, 20], ids=["tree", "brute"])
def test_mahalanobis_kinds_find_the_same_bits(d, block):
    X, rows = data(d)
    if block == 1:
        X, rows = X[-100:], np.array([3, 70])
    metric = Mahalanobis(np.random.default_rng(1).normal(size=(d, d)))
    sizes = SIZES if len(X) == N else (30, 70)
    source = Parts(X, sizes, block=block)
    same(pm.nearest(metric, X[rows], source, 7), pm.nearest(metric, X[rows], X, 7))
    same(
        pm.nearest(metric, X[rows], source, 7, exclude_self=rows),
        pm.nearest(metric, X[rows], X, 7, exclude_self=rows),
    )


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"Mahalanobis"}))
def test_every_other_kind_finds_the_same_bits(name):
    X, rows = data()
    metric = build(name)
    source = Parts(X, SIZES, block=333)
    for own in (False, rows):
        same(
            pm.nearest(metric, X[rows], source, 5, exclude_self=own),
            pm.nearest(metric, X[rows], X, 5, exclude_self=own),
        )


@pytest.mark.long
def test_more_neighbors_than_a_part_has_points():
    X, rows = data()
    X, rows = X[:40], rows[:9]
    euclid, similarity = build_euclid(3), build("PairSimilarity")
    for metric, own in ((euclid, False), (euclid, rows), (similarity, rows)):
        same(
            pm.nearest(metric, X[rows], Parts(X, (3, 30, 7)), 39, exclude_self=own),
            pm.nearest(metric, X[rows], X, 39, exclude_self=own),
        )


def test_integer_points_tie_across_parts_by_row():
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, (N, 2)).astype(float)
    for metric in (build_euclid(2), Wrapped(build_euclid(2))):
        same(
            pm.nearest(metric, X[:30], Parts(X, SIZES), 12),
            pm.nearest(metric, X[:30], X, 12),
        )


@pytest.mark.long
def test_a_shortlist_too_short_is_doubled_by_another_pass():
    X, rows = data()
    metric = Coarse(np.array(2.0**24))
    source, passes = Parts(X, SIZES), []
    read = source.read

    def counted(part, rows, **how):
        if part.first == 0:
            passes.append(1)
        return read(part, rows, **how)

    source.read = counted
    same(pm.nearest(metric, X[rows], source, 5), pm.nearest(metric, X[rows], X, 5))
    assert len(passes) > 1  # Doubled, and each time the bits of points in memory.


def test_queries_beyond_what_is_prepared_take_more_passes(monkeypatch):
    X, rows = data()
    metric = build("LocalMahalanobis")
    expected = pm.nearest(metric, X[rows], X, 5, tile=32)
    monkeypatch.setattr(stream, "PREPARED", 1)
    same(pm.nearest(metric, X[rows], Parts(X, SIZES), 5, tile=32), expected)


@pytest.mark.parametrize(
    ("metric", "scale", "message"),
    [
        (build_euclid(3), 1e160, "below 1e150"),
        (build_euclid(3), 1e-160, "1e-150"),
        (Wrapped(build_euclid(3)), 1e160, "below 1e150"),
    ],
)
def test_points_on_disk_whose_squares_are_lost_raise(metric, scale, message):
    X = data()[0][:40]
    X = np.where(np.arange(40)[:, None] == 7, scale, X * min(scale, 1.0))
    with pytest.raises(ValueError, match=f"points:? .*{message}"):
        pm.nearest(metric, X[:2], Parts(X, (7, 1, 32)), 5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"k": N + 1}, f"k .*1 to {N}"),
        ({"k": N, "exclude_self": np.arange(5)}, f"k .*1 to {N - 1}"),
        ({"exclude_self": np.arange(4)}, "exclude_self .*5 row numbers"),
        ({"shortlist": 3}, "shortlist .*got 3"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    X, _ = data()
    given = {"queries": X[:5], "k": 2, "exclude_self": False, **changed}
    with pytest.raises(ValueError, match=message):
        pm.nearest(build_euclid(3), points=Parts(X, SIZES), **given)


def test_rows_of_the_best_are_held_while_blocks_go_by():
    X, _ = data()
    best = Candidates(4, 3)
    for first in range(0, 300, 10):
        D = np.abs(X[first : first + 10, 0] - X[[40, 90, 5, 200], :1])
        order = np.argsort(D, 1)
        best.add(slice(None), np.take_along_axis(D, order, 1), first + order)
        best.hold(X[first : first + 10], first)
    np.testing.assert_array_equal(best.rows(3), X[best.index])
    assert sum(len(index) for index, _ in best._stored) <= 2 * best.index.size
