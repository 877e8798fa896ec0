"""Triplets from users' arrays, and from class labels.

Of labels each anchor's nearest points of its own class are compared with its nearest of
other classes (Weinberger and Saul, "Distance Metric Learning for Large Margin Nearest
Neighbor Classification", JMLR 2009). Such triplets share points: they are no
independent observations.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Triplets, checked_rows
from probmetric.data.inputs import points, real
from probmetric.data.pairs import nearest_pairs
from probmetric.typing import ArrayLike


def nearest_triplets(
    X: Float[ArrayLike, "n d"],
    labels: ArrayLike,
    n_targets: int = 3,
    n_impostors: int = 3,
) -> Triplets:
    """Return, for each anchor, its targets against its impostors, all with y = 1.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : array of shape (n,)
        At least two classes, one of two members or more.
    n_targets, n_impostors : int, default=3
        Nearest points of the anchor's class and of others, at most what there is.

    Returns
    -------
    Triplets
        Ordered by anchor; up to ``n n_targets n_impostors`` of them.

    Raises
    ------
    ValueError
        As ``nearest_pairs``.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> triplets = nearest_triplets(X, [0, 0, 1, 1], 1, 1)
    >>> triplets.near.tolist(), triplets.far.tolist()
    ([1, 0, 3, 2], [2, 2, 1, 1])
    """
    pairs = nearest_pairs(X, labels, n_targets, n_impostors)
    i, j, y = (np.asarray(v) for v in (pairs.i, pairs.j, pairs.y))
    parts: list[Int[np.ndarray, "3 m"]] = []
    (cuts,) = np.nonzero(np.diff(i))  # Pairs are ordered by anchor.
    places = np.split(np.arange(len(i)), cuts + 1)
    for at in places:
        own, other = j[at][y[at] == 1], j[at][y[at] == 0]
        near, far = np.repeat(own, len(other)), np.tile(other, len(own))
        parts.append(np.stack([np.full(len(near), i[at[0]]), near, far]))
    a, near, far = np.concatenate(parts, 1)
    return Triplets(np.asarray(pairs.X), a, near, far, np.ones(len(a), int))


def weighing(triplets: Triplets) -> Triplets:
    """Return the triplets of positive weight; the points stay, with their numbers."""
    triplets = checked_rows(triplets)
    if triplets.w is None:
        return triplets
    keep = np.asarray(triplets.w) > 0
    kept: dict[str, Any] = triplets._asdict()
    for name, values in kept.items():
        if name != "X" and values is not None:
            kept[name] = np.asarray(values)[keep]
    return Triplets(**kept)


def _rows(
    triplets: ArrayLike, X: ArrayLike | None, name: str
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "N k"]]:
    given = real(triplets, name)
    if X is None:
        if given.ndim != 3 or given.shape[1] not in (3, 4) or 0 in given.shape:
            raise ValueError(
                f"{name} must have shape (N, 3, d), or (N, 4, d) of quadruplets, got "
                f"{given.shape}. For row numbers of X give X[{name}]"
            )
        rows = points(given.reshape(-1, given.shape[2]), name)
        return rows, np.arange(len(rows)).reshape(-1, given.shape[1])
    rows = points(X)
    if given.ndim != 2 or given.shape[1] not in (3, 4) or not len(given):
        raise ValueError(
            f"{name}: expected shape (N, 3) of rows of points, (N, 4) of quadruplets, "
            f"got {given.shape}"
        )
    wrong = (given != np.round(given)) | ~((given >= 0) & (given < len(rows)))
    if np.any(wrong):
        raise ValueError(
            f"{name}: expected whole numbers 0..{len(rows) - 1}, rows of points, got "
            f"{given[wrong][0]:g} in row {np.nonzero(wrong)[0][0]}"
        )
    return rows, given.astype(int)


def _check_different(index: Int[np.ndarray, "N k"], name: str) -> None:
    """Raise for a triplet that has one point, by its number, in two places.

    A quadruplet may have one point in both pairs, but two pairs of different points.
    """
    if index.shape[1] == 4:
        pairs = np.sort(index.reshape(-1, 2, 2), -1)
        wrong = (pairs[..., 0] == pairs[..., 1]).any(1) | (
            pairs[:, 0] == pairs[:, 1]
        ).all(1)
        if wrong.any():
            row = np.flatnonzero(wrong)[0]
            raise ValueError(
                f"{name}: expected quadruplets of two different pairs of different "
                f"points, got {index[row].tolist()} in row {row}"
            )
        return
    names = "anchor", "near", "far"
    for k, m in ((0, 1), (0, 2), (1, 2)):
        (same,) = np.nonzero(index[:, k] == index[:, m])
        if len(same):
            raise ValueError(
                f"{name}: expected three different points, got one point "
                f"({index[same[0], k]}) for both {names[k]} and {names[m]} in row "
                f"{same[0]}"
            )


def _answers(y: ArrayLike, n: int) -> Int[np.ndarray, "N"]:
    """Return answers as 0 and 1, from {0, 1} or {-1, +1}."""
    given = real(y, "y", "answers 0/1 or -1/+1")
    if given.shape != (n,):
        raise ValueError(f"y: expected shape ({n},), got {given.shape}")
    if not any(np.isin(given, both).all() for both in ([0, 1], [-1, 1])):
        raise ValueError(
            "y: expected answers all in {0, 1} or all in {-1, +1}, got "
            f"{np.unique(given)[:5].tolist()}"
        )
    return (given == 1).astype(int)


def _weights(w: ArrayLike, n: int) -> Float[np.ndarray, "N"]:
    """Return data weights, of which one is positive."""
    given = real(w, "sample_weight")
    if given.shape != (n,):
        raise ValueError(f"sample_weight: expected shape ({n},), got {given.shape}")
    (wrong,) = np.nonzero(~(np.isfinite(given) & (given >= 0)))
    if len(wrong):
        raise ValueError(
            "sample_weight: expected finite weights >= 0, got "
            f"{given[wrong[0]]:g} in row {wrong[0]}"
        )
    if not np.any(given > 0):
        raise ValueError("sample_weight: expected a positive weight, got none")
    return given


def triplets_from_arrays(
    triplets: Triplets | ArrayLike,
    y: ArrayLike | None = None,
    w: ArrayLike | None = None,
    *,
    X: ArrayLike | None = None,
    name: str = "triplets",
) -> Triplets:
    """Take triplets as users hold them.

    Parameters
    ----------
    triplets : Triplets, or array-like of shape (N, 3, d) or (N, 3) of integers
        Anchor, near and far side by side, or as rows of ``X``. ``Triplets`` bring
        their own points, answers and weights. Quadruplets, (N, 4, d) or (N, 4), are
        the pair that is nearer, then the other one.
    y : array-like of shape (N,), optional
        1 where near was the nearer; 0 or -1, one of the two throughout, where far was.
        Default: 1 for all.
    w : array-like of shape (N,), optional
        Data weights >= 0.
    X : array-like of shape (n, d), optional
        The points that integers refer to; an error with (N, 3, d).
    name : str, default="triplets"
        What errors call them.

    Raises
    ------
    ValueError
        On bad input; where a triplet has one point in two places, a quadruplet in both
        places of a pair, or one pair twice. Points are told
        apart by their row numbers, not their coordinates: of points side by side,
        equal ones are two points at distance 0.

    Examples
    --------
    >>> found = triplets_from_arrays([[0, 1, 2]], X=[[0.0], [1.0], [3.0]])
    >>> found.near.tolist(), found.y.tolist()
    ([1], [1])
    """
    if isinstance(triplets, Triplets):
        if y is not None or w is not None:
            raise ValueError(
                "y, sample_weight: expected None with Triplets, which have their own, "
                "got arrays"
            )
        y, w, X = triplets.y, triplets.w, np.asarray(triplets.X)
        a, near, far, *other = triplets.ends
        triplets = np.stack([np.asarray(k) for k in (a, near, *other, far)], 1)
    rows, index = _rows(triplets, X, name)
    _check_different(index, name)
    n = len(index)
    answers = np.ones(n, int) if y is None else _answers(y, n)
    a, near, *other, far = index.T
    w = None if w is None else _weights(w, n)
    return Triplets(rows, a, near, far, answers, w, *other)
