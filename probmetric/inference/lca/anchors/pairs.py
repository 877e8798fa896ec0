"""The nearest rows of anchors: k in the same class and m in the other classes.

The search is over *all* rows, under the distance ‖factor (x - x')‖, in one pass for
several factors.
"""

from collections.abc import Iterable
from itertools import chain, pairwise

import numpy as np
from jaxtyping import Int

from probmetric.data.containers import Pairs
from probmetric.inference.lca.anchors.rows import Anchors, Design, Reader, Rows
from probmetric.metric import Mahalanobis
from probmetric.neighbors.block import Asked, Block, Candidates, merge, offer_block

TILE = 1024

type Nearest = tuple[np.ndarray, ...]
"""Squared distances, numbers and points of the rows nearest to each anchor."""


def paired(
    reader: Reader, anchors: Anchors, k: int, m: int, designs: list[Design]
) -> list[Pairs]:
    """Return pairs of anchors with k rows of their class and m of others, by design."""
    d, sizes = reader.n_features, (k, m) * len(designs)

    def like() -> list[Nearest]:
        which = chain.from_iterable((len(x.which),) * 2 for x in designs)
        return [
            (np.zeros((A, j)), np.zeros((A, j), int), np.zeros((A, j, d)))
            for A, j in zip(which, sizes, strict=True)
        ]

    def nearest() -> list[Nearest]:
        results = reader.run(_nearest, reader.counts, anchors, (k, m), designs)
        return [merge(found, j) for j, *found in zip(sizes, *results, strict=True)]

    found = reader.stored("pairs", (designs, anchors.row), like, nearest)
    return [
        _pairs(anchors, design.which, same, other)
        for design, same, other in zip(designs, found[::2], found[1::2], strict=True)
    ]


def _pairs(
    anchors: Anchors, which: Int[np.ndarray, "a"], same: Nearest, other: Nearest
) -> Pairs:
    near, index, rows = (
        np.concatenate(both, 1) for both in zip(same, other, strict=True)
    )
    there = ~np.isnan(near)
    who, column = np.nonzero(there)
    number = np.concatenate([anchors.row[which], index[there]])
    points = np.concatenate([anchors.Z[which], rows[there]])
    _, first, place = np.unique(number, return_index=True, return_inverse=True)
    return Pairs(
        points[first],
        place[: len(which)][who],
        place[len(which) :],
        (column < same[0].shape[1]).astype(int),
        w=anchors.w[which][who],
        anchor=which[who],
    )


def _nearest(
    rows: Iterable[Rows],
    counts: Int[np.ndarray, "c"],
    anchors: Anchors,
    sizes: tuple[int, int],
    designs: list[Design],
) -> list[Nearest]:
    """Return the nearest rows for each design: same class, then other classes."""
    best = [[Candidates(len(design.which), j) for j in sizes] for design in designs]
    classes = range(len(counts))
    for Z, codes, first in rows:
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
        for candidates in chain.from_iterable(best):
            candidates.hold(Z, first)
    d = anchors.Z.shape[1]
    return [(c.near, c.index, c.rows(d)) for c in chain.from_iterable(best)]
