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


def offer_block(
    best: Candidates,
    metric: Mahalanobis,
    Q: Float[np.ndarray, "m d"],
    who: Int[np.ndarray, "m"],
    X: Float[np.ndarray, "b d"],
    number: Int[np.ndarray, "b"],
    place: Int[np.ndarray, "m"] | None,
    tile: int,
) -> None:
    """Take a block's points in under a Mahalanobis metric.

    Parameters
    ----------
    best : Candidates
    metric : Mahalanobis
    Q : array (m, d)
    who : array (m,) of int
        Which queries of ``best`` they are, each once.
    X : array (b, d)
    number : array (b,) of int
        The points' own numbers.
    place : array (m,) of int, optional
        The point of X that each query must not find; outside 0 to b - 1 it is none.
    tile : int
    """
    threads = blas_threads()
    with one_blas_thread():  # Searches have threads of their own: 4.3 s for 1.9.
        L = np.asarray(metric.factor, np.float64)
        known = np.isfinite(best.near[who, -1])
        if known.any() and balanced(L, Q, X)[0] is not L:
            known[:] = False
        some = np.flatnonzero(known)
        if len(some):
            own = None if place is None else place[some]
            screen = _Screen(best, L, Q[some], who[some], X, number, own)
            known[some[screen.run(threads)]] = False
        left = np.flatnonzero(~known)
        own = None if place is None else place[left]
        for which, places in _by_place(own, len(X), len(left)):
            rows, k = left[which], best.near.shape[1]
            near, index = _searched(metric, Q[rows], X, k, places, tile)
            best.add(who[rows], near, number[index])


class _Screen:
    """A block screened by Eq. (1), for queries of which k are known."""

    def __init__(
        self,
        best: Candidates,
        L: Float[np.ndarray, "p d"],
        Q: Float[np.ndarray, "m d"],
        who: Int[np.ndarray, "m"],
        X: Float[np.ndarray, "b d"],
        number: Int[np.ndarray, "b"],
        place: Int[np.ndarray, "m"] | None,
    ) -> None:
        self.best, self.L, self.Q, self.who = best, L, Q, who
        self.X, self.number, self.place = X, number, place
        centre = X.mean(0)
        V, Z = (centred_images(L, A, centre) for A in (X, Q))
        largest = max(np.abs(A).max() for A in (V, Z))
        # float32 holds squares of order 1; of float64 a unit's square must be one.
        unit = 2.0 ** min(-int(np.frexp(largest)[1]), 500)
        self.unit = unit**2
        slack = self.unit * rounding(L, centre, (V, Z), (X, Q))
        V *= unit
        Z *= unit
        v, z = np.einsum("ij,ij->i", V, V), np.einsum("ij,ij->i", Z, Z)
        left = np.column_stack([-2 * Z, np.ones(len(Z))])
        right = np.column_stack([V, v])
        coarse = COARSE * (len(L) + 8) * max(v.max(), z.max())
        self.screens = (
            (left.astype(np.float32), right.astype(np.float32), slack + coarse - z),
            (left, right, slack - z),
        )

    def run(self, threads: int) -> Int[np.ndarray, "q"]:
        """Take in what passes; return the queries that are left as they were."""
        tiles = [slice(a, a + SIDE) for a in range(0, len(self.Q), SIDE)]
        if min(threads, len(tiles)) == 1:
            return np.concatenate([self._tile(rows) for rows in tiles])
        with ThreadPoolExecutor(threads) as pool:
            return np.concatenate(list(pool.map(self._tile, tiles)))

    def _tile(self, rows: slice) -> Int[np.ndarray, "q"]:
        who, best = self.who[rows], self.best
        before = best.near[who], best.index[who]
        lost = np.zeros(len(who), bool)
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        for start in range(0, len(self.X), 2 * SIDE):
            points = slice(start, start + 2 * SIDE)
            passed, size = self._passed(rows, points, best.near[who, -1])
            for a in range(0, len(passed), EXACT):
                i, j = np.divmod(passed[a : a + EXACT], size)
                waiting.append((i, start + j))
                if sum(len(i) for i, _ in waiting) > EXACT:
                    self._take(who, rows.start, waiting, lost)
                    waiting = []
        if waiting:
            self._take(who, rows.start, waiting, lost)
        again = np.flatnonzero(lost)
        best.near[who[again]] = before[0][again]
        best.index[who[again]] = before[1][again]
        return rows.start + again

    def _passed(
        self, rows: slice, points: slice, worst: Float[np.ndarray, "q"]
    ) -> tuple[Int[np.ndarray, "n"], int]:
        """Return the pairs, flat, and points of a tile that pass Eq. (1)."""
        with np.errstate(over="ignore", under="ignore"):
            worst = worst * self.unit
        passed, size = np.zeros(0, np.intp), 1
        for left, right, high in self.screens:
            product = left[rows] @ right[points].T
            limit = np.minimum(worst + high[rows], 1e9).astype(product.dtype)
            passed, size = np.flatnonzero(product <= limit[:, None]), len(right[points])
            if len(passed) <= product.size // MANY:
                break
        return passed, size

    def _take(
        self,
        who: np.ndarray,
        first: int,
        pairs: list[tuple[np.ndarray, np.ndarray]],
        lost: np.ndarray,
    ) -> None:
        """Take pairs i, j of queries first + i and points j in; note what is lost."""
        i, j = (np.concatenate(part) for part in zip(*pairs, strict=True))
        if self.place is not None:
            other = self.place[first + i] != j
            i, j = i[other], j[other]
        exact = squared(self.L, self.Q[first + i] - self.X[j])
        small = np.flatnonzero(exact < 2.0**LOST)
        if len(small):
            s, e = squares(self.L, self.Q[first + i[small]], self.X[j[small]])
            lost[i[small[(s > 0) & (e < LOST)]]] = True
        keep = (exact <= self.best.near[who[i], -1]) & ~lost[i]
        if keep.any():
            self.best.add_pairs(who[i[keep]], exact[keep], self.number[j[keep]])


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
    place: Int[np.ndarray, "m"] | None, size: int, m: int
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield queries whose own point is not in a block; then those with it, its place.

    They are asked apart, as the former have a point more to choose from.
    """
    if place is None:
        place = np.full(m, -1)
    inside = (place >= 0) & (place < size)
    for which, places in (
        (np.flatnonzero(~inside), None),
        (np.flatnonzero(inside), place[inside]),
    ):
        if len(which):
            yield which, places
