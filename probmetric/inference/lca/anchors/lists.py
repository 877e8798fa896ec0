"""Most of the nearest rows of anchors, by inverted lists; the recall is measured.

The rows of each class are clustered under the map, √(2 n_c) lists a class (faiss' IVF,
in float32). An anchor looks into the lists whose centres are nearest to it: of its
class, and of the others. As no list holds two classes, none is filtered. Distances of
what is found are computed again from the rows themselves: only *which* rows are found
is approximate.

Of ``SAMPLE`` anchors the partners are found exactly, too. The lists looked into are
doubled until ``SOUGHT`` of the partners of every second one of these are found, or as
many are looked into as a quarter of all classes' lists (16 at least); the recall is
that of the others. A row as near as the last partner counts as found.

Each process has lists of its own rows. Memory in bytes a row of it: 4 d + 8 for the
rows in float32 (up to three times that while they are sorted), and 4 p + 8 for the
lists of one map at a time, of p rows.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.inference.lca.anchors.pairs import Found, found_exactly
from probmetric.inference.lca.anchors.rows import Anchors, Design, Reader
from probmetric.neighbors.block import Candidates
from probmetric.neighbors.linear import squared
from probmetric.neighbors.stream import over_processes

SOUGHT = 0.985
"""Recall that is sought, somewhat above ``ENOUGH``: what is measured has an error."""

ENOUGH = 0.98
"""Recall below which the estimator warns."""

SAMPLE = 1000
"""Anchors of which the recall is measured."""

ROUNDING = 1e-4
"""What squares in float32 may be off by, relative."""

FIRST = 16
"""Lists that are looked into at first."""

PER_LIST = 64
"""Rows a list, at most, that its centre is learned from."""


class Held(NamedTuple):
    """The rows of this process by class, less the origin; numbers; ends of classes."""

    Z: Float[np.ndarray, "n d"]
    number: Int[np.ndarray, "n"]
    ends: Int[np.ndarray, "_"]
    origin: Float[np.ndarray, "d"]


def number_of_lists(rows: int) -> int:
    """Return how many lists so many rows have."""
    return int(np.sqrt(2 * rows))


class Lists:
    """Lists of rows under one map; queries look into those of some classes."""

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
        """Return squares and numbers of near rows of each query's class, or others.

        Where there are fewer the square is NaN and the number -1.
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
    """Return most of what ``found_exactly`` returns, and the recall that is measured.

    The lists that are looked into are chosen under the map of the first design.
    """
    which = designs[0].which
    some = which[np.linspace(0, len(which) - 1, min(len(which), SAMPLE)).astype(int)]
    sample = designs[0]._replace(which=some)
    [exact], _ = found_exactly(reader, anchors, k, m, [sample])
    held = _held(reader, anchors)
    lists = Lists(held, designs[0].factor)

    def near(lists: Lists, which: np.ndarray, side: int, probe: int) -> Any:
        """Return what one side, 0 of the same and 1 of others, finds but itself."""
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
    """Return how many lists to look into, and the recall; the same on each process."""
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
    """Return the best of what was found, measured from the rows; one pass."""
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
