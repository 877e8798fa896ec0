"""Open Parquet files, ``.npy`` files or arrays as a ``Source``.

Opening reads only metadata. Parts are row groups of Parquet files, and pieces of
``.npy`` files and arrays. Files of a glob are sorted by name. Row groups are read one
by one, because a scanner over many row groups needs gigabytes. The size and
modification time of a file are checked before each part is read.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probmetric.large.remote import RemoteFile, is_remote, remote_files
from probmetric.large.source import (
    Block,
    Labels,
    Part,
    Source,
    aligned,
    cut,
    labels_of,
)
from probmetric.names import CONVERT, TEXT, files_at, repeated
from probmetric.typing import ArrayLike

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_GROUP = 1 << 30
"""Largest uncompressed size of a row group, in bytes."""

BUFFER = 1 << 16
"""Bytes of a column that are read at a time."""


type Place = Path | RemoteFile


class _File(NamedTuple):
    """The path, size and version of a file when it was opened."""

    path: Place
    size: int
    version: object

    @classmethod
    def of(cls, path: Place) -> "_File":
        if isinstance(path, RemoteFile):
            return cls(path, *path.version())
        about = path.stat()
        return cls(path, about.st_size, about.st_mtime_ns)

    def check(self) -> None:
        """Raise if the file was removed or changed."""
        try:
            now = _File.of(self.path)
        except OSError as error:
            raise ValueError(
                f"data: the file {str(self.path)!r} was removed after it was opened "
                f"({error.strerror}). Open the data again."
            ) from error
        if now != self:
            raise ValueError(
                f"data: the file {str(self.path)!r} changed after it was opened "
                f"({self.size} bytes then, {now.size} now). Open the data again."
            )


@contextmanager
def _readable(what: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError, EOFError, RuntimeError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"data: {what} cannot be read ({lines[0]})") from error


class Rows(Source):
    """Arrays X (n, d), labels y (n,), weights w (n,) and feature names as a source."""

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        w: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ):
        self._X = np.asarray(X)
        if self._X.ndim != 2 or 0 in self._X.shape or self._X.dtype.kind not in "biuf":
            raise ValueError(
                "data must be numbers of shape (n, d) with n, d ≥ 1, got "
                f"{self._X.dtype} of shape {self._X.shape}"
            )
        n, d = self._X.shape
        self._y = None if y is None else np.asarray(y)
        self._w = None if w is None else np.asarray(w, float)
        for name, values in {"label": self._y, "weight": self._w}.items():
            if values is not None and values.shape != (n,):
                raise ValueError(f"{name} must have shape ({n},), got {values.shape}")
        self.name = "arrays"
        self.feature_names = tuple(names or (f"x{j}" for j in range(d)))
        self.labeled, self.weighted = y is not None, w is not None
        self.parts = [Part("the arrays", a, rows, start=a) for a, rows in cut(n, d)]

    def read(self, part: Part, rows: int, *, features: bool = True) -> Iterator[Block]:
        """Yield the rows of a part; float64 rows are not copied."""
        end = part.first + part.rows
        for a in range(part.first, end, rows):
            some = slice(a, min(a + rows, end))
            X = self._X[some] if features else self._X[some, :0]
            y = None if self._y is None else labels_of(self._y[some], part, a)
            yield Block(X, y, None if self._w is None else self._w[some], a)


class _Array(NamedTuple):
    """An ``.npy`` file: its shape, its dtype, and the offset of its data."""

    file: _File
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    @classmethod
    def at(cls, path: Path, axes: int) -> "_Array":
        with _readable(f"{str(path)!r} as an .npy file"):
            array = np.load(path, mmap_mode="r")
        shape, dtype, by_row = array.shape, array.dtype, array.flags.c_contiguous
        if len(shape) != axes or 0 in shape[1:] or not by_row:
            wanted = "(n, d), stored by rows" if axes == 2 else "(n,)"
            order = (
                "" if by_row else ", stored by columns. Save np.ascontiguousarray(X)"
            )
            raise ValueError(
                f"data must be an array of shape {wanted} in {str(path)!r}, got "
                f"{shape}{order}"
            )
        if dtype.kind not in ("biuf" if axes == 2 else "biufUS"):
            raise ValueError(f"data must be numbers in {str(path)!r}, got {dtype}")
        return cls(_File.of(path), shape, dtype, array.offset)

    def values(self, first: int, rows: int) -> np.ndarray:
        path, shape = self.file.path, (rows, *self.shape[1:])
        as_float = self.dtype == np.float64
        values = aligned(shape) if as_float else np.empty(shape, self.dtype)
        with _readable(f"rows {first} to {first + rows} of {str(path)!r}"):
            with Path(str(path)).open("rb", buffering=0) as file:
                file.seek(self.offset + first * (values.nbytes // rows))
                if file.readinto(values.reshape(-1).view(np.uint8)) < values.nbytes:
                    raise EOFError("the file ends there")
        return values


class Npy(Source):
    """``.npy`` files as a source: points (n, d), optionally labels and weights (n,)."""

    def __init__(
        self,
        paths: Sequence[Path],
        label: Sequence[Path] | None = None,
        weight: Sequence[Path] | None = None,
    ):
        self._X = [_Array.at(path, 2) for path in paths]
        d = self._X[0].shape[1]
        for header in self._X:
            if header.shape[1] != d:
                raise ValueError(
                    f"data must have {d} columns, as in {str(paths[0])!r}, got "
                    f"{header.shape[1]} in {str(header.file.path)!r}"
                )
        self._y = self._beside("label", label)
        self._w = self._beside("weight", weight)
        self.labeled, self.weighted = label is not None, weight is not None
        self.name = _named(paths)
        self.feature_names = tuple(f"x{j}" for j in range(d))
        self.parts: list[Part] = []
        first = 0
        for number, header in enumerate(self._X):
            where = str(header.file.path)
            for a, rows in cut(header.shape[0], d):
                self.parts.append(Part(where, first, rows, number, a, a))
                first += rows

    def _beside(self, name: str, paths: Sequence[Path] | None) -> list[_Array] | None:
        if paths is None:
            return None
        headers = [_Array.at(path, 1) for path in paths]
        rows, wanted = ([h.shape[0] for h in hs] for hs in (headers, self._X))
        if rows != wanted:
            raise ValueError(
                f"{name}: files must have the same numbers of rows as the files of "
                f"points, {wanted}, got {rows}"
            )
        return headers

    def read(self, part: Part, rows: int, *, features: bool = True) -> Iterator[Block]:
        """Yield the rows of a part."""
        X, y, w = (
            None if headers is None else headers[part.file]
            for headers in (self._X, self._y, self._w)
        )
        assert X is not None
        for header in (X, y, w):
            if header is not None:
                header.file.check()
        for a in range(0, part.rows, rows):
            m, at, first = min(rows, part.rows - a), part.at + a, part.first + a
            yield Block(
                X.values(at, m) if features else np.empty((m, 0)),
                None if y is None else labels_of(y.values(at, m), part, first),
                None if w is None else w.values(at, m).astype(float),
                first,
            )


class Parquet(Source):
    """Parquet files (local or remote) as a source; a part is a row group.

    ``label`` and ``weight`` are columns. ``features`` are columns of numbers in this
    order, or one column of fixed-size lists. Default: all other columns except
    ``drop``.
    """

    def __init__(
        self,
        paths: Sequence[Place],
        label: str | None = None,
        weight: str | None = None,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
    ):
        try:
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ValueError(
                "data: Parquet files require pyarrow. Install the extra 'parquet'."
            ) from error
        self.name, self._label, self._weight = _named(paths), label, weight
        self.labeled, self.weighted = label is not None, weight is not None
        self._files = [_File.of(path) for path in paths]
        self.parts: list[Part] = []
        first, schema = 0, None
        for number, path in enumerate(paths):
            with _readable(f"{str(path)!r} as a Parquet file"):
                about = pq.read_metadata(_opened_file(path))
            columns = about.schema.to_arrow_schema()
            if schema is None:
                schema = columns
                self._columns(columns, features, drop, path)
            self._same_columns(columns, schema, path)
            for group in range(about.num_row_groups):
                stored = about.row_group(group)
                where = f"{path}, row group {group}"
                if stored.total_byte_size > LARGEST_GROUP:
                    raise ValueError(_too_large(where, stored))
                self.parts.append(Part(where, first, stored.num_rows, number, group))
                first += stored.num_rows
        if first == 0:
            raise ValueError(
                f"data must contain at least one row, got none in {self.name}"
            )

    def _columns(
        self,
        schema: "pa.Schema",
        features: Sequence[str],
        drop: Sequence[str],
        at: Place,
    ) -> None:
        import pyarrow as pa

        names: list[str] = schema.names
        arguments = {"label": [self._label], "weight": [self._weight]}
        arguments |= {"features": [*features], "drop": [*drop]}
        for argument, columns in arguments.items():
            for column in columns:
                if column is not None and column not in names:
                    raise ValueError(
                        f"{argument} must be a column of {at.name} "
                        f"({', '.join(names[:8])}), got {column!r}"
                    )
        if twice := repeated([name for name in names if name not in drop]):
            named = ", ".join(map(repr, twice))
            raise ValueError(f"data: more than one column {named} in {at.name}")
        taken = {self._label, self._weight, *drop}
        self._features = [*features] or [name for name in names if name not in taken]
        types: list[Any] = [schema.field(name).type for name in self._features]
        self._packed = len(types) == 1 and pa.types.is_fixed_size_list(types[0])
        if self._packed:
            types = [types[0].value_type]
        for name, kind in zip(self._features, types, strict=True):
            if not (
                pa.types.is_floating(kind)
                or pa.types.is_integer(kind)
                or pa.types.is_boolean(kind)
            ):
                raise ValueError(
                    f"data must be numbers in every feature, got {kind} in column "
                    f"{name!r} of {at.name}. Use it as label=, or omit it by drop="
                )
        if not self._features:
            raise ValueError(f"data must have at least one feature column in {at.name}")
        self.feature_names = tuple(self._features)
        if self._packed:
            size = schema.field(self._features[0]).type.list_size
            self.feature_names = tuple(f"x{j}" for j in range(size))

    def _same_columns(
        self, this: "pa.Schema", schema: "pa.Schema", path: Place
    ) -> None:
        wanted = [*self._features, self._label, self._weight]
        for name in (name for name in wanted if name is not None):
            here = this.field(name).type if name in this.names else "none"
            if here != schema.field(name).type:
                raise ValueError(
                    f"data: column {name!r} must have type {schema.field(name).type} "
                    f"in all files, as in the first, got {here} in {str(path)!r}"
                )

    def read(self, part: Part, rows: int, *, features: bool = True) -> Iterator[Block]:
        """Yield the rows of a row group."""
        import pyarrow.parquet as pq

        self._files[part.file].check()
        extra = [name for name in (self._label, self._weight) if name is not None]
        columns = [*(self._features if features else ()), *extra]
        first = part.first
        with _readable(part.where):
            file = pq.ParquetFile(
                _opened_file(self._files[part.file].path),
                pre_buffer=False,
                buffer_size=BUFFER,
            )
            batches = file.iter_batches(
                rows, row_groups=[part.at], columns=columns, use_threads=False
            )
        with file:
            while True:
                with _readable(part.where):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield self._block(batch, part, first, features)
                first += batch.num_rows
            del batches
        if first != part.first + part.rows:
            raise ValueError(
                f"data: the number of rows in {part.where} changed after it was "
                f"opened ({part.rows} rows then, {first - part.first} now). Open the "
                "data again"
            )

    def _block(
        self, batch: "pa.RecordBatch", part: Part, first: int, features: bool
    ) -> Block:
        m, d = batch.num_rows, len(self.feature_names)
        w, y = None, None
        if self._weight is not None:
            w = _numbers(batch.column(self._weight)).astype(float)
        if self._label is not None:
            y = _arrow_labels(batch.column(self._label), part, first)
        if not features:
            return Block(np.empty((m, 0)), y, w, first)
        if self._packed:
            column: Any = batch.column(self._features[0])
            if column.null_count:
                row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise ValueError(
                    "data must be finite numbers, got NaN, infinity or no value in "
                    f"row {first - part.first + row} of {part.where}"
                )
            values = _numbers(column.flatten())
            return Block(values.reshape(m, d), y, w, first)
        X = aligned((m, d))
        for j, name in enumerate(self._features):
            X[:, j] = _numbers(batch.column(name))
        return Block(X, y, w, first)


def _opened_file(path: Place) -> Any:
    return path.open() if isinstance(path, RemoteFile) else path


def _numbers(column: "pa.Array") -> np.ndarray:
    """Return a column as an array without a copy (``to_numpy`` imports pandas)."""
    import pyarrow as pa

    kind = column.type
    if column.null_count or not (
        pa.types.is_floating(kind) or pa.types.is_integer(kind)
    ):
        return column.to_numpy(zero_copy_only=False)
    return np.from_dlpack(column)


def _arrow_labels(column: "pa.Array", part: Part, first: int) -> Labels:
    """Return the labels of a column; text is encoded by a dictionary."""
    import pyarrow as pa

    if column.null_count or not (
        pa.types.is_string(column.type)
        or pa.types.is_large_string(column.type)
        or pa.types.is_dictionary(column.type)
    ):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return labels_of(_numbers(column), part, first)
    coded = column
    if not pa.types.is_dictionary(column.type):
        coded = column.dictionary_encode()
    codes = _numbers(coded.indices).astype(np.int32)
    return Labels(np.array(coded.dictionary.to_pylist()), codes)


def _too_large(where: str, stored: Any) -> str:
    return (
        "data: a row group of the Parquet file is too large to be read at once "
        f"({stored.num_rows} rows, {stored.total_byte_size} bytes, in {where}). Use "
        "row groups of 10^5 to 10^6 rows, and write the file again: with "
        "pyarrow.parquet.ParquetFile(old) as file, pyarrow.parquet.ParquetWriter(new, "
        "file.schema_arrow) as out: [out.write_batch(rows) for rows in "
        "file.iter_batches(262144)]"
    )


def _named(paths: Sequence[Place]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


def _ending(paths: Sequence[Place]) -> str:
    endings = {path.suffix.lower() for path in paths}
    for path in paths:
        if path.name.lower().endswith(TEXT):
            kind, todo = "text", "write a Parquet file once with pandas"
            if ".csv" in path.name.lower():
                kind, todo = "CSV", CONVERT
            wanted = "expected .parquet or .npy files"
            raise ValueError(f"data: {wanted}, got {kind} ({str(path)!r}); {todo}")
    if len(endings) > 1 or not endings <= {".parquet", ".npy"}:
        raise ValueError(
            "data must be files that all end in .parquet, or all in .npy, got "
            f"{', '.join(sorted(endings)) or 'no ending'}"
        )
    return endings.pop()


def open(
    data: ArrayLike | os.PathLike[str],
    *,
    label: ArrayLike | os.PathLike[str] | None = None,
    weight: ArrayLike | os.PathLike[str] | None = None,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> Source:
    """Open data that are too large for memory. ``fit`` reads them in chunks.

    Parameters
    ----------
    data : str, Path or array of shape (n, d)
        A ``.parquet`` or ``.npy`` file, a pattern such as ``rows/*.npy`` (files are
        sorted by name), a folder of Parquet files, or an array. URLs of Parquet files
        are allowed if fsspec can read them (``s3://``, ``gs://``, ``https://``).
    label : str, Path or array of shape (n,), optional
        Class of each row: the name of a column for Parquet files, ``.npy`` files (one
        for each file of points) for ``.npy`` files, and an array for an array.
    weight : str, Path or array of shape (n,), optional
        Data weights ≥ 0, in the same form as ``label``. Default: 1.
    features : sequence of str
        Columns of Parquet files to use as features, in this order, or one column of
        fixed-size lists. Default: all other columns.
    drop : sequence of str
        Columns of Parquet files to ignore.

    Returns
    -------
    Source
        Pass it to ``fit`` or ``nearest`` instead of an array. ``open`` reads only the
        metadata of the files.

    Raises
    ------
    ValueError
        If a file is a text file. The message shows how to convert it.
        If files are missing, unreadable or different from each other.
        If columns are missing or text.
        If a row group is above 1 GiB.
        While rows are read: if a file was removed or changed, a row group is
        unreadable, or a value is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> source = open(X, label=X[:, 0] > 0)
    >>> source
    Rows('arrays': 100 rows of 3 features and labels, in 1 part)
    >>> source.feature_names
    ('x0', 'x1', 'x2')
    """
    return _opened(data, label, weight, features, drop)


def _opened(
    data: Any, label: Any, weight: Any, features: Sequence[str], drop: Sequence[str]
) -> Source:
    if not isinstance(data, str | os.PathLike):
        if features or drop:
            raise ValueError(
                "features and drop must be empty for data in memory, got "
                f"{(*features, *drop)}. Select the columns before this call."
            )
        names = getattr(data, "columns", None)
        return Rows(data, label, weight, None if names is None else [*map(str, names)])
    if is_remote(data):
        remote = remote_files(str(data))
        if _ending(remote) != ".parquet":
            raise ValueError(f"data must be Parquet files at a URL, got {data!r}")
        return Parquet(remote, label, weight, features, drop)
    paths = files_at(data)
    if _ending(paths) == ".parquet":
        return Parquet(paths, label, weight, features, drop)
    if features or drop:
        raise ValueError(
            "features and drop must be empty for .npy files (their columns have no "
            "names)."
        )
    beside = [
        None if given is None else files_at(given, name)
        for name, given in {"label": label, "weight": weight}.items()
    ]
    return Npy(paths, *beside)
