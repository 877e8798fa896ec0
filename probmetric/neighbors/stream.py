"""Nearest neighbours among points that are read in parts, by one process or several.

Every process reads its own parts once, block after block, and keeps of each query the
k best so far (``block``); what the processes kept is gathered once and merged by
(dissimilarity, row). The neighbours, and every bit of their dissimilarities, are those
of all points in memory: under Mahalanobis kinds a square is computed from its own two
rows alone (``linear``), and other kinds see each point at the place that it has in the
tiles of ``scan``, which are cut at multiples of the tile's side whatever the parts are.

A kind that refines (``scan``) needs the rows of its shortlist, and a shortlist that is
too short is doubled: each doubling is another pass. The rows of what was kept are held
as blocks go by.

Memory in numbers of 8 bytes, beside the queries and a block of b rows: 4 m k' for k' =
k, or the shortlist's 2 k + 8; rows of the shortlist 2 m k' d; for a local metric the
matrices of at most ``PREPARED`` bytes of queries at a time, with a pass for each such
group.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.source import (
    Source,
    block_rows,
    blocks_of,
    n_rows,
)
from probmetric.linalg_scaled import represented
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.neighbors.block import Block, Candidates, offer_block
from probmetric.neighbors.range import refuse_lost
from probmetric.neighbors.scan import (
    HIDDEN,
    Kept,
    bucket,
    in_tiles,
    keep_best,
    ready_alone,
    refuse_nan,
    settle,
    tile_of,
)
from probmetric.processes.distributed import gather, together

PREPARED = 1 << 28
"""Bytes of what ``ready`` makes of queries, at most, that are held at a time."""

type Passes = Callable[[], Iterator[tuple[Float[np.ndarray, "b d"], int]]]
"""Called for each pass: this process's blocks in order, each with its first row."""


type Best = tuple[
    Float[np.ndarray, "m k"], Int[np.ndarray, "m k"], Float[np.ndarray, "m k d"] | None
]


def over_processes(found: list[Candidates], d: int | None = None) -> list[Best]:
    """Return near, index and, where d is given, rows of the best of all processes.

    One gather, of m k (2 + d) numbers a process.
    """
    mine = [(c.near, c.index, *([] if d is None else [c.rows(d)])) for c in found]
    return [_merged(*whole) for whole in gather(mine)]


def _merged(near: np.ndarray, index: np.ndarray, *rows: np.ndarray) -> Best:
    """Merge what came along a first axis of processes."""
    k = near.shape[2]
    near, index = (np.concatenate(list(a), 1) for a in (near, index))
    order = np.lexsort((index, near))[:, :k]
    near, index = (np.take_along_axis(a, order, 1) for a in (near, index))
    if not rows:
        return near, index, None
    points = np.concatenate(list(rows[0]), 1)
    return near, index, np.take_along_axis(points, order[..., None], 1)


def nearest_streamed(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    source: Source,
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
) -> Kept:
    """Find neighbours among the points of a source; arguments as `found_but_own`."""

    def read() -> Iterator[tuple[np.ndarray, int]]:
        for block in blocks_of(source, block_rows(source), *together()):
            yield np.asarray(block.X, np.float64)[: block.rows], block.first

    if isinstance(metric, Mahalanobis):
        return streamed_linear(metric, Q, read, k, own, tile)
    return streamed_scan(metric, Q, read, n_rows(source), k, own, tile)


def streamed_linear(
    metric: Mahalanobis,
    Q: Float[np.ndarray, "m d"],
    passes: Passes,
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
) -> Kept:
    """Find neighbours under a Mahalanobis kind in one pass."""
    best = Candidates(len(Q), k)
    for X, first in passes():
        number = first + np.arange(len(X))
        offer_block(best, Block(metric, Q, X, number, own), tile)
    [(near, index, _)] = over_processes([best])
    return represented(near, np.zeros(near.shape, int), "points", "squares"), index


class _Queries(NamedTuple):
    """A tile of queries, padded, with what all its distances share."""

    rows: slice
    Q: np.ndarray
    own: np.ndarray
    shared: Any


def streamed_scan(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    passes: Passes,
    n: int,
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
) -> Kept:
    """Find neighbours under any other kind, among n points; as ``nearest_scanned``."""
    limit = n - (own is not None)
    own = np.full(len(Q), HIDDEN) if own is None else own
    D, found = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, tile**2 // max(tile, 2 * k + 8))
    group: list[_Queries] = []
    for start in range(0, len(Q), step):
        rows = slice(start, min(start + step, len(Q)))
        mine = in_tiles(Q[rows], bucket(rows.stop - start, step))[0]
        group.append(_Queries(rows, mine, own[rows], ready_alone(metric, mine)))
        size = sum(a.nbytes for q in group for a in jax.tree.leaves(q.shared))
        if rows.stop == len(Q) or size > PREPARED:
            _scan_group(metric, group, passes, n, k, limit, tile, (D, found))
            group = []
    return D, found


def _scan_group(
    metric: Any,
    group: list[_Queries],
    passes: Passes,
    n: int,
    k: int,
    limit: int,
    tile: int,
    out: Kept,
) -> None:
    """Fill in the rows of a group of tiles; one pass, and one a doubling."""
    refines = hasattr(metric, "refine")
    shortlist = min(limit, 2 * k + 8) if refines else k
    while group:
        side = bucket(n, max(tile, shortlist))[1]
        best = [Candidates(len(q.own), shortlist) for q in group]
        for X, first in passes():
            for points, at, low, high in _tiles_of(X, first, side):
                for q, kept in zip(group, best, strict=True):
                    _scan_tile(metric, q, kept, points, at, low, high)
            for kept in best:
                kept.hold(X, first)
        left: list[_Queries] = []
        d = group[0].Q.shape[1]
        for q, (near, index, rows) in zip(group, over_processes(best, d), strict=True):
            assert rows is not None
            flat = rows.reshape(-1, d)
            place = np.arange(index.size).reshape(index.shape)
            if refines:
                settled = settle(metric, q.Q, flat, near, index, place, q.shared, k)
                near, index, place, certain = settled
                if not certain and shortlist < limit:
                    left.append(q)
                    continue
            queries = q.Q[: len(near)]
            refuse_lost(metric, queries, flat, near, place)
            out[0][q.rows], out[1][q.rows] = near, index
        group, shortlist = left, min(limit, 2 * shortlist)


def _tiles_of(
    X: Float[np.ndarray, "b d"], first: int, side: int
) -> Iterator[tuple[np.ndarray, int, int, int]]:
    """Yield tiles that begin at multiples of their side: points, start, used columns.

    Columns before and after those of the block repeat one of its points.
    """
    for at in range(first // side * side, first + len(X), side):
        low, high = max(first - at, 0), min(first + len(X) - at, side)
        part = X[at + low - first : at + high - first]
        points = np.repeat(part[-1:], side, 0)
        points[low:high] = part
        yield points, at, low, high


def _scan_tile(
    metric: Any,
    q: _Queries,
    kept: Candidates,
    points: np.ndarray,
    at: int,
    low: int,
    high: int,
) -> None:
    """Sort a tile's entries in among the best of some queries."""
    own = np.concatenate([q.own, np.full(len(q.Q) - len(q.own), HIDDEN)])
    with jax.enable_x64(True):
        D, bad = tile_of(metric, q.Q, q.shared, points, high, own - at)
    refuse_nan(bad, q.Q, points)
    values = np.asarray(D)[: len(q.own)]
    if low:
        values = values.copy()
        values[:, :low] = np.nan
    kept.near, kept.index = keep_best((kept.near, kept.index), values, at)
