"""Whole files of every kind that a reader takes, and files that ask for more memory.

A hostile file is small for what it promises: arrays of zeros that compress a thousand
times, headers of shapes that no memory holds, text without a line's end.
"""

import gzip
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

import probmetric as pm
from probmetric.storage import save_draws

KINDS = {
    "csv": "labelled",
    "tsv": "labelled",
    "csv.gz": "labelled",
    "parquet": "labelled",
    "narrow.csv": "labelled",
    "narrow.parquet": "labelled",
    "npz": "labelled",
    "npy": "rows",
    "rows.parquet": "rows",
    "metric.npz": "metric",
    "draws.nc": "draws",
}
"""Endings of files, and the reader of each (``reader_memory``)."""

LARGE = 10**12
"""Rows that no memory holds."""


class Hostile(NamedTuple):
    """A file, what it is in words, and the kind that it says it is."""

    name: str
    kind: str
    path: str


def _table(rows: int, columns: int = 20) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(rows, columns))
    return X, np.array(["a", "b", "c"])[np.arange(rows) % 3]


def _tree(draws: np.ndarray) -> xr.DataTree:
    posterior = xr.Dataset({"M": (("chain", "draw", "j"), draws)})
    return xr.DataTree.from_dict({"posterior": posterior})


def whole_file(folder: Path, rows: int, kind: str) -> Path:
    """Write a whole file of 20 columns of float64, or narrow, of half as many in one.

    Of a metric, and of draws, as many numbers.
    """
    X, y = _table(10 * rows, 1) if kind.startswith("narrow") else _table(rows)
    path = folder / f"{rows}.{kind}"
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    if kind == "rows.parquet":
        frame.to_parquet(path, row_group_size=1 << 18)
    elif kind.endswith("parquet"):
        frame.assign(label=y).to_parquet(path)
    elif kind.endswith(("csv", "tsv", "csv.gz")):
        sep = "\t" if kind == "tsv" else ","
        frame.assign(label=y).to_csv(path, index=False, sep=sep)
    elif kind == "npz":
        np.savez_compressed(path, X=X, y=y)
    elif kind == "npy":
        np.save(path, X)
    elif kind == "metric.npz":
        side = max(2, int(X.size**0.5))
        pm.save_metric(pm.Mahalanobis(np.resize(X, (side, side))), path)
    elif kind == "draws.nc":
        save_draws(_tree(X.reshape(4, -1, 20)), path)
    return path


def header(shape: str, descr: str = "<f8") -> bytes:
    """Return the header of an ``.npy`` file that promises a shape."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def stored(array: np.ndarray) -> bytes:
    """Return an array as the bytes of an ``.npy`` file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a compressed archive of arrays by name."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, raw in members.items():
            file.writestr(f"{name}.npy", raw)
    return path


def of_arrays(rows: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Return members of archives of labelled data."""
    X, y = _table(64)
    zeros, letters = stored(np.zeros((rows, 20))), 8 * 20 * rows // 12
    good = {"X": stored(X), "y": stored(y)}
    yield "unused array", {**good, "unused": zeros}
    yield "10^23 rows", {**good, "X": header("(99999999999999999999999, 20)")}
    yield "10^12 rows", {**good, "X": header(f"({LARGE}, 20)") + bytes(800)}
    yield "nested header", {**good, "X": header("(" * 30000)}
    long = b"\x93NUMPY\x02\x00" + (8 * rows * 20).to_bytes(4, "little")
    yield "header of many bytes", {**good, "X": long + b" " * (8 * rows * 20)}
    yield "labels of another shape", {**good, "y": zeros}
    yield "points of one axis", {**good, "X": stored(np.zeros(rows * 20))}
    yield "points of text", {**good, "X": stored(np.zeros((rows, 20), "U2"))}
    yield "labels of many letters", {**good, "y": stored(np.array(["a" * letters] * 3))}
    yield "names of another shape", {**good, "feature_names": zeros}
    names = stored(np.array(["a" * (letters // 8)] * 20))
    yield "names of many letters", {**good, "feature_names": names}
    yield "names of classes", {**good, "target_names": zeros}
    yield "many members", {**good, **{f"a{k}": b"" for k in range(rows // 2)}}


def of_metrics(small: Path, rows: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Return members of files of metrics."""
    zeros, size = stored(np.zeros((rows, 20))), 8 * 20 * rows
    axes, text = stored(np.zeros((rows, 2, 10))), stored(np.zeros((rows, 20), "U2"))
    with zipfile.ZipFile(small) as file:
        whole = {n.removesuffix(".npy"): file.read(n) for n in file.namelist()}
    with np.load(small) as arrays:
        about = json.loads(str(arrays["header"]))

    def headed(text: str) -> dict[str, bytes]:
        return {**whole, "header": stored(np.array(text))}

    yield "unused array", {**whole, "unused": zeros}
    yield "header of zeros", {**whole, "header": zeros}
    yield "header of spaces", headed(json.dumps(about) + " " * (size // 4))
    about["provenance"] = {"lists": [[]] * (size // 16)}
    yield "header of empty lists", headed(json.dumps(about))
    yield "matrix of three axes", {**whole, "metric.factor": axes}
    yield "matrix of text", {**whole, "metric.factor": text}


def hostile_files(
    folder: Path, small: Mapping[str, Path], rows: int
) -> Iterator[Hostile]:
    """Write hostile files one after the other; the names say what they do."""
    size = 8 * 20 * rows

    def at(kind: str) -> Path:
        return folder / f"hostile.{kind}"

    for name, members in of_arrays(rows):
        yield Hostile(f"npz: {name}", "npz", str(archive(at("npz"), members)))
    for name, members in of_metrics(small["metric.npz"], rows):
        path = archive(at("metric.npz"), members)
        yield Hostile(f"metric: {name}", "metric.npz", str(path))
    X = _table(64)[0].tobytes()
    for name, shape in {
        "10^12 rows": f"({LARGE}, 20)",
        "2^64 bytes": f"({2**58}, 8)",
        "rows True": "(True, 20)",
    }.items():
        at("npy").write_bytes(header(shape) + X)
        yield Hostile(f"npy: {name}", "npy", str(at("npy")))
    n, one, word = size // 1000, "x,label\n", "a" * 997
    texts = {
        "one number": f"{one}{'0' * size},a\n",
        "one word": f"{one}{'a' * size},a\n",
        "one name": f"{'x' * size},label\n1,a\n",
        "many columns": "1," * (size // 2),
        "an open quote": f'{one}"' + "1,a\n" * (size // 4),
        "text for points": one + f"{word},a\n" * n,
        "labels of many letters": one + f"1,{word}\n" * n,
        "other labels of many letters": one
        + "".join(f"1,{word}{k}\n" for k in range(n)),
    }
    for name, text in texts.items():
        with gzip.open(at("csv.gz"), "wt") as file:
            file.write(text)
        yield Hostile(f"csv.gz: {name}", "csv.gz", str(at("csv.gz")))
    at("csv").write_text("x,label\n" + "a" * 10**6 + ",a\n")
    yield Hostile("csv: a word of 10^6 letters", "csv", str(at("csv")))
    words = pd.DataFrame({"x": [word] * n, "label": 1.0})
    words.to_parquet(at("parquet"))
    yield Hostile("parquet: text for points", "parquet", str(at("parquet")))
    words[["label", "x"]].to_parquet(at("parquet"))
    yield Hostile("parquet: labels of many letters", "parquet", str(at("parquet")))
    for kind in ("parquet", "draws.nc"):
        whole = whole_file(folder, rows, kind)
        raw = whole.read_bytes()
        whole.unlink()
        at(kind).write_bytes(raw[: len(raw) // 2])
        yield Hostile(f"{kind}: half of it", kind, str(at(kind)))
    other = xr.DataTree.from_dict({"x": xr.Dataset({"M": ("i", np.zeros(rows * 20))})})
    other.to_netcdf(
        at("draws.nc"), engine="h5netcdf", encoding={"/x": {"M": {"zlib": True}}}
    )
    yield Hostile("draws: no posterior", "draws.nc", str(at("draws.nc")))
    save_promises(at("draws.nc"))
    yield Hostile("draws: 10^10 numbers", "draws.nc", str(at("draws.nc")))


def save_promises(path: Path) -> None:
    """Write draws of a shape whose numbers were never written: a few kilobytes."""
    import h5py

    _tree(np.zeros((4, 5, 20))).to_netcdf(path, engine="h5netcdf")
    with h5py.File(path, "a") as file:
        file.create_dataset("posterior/big", (10**5, 10**5), "f8", chunks=(1000, 1000))
