"""The nearest rows of anchors: k in the same class and m in the other classes.

The search is over *all* rows, under the distance ‖factor (x - x')‖, in one pass for
several factors. ``found_exactly`` returns the exact nearest rows,
``lists.found_in_lists`` most of them.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from probmetric.data.containers import Pairs
from probmetric.inference.lca.anchors.rows import Anchors, Design, Reader
from probmetric.large.neighbors import over_processes
from probmetric.large.passes import Pass, kept
from probmetric.metric import Mahalanobis
from probmetric.neighbors.block import Asked, Block, Candidates, offer_block

TILE = 1024

type Found = tuple[np.ndarray, ...]
"""Squared distances, numbers and points per anchor: same class, then others."""

type Search = Callable[
    [Reader, Anchors, int, int, list[Design]], tuple[list[Found], float]
]
"""Returns the nearest rows under each design, and the recall."""


def paired(
    reader: Reader,
    anchors: Anchors,
    k: int,
    m: int,
    designs: list[Design],
    search: Search,
) -> tuple[list[Pairs], float]:
    """Return pairs of anchors with k rows of the same class and m of other classes.

    Pairs are in the order of ``nearest_pairs``: by anchor, same class first, then by
    distance and row. Returns the pairs of each design, and the recall of the search.
    """
    d = reader.n_features
    like = [
        tuple(
            a
            for j in (k, m)
            for a in (np.zeros((A, j)), np.zeros((A, j), int), np.zeros((A, j, d)))
        )
        for A in (len(design.which) for design in designs)
    ]
    name = "pairs" if search is found_exactly else "pairs in lists"
    which = Pass(name, reader.name, (designs, anchors.row))

    def made() -> tuple[list[Found], np.ndarray]:
        found, recall = search(reader, anchors, k, m, designs)
        return found, np.array(recall)

    found, recall = kept(which, lambda: (like, np.zeros(())), made)
    pairs = [
        _pairs(anchors, design.which, *one)
        for design, one in zip(designs, found, strict=True)
    ]
    return pairs, float(recall)


def _pairs(anchors: Anchors, which: np.ndarray, *found: np.ndarray) -> Pairs:
    """Return pairs from the distances, numbers and points of the nearest rows."""
    near, index = (np.concatenate([found[s], found[s + 3]], 1) for s in (0, 1))
    rows = np.concatenate([found[2], found[5]], 1)
    there = ~np.isnan(near)
    who, column = np.nonzero(there)
    number = np.concatenate([anchors.row[which], index[there]])
    points = np.concatenate([anchors.Z[which], rows[there]])
    _, first, place = np.unique(number, return_index=True, return_inverse=True)
    return Pairs(
        points[first],
        place[: len(which)][who],
        place[len(which) :],
        (column < found[0].shape[1]).astype(int),
        w=anchors.w[which][who],
        anchor=which[who],
    )


def found_exactly(
    reader: Reader, anchors: Anchors, k: int, m: int, designs: list[Design]
) -> tuple[list[Found], float]:
    """Return the exact nearest rows of the anchors of each design; one pass."""
    best = [[Candidates(len(design.which), j) for j in (k, m)] for design in designs]
    classes = range(len(reader.counts))
    for Z, codes, first in reader.rows():
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], [*classes, len(classes)])
        runs = [slice(*both) for both in pairwise(ends.tolist())]
        X, number = Z[order], first + order
        for (which, factor), (same, other) in zip(designs, best, strict=True):
            block = Block(
                Mahalanobis(factor), anchors.Z[which], X, number, anchors.row[which]
            )
            inside: list[Asked] = []
            outside: list[Asked] = []
            for c, run in enumerate(runs):
                mine = np.flatnonzero(anchors.code[which] == c)
                inside.append((mine, (run,)))
                outside.append((mine, (slice(0, run.start), slice(run.stop, len(X)))))
            offer_block(same, block, TILE, inside)
            offer_block(other, block, TILE, outside)
        for one in best:
            for candidates in one:
                candidates.hold(Z, first)
    flat = over_processes([c for one in best for c in one], reader.n_features)
    merged = [[np.asarray(a) for a in one] for one in flat]
    found: list[Found] = [
        (*same, *other) for same, other in zip(merged[::2], merged[1::2], strict=True)
    ]
    return found, 1.0
