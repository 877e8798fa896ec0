"""Make pairs from class labels.

Squared distances are sums of squared differences. The faster form ‖x‖² + ‖x'‖² - 2 x·x'
has a rounding error of eps ‖x‖², which would break ties at random. This form is for
shortlists, which are then ranked by differences. If rounding could exclude a neighbor
from a shortlist, all distances of the query are computed. Distances that differ only by
rounding are ties, ordered by index. Learners use ``from_rows``, whose pairs do not
depend on the order of the rows. Memory is O(n d) + O(pairs) + ``BLOCK_ENTRIES``.
"""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist

from probmetric.arguments import check_count
from probmetric.data.containers import Pairs, checked_rows, weights
from probmetric.data.hash import SAME, canonical_order
from probmetric.data.inputs import class_codes, points
from probmetric.data.inputs import pairs_from_arrays as pairs_from_arrays
from probmetric.typing import ArrayLike

BLOCK_ENTRIES = 1 << 21
"""Largest number of distances in a block (16 MiB in float64)."""

LISTED = 1 << 20
"""Number of differences from which shortlists are faster than all distances."""

TREE, MANY_QUERIES = 10, 1000
"""Largest number of features, and smallest number of queries, to search with a tree."""

type _Parts = list[tuple[np.ndarray, np.ndarray, int]]
"""Anchors i, other points j, and the common y of some pairs."""


def _labeled(X: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    rows = points(X)
    codes = class_codes(labels)[1]
    if len(codes) != len(rows):
        raise ValueError(
            f"labels must have one entry per row of X ({len(rows)}), got {len(codes)}"
        )
    return rows, codes


def smallest(D: Float[np.ndarray, "q n"], k: int) -> Int[np.ndarray, "q k"]:
    """Return the columns of the k smallest distances; near-ties keep column order."""
    if k == 0:
        return np.empty((len(D), 0), int)
    last = np.partition(D, k - 1, 1)[:, [k - 1]]
    chosen = ~nearer(last, D)
    more = np.flatnonzero(np.count_nonzero(chosen, 1) > k)
    if len(more):
        near = nearer(D[more], last[more])
        tied = chosen[more] & ~near
        places = k - near.sum(1, keepdims=True)
        chosen[more] = near | (tied & (np.cumsum(tied, 1) <= places))
    columns = np.nonzero(chosen)[1].reshape(len(D), k)
    values = np.take_along_axis(D, columns, 1)
    order = np.argsort(values, 1)
    values = np.take_along_axis(values, order, 1)
    columns = np.take_along_axis(columns, order, 1)
    place = np.zeros(columns.shape, int)
    place[:, 1:] = np.cumsum(nearer(values[:, :-1], values[:, 1:]), 1)
    return np.take_along_axis(columns, np.lexsort((columns, place), 1), 1)


def nearer(
    D: Float[np.ndarray, "q #n"], than: Float[np.ndarray, "q #n"]
) -> Bool[np.ndarray, "q n"]:
    """Return which squared distances D are smaller than ``than`` by more than rounding.

    Coordinates of size r have an error of about 1e-15 r. Squared distances D then have
    an error below 1e-10 D + 1e-20 r² (``SAME``).
    """
    size = np.max(D, where=np.isfinite(D), initial=0.0)
    size = np.max(than, where=np.isfinite(than), initial=size)
    return D < than * (1 - SAME) - SAME**2 * size


def _class_blocks(
    codes: np.ndarray,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield rows: queries of a class, positions in it, its members, other classes."""
    for code in range(codes.max() + 1):
        members, others = np.flatnonzero(codes == code), np.flatnonzero(codes != code)
        size = max(1, BLOCK_ENTRIES // max(len(members), len(others)))
        for start in range(0, len(members), size):
            place = np.arange(start, min(start + size, len(members)))
            yield members[place], place, members, others


def _targets(
    Z: np.ndarray, queries: np.ndarray, place: np.ndarray, members: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    D = cdist(Z[queries], Z[members], "sqeuclidean")
    D[np.arange(len(place)), place] = np.inf
    chosen = smallest(D, min(k, len(members) - 1))
    return np.take_along_axis(D, chosen, 1), members[chosen]


def _by_anchor(X: np.ndarray, parts: _Parts) -> Pairs:
    i, j = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    y = np.repeat([part[2] for part in parts], [len(part[0]) for part in parts])
    order = np.argsort(i, kind="stable")
    i, j, y = i[order], j[order], y[order]
    return Pairs(X, i, j, y, anchor=i)


def _impostors(X: np.ndarray, codes: np.ndarray, k: int, cap: int | None) -> _Parts:
    parts: _Parts = []
    for queries, place, members, others in _class_blocks(codes):
        if len(members) == 1:
            continue
        squared, targets = _targets(X, queries, place, members, k)
        D = cdist(X[queries], X[others], "sqeuclidean")
        # Strictly nearer than the last target, by more than rounding.
        D[~nearer(D, squared[:, -1:])] = np.inf
        most = int(np.isfinite(D).sum(1).max())
        most = most if cap is None else min(cap, most)
        near = smallest(D, most)
        row, place = np.nonzero(np.isfinite(np.take_along_axis(D, near, 1)))
        column = near[row, place]
        anchored = np.unique(row)
        targets = targets[anchored]
        anchors = np.repeat(queries[anchored], targets.shape[1])
        parts += [(anchors, targets.ravel(), 1), (queries[row], others[column], 0)]
    return parts


def impostor_pairs(
    X: ArrayLike, labels: ArrayLike, k: int, *, max_impostors: int | None = None
) -> Pairs:
    """Pair each point with its k targets and its impostors.

    Targets of a point are its k nearest neighbors of the same class (or all, if there
    are fewer). Impostors are the points of other classes that are *strictly* nearer
    than the last target. These are the pairs of Der and Saul, "Latent Coincidence
    Analysis", NIPS 2012, §3.2.

    The point is called the anchor of its pairs. A point without targets or without
    impostors has no pairs. Both (i, j) and (j, i) can be pairs, with different anchors.
    Among equally distant points, those with lower row numbers come first.

    Parameters
    ----------
    X, labels : array-like of shape (n, d), (n,)
        Points, and class labels of at least two classes.
    k : int
        Number of targets of each point, from 1 to the size of the largest class minus
        1.
    max_impostors : int, optional
        Maximum number of impostors of each point. The nearest impostors are used.
        Default: all impostors, as in the paper.

    Returns
    -------
    Pairs
        Pairs ordered by anchor, targets first. ``anchor`` is the row number in X.

    Raises
    ------
    ValueError
        If no point has an impostor.

    Examples
    --------
    Points of class b have no impostors, and therefore no pairs.

    >>> from probmetric.data import impostor_pairs
    >>> pairs = impostor_pairs([[0.0], [2.0], [1.0], [1.1]], ["a", "a", "b", "b"], k=1)
    >>> list(zip(pairs.i.tolist(), pairs.j.tolist(), pairs.y.tolist()))
    [(0, 1, 1), (0, 2, 0), (0, 3, 0), (1, 0, 1), (1, 3, 0), (1, 2, 0)]
    """
    rows, codes = _labeled(X, labels)
    largest = int(np.bincount(codes).max())
    k = check_count("k", k, largest - 1, f"the largest class has {largest} members")
    if max_impostors is not None:
        max_impostors = check_count(
            "max_impostors", max_impostors, len(rows), "the number of points"
        )
    parts = _impostors(rows, codes, k, max_impostors)
    if not any(len(i) for i, _, _ in parts):
        raise ValueError(
            f"labels: no point has impostors, because its {k} nearest points of the "
            "same class are nearer than all points of other classes. Use "
            "nearest_pairs instead."
        )
    return _by_anchor(rows, parts)


def nearest_pairs(
    X: ArrayLike,
    labels: ArrayLike,
    k: int = 3,
    m: int = 3,
    factor: ArrayLike | None = None,
    groups: Int[np.ndarray, "n"] | None = None,
    n_anchors: int | None = None,
) -> Pairs:
    """Pair each point with its nearest points of the same class and of other classes.

    ``LCA`` uses these pairs by default. Unlike in ``impostor_pairs``, every point has
    pairs. If a class has only one point, this point is paired only with other classes.

    Parameters
    ----------
    X, labels : array-like of shape (n, d), (n,)
        Points, and class labels of at least two classes.
    k, m : int, default=3
        Number of neighbors of the same class (k) and of other classes (m). If there are
        fewer points, all of these points are used.
    factor : array-like of shape (p, d), optional
        Linear map used to compute the distance ‖factor (x - x')‖. Default: Euclidean
        distance.
    groups : array of shape (n,) of integers, optional
        Cluster of each point. Points of one group are not paired, and the neighbors of
        a point come from different groups. Default: each point is a group.
    n_anchors : int, optional
        Number of points that are paired with their neighbors: a random sample,
        stratified by class. Neighbors can be any points. Default: all points.

    Returns
    -------
    Pairs
        ``anchor`` is the row number of the point whose neighbors form the pair. Pairs
        are ordered by anchor, same-class pairs first, then by distance.

    Raises
    ------
    ValueError
        If no class has two points.

    Examples
    --------
    >>> from probmetric.data import nearest_pairs
    >>> pairs = nearest_pairs([[0.0], [1.0], [5.0]], ["a", "a", "b"], k=1, m=1)
    >>> list(zip(pairs.i.tolist(), pairs.j.tolist(), pairs.y.tolist()))
    [(0, 1, 1), (0, 2, 0), (1, 0, 1), (1, 2, 0), (2, 1, 0)]
    """
    rows, codes = _labeled(X, labels)
    sizes = np.bincount(codes)
    largest = int(sizes.max())
    k = check_count("k", k, largest - 1, f"the largest class has {largest} members")
    rest = len(rows) - int(sizes.min())
    m = check_count("m", m, rest, f"at most {rest} points are of another class")
    Z, d = rows, rows.shape[1]
    if factor is not None:
        L = points(factor, "factor")
        if L.shape[1] != d:
            raise ValueError(f"factor must have shape (p, {d}), got {L.shape}")
        Z = rows @ L.T
    anchors = np.ones(len(Z), bool)
    if n_anchors is not None:
        n_anchors = check_count("n_anchors", n_anchors, len(Z), "the number of points")
        by_class = np.lexsort((np.random.default_rng(0).random(len(Z)), codes))
        steps = np.linspace(0, len(Z) - 1, n_anchors).round().astype(int)
        anchors = np.isin(np.arange(len(Z)), by_class[steps])
    centered = Z - Z.mean(0)  # Rounding of products is relative to the squared norms.
    group = np.arange(len(Z)) if groups is None else groups
    parts: _Parts = []
    for code in range(codes.max() + 1):
        members, others = np.flatnonzero(codes == code), np.flatnonzero(codes != code)
        queries = members[anchors[members]]
        for same, among, most in ((1, members, k), (0, others, m)):
            most = min(most, len(among) - same)
            near = np.full((len(queries), most), -1)
            rest = np.arange(len(queries))
            if groups is None and len(queries) * len(among) * d >= LISTED:
                near, certain = _listed(Z, centered, queries, among, most)
                rest = np.flatnonzero(~certain)
            size = max(1, BLOCK_ENTRIES // max(len(among), 1))
            for start in range(0, len(rest), size):
                block = rest[start : start + size]
                D = cdist(Z[queries[block]], Z[among], "sqeuclidean")
                D[group[queries[block]][:, None] == group[among]] = np.inf
                if groups is not None:
                    D = _nearest_of_groups(D, group[among])
                places = smallest(D, most)
                at = np.take_along_axis(D, places, 1)
                near[block] = np.where(np.isfinite(at), among[places], -1)
            row, place = np.nonzero(near >= 0)
            parts.append((queries[row], near[row, place], same))
    return _by_anchor(rows, parts)


def _listed(
    Z: Float[np.ndarray, "n d"],
    centered: Float[np.ndarray, "n d"],
    queries: Int[np.ndarray, "q"],
    among: Int[np.ndarray, "a"],
    k: int,
) -> tuple[Int[np.ndarray, "q k"], Bool[np.ndarray, "q"]]:
    """Return the k nearest other rows of queries, and which queries are certain.

    Shortlists come from matrix products or a tree of scikit-learn, in the order of
    ``smallest``. A query is certain if, in spite of rounding, no row outside the
    shortlist can be as near as the k-th row.
    """
    from sklearn.neighbors import NearestNeighbors  # Small data need no search.

    tree = Z.shape[1] <= TREE and len(queries) >= MANY_QUERIES
    candidates, origins = centered[among], centered[queries]
    search = NearestNeighbors(algorithm="kd_tree" if tree else "brute").fit(candidates)
    width = min(k + 8, len(among))
    far, places = search.kneighbors(origins, width)
    columns = np.sort(among[places], 1)
    near = np.empty((len(queries), k), int)
    kth = np.empty(len(queries))
    size = max(1, BLOCK_ENTRIES // (width * Z.shape[1]))
    for start in range(0, len(queries), size):
        block = slice(start, start + size)
        delta = Z[columns[block]] - Z[queries[block], None]
        D = np.einsum("qkd,qkd->qk", delta, delta)
        D[columns[block] == queries[block, None]] = np.inf
        chosen = smallest(D, k)
        near[block] = np.take_along_axis(columns[block], chosen, 1)
        kth[block] = np.take_along_axis(D, chosen, 1).max(1, initial=0.0)
    if width == len(among):
        return near, np.ones(len(queries), bool)
    size = max(float(np.einsum("ij,ij->i", a, a).max()) for a in (candidates, origins))
    rounding = 64 * np.finfo(float).eps * Z.shape[1] * size
    return near, nearer(kth[:, None], far[:, -1:] ** 2 - rounding)[:, 0]


def _nearest_of_groups(
    D: Float[np.ndarray, "q n"], group: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "q n"]:
    """Set distances to infinity, except of the nearest column of each group."""
    order = np.argsort(group, kind="stable")
    D, first = D[:, order], np.diff(group[order], prepend=-1) > 0
    starts, unit = np.flatnonzero(first), np.cumsum(first) - 1
    least = D == np.minimum.reduceat(D, starts, 1)[:, unit]
    count = np.cumsum(least, 1)  # Of ties, the first.
    before = (count - least)[:, starts][:, unit]
    nearest = np.empty_like(D)
    nearest[:, order] = np.where(least & (count == before + 1), D, np.inf)
    return nearest


def from_rows(
    make: Callable[..., Pairs],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    groups: Int[np.ndarray, "n"] | None = None,
) -> Pairs:
    """Make pairs by ``make(points, classes)`` from rows in their canonical order."""
    order = canonical_order(X, codes)
    more = {} if groups is None else {"groups": groups[order]}
    made = make(X[order], codes[order], **more)
    i, j = order[made.i], order[made.j]
    by_anchor = np.argsort(i, kind="stable")
    i, j, y = i[by_anchor], j[by_anchor], np.asarray(made.y)[by_anchor]
    return Pairs(X, i, j, y, anchor=i)


def all_pairs(X: ArrayLike, labels: ArrayLike) -> Pairs:
    """Make all n(n-1)/2 pairs of n points, with y=1 if they have the same class.

    Examples
    --------
    >>> from probmetric.data import all_pairs
    >>> pairs = all_pairs([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    >>> list(zip(pairs.i.tolist(), pairs.j.tolist(), pairs.y.tolist()))
    [(0, 1, 1), (0, 2, 0), (1, 2, 0)]
    """
    rows, codes = _labeled(X, labels)
    if int(np.bincount(codes).max()) < 2:
        raise ValueError(
            "labels must contain a class with at least two points, got a different "
            "label for each point. Pass class labels, not identifiers."
        )
    i, j = np.triu_indices(len(rows), 1)
    return Pairs(rows, i, j, (codes[i] == codes[j]).astype(int))


def as_labels(pairs: Pairs) -> Pairs:
    """Convert counts to weighted labels. Return pairs without trials unchanged.

    A pair with m judgments, of which y are *same*, and weight w is replaced by two
    pairs: one with y = 1 and weight w y, and one with y = 0 and weight w (m - y). Pairs
    of weight 0 are left out. The log likelihood of the labels equals the log likelihood
    of the counts minus the constant Σ w log C(m, y).
    """
    pairs = checked_rows(pairs)
    if pairs.trials is None:
        return pairs
    y, w = np.asarray(pairs.y), np.asarray(weights(pairs))
    rest = np.asarray(pairs.trials) - y
    same, other = np.flatnonzero(y > 0), np.flatnonzero(rest > 0)
    at = np.concatenate([same, other])
    return Pairs(
        pairs.X,
        np.asarray(pairs.i)[at],
        np.asarray(pairs.j)[at],
        np.repeat([1, 0], [len(same), len(other)]),
        w[at] * np.concatenate([y[same], rest[other]]),
        None if pairs.anchor is None else np.asarray(pairs.anchor)[at],
    )
