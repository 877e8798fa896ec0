"""Labelled tables from CSV, NPZ and Parquet files.

First the bytes become a frame or arrays (``read_content``), then these become points,
labels and groups. A file that cannot be used raises an error that says why.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probmetric.files import read_npz, readable
from probmetric.typing import ArrayLike


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a CSV; a first line of numbers is data, not names."""
    head = pd.read_csv(path, nrows=1, header=None, dtype=str)
    first: pd.Series = pd.Series(pd.to_numeric(head.iloc[0], errors="coerce"))
    line = str(head.iloc[0, 0])
    if head.shape[1] == 1 and re.search(r"\S[;\t| ]\s*\S", line):
        raise ValueError(
            f"expected columns split by commas, got lines like {line[:40]!r}"
        )
    numbers = first.notna()
    if bool(numbers.iloc[:-1].all() if len(first) > 1 else numbers.all()):
        return pd.read_csv(path, header=None)
    # A second line longer than the names: pandas would make an index of the rest.
    pd.read_csv(path, nrows=2, header=None, dtype=str)
    return pd.read_csv(path)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise ValueError(
            "expected pyarrow to read it: install the extra 'parquet'"
        ) from error
    return frame.reset_index(drop=True)


READERS = {".csv": _read_csv, ".npz": read_npz, ".parquet": _read_parquet}


def read_content(path: Path) -> Any:
    """Read a file by its suffix: arrays by name, or a frame.

    Raises
    ------
    ValueError
        For another suffix, and for what cannot be read as what its suffix says.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"data: expected a file ending in {', '.join(READERS)}, got {path.name!r}"
        )
    kind = path.suffix[1:].upper()
    with readable(f"data: expected a readable {kind} file, got {str(path)!r}"):
        return reader(path)


class Table(NamedTuple):
    """A table as read: X (n, d), feature names, and the label of every row.

    Attributes
    ----------
    X : array of shape (n, d), float64
    feature_names : tuple of d str
    labels : array of shape (n,), or None
    target_names : tuple of str, or None
        Name of the class y = k, where a file says so.
    groups : array of shape (n,), or None
    """

    X: np.ndarray
    feature_names: tuple[str, ...]
    labels: np.ndarray | None
    target_names: tuple[str, ...] | None = None
    groups: np.ndarray | None = None


def codes(
    labels: ArrayLike | None, source: str, argument: str = "label"
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return labels as codes 0..C-1 (n,) and the name of each code, sorted."""
    series = pd.Series(labels)
    lacking = np.flatnonzero(series.isna().to_numpy())
    if lacking.size:
        raise ValueError(
            f"{argument}: expected a value in every row of {source}, got none in row "
            f"{lacking[0] + 1} of {len(series)} (a truncated file?)"
        )
    kinds = sorted({"text" if isinstance(v, str) else "number" for v in series})
    if len(kinds) > 1:
        raise ValueError(
            f"{argument}: expected one kind in {source}, got {kinds} mixed"
        )
    found, coded = np.unique(series.to_numpy(), return_inverse=True)
    return coded.astype(np.int64), tuple(str(name) for name in found)


def _named(frame: pd.DataFrame, labelled: bool) -> pd.DataFrame:
    """Name the columns of a table that came without names; repeated names raise."""
    if all(isinstance(name, int | np.integer) for name in frame.columns):
        d = frame.shape[1] - labelled
        frame.columns = [f"x{k}" for k in range(d)] + ["label"] * labelled
    frame.columns = [str(name) for name in frame.columns]
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"data: expected each column once, got {twice[0]!r} twice")
    return frame


def _column(frame: pd.DataFrame, argument: str, name: str, source: str) -> np.ndarray:
    """Return a column by the name that an argument gave."""
    if name not in frame.columns:
        raise ValueError(
            f"{argument}: expected a column of {source} ({', '.join(frame.columns)}), "
            f"got {name!r}"
        )
    return frame[name].to_numpy()


def _features(frame: pd.DataFrame, source: str) -> np.ndarray:
    """Return the columns as float64 (n, d), or say which holds something else."""
    words = [str(c) for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
    if words:
        mixed = _first_word(pd.Series(frame[words[0]]))
        raise ValueError(
            f"data: expected numbers in every feature column of {source}, got text in "
            f"{', '.join(map(repr, words))} ({mixed}name the label column with "
            "label=...)"
        )
    return frame.to_numpy(np.float64, na_value=np.nan)


def _first_word(column: pd.Series) -> str:
    """Say where text stands among the numbers of a column, if there are numbers."""
    numbers: Any = pd.to_numeric(column, errors="coerce")
    wrong = np.flatnonzero(numbers.isna() & column.notna())
    if not 0 < len(wrong) < len(column):
        return ""
    return f"{column.iloc[wrong[0]]!r} among numbers in row {wrong[0] + 1}; "


def split_label(
    frame: pd.DataFrame, label: str | None, source: str, groups: str | None = None
) -> Table:
    """Split a frame into numeric features, the label column, and that of groups.

    The label is named, or that of groups, or the last column.
    """
    if frame.shape[0] == 0 or frame.shape[1] < 2:
        raise ValueError(
            f"data: expected rows of at least one feature and a label in {source}, "
            f"got a table of shape {frame.shape}"
        )
    frame = _named(frame, labelled=True)
    members = None if groups is None else _column(frame, "groups", groups, source)
    if label is None:
        label = str(frame.columns[-1]) if groups is None else groups
    labels = _column(frame, "label", label, source)
    rest = frame.drop(columns=list({label, groups} - {None}))
    if rest.shape[1] == 0:
        raise ValueError(f"data: expected a feature column in {source}, got none")
    names = tuple(str(name) for name in rest.columns)
    return Table(_features(rest, source), names, labels, None, members)


def split_arrays(
    arrays: dict[str, np.ndarray],
    label: str | None,
    source: str,
    groups: str | None = None,
    *,
    labelled: bool = True,
) -> Table:
    """Take X (n, d), y (n,) and, if there, feature_names and target_names."""
    label = "y" if label is None else label
    wanted = ["X", *([label] if labelled else []), *([groups] if groups else [])]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise ValueError(
            f"data: expected arrays {' and '.join(wanted)} in {source}, got "
            f"{sorted(arrays)} without {', '.join(missing)}"
        )
    X = arrays["X"]
    if X.dtype.kind not in "biuf":
        raise ValueError(f"data: expected numbers in X of {source}, got {X.dtype}")
    rows = {name: arrays[name] for name in wanted[1:]}
    shapes = [X.shape, *(values.shape for values in rows.values())]
    if X.ndim != 2 or X.size == 0 or any(shape != X.shape[:1] for shape in shapes[1:]):
        raise ValueError(
            f"data: expected X of shape (n, d) and {', '.join(rows) or 'y'} of shape "
            f"(n,), n and d at least 1, in {source}, got "
            f"{' and '.join(map(str, shapes))}"
        )
    names = arrays.get("feature_names", [f"x{k}" for k in range(X.shape[1])])
    if len(names) != X.shape[1]:
        raise ValueError(
            f"data: expected {X.shape[1]} feature_names in {source}, got {len(names)}"
        )
    targets = arrays.get("target_names")
    return Table(
        X.astype(np.float64),
        tuple(str(name) for name in names),
        rows.get(label),
        None if targets is None else tuple(str(name) for name in targets),
        rows.get(groups) if groups else None,
    )


def read_file(path: Path, label: str | None, groups: str | None = None) -> Table:
    """Read a labelled table by its suffix.

    Raises
    ------
    ValueError
        When the suffix is unknown, the file cannot be read as what its suffix says
        (truncated, empty, not permitted), or its content is unusable.
    """
    content = read_content(path)
    split: Any = split_arrays if isinstance(content, dict) else split_label
    return split(content, label, path.name, groups)


def read_points(path: Path, d: int, label: str | None) -> Table:
    """Read points of d features, with their labels where the file has them.

    A table of d columns has none; of one more, the last is the label. Raises as
    ``read_file``.
    """
    content = read_content(path)
    if isinstance(content, dict):
        labelled = label is not None or "y" in content
        return split_arrays(content, label, path.name, labelled=labelled)
    if label is not None or content.shape[1] == d + 1:
        return split_label(content, label, path.name)
    if content.shape[1] != d or content.shape[0] == 0:
        raise ValueError(
            f"data: expected rows of {d} features in {path.name}, and at most a label "
            f"beside them, got a table of shape {content.shape}"
        )
    frame = _named(content, labelled=False)
    return Table(_features(frame, path.name), tuple(frame.columns), None)
