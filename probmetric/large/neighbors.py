"""Nearest neighbors among points on disk, in one process or several.

Every process reads its chunks once, block after block, and updates the k best of each
query (``block``). The results are gathered once and merged by (dissimilarity, row).
Neighbors and dissimilarities are bit-identical to those in memory: under Mahalanobis
kinds a square depends only on its two rows (``linear``), and other kinds see each point
at its position in the tiles of ``scan``, whatever the chunks are.

A kind that refines (``scan``) needs the rows of its shortlist, which are collected
while blocks pass. If a shortlist is too short, it is doubled, which takes another pass.

Memory in numbers of 8 bytes, besides the queries and a block: 4 m k' with k' = k, or
2 k + 8 for a shortlist; 2 m k' d for the rows of the shortlist; for a local metric the
matrices of at most ``PREPARED`` bytes of queries at a time, with a pass for each such
group of queries.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.large.processes import gather, together
from probmetric.large.source import Source, block_rows, blocks_of, n_rows
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.neighbors.block import Block, Candidates, offer_block
from probmetric.neighbors.linear import Nearest
from probmetric.neighbors.range import check_found, check_size
from probmetric.neighbors.scan import (
    HIDDEN,
    Refining,
    bucket,
    in_tiles,
    keep_best,
    ready_alone,
    refuse_nan,
    settle,
    tile_of,
)

PREPARED = 1 << 28
"""Maximum bytes of the shared quantities of queries in memory at a time."""

type Passes = Callable[[], Iterator[tuple[Float[np.ndarray, "b d"], int]]]
"""Starts a pass: the blocks of this process in order, each with its first row."""

type Best = tuple[
    Float[np.ndarray, "m k"], Int[np.ndarray, "m k"], Float[np.ndarray, "m k d"] | None
]


def over_processes(candidates: list[Candidates], d: int | None = None) -> list[Best]:
    """Merge the candidates of all processes; include their rows if d is set.

    The merge requires one gather of m k (2 + d) numbers per process.
    """
    local = [(c.near, c.index, *([] if d is None else [c.rows(d)])) for c in candidates]
    return [_merged(*arrays) for arrays in gather(local)]


def _merged(near: np.ndarray, index: np.ndarray, *rows: np.ndarray) -> Best:
    """Merge arrays along their first axis, the processes."""
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
    excluded: Int[np.ndarray, "m"] | None,
    tile: int,
) -> Nearest:
    """Find neighbors among points on disk, with arguments as in ``found_but_own``."""

    def read() -> Iterator[tuple[np.ndarray, int]]:
        for block in blocks_of(source, block_rows(source), *together()):
            X = np.asarray(block.X, np.float64)[: block.rows]
            if len(X):
                check_size(metric, X, "points")
                yield X, block.first

    if not isinstance(metric, Mahalanobis):
        return streamed_scan(metric, Q, read, n_rows(source), k, excluded, tile)
    best = Candidates(len(Q), k)
    for X, first in read():
        number = first + np.arange(len(X))
        offer_block(best, Block(metric, Q, X, number, excluded), tile)
    [(near, index, _)] = over_processes([best])
    return near, index


class _Queries(NamedTuple):
    """A padded tile of queries with the quantities that its distances share."""

    rows: slice
    Q: np.ndarray
    excluded: np.ndarray
    shared: object


def streamed_scan(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    passes: Passes,
    n: int,
    k: int,
    excluded: Int[np.ndarray, "m"] | None,
    tile: int,
) -> Nearest:
    """Find neighbors among n points on disk, as ``nearest_scanned`` does in memory."""
    limit = n - (excluded is not None)
    excluded = np.full(len(Q), HIDDEN) if excluded is None else excluded
    D, index = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, tile**2 // max(tile, 2 * k + 8))
    group: list[_Queries] = []
    for start in range(0, len(Q), step):
        rows = slice(start, min(start + step, len(Q)))
        padded = in_tiles(Q[rows], bucket(rows.stop - start, step))[0]
        shared = ready_alone(metric, padded)
        group.append(_Queries(rows, padded, excluded[rows], shared))
        size = sum(a.nbytes for q in group for a in jax.tree.leaves(q.shared))
        if rows.stop == len(Q) or size > PREPARED:
            _scan_group(metric, group, passes, n, k, limit, tile, (D, index))
            group = []
    return D, index


def _scan_group(
    metric: Dissimilarity,
    group: list[_Queries],
    passes: Passes,
    n: int,
    k: int,
    limit: int,
    tile: int,
    out: Nearest,
) -> None:
    """Fill in the rows of a group of tiles: one pass, and one per doubling."""
    refines = isinstance(metric, Refining)
    shortlist = min(limit, 2 * k + 8) if refines else k
    while group:
        side = bucket(n, max(tile, shortlist))[1]
        best = [Candidates(len(q.excluded), shortlist) for q in group]
        for X, first in passes():
            for points, start, low, high in _tiles_of(X, first, side):
                for q, candidates in zip(group, best, strict=True):
                    _scan_tile(metric, q, candidates, points, start, low, high)
            for candidates in best:
                candidates.hold(X, first)
        left: list[_Queries] = []
        d = group[0].Q.shape[1]
        for q, (near, index, rows) in zip(group, over_processes(best, d), strict=True):
            assert rows is not None
            flat = rows.reshape(-1, d)
            place = np.arange(index.size).reshape(index.shape)
            if refines:
                near, index, place, certain = settle(
                    metric, q.Q, flat, near, index, place, q.shared, k
                )
                if not certain and shortlist < limit:
                    left.append(q)
                    continue
            check_found(metric, q.Q[: len(near)], flat, near, place)
            out[0][q.rows], out[1][q.rows] = near, index
        group, shortlist = left, min(limit, 2 * shortlist)


def _tiles_of(
    X: Float[np.ndarray, "b d"], first: int, side: int
) -> Iterator[tuple[np.ndarray, int, int, int]]:
    """Yield tiles that begin at multiples of their side: points, start, used columns.

    Columns before and after those of the block repeat one of its points.
    """
    for start in range(first // side * side, first + len(X), side):
        low, high = max(first - start, 0), min(first + len(X) - start, side)
        rows = X[start + low - first : start + high - first]
        points = np.repeat(rows[-1:], side, 0)
        points[low:high] = rows
        yield points, start, low, high


def _scan_tile(
    metric: Dissimilarity,
    q: _Queries,
    best: Candidates,
    points: np.ndarray,
    start: int,
    low: int,
    high: int,
) -> None:
    """Merge a tile into the best candidates of some queries."""
    excluded = np.concatenate([q.excluded, np.full(len(q.Q) - len(q.excluded), HIDDEN)])
    with jax.enable_x64(True):
        D, bad = tile_of(metric, q.Q, q.shared, points, high, excluded - start)
    refuse_nan(bad, q.Q, points)
    values = np.asarray(D)[: len(q.excluded)]
    if low:
        values = values.copy()
        values[:, :low] = np.nan
    best.near, best.index = keep_best((best.near, best.index), values, start)
