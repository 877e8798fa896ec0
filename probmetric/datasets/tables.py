"""Labelled tables from text, NPZ and Parquet files.

First the bytes become a frame or arrays (``read_content``), then these become points,
labels and groups. A file that cannot be used raises an error that says why.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probmetric.compilation import give_back
from probmetric.datasets.text import (
    as_numbers,
    not_used,
    read_text,
    spelt,
    too_much_text,
    with_thousands,
)
from probmetric.files import Archive, readable
from probmetric.names import AS_IS, UNNAMED, Reading, ending, repeated
from probmetric.typing import ArrayLike


def _read_parquet(
    path: Path, how: Reading, columns: Sequence[str | None]
) -> pd.DataFrame:
    """Read a table column by column, as a whole one would be held twice.

    Columns that are not used are zeros; of texts that are alike one is held.
    """
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError(
            "expected pyarrow to read it: install the extra 'parquet'"
        ) from error
    with ParquetFile(path) as file:
        kinds = pyarrow.string(), pyarrow.large_string()
        texts = [field.name for field in file.schema_arrow if field.type in kinds]
    with ParquetFile(path, read_dictionary=texts) as file:
        about: Any = file.schema_arrow.pandas_metadata or {}
        index = about.get("index_columns", [])
        names = [name for name in file.schema_arrow.names if name not in index]
        if twice := repeated(names):
            raise ValueError(f"more than one column {', '.join(map(repr, twice))}")
        unused = not_used(names, how, columns)
        found: dict[str, Any] = {}
        for k, name in enumerate(names):
            if k in unused:
                found[name] = np.zeros(file.metadata.num_rows, np.int8)
                continue
            # pandas' own kinds, which its metadata name, are no categories.
            values = file.read([name]).to_pandas(ignore_metadata=name in texts)[name]
            found[name] = _shared(values) if name in texts else values
            del values
            pyarrow.default_memory_pool().release_unused()
    give_back()
    return pd.DataFrame(found, copy=False).reset_index(drop=True)


def _shared(values: pd.Series) -> pd.Series:
    """Return a column of few texts as objects, one for all that are alike."""
    texts = np.array([*values.cat.categories, None], object)
    # A missing one has code -1.
    return pd.Series(texts[values.cat.codes.to_numpy()], dtype=object, copy=False)


READERS = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), read_text),
    ".npz": Archive,
    ".parquet": _read_parquet,
}


def read_content(path: Path, how: Reading, columns: Sequence[str | None] = ()) -> Any:
    """Read a file by its ending: an archive of arrays, still unread, or a frame.

    Of a frame columns are zeros that ``how`` leaves out and ``columns`` does not name.

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
    if reader is read_text:
        return read_text(path, how, columns)
    check_no_text(how, path.name)
    expected = (
        f"data: expected a readable {path.suffix[1:].upper()} file, got {str(path)!r}"
    )
    if reader is Archive:
        return Archive(path, expected)
    with readable(expected):
        return _read_parquet(path, how, columns)


def check_no_text(how: Reading, source: str) -> None:
    """Raise for ways of reading text, of what is no text file."""
    for name in ("sep", "decimal", "encoding", "na", "thousands"):
        # Stored in JSON a tuple is a list.
        if list(getattr(how, name) or ()) != list(getattr(AS_IS, name) or ()):
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
    if twice := repeated([names[k] for k in kept]):
        raise ValueError(
            f"data: expected each column once, got {', '.join(map(repr, twice))} more "
            f"than once in {source}; rename them, or leave them out: drop={twice} "
            f"({_options('--drop', twice)})"
        )
    for k in kept:
        name = names[k]
        if UNNAMED.fullmatch(name):
            raise ValueError(
                f"data: expected a name of every column of {source}, got none of "
                f"column {k + 1}, such as pandas' index (df.to_csv(..., index=False) "
                f"writes none); drop=[{name!r}] (--drop {name!r}) leaves it out"
            )
    return kept


MOST_CODES = 3
"""Texts among numbers, at most, that may mean missing."""


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
    label : str, or None
        Name of the column of labels.
    """

    X: np.ndarray
    feature_names: tuple[str, ...]
    labels: np.ndarray | None
    target_names: tuple[str, ...] | None = None
    groups: np.ndarray | None = None
    label: str | None = None


def codes(
    labels: ArrayLike | None, source: str, argument: str = "label"
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return labels as codes 0..C-1 (n,) and the name of each code, sorted."""
    # Texts as they are: pandas would make one of its own for each row.
    given: Any = getattr(labels, "dtype", None)
    kind: Any = object if given == "O" else None
    series = pd.Series(labels, dtype=kind, copy=False)
    lacking = np.flatnonzero(series.isna().to_numpy())
    if lacking.size:
        raise ValueError(
            f"{argument}: expected a value in every row of {source}, got none in row "
            f"{lacking[0]} of {len(series)}, counted from 0 (a truncated file?)"
        )
    kinds = sorted({"text" if isinstance(v, str) else "number" for v in series})
    if len(kinds) > 1:
        raise ValueError(
            f"{argument}: expected one kind in {source}, got {kinds} mixed"
        )
    # Those that differ are sorted, not the rows, which would be held thrice more.
    if kinds == ["text"]:
        words = sorted({*series})
        code = {word: k for k, word in enumerate(words)}
        coded = np.fromiter((code[word] for word in series), np.int64, len(series))
        return coded, tuple(map(str, words))
    try:
        values = series.to_numpy()
        native = values.dtype.newbyteorder("=")
        coded, different = pd.factorize(values.astype(native, copy=False))
    except TypeError as error:
        raise ValueError(
            f"{argument}: expected text or numbers in {source}, got "
            f"{type(series.iloc[0]).__name__}"
        ) from error
    found, places = np.unique(np.asarray(different), return_inverse=True)
    return places.astype(np.int64)[coded], tuple(str(name) for name in found)


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
    if (times := list(frame.columns).count(name)) > 1:
        raise ValueError(
            f"{argument}: expected one column {name!r} of {source}, got {times}"
        )
    return list(frame.columns).index(name)


def _features(
    frame: pd.DataFrame, source: str, how: Reading, label: str | None, *, text: bool
) -> np.ndarray:
    """Return the columns as float64 (n, d), or say which holds something else.

    ``label`` is the last column, if that is the label because none was named. Only of
    ``text`` files the remedies are ways of reading.
    """
    X, words = np.empty(frame.shape), list[int]()
    for k in range(frame.shape[1]):  # No second copy of all columns.
        column = frame.iloc[:, k]
        if not pd.api.types.is_numeric_dtype(column):
            numbers = column
            if text and how.thousands is not None:
                numbers = as_numbers(column, how.decimal, how.thousands)
            if numbers is column or (numbers.isna() & column.notna()).any():
                words.append(k)
                continue
            column = numbers
        X[:, k] = column.to_numpy(np.float64, na_value=np.nan)
    if not words:
        return X
    names = [str(frame.columns[k]) for k in words[:5]]
    first, todo = _first_word(frame.iloc[:, words[0]], how)
    if not (text and todo):
        drop = f"drop={names} ({_options('--drop', names)})"
        todo = f"{drop} leaves out what is no feature"
        if label is not None:
            todo = (
                f"the class is the last column, {label!r}, as none was named; if it is "
                f"{names[0]!r}, give label={names[0]!r} (--label {names[0]!r}); {todo}"
            )
    raise ValueError(
        f"data: expected numbers in every feature column of {source}, got text or "
        f"dates in {', '.join(map(repr, names))} ({first}); {todo}"
    )


def _options(option: str, values: Sequence[str]) -> str:
    """Return an option, repeated for each value, as it is typed."""
    return " ".join(f"{option} {value!r}" for value in values)


def _first_word(column: pd.Series, how: Reading) -> tuple[str, str]:
    """Say where the first text of a column stands, and what reads it, if anything.

    Beside text, numbers with a decimal comma are text to pandas, though no fault.
    """
    texts = column.astype(str).where(column.notna())
    plain = as_numbers(texts, how.decimal, how.thousands).notna() | column.isna()
    mark = "." if how.decimal == "," else ","
    form = with_thousands(how.decimal, mark)
    thousands = how.thousands is None and _all_match(texts[~plain], form)
    pointed = plain
    if how.decimal != "," and how.thousands != ",":
        points: Any = texts.str.replace(",", ".", n=1, regex=False)
        pointed = as_numbers(points).notna() | column.isna()
    commas = bool(pointed.all() and not plain.all())
    wrong = np.flatnonzero(~(plain if commas or thousands else pointed))
    row = int(wrong[0]) if len(wrong) else 0
    among = " among numbers" if 0 < len(wrong) < column.notna().sum() else ""
    where = f"{str(column.iloc[row])[:40]!r}{among} in row {row}, counted from 0"
    reads = f"thousands={mark!r} (--thousands {mark}) reads thousands"
    if commas:
        also = f"{reads} (1,304 is 1304); " if thousands else ""
        return where, f"{also}decimal=',' (--decimal ,) reads decimal commas"
    if thousands:
        return where, reads
    codes = [str(text) for text in pd.unique(texts.iloc[wrong])]
    words = not any(re.search(r"\d", code) for code in codes)
    if among and words and len(codes) <= MOST_CODES:
        means = f"na={codes} ({_options('--na', codes)}) if that means missing"
        return where, f"{means}; otherwise leave the column out"
    return where, ""


def _all_match(texts: Any, form: re.Pattern[str]) -> bool:
    """Whether there are texts, and all have a form."""
    return len(texts) > 0 and all(form.fullmatch(str(t).strip()) for t in texts)


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
    columns, named_label = list(frame.columns), label or groups
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
        if path is None:
            return values.to_numpy()
        return spelt(path, how, values, place, len(columns))

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
    last = label if labelled and named_label is None else None
    X = _features(rest, source, how, last, text=path is not None)
    return Table(X, tuple(rest.columns), labels, None, members, label)


def split_arrays(
    arrays: Archive,
    label: str | None,
    groups: str | None = None,
    how: Reading = AS_IS,
    *,
    labelled: bool = True,
) -> Table:
    """Take X (n, d), y (n,) and, if there, feature_names and target_names.

    Shapes and kinds are those wanted before any of them is read.
    """
    label, source = "y" if label is None else label, arrays.path.name
    wanted = ["X", *([label] if labelled else []), *([groups] if groups else [])]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise ValueError(
            f"data: expected arrays {' and '.join(wanted)} in {source}, got "
            f"{sorted(arrays)} without {', '.join(missing)}"
        )
    shape, dtype = arrays.form("X")
    if dtype.kind not in "biuf":
        raise ValueError(f"data: expected numbers in X of {source}, got {dtype}")
    shapes = [shape, *(arrays.form(name).shape for name in wanted[1:])]
    if len(shape) != 2 or 0 in shape or any(one != shape[:1] for one in shapes[1:]):
        raise ValueError(
            f"data: expected X of shape (n, d) and {', '.join(wanted[1:]) or 'y'} of "
            f"shape (n,), n and d at least 1, in {source}, got "
            f"{' and '.join(map(str, shapes))}"
        )
    n, d = shape
    for name in wanted[1:]:
        _check_letters(arrays, name, n)
    names = _words(arrays, "feature_names", d)
    if names is None:
        names = tuple(f"x{k}" for k in range(d))
    if len(names) != d:
        raise ValueError(
            f"data: expected {d} feature_names in {source}, got {len(names)}"
        )
    kept = chosen(names, how, source)
    targets = _words(arrays, "target_names", n)
    rows = {name: arrays[name] for name in wanted[1:]}
    X = arrays["X"]
    if kept != list(range(d)):
        X = X[:, kept]
    return Table(
        X.astype(np.float64, copy=False),
        tuple(names[k] for k in kept),
        rows.get(label),
        targets,
        rows.get(groups) if groups else None,
    )


def _check_letters(arrays: Archive, name: str, rows: int) -> None:
    """Raise for an array of texts that are much longer than names."""
    shape, dtype = arrays.form(name)
    letters = math.prod(shape) * dtype.itemsize // (4 if dtype.kind == "U" else 1)
    if said := too_much_text(letters, rows, arrays.path, name):
        raise ValueError(said)


def _words(arrays: Archive, name: str, rows: int) -> tuple[str, ...] | None:
    """Return an array of names, some for each of so many, None where there is none."""
    if name not in arrays:
        return None
    shape, dtype = arrays.form(name)
    if len(shape) != 1 or dtype.kind not in "biufUS":
        raise ValueError(
            f"data: expected {name} of shape (n,), text or numbers, in "
            f"{arrays.path.name}, got {dtype} of shape {shape}"
        )
    _check_letters(arrays, name, rows)
    return tuple(str(word) for word in arrays[name])


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
    if isinstance(content, Archive):
        return split_arrays(content, label, groups, how)
    return split_label(content, label, path.name, groups, how, path=_text(path))


def _text(path: Path) -> Path | None:
    """Return the path of a text file, None of another."""
    return path if READERS.get(ending(path)) is read_text else None


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
        if not isinstance(content, Archive):
            there = _named(content, d is not None and content.shape[1] > d).columns
        else:
            there = [*content, *(_words(content, "feature_names", d or 0) or ())]
        label = label if label in there else None
        how = how._replace(drop=tuple(name for name in how.drop if name in there))
    if isinstance(content, Archive):
        labelled = label is not None or "y" in content
        return split_arrays(content, label, how=how, labelled=labelled)
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
