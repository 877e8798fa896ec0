"""What a screen lets through is what differences put among the k best, bit for bit."""

import numpy as np
import pytest

import probmetric as pm
from probmetric.metric import Mahalanobis
from probmetric.neighbors import block
from tests.large.test_neighbors import Parts, same

N, D = 2000, 6
SIZES = (100,) * (N // 100)


def clusters(rng):
    return rng.normal(size=(N, D))


def far_from_zero(rng):
    return 1e6 + rng.normal(size=(N, D))


def one_point_far(rng):
    """Return points among which float32 tells nothing apart."""
    X = rng.normal(size=(N, D))
    X[::100] = 1e7
    return X


def integers(rng):
    return rng.integers(-1, 2, (N, D)).astype(float)


def all_equal(rng):
    return np.ones((N, D))


def nearer_and_nearer(rng):
    """Return points of which every block beats those before."""
    return rng.normal(size=(N, D)) * np.linspace(100, 1, N)[:, None]


def squares_that_lose_terms(rng):
    X = rng.normal(size=(N, D))
    X[::7] = 1e-140 * rng.normal(size=X[::7].shape)
    return X


def nearly_equal(rng, spread=1e-4):
    """Return points whose neighbors are told apart by late digits of their squares."""
    return np.tile(rng.normal(size=(20, D)), (N // 20, 1)) + spread * rng.normal(
        size=(N, D)
    )


def all_but_equal(rng):
    return nearly_equal(rng, 1e-8)


def large(rng):
    return 2.0**190 * rng.normal(size=(N, D))


def small(rng):
    return 2.0**-190 * rng.normal(size=(N, D))


SETS = (
    clusters,
    far_from_zero,
    one_point_far,
    integers,
    all_equal,
    nearer_and_nearer,
    squares_that_lose_terms,
    nearly_equal,
    all_but_equal,
    large,
    small,
)


@pytest.fixture
def tiles(monkeypatch):
    """Make tiles small, so that there are several of queries and of points."""
    monkeypatch.setattr(block, "SIDE", 16)
    monkeypatch.setattr(block, "EXACT", 300)


def found(make, seed=0):
    """Return neighbors read in blocks and in memory, and metric, points, queries."""
    rng = np.random.default_rng(seed)
    X, rows = make(rng), np.r_[:20, 1000:1020, N - 1]
    metric = Mahalanobis(rng.normal(size=(4, D)))
    Q = X[rows]
    return (
        pm.nearest(metric, Q, Parts(X, SIZES), 7, exclude_self=rows),
        pm.nearest(metric, Q, X, 7, exclude_self=rows),
    )


@pytest.mark.parametrize("make", SETS)
def test_neighbors_are_those_in_memory(make, tiles):
    same(*found(make))


@pytest.mark.parametrize("make", [clusters, integers])
def test_threads_change_no_bit(make, tiles, monkeypatch):
    monkeypatch.setattr(block, "blas_threads", lambda: 3)
    same(*found(make))


@pytest.mark.parametrize(
    ("make", "bound", "nothing"),
    [
        (nearly_equal, "COARSE", 0.0),
        (all_but_equal, "rounding", lambda *given: 0.0),
        (clusters, "rounding", lambda *given: -1.0),
    ],
)
def test_a_bound_that_is_too_low_loses_neighbors(
    make, bound, nothing, tiles, monkeypatch
):
    """Negative control: the comparison above sees a screen that lets too little in."""
    monkeypatch.setattr(block, bound, nothing)
    streamed, whole = found(make)
    assert streamed[0].tobytes() != whole[0].tobytes() or np.any(
        streamed[1] != whole[1]
    )


def test_few_pairs_pass(monkeypatch):
    count = []
    squared = block.squared

    def counted(L, delta):
        count.append(len(delta))
        return squared(L, delta)

    monkeypatch.setattr(block, "squared", counted)
    same(*found(clusters))
    blocks, m, k = len(SIZES), 41, 7
    # About k/s of each query in the s-th block; twice that is chance.
    assert 0 < sum(count) < 2 * m * k * np.sum(1 / np.arange(1, blocks))


@pytest.mark.parametrize("k", [1, 9])
def test_images_too_small_to_square_raise(k):
    metric = Mahalanobis(np.array([[1.0, -1.0], [2.0**-600, 0.0]]))
    X = np.repeat([[1.0, 1.0], [2.0, 2.0]], 6, 0)
    with pytest.raises(ValueError, match=r"points: .*1e-150"):
        pm.nearest(metric, X[[0, -1]] + [[0.5, 0.5]], Parts(X, (6, 6)), k)
