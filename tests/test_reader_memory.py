"""Readers take no more memory than what they return asks for, hostile files included.

The arrays of NumPy and of the standard library are traced by ``tracemalloc``, which
needs no clock and no process of its own; what pandas and Arrow take is measured by
``tools/reader_memory.py``, in processes.
"""

import gzip
import json
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import probmetric as pm
from probmetric.files import Archive
from probmetric.report.run import read_summary, write_summary

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import hostile_files as files
import reader_memory as tool

ROWS = 1 << 14
"""Rows that a hostile file promises: 2.6 MB of float64."""

MOST = 1 << 19
"""Bytes that are taken of such a file: headers, buffers."""

SMALL = {"names of many letters", "many members"}
"""What is hostile only when it is larger."""


def traced(read):
    """Return the most bytes that were held at one time."""
    tracemalloc.start()
    try:
        try:
            read()
        except ValueError:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    paths = {kind: files.whole_file(folder, 64, kind) for kind in ("npz", "metric.npz")}
    pm.datasets.load(paths["npz"])
    pm.load_metric(paths["metric.npz"])
    return paths


def test_archives_that_promise_much_take_little(small, tmp_path):
    over = {}
    path = tmp_path / "hostile.npz"
    for name, members in files.of_arrays(ROWS):
        if name not in SMALL:
            files.archive(path, members)
            over[name] = traced(lambda: pm.datasets.load(path))
    for name, members in files.of_metrics(small["metric.npz"], ROWS):
        files.archive(path, members)
        over[f"metric: {name}"] = traced(lambda: pm.load_metric(path))
    assert len(over) > 15
    assert {name: size for name, size in over.items() if size > MOST} == {}


def test_an_archive_of_little_but_its_directory_is_refused(tmp_path):
    path = files.archive(tmp_path / "d.npz", {f"{k}": b"" for k in range(10_000)})
    with pytest.raises(ValueError, match="a directory of 538890 bytes in a file of"):
        pm.datasets.load(path)
    assert traced(lambda: pm.datasets.load(path)) < MOST


def test_to_read_first_and_refuse_then_would_be_noticed(small, tmp_path):
    wrong = dict(files.of_arrays(ROWS))["labels of another shape"]
    path = files.archive(tmp_path / "hostile.npz", wrong)
    assert traced(lambda: np.load(path)["y"]) > 4 * MOST


def test_whole_archives_take_what_they_return_and_little_more(tmp_path):
    path = files.whole_file(tmp_path, ROWS, "npz")
    size = 8 * 20 * ROWS
    assert size < traced(lambda: pm.datasets.load(path)) < 2.5 * size


@pytest.mark.parametrize("text", ["[]", '{"a": 1}'])
def test_a_summary_of_nothing_but_lists_is_refused_unparsed(text, tmp_path):
    path = tmp_path / "summary.json"
    write_summary(path, "fit", {"numbers": np.ones((100, 3))})
    assert read_summary(tmp_path)["numbers"] == [[1.0] * 3] * 100
    path.write_text(f"[{','.join([text] * 200_000)}]")
    with pytest.raises(ValueError, match=r"DIR: .*lists and mappings are too many"):
        read_summary(tmp_path)
    assert traced(lambda: read_summary(tmp_path)) < 3 * path.stat().st_size
    assert traced(lambda: json.loads(path.read_text())) > 8 * path.stat().st_size


def test_many_arrays_are_read_in_one_pass(tmp_path, monkeypatch):
    np.savez(tmp_path / "d.npz", **{f"a{k}": np.arange(k) for k in range(50)})
    archive, opened = Archive(tmp_path / "d.npz"), []
    plain = zipfile.ZipFile.__init__

    def counted(*given, **more):
        opened.append(given)
        plain(*given, **more)

    monkeypatch.setattr(zipfile.ZipFile, "__init__", counted)
    assert {name: len(array) for name, array in archive.read().items()} == {
        f"a{k}": k for k in range(50)
    }
    assert archive.forms(["a3", "a4"])["a4"].shape == (4,)
    assert len(opened) == 2


@pytest.mark.parametrize("shape", ["(10**12, 20)", f"({2**58}, 8)", "(True, 20)"])
def test_an_npy_file_of_another_shape_than_it_holds_is_refused(shape, tmp_path):
    path = tmp_path / "d.npy"
    path.write_bytes(files.header(shape.replace("10**12", str(10**12))) + bytes(160))
    with pytest.raises(ValueError, match=r"^data: expected (an array|\d+ bytes)"):
        pm.open(path)


TEXTS = {
    "a long line": ("x,label\n" + "0" * 5_000_000 + ",a\n", "a line of more than"),
    "many columns": ("1," * 300_000, "more than 100000 columns"),
    "an open quote": (
        'x,label\n"' + "1,a\n" * 1_200_000,
        "without the end of a row|expected quotes that end",
    ),
    "long names": (
        "x,label\n" + "".join(f"1,{'a' * 997}{k}\n" for k in range(3000)),
        "^data: expected short names of classes in t.csv.gz, got .* drop=",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_packed_text_without_rows_is_refused_with_the_reason(name, tmp_path):
    text, reason = TEXTS[name]
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(text)
    with pytest.raises(ValueError, match=reason):
        pm.datasets.load(path)


def test_long_texts_that_are_left_out_are_no_hindrance(tmp_path):
    path = tmp_path / "t.csv.gz"
    rows = [f"{k},{'note ' * 1000}{k},{'ab'[k % 2]}\n" for k in range(1500)]
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write("x,note,label\n" + "".join(rows))
    data = pm.datasets.load(path, drop=["note"])
    np.testing.assert_array_equal(data.X[:, 0], np.arange(1500))
    assert data.target_names == ("a", "b")
    assert pm.datasets.load(path, features=["x"]).X.shape == (1500, 1)


def test_beyond_the_limit_is_said(small):
    case = tool.Case("npz", "labelled", small["npz"], small["npz"])
    honest = tool.Measured(tool.SLACK + 2.9 * 10, 10.0, "read")
    assert honest.peak <= tool.most(case, honest)
    assert honest.peak + 2 > tool.most(case, honest)


@pytest.mark.study
def test_no_reader_takes_three_times_what_it_returns(capsys):
    assert tool.main(["--megabytes", "40"]) == 0, capsys.readouterr().out


@pytest.mark.slow
def test_a_reader_that_copies_what_it_reads_is_beyond_the_limit(capsys):
    assert tool.main(["--megabytes", "16", "--kinds", "npz", "--break"]) == 1
    assert "BEYOND" in capsys.readouterr().out
