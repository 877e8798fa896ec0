"""The k best of each query so far, and a block of points sorted in among them.

Under a Mahalanobis metric few points of a block beat the k-th best u of a query (k/s of
them in the s-th block). So a block is screened by one matrix product: with z and v the
images of a query and a point, centred, a point can only enter where

    |v|² - 2 z·v ≤ u + τ - |z|²,                                                   (1)

τ being what rounding does to such squares at most, Eq. (2) of ``linear``, and for a
product in float32, of half the cost, 4 ε₃₂ (p + 8) max(|z|², |v|²) more. What passes is
computed from differences as ``linear`` computes it, and merged by (value, row): no bit
depends on the screen. Queries without k points so far, those whose k-th best is
infinite or whose squares may have lost terms, and blocks whose sizes are out of the
ordinary are searched by ``linear``.

Tiles of queries are independent, and go through as many threads as BLAS has.

Memory in numbers of 8 bytes: as ``linear``; 2 (m + b)(p + 1) + m d for the images of m
queries and b points; and a thread 2 ``SIDE``² for a tile of the product, twice
``EXACT`` (4 d + 10) for what passes it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from probmetric.linalg import blas_threads, one_blas_thread
from probmetric.linalg_scaled import LOST, balanced, represented, squares
from probmetric.metric import Mahalanobis
from probmetric.neighbors.linear import (
    centred_images,
    nearest_linear,
    rounding,
    squared,
)
from probmetric.neighbors.scan import Kept, empty

SIDE = 512
"""Queries of a tile; of points it has twice as many."""

COARSE = 4 * float(np.finfo(np.float32).eps)
"""What a product of float32 is off by, at most, in units of (p + 8) max(|z|², |v|²)."""

MANY = 8
"""Where more than one in ``MANY`` passes in float32, float64 screens again."""

EXACT = 1 << 14
"""Pairs whose squares are computed from differences at a time."""

type Runs = tuple[slice, ...]
"""Points of a block, from start to stop each."""

type Asked = tuple[Int[np.ndarray, "_"], Runs]
"""Some queries of a block, and the points among which they look."""

type Screens = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]
"""In float32 and float64: both factors of the product, and τ - |z|²."""


class Candidates:
    """The k best of m queries among the points seen so far, by (value, row).

    NaN is no entry. ``rows`` returns the points themselves, if they were held.
    """

    def __init__(self, m: int, k: int) -> None:
        self.near, self.index = empty(m, k)
        self.index = self.index.astype(np.intp)
        self._held: list[tuple[np.ndarray, np.ndarray]] = []

    def add(
        self,
        which: Int[np.ndarray, "q"] | slice,
        near: Float[np.ndarray, "q j"],
        index: Int[np.ndarray, "q j"],
    ) -> None:
        """Take new entries of some queries in."""
        k = self.near.shape[1]
        values = np.concatenate([self.near[which], near], 1)
        columns = np.concatenate([self.index[which], index], 1)
        order = np.lexsort((columns, values))[:, :k]  # NaN comes last.
        self.near[which] = np.take_along_axis(values, order, 1)
        self.index[which] = np.take_along_axis(columns, order, 1)

    def hold(self, X: Float[np.ndarray, "b d"], first: int) -> None:
        """Keep the rows of a block that are among the best."""
        inside = (self.index >= first) & (self.index < first + len(X))
        found = np.unique(self.index[inside & ~np.isnan(self.near)])
        if not len(found):
            return
        self._held.append((found, X[found - first]))
        if sum(len(index) for index, _ in self._held) > 2 * self.index.size:
            self._held = [self._still_wanted()]

    def _still_wanted(self) -> tuple[np.ndarray, np.ndarray]:
        index, rows = (np.concatenate(a) for a in zip(*self._held, strict=True))
        wanted = np.isin(index, self.index)
        return index[wanted], rows[wanted]

    def rows(self, d: int) -> Float[np.ndarray, "m k d"]:
        """Return the points of the entries; zero where there is none."""
        found = np.zeros((*self.index.shape, d))
        if self._held:
            index, rows = self._still_wanted()
            there = ~np.isnan(self.near)
            found[there] = rows[np.searchsorted(index, self.index[there])]
        return found

    def add_pairs(
        self,
        who: Int[np.ndarray, "n"],
        near: Float[np.ndarray, "n"],
        index: Int[np.ndarray, "n"],
    ) -> None:
        """Take single entries in, of queries in any order."""
        k = self.near.shape[1]
        order = np.lexsort((index, near, who))
        which, first, count = np.unique(
            who[order], return_index=True, return_counts=True
        )
        rank = np.arange(len(order)) - np.repeat(first, count)
        row = np.repeat(np.arange(len(which)), count)
        top = rank < k
        values, columns = empty(len(which), min(k, int(count.max(initial=0))))
        values[row[top], rank[top]] = near[order][top]
        columns[row[top], rank[top]] = index[order][top]
        self.add(which, values, columns)


class Block:
    """A block of points, queries, and the images of both under one metric.

    Images are made when first asked for, once for whatever is offered of the block.

    Parameters
    ----------
    metric : Mahalanobis
    Q : array (m, d)
    X : array (b, d)
    number : array (b,) of int
        The points' own numbers.
    own : array (m,) of int, optional
        The number of the point that each query must not find; it may be in no block.
    """

    def __init__(
        self,
        metric: Mahalanobis,
        Q: Float[np.ndarray, "m d"],
        X: Float[np.ndarray, "b d"],
        number: Int[np.ndarray, "b"],
        own: Int[np.ndarray, "m"] | None,
    ) -> None:
        self.metric, self.Q, self.X, self.number, self.own = metric, Q, X, number, own
        self.L = np.asarray(metric.factor, np.float64)

    @cached_property
    def ordinary(self) -> bool:
        """Whether all sizes are, so that squares can be taken as they are."""
        return balanced(self.L, self.Q, self.X)[0] is self.L

    @cached_property
    def images(self) -> tuple[float, Screens]:
        """What squares are multiplied by in Eq. (1), and its screens."""
        L, centre = self.L, self.X.mean(0)
        V, Z = (centred_images(L, A, centre) for A in (self.X, self.Q))
        largest = max(np.abs(A).max() for A in (V, Z))
        # float32 holds squares of order 1; of float64 a unit's square must be one.
        unit = 2.0 ** min(-int(np.frexp(largest)[1]), 500)
        slack = unit**2 * rounding(L, centre, (V, Z), (self.X, self.Q))
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
        """Return the points of some runs and their numbers, which rise."""
        if len(runs) == 1 and np.all(np.diff(self.number[runs[0]]) > 0):
            return self.X[runs[0]], self.number[runs[0]]
        some = np.concatenate([np.arange(run.start, run.stop) for run in runs])
        some = some[np.argsort(self.number[some])]
        return self.X[some], self.number[some]


def offer_block(
    best: Candidates, block: Block, tile: int, asked: list[Asked] | None = None
) -> None:
    """Take a block's points in under a Mahalanobis metric.

    Parameters
    ----------
    best : Candidates
        Of the block's queries.
    block : Block
    tile : int
    asked : list of Asked, optional
        Queries, each once at most, and the runs of points among which they look.
        Default: all, among all.
    """
    if asked is None:
        asked = [(np.arange(len(block.Q)), (slice(0, len(block.X)),))]
    if not len(block.X):
        return
    threads = blas_threads()
    with one_blas_thread():  # Searches have threads of their own: 4.3 s for 1.9.
        known = np.isfinite(best.near[:, -1])
        if known.any() and not block.ordinary:
            known[:] = False
        known[_screened(best, block, known, asked, threads)] = False
        for queries, runs in asked:
            left = queries[~known[queries]]
            if not len(left):
                continue
            X, number = block.within(runs)
            for rows, places in _by_place(block.own, left, number):
                k = best.near.shape[1]
                near, index = _searched(block.metric, block.Q[rows], X, k, places, tile)
                best.add(rows, near, number[index])


def _screened(
    best: Candidates,
    block: Block,
    known: np.ndarray,
    asked: list[Asked],
    threads: int,
) -> Int[np.ndarray, "_"]:
    """Take in what passes Eq. (1); return the queries that are left as they were."""
    tiles: list[Asked] = []
    for queries, runs in asked:
        some = queries[known[queries]]
        tiles += [(some[a : a + SIDE], runs) for a in range(0, len(some), SIDE)]
    if not tiles:
        return np.zeros(0, np.intp)
    screen = _Screen(best, block)
    if min(threads, len(tiles)) == 1:
        return np.concatenate([screen.tile(*one) for one in tiles])
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(lambda one: screen.tile(*one), tiles)))


class _Screen:
    """A block screened by Eq. (1), for queries of which k are known."""

    def __init__(self, best: Candidates, block: Block) -> None:
        self.best, self.block = best, block
        self.unit, self.screens = block.images

    def tile(self, rows: Int[np.ndarray, "q"], runs: Runs) -> Int[np.ndarray, "_"]:
        """Take in what passes for some queries; return those left as they were."""
        best, wide = self.best, 2 * SIDE
        before = best.near[rows], best.index[rows]
        lost = np.zeros(len(rows), bool)
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        for run in runs:
            for start in range(run.start, run.stop, wide):
                points = slice(start, min(start + wide, run.stop))
                passed = self._passed(rows, points, best.near[rows, -1])
                for a in range(0, len(passed), EXACT):
                    i, j = np.divmod(passed[a : a + EXACT], points.stop - start)
                    waiting.append((i, start + j))
                    if sum(len(i) for i, _ in waiting) > EXACT:
                        self._take(rows, waiting, lost)
                        waiting = []
        if waiting:
            self._take(rows, waiting, lost)
        again = np.flatnonzero(lost)
        best.near[rows[again]] = before[0][again]
        best.index[rows[again]] = before[1][again]
        return rows[again]

    def _passed(
        self,
        rows: Int[np.ndarray, "q"],
        points: slice,
        worst: Float[np.ndarray, "q"],
    ) -> Int[np.ndarray, "n"]:
        """Return the pairs, flat, of a tile that pass Eq. (1)."""
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

    def _take(
        self,
        rows: Int[np.ndarray, "q"],
        pairs: list[tuple[np.ndarray, np.ndarray]],
        lost: np.ndarray,
    ) -> None:
        """Take pairs i, j of queries rows[i] and points j in; note what is lost."""
        L, Q, X = self.block.L, self.block.Q, self.block.X
        number, own = self.block.number, self.block.own
        i, j = (np.concatenate(part) for part in zip(*pairs, strict=True))
        if own is not None:
            other = own[rows[i]] != number[j]
            i, j = i[other], j[other]
        exact = squared(L, Q[rows[i]] - X[j])
        small = np.flatnonzero(exact < 2.0**LOST)
        if len(small):
            s, e = squares(L, Q[rows[i[small]]], X[j[small]])
            lost[i[small[(s > 0) & (e < LOST)]]] = True
        keep = (exact <= self.best.near[rows[i], -1]) & ~lost[i]
        if keep.any():
            self.best.add_pairs(rows[i[keep]], exact[keep], number[j[keep]])


def _searched(
    metric: Mahalanobis,
    Q: Float[np.ndarray, "m d"],
    X: Float[np.ndarray, "b d"],
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
) -> Kept:
    """Return the best of one block under a Mahalanobis kind; infinite where it is far.

    A query without k points in the block gives what there is, and NaN.
    """
    m, count = len(Q), min(k, len(X) - (own is not None))
    if count < 1:
        return np.full((m, 0), np.nan), np.zeros((m, 0), np.intp)
    D, index, e = nearest_linear(metric, Q, X, count, own, tile)
    with np.errstate(over="ignore", under="ignore"):
        near = np.ldexp(D, np.clip(e, -5000, 5000))
    lost = (D > 0) & (near < np.finfo(float).tiny)
    if lost.any():
        represented(D[lost], e[lost], "points", "dissimilarities")
    return near, index


def _by_place(
    own: Int[np.ndarray, "m"] | None,
    queries: Int[np.ndarray, "q"],
    number: Int[np.ndarray, "b"],
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield queries whose own point is not among these; then those with it, its place.

    They are asked apart, as the former have a point more to choose from.
    """
    place, inside = np.zeros(len(queries), np.intp), np.zeros(len(queries), bool)
    if own is not None and len(number):
        mine = own[queries]
        place = np.minimum(np.searchsorted(number, mine), len(number) - 1)
        inside = number[place] == mine
    for which, places in ((~inside, None), (inside, place[inside])):
        if which.any():
            yield queries[which], places
