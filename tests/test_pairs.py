"""Pair construction against golden cases and against brute force."""

import tracemalloc

import numpy as np
import pytest

from probmetric import pairs as pm_pairs
from probmetric.data import Pairs
from probmetric.pairs import (
    all_pairs,
    impostor_pairs,
    nearest_pairs,
    pairs_from_arrays,
    skipped_anchors,
)


def triples(pairs: Pairs) -> list[list[int]]:
    return np.stack([pairs.i, pairs.j, pairs.y], 1).tolist()


def tied_problem(seed, n=40, d=3, classes=3):
    """Points on a coarse grid: many ties and duplicates."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, d)).astype(float), rng.integers(0, classes, n)


def brute_impostors(X, labels, k, cap=None):
    """Maths A11, step by step, in plain Python."""
    out, skipped = [], {}
    for i in range(len(X)):

        def key(j, i=i):
            return (float(np.sum((X[i] - X[j]) ** 2)), j)

        targets = sorted(
            (j for j in range(len(X)) if j != i and labels[j] == labels[i]), key=key
        )[:k]
        if not targets:
            skipped[i] = "no target"
            continue
        rho = key(targets[-1])[0]
        impostors = sorted(
            (j for j in range(len(X)) if labels[j] != labels[i] and key(j)[0] < rho),
            key=key,
        )[:cap]
        if not impostors:
            skipped[i] = "no impostor"
            continue
        out += [[i, j, 1] for j in targets] + [[i, j, 0] for j in impostors]
    return out, skipped


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


@pytest.mark.parametrize("case", range(3))
def test_skipped_anchors_carry_the_golden_reasons(golden, case):
    entry = golden("lca_dca")["lca_pair_construction"][case]
    reasons = skipped_anchors(entry["points"], entry["labels"], entry["k"])
    assert [[i, f"skip:{r}"] for i, r in reasons.items()] == entry["skipped"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 4, 12])
def test_impostor_pairs_equal_brute_force_on_tied_points(seed, k):
    X, labels = tied_problem(seed)
    k = min(k, int(np.bincount(labels).max()) - 1)
    wanted, skipped = brute_impostors(X, labels, k)
    assert triples(impostor_pairs(X, labels, k)) == wanted
    assert skipped_anchors(X, labels, k) == skipped


def test_an_impostor_at_equality_is_not_one():
    X = np.array([[0.0], [1.0], [-1.0], [5.0], [5.2], [4.9]])
    labels = [0, 0, 1, 1, 1, 0]
    # Row 0: target at squared distance 1; row 2 of the other class also at 1.
    assert 0 in skipped_anchors(X, labels, 1)


def test_max_impostors_keeps_the_nearest():
    X, labels = tied_problem(7)
    wanted, _ = brute_impostors(X, labels, 5, cap=2)
    assert triples(impostor_pairs(X, labels, 5, max_impostors=2)) == wanted


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("k", "m"), [(1, 2), (3, 3), (9, 11)])
def test_nearest_pairs_equal_brute_force_on_tied_points(seed, k, m):
    X, labels = tied_problem(seed)
    assert triples(nearest_pairs(X, labels, k, m)) == brute_nearest(X, labels, k, m)


def test_nearest_pairs_rank_under_the_given_map():
    X, labels = tied_problem(1)
    factor = np.array([[2.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    made = nearest_pairs(X, labels, 3, 2, factor)
    assert triples(made) == brute_nearest(X @ factor.T, labels, 3, 2)
    assert made.X.shape == X.shape


def test_blocks_do_not_change_the_pairs(monkeypatch):
    X, labels = tied_problem(2)
    whole = triples(nearest_pairs(X, labels)), triples(impostor_pairs(X, labels, 3))
    monkeypatch.setattr(pm_pairs, "BLOCK_ENTRIES", 70)
    tiled = triples(nearest_pairs(X, labels)), triples(impostor_pairs(X, labels, 3))
    assert tiled == whole


def test_ties_stay_exact_far_from_the_origin():
    # A Gram-matrix distance has noise of eps·‖x‖² = 2e-4 here and would reorder.
    X, labels = tied_problem(3)
    shifted = triples(nearest_pairs(X + 1e6, labels))
    assert shifted == triples(nearest_pairs(X, labels))


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


def test_all_pairs_hold_each_pair_once():
    X, labels = tied_problem(0, n=9)
    made = all_pairs(X, labels)
    assert len(made.i) == 36
    assert np.all(made.i < made.j)
    np.testing.assert_array_equal(made.y, labels[made.i] == labels[made.j])


@pytest.mark.parametrize("low", [0, -1])
def test_both_label_conventions_give_the_same_pairs(low):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(6, 2, 3))
    y = np.array([1, low, low, 1, 1, low])
    made = pairs_from_arrays(points, y)
    np.testing.assert_array_equal(made.y, [1, 0, 0, 1, 1, 0])
    np.testing.assert_array_equal(made.X[made.i], points[:, 0])
    np.testing.assert_array_equal(made.X[made.j], points[:, 1])


def test_index_pairs_equal_point_pairs():
    rng = np.random.default_rng(0)
    X, index, y = rng.normal(size=(5, 2)), [[0, 1], [2, 4], [3, 3]], [1, 0, 1]
    made, weight = pairs_from_arrays(index, y, [1, 2, 0.5], X=X), [1, 2, 0.5]
    np.testing.assert_array_equal(made.X[made.i], X[[0, 2, 3]])
    np.testing.assert_array_equal(made.X[made.j], X[[1, 4, 3]])
    np.testing.assert_array_equal(made.w, weight)


def test_string_labels_are_classes():
    X, labels = tied_problem(0)
    names = np.array(["a", "b", "c"])[labels]
    assert triples(nearest_pairs(X, names)) == triples(nearest_pairs(X, labels))


X4, Y4 = np.arange(8.0).reshape(4, 2), [0, 0, 1, 1]
P3 = np.zeros((2, 2, 3))
BAD_LABELS = {
    "one class": (X4, [1, 1, 1, 1], r"labels: wanted at least 2 classes, got one"),
    "singleton": (X4, [0, 0, 0, 1], r"labels: wanted at least 2 members a class"),
    "NaN": ([[0, np.nan], *X4[1:]], Y4, r"X: wanted finite numbers, got NaN"),
    "inf": ([[0, np.inf], *X4[1:]], Y4, r"X: wanted finite numbers"),
    "mixed kinds": (X4, [0, "a", 0, "a"], r"labels: wanted one kind, got .*mixed"),
    "missing label": (X4, [0, None, 0, 1], r"labels: wanted one kind"),
    "NaN label": (X4, [0, np.nan, 0, 1], r"labels: wanted finite values"),
    "object": (X4, [(1,), (2,), (1,), (2,)], r"labels: wanted"),
    "complex": (X4, np.array([1j, 2, 1j, 2]), r"labels: wanted numbers or strings"),
    "length": (X4, [0, 0, 1], r"labels: wanted one per row of X \(4\), got 3"),
    "label shape": (X4, [[0], [0], [1], [1]], r"labels: wanted shape \(n,\)"),
    "empty": (np.zeros((0, 2)), [], r"X: wanted shape"),
    "ndim": (np.zeros(4), Y4, r"X: wanted shape \(n, d\)"),
    "text": ([["a", "b"]] * 4, Y4, r"X: wanted numbers"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labelled_input_is_refused_by_name(name):
    X, labels, message = BAD_LABELS[name]
    with pytest.raises(ValueError, match=message):
        nearest_pairs(X, labels, 1, 1)


BAD_CALLS = {
    "k too large": (lambda: nearest_pairs(X4, Y4, 2), r"k: wanted at most 1 .*got 2"),
    "m too large": (lambda: nearest_pairs(X4, Y4, 1, 3), r"m: wanted at most 2"),
    "k zero": (lambda: nearest_pairs(X4, Y4, 0), r"k: wanted a whole number ≥ 1"),
    "k bool": (lambda: impostor_pairs(X4, Y4, True), r"k: wanted a whole number"),
    "impostor k": (lambda: impostor_pairs(X4, Y4, 2), r"k: wanted at most 1"),
    "none": (lambda: impostor_pairs(X4, Y4, 1), r"labels: wanted at least one imp"),
    "factor": (
        lambda: nearest_pairs(X4, Y4, 1, 1, np.eye(3)),
        r"factor: wanted shape \(p, 2\), got \(3, 3\)",
    ),
    "no two": (lambda: all_pairs(X4[:2], [0, 1]), r"wanted a class of two members"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_impossible_constructions_are_refused_by_name(name):
    call, message = BAD_CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()


BAD_PAIRS = {
    "one label": ((P3, [1, 1]), {}, r"y: wanted pairs of both labels"),
    "mixed": ((np.zeros((3, 2, 1)), [1, 0, -1]), {}, r"y: wanted pair labels all in"),
    "alien": ((P3, [1, 2]), {}, r"y: wanted pair labels all in"),
    "text": ((P3, ["same", "not"]), {}, r"y: wanted labels 0/1 or -1/\+1"),
    "length": ((P3, [1, 0, 1]), {}, r"y: wanted shape \(2,\), got \(3,\)"),
    "shape": ((np.zeros((2, 3, 3)), [1, 0]), {}, r"pairs: wanted shape \(N, 2, d\)"),
    "no X": (([[0, 1], [1, 0]], [1, 0]), {}, r"pairs: wanted shape \(N, 2, d\)"),
    "both": ((P3, [1, 0]), {"X": X4}, r"got \(2, 2, 3\) together with X"),
    "range": (([[0, 1], [1, 4]], [1, 0]), {"X": X4}, r"pairs: wanted rows 0..3"),
    "reals": (([[0.0, 1], [1, 2]], [1, 0]), {"X": X4}, r"pairs: wanted integers"),
    "NaN": ((np.full((2, 2, 1), np.nan), [1, 0]), {}, r"pairs: wanted finite"),
    "empty": ((np.zeros((0, 2, 3)), []), {}, r"pairs: wanted shape"),
    "ragged": (([[[0], [1, 2]]], [1]), {}, r"pairs: wanted a regular array"),
    "weight": ((P3, [1, 0], [1, -1]), {}, r"w: wanted finite weights ≥ 0"),
    "weights": ((P3, [1, 0], [1]), {}, r"w: wanted shape \(2,\), got \(1,\)"),
    "zero": ((P3, [1, 0], [1, 0]), {}, r"w: wanted a positive weight on a pair with"),
    "anchor": ((P3, [1, 0]), {"anchor": [0, -1]}, r"anchor: wanted integers ≥ 0"),
}


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_bad_pairs_are_refused_by_name(name):
    arguments, options, message = BAD_PAIRS[name]
    with pytest.raises(ValueError, match=message):
        pairs_from_arrays(*arguments, **options)
