"""Anchors are a sample of the full fit's pairs; thinned rows are not."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.anchors import compared, population, standardized
from probmetric.data.containers import Labeled
from probmetric.data.hash import row_bits
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.lca.anchors import fit as by_anchors
from probmetric.inference.lca.anchors.fit import fit_anchors
from probmetric.inference.lca.anchors.pairs import paired
from probmetric.inference.lca.anchors.rows import (
    Design,
    Reader,
    Rows,
    draw_anchors,
    sizes_of,
)
from probmetric.inference.lca.recipe import Recipe, auto_regularization, fit_labeled
from probmetric.models.lca import to_metric

N = 1500


def data(n=N, d=3, c=3):
    X, y = population(n, d, c)
    return standardized(X), y


def in_blocks(Z, codes, sizes):
    """Return a reader of the same rows in two tasks, in blocks of these sizes."""
    ends = np.cumsum([0, *sizes])
    assert ends[-1] == len(Z)
    blocks = [Rows(Z[a:b], codes[a:b], a) for a, b in pairwise(ends.tolist())]

    class Blocks(Reader):
        def run(self, task, *shared):
            half = len(blocks) // 2
            return [
                task(iter(some), *shared) for some in (blocks[:half], blocks[half:])
            ]

    return Blocks(Z, codes)


def matrix(fitted):
    L = np.asarray(to_metric(fitted.fit.params).factor)
    return L.T @ L


def test_hashes_are_uniform_and_of_seed_and_row_alone():
    u = row_bits(3, np.arange(20_000)) / 2.0**64
    counts = np.histogram(u, 20, (0, 1))[0]
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 5 / np.sqrt(20_000)
    assert (row_bits(3, np.arange(50, 60)) == row_bits(3, np.arange(100))[50:60]).all()
    assert not np.isin(row_bits(4, np.arange(100)), row_bits(3, np.arange(100))).any()


@pytest.mark.parametrize(
    ("counts", "A", "sizes"),
    [
        ([500, 300, 200], 100, [50, 30, 20]),
        ([5000, 3, 10], 100, [100, 2, 2]),
        ([5, 3], 100, [5, 3]),
    ],
)
def test_a_class_has_its_share_of_anchors_and_two_at_least(counts, A, sizes):
    assert sizes_of(np.array(counts), A).tolist() == sizes


def test_anchors_do_not_depend_on_blocks_and_more_contain_the_fewer():
    Z, y = data()
    whole = draw_anchors(Reader(Z, y), 200, 7)
    parts = draw_anchors(in_blocks(Z, y, (1, 700, 0, 799)), 200, 7)
    for a, b in zip(whole, parts, strict=True):
        assert a.tobytes() == b.tobytes()
    assert (whole.Z == Z[whole.row]).all()
    assert (whole.code == y[whole.row]).all()
    more = draw_anchors(Reader(Z, y), 400, 7)
    assert np.isin(whole.row, more.row).all()
    assert not np.isin(whole.row, draw_anchors(Reader(Z, y), 200, 8).row).all()


def test_a_small_class_is_drawn_at_another_rate_and_weighs_less():
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(980, int), np.ones(20, int)]
    Z = rng.normal(size=(1000, 2))
    found = draw_anchors(Reader(Z, y), 10, 0)
    assert np.bincount(found.code).tolist() == [10, 2]
    rate = 1 / found.w
    assert rate[found.code == 1][0] / rate[found.code == 0][0] == pytest.approx(9.8)
    assert found.w.mean() == pytest.approx(1)


@pytest.mark.parametrize("sizes", [(N,), (700, 1, 0, 799)])
def test_of_equally_near_rows_the_first_is_a_partner_whatever_its_class(sizes):
    y = data()[1]
    Z = np.random.default_rng(2).integers(-1, 2, (N, 3)).astype(float)
    reader = in_blocks(Z, y, sizes)
    anchors = draw_anchors(reader, 150, 0)
    designs = [Design(np.arange(150), np.eye(3)), Design(np.arange(0, 150, 7), Z[:3])]
    made = paired(reader, anchors, 3, 4, designs)
    for design, found in zip(designs, made, strict=True):
        whole = nearest_pairs(Z, y, 3, 4, design.factor)
        used = np.isin(whole.anchor, anchors.row[design.which])
        for name in ("i", "j"):
            np.testing.assert_array_equal(
                found.X[getattr(found, name)], Z[getattr(whole, name)[used]]
            )
        np.testing.assert_array_equal(found.y, whole.y[used])
        assert (found.w == anchors.w[found.anchor]).all()


def test_a_class_of_few_gives_the_partners_that_it_has():
    Z, y = data()
    y[:3] = 3
    anchors = draw_anchors(Reader(Z, y), 100, 0)
    every = [Design(np.arange(len(anchors.row)), np.eye(3))]
    [pairs] = paired(Reader(Z, y), anchors, 5, 2, every)
    few = anchors.code[pairs.anchor] == 3
    assert pairs.y[few].sum() == 2 * (anchors.code == 3).sum()


@pytest.mark.long
def test_with_all_rows_as_anchors_it_is_the_full_fit():
    Z, y = data(500)
    full = fit_labeled(Labeled(Z, y), Recipe(3), auto_regularization(500))
    found = fit_anchors(Reader(Z, y), Recipe(3), "auto", 500, 0)
    np.testing.assert_allclose(matrix(found.fitted), matrix(full), rtol=1e-9)
    assert found.relative == 0


@pytest.mark.long
def test_principal_axes_are_those_of_all_rows():
    Z, y = data(500, 4)
    full = fit_labeled(Labeled(Z, y), Recipe(2), auto_regularization(500))
    found = fit_anchors(Reader(Z, y), Recipe(2), "auto", 500, 0)
    np.testing.assert_allclose(matrix(found.fitted), matrix(full), rtol=1e-6)


@pytest.mark.long
def test_error_falls_with_anchors_and_thinned_rows_are_another_design(monkeypatch):
    monkeypatch.setattr(by_anchors, "GROUPS", 2)  # Errors of M are not asked for.
    Z, y = data(6000)
    full = matrix(fit_labeled(Labeled(Z, y), Recipe(3), auto_regularization(len(Z))))
    scales, distances = {}, {}
    for A in (150, 2400):
        found = [
            matrix(fit_anchors(Reader(Z, y), Recipe(3), "auto", A, s).fitted)
            for s in range(4)
        ]
        off = [np.linalg.norm(M - full) / np.linalg.norm(full) for M in found]
        distances[A] = np.sqrt(np.mean(np.square(off)))
        scales[A] = np.mean([compared(M, full)[1] for M in found])
    # 16 times the anchors: a quarter of the error, and less as they are 2/5 of all.
    assert distances[2400] < distances[150] / 2.5
    assert 0.9 < scales[2400] < 1.1
    kept = np.random.default_rng(0).permutation(len(Z))[:2400]
    lam = auto_regularization(len(Z)) * 0.4
    thinned = matrix(fit_labeled(Labeled(Z[kept], y[kept]), Recipe(3), lam))
    assert compared(thinned, full)[1] < 0.75
