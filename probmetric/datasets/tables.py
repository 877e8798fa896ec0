"""Labelled tables from CSV, NPZ and Parquet files.

First the bytes become a frame or arrays (``read_content``), then these become points,
labels and groups. A file that cannot be used raises an error that says why.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probmetric.files import read_npz, readable
from probmetric.names import AS_IS, UNNAMED, Reading, ending
from probmetric.typing import ArrayLike

CHUNK = 2**14
"""Rows of a text file that are read at a time."""


def _separator(path: Path, how: Reading) -> str:
    sep = how.sep or ("\t" if ending(path).startswith(".tsv") else ",")
    return {"tab": "\t", "\\t": "\t"}.get(sep, sep)


def _parsed(path: Path, how: Reading, **options: Any) -> pd.DataFrame:
    """Read a text file by pandas, with options of its ``read_csv``."""
    with readable(f"data: expected a readable CSV file, got {str(path)!r}"):
        try:
            chunks: Any = pd.read_csv(
                path,
                sep=_separator(path, how),
                decimal=how.decimal,
                encoding=how.encoding,
                chunksize=CHUNK,
                **options,
            )
            with chunks:  # Read whole, a file would be held beside its numbers.
                return pd.concat(chunks, ignore_index=True)
        except (LookupError, UnicodeError) as error:
            raise ValueError(
                f"no text in the encoding {how.encoding!r}; save it as UTF-8, or "
                "give encoding='latin-1' (--encoding latin-1) or what it is in"
            ) from error


def _read_csv(path: Path, how: Reading) -> pd.DataFrame:
    """Read a text file; a first line of numbers is data, not names."""
    sep = _separator(path, how)
    for name, value in ("sep", sep), ("decimal", how.decimal):
        if len(value) != 1:
            raise ValueError(f"{name}: expected one character, got {value!r}")
    if sep == how.decimal:
        raise ValueError(
            f"sep, decimal: expected two characters, got {sep!r} for both; give sep=';'"
            " (--sep ';') where columns are split by semicolons"
        )
    read = partial(_parsed, path, how)
    head = read(nrows=1, header=None, dtype=str, na_filter=False).iloc[0]
    line = str(head.iloc[0]).strip()
    others = [mark for mark in ";\t|, " if mark in line]
    if len(head) == 1 and others:
        split = {",": "commas", "\t": "tabs"}.get(sep, repr(sep))
        other = repr(others[0]).replace(repr("\t"), "tab")
        raise ValueError(
            f"data: expected columns split by {split}, got lines like {line[:40]!r} "
            f"in {path.name}; give sep={others[0]!r} (--sep {other})"
        )
    points: Any = head.str.replace(how.decimal, ".")
    numbers = pd.Series(pd.to_numeric(points, errors="coerce")).notna()
    # A missing entry, such as NA, beside numbers; an empty one is the name of an index.
    if numbers.iloc[:-1].any():
        numbers.iloc[:-1] |= read(nrows=1, header=None).iloc[0].isna() & (head != "")
    if bool(numbers.iloc[:-1].all() if len(head) > 1 else numbers.all()):
        rows = read(header=None)
        if not _are_names(head, bool(numbers.iloc[-1]), rows.iloc[1:, -1]):
            return rows
    # A second line longer than the names: pandas would make an index of the rest.
    read(nrows=2, header=None, dtype=str)
    frame = read()
    # The names as they stand: pandas would rename the second of two alike.
    frame.columns = [name or f"Unnamed: {k}" for k, name in enumerate(head)]
    return frame


def _spelt(path: Path, how: Reading, values: pd.Series, place: int) -> np.ndarray:
    """Return a column of labels: as text where numbers would merge or rename some.

    That is where a number is spelt in two ways (1 and 01, 1.0), or begins with 0.
    """
    if not pd.api.types.is_numeric_dtype(values):
        return values.to_numpy()
    texts = _parsed(path, how, header=None, dtype=str, usecols=[place])
    texts = texts.iloc[len(texts) - len(values) :, 0].str.strip()
    padded = texts.str.match(r"[-+]?0\d").any()
    canonical = not padded and texts.nunique() == values.nunique()
    return (values if canonical else texts).to_numpy()


def _are_names(head: pd.Series, number: bool, last: pd.Series) -> bool:
    """Say whether a first line of numbers, but for its last, names the columns.

    Names are a last word above a column of numbers, and those that pandas gives, 0, 1,
    ..., where the last is its next or is no entry of its own column.
    """
    known: Any = pd.to_numeric(last, errors="coerce")
    if not number and len(last) and last.dtype != bool and bool(known.notna().all()):
        return True
    counted = [str(k) for k in range(len(head))]
    if len(head) < 3 or head.iloc[:-1].tolist() != counted[:-1]:
        return False
    word = str(head.iloc[-1])
    return word == counted[-1] or (not number and word not in set(last.astype(str)))


def _read_parquet(path: Path) -> pd.DataFrame:
    """Read a table column by column, as a whole one would be held twice."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError(
            "expected pyarrow to read it: install the extra 'parquet'"
        ) from error
    with ParquetFile(path) as file:
        about: Any = file.schema_arrow.pandas_metadata or {}
        index = about.get("index_columns", [])
        names = [name for name in file.schema_arrow.names if name not in index]
        if len(set(names)) < len(names):
            raise ValueError("columns of one name")
        columns = {name: file.read([name]).to_pandas()[name] for name in names}
    frame = pd.DataFrame(columns, copy=False).reset_index(drop=True)
    pyarrow.default_memory_pool().release_unused()
    return frame


READERS = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), _read_csv),
    ".npz": read_npz,
    ".parquet": _read_parquet,
}


def read_content(path: Path, how: Reading, columns: Sequence[str | None] = ()) -> Any:
    """Read a file by its ending: arrays by name, or a frame.

    Of an archive, arrays beside the usual ones and ``columns`` are not read, but None.

    Raises
    ------
    ValueError
        For another ending, for what cannot be read as what its ending says, and for
        ways of reading text where there is none.
    """
    reader: Any = READERS.get(ending(path))
    if reader is None:
        raise ValueError(
            f"data: expected a file ending in {', '.join(READERS)}, got {path.name!r}"
        )
    if reader is _read_csv:
        return _read_csv(path, how)
    check_no_text(how, path.name)
    kind = path.suffix[1:].upper()
    with readable(f"data: expected a readable {kind} file, got {str(path)!r}"):
        if reader is not read_npz:
            return reader(path)
        known = {"X", "y", "feature_names", "target_names", *columns}
        return read_npz(path, lambda names: [n for n in names if n in known])


def check_no_text(how: Reading, source: str) -> None:
    """Raise for ways of reading text, of what is no text file."""
    for name in ("sep", "decimal", "encoding"):
        if getattr(how, name) != getattr(AS_IS, name):
            raise ValueError(f"{name}: expected a text file with it, got {source!r}")


def chosen(names: Sequence[str], how: Reading, source: str) -> list[int]:
    """Return the places of the columns that are kept, in the order asked for.

    Raises
    ------
    ValueError
        For a name that is not there, and for kept columns that are without a name or
        share one.
    """
    for argument in ("drop", "features"):
        for name in getattr(how, argument):
            if name not in names:
                raise ValueError(
                    f"{argument}: expected columns of {source} "
                    f"({', '.join(names)}), got {name!r}"
                )
    kept = [k for k, name in enumerate(names) if name not in how.drop]
    if how.features:
        kept = [k for name in how.features for k in kept if names[k] == name]
    left = [names[k] for k in kept]
    for k, name in zip(kept, left, strict=True):
        if left.count(name) > 1:
            raise ValueError(
                f"data: expected each column once, got {name!r} twice in {source}; "
                f"rename one, or leave both out: drop=[{name!r}] (--drop {name!r})"
            )
        if UNNAMED.fullmatch(name):
            raise ValueError(
                f"data: expected a name of every column of {source}, got none of "
                f"column {k + 1}, such as pandas' index (df.to_csv(..., index=False) "
                f"writes none); drop=[{name!r}] (--drop {name!r}) leaves it out"
            )
    return kept


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
    """Name the columns of a table that came without names."""
    if all(isinstance(name, int | np.integer) for name in frame.columns):
        d = frame.shape[1] - labelled
        frame.columns = [f"x{k}" for k in range(d)] + ["label"] * labelled
    frame.columns = [str(name) for name in frame.columns]
    return frame


def _column(frame: pd.DataFrame, argument: str, name: str, source: str) -> int:
    """Return the place of a column by the name that an argument gave."""
    if name not in frame.columns:
        raise ValueError(
            f"{argument}: expected a column of {source} ({', '.join(frame.columns)}), "
            f"got {name!r}"
        )
    if list(frame.columns).count(name) > 1:
        raise ValueError(f"{argument}: expected one column {name!r} of {source}, got 2")
    return list(frame.columns).index(name)


def _features(frame: pd.DataFrame, source: str) -> np.ndarray:
    """Return the columns as float64 (n, d), or say which holds something else."""
    words = [str(c) for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
    if words:
        raise ValueError(
            f"data: expected numbers in every feature column of {source}, got text or "
            f"dates in {', '.join(map(repr, words[:5]))} "
            f"({_first_word(pd.Series(frame[words[0]]))}); drop={words[:5]} "
            f"({' '.join(f'--drop {name!r}' for name in words[:5])}) leaves out what "
            "is no feature, label=... (--label) names the class"
        )
    X = np.empty(frame.shape)
    for k in range(frame.shape[1]):  # No second copy of all columns.
        X[:, k] = frame.iloc[:, k].to_numpy(np.float64, na_value=np.nan)
    return X


def _first_word(column: pd.Series) -> str:
    """Say where the first text of a column stands, and what would read it."""
    numbers: Any = pd.to_numeric(column, errors="coerce")
    wrong = np.flatnonzero(numbers.isna() & column.notna())
    row = int(wrong[0]) if len(wrong) else 0
    among = " among numbers" if 0 < len(wrong) < column.notna().sum() else ""
    commas: Any = column.astype(str).str.fullmatch(r"\s*[-+]?\d*,\d+\s*")
    hint = "; decimal=',' (--decimal ,) reads decimal commas" if commas.any() else ""
    return f"{str(column.iloc[row])!r}{among} in row {row + 1}{hint}"


def split_label(
    frame: pd.DataFrame,
    label: str | None,
    source: str,
    groups: str | None = None,
    how: Reading = AS_IS,
    *,
    labelled: bool = True,
    path: Path | None = None,
) -> Table:
    """Split a frame into numeric features, the label column, and that of groups.

    The label is named, or that of groups, or the last column that is not dropped. Of
    the text file at ``path``, if any, labels are taken as they are spelt.
    """
    frame = _named(frame, labelled)
    columns = list(frame.columns)
    there = [name for name in columns if name not in how.drop]
    if labelled and label is None:
        label = groups or (there[-1] if there else None)
    named = {name for name in (label, groups) if name is not None}
    if frame.shape[0] == 0 or not set(there) - named:
        raise ValueError(
            f"data: expected rows of at least one feature{' and a label' * labelled} in"
            f" {source}, got a table of shape {frame.shape}"
        )

    def column(argument: str, name: str | None) -> np.ndarray | None:
        if name is None:
            return None
        place = _column(frame, argument, name, source)
        values = frame.iloc[:, place]
        return values.to_numpy() if path is None else _spelt(path, how, values, place)

    members, labels = column("groups", groups), column("label", label)
    if wrong := named & {*how.features, *how.drop}:
        raise ValueError(
            f"features, drop: expected neither label nor groups, got {min(wrong)!r}"
        )
    places = [k for k, name in enumerate(columns) if name not in named]
    names = [columns[k] for k in places]
    kept = [places[k] for k in chosen(names, how, source)]
    whole = kept == list(range(len(kept)))  # A slice is no copy.
    rest = frame.iloc[:, : len(kept)] if whole else frame.iloc[:, kept]
    return Table(_features(rest, source), tuple(rest.columns), labels, None, members)


def split_arrays(
    arrays: dict[str, Any],
    label: str | None,
    source: str,
    groups: str | None = None,
    how: Reading = AS_IS,
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
    names = _words(arrays, "feature_names", source)
    if names is None:
        names = tuple(f"x{k}" for k in range(X.shape[1]))
    if len(names) != X.shape[1]:
        raise ValueError(
            f"data: expected {X.shape[1]} feature_names in {source}, got {len(names)}"
        )
    kept = chosen(names, how, source)
    return Table(
        X[:, kept].astype(np.float64),
        tuple(names[k] for k in kept),
        rows.get(label),
        _words(arrays, "target_names", source),
        rows.get(groups) if groups else None,
    )


def _words(arrays: dict[str, Any], name: str, source: str) -> tuple[str, ...] | None:
    """Return an array of names, None where there is none."""
    if (words := arrays.get(name)) is None:
        return None
    if words.ndim != 1 or words.dtype.kind not in "biufUS":
        raise ValueError(
            f"data: expected {name} of shape (n,), text or numbers, in {source}, got "
            f"{words.dtype} of shape {words.shape}"
        )
    return tuple(str(word) for word in words)


def read_file(
    path: Path, label: str | None, groups: str | None = None, how: Reading = AS_IS
) -> Table:
    """Read a labelled table by its ending.

    Raises
    ------
    ValueError
        When the ending is unknown, the file cannot be read as what its ending says
        (truncated, empty, not permitted), or its content is unusable.
    """
    content = read_content(path, how, (label, groups))
    if isinstance(content, dict):
        return split_arrays(content, label, path.name, groups, how)
    return split_label(content, label, path.name, groups, how, path=_text(path))


def _text(path: Path) -> Path | None:
    """Return the path of a text file, None of another."""
    return path if READERS.get(ending(path)) is _read_csv else None


def read_points(
    path: Path,
    d: int | None,
    label: str | None,
    how: Reading = AS_IS,
    *,
    bare: bool = False,
    names: Sequence[str] = (),
) -> Table:
    """Read points of d features, with their labels where the file has them.

    A table of d columns, or one whose features are named, has none; of one more
    column, the last is the label; with d None a named column alone. With ``bare`` the
    label and columns to drop need not be there. Raises as ``read_file``.
    """
    content = read_content(path, how, (label,))
    if bare:
        there = content
        if not isinstance(content, dict):
            there = _named(content, d is not None and content.shape[1] > d).columns
        elif content.get("feature_names") is not None:
            there = [*content, *map(str, np.ravel(content["feature_names"]))]
        label = label if label in there else None
        how = how._replace(drop=tuple(name for name in how.drop if name in there))
    if isinstance(content, dict):
        labelled = label is not None or "y" in content
        return split_arrays(content, label, path.name, how=how, labelled=labelled)
    width = int(content.shape[1]) - len({*how.drop} & {*content.columns})
    d = width - int(label is not None) if d is None else d
    labelled = label is not None or (width == d + 1 and not how.features)
    if not (labelled or width == d or how.features) or content.shape[0] == 0:
        known = {*names, *how.drop, label}
        found = [str(c) for c in content.columns]
        more = [repr(c) for c in found if c not in known] if {*names} & {*found} else []
        which = (
            f", with {', '.join(more[:5])}{', ...' * (len(more) > 5)}" if more else ""
        )
        todo = "; features= (--features) chooses columns, drop= (--drop) leaves out"
        raise ValueError(
            f"data: expected rows of {d} features in {path.name}, and at most a label "
            f"beside them, got a table of shape {content.shape}{which}"
            f"{todo if width > d and content.shape[0] else ''}"
        )
    text = _text(path)
    return split_label(content, label, path.name, how=how, labelled=labelled, path=text)
