"""Rows that need not fit in memory: parts, blocks, and how they are shared and read.

A ``Source`` is a list of parts, runs of consecutive rows that can be read on their own,
known from metadata and the same on every process. What is summed over a source is
summed a block at a time, and in an order that no number of processes changes:

* parts fall into ``BINS`` contiguous bins by their rows (``bins``); a process has whole
  bins (``share``), and bins are added in order;
* within a bin blocks run across parts. All blocks of a source have one shape
  (``block_rows``), the last of a bin filled up with rows of weight 0 (``filled``), so
  that one compiled step serves all;
* the next block is read in a thread while one is used (``ahead``). No buffer is used
  twice: JAX reads a NumPy array in place, after the call that was given it.

A value that is not finite, a label that is missing or a weight that is negative is an
error that names the file, the row group and the row; no row is ever left out.

Blocks are float64, or float32 where a source says so (``dtype``): ``inference.reduce``
then computes in float32, ``CHUNK`` rows at a time, and adds in float64.
"""

import math
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

BINS = 64
"""Bins of a source, whatever the number of processes."""

BLOCK_ENTRIES = 1 << 18
"""Numbers of a block, at most: 2 MB in float64 (but ``CHUNK`` rows at least)."""

MOST_ROWS = 1 << 16
"""Rows of a block, at most."""

SAMPLE = 50_000
"""Rows of a sample, at most (about)."""

CHUNK = 2048
"""Rows of a block are a multiple of this, which steps work through at a time."""

ALIGNED = 64
"""Bytes at whose multiples arrays begin that XLA takes as they are."""

HELD = (32 << 20) - (1 << 16)
"""Bytes that are asked for and given back, untouched, before a pass.

glibc then keeps freed blocks of up to so many bytes for the next ones. Otherwise it may
give each block back to the system, and a quarter of a search was spent on page faults.
"""


class Part(NamedTuple):
    """A run of rows: where they are in words, first row of the source, how many.

    ``file`` is the number of the file, ``at`` its row group or the first row there;
    rows in messages are counted from ``start``.

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
    """Labels values[codes]: v distinct values, sorted or not, used or not."""

    values: np.ndarray
    codes: Int[np.ndarray, "m"]


class Block(NamedTuple):
    """Rows X (m, d) as they are stored, labels, weights, number of the first row.

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


@runtime_checkable
class Source(Protocol):
    """Rows in parts.

    Attributes
    ----------
    name : str
        Where the rows are, for messages.
    feature_names : tuple of d str
    parts : sequence of Part
        In order, each beginning where the last one ended.
    labelled, weighted : bool
        Whether rows have labels, and weights.

    Examples
    --------
    What has these parts may be given wherever rows are read; ``pm.open`` returns one:

    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.data import Source
    >>> source = pm.open(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> isinstance(source, Source), source.feature_names, source.labelled
    (True, ('x0', 'x1'), False)
    >>> float(sum(b.X.sum() for p in source.parts for b in source.read(p, 1)))
    10.0
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def feature_names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def parts(self) -> Sequence[Part]: ...  # noqa: D102
    @property
    def labelled(self) -> bool: ...  # noqa: D102
    @property
    def weighted(self) -> bool: ...  # noqa: D102

    def read(self, part: Part, rows: int, *, features: bool = True) -> Iterator[Block]:
        """Yield the rows of a part, at most so many at a time, in new arrays.

        Without ``features`` X has no columns: labels and weights alone are read.
        """
        ...


def described(self: Any) -> str:
    """Write a source with its size, as its ``__repr__``."""
    held = f"{n_rows(self)} rows of {len(self.feature_names)} features"
    held += " and labels" * self.labelled + " and weights" * self.weighted
    parts = f"{len(self.parts)} part" + "s" * (len(self.parts) != 1)
    return f"{type(self).__name__}({self.name!r}: {held}, in {parts})"


@dataclass(frozen=True, repr=False)
class View:
    """A source whose blocks are changed as they are read, but not which rows they hold.

    Parameters
    ----------
    source : Source
    change : callable
        ``change(block) -> block`` with other weights, labels or numbers.
    name : str
        Where the rows are, and what was changed, if it is to count as other data.
    weighted : bool
        Whether its rows have weights.
    """

    source: Source
    change: Callable[[Block], Block]
    name: str
    weighted: bool
    __repr__ = described

    @property
    def dtype(self) -> np.dtype:
        """That of the source."""
        return dtype_of(self.source)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.feature_names

    @property
    def parts(self) -> Sequence[Part]:
        """Those of the source."""
        return self.source.parts

    @property
    def labelled(self) -> bool:
        """Whether the source's rows have labels."""
        return self.source.labelled

    def read(self, part: Part, rows: int, *, features: bool = True) -> Iterator[Block]:
        """Yield the rows of a part, changed, as ``Source.read``."""
        return map(self.change, self.source.read(part, rows, features=features))


class Single(View):
    """A source whose blocks are float32."""

    @property
    def dtype(self) -> np.dtype:
        """Float32."""
        return np.dtype(np.float32)


def single(source: Source) -> Single:
    """Return a source whose numbers are rounded to float32 as they are read.

    Raises
    ------
    ValueError
        When rows are read, for a column whose squares float32 does not hold: of a
        largest number in a block beyond 1e15, or other than 0 and below 1e-15.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> from probmetric.data.source import dtype_of, single
    >>> rows = single(pm.open(np.array([[0.1], [0.2]])))
    >>> dtype_of(rows).name, [b.X.tolist() for b in rows.read(rows.parts[0], 2)]
    ('float32', [[[0.10000000149011612], [0.20000000298023224]]])
    """

    def change(block: Block) -> Block:
        size = np.abs(block.X)
        top = np.max(size, 0, initial=0.0, where=np.isfinite(size))
        wrong = np.flatnonzero((top > 1e15) | ((top > 0) & (top < 1e-15)))
        if wrong.size:
            column = int(wrong[0])
            row = block.first + int(np.argmax(size[:, column] == top[column]))
            raise ValueError(
                "data: expected columns of a largest number from 1e-15 to 1e15, whose "
                f"squares float32 holds, got {top[column]:.3g} in row {row} of "
                f"{source.feature_names[column]!r} of {source.name}; open as float64"
            )
        return block._replace(X=block.X.astype(np.float32))

    return Single(source, change, f"{source.name} in float32", source.weighted)


def dtype_of(source: Source) -> np.dtype:
    """Return the type of the numbers of blocks: ``source.dtype`` if any, or float64."""
    return np.dtype(getattr(source, "dtype", np.float64))


def n_rows(source: Source) -> int:
    """Return the number n of rows of a source."""
    return sum(part.rows for part in source.parts)


def row_bits(seed: int, row: Int[np.ndarray, "b"]) -> np.ndarray:
    """Return 64 random bits a row, a function of (seed, row): SplitMix64, twice.

    What is chosen by them is the same in any parts, processes and order.
    """
    one = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):  # Modulo 2⁶⁴ is meant.
        z = np.asarray(row, np.uint64) + np.uint64(seed) * one + one
        for _ in range(2):
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = (z ^ (z >> np.uint64(31))) + one
    return z


def n_features(source: Source) -> int:
    """Return the number d of features of a source."""
    return len(source.feature_names)


def is_source(X: object) -> bool:
    """Say whether data are a ``Source``, and not arrays or a frame."""
    return isinstance(X, Source)


def most_rows(d: int) -> int:
    """Return the most rows of a block of d features, a multiple of ``CHUNK``."""
    return min(MOST_ROWS, max(BLOCK_ENTRIES // max(d, 1) // CHUNK, 1) * CHUNK)


def cut(n: int, d: int) -> list[tuple[int, int]]:
    """Return (first, rows) of like pieces, of a block at most, of n rows of d."""
    if n == 0:
        return []
    pieces = -(-n // most_rows(d))
    size = -(-n // pieces)
    size = min(n, -(-size // CHUNK) * CHUNK)
    return [(a, min(size, n - a)) for a in range(0, n, size)]


def bins(parts: Sequence[Part]) -> list[list[Part]]:
    """Return the parts of each of the ``BINS`` bins, by where their middles lie."""
    found: list[list[Part]] = [[] for _ in range(BINS)]
    n = sum(part.rows for part in parts)
    before = 0
    for part in parts:
        if part.rows:
            found[(2 * before + part.rows) * BINS // (2 * n)].append(part)
        before += part.rows
    return found


def share(parts: Sequence[Part], rank: int = 0, size: int = 1) -> dict[int, list[Part]]:
    """Return the bins of one process of ``size``, by number, that have parts.

    The same cut for everyone; a process may have none.
    """
    return {
        b: own for b, own in enumerate(bins(parts)) if own and b * size // BINS == rank
    }


def block_rows(source: Source) -> int:
    """Return the rows of a block: of the shapes allowed, the one filled up least."""
    d = max(n_features(source), 1)
    sizes = np.array([sum(p.rows for p in own) for own in bins(source.parts) if own])
    if not len(sizes):
        return 1
    most, largest = most_rows(d), int(sizes.max())
    if largest <= CHUNK:
        return 1 << (largest - 1).bit_length()
    tried = np.arange(most, most // 2, -CHUNK)
    filled = (-(-sizes // tried[:, None]) * tried[:, None]).sum(1)
    return min(int(tried[filled.argmin()]), -(-largest // CHUNK) * CHUNK)


class Filled(NamedTuple):
    """A block of one shape: X (b, d), class codes y (b,), w (b,), first row, rows.

    Rows from the ``rows``-th on are there for the shape alone: 0, of weight 0. y is 0
    throughout where no classes were asked for.
    """

    X: Float[np.ndarray, "b d"]
    y: Int[np.ndarray, "b"]
    w: Float[np.ndarray, "b"]
    first: int
    rows: int


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array, not set, that begins where XLA takes it without a copy."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNED, np.uint8)
    at = -raw.ctypes.data % ALIGNED
    return raw[at : at + size].view(dtype).reshape(shape)


def filled(
    source: Source,
    parts: Sequence[Part],
    rows: int,
    *,
    classes: np.ndarray | None = None,
) -> Iterator[Filled]:
    """Yield consecutive parts in blocks of so many rows, checked, of ``dtype_of``.

    Parameters
    ----------
    source : Source
    parts : sequence of Part
        Of one bin.
    rows : int
    classes : array of shape (c,), optional
        Sorted labels, of which y are the places.

    Raises
    ------
    ValueError
        For a value that is not finite, a weight that is negative or not finite, a
        label that is missing or not among the classes: names the file, the row group,
        the row and, of a value, the column. And as ``source.read``.
    """
    shape, dtype = (rows, n_features(source)), dtype_of(source)
    X, y, w = aligned(shape, dtype), np.zeros(rows, np.int32), np.empty(rows)
    n, first = 0, parts[0].first if parts else 0
    for part in parts:
        for block in source.read(part, rows):
            codes = checked(block, part, classes, source.feature_names)
            m, at = len(block.X), 0
            if n == 0 and m == rows and _usable(block.X, dtype):
                own = np.ones(m) if block.w is None else np.array(block.w, float)
                yield Filled(block.X, codes, own, first, m)
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
                    X, y, w = aligned(shape, dtype), np.zeros_like(y), np.empty_like(w)
                    n, first = 0, first + rows
    if n:
        X[n:], y[n:], w[n:] = 0.0, 0, 0.0
        yield Filled(X, y, w, first, n)


def _usable(X: np.ndarray, dtype: np.dtype) -> bool:
    """Say whether rows may be handed on as they are."""
    return X.dtype == dtype and X.flags.c_contiguous


def checked(
    block: Block, part: Part, classes: np.ndarray | None, names: Sequence[str]
) -> Int[np.ndarray, "m"]:
    """Return the class codes of a block, of named features, with nothing wrong."""
    X, w = block.X, block.w
    with np.errstate(over="ignore", invalid="ignore"):
        sound = np.isfinite(X.sum())  # One pass; a sum may be too large, and X sound.
    if not sound and not (bad := np.isfinite(X)).all():
        row, column = np.argwhere(~bad)[0]
        raise ValueError(
            f"data: expected finite numbers, got {X[row, column]} in column "
            f"{names[column]!r} of {_row(block, part, int(row))}"
        )
    if w is not None and not np.all((w >= 0) & (w < np.inf)):
        row = int(np.flatnonzero(~((w >= 0) & (w < np.inf)))[0])
        raise ValueError(
            f"weight: expected numbers from 0 on, got {w[row]} in "
            f"{_row(block, part, row)}"
        )
    if classes is None:
        return np.zeros(len(X), np.int32)
    assert block.labels is not None
    values, codes = block.labels
    place = np.searchsorted(classes, values).astype(np.int32)
    known = classes[np.minimum(place, len(classes) - 1)] == values
    place[~known] = -1
    codes = place[codes]
    if w is not None:  # Of a row that is not there the label may be of no class.
        codes = np.where((codes < 0) & (w == 0), np.int32(0), codes)
    if not known.all() and codes.min() < 0:
        row = int(codes.argmin())
        raise ValueError(
            f"label: expected one of {len(classes)} classes, got "
            f"{values.tolist()[block.labels.codes[row]]!r} in "
            f"{_row(block, part, row)}"
        )
    return codes


def _row(block: Block, part: Part, row: int) -> str:
    """Say which row of a block is meant, counted from 0 in its file or row group."""
    return f"row {block.first - part.first + part.start + row} of {part.where}"


def labels_of(values: np.ndarray, part: Part, first: int) -> Labels:
    """Return labels as distinct values and codes.

    Raises
    ------
    ValueError
        For a label that is missing, naming its row.
    """
    lacking = None
    if values.dtype.kind == "f":
        lacking = np.isnan(values)
    elif values.dtype == object:
        lacking = np.array([v is None or v != v for v in values], bool)
    if lacking is not None and lacking.any():
        row = first - part.first + part.start + int(lacking.argmax())
        raise ValueError(
            f"label: expected one of every row, got none in row {row} of {part.where}"
        )
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < CHUNK:  # No sort where codes are at hand.
            return Labels(np.arange(low, high + 1), (values - low).astype(np.int32))
    if values.dtype == object:
        values = values.astype(str)
    distinct, codes = np.unique(values, return_inverse=True)
    return Labels(distinct, codes.astype(np.int32))


def class_counts(
    source: Source, parts: Sequence[Part], rows: int = MOST_ROWS
) -> tuple[np.ndarray, Int[np.ndarray, "c"]]:
    """Return the sorted labels of some parts and how often each occurs.

    Reads labels and weights alone; a row of weight 0 counts for nothing.
    """
    found: dict[object, int] = {}
    kind: np.dtype = np.dtype(int)
    for part in parts:
        for block in source.read(part, rows, features=False):
            assert block.labels is not None
            values, codes = block.labels
            if block.w is not None:
                codes = codes[block.w > 0]
            for value, count in zip(
                values.tolist(), np.bincount(codes, minlength=len(values)), strict=True
            ):
                if count:
                    found[value] = found.get(value, 0) + int(count)
            kind = values.dtype
    values = np.array(list(found), str if kind.kind in "US" else kind)
    order = np.argsort(values)
    return values[order], np.array(list(found.values()), int)[order]


def sample_rows(
    source: Source,
    *,
    seed: int = 0,
    most: int = SAMPLE,
    classes: np.ndarray | None = None,
) -> tuple[Float[np.ndarray, "m d"], Int[np.ndarray, "m"], Float[np.ndarray, "m"]]:
    """Return rows chosen by ``row_bits``, about ``most``, their codes and weights.

    All rows of positive weight where they are no more than ``most``. One pass.

    Parameters
    ----------
    source : Source
    seed : int, default=0
    most : int
    classes : array of shape (c,), optional
        Sorted labels, of which the codes are the places; without, codes are 0.
    """
    share_kept, size = most / n_rows(source), block_rows(source)
    X: list[np.ndarray] = [np.zeros((0, n_features(source)))]
    y, w = [np.zeros(0, np.int32)], [np.zeros(0)]
    for block in blocks_of(source, size, classes=classes):
        kept = block.w[: block.rows] > 0
        if share_kept < 1:
            number = block.first + np.arange(block.rows)
            kept &= row_bits(seed, number) / 2.0**64 < share_kept
        X.append(block.X[: block.rows][kept])
        y.append(block.y[: block.rows][kept])
        w.append(block.w[: block.rows][kept])
    return np.concatenate(X), np.concatenate(y), np.concatenate(w)


@contextmanager
def reader() -> Generator[ThreadPoolExecutor]:
    """Give one thread that reads, of a pass: each keeps memory of its own.

    What pyarrow keeps of row groups is given back at the end.
    """
    np.empty(HELD, np.uint8)
    try:
        with ThreadPoolExecutor(1, "probmetric-read") as thread:
            yield thread
    finally:
        if "pyarrow" in sys.modules:
            sys.modules["pyarrow"].default_memory_pool().release_unused()


def ahead[T](items: Iterator[T], pool: ThreadPoolExecutor | None = None) -> Iterator[T]:
    """Yield items, the next one being made in a thread meanwhile: of a pool, if any.

    What goes wrong there is raised here; left early, it waits for the item under way.
    """
    end = object()
    with nullcontext(pool) if pool else reader() as thread:
        coming = thread.submit(next, items, end)
        try:
            while (item := coming.result()) is not end:
                coming = thread.submit(next, items, end)
                yield item  # pyright: ignore[reportReturnType]
        finally:
            wait([coming])


def blocks_of(
    source: Source,
    rows: int,
    rank: int = 0,
    size: int = 1,
    *,
    classes: np.ndarray | None = None,
) -> Iterator[Filled]:
    """Yield the blocks of all bins of one process, as ``filled``: a pass."""
    bins = share(source.parts, rank, size).values()
    return ahead(b for own in bins for b in filled(source, own, rows, classes=classes))
