"""Nearest neighbors among points on disk.

A task reads its bins once, block after block, and updates the k nearest rows of each
query (``neighbors.block``). The results of tasks are merged by (dissimilarity, row).
Neighbors and dissimilarities are bit-identical to the results in memory, because a
squared Mahalanobis distance depends only on its two rows (``linear``), and other
metrics use the tiles of ``scan`` for any chunks. A metric with ``refine`` (``scan``)
needs the rows of the shortlist, which are collected while blocks are read. If a
shortlist is too short, its length is doubled in another pass.

Besides the m queries and a block, memory has 4 m k' numbers, where k' = k, or 2 k + 8
for a shortlist. The rows of shortlists need 2 m k' d numbers. For a local metric, the
matrices of the queries have at most ``PREPARED`` bytes at a time, and each such group
of queries takes a pass.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from probmetric.data import inputs
from probmetric.large.choose import picked
from probmetric.large.engine import run, split
from probmetric.large.source import (
    Part,
    Source,
    bins,
    block_rows,
    blocks_of,
    n_features,
    n_rows,
    refuse_arrays,
)
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.feature_names import check_columns
from probmetric.metric.protocol import MetricDraws, Uncertain
from probmetric.neighbors.block import Block, Candidates, merge, offer_block
from probmetric.neighbors.linear import Nearest
from probmetric.neighbors.range import check_found, check_queries, check_size
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
from probmetric.neighbors.search import TILE, check_search, check_single, excluded_rows
from probmetric.neighbors.table import table_of
from probmetric.typing import ArrayLike

PREPARED = 1 << 28
"""Maximum bytes of the shared quantities of queries in memory at a time."""

type Excluded = Int[np.ndarray, "m"] | None


def nearest(
    metric: Dissimilarity,
    queries: ArrayLike,
    points: Source,
    k: int,
    *,
    exclude_self: bool | ArrayLike = False,
    shortlist: int | None = None,
    tile: int = TILE,
) -> Nearest:
    """Find the nearest rows, as ``probmetric.nearest``."""
    check_single(metric)
    coded = check_columns(metric, queries=queries, points=points)
    queries = coded["queries"]
    Q = inputs.points(queries, "queries")
    shape = n_rows(points), n_features(points)
    excluded = excluded_rows(exclude_self, Q.shape, shape)
    if shortlist is not None:
        raise ValueError(
            f"shortlist must be None for a dataset on disk, got {shortlist}. Load the "
            "points into memory."
        )
    k, tile = check_search(metric, Q, shape, k, excluded, tile)
    check_queries(metric, Q, "queries")
    parts = split([some for some in bins(points.parts) if some])
    rows = _Rows(metric, points, block_rows(points))
    if not isinstance(metric, Mahalanobis):
        return _scan(rows, parts, Q, k, excluded, tile)
    near, index = merge([*run(_linear, parts, rows, Q, k, excluded, tile)], k)
    return near, index


class _Rows(NamedTuple):
    metric: Dissimilarity
    source: Source
    size: int

    def blocks(
        self, parts: Sequence[Sequence[Part]]
    ) -> Iterator[tuple[Float[np.ndarray, "b d"], int]]:
        """Yield the blocks of some bins, each with its first row."""
        for block in blocks_of(self.source, parts, self.size):
            X = block.X[: block.rows]
            check_size(self.metric, X, "points")
            yield X, block.first


def _linear(
    parts: Sequence[Sequence[Part]],
    rows: _Rows,
    Q: Float[np.ndarray, "m d"],
    k: int,
    excluded: Excluded,
    tile: int,
) -> Nearest:
    assert isinstance(rows.metric, Mahalanobis)
    best = Candidates(len(Q), k)
    for X, first in rows.blocks(parts):
        number = first + np.arange(len(X))
        offer_block(best, Block(rows.metric, Q, X, number, excluded), tile)
    return best.near, best.index


class _Queries:
    """A padded tile of queries; ``shared`` are quantities that its distances share."""

    def __init__(
        self,
        metric: Dissimilarity,
        rows: slice,
        Q: np.ndarray,
        excluded: np.ndarray,
        step: int,
    ) -> None:
        self.metric, self.rows, self.excluded = metric, rows, excluded[rows]
        self.Q = in_tiles(Q[rows], bucket(rows.stop - rows.start, step))[0]

    @cached_property
    def shared(self) -> Any:
        return ready_alone(self.metric, self.Q)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "shared"}


def _scan(
    rows: _Rows,
    parts: list[list[list[Part]]],
    Q: Float[np.ndarray, "m d"],
    k: int,
    excluded: Excluded,
    tile: int,
) -> Nearest:
    n = n_rows(rows.source)
    limit = n - (excluded is not None)
    excluded = np.full(len(Q), HIDDEN) if excluded is None else excluded
    D, index = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, tile**2 // max(tile, 2 * k + 8))
    group: list[_Queries] = []
    for start in range(0, len(Q), step):
        some = slice(start, min(start + step, len(Q)))
        group.append(_Queries(rows.metric, some, Q, excluded, step))
        size = sum(a.nbytes for q in group for a in jax.tree.leaves(q.shared))
        if some.stop == len(Q) or size > PREPARED:
            _scan_group(rows, parts, group, n, k, limit, tile, (D, index))
            group = []
    return D, index


def _scan_group(
    rows: _Rows,
    parts: list[list[list[Part]]],
    group: list[_Queries],
    n: int,
    k: int,
    limit: int,
    tile: int,
    out: Nearest,
) -> None:
    metric = rows.metric
    refines = isinstance(metric, Refining)
    shortlist = min(limit, 2 * k + 8) if refines else k
    while group:
        side = bucket(n, max(tile, shortlist))[1]
        results = [*run(_scanned, parts, rows, group, shortlist, side)]
        left: list[_Queries] = []
        d = group[0].Q.shape[1]
        for q, *found in zip(group, *results, strict=True):
            near, index, points = merge(found, shortlist)
            flat = points.reshape(-1, d)
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


def _scanned(
    parts: Sequence[Sequence[Part]],
    rows: _Rows,
    group: list[_Queries],
    shortlist: int,
    side: int,
) -> list[tuple[np.ndarray, ...]]:
    best = [Candidates(len(q.excluded), shortlist) for q in group]
    for X, first in rows.blocks(parts):
        for points, start, low, high in _tiles_of(X, first, side):
            for q, candidates in zip(group, best, strict=True):
                _scan_tile(rows.metric, q, candidates, points, start, low, high)
        for candidates in best:
            candidates.hold(X, first)
    d = n_features(rows.source)
    return [(c.near, c.index, c.rows(d)) for c in best]


def _tiles_of(
    X: Float[np.ndarray, "b d"], first: int, side: int
) -> Iterator[tuple[np.ndarray, int, int, int]]:
    """Yield padded tiles as (points, first row number, start and end of used rows)."""
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
    excluded = np.concatenate([q.excluded, np.full(len(q.Q) - len(q.excluded), HIDDEN)])
    with jax.enable_x64(True):
        D, bad = tile_of(metric, q.Q, q.shared, points, high, excluded - start)
    refuse_nan(bad, q.Q, points)
    values = np.asarray(D)[: len(q.excluded)]
    if low:
        values = values.copy()
        values[:, :low] = np.nan
    best.near, best.index = keep_best((best.near, best.index), values, start)


def rows_at(points: Source, index: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n d"]:
    """Read rows by their numbers, in this order."""
    chosen = picked(points, index)
    return chosen.X[np.searchsorted(chosen.rows, index)]


def neighbor_table(
    metric: Dissimilarity | MetricDraws | Uncertain,
    points: Source,
    k: int,
    *,
    queries: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> pd.DataFrame:
    """Return the nearest rows as a table, as ``neighbors.neighbor_table``."""
    coded = check_columns(metric, points=points, queries=queries)
    queries = coded["queries"]
    if queries is None:
        raise ValueError(
            "queries must be an array if points are a dataset on disk, got None"
        )
    refuse_arrays(labels=labels)

    def at(index: Int[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray | None]:
        chosen = picked(points, index)
        place = np.searchsorted(chosen.rows, index)
        return chosen.X[place], None if chosen.labels is None else chosen.labels[place]

    return table_of(metric, points, k, queries, at)
