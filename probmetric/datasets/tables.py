"""Read labeled tables from text, NPZ and Parquet files.

pandas parses text, pyarrow reads Parquet, and NumPy reads NPZ. A text file is opened
once. Tables are then split into features, labels and groups.
"""

import gzip
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probmetric.data.factors import Factors, coded, factors_of, levels_in
from probmetric.files import UNREADABLE, Archive, readable, reason
from probmetric.names import AS_IS, ENDINGS, UNNAMED, Reading, ending, repeated
from probmetric.typing import ArrayLike

MOST_CODES = 3
"""Largest number of different texts in a column that may be missing-value codes."""


def separator(path: Path, reading: Reading) -> str:
    """Check the options of a text file, and return its column separator."""
    try:
        "".encode(reading.encoding)
    except (LookupError, ValueError) as error:
        raise ValueError(
            "encoding must be a Python codec, such as utf-8 or cp1252, got "
            f"{reading.encoding!r}"
        ) from error
    sep = reading.sep or ("\t" if ending(path).startswith(".tsv") else ",")
    sep = {"tab": "\t", "\\t": "\t"}.get(sep, sep)
    marks = {"sep": sep, "decimal": reading.decimal, "thousands": reading.thousands}
    for name, value in marks.items():
        if value is not None and len(value) != 1:
            raise ValueError(f"{name} must be one character, got {value!r}")
    if reading.thousands == reading.decimal:
        raise ValueError(
            "decimal and thousands must be different characters, got "
            f"{reading.decimal!r} for both. Change one of them."
        )
    if sep == reading.decimal:
        raise ValueError(
            f"sep and decimal must be different characters, got {sep!r} for both. If "
            "columns are separated by semicolons, use sep=';' (--sep ';')."
        )
    return sep


class TextFile(NamedTuple):
    """The bytes of a text file, read once, and the options to parse them."""

    path: Path
    reading: Reading
    sep: str
    content: bytes

    @classmethod
    def read(cls, path: Path, reading: Reading) -> "TextFile":
        """Read a file, and decompress it if it ends in .gz."""
        sep = separator(path, reading)
        with readable(f"data must be a readable CSV file, got {str(path)!r}"):
            content = path.read_bytes()
            if path.suffix.lower() == ".gz":
                content = gzip.decompress(content)
        return cls(path, reading, sep, content)

    def parse(self, **options: Any) -> pd.DataFrame:
        """Parse with options of ``pandas.read_csv``."""
        path = str(self.path)
        expected = f"data must be a readable CSV file, got {path!r}"
        try:
            return pd.read_csv(
                BytesIO(self.content),
                sep=self.sep,
                decimal=self.reading.decimal,
                encoding=self.reading.encoding,
                na_values=list(self.reading.na),
                low_memory=False,
                **options,
            )
        except UnicodeError as error:
            raise ValueError(
                f"{expected}, which is not in the encoding {self.reading.encoding!r}. "
                "Use the encoding of the file, such as encoding='latin-1' "
                "(--encoding latin-1), or save the file as UTF-8"
            ) from error
        except pd.errors.EmptyDataError as error:
            raise ValueError(
                f"data must have a header line and at least one row in {path!r}, got "
                "an empty file"
            ) from error
        except UNREADABLE as error:
            message = _unsplit_row(path, str(error))
            raise ValueError(message or f"{expected} ({reason(error)})") from error

    def frame(self) -> pd.DataFrame:
        """Parse the table. A first line that has only numbers is data, not names."""
        reading = self.reading
        head = self.parse(nrows=1, header=None, dtype=str, na_filter=False).iloc[0]
        self._check_split(head)
        numbers = as_numbers(head, reading.decimal, reading.thousands).notna()
        # NA beside numbers is a missing entry. An empty cell is the name of an index.
        if numbers.iloc[:-1].any():
            missing = self.parse(nrows=1, header=None).iloc[0].isna()
            numbers.iloc[:-1] |= missing & (head != "")
        if bool(numbers.iloc[:-1].all() if len(head) > 1 else numbers.all()):
            last = self.parse(header=None, dtype=str, usecols=[len(head) - 1])
            if not _are_names(head, bool(numbers.iloc[-1]), last.iloc[1:, 0]):
                return self.parse(header=None)
        # If the second line is longer than the first, pandas would make an index.
        self.parse(nrows=2, header=None, dtype=str)
        frame = self.parse()
        # Names as written: pandas renames repeated ones.
        frame.columns = [name or f"Unnamed: {k}" for k, name in enumerate(head)]
        return frame

    def _check_split(self, head: pd.Series) -> None:
        line = str(head.iloc[0]).strip()
        others = [mark for mark in ";\t|, " if mark in line]
        if len(head) > 1 or not others:
            return
        split = {",": "commas", "\t": "tabs"}.get(self.sep, repr(self.sep))
        other = repr(others[0]).replace(repr("\t"), "tab")
        raise ValueError(
            f"data must have columns separated by {split}, got lines like "
            f"{line[:40]!r} in {self.path.name}. Use sep={others[0]!r} (--sep {other})"
        )

    def labels(self, values: pd.Series, place: int) -> np.ndarray:
        """Return labels as numbers, or as text if conversion would change labels.

        Conversion to numbers merges 1 and 1.0, and changes labels that begin with 0
        (01).
        """
        if not pd.api.types.is_numeric_dtype(values):
            return values.to_numpy()
        texts = self.parse(header=None, dtype=str, usecols=[place]).iloc[:, 0]
        texts = texts.iloc[len(texts) - len(values) :].str.strip()
        words = texts.dropna().unique()
        padded = any(re.match(r"[-+]?0\d", word) for word in words)
        same = not padded and len(words) == values.nunique()
        return (values if same else texts).to_numpy()


def _unsplit_row(path: str, message: str) -> str:
    """Return the error for a row that pandas cannot split, or ""."""
    if match := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        columns, line, number = match.groups()  # pandas counts quoted lines once.
        return (
            f"data: every row of {path!r} must have {columns} "
            f"column{'s' * (columns != '1')}, as the first row, got {number} in line "
            f'{line}. Put text that contains the separator in quotes ("a, b")'
        )
    if match := re.search(r"EOF inside string starting at row (\d+)", message):
        return (
            "data must have a closing quote for each opening quote, got an unclosed "
            f"quote in line {int(match[1]) + 1} of {path!r}"
        )
    return ""


def _are_names(head: pd.Series, last_is_number: bool, last: pd.Series) -> bool:
    """Return whether a first line of numbers (except the last entry) names the columns.

    The line has names if its last entry is a word above numbers. It also has names if
    the entries are 0, 1, ..., as pandas writes them, and the last entry is the next
    number or does not occur in its column.
    """
    values = pd.Series(pd.to_numeric(last, errors="coerce"))
    if not last_is_number and len(last) and bool(values.notna().all()):
        return True
    counted = [str(k) for k in range(len(head))]
    if len(head) < 3 or head.iloc[:-1].tolist() != counted[:-1]:
        return False
    word = str(head.iloc[-1])
    return word == counted[-1] or (not last_is_number and word not in set(last))


def with_thousands(decimal: str, thousands: str) -> re.Pattern[str]:
    """Return the pattern of numbers with thousands separators."""
    point, mark = re.escape(decimal), re.escape(thousands)
    return re.compile(rf"[-+]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{point}\d*)?")


def as_numbers(
    column: pd.Series, decimal: str = ".", thousands: str | None = None
) -> pd.Series:
    """Convert texts to numbers, or to NaN if they are not numbers.

    Three digits must follow a thousands separator. With the separator ",", the text 1,5
    is not a number.
    """
    grouped = with_thousands(decimal, thousands or "")

    def number(value: object) -> object:
        if not isinstance(value, str):
            return value
        text = value.strip()
        if thousands and any(mark in text for mark in {*",.", thousands} - {decimal}):
            if not grouped.fullmatch(text):
                return np.nan
            text = text.replace(thousands, "")
        return text.replace(decimal, ".")

    numbers: Any = column.astype(object).map(number)
    return pd.Series(pd.to_numeric(numbers, errors="coerce"))


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError("pyarrow is required. Install the extra 'parquet'") from error
    with ParquetFile(path) as file:
        table: Any = file.read()
    if twice := repeated(table.column_names):
        raise ValueError(f"more than one column {', '.join(map(repr, twice))}")
    return table.to_pandas().reset_index(drop=True)


def read_content(
    path: Path, reading: Reading
) -> tuple[pd.DataFrame | Archive, TextFile | None]:
    """Read a data frame or an archive; also return the text file, if it is one."""
    kind = ending(path)
    if kind not in ENDINGS:
        raise ValueError(
            f"data must be a file ending in {', '.join(ENDINGS)}, got {path.name!r}"
        )
    if kind not in (".npz", ".parquet"):
        text = TextFile.read(path, reading)
        return text.frame(), text
    check_no_text(reading, path.name)
    expected = f"data must be a readable {kind[1:].upper()} file, got {str(path)!r}"
    if kind == ".npz":
        return Archive(path, expected), None
    with readable(expected):
        return _read_parquet(path), None


def check_no_text(reading: Reading, source: str) -> None:
    """Raise if options of text files are set for data that are not a text file."""
    for name in ("sep", "decimal", "encoding", "na", "thousands"):
        # A tuple that was stored in JSON is a list.
        if list(getattr(reading, name) or ()) != list(getattr(AS_IS, name) or ()):
            raise ValueError(f"{name} requires a text file, got {source!r}")


def chosen(names: Sequence[str], reading: Reading, source: str) -> list[int]:
    """Return the positions of feature columns, in the order of ``reading.features``."""
    for argument in ("drop", "features"):
        for name in getattr(reading, argument):
            if name not in names:
                raise ValueError(
                    f"{argument} must be columns of {source} "
                    f"({', '.join(names)}), got {name!r}"
                )
    places = [k for k, name in enumerate(names) if name not in reading.drop]
    if reading.features:
        places = [k for name in reading.features for k in places if names[k] == name]
    if twice := repeated([names[k] for k in places]):
        raise ValueError(
            f"data: column names of {source} must be unique, got "
            f"{', '.join(map(repr, twice))} more than once. Rename these columns, or "
            f"omit them: drop={twice} ({_options('--drop', twice)})"
        )
    for k in places:
        name = names[k]
        if UNNAMED.fullmatch(name):
            raise ValueError(
                f"data: every column of {source} must have a name, got none for "
                f"column {k + 1}. It may be pandas' index, which df.to_csv(..., "
                f"index=False) does not write. Omit it: drop=[{name!r}] (--drop "
                f"{name!r})"
            )
    return places


class Table(NamedTuple):
    """Features X (n, d) and their names; labels, groups and class names, if any.

    ``factors`` are the levels of columns of text.
    """

    X: np.ndarray
    feature_names: tuple[str, ...]
    labels: np.ndarray | None
    target_names: tuple[str, ...] | None = None
    groups: np.ndarray | None = None
    label: str | None = None
    factors: Factors | None = None


def codes(
    labels: ArrayLike | None, source: str, argument: str = "label"
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return codes 0..C-1 of labels (n,), and the sorted names of the codes."""
    values = np.asarray(labels)
    lacking = np.flatnonzero(pd.isna(values))
    if lacking.size:
        raise ValueError(
            f"{argument} must have a value in every row of {source}, got none in row "
            f"{lacking[0]} of {len(values)} (the first row is 0). Check the file. "
            "Queries need no such column."
        )
    kinds = sorted({"text" if isinstance(v, str) else "number" for v in values})
    if len(kinds) > 1:
        raise ValueError(
            f"{argument} must be all numbers or all text in {source}, got a mixture: "
            f"{kinds}"
        )
    try:
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        y, classes = pd.factorize(native, sort=True)
    except TypeError as error:
        raise ValueError(
            f"{argument} must be text or numbers in {source}, got "
            f"{type(values[0]).__name__}"
        ) from error
    return y.astype(np.int64), tuple(str(name) for name in classes)


def _named(frame: pd.DataFrame, labeled: bool) -> pd.DataFrame:
    if all(isinstance(name, int | np.integer) for name in frame.columns):
        d = frame.shape[1] - labeled
        frame.columns = [f"x{k}" for k in range(d)] + ["label"] * labeled
    frame.columns = [str(name) for name in frame.columns]
    return frame


def _place(columns: list[str], argument: str, name: str, source: str) -> int:
    if name not in columns:
        raise ValueError(
            f"{argument} must be a column of {source} ({', '.join(columns)}), got "
            f"{name!r}"
        )
    if (times := columns.count(name)) > 1:
        raise ValueError(
            f"{argument} must be the name of one column of {source}, got {name!r}, "
            f"which occurs {times} times"
        )
    return columns.index(name)


def _factors(frame: pd.DataFrame, reading: Reading, label: str | None) -> Factors:
    """Return the levels of text columns, or of the columns of ``feature_names``.

    Without ``label`` there are no factors, because a text column may be the label.
    """
    if reading.feature_names:
        return levels_in(reading.feature_names, frame)
    words = [k for k in range(frame.shape[1]) if _is_factor(frame.iloc[:, k], reading)]
    return {} if label is None else factors_of(frame.iloc[:, words])


def _is_factor(column: pd.Series, reading: Reading) -> bool:
    """Return whether a column has text that repeats, and no numbers."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return True
    entries = column.dropna()
    if pd.api.types.is_numeric_dtype(column) or entries.nunique() == len(entries):
        return False
    if not all(isinstance(value, str) for value in entries):
        return False
    numbers = as_numbers(entries, reading.decimal, reading.thousands)
    return bool(numbers.isna().all()) and not _first_word(column, reading)[1]


def _features(
    frame: pd.DataFrame, source: str, reading: Reading, label: str | None, *, text: bool
) -> np.ndarray:
    """Return the columns as float64 (n, d), or raise for one that is not numeric."""
    X, words = np.empty(frame.shape), list[int]()
    for k in range(frame.shape[1]):  # No second copy of all columns.
        column = frame.iloc[:, k]
        if not pd.api.types.is_numeric_dtype(column):
            numbers = column
            if text and reading.thousands is not None:
                numbers = as_numbers(column, reading.decimal, reading.thousands)
            if numbers is column or (numbers.isna() & column.notna()).any():
                words.append(k)
                continue
            column = numbers
        X[:, k] = column.to_numpy(np.float64, na_value=np.nan)
    if not words:
        return X
    names = [str(frame.columns[k]) for k in words[:5]]
    first, todo = _first_word(frame.iloc[:, words[0]], reading)
    if not (text and todo):
        drop = f"drop={names} ({_options('--drop', names)})"
        todo = f"Omit columns that are not features: {drop}"
        if label is not None:
            todo = (
                f"By default the last column, {label!r}, is the class. If the class is "
                f"{names[0]!r}, use label={names[0]!r} (--label {names[0]!r}). {todo}. "
                "If label= (--label) is set, text that repeats is used as a factor"
            )
    raise ValueError(
        f"data: feature columns of {source} must be numeric, got text or dates in "
        f"{', '.join(map(repr, names))} ({first}). {todo}"
    )


def _options(option: str, values: Sequence[str]) -> str:
    return " ".join(f"{option} {value!r}" for value in values)


def _first_word(column: pd.Series, reading: Reading) -> tuple[str, str]:
    """Return the first text of a column with its row, and the option to read it."""
    texts = column.astype(str).where(column.notna())
    plain = (
        as_numbers(texts, reading.decimal, reading.thousands).notna() | column.isna()
    )
    mark = "." if reading.decimal == "," else ","
    form = with_thousands(reading.decimal, mark)
    others = [str(text).strip() for text in texts[~plain]]
    thousands = (
        reading.thousands is None
        and len(others) > 0
        and all(form.fullmatch(text) for text in others)
    )
    pointed = plain
    if reading.decimal != "," and reading.thousands != ",":
        points: Any = texts.str.replace(",", ".", n=1, regex=False)
        pointed = as_numbers(points).notna() | column.isna()
    commas = bool(pointed.all() and not plain.all())
    wrong = np.flatnonzero(~(plain if commas or thousands else pointed))
    row = int(wrong[0]) if len(wrong) else 0
    among = " among numbers" if 0 < len(wrong) < column.notna().sum() else ""
    where = f"{str(column.iloc[row])[:40]!r}{among} in row {row}, counted from 0"
    reads = f"thousands={mark!r} (--thousands {mark}) if {mark!r} separates thousands"
    if commas:
        also = f"{reads}, or " if thousands else ""
        return where, f"Use {also}decimal=',' (--decimal ,) if ',' is the decimal point"
    if thousands:
        return where, f"Use {reads}"
    marks = [str(text) for text in pd.unique(texts.iloc[wrong])]
    words = not any(re.search(r"\d", text) for text in marks)
    if among and words and len(marks) <= MOST_CODES:
        means = (
            f"Use na={marks} ({_options('--na', marks)}) if it means a missing value"
        )
        return where, f"{means}; otherwise omit the column"
    return where, ""


def split_label(
    frame: pd.DataFrame,
    label: str | None,
    source: str,
    groups: str | None = None,
    reading: Reading = AS_IS,
    *,
    labeled: bool = True,
    text: TextFile | None = None,
) -> Table:
    """Split a frame into numeric features, labels and groups.

    The label is the column ``label`` if set, otherwise the column ``groups`` if set,
    otherwise the last column that is not dropped. Labels of a ``text`` file are spelled
    as in the file.
    """
    frame = _named(frame, labeled)
    columns, named, named_label = list(frame.columns), label, label or groups
    rest = [name for name in columns if name not in reading.drop]
    if labeled and label is None:
        label = groups or (rest[-1] if rest else None)
    no_features = {name for name in (label, groups) if name is not None}
    if frame.shape[0] == 0 or not set(rest) - no_features:
        raise ValueError(
            "data must contain at least one row and one "
            f"feature{' and a label' * labeled} in {source}, got a table of shape "
            f"{frame.shape}"
        )

    def column(argument: str, name: str | None) -> np.ndarray | None:
        if name is None:
            return None
        place = _place(columns, argument, name, source)
        values = frame.iloc[:, place]
        return values.to_numpy() if text is None else text.labels(values, place)

    members, labels = column("groups", groups), column("label", label)
    if wrong := no_features & {*reading.features, *reading.drop}:
        raise ValueError(
            "features and drop must not contain the column of label or groups, got "
            f"{min(wrong)!r}"
        )
    places = [k for k, name in enumerate(columns) if name not in no_features]
    places = [places[k] for k in chosen([columns[k] for k in places], reading, source)]
    last = label if labeled and named_label is None else None
    points = frame.iloc[:, places]
    factors = _factors(points, reading, named)
    points = coded(points, factors, reading.handle_unknown, "data")
    X = _features(points, source, reading, last, text=text is not None)
    return Table(X, tuple(points.columns), labels, None, members, label, factors)


def split_arrays(
    archive: Archive,
    label: str | None,
    groups: str | None = None,
    reading: Reading = AS_IS,
    *,
    labeled: bool = True,
) -> Table:
    """Return X (n, d), y (n,) and, if present, feature_names and target_names."""
    label, source = "y" if label is None else label, archive.path.name
    wanted = ["X", *([label] if labeled else []), *([groups] if groups else [])]
    missing = [name for name in wanted if name not in archive]
    if missing:
        raise ValueError(
            f"data must contain the arrays {' and '.join(wanted)} in {source}, got "
            f"{sorted(archive)} without {', '.join(missing)}"
        )
    names_too = [n for n in ("feature_names", "target_names") if n in archive]
    arrays: dict[str, np.ndarray] = archive.read([*wanted, *names_too])
    X = arrays["X"]
    if X.dtype.kind not in "biuf":
        raise ValueError(f"data: X must be numeric in {source}, got {X.dtype}")
    shapes = [arrays[name].shape for name in wanted]
    if X.ndim != 2 or 0 in X.shape or any(s != X.shape[:1] for s in shapes[1:]):
        raise ValueError(
            f"data: X must have shape (n, d) and {', '.join(wanted[1:]) or 'y'} shape "
            f"(n,) with n, d ≥ 1 in {source}, got {' and '.join(map(str, shapes))}"
        )
    for name in names_too:
        if arrays[name].ndim != 1 or arrays[name].dtype.kind not in "biufUS":
            raise ValueError(
                f"data: {name} must be text or numbers of shape (n,) in {source}, got "
                f"{arrays[name].dtype} of shape {arrays[name].shape}"
            )
    words = {name: tuple(map(str, arrays[name])) for name in names_too}
    d = X.shape[1]
    names = words.get("feature_names", tuple(f"x{k}" for k in range(d)))
    if len(names) != d:
        raise ValueError(
            f"data: feature_names must have {d} entries in {source}, got {len(names)}"
        )
    places = chosen(names, reading, source)
    return Table(
        X[:, places].astype(np.float64, copy=False),
        tuple(names[k] for k in places),
        arrays[label] if labeled else None,
        words.get("target_names"),
        arrays[groups] if groups else None,
    )


def read_file(
    path: Path, label: str | None, groups: str | None = None, reading: Reading = AS_IS
) -> Table:
    """Read a labeled table."""
    content, text = read_content(path, reading)
    if isinstance(content, Archive):
        return split_arrays(content, label, groups, reading)
    return split_label(content, label, path.name, groups, reading, text=text)


def read_points(
    path: Path,
    d: int | None,
    label: str | None,
    reading: Reading = AS_IS,
    *,
    bare: bool = False,
    names: Sequence[str] = (),
) -> Table:
    """Read points of d features, with labels if the file has them.

    A table has no labels if it has d columns, or if ``reading.features`` is set. In a
    table with d + 1 columns the last column is the label. If d is None, only the column
    ``label`` is a label. With ``bare`` the label and the columns to drop may be
    missing.
    """
    content, text = read_content(path, reading)
    if bare:
        if isinstance(content, Archive):
            columns = [*content]
            if "feature_names" in content:
                columns += map(str, content["feature_names"])
        else:
            labeled = d is not None and content.shape[1] > d
            columns = list(_named(content, labeled).columns)
        label = label if label in columns else None
        reading = reading._replace(
            drop=tuple(name for name in reading.drop if name in columns)
        )
    if isinstance(content, Archive):
        labeled = label is not None or "y" in content
        return split_arrays(content, label, reading=reading, labeled=labeled)
    if not len(content):
        raise ValueError(f"data must have at least one row in {path.name}, got none")
    width = int(content.shape[1]) - len({*reading.drop} & {*content.columns})
    levels = levels_in(names, content).values()
    width += sum(map(len, levels)) - len(levels)
    d = width - int(label is not None) if d is None else d
    labeled = label is not None or (width == d + 1 and not reading.features)
    if not (labeled or width == d or reading.features):
        expected = {*names, *reading.drop, label}
        columns = [str(c) for c in content.columns]
        more = [repr(c) for c in columns if c not in expected]
        which = ""
        if more and {*names} & {*columns}:
            which = f", with {', '.join(more[:5])}{', ...' * (len(more) > 5)}"
        todo = ". Choose columns with features= (--features) or drop= (--drop)"
        raise ValueError(
            f"data must have {d} features and at most one label column in {path.name}, "
            "got a table of shape "
            f"{content.shape}{which}{todo if width > d else ''}"
        )
    return split_label(
        content, label, path.name, reading=reading, labeled=labeled, text=text
    )
