"""Row counters and codes for missing are noted with the option that leaves them out."""

import json

import numpy as np
import pytest

from probmetric.datasets import load
from probmetric.datasets.columns import code_of, doubtful_columns, is_counter
from probmetric.datasets.loading import names
from tests.cli.runs import ran, refused, table


@pytest.mark.parametrize(
    "column, n, wanted",
    [
        ([3, 1, 2, 5, 4], 5, True),
        ([7.0, 8, 9, 10, 11, 12], 6, True),
        ([1, 2, 3, 4], 4, False),  # Too few to tell.
        ([1, 2, 3, 4, 6], 5, False),
        ([1, 2, 3, 3, 4], 5, False),
        ([1.5, 2.5, 3.5, 4.5, 5.5], 5, False),
        ([1, 2, 3, 4, np.nan], 5, False),
        ([100, 3, 70, 45, 20], 100, True),  # A sample of 100 rows.
        ([100, 3, 70, 45, 45], 100, False),
        ([30, 3, 20, 15, 10], 100, False),
        ([101, 1, 70, 45, 20], 100, False),
    ],
)
def test_a_counter_has_consecutive_distinct_whole_numbers(column, n, wanted):
    assert is_counter(np.array(column, float), n) is wanted


@pytest.mark.parametrize(
    "column, wanted",
    [
        ([-999, -999, 1, 2, 3, 4, 5.5], -999),
        ([1e4, 3, 1, 2, 9, 4, 5.5, 1e4], 1e4),
        ([-999, 1, 2, 3, 4, 5.5], None),  # Once: an outlier.
        ([-999, -999, 1, 2, 3, 4], None),  # Few other values.
        ([0, 0, 0, 1, 2, 3, 4, 5], None),
        ([-5, -5, 0, 1, 2, 3, 4, 5], None),  # As far as the others extend.
        ([-5.5, -5.5, 0, 1, 2, 3, 4, 5], -5.5),
        ([np.nan, -999, -999, 1, 2, 3, 4, 5.5], -999),
    ],
)
def test_a_code_for_missing_is_repeated_far_outside_the_rest(column, wanted):
    assert code_of(np.array(column, float)) == wanted


@pytest.mark.parametrize("name", names())
def test_columns_of_known_sets_are_not_doubted(name):
    data = load(name)
    assert doubtful_columns(data.X, data.feature_names) == []


def test_one_note_names_all_columns_and_what_to_type():
    values = np.random.default_rng(0).normal(size=9)
    coded = np.where(np.arange(9) % 3 == 0, -999, values)
    X = np.stack([np.arange(9), coded, values, 9.0 - np.arange(9), coded - 0.25], 1)
    counters, codes = doubtful_columns(X, ["row no", "b", "c", "id", "e"])
    assert counters.startswith(
        "columns 'row no', 'id': the values are consecutive whole numbers"
    )
    assert counters.endswith("use --drop 'row no' --drop id")
    assert codes.startswith("columns 'b', 'e': -999, -999.25 occurs often")
    assert "use --na -999 --na -999.25 (text files)" in codes


@pytest.fixture
def doubted(tmp_path):
    """A table of sixty rows with a counter, and a code in every tenth height."""
    frame = table().drop(columns="item")
    frame.insert(0, "id", np.arange(1, 61))
    frame.loc[::10, "height"] = -999
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


COUNTED = "note: column 'id': the values are consecutive whole numbers"
CODED = "note: column 'height': -999 occurs often and is far from the other values"


def test_a_fit_notes_what_it_learns_from(doubted, tmp_path):
    fit = "fit", "lda", "--data", doubted, "--label", "kind"
    done = ran(*fit, "--out", tmp_path / "out")
    assert done.stderr.count("note:") == 2
    assert COUNTED in done.stderr
    assert "--drop id" in done.stderr
    assert CODED in done.stderr
    assert "--na -999" in done.stderr
    wanted = "got NaN in 6 of 60 rows, columns ['height']"
    words = "--drop", "id", "--na", "-999", "--out", tmp_path / "no"
    assert wanted in refused(*fit, *words)
    quiet = ran(*fit, "--drop", "id", "--drop", "height", "--out", tmp_path / "q")
    assert "note" not in quiet.stderr
    said = json.loads((tmp_path / "q" / "summary.json").read_text())["data"]
    assert said["reading"]["drop"] == ["id", "height"]
