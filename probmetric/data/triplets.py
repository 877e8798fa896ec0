"""Make triplets from arrays, or from class labels.

Triplets from labels compare each anchor's nearest points of the same class with its
nearest points of other classes (Weinberger and Saul, JMLR 2009). These triplets share
points and are not independent observations.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Shaped

from probmetric.data.containers import OddOneOut, Triplets, checked_rows
from probmetric.data.inputs import check_weights, column, pair_labels, points, real
from probmetric.data.pairs import nearest_pairs
from probmetric.typing import ArrayLike


def nearest_triplets(
    X: Float[ArrayLike, "n d"],
    labels: ArrayLike,
    n_targets: int = 3,
    n_impostors: int = 3,
) -> Triplets:
    """Make triplets from class labels: a point of the same class should be nearer.

    Every point is the ``anchor`` of triplets. ``near`` is one of its ``n_targets``
    nearest points of the same class. ``far`` is one of its ``n_impostors`` nearest
    points of other classes. All combinations are triplets, ordered by anchor, and y is
    1 ("near is nearer") in all of them. X (n, d) are points, and labels (n,) their
    classes.

    Examples
    --------
    >>> triplets = nearest_triplets([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1], 1, 1)
    >>> triplets.near.tolist(), triplets.far.tolist()
    ([1, 0, 3, 2], [2, 2, 1, 1])
    """
    pairs = nearest_pairs(X, labels, n_targets, n_impostors)
    i, j, y = (np.asarray(v) for v in (pairs.i, pairs.j, pairs.y))
    triplets: list[Int[np.ndarray, "3 m"]] = []
    (cuts,) = np.nonzero(np.diff(i))  # Pairs are ordered by anchor.
    for at in np.split(np.arange(len(i)), cuts + 1):
        targets, impostors = j[at][y[at] == 1], j[at][y[at] == 0]
        near, far = np.repeat(targets, len(impostors)), np.tile(impostors, len(targets))
        triplets.append(np.stack([np.full(len(near), i[at[0]]), near, far]))
    a, near, far = np.concatenate(triplets, 1)
    return Triplets(np.asarray(pairs.X), a, near, far, np.ones(len(a), int))


def numbered(
    triplets: ArrayLike, names: Sequence[str] | None = None
) -> tuple[ArrayLike, tuple[str, ...] | None]:
    """Replace names of objects (text) by numbers, and return names in number order.

    ``names`` are the names of an earlier fit, in their order. Default: sorted names. If
    the objects are numbers, the numbers are returned unchanged, without names.
    """
    values = np.asarray(triplets)
    text = values.dtype.kind in "US" or (
        values.dtype == object and all(isinstance(v, str) for v in values.ravel())
    )
    if not text:
        return triplets, None
    found, codes = np.unique(values.astype(str), return_inverse=True)
    number = {name: k for k, name in enumerate(found if names is None else names)}
    unknown = [name for name in found.tolist() if name not in number]
    if unknown:
        raise ValueError(
            f"triplets must contain only objects of the fit, got {unknown[0]!r}. Add "
            "this object to the training triplets."
        )
    order = np.array([number[name] for name in found])
    return order[codes], tuple(map(str, number))


def weighing(triplets: Triplets) -> Triplets:
    """Select the triplets of positive weight; all points remain."""
    triplets = checked_rows(triplets)
    if triplets.w is None:
        return triplets
    return selected(triplets, np.asarray(triplets.w) > 0)


def selected(triplets: Triplets, rows: Shaped[np.ndarray, "m"]) -> Triplets:
    """Select triplets by number or mask; all points remain."""
    columns = triplets._asdict().items()
    return triplets._replace(
        **{k: np.asarray(v)[rows] for k, v in columns if k != "X" and v is not None}
    )


def _rows(
    triplets: ArrayLike, X: ArrayLike | None
) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "N k"]]:
    name = "triplets"
    ends = real(triplets, name)
    if X is None:
        if ends.ndim != 3 or ends.shape[1] not in (3, 4) or 0 in ends.shape:
            raise ValueError(
                f"{name} must have shape (N, 3, d), or (N, 4, d) for quadruplets, got "
                f"{ends.shape}. If {name} are row numbers of X, pass X[{name}]."
            )
        rows = points(ends.reshape(-1, ends.shape[2]), name)
        return rows, np.arange(len(rows)).reshape(-1, ends.shape[1])
    rows = points(X)
    if ends.ndim != 2 or ends.shape[1] not in (3, 4) or not len(ends):
        raise ValueError(
            f"{name} must be row numbers of shape (N, 3), or (N, 4) for quadruplets, "
            f"got shape {ends.shape}"
        )
    wrong = (ends != np.round(ends)) | ~((ends >= 0) & (ends < len(rows)))
    if np.any(wrong):
        raise ValueError(
            f"{name} must be row numbers of X (0 to {len(rows) - 1}), got "
            f"{ends[wrong][0]:g} in row {np.nonzero(wrong)[0][0]}"
        )
    return rows, ends.astype(int)


def _check_different(index: Int[np.ndarray, "N k"]) -> None:
    quadruplets = index if index.shape[1] == 4 else index[:, [0, 1, 0, 2]]
    pairs = np.sort(quadruplets.reshape(-1, 2, 2), -1)
    one_point = (pairs[..., 0] == pairs[..., 1]).any(1)
    one_pair = (pairs[:, 0] == pairs[:, 1]).all(1)
    wrong = np.flatnonzero(one_point | one_pair)
    if len(wrong):
        raise ValueError(
            "triplets must compare two different pairs, each of two different points, "
            f"got {index[wrong[0]].tolist()} in row {wrong[0]}. Remove this row."
        )


def triplets_from_arrays(
    triplets: Triplets | ArrayLike,
    y: ArrayLike | None = None,
    w: ArrayLike | None = None,
    *,
    X: ArrayLike | None = None,
    odd_one_out: bool = False,
) -> Triplets:
    """Convert arrays of triplets to ``Triplets``, or to ``OddOneOut``.

    Triplets are points anchor, near and far (N, 3, d), or their row numbers (N, 3) in
    ``X``. Quadruplets have shape (N, 4, d) or (N, 4): the nearer pair, followed by the
    farther pair. y is 1 (default) if near is nearer, 0 or -1 if far is nearer. With
    ``odd_one_out``, y is 1 (default) if far is the odd one, 0 if near is, 2 if anchor
    is. ``w`` are data weights ≥ 0. Row numbers identify points: two rows with equal
    coordinates are two points at distance 0.
    """
    kind = OddOneOut if odd_one_out else Triplets
    if isinstance(triplets, Triplets):
        if y is not None or w is not None:
            raise ValueError(
                "y and sample_weight must be None for a Triplets object, got arrays. "
                "Pass them to Triplets."
            )
        y, w, X, kind = triplets.y, triplets.w, np.asarray(triplets.X), type(triplets)
        a, near, far, *other = triplets.ends
        triplets = np.stack([np.asarray(k) for k in (a, near, *other, far)], 1)
    rows, index = _rows(triplets, X)
    if kind is OddOneOut and index.shape[1] != 3:
        raise ValueError(
            "triplets must have shape (N, 3) for odd-one-out responses, got (N, 4). "
            "Pass three objects, with the odd one last."
        )
    _check_different(index)
    n = len(index)
    if y is None:
        responses = np.ones(n, int)
    elif kind is OddOneOut:
        responses = _odd(y, n)
    else:
        responses = pair_labels(y, n, both=False)
    a, near, *other, far = index.T
    return kind(rows, a, near, far, responses, check_weights(w, n), *other)


def _odd(y: ArrayLike, n: int) -> Int[np.ndarray, "N"]:
    responses = column(y, n, "y", "responses 0, 1 or 2")
    wrong = np.setdiff1d(responses, (0, 1, 2))
    if len(wrong):
        raise ValueError(
            "y must be 1 if the third object is the odd one, 0 if the second is, and 2 "
            f"if the first is, got {wrong[0]:g}. Omit y if it is always the third."
        )
    return responses.astype(int)
