"""Anchors are a sample of the full fit's pairs; thinned rows are not."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.anchors import compared, population, standardized
from probmetric.data.pairs import nearest_pairs
from probmetric.inference.lca.anchors import fit as by_anchors
from probmetric.inference.lca.anchors import lists
from probmetric.inference.lca.anchors.fit import fit_anchors
from probmetric.inference.lca.anchors.lists import found_in_lists
from probmetric.inference.lca.anchors.pairs import found_exactly, paired
from probmetric.inference.lca.anchors.rows import (
    Design,
    Rows,
    draw_anchors,
    in_memory,
    sizes_of,
)
from probmetric.inference.lca.recipe import Recipe, auto_regularization, fit_labeled
from probmetric.large.source import row_bits
from probmetric.models.lca import to_metric
from probmetric.neighbors import block
from tests.processes.several import LIMIT

ROOT = Path(__file__).parents[3]
N = 1500


def data(n=N, d=3, c=3):
    X, y = population(n, d, c)
    return standardized(X), y


def in_blocks(Z, codes, sizes):
    """Return a reader of the same rows in blocks of these sizes."""
    ends = np.cumsum([0, *sizes])
    assert ends[-1] == len(Z)

    def rows():
        for a, b in pairwise(ends.tolist()):
            yield Rows(Z[a:b], codes[a:b], a)

    return in_memory(Z, codes)._replace(rows=rows)


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
    whole = draw_anchors(in_memory(Z, y), 200, 7)
    parts = draw_anchors(in_blocks(Z, y, (1, 700, 0, 799)), 200, 7)
    for a, b in zip(whole, parts, strict=True):
        assert a.tobytes() == b.tobytes()
    assert (whole.Z == Z[whole.row]).all()
    assert (whole.code == y[whole.row]).all()
    more = draw_anchors(in_memory(Z, y), 400, 7)
    assert np.isin(whole.row, more.row).all()
    assert not np.isin(whole.row, draw_anchors(in_memory(Z, y), 200, 8).row).all()


def test_a_small_class_is_drawn_at_another_rate_and_weighs_less():
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(980, int), np.ones(20, int)]
    Z = rng.normal(size=(1000, 2))
    found = draw_anchors(in_memory(Z, y), 10, 0)
    assert np.bincount(found.code).tolist() == [10, 2]
    rate = 1 / found.w
    assert rate[found.code == 1][0] / rate[found.code == 0][0] == pytest.approx(9.8)
    assert found.w.mean() == pytest.approx(1)


@pytest.mark.parametrize("sizes", [(N,), (700, 1, 0, 799)])
def test_pairs_are_those_of_the_anchors_among_all_rows(sizes):
    Z, y = data()
    reader = in_blocks(Z, y, sizes)
    anchors = draw_anchors(reader, 150, 0)
    factor = np.random.default_rng(1).normal(size=(3, 3))
    every = np.arange(len(anchors.row))
    [found], recall = paired(
        reader, anchors, 3, 2, [Design(every, factor)], found_exactly
    )
    assert recall == 1.0
    whole = nearest_pairs(Z, y, 3, 2, factor)
    used = np.isin(whole.anchor, anchors.row)
    for name in ("i", "j"):
        np.testing.assert_array_equal(
            found.X[getattr(found, name)], Z[getattr(whole, name)[used]]
        )
    np.testing.assert_array_equal(found.y, whole.y[used])
    assert (found.w == anchors.w[found.anchor]).all()


@pytest.mark.parametrize("sizes", [(N,), (700, 1, 0, 799), (100,) * 15])
def test_of_equally_near_rows_the_first_is_a_partner_whatever_its_class(sizes):
    y = data()[1]
    Z = np.random.default_rng(2).integers(-1, 2, (N, 3)).astype(float)
    reader = in_blocks(Z, y, sizes)
    anchors = draw_anchors(reader, 150, 0)
    designs = [Design(np.arange(150), np.eye(3)), Design(np.arange(0, 150, 7), Z[:3])]
    made, _ = paired(reader, anchors, 3, 4, designs, found_exactly)
    for design, found in zip(designs, made, strict=True):
        whole = nearest_pairs(Z, y, 3, 4, design.factor)
        used = np.isin(whole.anchor, anchors.row[design.which])
        for name in ("i", "j"):
            np.testing.assert_array_equal(
                found.X[getattr(found, name)], Z[getattr(whole, name)[used]]
            )


def test_images_of_a_block_are_made_once_for_each_map(monkeypatch):
    made = []
    images = block.centered_images

    def counted(L, X, centre):
        made.append(len(X))
        return images(L, X, centre)

    monkeypatch.setattr(block, "centered_images", counted)
    Z, y = data()
    reader = in_blocks(Z, y, (500, 500, 500))
    anchors = draw_anchors(reader, 150, 0)
    designs = [Design(np.arange(a, 150), np.eye(3)) for a in (0, 100)]
    paired(reader, anchors, 3, 2, designs, found_exactly)
    # Of the first block no query has k points so far: it is searched, not screened.
    assert made == 2 * [500, 150, 500, 50]


def test_a_class_of_few_gives_the_partners_that_it_has():
    Z, y = data()
    y[:3] = 3
    anchors = draw_anchors(in_memory(Z, y), 100, 0)
    every = [Design(np.arange(len(anchors.row)), np.eye(3))]
    [pairs], _ = paired(in_memory(Z, y), anchors, 5, 2, every, found_exactly)
    few = anchors.code[pairs.anchor] == 3
    assert pairs.y[few].sum() == 2 * (anchors.code == 3).sum()


@pytest.mark.parametrize("sizes", [(N,), (700, 1, 0, 799)])
def test_lists_find_most_partners_and_say_how_many(sizes):
    pytest.importorskip("faiss")
    Z, y = data()
    Z = Z + 1e4  # Of float32 nothing is lost far from the origin.
    reader = in_blocks(Z, y, sizes)
    anchors = draw_anchors(reader, 400, 0)
    every, some = np.arange(len(anchors.row)), np.arange(0, len(anchors.row), 3)
    factors = np.random.default_rng(1).normal(size=(2, 3, 3))
    designs = [Design(every, factors[0]), Design(some, factors[1])]
    found, recall = found_in_lists(reader, anchors, 3, 2, designs)
    exact, _ = found_exactly(reader, anchors, 3, 2, designs)
    for one, other in zip(found, exact, strict=True):
        for s in (0, 3):
            same = one[s + 1] == other[s + 1]
            assert same[:, 0].mean() > 0.95
            np.testing.assert_allclose(one[s][same], other[s][same], rtol=1e-12)
            np.testing.assert_array_equal(one[s + 2][same], other[s + 2][same])
            there = ~np.isnan(one[s])
            assert (one[s][there] >= (1 - 1e-12) * other[s][there]).all()
            np.testing.assert_array_equal(one[s + 2][there], Z[one[s + 1][there]])
    assert not (found[0][1] == anchors.row[:, None]).any()
    assert recall >= 0.95
    hit = (exact[0][1][:, :, None] == found[0][1][:, None, :]).any(2)
    assert abs(hit.mean() - 1) < 0.03


def test_where_few_lists_are_looked_into_the_recall_says_so(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(lists, "FIRST", 1)
    monkeypatch.setattr(lists, "SOUGHT", 0.0)
    Z, y = data(6000, 8)
    reader = in_memory(Z, y)
    anchors = draw_anchors(reader, 900, 0)
    every = [Design(np.arange(len(anchors.row)), np.eye(8))]
    found, recall = found_in_lists(reader, anchors, 3, 3, every)
    exact, _ = found_exactly(reader, anchors, 3, 3, every)
    true = min(
        (exact[0][s][:, :, None] == found[0][s][:, None, :]).any(2).mean()
        for s in (1, 4)
    )
    assert recall < 0.8
    assert abs(recall - true) < 4 * np.sqrt(true * (1 - true) / 450)


def test_of_equally_near_rows_any_counts_as_found():
    pytest.importorskip("faiss")
    Z, y = data(4000, 5)
    reader = in_memory(np.round(Z), y)
    anchors = draw_anchors(reader, 500, 0)
    every = [Design(np.arange(len(anchors.row)), np.eye(5))]
    found, recall = found_in_lists(reader, anchors, 3, 3, every)
    [exact], _ = found_exactly(reader, anchors, 3, 3, every)
    assert recall >= 0.98
    assert (found[0][1] == exact[1]).mean() < 0.9  # Other rows, as near.
    assert (found[0][0] <= exact[0] + 1e-9).mean() >= 0.98


@pytest.mark.long
def test_with_all_rows_as_anchors_it_is_the_full_fit():
    Z, y = data(500)
    full = fit_labeled(Z, y, Recipe(3), auto_regularization(500))
    found = fit_anchors(in_memory(Z, y), Recipe(3), "auto", 500, 0)
    np.testing.assert_allclose(matrix(found.fitted), matrix(full), rtol=1e-9)
    assert found.relative == 0


@pytest.mark.long
def test_principal_axes_are_those_of_all_rows():
    Z, y = data(500, 4)
    full = fit_labeled(Z, y, Recipe(2), auto_regularization(500))
    found = fit_anchors(in_memory(Z, y), Recipe(2), "auto", 500, 0)
    np.testing.assert_allclose(matrix(found.fitted), matrix(full), rtol=1e-6)


@pytest.mark.long
def test_error_falls_with_anchors_and_thinned_rows_are_another_design(monkeypatch):
    monkeypatch.setattr(by_anchors, "GROUPS", 2)  # Errors of M are not asked for.
    Z, y = data(6000)
    full = matrix(fit_labeled(Z, y, Recipe(3), auto_regularization(len(Z))))
    scales, distances = {}, {}
    for A in (150, 2400):
        found = [
            matrix(fit_anchors(in_memory(Z, y), Recipe(3), "auto", A, s).fitted)
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
    thinned = matrix(fit_labeled(Z[kept], y[kept], Recipe(3), lam))
    assert compared(thinned, full)[1] < 0.75


@pytest.mark.long
def test_auto_doubles_until_the_error_is_small(monkeypatch):
    Z, y = data(500)
    monkeypatch.setattr(by_anchors, "FIRST", 100)
    monkeypatch.setattr(by_anchors, "AGREE", 0.45)
    found = fit_anchors(in_memory(Z, y), Recipe(3), "auto", "auto", 0)
    assert found.relative <= 0.45
    number = len(found.anchors.row)
    assert 100 < number < 500  # Doubled, and not to all the rows.
    before = fit_anchors(in_memory(Z, y), Recipe(3), "auto", number // 2, 0)
    assert before.relative > 0.45
    monkeypatch.setattr(by_anchors, "AGREE", 0.0)
    found = fit_anchors(in_memory(Z[:200], y[:200]), Recipe(3), "auto", "auto", 0)
    assert len(found.anchors.row) == 200


def worker():
    """Fit in one of several processes; the first stores what was found."""
    import probmetric as pm

    Z, y = data()
    with pm.distributed() as together:
        found = fit_anchors(in_memory(Z, y), Recipe(3), "auto", 300, 5)
        if together.rank == 0:
            np.savez(
                sys.argv[1],
                M=matrix(found.fitted),
                error=found.error,
                row=found.anchors.row,
                X=found.fitted.pairs.X,
                j=found.fitted.pairs.j,
            )


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_several_processes_draw_the_same_pairs_and_fit_the_same(tmp_path):
    launch = (
        "import sys; from probmetric.cli.launch import launch; "
        "sys.exit(launch([sys.executable, *sys.argv[2:]], int(sys.argv[1]), 0, "
        "resume=False))"
    )
    out = tmp_path / "found.npz"
    command = [sys.executable, "-c", launch, "2", "-m", __name__, str(out)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=3 * LIMIT,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")},
    )
    assert done.returncode == 0, done.stderr
    Z, y = data()
    alone = fit_anchors(in_memory(Z, y), Recipe(3), "auto", 300, 5)
    with np.load(out) as stored:
        several = dict(stored)
    assert several["row"].tobytes() == alone.anchors.row.tobytes()
    assert several["X"].tobytes() == np.asarray(alone.fitted.pairs.X).tobytes()
    assert several["j"].tolist() == np.asarray(alone.fitted.pairs.j).tolist()
    np.testing.assert_allclose(several["M"], matrix(alone.fitted), rtol=1e-9)
    np.testing.assert_allclose(several["error"], alone.error, rtol=1e-7)


if __name__ == "__main__":
    worker()
