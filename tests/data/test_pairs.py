"""Pair construction against golden cases and against brute force."""

import tracemalloc

import numpy as np
import pytest

from probmetric.data import pairs as pm_pairs
from probmetric.data.containers import Pairs
from probmetric.data.pairs import (
    impostor_pairs,
    nearest_pairs,
)


def triples(pairs: Pairs) -> list[list[int]]:
    return np.stack([pairs.i, pairs.j, pairs.y], 1).tolist()


def tied_problem(seed, n=40, d=3, classes=3):
    """Points on a coarse grid: many ties and duplicates."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, d)).astype(float), rng.integers(0, classes, n)


def brute_impostors(X, labels, k, cap=None):
    """Maths A11, step by step, in plain Python."""
    out = []
    for i in range(len(X)):

        def key(j, i=i):
            return (float(np.sum((X[i] - X[j]) ** 2)), j)

        targets = sorted(
            (j for j in range(len(X)) if j != i and labels[j] == labels[i]), key=key
        )[:k]
        if not targets:
            continue
        rho = key(targets[-1])[0]
        impostors = sorted(
            (j for j in range(len(X)) if labels[j] != labels[i] and key(j)[0] < rho),
            key=key,
        )[:cap]
        if not impostors:
            continue
        out += [[i, j, 1] for j in targets] + [[i, j, 0] for j in impostors]
    return out


def brute_nearest(X, labels, k, m):
    out = []
    for i in range(len(X)):
        ranked = sorted(
            (float(np.sum((X[i] - X[j]) ** 2)), j) for j in range(len(X)) if j != i
        )
        same = [j for _, j in ranked if labels[j] == labels[i]]
        other = [j for _, j in ranked if labels[j] != labels[i]]
        out += [[i, j, 1] for j in same[:k]] + [[i, j, 0] for j in other[:m]]
    return out


@pytest.mark.parametrize("case", range(3))
def test_impostor_pairs_reproduce_the_golden_cases(golden, case):
    entry = golden("lca_dca")["lca_pair_construction"][case]
    made = impostor_pairs(entry["points"], entry["labels"], entry["k"])
    assert triples(made) == entry["pairs_anchor_other_y"]
    assert made.anchor is not None
    assert made.anchor.tolist() == made.i.tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 4, 12])
def test_impostor_pairs_equal_brute_force_on_tied_points(seed, k):
    X, labels = tied_problem(seed)
    k = min(k, int(np.bincount(labels).max()) - 1)
    wanted = brute_impostors(X, labels, k)
    assert triples(impostor_pairs(X, labels, k)) == wanted


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("k", "m"), [(1, 2), (3, 3), (9, 11)])
def test_nearest_pairs_equal_brute_force_on_tied_points(seed, k, m):
    X, labels = tied_problem(seed)
    assert triples(nearest_pairs(X, labels, k, m)) == brute_nearest(X, labels, k, m)


@pytest.mark.parametrize("many", [1, 10**6], ids=["tree", "products"])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_shortlists_give_the_pairs_of_brute_force(monkeypatch, many, shift):
    monkeypatch.setattr(pm_pairs, "LISTED", 0)
    monkeypatch.setattr(pm_pairs, "MANY_QUERIES", many)
    rng = np.random.default_rng(3)
    tied, labels = tied_problem(3, n=90, d=2)
    smooth = rng.normal(size=(90, 2))
    for X in (tied + shift, smooth + shift):
        wanted = brute_nearest(X, labels, 3, 4)
        assert triples(nearest_pairs(X, labels, 3, 4)) == wanted


def test_blocks_do_not_change_the_pairs(monkeypatch):
    X, labels = tied_problem(2)
    whole = triples(nearest_pairs(X, labels)), triples(impostor_pairs(X, labels, 3))
    monkeypatch.setattr(pm_pairs, "BLOCK_ENTRIES", 70)
    tiled = triples(nearest_pairs(X, labels)), triples(impostor_pairs(X, labels, 3))
    assert tiled == whole


def test_memory_stays_below_the_matrix_of_all_distances():
    rng = np.random.default_rng(0)
    n, d = 6000, 40
    X, labels = rng.normal(size=(n, d)), rng.integers(0, 2, n)
    tracemalloc.start()
    nearest_pairs(X, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Blocks: distances, a copy and a mask; inputs and a class's copies of them.
    assert peak < 4 * 8 * pm_pairs.BLOCK_ENTRIES + 6 * X.nbytes < 8 * n * n


def test_a_sample_of_anchors_has_the_pairs_that_all_points_would_give_them():
    X, labels = tied_problem(4, n=60)
    every, some = nearest_pairs(X, labels), nearest_pairs(X, labels, n_anchors=20)
    anchors = np.unique(some.i)
    assert len(anchors) == 20
    share = np.bincount(labels[anchors]) - np.bincount(labels) / 3
    assert np.abs(share).max() <= 1
    assert triples(some) == [t for t in triples(every) if t[0] in anchors]
