"""Tables in text files: separators, names, labels as they are spelt.

pandas reads them, some rows at a time, from a stream that counts bytes. What is held
beside the numbers is text of ``LONGEST`` bytes, and ``PER_CELL`` for each of ``CELLS``,
of which pandas makes some six times as many, whatever a file says or what is packed in
it. Rows of more text are read fewer at a time.
"""

import gzip
import io
import re
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probmetric.compilation import give_back
from probmetric.files import readable
from probmetric.names import Reading, ending

CHUNK, CELLS = 1 << 14, 1 << 19
"""Rows, and numbers, of a text file that are read at a time, at most."""

FEWEST = 64
"""Rows that are read at a time however wide they are: a column has its own cost."""

LONGEST = 1 << 22
"""Bytes of a line, at most; or an eighth of the file's."""

PER_CELL = 32
"""Bytes of a number and its separator, at most, as they are written."""

MOST_COLUMNS = 100_000
"""Columns of a text file, at most; or one for 256 of its bytes.

pandas takes some kilobytes for each, of a row as of many.
"""

LETTERS = 64
"""Letters a row that names of classes have on average, at most; or ``SMALL_TEXT``."""

SMALL_TEXT = 1 << 20
"""Letters of names that are always read."""


def too_much_text(letters: int, rows: int, path: Path, what: str) -> str:
    """Return a sentence where text is too long for names of so many rows' classes.

    What a file holds as it is, not packed, is never too long.
    """
    if letters <= max(SMALL_TEXT, LETTERS * rows, path.stat().st_size):
        return ""
    return (
        f"data: expected short names of classes in {path.name}, got {letters} letters "
        f"in {what}, for {rows} rows; drop=... (--drop) leaves a column out, codes 0, "
        "1, ... stand for long names"
    )


def not_used(
    names: Sequence[str], how: Reading, columns: Sequence[str | None]
) -> set[int]:
    """Return the places of columns that are neither features nor among ``columns``.

    The last one that is not dropped may be the label.
    """
    left = [k for k, name in enumerate(names) if name not in how.drop]
    wanted = {*how.features, *columns}
    kept = {k for k in left if not how.features or names[k] in wanted}
    return {*range(len(names))} - kept - {*left[-1:]}


class _TooMuch(Exception):
    """More bytes than are read at a time."""


class _Refused(Exception):
    """What is said of a file that can be read."""


class _Watched(io.RawIOBase):
    """A stream that stops after ``left`` bytes, and where one line is too long.

    Parameters
    ----------
    file : binary file
    size : int
        Of the file, packed or not, in bytes: lines of a large one may be longer.
    separator : bytes
        Of columns, of which a line has ``MOST_COLUMNS`` at most, or as many.
    """

    def __init__(self, file: io.BufferedIOBase, size: int, separator: bytes) -> None:
        self._file, self._separator = file, separator
        self._cells = self._line = 0
        self._columns = max(MOST_COLUMNS, size // 256)
        self.longest = max(LONGEST, size // 8)
        self.left = self.longest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        raw = self._file.read(len(buffer))
        buffer[: len(raw)] = raw
        end = max(raw.rfind(b"\n"), raw.rfind(b"\r"))
        begun = (self._cells, self._line) if end < 0 else (0, 0)
        self._cells = begun[0] + raw.count(self._separator, end + 1)
        self._line = begun[1] + len(raw) - end - 1
        self.left -= len(raw)
        if self._cells > self._columns:
            raise ValueError(f"more than {self._columns} columns; save it as .npz")
        if self._line > self.longest:
            raise ValueError(f"a line of more than {self.longest} bytes")
        if self.left < 0:
            raise _TooMuch
        return len(raw)


def separator(path: Path, how: Reading) -> str:
    """Return what splits columns of a text file; raise for a form that none has."""
    try:
        "".encode(how.encoding)
    except (LookupError, ValueError) as error:
        raise ValueError(
            "encoding: expected a name that Python's codecs know, such as utf-8 or "
            f"cp1252, got {how.encoding!r}"
        ) from error
    sep = how.sep or ("\t" if ending(path).startswith(".tsv") else ",")
    sep = {"tab": "\t", "\\t": "\t"}.get(sep, sep)
    marks = {"sep": sep, "decimal": how.decimal, "thousands": how.thousands}
    for name, value in marks.items():
        if value is not None and len(value) != 1:
            raise ValueError(f"{name}: expected one character, got {value!r}")
    if how.thousands == how.decimal:
        raise ValueError(
            f"decimal, thousands: expected two characters, got {how.decimal!r} for both"
        )
    if sep == how.decimal:
        raise ValueError(
            f"sep, decimal: expected two characters, got {sep!r} for both; give sep=';'"
            " (--sep ';') where columns are split by semicolons"
        )
    return sep


def _parsed(
    path: Path,
    how: Reading,
    width: int = 1,
    unused: Collection[int] = (),
    **options: Any,
) -> pd.DataFrame:
    """Read a text file of so many columns by pandas, with options of ``read_csv``."""
    rows, refused = min(CHUNK, max(FEWEST, CELLS // width)), ""
    with readable(f"data: expected a readable CSV file, got {str(path)!r}"):
        while not refused:
            try:
                return _joined(path, how, rows, width, unused, options)
            except _TooMuch as error:  # Long texts: again, fewer rows at a time.
                if rows == 1:
                    raise ValueError(
                        "too many bytes without the end of a row"
                    ) from error
                rows = max(1, rows // 8)
            except UnicodeError as error:
                raise ValueError(
                    f"no text in the encoding {how.encoding!r}; save it as UTF-8, or "
                    "give encoding='latin-1' (--encoding latin-1) or what it is in"
                ) from error
            except pd.errors.EmptyDataError:
                refused = (
                    "data: expected a line of names and lines of rows in "
                    f"{str(path)!r}, got an empty file"
                )
            except pd.errors.ParserError as error:
                refused = _ragged(path, str(error))
                if not refused:
                    raise
            except _Refused as error:
                refused = str(error)
    raise ValueError(refused)


def _ragged(path: Path, said: str) -> str:
    """Return a sentence for a row that pandas cannot split, "" for anything else."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said):
        columns, line, got = found.groups()  # pandas counts a text of two lines once.
        return (
            f"data: expected {columns} column{'s' * (columns != '1')} in every row of "
            f"{str(path)!r}, as in its first, got {got} in line {line}; a text that "
            'holds the separator, if there is one, has to stand in quotes ("a, b")'
        )
    if found := re.search(r"EOF inside string starting at row (\d+)", said):
        return (
            f"data: expected quotes that end in {str(path)!r}, got one without an end "
            f"in line {int(found[1]) + 1}"
        )
    return ""


def _joined(
    path: Path,
    how: Reading,
    rows: int,
    width: int,
    unused: Collection[int],
    options: dict[str, Any],
) -> pd.DataFrame:
    """Read so many rows at a time; a file read whole would be held beside its numbers.

    Columns that are not used are zeros, and texts that are alike are one object.
    """
    sep = separator(path, how)
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    size = path.stat().st_size
    parts: list[pd.DataFrame] = []
    seen: dict[str, str] = {}
    names: Any = ()
    n = letters = 0
    with opened(path, "rb") as file:
        watched = _Watched(file, size, sep.encode(how.encoding).strip(b"\0")[-1:])
        with io.BufferedReader(watched, 1 << 16) as stream:
            chunks: Any = pd.read_csv(
                stream,
                sep=sep,
                decimal=how.decimal,
                encoding=how.encoding,
                na_values=list(how.na),
                iterator=True,
                **options,
            )
            with chunks:
                while True:
                    watched.left = watched.longest + PER_CELL * rows * width
                    try:
                        part = chunks.get_chunk(rows)
                    except StopIteration:
                        break
                    names = part.columns
                    if unused:
                        used = [k for k in range(len(names)) if k not in unused]
                        part = part.iloc[:, used].set_axis(used, axis=1)
                    part, new = _shared(part, seen)
                    n, letters = n + len(part), letters + new
                    parts.append(part)
                    if said := too_much_text(letters, n, path, "the columns in use"):
                        raise _Refused(said)
    frame = pd.concat(parts, ignore_index=True)
    if len(parts) > 1:
        parts.clear()
        give_back()
    if unused:
        frame = frame.reindex(columns=range(len(names)), fill_value=np.int8(0))
        frame.columns = names
    return frame


def _shared(part: pd.DataFrame, seen: dict[str, str]) -> tuple[pd.DataFrame, int]:
    """Return a part with the texts seen before, as objects, and the new ones' letters.

    pandas' own kind of text is a new object each time that it is looked at.
    """
    texts = np.array([not pd.api.types.is_numeric_dtype(kind) for kind in part.dtypes])
    if not texts.any():
        return part, 0
    block: Any = part.iloc[:, texts].to_numpy(object, copy=True)
    new = 0
    for row in block:
        for k, text in enumerate(row):
            if isinstance(text, str):
                row[k] = known = seen.setdefault(text, text)
                new += len(text) * (known is text)
    # Numbers, then texts, put back in order: column by column would be quadratic.
    frame = pd.DataFrame(block, part.index, dtype=object)
    if not texts.all():
        frame = pd.concat([part.iloc[:, ~texts], frame], axis=1)
        places = np.r_[np.flatnonzero(~texts), np.flatnonzero(texts)]
        frame = frame.iloc[:, np.argsort(places)]
    return frame.set_axis(part.columns, axis=1), new


def read_text(
    path: Path, how: Reading, columns: Sequence[str | None] = ()
) -> pd.DataFrame:
    """Read a text file; a first line of numbers is data, not names.

    Columns that are left out by ``how``, and not among ``columns``, are zeros.
    """
    sep = separator(path, how)
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
    numbers = as_numbers(head, how.decimal, how.thousands).notna()
    # A missing entry, such as NA, beside numbers; an empty one is the name of an index.
    if numbers.iloc[:-1].any():
        numbers.iloc[:-1] |= read(nrows=1, header=None).iloc[0].isna() & (head != "")
    if bool(numbers.iloc[:-1].all() if len(head) > 1 else numbers.all()):
        bare = [f"x{k}" for k in range(len(head))]  # As they will be called.
        unused = not_used(bare, how, columns) - {len(head) - 1}
        rows = read(len(head), unused, header=None)
        if not _are_names(head, bool(numbers.iloc[-1]), rows.iloc[1:, -1]):
            return rows
    # A second line longer than the names: pandas would make an index of the rest.
    read(nrows=2, header=None, dtype=str)
    # The names as they stand: pandas would rename the second of two alike.
    names = [name or f"Unnamed: {k}" for k, name in enumerate(head)]
    frame = read(len(head), not_used(names, how, columns))
    frame.columns = names
    return frame


def spelt(
    path: Path, how: Reading, values: pd.Series, place: int, width: int
) -> np.ndarray:
    """Return a column of labels: as text where numbers would merge or rename some.

    That is where a number is spelt in two ways (1 and 01, 1.0), or begins with 0; or
    where words stand only in some of the rows that were read at a time.
    """
    numeric = pd.api.types.is_numeric_dtype(values)
    if not numeric and not pd.api.types.infer_dtype(values).startswith("mixed"):
        return values.to_numpy()
    texts = _parsed(path, how, width, header=None, dtype=str, usecols=[place])
    texts = texts.iloc[len(texts) - len(values) :, 0]
    if not numeric:
        return texts.to_numpy()
    found = {text.strip() for text in texts.dropna().unique()}
    padded = any(re.match(r"[-+]?0\d", text) for text in found)
    if not padded and len(found) == values.nunique():
        return values.to_numpy()
    return texts.str.strip().to_numpy()


def with_thousands(decimal: str, thousands: str) -> re.Pattern[str]:
    """Return the form of numbers that have thousands separators."""
    point, mark = re.escape(decimal), re.escape(thousands)
    return re.compile(rf"[-+]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{point}\d*)?")


def as_numbers(
    column: pd.Series, decimal: str = ".", thousands: str | None = None
) -> pd.Series:
    """Return numbers, also of texts; NaN for other texts.

    A thousands separator has three digits on its right: 1,5 is no number with ",".
    """
    grouped = with_thousands(decimal, thousands or "")

    def number(value: Any) -> Any:
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
