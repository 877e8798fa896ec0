"""Merge a block of points into the k best candidates of each query.

Let u be the k-th smallest squared distance of a query so far. Few points of a block are
nearer than u (about k/s points of the s-th block), so each block is screened by a
matrix product. Let z and v be the centered images of a query and a point under the
linear map. The point can be among the k best only if

    |v|² - 2 z·v ≤ u + τ - |z|²,                                                   (1)

where τ is the bound on rounding, Eq. (2) of ``linear``. A product in float32 takes half
the time. Its bound τ is larger by 4 ε₃₂ (p + 8) max(|z|², |v|²). For pairs that satisfy
(1), the squared distances are computed from differences as in ``linear``, and merged by
(value, row). The result does not depend on the precision of the screen. Queries with
fewer than k candidates use the search of ``linear``. Tiles of queries are independent,
and run in as many threads as BLAS uses.

Memory in numbers of 8 bytes: the memory of ``linear``; 2 (m + b)(p + 1) + m d for the
images of m queries and b points; and per thread 2 ``SIDE``² for a tile of the product,
and 2 ``EXACT`` (4 d + 10) for pairs that satisfy (1).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from probmetric.linalg import blas_threads, one_blas_thread
from probmetric.metric import Mahalanobis
from probmetric.neighbors.linear import (
    centered_images,
    k_best,
    nearest_linear,
    rounding,
    squared,
)
from probmetric.neighbors.range import SMALLEST, check_found, check_lost
from probmetric.neighbors.scan import empty

SIDE = 512
"""Number of queries per tile. A tile has twice as many points."""

COARSE = 4 * float(np.finfo(np.float32).eps)
"""Largest error of a product in float32, in units of (p + 8) max(|z|², |v|²)."""

MANY = 8
"""If more than 1 in ``MANY`` pairs satisfies (1) in float32, float64 is used."""

EXACT = 1 << 14
"""Number of pairs whose squared distances are computed at a time."""

type Runs = tuple[slice, ...]
"""Ranges of points of a block."""

type Asked = tuple[Int[np.ndarray, "_"], Runs]
"""Some queries of a block, and the points among which they search."""

type Screens = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]
"""For float32 and for float64: the two factors of the product, and τ - |z|²."""


class Candidates:
    """The k best points of m queries so far, ordered by (value, row).

    A value NaN means that there is no entry yet. ``rows`` requires that ``hold`` was
    called for each block.
    """

    def __init__(self, m: int, k: int) -> None:
        self.near, self.index = empty(m, k)
        self.index = self.index.astype(np.intp)
        self._stored: list[tuple[np.ndarray, np.ndarray]] = []

    def add(
        self,
        queries: Int[np.ndarray, "q"] | slice,
        near: Float[np.ndarray, "q j"],
        index: Int[np.ndarray, "q j"],
    ) -> None:
        """Merge new entries of some queries."""
        k = self.near.shape[1]
        values = np.concatenate([self.near[queries], near], 1)
        columns = np.concatenate([self.index[queries], index], 1)
        self.near[queries], self.index[queries] = k_best(k, values, columns)

    def hold(self, X: Float[np.ndarray, "b d"], first: int) -> None:
        """Store the rows of a block that are among the k best of any query."""
        inside = (self.index >= first) & (self.index < first + len(X))
        index = np.unique(self.index[inside & ~np.isnan(self.near)])
        if not len(index):
            return
        self._stored.append((index, X[index - first]))
        if sum(len(index) for index, _ in self._stored) > 2 * self.index.size:
            self._stored = [self._still_wanted()]

    def _still_wanted(self) -> tuple[np.ndarray, np.ndarray]:
        index, rows = (np.concatenate(a) for a in zip(*self._stored, strict=True))
        wanted = np.isin(index, self.index)
        return index[wanted], rows[wanted]

    def rows(self, d: int) -> Float[np.ndarray, "m k d"]:
        """Return the points of the entries, or zeros if there is no entry."""
        points = np.zeros((*self.index.shape, d))
        if self._stored:
            index, rows = self._still_wanted()
            there = ~np.isnan(self.near)
            points[there] = rows[np.searchsorted(index, self.index[there])]
        return points

    def add_pairs(
        self,
        queries: Int[np.ndarray, "n"],
        near: Float[np.ndarray, "n"],
        index: Int[np.ndarray, "n"],
    ) -> None:
        """Merge single entries of queries, in any order."""
        k = self.near.shape[1]
        order = np.lexsort((index, near, queries))
        which, first, count = np.unique(
            queries[order], return_index=True, return_counts=True
        )
        rank = np.arange(len(order)) - np.repeat(first, count)
        row = np.repeat(np.arange(len(which)), count)
        top = rank < k
        values, columns = empty(len(which), min(k, int(count.max(initial=0))))
        values[row[top], rank[top]] = near[order][top]
        columns[row[top], rank[top]] = index[order][top]
        self.add(which, values, columns)


def merge(results: Sequence[Sequence[np.ndarray]], k: int) -> tuple[np.ndarray, ...]:
    """Merge the k best of several sets of points by (value, row)."""
    joined = [np.concatenate(arrays, 1) for arrays in zip(*results, strict=True)]
    return k_best(k, *joined)


class Block:
    """A block of points X, queries Q, and cached images of X and Q under one metric.

    ``number`` (b,) contains row numbers of the points in the dataset. ``excluded`` (m,)
    contains the row number that each query must not return.
    """

    def __init__(
        self,
        metric: Mahalanobis,
        Q: Float[np.ndarray, "m d"],
        X: Float[np.ndarray, "b d"],
        number: Int[np.ndarray, "b"],
        excluded: Int[np.ndarray, "m"] | None,
    ) -> None:
        self.metric, self.Q, self.X, self.number = metric, Q, X, number
        self.excluded, self.L = excluded, np.asarray(metric.factor, np.float64)

    @cached_property
    def images(self) -> tuple[float, Screens]:
        """Return the scale of squared distances, and Eq. (1) in float32 and float64."""
        L, center = self.L, self.X.mean(0)
        V, Z = (centered_images(L, A, center) for A in (self.X, self.Q))
        largest = max(np.abs(A).max() for A in (V, Z))
        # Scale to order 1 for squares in float32; unit**2 must not overflow float64.
        unit = 2.0 ** min(-int(np.frexp(largest)[1]), 500)
        slack = unit**2 * rounding(L, center, (V, Z), (self.X, self.Q))
        V *= unit
        Z *= unit
        v, z = np.einsum("ij,ij->i", V, V), np.einsum("ij,ij->i", Z, Z)
        left = np.column_stack([-2 * Z, np.ones(len(Z))])
        right = np.column_stack([V, v])
        coarse = COARSE * (len(L) + 8) * max(v.max(), z.max())
        return unit**2, (
            (left.astype(np.float32), right.astype(np.float32), slack + coarse - z),
            (left, right, slack - z),
        )

    def within(self, runs: Runs) -> tuple[np.ndarray, np.ndarray]:
        """Return points from ranges of rows, ordered by row number, and the numbers."""
        if len(runs) == 1 and np.all(np.diff(self.number[runs[0]]) > 0):
            return self.X[runs[0]], self.number[runs[0]]
        rows = np.concatenate([np.arange(run.start, run.stop) for run in runs])
        rows = rows[np.argsort(self.number[rows])]
        return self.X[rows], self.number[rows]


def offer_block(
    best: Candidates, block: Block, tile: int, searches: list[Asked] | None = None
) -> None:
    """Merge a block into the candidates of its queries (of ``searches``, or all)."""
    if searches is None:
        searches = [(np.arange(len(block.Q)), (slice(0, len(block.X)),))]
    if not len(block.X):
        return
    threads = blas_threads()
    with one_blas_thread():  # The searches start threads themselves.
        full = ~np.isnan(best.near[:, -1])
        _screen_block(best, block, full, searches, threads)
        for queries, runs in searches:
            left = queries[~full[queries]]
            if not len(left):
                continue
            X, number = block.within(runs)
            k = best.near.shape[1]
            for rows, places in _by_place(block.excluded, left, number):
                count = min(k, len(X) - (places is not None))
                if count < 1:
                    continue
                Q = block.Q[rows]
                near, index = nearest_linear(block.metric, Q, X, count, places, tile)
                check_found(block.metric, Q, X, near, index)
                best.add(rows, near, number[index])


def _screen_block(
    best: Candidates,
    block: Block,
    full: np.ndarray,
    searches: list[Asked],
    threads: int,
) -> None:
    """Merge pairs that satisfy Eq. (1), for queries that have k candidates."""
    tiles: list[Asked] = []
    for queries, runs in searches:
        rows = queries[full[queries]]
        tiles += [(rows[a : a + SIDE], runs) for a in range(0, len(rows), SIDE)]
    if not tiles:
        return
    screen = _Screen(best, block)
    if min(threads, len(tiles)) == 1:
        for tile in tiles:
            screen.tile(*tile)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda tile: screen.tile(*tile), tiles))


class _Screen:
    """Screens a block by Eq. (1)."""

    def __init__(self, best: Candidates, block: Block) -> None:
        self.best, self.block = best, block
        self.unit, self.screens = block.images

    def tile(self, rows: Int[np.ndarray, "q"], runs: Runs) -> None:
        wide = 2 * SIDE
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        for run in runs:
            for start in range(run.start, run.stop, wide):
                points = slice(start, min(start + wide, run.stop))
                passed = self._passed(rows, points, self.best.near[rows, -1])
                for a in range(0, len(passed), EXACT):
                    i, j = np.divmod(passed[a : a + EXACT], points.stop - start)
                    waiting.append((i, start + j))
                    if sum(len(i) for i, _ in waiting) > EXACT:
                        self._merge(rows, waiting)
                        waiting = []
        if waiting:
            self._merge(rows, waiting)

    def _passed(
        self, rows: Int[np.ndarray, "q"], points: slice, worst: Float[np.ndarray, "q"]
    ) -> Int[np.ndarray, "n"]:
        with np.errstate(over="ignore", under="ignore"):
            worst = worst * self.unit
        passed = np.zeros(0, np.intp)
        for left, right, high in self.screens:
            product = left[rows] @ right[points].T
            limit = np.minimum(worst + high[rows], 1e9).astype(product.dtype)
            passed = np.flatnonzero(product <= limit[:, None])
            if len(passed) <= product.size // MANY:
                break
        return passed

    def _merge(
        self, rows: Int[np.ndarray, "q"], pairs: list[tuple[np.ndarray, np.ndarray]]
    ) -> None:
        """Compute squared distances of query rows[i] and point j, and merge them."""
        Q, X, number = self.block.Q, self.block.X, self.block.number
        i, j = (np.concatenate(indices) for indices in zip(*pairs, strict=True))
        if self.block.excluded is not None:
            other = self.block.excluded[rows[i]] != number[j]
            i, j = i[other], j[other]
        exact = squared(self.block.L, Q[rows[i]] - X[j])
        small = exact < SMALLEST**2
        check_lost(self.block.metric, Q[rows[i[small]]], X[j[small]])
        better = exact <= self.best.near[rows[i], -1]
        if better.any():
            self.best.add_pairs(rows[i[better]], exact[better], number[j[better]])


def _by_place(
    excluded: Int[np.ndarray, "m"] | None,
    queries: Int[np.ndarray, "q"],
    number: Int[np.ndarray, "b"],
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield queries whose excluded point is not in the block, then other queries."""
    place, inside = np.zeros(len(queries), np.intp), np.zeros(len(queries), bool)
    if excluded is not None and len(number):
        rows = excluded[queries]
        place = np.minimum(np.searchsorted(number, rows), len(number) - 1)
        inside = number[place] == rows
    for which, places in ((~inside, None), (inside, place[inside])):
        if which.any():
            yield queries[which], places
