"""Sources: every row once, in order, in blocks of one shape; what is wrong is named."""

import contextlib
import os
import re
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probmetric as pm
from probmetric.large import files
from probmetric.large.choose import labels_at
from probmetric.large.passes import hash_of
from probmetric.large.source import (
    BINS,
    CHUNK,
    Block,
    Filled,
    Part,
    Source,
    ahead,
    bins,
    block_rows,
    checked,
    class_counts,
    filled,
    labels_of,
    most_rows,
    sample_rows,
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def points(n: int = 1000, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(0, 4, n)


def table(X: np.ndarray, y: np.ndarray, *, packed: bool = False) -> Any:
    if packed:
        flat = pa.array(X.reshape(-1))
        columns = {"x": pa.FixedSizeListArray.from_arrays(flat, X.shape[1])}
    else:
        columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pa.table({**columns, "kind": y, "w": np.arange(len(X)) % 3 + 0.5})


def stored(folder: Path, kind: str, n: int = 1000) -> tuple[Source, np.ndarray]:
    """Return a source of n rows of one kind, and X."""
    X, y = points(n)
    cuts = [0, n // 3, n]
    if kind == "arrays":
        return pm.open(X, label=y, weight=np.arange(n) % 3 + 0.5), X
    for number, (a, b) in enumerate(pairwise(cuts)):
        if kind == "npy":
            np.save(folder / f"X{number}.npy", X[a:b])
            np.save(folder / f"y{number}.npy", y[a:b])
            np.save(folder / f"w{number}.npy", (np.arange(n) % 3 + 0.5)[a:b])
            continue
        rows = table(X[a:b], y[a:b], packed=kind == "packed")
        at = rows.schema.get_field_index("w")
        rows = rows.set_column(at, "w", pa.array((np.arange(n) % 3 + 0.5)[a:b]))
        pq.write_table(rows, folder / f"r{number}.parquet", row_group_size=97)
    if kind == "npy":
        label, weight = folder / "y*.npy", folder / "w*.npy"
        return pm.open(folder / "X*.npy", label=label, weight=weight), X
    return pm.open(folder / "*.parquet", label="kind", weight="w"), X


def blocks(source: Source, rows: int | None = None) -> list[Filled]:
    rows = rows or block_rows(source)
    classes, _ = class_counts(source)
    return [
        b
        for parts in bins(source.parts)
        for b in filled(source, parts, rows, classes=classes)
    ]


@pytest.mark.parametrize("kind", ["arrays", "npy", "columns", "packed"])
@pytest.mark.parametrize("rows", [16, 333])
def test_every_row_comes_once_in_order(tmp_path: Path, kind: str, rows: int) -> None:
    source, X = stored(tmp_path, kind)
    y = points()[1]
    found = blocks(source, rows)
    assert {b.X.shape for b in found} == {(rows, 3)}
    np.testing.assert_array_equal(np.concatenate([b.X[: b.rows] for b in found]), X)
    np.testing.assert_array_equal(np.concatenate([b.y[: b.rows] for b in found]), y)
    w = np.concatenate([b.w[: b.rows] for b in found])
    np.testing.assert_array_equal(w, np.arange(1000) % 3 + 0.5)
    assert all(not b.w[b.rows :].any() and not b.X[b.rows :].any() for b in found)
    first = np.cumsum([0, *(b.rows for b in found)])[:-1]
    assert [b.first for b in found] == first.tolist()


@pytest.mark.parametrize("kind", ["npy", "columns", "packed"])
def test_no_buffer_is_used_twice(tmp_path: Path, kind: str) -> None:
    found = blocks(stored(tmp_path, kind)[0], 64)
    kept = [b.X.copy() for b in found]
    for one, other in pairwise(found):
        assert not np.shares_memory(one.X, other.X)
    assert all((b.X == k).all() for b, k in zip(found, kept, strict=True))


def test_opening_reads_metadata_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object, **kwargs: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", refused)
    monkeypatch.setattr(files._Array, "values", refused)
    for kind in ("npy", "columns"):
        folder = tmp_path / kind
        folder.mkdir()
        source, _ = stored(folder, kind)
        assert sum(part.rows for part in source.parts) == 1000
        assert isinstance(source, Source)


def test_text_labels_are_classes_by_name(tmp_path: Path) -> None:
    X, y = points(100)
    names = np.array(["d", "b", "a", "c"])[y]
    rows = table(X, y)
    for column in (pa.array(names), pa.array(names).dictionary_encode()):
        rows = rows.set_column(3, "kind", column)
        pq.write_table(rows, tmp_path / "t.parquet")
        source = pm.open(tmp_path / "t.parquet", label="kind", drop=["w"])
        classes, counts = class_counts(source)
        assert classes.tolist() == ["a", "b", "c", "d"]
        assert counts.tolist() == [(names == c).sum() for c in "abcd"]
        np.testing.assert_array_equal(classes[blocks(source, 128)[0].y[:100]], names)


def test_a_giant_part_and_empty_ones_find_their_bins() -> None:
    rows = [0, 1, 10**9, 0, 5]
    first = np.cumsum([0, *rows])
    parts = [Part("", int(a), r) for a, r in zip(first, rows, strict=False)]
    assert sum(map(len, bins(parts))) == 3
    assert len(bins(parts)) == BINS
    assert bins([]) == [[]] * BINS


@pytest.mark.parametrize("group", [1000, 50_000, 100_000, 262_144, 10**6])
@pytest.mark.parametrize("n", [10**5, 10**6, 10**7])
def test_blocks_are_filled_up_little(n: int, group: int) -> None:
    source = files.Rows(np.zeros((1, 16)))
    source.parts = [Part("", a, min(group, n - a)) for a in range(0, n, group)]
    rows = block_rows(source)
    assert rows <= most_rows(16)
    sizes = [sum(p.rows for p in own) for own in bins(source.parts) if own]
    read = sum(-(-size // rows) * rows for size in sizes)
    assert read <= (1.32 if n == 10**5 else 1.16) * n
    assert rows % CHUNK == 0 or rows < CHUNK


def damaged(folder: Path, kind: str, row: int, value: float) -> Source:
    X, y = points()
    X[row, 1] = value
    if kind == "npy":
        np.save(folder / "X.npy", X)
        return pm.open(folder / "X.npy")
    rows = table(X, y, packed=kind == "packed")
    if kind == "columns":
        rows = rows.rename_columns(["length", "width", "mass", "kind", "w"])
    pq.write_table(rows, folder / "r.parquet", 300)
    return pm.open(folder / "r.parquet", label="kind", drop=["w"])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize(
    "kind, where",
    [
        ("npy", "column 'x1' of row 777 of {}/X.npy"),
        ("columns", "column 'width' of row 177 of {}/r.parquet, row group 2"),
        ("packed", "column 'x1' of row 177 of {}/r.parquet, row group 2"),
    ],
)
def test_what_is_not_finite_is_named(
    tmp_path: Path, kind: str, where: str, value: float
) -> None:
    source = damaged(tmp_path, kind, 777, value)
    with pytest.raises(ValueError, match=re.escape(where.format(tmp_path))):
        list(filled(source, source.parts, 100))


def test_missing_labels_and_weights_are_named(tmp_path: Path) -> None:
    X, y = points(100)
    for kind, lacking in {"kind": "row 1 of", "x0": "column 'x0' of row 1 of"}.items():
        rows = table(X[:3], y[:3])
        at = rows.schema.get_field_index(kind)
        rows = rows.set_column(at, kind, pa.array([1.0, None, 2.0]))
        pq.write_table(rows, tmp_path / "t.parquet")
        source = pm.open(tmp_path / "t.parquet", label="kind")
        with pytest.raises(ValueError, match=lacking):
            list(filled(source, source.parts, 10))


def test_files_that_vanish_or_change_are_named(tmp_path: Path) -> None:
    for kind, name in {"npy": "X1.npy", "columns": "r1.parquet"}.items():
        folder = tmp_path / kind
        folder.mkdir()
        source, _ = stored(folder, kind)
        path = folder / name
        whole = path.read_bytes()
        os.utime(path, ns=(0, 0))
        with pytest.raises(ValueError, match=rf"{name}' changed after it was opened"):
            blocks(source)
        path.write_bytes(whole[:-200])
        with pytest.raises(ValueError, match=rf"{name}' changed after it was opened"):
            blocks(source)
        path.unlink()
        with pytest.raises(
            ValueError, match=rf"{name}' was removed after it was opened \(No such file"
        ):
            blocks(source)


def test_a_row_group_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    X, y = points()
    path = tmp_path / "r.parquet"
    pq.write_table(table(X, y), path, row_group_size=300, compression="zstd")
    column = pq.read_metadata(path).row_group(2).column(0)
    data = bytearray(path.read_bytes())
    at = column.dictionary_page_offset or column.data_page_offset
    data[at : at + column.total_compressed_size] = (
        b"\x55" * column.total_compressed_size
    )
    path.write_bytes(data)
    source = pm.open(path, label="kind")
    with pytest.raises(ValueError, match=r"r\.parquet, row group 2 cannot be read"):
        list(filled(source, source.parts, 100))


def test_text_files_are_refused_with_the_way_to_convert_them(tmp_path: Path) -> None:
    X, y = points(50)
    path = tmp_path / "rows.csv"
    header = "x0,x1,x2,kind"
    np.savetxt(path, np.c_[X, y], delimiter=",", header=header, comments="")
    with pytest.raises(ValueError, match="convert it once") as caught:
        pm.open(path)
    # What the sentence says is run as it stands.
    short, says = str(caught.value).split("once: ")[1].split(", or in batches: ")
    head, body = says.rsplit(": ", 1)
    import pyarrow.csv

    assert pyarrow.csv is not None
    for remedy in short, f"{head}:\n    {body}":
        with contextlib.chdir(tmp_path):
            exec(remedy, {"pandas": pd, "pyarrow": __import__("pyarrow")})
        source = pm.open(tmp_path / "rows.parquet", label="kind")
        (block,) = blocks(source, 64)
        np.testing.assert_allclose(block.X[:50], X, rtol=1e-15)
        (tmp_path / "rows.parquet").unlink()


def test_a_folder_of_text_is_text(tmp_path: Path) -> None:
    """In a pattern too; Parquet files beside text are read, as of any folder."""
    for folder in ("texts", "both", "bare"):
        (tmp_path / folder).mkdir()
    for path in (tmp_path / "texts/b.csv", tmp_path / "texts/a.CSV"):
        path.write_text("a,y\n1,0\n")
    for where in ("texts", "text*", "texts/*"):
        with pytest.raises(ValueError, match=r"got CSV \('.*a\.CSV'\); convert"):
            pm.open(tmp_path / where)
    (tmp_path / "texts/b.csv").rename(tmp_path / "texts/0.json")
    with pytest.raises(ValueError, match=r"got text \('.*0\.json'\); write .* pandas"):
        pm.open(tmp_path / "texts")
    (tmp_path / "both/a.csv").write_text("a,y\n1,0\n")
    pq.write_table(table(*points(5)), tmp_path / "both/a.parquet")
    for where in ("both", "bo*"):
        assert pm.open(tmp_path / where, label="kind").feature_names[0] == "x0"
    np.save(tmp_path / "bare/X.npy", points(5)[0])
    (tmp_path / "bare/README.txt").write_text("made of rows")
    for where in ("bare", "b*"):
        with pytest.raises(ValueError, match=r"^data must be files, or .* folder"):
            pm.open(tmp_path / where)


def test_a_giant_row_group_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = points()
    pq.write_table(table(X, y), tmp_path / "old.parquet")
    monkeypatch.setattr(files, "LARGEST_GROUP", 10_000)
    with pytest.raises(ValueError, match="write the file again") as caught:
        pm.open(tmp_path / "old.parquet")
    says = str(caught.value).split("again: ")[1].replace("262144", "100")
    head, body = says.rsplit(": ", 1)
    names = {"pyarrow": pa, "old": tmp_path / "old.parquet"}
    exec(f"{head}:\n    {body}", {**names, "new": tmp_path / "new.parquet"})
    found = pm.open(tmp_path / "new.parquet", label="kind", drop=["w"])
    assert [part.rows for part in found.parts] == [100] * 10


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    X, y = points(20)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y[:10])
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))
    np.save(tmp_path / "wide.npy", np.ones((3, 4)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "X.npy").read_bytes()[:-8])
    (tmp_path / "no.parquet").write_bytes(b"nothing")
    rows = table(X, y)
    pq.write_table(
        rows.append_column("t", pa.array(["a"] * 20)), tmp_path / "t.parquet"
    )
    for arguments, said in [
        (((tmp_path / "absent.npy"),), "must be existing files, got none at"),
        (((tmp_path / "*.npy"),), "shape .*, got .* by columns. Save np.asc"),
        (((tmp_path / "[Xw]*.npy"),), "must have 3 columns, as in"),
        (((tmp_path / "cut.npy"),), r"cut\.npy.* cannot be read"),
        (((tmp_path / "no.parquet"),), "no.parquet.* cannot be read"),
        (((tmp_path / "t.parquet"),), "must be numbers in every feature, got string"),
        (((tmp_path / "*.*"),), "all end in .parquet, or all in .npy"),
        ((np.array([["a"]]),), "must be numbers of shape"),
        ((np.ones((0, 3)),), "must be numbers of shape"),
    ]:
        with pytest.raises(ValueError, match=said):
            pm.open(*arguments)
    with pytest.raises(
        ValueError, match=r"label: files must have the same numbers of rows .* \[20\]"
    ):
        pm.open(tmp_path / "X.npy", label=tmp_path / "y.npy")
    with pytest.raises(ValueError, match=r"label must be a column of t\.parquet"):
        pm.open(tmp_path / "t.parquet", label="none")
    with pytest.raises(ValueError, match=r"label must have shape \(20,\)"):
        pm.open(X, label=y[:5])
    with pytest.raises(ValueError, match="features and drop"):
        pm.open(X, features=["a"])
    source = pm.open(tmp_path / "t.parquet", features=["x2", "x0"], label="t")
    assert source.feature_names == ("x2", "x0")


def test_the_next_block_is_read_meanwhile_by_one_thread() -> None:
    made: list[int] = []

    def items() -> "object":
        for k in range(5):
            made.append(k)
            yield k

    list(ahead(iter([0])))
    before = threading.active_count()
    reader = ahead(items())  # type: ignore[arg-type]
    assert next(reader) == 0
    reader.close()  # type: ignore[attr-defined]
    assert made == [0, 1]
    assert threading.active_count() == before

    def failing() -> "object":
        yield 0
        raise ValueError("row 7")

    with pytest.raises(ValueError, match="row 7"):
        list(ahead(failing()))  # type: ignore[arg-type]
    assert threading.active_count() == before


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_blocks_begin_where_xla_takes_them_without_a_copy(tmp_path, kind):
    source, _ = stored(tmp_path, kind, 6000)
    for b in bins(source.parts):
        for block in filled(source, b, block_rows(source)):
            assert block.X.ctypes.data % 64 == 0


def chunked(folder: Path, kind: str) -> tuple[Source, np.ndarray]:
    """Return a source of two files, or of arrays, in several parts each, and labels."""
    rng, first, n, d = np.random.default_rng(0), 2500, 7500, 130
    X = rng.integers(0, 9, (n, d)).astype(np.float32)
    y, w = (np.arange(n) ** 2 % 11).astype(float), np.arange(n) % 5 + 0.5
    if kind == "arrays":
        return pm.open(X, label=y, weight=w), y
    for number, some in enumerate((slice(0, first), slice(first, n))):
        np.save(folder / f"X{number}.npy", X[some])
        np.save(folder / f"y{number}.npy", y[some])
        np.save(folder / f"w{number}.npy", w[some])
    beside = {"label": folder / "y*.npy", "weight": folder / "w*.npy"}
    return pm.open(folder / "X*.npy", **beside), y


@pytest.mark.parametrize("kind", ["arrays", "npy"])
@pytest.mark.parametrize("rows", [700, 2048])
def test_labels_and_weights_beyond_the_first_chunk(
    tmp_path: Path, kind: str, rows: int
) -> None:
    source, y = chunked(tmp_path, kind)
    assert len(source.parts) > 3
    read = [b for part in source.parts for b in source.read(part, rows)]
    labels = [b.labels.values[b.labels.codes] for b in read if b.labels is not None]
    np.testing.assert_array_equal(np.concatenate(labels), y)
    weights = np.concatenate([b.w for b in read if b.w is not None])
    np.testing.assert_array_equal(weights, np.arange(7500) % 5 + 0.5)
    classes, counts = class_counts(source)
    weighted = [(y == c).sum() for c in range(11)]
    assert dict(zip(classes.tolist(), counts.tolist(), strict=True)) == {
        c: n for c, n in enumerate(weighted) if n
    }
    some = np.array([0, 2047, 2499, 2500, 4999, 7499])
    np.testing.assert_array_equal(labels_at(source, some), y[some])


@pytest.mark.parametrize("rows", [(60, 41), (50, 50), (101,)])
def test_data_of_other_rows_are_other_data(
    tmp_path: Path, rows: tuple[int, ...]
) -> None:
    """Also with the names and as many files: a pass over them is not taken again."""

    def source(*rows: int) -> Source:
        for path in tmp_path.glob("*.npy"):
            path.unlink()
        for number, n in enumerate(rows):
            np.save(tmp_path / f"X{number}.npy", np.zeros((n, 2)))
        return pm.open(tmp_path / "X*.npy")

    key = hash_of(source(60, 40))
    assert hash_of(source(60, 40)) == key
    assert hash_of(source(*rows)) != key


def test_an_error_names_the_row_of_its_file_and_the_column():
    # Rows 20 to 29 of the source are rows 5 to 14 of their file; a block begins at 24.
    part = Part("b.csv", 20, 10, start=5)
    X, labels = np.zeros((4, 2)), np.array([3, 3, 9, 3])
    block = Block(X, labels_of(labels, part, 24), np.ones(4), 24)
    with pytest.raises(ValueError, match=r"got 9 in row 11 of b\.csv"):
        checked(block, part, np.array([3]), ["x", "y"])
    X[1, 1] = np.inf
    with pytest.raises(ValueError, match=r"got inf in column 'y' of row 10 of b\.csv"):
        checked(block, part, None, ["x", "y"])
    negative = block._replace(X=np.zeros((4, 2)), w=np.array([1.0, 1, 1, -2]))
    with pytest.raises(ValueError, match=r"got -2\.0 in row 12 of b\.csv"):
        checked(negative, part, None, ["x", "y"])
    with pytest.raises(ValueError, match=r"got none in row 11 of b\.csv"):
        labels_of(np.array([1.0, 2.0, np.nan]), part, 24)


def test_rows_without_weight_are_neither_counted_nor_sampled():
    label, weight = np.array([7, 7, 3, 7, 9]), np.array([1.0, 0, 2, 0.5, 0])
    source = pm.open(np.arange(5.0)[:, None], label=label, weight=weight)
    classes, counts = class_counts(source)
    assert (classes.tolist(), counts.tolist()) == ([3, 7], [1, 2])
    X, y, w = sample_rows(source, classes=classes)
    assert (X.ravel().tolist(), y.tolist()) == ([0, 2, 3], [1, 0, 1])
    assert w.tolist() == [1, 2, 0.5]
