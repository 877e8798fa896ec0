"""``evaluate`` reports how many of the rows that it judges were also learned from."""

import hashlib
import json
import struct

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.cli.inputs import StoredMetric, if_seen
from probmetric.data.hash import row_hashes
from probmetric.datasets import load
from probmetric.datasets.loading import Dataset
from probmetric.large import overlap
from probmetric.large.rows import open_rows
from probmetric.storage.draws_file import load_draws, save_draws
from probmetric.storage.metric_file import read_metric
from tests.cli.runs import NAMES, ran, run, table

LEARNED = "rows of --test have the same features as rows that m.npz was learned from"
AMONG = "rows of --test have the same features as rows of --data"


def rows(seed, n):
    return table(n, seed).drop(columns="item")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Rows learned from, other rows, and a test set: seven of one, three of the other.

    The metric is stored with the hashes of the rows learned from.
    """
    folder = tmp_path_factory.mktemp("overlap")
    learned, others, new = rows(1, 60), rows(2, 40), rows(3, 20)
    test = pd.concat([new, learned[13:20], others[30:33]]).sample(
        frac=1, random_state=0
    )
    for name, frame in {"learned": learned, "others": others, "test": test}.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    hashes = row_hashes(learned[NAMES].to_numpy())
    metric = pm.Mahalanobis(np.diag([2.0, 1.0, 0.5]))
    told = {"provenance": {overlap.ROWS: hashes}, "feature_names": NAMES}
    pm.save_metric(metric, folder / "m.npz", **told)
    pm.save_metric(metric, folder / "plain.npz", feature_names=NAMES)
    return folder


def test_a_hash_is_of_the_numbers_of_a_row():
    X = np.array([[1.5, -2.0], [0.0, 3.0], [-0.0, 3.0]])
    packed = [struct.pack("<dd", 1.5, -2.0), struct.pack("<dd", 0.0, 3.0)]
    wanted = [
        int.from_bytes(hashlib.blake2b(p, digest_size=8).digest(), "little")
        for p in packed
    ]
    assert row_hashes(X).tolist() == [*wanted, wanted[1]]
    assert row_hashes(X[::-1, ::-1].astype(">f8")).tolist()[0] != wanted[1]
    assert row_hashes(X.astype(">f8")).tolist()[:2] == wanted


def test_fit_stores_the_hashes_of_its_rows(work, tmp_path):
    words = "--data", work / "learned.csv", "--out", tmp_path
    ran("fit", "lda", *words)
    stored = read_metric(tmp_path / "metric.npz").provenance[overlap.ROWS]
    X = pd.read_csv(work / "learned.csv")[NAMES].to_numpy()
    np.testing.assert_array_equal(stored, np.sort(row_hashes(X)))
    said = json.loads((tmp_path / "summary.json").read_text())
    assert overlap.ROWS not in said
    words = "--metric", tmp_path / "metric.npz", "--data", work / "others.csv"
    done = run("evaluate", *words, "--test", work / "test.csv")
    assert "note: 7 of 30 rows of --test have the same features as rows" in done.stderr


def test_test_rows_that_were_learned_from_are_counted(work, tmp_path):
    words = "--data", work / "others.csv", "--test", work / "test.csv"
    metric = "--metric", work / "m.npz"
    done = ran("evaluate", *metric, *words, "--out", tmp_path)
    assert f"note: 7 of 30 {LEARNED}" in done.stderr
    assert f"note: 3 of 30 {AMONG}" in done.stderr
    notes = json.loads((tmp_path / "summary.json").read_text())["notes"]
    assert [note.split(" rows")[0] for note in notes] == ["7 of 30", "3 of 30"]


def test_test_rows_are_compared_with_the_rows_that_a_model_is_fitted_to(work):
    words = "--data", work / "others.csv", "--test", work / "test.csv"
    done = ran("evaluate", "--model", "lda", *words)
    assert done.stderr.count("rows of --test") == 1
    assert f"note: 3 of 30 {AMONG}" in done.stderr


@pytest.mark.long
def test_draws_bear_the_hashes_of_their_rows(work, tmp_path):
    data = load(work / "learned.csv")
    sampled = "--draws", 5, "--set", "prior_strength=1"
    words = "--data", work / "learned.csv", "--out", tmp_path
    assert run("sample", "lda", *words, *sampled).exit_code in (0, 1)
    tree = load_draws(tmp_path / "draws.nc")
    found = tree[overlap.ROWS][overlap.ROWS].to_numpy()
    np.testing.assert_array_equal(found, np.sort(row_hashes(data.X)))
    words = "--data", work / "others.csv", "--test", work / "test.csv"
    done = run("evaluate", "--draws", tmp_path / "draws.nc", *words)
    assert "5 draws of draws.nc were learned from" in done.stderr
    assert "note: 7 of 30" in done.stderr
    save_draws(tree.drop_nodes(overlap.ROWS), tmp_path / "old.nc")
    done = run("evaluate", "--draws", tmp_path / "old.nc", *words)
    assert "learned from" not in done.stderr


def test_of_more_rows_the_smallest_hashes_are_stored(work, monkeypatch):
    monkeypatch.setattr(overlap, "MOST", 25)
    data = load(work / "learned.csv")
    found = overlap.hashes_of(data.X)
    np.testing.assert_array_equal(found, np.sort(row_hashes(data.X))[:25])
    (said,) = overlap.describe_overlap(data.X, found, "rows", "there")
    assert said == "at least 25 of 60 rows there"


@pytest.mark.parametrize("at_once", [1, 50, 1 << 21])
def test_hashes_of_rows_in_parts_are_those_of_rows_loaded(
    work, tmp_path, monkeypatch, at_once
):
    monkeypatch.setattr(overlap, "AT_ONCE", at_once)
    frame = pd.read_csv(work / "learned.csv")
    for k, some in enumerate((frame[:25], frame[25:])):
        some.to_parquet(tmp_path / f"{k}.parquet", row_group_size=10)
    source = open_rows(str(tmp_path / "*.parquet"), "kind")
    loaded = overlap.hashes_of(load(work / "learned.csv").X)
    np.testing.assert_array_equal(overlap.hashes_of(source), loaded)
    monkeypatch.setattr(overlap, "MOST", 25)
    some = overlap.hashes_of(source)
    assert len(some) == 25
    assert set(some) < set(loaded)


def test_test_rows_in_parts_are_compared(work, tmp_path):
    for name in ("others", "test"):
        pd.read_csv(work / f"{name}.csv").to_parquet(tmp_path / f"{name}.parquet")
    words = "--data", tmp_path / "o*.parquet", "--test", tmp_path / "t*.parquet"
    done = ran("evaluate", "--metric", work / "m.npz", *words, "--label", "kind")
    assert "note: 7 of 30 rows of a sample of --test have" in done.stderr
    assert "note: 3 of 30 rows of a sample of --test have" in done.stderr


@pytest.fixture
def answers(tmp_path):
    """Judged pairs of twelve points: learned from, and a test with three of them."""
    points = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 2)))
    points.columns = ["a", "b"]
    points.to_csv(tmp_path / "points.csv", index=False)
    known = pd.DataFrame({"i": [0, 2, 4, 6, 8, 1], "j": [1, 3, 5, 7, 9, 2]})
    known.assign(y=[1, 0, 1, 0, 1, 0]).to_csv(tmp_path / "known.csv", index=False)
    new = pd.DataFrame({"i": [1, 3, 8, 0, 5], "j": [0, 2, 9, 4, 10]})
    new.assign(y=[1, 0, 0, 0, 1]).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


def test_answers_about_pairs_that_were_learned_from_are_counted(answers):
    asked = "--data", answers / "points.csv", "--answers", answers / "known.csv"
    ran("fit", "pair_lda", *asked, "--out", answers / "fit")
    done = ran("evaluate", "--model", "pair_lda", *asked, "--test", answers / "new.csv")
    said = "note: 3 of 5 judgments use the same rows as judgments of --answers"
    assert said in done.stderr
    metric = "--metric", answers / "fit" / "metric.npz"
    new = "--data", answers / "points.csv", "--answers", answers / "new.csv"
    done = run("evaluate", *metric, *new)
    said = "note: 3 of 5 judgments use the same rows as judgments that metric"
    assert said in done.stderr
    done = run("evaluate", *metric, *asked)
    assert "learned from the same judgments" in done.stderr


def test_some_learned_rows_among_others_are_counted():
    X = np.arange(10.0).reshape(5, 2)
    metric, rows = pm.Mahalanobis(np.eye(2)), row_hashes(X[:3])
    stored = StoredMetric(metric, 2, None, None, "m.npz", rows=rows)
    (all_seen,), (some,), none = (
        if_seen(stored, Dataset(X[r], np.arange(5)[r], ("a", "b"), ("c",), "x"))
        for r in (slice(3), slice(5), slice(3, 5))
    )
    assert all_seen.startswith("m.npz was learned from the same points, so its")
    assert some.startswith("3 of 5 rows of --data have the same features as rows that")
    assert none == []
