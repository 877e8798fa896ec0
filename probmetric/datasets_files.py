"""Labelled data from NPZ, CSV and Parquet files, refused clearly when unusable."""

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

__all__ = ["READERS", "Table", "codes", "read_file", "split_arrays", "split_label"]


class Table(NamedTuple):
    """A table as read: X (n, d), feature names, and the label of every row."""

    X: np.ndarray
    feature_names: tuple[str, ...]
    labels: np.ndarray
    target_names: tuple[str, ...] | None = None


def codes(labels: Any, source: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return labels as codes 0..C-1 (n,) and the name of each code, sorted."""
    series = pd.Series(labels)
    lacking = np.flatnonzero(series.isna().to_numpy())
    if lacking.size:
        raise ValueError(
            f"label: wanted a value in every row of {source}, got none in row "
            f"{lacking[0] + 1} of {len(series)} (a truncated file?)"
        )
    kinds = sorted({"text" if isinstance(v, str) else "number" for v in series})
    if len(kinds) > 1:
        raise ValueError(f"label: wanted one kind in {source}, got {kinds} mixed")
    found, coded = np.unique(series.to_numpy(), return_inverse=True)
    return coded.astype(np.int64), tuple(str(name) for name in found)


def split_label(frame: pd.DataFrame, label: str | None, source: str) -> Table:
    """Split a frame into numeric features and the label column (by name, or last)."""
    if frame.shape[0] == 0 or frame.shape[1] < 2:
        raise ValueError(
            f"data: wanted rows of at least one feature and a label in {source}, "
            f"got a table of shape {frame.shape}"
        )
    frame.columns = [str(name) for name in frame.columns]
    label = frame.columns[-1] if label is None else label
    if label not in frame.columns:
        raise ValueError(
            f"label: wanted a column of {source} ({', '.join(frame.columns)}), "
            f"got {label!r}"
        )
    features = frame.drop(columns=label)
    words = [str(c) for c in features if not pd.api.types.is_numeric_dtype(features[c])]
    if words:
        raise ValueError(
            f"data: wanted numbers in every feature column of {source}, got text in "
            f"{', '.join(map(repr, words))} (name the label column with label=...)"
        )
    names = tuple(features.columns)
    return Table(features.to_numpy(np.float64), names, frame[label].to_numpy())


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV; a first line of numbers is data, not names."""
    head = pd.read_csv(path, nrows=1, header=None, dtype=str)
    first: pd.Series = pd.Series(pd.to_numeric(head.iloc[0], errors="coerce"))
    if not bool(first.iloc[:-1].notna().all()):
        return pd.read_csv(path)
    frame = pd.read_csv(path, header=None)
    frame.columns = [f"x{k}" for k in range(frame.shape[1] - 1)] + ["label"]
    return frame


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    """Read every array of an NPZ file; objects, which need pickle, are refused."""
    if not zipfile.is_zipfile(path):
        raise ValueError("not an NPZ archive, or the end is missing")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


READERS = {".csv": _read_csv, ".npz": _read_npz, ".parquet": pd.read_parquet}

# What the readers raise when the bytes are not what the suffix says.
_UNREADABLE = (EOFError, OSError, ValueError, zipfile.BadZipFile)


def split_arrays(
    arrays: dict[str, np.ndarray], label: str | None, source: str
) -> Table:
    """Take X (n, d), y (n,) and, if there, feature_names and target_names."""
    label = "y" if label is None else label
    missing = [name for name in ("X", label) if name not in arrays]
    if missing:
        raise ValueError(
            f"data: wanted arrays X and {label} in {source}, got {sorted(arrays)} "
            f"without {', '.join(missing)}"
        )
    X, y = arrays["X"], arrays[label]
    if X.dtype.kind not in "biuf":
        raise ValueError(f"data: wanted numbers in X of {source}, got {X.dtype}")
    if X.ndim != 2 or X.size == 0 or y.shape != X.shape[:1]:
        raise ValueError(
            f"data: wanted X of shape (n, d) and {label} of shape (n,), n and d at "
            f"least 1, in {source}, got {X.shape} and {y.shape}"
        )
    names = arrays.get("feature_names", [f"x{k}" for k in range(X.shape[1])])
    if len(names) != X.shape[1]:
        raise ValueError(
            f"data: wanted {X.shape[1]} feature_names in {source}, got {len(names)}"
        )
    targets = arrays.get("target_names")
    return Table(
        X.astype(np.float64),
        tuple(str(name) for name in names),
        y,
        None if targets is None else tuple(str(name) for name in targets),
    )


def read_file(path: Path, label: str | None) -> Table:
    """Read a labelled table by its suffix.

    Raises
    ------
    ValueError
        When the suffix is unknown, the file cannot be read as what its suffix says
        (truncated, empty, not permitted), or its content is unusable.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"data: wanted a file ending in {', '.join(READERS)}, got {path.name!r}"
        )
    try:
        content = reader(path)
    except _UNREADABLE as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "empty"
        raise ValueError(
            f"data: wanted a readable {path.suffix[1:].upper()} file, got "
            f"{str(path)!r} ({reason})"
        ) from error
    split: Any = split_arrays if isinstance(content, dict) else split_label
    return split(content, label, path.name)
