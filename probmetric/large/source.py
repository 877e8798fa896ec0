"""Read data that need not fit in memory, in blocks of one shape.

A ``Source`` is a list of parts: consecutive rows, known from metadata. Sums over rows
are computed block by block, in an order that does not depend on the number of workers:

* parts are divided into ``BINS`` contiguous bins (``bins``), and the sums of bins are
  added in order;
* within a bin, blocks run across parts. All blocks of a source have one shape
  (``block_rows``), and the last block of a bin is padded with rows of weight 0
  (``filled``), so one compiled step is used for all blocks;
* the next block is read in a thread (``ahead``) into new buffers, because JAX may read
  a NumPy array after the call returns.

Values that are not finite, missing labels and negative weights raise an error with the
file, the row group and the row. No row is left out.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.hash import row_bits
from probmetric.large.engine import run

BINS = 64
"""Number of bins of a source, for any number of workers."""

BLOCK_ENTRIES = 1 << 18
"""Largest number of entries of a block, 2 MB in float64 (at least ``CHUNK`` rows)."""

MOST_ROWS = 1 << 16
"""Largest number of rows of a block."""

SAMPLE = 50_000
"""Approximate largest number of rows of a sample."""

CHUNK = 2048
"""Number of rows that a step processes at a time. Block sizes are multiples of it."""

ALIGNED = 64
"""Alignment in bytes of arrays that XLA does not copy."""


class Part(NamedTuple):
    """Consecutive rows of a source: location, first row, and number of rows.

    ``where`` is the location in messages, and ``start`` the number of the first row in
    messages. ``first`` is the number of the first row in the whole source. ``file`` is
    the number of the file. ``at`` is the row group (Parquet) or the first row in this
    file.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> source = pm.open(np.zeros((100, 3)))
    >>> [(part.first, part.rows) for part in source.parts]
    [(0, 100)]
    """

    where: str
    first: int
    rows: int
    file: int = 0
    at: int = 0
    start: int = 0


class Labels(NamedTuple):
    """Labels values[codes]. Values are distinct, but may be unsorted or unused."""

    values: np.ndarray
    codes: Int[np.ndarray, "m"]


class Block(NamedTuple):
    """Block of m rows: X (m, d), labels, weights, and the number of the first row.

    ``labels.values`` are the distinct labels, and ``labels.codes`` (m,) their indices.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> source = pm.open(np.arange(10.0).reshape(5, 2), label=np.array([0, 0, 1, 1, 1]))
    >>> for block in source.read(source.parts[0], 3):
    ...     print(block.first, block.X.shape, block.labels.values[block.labels.codes])
    0 (3, 2) [0 0 1]
    3 (2, 2) [1 1]
    """

    X: np.ndarray
    labels: Labels | None
    w: np.ndarray | None
    first: int


IMPLEMENTATIONS = {
    "nearest": "neighbors:nearest",
    "neighbor_table": "neighbors:neighbor_table",
    "rows_at": "neighbors:rows_at",
    "evaluate": "evaluate:evaluate",
    "warn_of_training_data": "votes:warn_of_training_data",
    "with_intervals": "resampled:with_intervals",
    "GLML.fit": "gaussian_classes:fit_glml",
    "GaussianClasses.fit": "gaussian_classes:fit",
    "KNeighborsClassifier.fit": "votes:fit",
    "LCA.fit": "anchors:fit",
    "PairLDA.fit": "lda:fit_pair_lda",
    "TwoStageMixture.fit": "two_stage:fit",
    "_TiedClasses.fit": "lda:fit",
    "count_votes": "votes:count_votes",
}
"""Implementations of functions and methods of the core for data on disk."""


class Source(ABC):
    """Data on disk (or arrays) that are read in chunks, as ``pm.open`` returns them.

    To read another format, write a subclass that sets the attributes and defines
    ``read``. For use on a Dask cluster, it must support pickling.

    Attributes
    ----------
    name : str
        Location of the rows, used in messages.
    feature_names : tuple of d str
    parts : sequence of Part
        Consecutive runs of rows.
    labeled, weighted : bool
        Whether rows have labels and weights.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.large import Source
    >>> source = pm.open(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> isinstance(source, Source), source.feature_names, source.labeled
    (True, ('x0', 'x1'), False)
    >>> float(sum(b.X.sum() for p in source.parts for b in source.read(p, 1)))
    10.0
    """

    name: str
    feature_names: tuple[str, ...]
    parts: list[Part]
    labeled: bool
    weighted: bool

    @abstractmethod
    def read(self, part: Part, rows: int, *, features: bool = True) -> Iterator[Block]:
        """Yield the rows of a part in new arrays, at most ``rows`` at a time.

        If ``features`` is False, read only labels and weights. X then has no columns.
        """

    def implementation(self, name: str) -> Callable[..., Any]:
        """Return the version of a function or method that reads data in chunks.

        ``name`` is a name such as "nearest" or "LCA.fit".
        """
        module, _, function = IMPLEMENTATIONS[name].partition(":")
        return getattr(import_module(f"probmetric.large.{module}"), function)

    def __len__(self) -> int:
        return n_rows(self)

    def __repr__(self) -> str:
        size = f"{n_rows(self)} rows of {len(self.feature_names)} features"
        size += " and labels" * self.labeled + " and weights" * self.weighted
        parts = f"{len(self.parts)} part" + "s" * (len(self.parts) != 1)
        return f"{type(self).__name__}({self.name!r}: {size}, in {parts})"


class View(Source):
    """A source whose blocks are changed by ``change(block)`` when they are read.

    ``change`` must not add or remove rows. On a Dask cluster ``change`` is pickled. If
    the data differ from ``source``, ``name`` must differ, because checkpoints use it.
    """

    def __init__(
        self,
        source: Source,
        change: Callable[[Block], Block],
        name: str,
        *,
        weighted: bool,
    ) -> None:
        self.source, self.change = source, change
        self.name, self.weighted, self.labeled = name, weighted, source.labeled
        self.feature_names, self.parts = source.feature_names, source.parts

    def read(self, part: Part, rows: int, *, features: bool = True) -> Iterator[Block]:
        """Yield the changed rows of a part."""
        return map(self.change, self.source.read(part, rows, features=features))


def n_rows(source: Source) -> int:
    """Return the number n of rows."""
    return sum(part.rows for part in source.parts)


def n_features(source: Source) -> int:
    """Return the number d of features."""
    return len(source.feature_names)


def most_rows(d: int) -> int:
    """Return the largest number of rows of a block of d features."""
    return min(MOST_ROWS, max(BLOCK_ENTRIES // max(d, 1) // CHUNK, 1) * CHUNK)


def cut(n: int, d: int) -> list[tuple[int, int]]:
    """Return (first, rows) of pieces of similar size, at most a block each."""
    if n == 0:
        return []
    pieces = -(-n // most_rows(d))
    size = -(-n // pieces)
    size = min(n, -(-size // CHUNK) * CHUNK)
    return [(a, min(size, n - a)) for a in range(0, n, size)]


def bins(parts: Sequence[Part]) -> list[list[Part]]:
    """Divide parts among the ``BINS`` bins. The middle row of a part has its bin."""
    parts_of: list[list[Part]] = [[] for _ in range(BINS)]
    n = sum(part.rows for part in parts)
    before = 0
    for part in parts:
        if part.rows:
            parts_of[(2 * before + part.rows) * BINS // (2 * n)].append(part)
        before += part.rows
    return parts_of


def block_rows(source: Source) -> int:
    """Return the number of rows of a block for which the least padding is needed."""
    d = max(n_features(source), 1)
    sizes = np.array([sum(p.rows for p in some) for some in bins(source.parts) if some])
    if not len(sizes):
        return 1
    most, largest = most_rows(d), int(sizes.max())
    if largest <= CHUNK:
        return 1 << (largest - 1).bit_length()
    tried = np.arange(most, most // 2, -CHUNK)
    filled = (-(-sizes // tried[:, None]) * tried[:, None]).sum(1)
    return min(int(tried[filled.argmin()]), -(-largest // CHUNK) * CHUNK)


class Filled(NamedTuple):
    """A padded block: X (b, d), class codes y (b,), w (b,), first row, number of rows.

    Rows after the first ``rows`` are padding with entries 0 and weight 0. y is 0 if
    there are no classes.
    """

    X: Float[np.ndarray, "b d"]
    y: Int[np.ndarray, "b"]
    w: Float[np.ndarray, "b"]
    first: int
    rows: int


def aligned(shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Return an uninitialized float64 array that XLA does not copy."""
    size = math.prod(shape) * 8
    raw = np.empty(size + ALIGNED, np.uint8)
    at = -raw.ctypes.data % ALIGNED
    return raw[at : at + size].view(np.float64).reshape(shape)


def filled(
    source: Source,
    parts: Sequence[Part],
    rows: int,
    *,
    classes: np.ndarray | None = None,
) -> Iterator[Filled]:
    """Yield the parts of one bin in checked blocks of ``rows`` rows.

    Class codes y are the places of labels in the sorted ``classes`` (c,).

    Raises
    ------
    ValueError
        If a value is not finite, a weight is negative or not finite, or a label is
        missing or not among the classes, or if ``source.read`` raises. The message has
        the file, row group, row and column.
    """
    shape = rows, n_features(source)
    X, y, w = aligned(shape), np.zeros(rows, np.int32), np.empty(rows)
    n, first = 0, parts[0].first if parts else 0
    for part in parts:
        for block in source.read(part, rows):
            codes = checked(block, part, classes, source.feature_names)
            m, at = len(block.X), 0
            if n == 0 and m == rows and _usable(block.X):
                weights = np.ones(m) if block.w is None else np.array(block.w, float)
                yield Filled(block.X, codes, weights, first, m)
                first += m
                continue
            while at < m:
                take = min(rows - n, m - at)
                to, of = slice(n, n + take), slice(at, at + take)
                X[to], y[to] = block.X[of], codes[of]
                w[to] = 1.0 if block.w is None else block.w[of]
                n, at = n + take, at + take
                if n == rows:
                    yield Filled(X, y, w, first, n)
                    X, y, w = aligned(shape), np.zeros_like(y), np.empty_like(w)
                    n, first = 0, first + rows
    if n:
        X[n:], y[n:], w[n:] = 0.0, 0, 0.0
        yield Filled(X, y, w, first, n)


def _usable(X: np.ndarray) -> bool:
    return X.dtype == np.float64 and X.flags.c_contiguous


def checked(
    block: Block, part: Part, classes: np.ndarray | None, names: Sequence[str]
) -> Int[np.ndarray, "m"]:
    """Check the entries of a block, and return its class codes."""
    X, w = block.X, block.w
    with np.errstate(over="ignore", invalid="ignore"):
        sound = np.isfinite(X.sum())  # One pass. A sum may overflow for finite X.
    if not sound and not (bad := np.isfinite(X)).all():
        row, column = np.argwhere(~bad)[0]
        raise ValueError(
            f"data must be finite numbers, got {X[row, column]} in column "
            f"{names[column]!r} of {_row(block, part, int(row))}"
        )
    if w is not None and not np.all((w >= 0) & (w < np.inf)):
        row = int(np.flatnonzero(~((w >= 0) & (w < np.inf)))[0])
        raise ValueError(
            f"weight must be numbers ≥ 0, got {w[row]} in {_row(block, part, row)}"
        )
    if classes is None:
        return np.zeros(len(X), np.int32)
    assert block.labels is not None
    values, codes = block.labels
    place = np.searchsorted(classes, values).astype(np.int32)
    matched = classes[np.minimum(place, len(classes) - 1)] == values
    place[~matched] = -1
    codes = place[codes]
    if w is not None:  # The label of a row of weight 0 may be of no class.
        codes = np.where((codes < 0) & (w == 0), np.int32(0), codes)
    if not matched.all() and codes.min() < 0:
        row = int(codes.argmin())
        raise ValueError(
            f"label must be one of {len(classes)} classes, got "
            f"{values.tolist()[block.labels.codes[row]]!r} in "
            f"{_row(block, part, row)}"
        )
    return codes


def _row(block: Block, part: Part, row: int) -> str:
    """Describe a row of a block, counted from 0 in its file or row group."""
    return f"row {block.first - part.first + part.start + row} of {part.where}"


def labels_of(values: np.ndarray, part: Part, first: int) -> Labels:
    """Return labels as distinct values and codes, or raise if a label is missing."""
    lacking = None
    if values.dtype.kind == "f":
        lacking = np.isnan(values)
    elif values.dtype == object:
        lacking = np.array([v is None or v != v for v in values], bool)
    if lacking is not None and lacking.any():
        row = first - part.first + part.start + int(lacking.argmax())
        raise ValueError(
            f"label must have a label in every row, got none in row {row} of "
            f"{part.where}"
        )
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < CHUNK:  # Codes without a sort.
            return Labels(np.arange(low, high + 1), (values - low).astype(np.int32))
    if values.dtype == object:
        values = values.astype(str)
    distinct, codes = np.unique(values, return_inverse=True)
    return Labels(distinct, codes.astype(np.int32))


def check_labels(source: Source) -> None:
    """Raise for data without labels."""
    if not source.labeled:
        raise ValueError(
            f"label must be a column of {source.name}, got none. Use pm.open(..., "
            "label=)."
        )


def refuse_arrays(**arrays: object) -> None:
    """Raise if labels or weights are not None, because a source has its own."""
    for name, values in arrays.items():
        if values is not None:
            option = "weight" if name == "sample_weight" else "label"
            raise ValueError(
                f"{name} must be None for data on disk, got {type(values).__name__}. "
                f"Use pm.open(..., {option}=)."
            )


def class_counts(source: Source) -> tuple[np.ndarray, Int[np.ndarray, "c"]]:
    """Return sorted labels and their counts, without rows of weight 0, in one pass."""
    check_labels(source)
    count_of: dict[object, int] = {}
    kind: np.dtype = np.dtype(int)
    for part in source.parts:
        for block in source.read(part, MOST_ROWS, features=False):
            assert block.labels is not None
            values, codes = block.labels
            if block.w is not None:
                codes = codes[block.w > 0]
            for value, count in zip(
                values.tolist(), np.bincount(codes, minlength=len(values)), strict=True
            ):
                if count:
                    count_of[value] = count_of.get(value, 0) + int(count)
            kind = values.dtype
    values = np.array(list(count_of), str if kind.kind in "US" else kind)
    order = np.argsort(values)
    return values[order], np.array(list(count_of.values()), int)[order]


def sample_rows(
    source: Source,
    *,
    seed: int = 0,
    most: int = SAMPLE,
    classes: np.ndarray | None = None,
) -> tuple[Float[np.ndarray, "m d"], Int[np.ndarray, "m"], Float[np.ndarray, "m"]]:
    """Sample about ``most`` rows by ``row_bits``, with their codes and weights.

    All rows of positive weight are returned if there are at most ``most``. Codes are
    the places of labels in the sorted ``classes`` (c,), or 0. One pass over the data.
    """
    shared = source, seed, most / n_rows(source), block_rows(source), classes
    samples = run(_sampled, [some for some in bins(source.parts) if some], *shared)
    X, y, w = (np.concatenate(arrays) for arrays in zip(*samples, strict=True))
    return X, y, w


def _sampled(
    parts: Sequence[Part],
    source: Source,
    seed: int,
    rate: float,
    size: int,
    classes: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X: list[np.ndarray] = []
    y, w = list[np.ndarray](), list[np.ndarray]()
    for block in blocks_of(source, [parts], size, classes=classes):
        selected = block.w[: block.rows] > 0
        if rate < 1:
            number = block.first + np.arange(block.rows)
            selected &= row_bits(seed, number) / 2.0**64 < rate
        X.append(block.X[: block.rows][selected])
        y.append(block.y[: block.rows][selected])
        w.append(block.w[: block.rows][selected])
    return np.concatenate(X), np.concatenate(y), np.concatenate(w)


class _Reader(threading.local):
    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "probmetric-read")


_READER = _Reader()


def ahead[T](items: Iterator[T]) -> Iterator[T]:
    """Yield items while a thread computes the next item, and raise its errors."""
    end, thread = object(), _READER.pool
    coming = thread.submit(next, items, end)
    try:
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield item  # pyright: ignore[reportReturnType]
    finally:
        wait([coming])


def blocks_of(
    source: Source,
    parts: Sequence[Sequence[Part]],
    rows: int,
    *,
    classes: np.ndarray | None = None,
) -> Iterator[Filled]:
    """Yield the ``filled`` blocks of some bins."""
    return ahead(
        b for some in parts for b in filled(source, some, rows, classes=classes)
    )
