"""Benchmarks: pages come from the CSV, and the harness splits and stores correctly."""

import shutil

import numpy as np
import pandas as pd
import pytest

from benchmarks import (
    accuracy,
    anchors,
    cost,
    coverage,
    effects_coverage,
    gdm,
    harness,
    large_set,
    model_verdict,
    nuts_starts,
    pairs_coverage,
    triplets,
)


def page(name, lines, folder):
    """Write a page from the stored one in another folder; return its text."""
    shutil.copy(harness.RESULTS / f"{name}.md", folder)
    harness.write_page(name, lines, folder)
    return (folder / f"{name}.md").read_text()


TABLES = {
    "anchors": anchors.tables,
    "cost": cost.tables,
    "effects_coverage": effects_coverage.tables,
    "gdm": lambda table: gdm.tables(
        table, pd.read_csv(harness.RESULTS / "gdm_southwest.csv")
    ),
    "intervals": coverage.tables,
    "large_set": large_set.tables,
    "model_verdict": model_verdict.tables,
    "nuts_starts": nuts_starts.tables,
    "pairs_coverage": pairs_coverage.tables,
}
GENERATED = sorted(
    path.stem
    for path in harness.RESULTS.glob("*.md")
    if harness.MARKS[1] in path.read_text() and path.stem in accuracy.STUDIES | TABLES
)


@pytest.mark.parametrize("name", GENERATED)
def test_the_tables_of_a_page_are_made_from_its_csv(name, tmp_path):
    table = pd.read_csv(harness.RESULTS / f"{name}.csv")
    if name in accuracy.STUDIES:
        lines = harness.tables(accuracy.STUDIES[name], table)
    else:
        lines = TABLES[name](table)
    assert page(name, lines, tmp_path) == (harness.RESULTS / f"{name}.md").read_text()


def test_pages_are_generated():
    assert len(GENERATED) >= 11


def test_a_summary_takes_data_sets_as_units():
    table = pd.DataFrame({"data": ["a", "a", "b"], "gap": [1.0, 3.0, 6.0]})
    # Means 2 and 6: mean 4, standard error 2, t(0.9, 1) = 3.0777.
    assert harness.summary(table) == "+4.000 ± 2.000 (≤ +10.155)"


def test_differences_are_taken_on_the_same_training_set():
    rows = [["x", 20, 0, "Euclid", 1.0], ["x", 20, 1, "Euclid", 2.0]]
    rows += [["x", 20, 0, "LDA", 1.5], ["x", 20, 1, "LDA", 5.0]]
    table = pd.DataFrame(rows, columns=[*harness.CASE, "method", "loss"])
    assert harness.gaps(table, "Euclid", "loss").gap.tolist() == [0, 0, 0.5, 3]


def test_a_training_set_has_the_shares_of_the_classes_and_two_of_each():
    y = np.repeat([0, 1, 2], [70, 28, 2])
    assert harness.shares(y, 20).tolist() == [13, 5, 2]
    X = np.random.default_rng(0).normal(size=(100, 3)) * [1, 5, 0]
    ((size, A, a, B, b),) = harness.problems(X, np.repeat([0, 1], [70, 30]), 0, [20])
    assert (size, len(a), len(b)) == (20, 20, 30)
    np.testing.assert_allclose(A.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(A.std(0), 1)
    assert A.shape[1] == B.shape[1] == 2


def test_numbers_of_triplets_come_back_from_csv(tmp_path, monkeypatch):
    numbers = triplets.stored()
    monkeypatch.setattr(triplets, "NUMBERS", tmp_path / "t.csv")
    monkeypatch.setattr(triplets, "OUT", tmp_path / "t.md")
    triplets.table(numbers)
    assert triplets.stored() == numbers
    assert sum(map(len, numbers["fits"].values())) >= 100


def test_a_stopped_run_continues_and_repeats_nothing(tmp_path, monkeypatch):
    calls = []

    def rows(method, A, a, B, b, seed):
        calls.append((method, len(a), seed))
        yield {"log_loss": method}

    study = harness.Study({"Euclid": 1.0, "other": 3.0}, rows, (20, 40), sets=("iris",))
    path = tmp_path / "s.csv"
    words = {"data": None, "sets": (), "sizes": (), "methods": (), "minutes": 1}
    options = harness.parser(["s"], "").parse_args([])
    for key, value in words.items():
        setattr(options, key, value)
    options.first, options.seeds = 0, 1
    harness.run(study, path, options)
    assert len(calls) == 4
    options.seeds = 2
    harness.run(study, path, options)
    assert calls[4:] == [(1.0, 20, 1), (3.0, 20, 1), (1.0, 40, 1), (3.0, 40, 1)]
    assert len(pd.read_csv(path)) == 8
    assert "| other | +2.000" in "\n".join(harness.tables(study, pd.read_csv(path)))
