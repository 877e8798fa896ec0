"""Rows that are read in parts: parts go to processes, blocks are the unit of work."""

from collections.abc import Iterator, Sequence
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np


class Part(NamedTuple):
    """A run of consecutive rows that one process reads: where, first row, rows."""

    where: Any
    first: int
    rows: int


class Block(NamedTuple):
    """Rows (m, d), labels (m,) or None, and the number of the first row."""

    X: np.ndarray
    y: np.ndarray | None
    first: int


@runtime_checkable
class Source(Protocol):
    """What a pass needs: how many features, which parts, and a way to read one."""

    n_features: int
    parts: Sequence[Part]

    def read(self, part: Part, rows: int) -> Iterator[Block]:
        """Yield the blocks of a part, of at most so many rows."""
        ...


class Rows:
    """Arrays in memory, as a source."""

    def __init__(
        self, X: np.ndarray, y: np.ndarray | None = None, part_rows: int = 1 << 18
    ) -> None:
        self.X, self.y, self.n_features = X, y, X.shape[1]
        self.parts = [
            Part(None, a, min(part_rows, len(X) - a))
            for a in range(0, len(X), part_rows)
        ]

    def read(self, part: Part, rows: int) -> Iterator[Block]:
        """Yield the blocks of a part."""
        end = part.first + part.rows
        for a in range(part.first, end, rows):
            s = slice(a, min(a + rows, end))
            yield Block(self.X[s], None if self.y is None else self.y[s], a)


def blocks(source: Source, parts: Sequence[Part], rows: int) -> Iterator[Block]:
    """Yield all blocks of some parts; the next is read while one is used."""
    box: Queue[Any] = Queue(1)
    end = object()

    def work() -> None:
        try:
            for part in parts:
                for block in source.read(part, rows):
                    box.put(block)
            box.put(end)
        except BaseException as error:  # Raised again by the reader.
            box.put(error)

    Thread(target=work, daemon=True).start()
    while (item := box.get()) is not end:
        if isinstance(item, BaseException):
            raise item
        yield item


def share(parts: Sequence[Part], rank: int, size: int) -> list[Part]:
    """Return a contiguous share of the parts by rows: the same cut for everyone."""
    ends = np.cumsum([p.rows for p in parts])
    middle = ends - np.array([p.rows for p in parts]) / 2
    owner = np.minimum((middle * size / max(ends[-1], 1)).astype(int), size - 1)
    return [p for p, o in zip(parts, owner, strict=True) if o == rank]
