"""Whole files of every kind that a reader takes, and random damage to them.

``made`` writes the whole files, once. ``damage`` returns the bytes of one after a
random change: of bytes (flipped, cut, repeated, zeroed, those of another file), or of
what they mean (an array's shape, kind or entries, a node of JSON, a cell of a table).
"""

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from random_inputs import choice, plain
from random_metrics import kinds

import probmetric as pm
from probmetric.metric import Link
from probmetric.storage import save_draws

WORDS: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 3, 10**6, 10**30, 1e308, -0.5, "", "x", "NaN", "=cmd|calc"),
    *("\u0000", "å" * 50, [], [1], {}, {"array": "header"}, {"kind": "Mahalanobis"}),
    *(float("nan"), float("inf"), [[]] * 3, {"kind": "tuple", "parts": {}}),
)
CELLS = (
    *("", "NA", "nan", "inf", "-inf", "1e308", "1e400", "1e-320", "01", "1", "abc"),
    *("=cmd|calc", '"', '"a\nb"', "1,5", "\x00", "9" * 40, "0x10", "1_000", "é", ","),
)
HEADERS = (
    "{'descr':'<f8','fortran_order':False,'shape':(99999999999999999999999,0)}\n",
    "{'descr':'<f8','fortran_order':False,'shape':(True,3)}\n",
    "{'descr':'<f8','fortran_order':False,'shape':(1000000000000,3)}\n",
    "{'descr':'<f8','fortran_order':False,'shape':(-1,3)}\n",
    "{'descr':'<U0','fortran_order':False,'shape':(1000000000000,)}\n",
    "{'descr':'|O','fortran_order':False,'shape':(3,)}\n",
    "{'descr':[('a','<f8')],'fortran_order':False,'shape':(3,)}\n",
    "{'descr':'<V2000000000','fortran_order':False,'shape':()}\n",
    "(" * 200,
    "[" * 9000,
    "",
)
FILES = ("metric.npz", "draws.nc", "data.csv", "data.npz", "data.parquet", "run")


def made(folder: Path) -> Path:
    """Write a whole file of every kind: metrics, draws, data, a run's folder."""
    X, y = plain(30, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.assign(kind=np.array(["u", "v", "w"])[y]).to_csv(
        folder / "data.csv", index=False
    )
    frame.assign(kind=y).to_parquet(folder / "data.parquet")
    np.savez(
        folder / "data.npz",
        X=X,
        y=y,
        feature_names=np.array(["a", "b", "c"]),
        target_names=np.array(["u", "v", "w"]),
    )
    (folder / "metrics").mkdir()
    linked = pm.Mahalanobis(np.eye(3), Link(np.array(0.1), np.array(0.5)))
    for name, metric in {"Mahalanobis": linked, **kinds()}.items():
        pm.save_metric(metric, folder / "metrics" / f"{name}.npz")
    draws = pm.LCA(2, link="model").fit(frame, y).sample("laplace", n_draws=6)
    save_draws(draws, folder / "draws.nc")
    return folder


def _bytes(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """Damage bytes, whatever they mean."""
    raw, n = bytearray(data), len(data)
    at = int(rng.integers(n))
    size = int(rng.integers(1, 200))
    how = choice(rng, ("flip", "flip", "flips", "cut", "zero", "repeat", "drop"))
    if how == "flip":
        raw[at] ^= 1 << int(rng.integers(8))
    elif how == "flips":
        for place in rng.integers(n, size=20):
            raw[place] = int(rng.integers(256))
    elif how == "cut":
        del raw[at:]
    elif how == "zero":
        raw[at : at + size] = bytes(len(raw[at : at + size]))
    elif how == "repeat":
        raw[at:at] = raw[at : at + size]
    else:
        del raw[at : at + size]
    return bytes(raw), f"bytes: {how} at {at}"


def _node(rng: np.random.Generator, value: Any) -> tuple[Any, str]:
    """Replace, drop or rename one node of what JSON holds."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = choice(rng, sorted(value))
        how = rng.random()
        if how < 0.1:
            return {k: v for k, v in value.items() if k != key}, f"without {key}"
        if how < 0.15:
            return {(f"{k}x" if k == key else k): v for k, v in value.items()}, key
        new, words = _node(rng, value[key])
        return {**value, key: new}, f"{key}.{words}"
    if isinstance(value, list) and value and rng.random() < 0.5:
        at = int(rng.integers(len(value)))
        new, words = _node(rng, value[at])
        return [*value[:at], new, *value[at + 1 :]], f"{at}.{words}"
    new = choice(rng, WORDS)
    return new, f"= {new!r}"


def _array(rng: np.random.Generator, a: np.ndarray) -> tuple[np.ndarray, str]:
    """Return an array of other shape, kind or entries."""
    how = choice(rng, ("nan", "inf", "shape", "cut", "axis", "kind", "empty", "scale"))
    if how in ("nan", "inf") and a.size and a.dtype.kind == "f":
        a = a.copy()
        a.flat[int(rng.integers(a.size))] = np.nan if how == "nan" else np.inf
    elif how == "shape":
        a = a.ravel() if a.ndim > 1 else a.reshape(1, *a.shape)
    elif how == "cut" and a.ndim:
        a = a[:-1]
    elif how == "axis" and a.ndim > 1:
        a = a[..., :1]
    elif how == "empty":
        a = a[:0] if a.ndim else np.zeros((0, 3))
    elif how == "scale" and a.dtype.kind == "f":
        a = a * choice(rng, (1e200, 1e-200, -1.0, 0.0))
    else:
        kind = choice(rng, (str, complex, np.float32, bool, "datetime64[s]"))
        if kind == "datetime64[s]" or a.dtype.kind in "US":
            a = np.zeros(a.shape, kind if kind is not str else int)
        else:
            a = a.astype(kind)
    return a, f"{how}: {a.dtype} {a.shape}"


def _npz(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """Damage what an archive of arrays holds, so that the archive itself is whole."""
    with np.load(io.BytesIO(data)) as stored:
        arrays = dict(stored)
    name = choice(rng, sorted(arrays))
    how = choice(rng, ("array", "array", "header", "json", "json", "drop", "bomb"))
    buffer = io.BytesIO()
    if how == "header":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for other, array in arrays.items():
                with archive.open(f"{other}.npy", "w") as stream:
                    if other != name:
                        np.lib.format.write_array(stream, array)
                        continue
                    text = choice(rng, HEADERS).encode()
                    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
                    stream.write(head + bytes(int(rng.integers(0, 200))))
        return buffer.getvalue(), f"header of {name}: {text[:60]!r}"
    words = ""
    if how == "json" and "header" in arrays:
        new, words = _node(rng, json.loads(str(arrays["header"])))
        arrays["header"] = np.array(json.dumps(new))
    elif how == "drop":
        del arrays[name]
    elif how == "bomb":
        arrays["unused"] = np.zeros(10**6)
        arrays["header" if rng.random() < 0.1 else name] = np.array("[" * 10**5)
    else:
        arrays[name], words = _array(rng, arrays[name])
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue(), f"{how} of {name} {words}"


def _csv(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """Damage a cell, a line or the separators of a table."""
    lines = data.decode().splitlines()
    at = int(rng.integers(len(lines)))
    how = choice(rng, ("cell", "cell", "cell", "line", "twice", "column", "no names"))
    if how == "line":
        lines[at] = choice(rng, CELLS)
    elif how == "twice":
        lines[0] = "a,a,c,kind"
    elif how == "no names":
        del lines[0]
    else:
        cells = lines[at].split(",")
        place = int(rng.integers(len(cells)))
        new = choice(rng, CELLS)
        for k in range(len(lines)) if how == "column" else (at,):
            cells = lines[k].split(",")
            cells[place] = new
            lines[k] = ",".join(cells)
        how = f"{how} {at}, {place} = {new!r}"
    return "\n".join(lines).encode(), how


def _draws(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    """Damage an array or the attributes of draws."""
    import xarray as xr

    with xr.open_datatree(io.BytesIO(data), engine="h5netcdf") as file:
        tree = file.load()
    name = choice(rng, sorted(map(str, tree["posterior"].data_vars)))
    if rng.random() < 0.2:
        tree.attrs[choice(rng, ("learner", "feature_names"))] = choice(
            rng, ("x", "[", "[1]", '["a"]', 3, "two_stage", "glml", "null")
        )
        words = "attributes"
    else:
        a, words = _array(rng, tree["posterior"][name].to_numpy())
        dims = [f"axis_{name}_{k}" for k in range(a.ndim)]
        dims[:2] = ("chain", "draw")[: len(dims)]
        rest = tree["posterior"].to_dataset().drop_vars(name)
        if rest.sizes.get("draw") != (a.shape[1] if a.ndim > 1 else None):
            rest = xr.Dataset()
        words = f"{name} {words}"
        tree["posterior"].dataset = rest.assign({name: (dims[: a.ndim], a)})
    buffer = io.BytesIO()
    tree.to_netcdf(buffer, engine="h5netcdf")
    return bytes(buffer.getbuffer()), words


def damage(rng: np.random.Generator, name: str, data: bytes) -> tuple[bytes, str]:
    """Return the bytes of a damaged file, and what was done to it."""
    inside = {".npz": _npz, ".csv": _csv, ".nc": _draws}.get(Path(name).suffix)
    if name.endswith(".json") and rng.random() < 0.8:
        new, words = _node(rng, json.loads(data))
        return json.dumps(new).encode(), words
    if inside is None or rng.random() < 0.3:
        return _bytes(rng, data)
    try:
        return inside(rng, data)
    except (TypeError, ValueError, OSError):  # What its own writer refuses.
        return _bytes(rng, data)
