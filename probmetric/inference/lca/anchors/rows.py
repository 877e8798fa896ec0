"""Rows that a pass reads, and the anchors drawn from them.

Anchors are drawn within each class. From class c with n_c rows, the

    A_c = max(A n_c/n, 2), at most n_c,                                            (1)

rows with the smallest hash of (seed, row) are drawn. The anchors do not depend on how
the rows are divided into files, and a larger sample contains a smaller one. Pairs of an
anchor have the weight w = n_c/A_c, scaled to a mean of 1.

A pass reads every row once, in any number of processes. The results are gathered and
are bitwise equal in every process.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.scaling import Scaler, constant_columns
from probmetric.large.moments import class_moments, standardized, total_scatter
from probmetric.large.passes import Pass, hash_of, kept
from probmetric.large.processes import gather, together
from probmetric.large.source import (
    Source,
    block_rows,
    blocks_of,
    class_counts,
    n_features,
    row_bits,
)

LEAST = 2
"""Minimum number of anchors per class: one in each half."""


class Rows(NamedTuple):
    """Consecutive standardized rows (b, d), class codes (b,), first row number."""

    Z: Float[np.ndarray, "b d"]
    codes: Int[np.ndarray, "b"]
    first: int


class Reader(NamedTuple):
    """The rows of this process in order, and properties of the rows of all processes.

    ``counts`` (c,) is the number of rows of each class in all processes, and ``name`` a
    hash of the data files. ``scatter`` (d, d) is the scatter of all rows about their
    mean, or None.
    """

    rows: Callable[[], Iterator[Rows]]
    counts: Int[np.ndarray, "c"]
    n_features: int
    name: str
    scatter: Float[np.ndarray, "d d"] | None = None


class Anchors(NamedTuple):
    """The anchors in row order: row numbers, points, class codes, weights, places.

    ``place`` is the rank of an anchor in its class by hash. It divides anchors into
    groups.
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


def in_memory(Z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]) -> Reader:
    """Return a reader of arrays; each process has all rows and reads a share."""

    def rows() -> Iterator[Rows]:
        rank, size = together()
        a, b = len(Z) * rank // size, len(Z) * (rank + 1) // size
        if a < b:
            yield Rows(Z[a:b], codes[a:b], a)

    name = f"{len(Z)} rows in memory"
    about = Z - Z.mean(0)
    return Reader(rows, np.bincount(codes), Z.shape[1], name, about.T @ about)


def of_source(
    source: Source, *, standardize: bool
) -> tuple[Reader, np.ndarray, Scaler]:
    """Return a reader of the standardized rows of a source, the classes and the scaler.

    Makes two passes. The first reads the labels in every process, the second computes
    moments.

    Raises
    ------
    ValueError
        If the rows have no labels, or have weights.

        If there is only one class, or a class with one member.

        If all columns are constant.
    """
    if not source.labeled or source.weighted:
        raise ValueError(
            f"X must be a source with labels and without weights, got {source.name} "
            f"with labeled={source.labeled}, weighted={source.weighted}."
        )
    classes, counts = class_counts(source, source.parts)
    if len(classes) < 2 or counts.min() < 2:
        raise ValueError(
            "y must have at least 2 classes of at least 2 members, got class sizes "
            f"{dict(zip(classes.tolist()[:5], counts.tolist(), strict=False))}."
        )
    found, origin = class_moments(source, classes)
    n, low, high, mean, square = found.columns
    d = n_features(source)
    scaler = Scaler(np.zeros(d), np.ones(d))
    if standardize:
        constant = constant_columns(np.array([low, high]))
        if constant.all():
            raise ValueError(
                "X must have a column that is not constant, got only constant columns."
            )
        scale = np.where(constant, 1.0, np.sqrt(np.asarray(square) / n))
        scaler = Scaler(np.asarray(mean), scale)
    size = block_rows(source)

    def rows() -> Iterator[Rows]:
        for X, y, _, first, n in blocks_of(source, size, *together(), classes=classes):
            yield Rows((X[:n] - scaler.mean) / scaler.scale, y[:n], first)

    scatter = total_scatter(standardized(found, origin, scaler))
    return Reader(rows, counts, d, hash_of(source), scatter), classes, scaler


def sizes_of(counts: Int[np.ndarray, "c"], n_anchors: int) -> Int[np.ndarray, "c"]:
    """Return the number of anchors of each class, Eq. (1)."""
    wanted = np.rint(n_anchors * counts / counts.sum()).astype(int)
    return np.minimum(np.maximum(wanted, LEAST), counts)


def draw_anchors(reader: Reader, n_anchors: int, seed: int) -> Anchors:
    """Draw the anchors, in one pass."""
    sizes = sizes_of(reader.counts, n_anchors)
    A, d = int(sizes.sum()), reader.n_features
    like = (np.zeros(A, int), np.zeros((A, d)))
    which = Pass("anchors", reader.name, (sizes, np.int64(seed)))
    row, Z = kept(which, lambda: like, lambda: _least(reader, sizes, seed))
    code = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.concatenate([np.arange(size) for size in sizes])
    w = np.repeat(reader.counts / sizes, sizes)
    order = np.argsort(row)
    return Anchors(
        row[order], Z[order], code[order], (w / w.mean())[order], rank[order]
    )


def _least(reader: Reader, sizes: np.ndarray, seed: int) -> tuple[Any, Any]:
    """Return numbers and points of the rows with the smallest hashes in each class."""
    d = reader.n_features
    none = np.zeros(0, np.uint64), np.zeros(0, int), np.zeros((0, d))
    best = [none for _ in sizes]
    for Z, codes, first in reader.rows():
        row = first + np.arange(len(Z))
        hashes = row_bits(seed, row)
        for c, size in enumerate(sizes.tolist()):
            own = np.flatnonzero(codes == c)
            if len(best[c][0]) == size:
                own = own[hashes[own] <= best[c][0][-1]]
            if len(own):
                best[c] = _lowest(best[c], (hashes[own], row[own], Z[own]), size)
    A = int(sizes.sum())
    whole: list[np.ndarray] = [np.zeros((A, *a.shape[1:]), a.dtype) for a in none]
    there = np.zeros(A, bool)
    for at, found in zip(np.cumsum(sizes) - sizes, best, strict=True):
        span = slice(at, at + len(found[0]))
        there[span] = True
        for to, of in zip(whole, found, strict=True):
            to[span] = of
    there, *gathered = gather((there, *whole))
    rows: list[np.ndarray] = []
    points: list[np.ndarray] = []
    for at, size in zip(np.cumsum(sizes) - sizes, sizes.tolist(), strict=True):
        span = slice(at, at + size)
        seen = there[:, span]
        _, row, Z = _lowest(none, tuple(a[:, span][seen] for a in gathered), size)
        rows.append(row)
        points.append(Z)
    return np.concatenate(rows), np.concatenate(points)


def _lowest(a: Any, b: Any, size: int) -> Any:
    """Return the ``size`` of two lists of rows with the least hash, in order."""
    joined = [np.concatenate(both) for both in zip(a, b, strict=True)]
    order = np.lexsort((joined[1], joined[0]))[:size]
    return tuple(part[order] for part in joined)
