"""Approximate nearest rows of anchors, by inverted lists with measured recall.

The rows of each class are clustered under the linear map into √(2 n_c) lists per class
(faiss' IVF, in float32). For each anchor, the lists with the nearest centers are
searched, for its class and for the other classes. Every list has rows of one class
only, so no rows are filtered. The distances to the resulting rows are recomputed from
the rows: only *which* rows are returned is approximate.

For ``SAMPLE`` anchors the exact nearest rows are also computed. On every second anchor
of this sample, the number of searched lists is doubled until the recall is ``SOUGHT``,
or a quarter of all lists (at least 16) are searched. The reported recall is measured on
the other anchors of the sample. A row that is as near as the last exact neighbor is
counted as correct.

Each process has the lists of its rows. Memory per row in bytes: 4 d + 8 for the rows in
float32 (up to three times as much during sorting), and 4 p + 8 for the lists of one map
(p, d) at a time.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.inference.lca.anchors.pairs import Found, found_exactly
from probmetric.inference.lca.anchors.rows import Anchors, Design, Reader
from probmetric.large.neighbors import over_processes
from probmetric.neighbors.block import Candidates
from probmetric.neighbors.linear import squared

SOUGHT = 0.985
"""Target recall, above ``ENOUGH`` because the measured recall has an error."""

ENOUGH = 0.98
"""Recall below which the estimator warns."""

SAMPLE = 1000
"""Number of anchors on which the recall is measured."""

ROUNDING = 1e-4
"""Relative rounding error of squared distances in float32."""

FIRST = 16
"""Initial number of searched lists."""

PER_LIST = 64
"""Maximum number of rows per list from which its center is computed."""


class Held(NamedTuple):
    """Rows of this process in order of class, minus the origin, with row numbers."""

    Z: Float[np.ndarray, "n d"]
    number: Int[np.ndarray, "n"]
    ends: Int[np.ndarray, "_"]
    origin: Float[np.ndarray, "d"]


def number_of_lists(rows: int) -> int:
    """Return the number of lists for this number of rows."""
    return int(np.sqrt(2 * rows))


class Lists:
    """Inverted lists of rows under one linear map, with queries restricted by class."""

    def __init__(self, held: Held, factor: Float[np.ndarray, "p d"]) -> None:
        import faiss

        sizes = [number_of_lists(b - a) for a, b in pairwise(held.ends.tolist())]
        starts = np.cumsum([0, *sizes])
        self.lists = [np.arange(*span) for span in pairwise(starts.tolist())]
        self.factor, self.origin = np.asarray(factor, np.float32), held.origin
        p = len(factor)
        self.centres = np.zeros((int(starts[-1]), p), np.float32)
        # What is looked into is said in each search: the index needs no centres.
        self.index: Any = faiss.IndexIVFFlat(
            faiss.IndexFlatL2(p), p, max(1, len(self.centres))
        )
        self.index.is_trained = True
        for lists, (a, b) in zip(self.lists, pairwise(held.ends.tolist()), strict=True):
            if len(lists):
                images = np.ascontiguousarray(held.Z[a:b] @ self.factor.T)
                self._add(lists, images, np.ascontiguousarray(held.number[a:b]))

    def _add(
        self,
        lists: Int[np.ndarray, "l"],
        images: Float[np.ndarray, "b p"],
        number: Int[np.ndarray, "b"],
    ) -> None:
        """Cluster the images of one class, and add them to its lists."""
        import faiss

        made: Any = faiss.Clustering(images.shape[1], len(lists))
        made.niter, made.seed = 10, 0
        made.min_points_per_centroid, made.max_points_per_centroid = 1, PER_LIST
        flat: Any = faiss.IndexFlatL2(images.shape[1])
        made.train(images, flat)
        place = lists[flat.search(images, 1)[1][:, 0]]
        centres = faiss.vector_to_array(made.centroids)
        self.centres[lists] = centres.reshape(len(lists), -1)
        pointers = [faiss.swig_ptr(a) for a in (images, number, place)]
        self.index.add_core(len(images), *pointers, None)

    def near(
        self,
        Q: Float[np.ndarray, "q d"],
        code: Int[np.ndarray, "q"],
        k: int,
        probe: int,
        *,
        same: bool,
    ) -> tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]:
        """Return squared distances and numbers of near rows, by class.

        If there are fewer rows, the distance is NaN and the number -1.
        """
        import faiss

        near, number = np.full((len(Q), k), np.nan), np.full((len(Q), k), -1)
        images = (Q - self.origin).astype(np.float32) @ self.factor.T
        for c, own in enumerate(self.lists):
            mine = np.flatnonzero(code == c)
            lists = own if same else np.delete(np.arange(len(self.centres)), own)
            if not len(mine) or not len(lists):
                continue
            flat: Any = faiss.IndexFlatL2(images.shape[1])
            flat.add(self.centres[lists])
            far, place = flat.search(images[mine], min(probe, len(lists)))
            self.index.nprobe = place.shape[1]
            near[mine], number[mine] = self.index.search_preassigned(
                images[mine], k, lists[place], far
            )
        near[number < 0] = np.nan
        return near, number


def found_in_lists(
    reader: Reader, anchors: Anchors, k: int, m: int, designs: list[Design]
) -> tuple[list[Found], float]:
    """Return most of the rows that ``found_exactly`` returns, and the measured recall.

    The number of searched lists is chosen under the map of the first design.
    """
    which = designs[0].which
    some = which[np.linspace(0, len(which) - 1, min(len(which), SAMPLE)).astype(int)]
    sample = designs[0]._replace(which=some)
    [exact], _ = found_exactly(reader, anchors, k, m, [sample])
    held = _held(reader, anchors)
    lists = Lists(held, designs[0].factor)

    def near(lists: Lists, which: np.ndarray, side: int, probe: int) -> Any:
        """Return near rows except the anchor: of the same class (0) or others (1)."""
        j = (k + 1, m)[side]
        code = anchors.code[which]
        found = lists.near(anchors.Z[which], code, j, probe, same=side == 0)
        own = found[1] == anchors.row[which][:, None]
        found[0][own], found[1][own] = np.nan, -1
        return found

    most = max(FIRST, sum(map(number_of_lists, reader.counts.tolist())) // 4)
    chosen = [
        _probe(lambda probe, s=side: near(lists, some, s, probe), exact, side, most)
        for side in (0, 1)
    ]
    numbers: list[np.ndarray] = []
    for place, design in enumerate(designs):
        if place:
            del lists  # Those of one map at a time.
            lists = Lists(held, design.factor)
        numbers += [near(lists, design.which, s, chosen[s][0])[1] for s in (0, 1)]
    del held, lists
    found = _measured(reader, anchors, (k, m), designs, numbers)
    return found, min(recall for _, recall in chosen)


def _held(reader: Reader, anchors: Anchors) -> Held:
    """Read the rows of this process; one pass."""
    origin = anchors.Z.mean(0)
    rows = [np.zeros((0, reader.n_features), np.float32)]
    codes, number = [np.zeros(0, int)], [np.zeros(0, int)]
    for Z, code, first in reader.rows():
        rows.append((Z - origin).astype(np.float32))
        codes.append(code)
        number.append(first + np.arange(len(Z)))
    code = np.concatenate(codes)
    order = np.argsort(code, kind="stable")
    ends = np.searchsorted(code[order], np.arange(len(reader.counts) + 1))
    return Held(
        np.concatenate(rows)[order], np.concatenate(number)[order], ends, origin
    )


def _probe(
    near: Callable[[int], Any], exact: Found, side: int, most: int
) -> tuple[int, float]:
    """Return the number of lists to search and the recall, equal in all processes."""
    true, wanted = exact[3 * side : 3 * side + 2]
    many = (~np.isnan(true)).sum(1)
    farthest = (1 + ROUNDING) * np.nanmax(true, 1, keepdims=True)
    probe = min(FIRST, most)
    while True:
        best = Candidates(*true.shape)
        best.add(slice(None), *near(probe))
        [(value, index, _)] = over_processes([best])
        # As near as the last partner is as good: of equally near rows any may be found.
        hit = (value <= farthest) | (index[:, :, None] == wanted[:, None, :]).any(2)
        hits = np.minimum((hit & ~np.isnan(value)).sum(1), many)
        if hits[::2].sum() >= SOUGHT * many[::2].sum() or probe == most:
            return probe, float(hits[1::2].sum() / many[1::2].sum())
        probe = min(2 * probe, most)


def _measured(
    reader: Reader,
    anchors: Anchors,
    sizes: tuple[int, int],
    designs: list[Design],
    numbers: list[np.ndarray],
) -> list[Found]:
    """Return the nearest of these rows, by exact distances; one pass."""
    best = [Candidates(len(design.which), j) for design in designs for j in sizes]
    asked: list[tuple[Design, np.ndarray, np.ndarray]] = []
    for place, found in enumerate(numbers):
        who, column = np.nonzero(found >= 0)
        number = found[who, column]
        order = np.argsort(number, kind="stable")
        asked.append((designs[place // 2], who[order], number[order]))
    for Z, _, first in reader.rows():
        for (design, who, number), into in zip(asked, best, strict=True):
            a, b = np.searchsorted(number, [first, first + len(Z)])
            if a < b:
                delta = anchors.Z[design.which[who[a:b]]] - Z[number[a:b] - first]
                square = squared(np.asarray(design.factor, np.float64), delta)
                into.add_pairs(who[a:b], square, number[a:b])
                into.hold(Z, first)
    merged = [
        tuple(np.asarray(a) for a in one)
        for one in over_processes(best, reader.n_features)
    ]
    return [(*x, *y) for x, y in zip(merged[::2], merged[1::2], strict=True)]
