"""Rows that a pass reads, and the anchors drawn from them.

Anchors are drawn within each class. From class c with n_c rows, the

    A_c = max(A n_c/n, 2), at most n_c,                                            (1)

rows with the smallest hash of (seed, row) are drawn. The anchors do not depend on how
the rows are divided into files, and a larger sample contains a smaller one. Pairs of an
anchor have the weight w = n_c/A_c, scaled to a mean of 1.

A ``Reader`` divides the rows among tasks, and the results of tasks are merged. Rows in
memory are one task. ``large.anchors`` reads rows on disk.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.hash import row_bits

LEAST = 2
"""Minimum number of anchors per class."""


class Rows(NamedTuple):
    """Consecutive standardized rows (b, d), class codes (b,), first row number."""

    Z: Float[np.ndarray, "b d"]
    codes: Int[np.ndarray, "b"]
    first: int


class Reader:
    """Rows in memory, sizes of classes ``counts`` (c,) and total ``scatter`` (d, d)."""

    def __init__(
        self, Z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]
    ) -> None:
        self.rows = Rows(Z, codes, 0)
        self.counts, self.n_features = np.bincount(codes), Z.shape[1]
        about = Z - Z.mean(0)
        self.scatter = about.T @ about

    def run(self, task: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return ``task(rows, *shared)`` for each share of the rows."""
        return [task([self.rows], *shared)]

    def stored[T](
        self, name: str, params: Any, like: Callable[[], T], compute: Callable[[], T]
    ) -> T:
        """Return the result of a pass, which a subclass may store."""
        return compute()


class Anchors(NamedTuple):
    """The anchors in row order: row numbers, points, class codes, weights, ranks.

    ``place`` is the rank of an anchor in its class, by hash. It determines the group.
    """

    row: Int[np.ndarray, "A"]
    Z: Float[np.ndarray, "A d"]
    code: Int[np.ndarray, "A"]
    w: Float[np.ndarray, "A"]
    place: Int[np.ndarray, "A"]


class Design(NamedTuple):
    """Indices into ``Anchors``, and the linear map for the neighbor search."""

    which: Int[np.ndarray, "a"]
    factor: Float[np.ndarray, "p d"]


def sizes_of(counts: Int[np.ndarray, "c"], n_anchors: int) -> Int[np.ndarray, "c"]:
    """Return the number of anchors of each class, Eq. (1)."""
    wanted = np.rint(n_anchors * counts / counts.sum()).astype(int)
    return np.minimum(np.maximum(wanted, LEAST), counts)


def draw_anchors(reader: Reader, n_anchors: int, seed: int) -> Anchors:
    """Draw the anchors, in one pass."""
    sizes = sizes_of(reader.counts, n_anchors)
    A, d = int(sizes.sum()), reader.n_features
    row, Z = reader.stored(
        "anchors",
        (sizes, np.int64(seed)),
        lambda: (np.zeros(A, int), np.zeros((A, d))),
        lambda: _joined(reader.run(_least, d, sizes, seed), sizes),
    )
    code = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.concatenate([np.arange(size) for size in sizes])
    w = np.repeat(reader.counts / sizes, sizes)
    order = np.argsort(row)
    return Anchors(
        row[order], Z[order], code[order], (w / w.mean())[order], rank[order]
    )


type Least = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Hashes, numbers and points of rows, in the order of the hashes."""


def _least(
    rows: Iterable[Rows], d: int, sizes: Int[np.ndarray, "c"], seed: int
) -> list[Least]:
    none = np.zeros(0, np.uint64), np.zeros(0, int), np.zeros((0, d))
    best: list[Least] = [none for _ in sizes]
    for Z, codes, first in rows:
        row = first + np.arange(len(Z))
        hashes = row_bits(seed, row)
        for c, size in enumerate(sizes.tolist()):
            own = np.flatnonzero(codes == c)
            if len(best[c][0]) == size:
                own = own[hashes[own] <= best[c][0][-1]]
            if len(own):
                best[c] = _lowest([best[c], (hashes[own], row[own], Z[own])], size)
    return best


def _joined(
    results: list[list[Least]], sizes: Int[np.ndarray, "c"]
) -> tuple[np.ndarray, np.ndarray]:
    classes = zip(*results, strict=True)
    best = [_lowest(found, n) for found, n in zip(classes, sizes.tolist(), strict=True)]
    _, row, Z = (np.concatenate(arrays) for arrays in zip(*best, strict=True))
    return row, Z


def _lowest(lists: Iterable[Least], size: int) -> Least:
    hashes, row, Z = (np.concatenate(arrays) for arrays in zip(*lists, strict=True))
    order = np.lexsort((row, hashes))[:size]
    return hashes[order], row[order], Z[order]
