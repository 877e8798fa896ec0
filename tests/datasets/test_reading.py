"""Files as they come: separators, decimal commas, encodings, columns left out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probmetric as pm
from probmetric.datasets import load, load_points
from probmetric.names import Reading


@pytest.fixture
def frame():
    kinds = ["röd", "grå", "röd"]
    return pd.DataFrame({"höjd": [1.5, 2.25, -3.0], "b": [4, 5, 6], "kind": kinds})


WAYS = {
    "t.tsv": ({"sep": "\t"}, {}),
    "t.csv.gz": ({}, {}),
    "t.tsv.gz": ({"sep": "\t"}, {}),
    "semicolons.csv": ({"sep": ";"}, {"sep": ";"}),
    "tab.csv": ({"sep": "\t"}, {"sep": "tab"}),
    "excel.csv": ({"sep": ";", "decimal": ","}, {"sep": ";", "decimal": ","}),
    "latin.csv": ({"encoding": "latin-1"}, {"encoding": "latin-1"}),
    "utf16.csv": ({"encoding": "utf-16"}, {"encoding": "utf-16"}),
    "bom.csv": ({"encoding": "utf-8-sig"}, {}),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_table_is_the_same_however_it_is_written(tmp_path, frame, name):
    written, read = WAYS[name]
    frame.to_csv(tmp_path / name, index=False, **written)
    data = load(tmp_path / name, **read)
    np.testing.assert_array_equal(data.X, frame[["höjd", "b"]].to_numpy())
    assert data.feature_names == ("höjd", "b")
    assert data.target_names == ("grå", "röd")
    # Without names nothing is lost.
    frame.to_csv(tmp_path / name, index=False, header=False, **written)
    np.testing.assert_array_equal(load(tmp_path / name, **read).X, data.X)


PARTS = {
    "words below numbers": ("x,label\n1,1\n2,01\n3,2\n4,none\n5,1\n", ["1", "01"]),
    "a word above numbers": ("x,label\n1,none\n2,1\n3,2\n4,2\n", ["none", "1"]),
    "numbers of two kinds": ("x,label\n1,1\n2,0\n3,1.5\n4,\n", None),
    "quoted ends of lines": ('x,label\n1,"a\nb"\n2,c\n3,"a\nb"\n', ["a\nb", "c"]),
    "texts and numbers": ("x,t,z,label\n1,p,3,a\n2,q,4,b\n3,p,5,c\n", None),
    "without names": ("1,2,0\n3,4,1\n5,6,0\n", ["0", "1"]),
}


@pytest.mark.parametrize("name", PARTS)
def test_labels_are_spelled_as_in_the_file_and_word_columns_are_refused(tmp_path, name):
    text, labels = PARTS[name]
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    if labels is None:
        with pytest.raises(ValueError, match=r"^(label|data)\b"):
            load(path)
        return
    data = load(path)
    assert [data.target_names[k] for k in data.y][:2] == labels


def test_a_text_file_is_opened_once(tmp_path, monkeypatch):
    path, opened, plain = tmp_path / "t.csv", [], Path.open
    path.write_text("1,2,01\n3,4,1\n5,6,01\n")
    monkeypatch.setattr(
        Path, "open", lambda *a, **k: opened.append(a[0]) or plain(*a, **k)
    )
    assert load(path).target_names == ("01", "1")
    assert opened == [path]


def test_columns_are_dropped_or_chosen_in_the_order_asked_for(tmp_path, frame):
    path = tmp_path / "t.csv"
    frame.assign(when="2020-01-01").to_csv(path, index=False)
    data = load(path, drop=["when"])
    assert data.feature_names == ("höjd", "b")
    assert data.target_names == ("grå", "röd")
    chosen = load(path, label="kind", features=["b", "höjd"])
    np.testing.assert_array_equal(chosen.X, data.X[:, ::-1])
    assert load(path, label="kind", drop="when", features="b").feature_names == ("b",)
    np.savez(tmp_path / "t.npz", X=data.X, y=data.y, feature_names=["p", "q"])
    stored = load(tmp_path / "t.npz", features=["q"])
    np.testing.assert_array_equal(stored.X, data.X[:, 1:])
    assert stored.feature_names == ("q",)
    named = load("iris", drop=["sepal width (cm)"])
    np.testing.assert_array_equal(named.X, load("iris").X[:, [0, 2, 3]])


def test_points_are_read_in_the_same_ways(tmp_path, frame):
    path = tmp_path / "t.csv"
    frame.assign(when="x").to_csv(path, index=False, sep=";", decimal=",")
    how = Reading(sep=";", decimal=",", drop=("when",))
    found = load_points(path, 2, how=how)
    np.testing.assert_array_equal(found.X, frame[["höjd", "b"]].to_numpy())
    assert list(found.labels) == list(frame["kind"])
    alone = load_points(path, 1, how=Reading(";", ",", features=("b",)))
    assert alone.labels is None
    np.testing.assert_array_equal(alone.X[:, 0], frame["b"])


BAD = {
    "pandas' index": (
        ",a,b,y\n0,1,2,0\n1,3,4,1\n",
        {},
        "none for column 1. It may be pandas' index, .* drop=.'Unnamed: 0'.",
    ),
    "two pairs of columns": (
        "a,b,c,a,b,y\n1,2,3,4,5,0\n6,7,8,9,1,1\n",
        {},
        r"got 'a', 'b' more than once\. .*\(--drop 'a' --drop 'b'\)$",
    ),
    "a class that is not last": (
        "kind,a,b\nx,1,2\ny,3,4\n",
        {},
        r"By default the last column, 'b', is the class. If the class is 'kind', use "
        r"label='kind' \(--label 'kind'\)\. .*drop=\['kind'\] \(--drop 'kind'\)",
    ),
    "a mark for missing": (
        "a,b,y\n1,2,0\n?,3,1\n",
        {},
        r"\('\?' among numbers in row 1, counted from 0\)\. "
        r"Use na=\['\?'\] \(--na '\?'\) "
        "if it means a missing value; otherwise omit the column$",
    ),
    "thousands": (
        'a,y\n"1,304.00",0\n200.5,1\n',
        {},
        r"\('1,304.00' among numbers in row 0, counted from 0\)\. Use thousands=',' "
        r"\(--thousands ,\) if ',' separates thousands$",
    ),
    "thousands = decimal": (
        "a,y\n1,2\n",
        {"thousands": "."},
        r"^decimal and thousands must be different .*got '\.' for both",
    ),
    "a date": (
        "when,a,kind\n2020-01-01,1,x\n2020-01-02,2,y\n",
        {"label": "kind"},
        r"dates in 'when' \('2020-01-01' in row 0, counted from 0\)\. .*"
        r"drop=\['when'\] \(--drop 'when'",
    ),
    "decimal commas": (
        "a;y\n1,5;0\n2,5;1\n",
        {"sep": ";"},
        r"'1,5' in row 0, counted from 0\)\. "
        r"Use decimal=',' \(--decimal ,\) if ',' is the decimal point$",
    ),
    "semicolons": ("a b;y\n1;0\n", {}, r"got lines like 'a b;y' .*\(--sep ';'\)"),
    "latin": (
        b"a,y\n1,\xe5\n2,b\n",
        {},
        r"in the encoding 'utf-8'.*--encoding latin-1",
    ),
    "an encoding that is none": (
        "a,y\n1,2\n",
        {"encoding": "utf8x"},
        "^encoding must be a Python codec, such as utf-8 or cp1252, got 'utf8x'$",
    ),
    "a row too long": (
        "a,b,y\n1,2,0\n\n1,2,3,0\n",
        {},
        r"^data: every row of .*t\.csv' must have 3 columns, .* got 4 in line 4\.",
    ),
    "a quote without an end": (
        'a,b,y\n1,2,0\n1,2,"0\n1,2,0\n',
        {},
        r"^data must have a closing quote .* in line 3 of '.*t\.csv'$",
    ),
    "long separator": ("a,y\n1,2\n", {"sep": ";;"}, "sep must be one character"),
    "drop": ("a,y\n1,2\n", {"drop": ["b"]}, r"drop must be columns of t.csv \(a\)"),
    "the label": (
        "a,y\n1,2\n",
        {"features": ["y"]},
        "column of label or groups, got 'y'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_meant_is_refused_with_the_remedy(tmp_path, case):
    text, how, message = BAD[case]
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        load(path, **how)


def test_texts_and_numbers_that_mean_missing_are_nan(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,-999,u\n?,-998,v\n-999.0,3,-999x\n")
    data = load(path, na=["?", "-999"])
    np.testing.assert_array_equal(data.X, [[1, np.nan], [np.nan, -998], [np.nan, 3]])
    assert data.target_names == ("-999x", "u", "v")
    assert load(path, na="?").X.tolist()[0] == [1, -999]
    path.write_text("a,y\n1,u\n2,?\n")
    with pytest.raises(ValueError, match="label must have a value in every row"):
        load(path, na="?")


@pytest.mark.parametrize(
    "text, how",
    [
        ('a,b,y\n"1,304.50",7,u\n"-2,000,001",8.5,v\n0.25,1e3,u\n', {}),
        ('"1,304.50",7,u\n"-2,000,001",8.5,v\n0.25,1e3,u\n', {}),  # Without names.
        (
            "a;b;y\n1.304,50;7;u\n-2.000.001;8,5;v\n0,25;1e3;u\n",
            {"sep": ";", "decimal": ",", "thousands": "."},
        ),
        (
            "a;b;y\n1 304.50;7;u\n-2 000 001;8.5;v\n.25;1000;u\n",
            {"sep": ";", "thousands": " "},
        ),
    ],
)
def test_thousands_separators_are_read(tmp_path, text, how):
    path = tmp_path / "t.csv"
    path.write_text(text)
    data = load(path, **{"thousands": ",", **how})
    wanted = [[1304.5, 7], [-2000001, 8.5], [0.25, 1000]]
    np.testing.assert_array_equal(data.X, wanted)
    assert data.target_names == ("u", "v")


def test_columns_of_one_name_in_parquet_are_named(tmp_path):
    rows = pa.table([[1.0, 2.0], [3.0, 4.0], ["u", "v"]], names=["a", "a", "y"])
    pq.write_table(rows, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="more than one column 'a'"):
        load(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"more than one column 'a' in t\.parquet"):
        pm.open(tmp_path / "t.parquet", label="y")


@pytest.mark.parametrize("name", ["wine", "t.npz"])
def test_ways_of_reading_text_are_refused_where_there_is_none(tmp_path, name):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=[0, 1, 1])
    source = name if name == "wine" else tmp_path / name
    with pytest.raises(ValueError, match="sep requires a text file, got"):
        load(source, sep=";")


@pytest.mark.parametrize(
    "text, names, n",
    [
        ("0,1,y\n1,2,0\n2,1,1\n3,3,0\n", ("0", "1"), 3),  # as pandas writes
        ("0,1,2\n1,2,0\n2,1,1\n3,3,0\n", ("0", "1"), 3),
        ("1950,1951,y\n1,2,0\n2,1,1\n3,3,0\n", ("1950", "1951"), 3),
        ("0,1,kind\n1,2,a\n2,1,b\n3,3,a\n", ("0", "1"), 3),
        ("0,1,a\n1,2,a\n2,1,b\n3,3,b\n", None, 4),  # a row: a is a class
        ("5,1,0\n1,2,0\n2,1,1\n3,3,1\n", None, 4),
    ],
)
def test_a_first_line_of_numbers_is_names_where_it_can_be_no_row(
    text, names, n, tmp_path
):
    path = tmp_path / "some.csv"
    path.write_text(text)
    found = load(str(path))
    assert found.X.shape == (n, 2)
    assert names is None or tuple(found.feature_names) == names


@pytest.mark.parametrize(
    "written, names",
    [
        (["01", "1", "01", "1"], ("01", "1")),
        (["01", "02", "01", "02"], ("01", "02")),
        (["1.0", "1", "2", "2"], ("1", "1.0", "2")),
        (["TRUE", "true", "TRUE", "true"], ("TRUE", "true")),
        (["0", "-1", "0", "10"], ("-1", "0", "10")),
        (["0.5", "1.5", "0.5", "1.5"], ("0.5", "1.5")),
    ],
)
@pytest.mark.parametrize("head", ["a,b,kind\n", ""])
def test_labels_are_text_where_numbers_would_merge_some(tmp_path, written, names, head):
    path = tmp_path / "t.csv"
    rows = [f"{k}.5,{k}.25,{label}\n" for k, label in enumerate(written)]
    path.write_text(head + "".join(rows))
    data = load(path, unlabeled=None)
    assert data.target_names == names
    assert len(data.X) == 4
    if "10" not in names:
        np.testing.assert_array_equal(data.y, [sorted(names).index(v) for v in written])


@pytest.mark.parametrize("columns", [["höjd", "b"], ["höjd", "b", "kind"]])
def test_queries_need_neither_the_label_nor_what_is_dropped(tmp_path, frame, columns):
    frame[columns].to_csv(tmp_path / "q.csv", index=False)
    np.savez(tmp_path / "q.npz", X=frame[["höjd", "b"]].to_numpy())
    how = Reading(drop=("when",))
    for name in "q.csv", "q.npz":
        found = load_points(tmp_path / name, 2, label="kind", how=how, bare=True)
        np.testing.assert_array_equal(found.X, frame[["höjd", "b"]].to_numpy())
    with pytest.raises(ValueError, match=r"drop must be columns of q\.csv"):
        load_points(tmp_path / "q.csv", 2, how=how)
