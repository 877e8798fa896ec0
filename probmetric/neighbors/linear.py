"""Exact nearest neighbors under a Mahalanobis metric with scikit-learn's search.

Scikit-learn guarantees no order among equally near points, so its exact search is used
only to select candidates. The search runs on Z = (X - x̄) Lᵀ, with a tree in few
dimensions and otherwise by brute force. It returns k' = k + 1 candidates per query
(k + 2 if a point is excluded), and the distance r of the last candidate. The squared
distances of candidates are then computed again from differences, |L(q - x)|², so
duplicates and mirror images tie exactly. Let u be the k-th smallest squared distance,
and τ a bound on the rounding error of squared distances in the search. Then

    all other points have squared distances of at least r² - τ.                    (1)

If u < r² - τ, the k nearest points are among the candidates. Otherwise a radius query
returns all points within √(u + τ), including every tie, and these points are sorted in
the same way. Let R be the largest ‖z‖, p and d the shape of L, and ε the spacing of
floats at 1. A, the largest ‖L‖ (‖x - x̄‖ + ‖x̄‖), bounds the cancellation in z. Then

    τ = 16 ε (p + d) (R + A)².                                                     (2)

Memory in numbers of 8 bytes: max(8 t², k' (d + 3)) for a tile side t, and d + 1 times
the number of points from a radius query of 1 + t / 64 rows (at worst n each). If
k' (d + 3) > 8 t, fewer than t queries are processed at a time.
"""

import numpy as np
from jaxtyping import Float, Int

from probmetric.metric import Mahalanobis
from probmetric.progress import progress_bar

PIECE = 1024
"""Number of rows at a time. Larger arrays cause page faults at every allocation."""

MULTIPLICATIONS = 1 << 31
"""Multiplications per search (tenths of a second). Ctrl-C waits until a search ends."""

MAX_TREE_DIMENSION = 15
"""Largest dimension for tree search, as in scikit-learn's ``algorithm="auto"``."""

type Nearest = tuple[Float[np.ndarray, "m k"], Int[np.ndarray, "m k"]]
"""Dissimilarities in ascending order, and row numbers of the points."""


def k_best(
    k: int, near: np.ndarray, index: np.ndarray, *others: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return the k first entries of each row, ordered by (value, index), NaN last."""
    order = np.lexsort((index, near))[:, :k]
    rows = np.arange(len(order))[:, None]
    return tuple(array[rows, order] for array in (near, index, *others))


def squared(
    L: Float[np.ndarray, "p d"], delta: Float[np.ndarray, "*n d"]
) -> Float[np.ndarray, "*n"]:
    """Compute |Lδ|² by the same operations in every row. Equal rows tie exactly."""
    # No BLAS: a GEMM may treat rows at the edge of a block differently.
    total = np.zeros(delta.shape[:-1])
    for row in L:
        total += np.sum(delta * row, -1) ** 2
    return total


def rounding(
    L: Float[np.ndarray, "p d"],
    center: Float[np.ndarray, "d"],
    images: tuple[Float[np.ndarray, "_ p"], ...],
    points: tuple[Float[np.ndarray, "_ d"], ...],
) -> float:
    """Compute τ, Eq. (2), for points and their images (x - center) Lᵀ."""
    reach = max(_longest(A, 0.0) for A in images)
    before = max(_longest(A, center) for A in points)
    before = np.linalg.norm(L) * (before + np.linalg.norm(center))
    with np.errstate(over="ignore"):  # Infinite τ: every row takes the radius query.
        return 16 * np.finfo(float).eps * sum(L.shape) * np.square(reach + before)


def centered_images(
    L: Float[np.ndarray, "p d"],
    X: Float[np.ndarray, "n d"],
    center: Float[np.ndarray, "d"],
) -> Float[np.ndarray, "n p"]:
    """Compute (x - center) Lᵀ."""
    V = np.empty((len(X), len(L)))
    for start in range(0, len(X), PIECE):
        V[start : start + PIECE] = (X[start : start + PIECE] - center) @ L.T
    return V


def _longest(
    X: Float[np.ndarray, "n d"], center: Float[np.ndarray, "d"] | float
) -> float:
    pieces = (X[a : a + PIECE] - center for a in range(0, len(X), PIECE))
    return float(np.sqrt(max(np.einsum("ij,ij->i", A, A).max() for A in pieces)))


def nearest_linear(
    metric: Mahalanobis,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    excluded: Int[np.ndarray, "m"] | None,
    tile: int,
) -> Nearest:
    """Find exact neighbors using Eqs. (1) and (2), without checking arguments."""
    L = np.asarray(metric.factor, np.float64)
    center = P.mean(0)
    V, Z = (centered_images(L, X, center) for X in (P, Q))
    slack = rounding(L, center, (V, Z), (P, Q))
    from sklearn.neighbors import NearestNeighbors  # Fits need no search.

    search = NearestNeighbors(
        algorithm="kd_tree" if L.shape[0] <= MAX_TREE_DIMENSION else "brute"
    ).fit(V)
    wanted = min(len(P), k + 1 + (excluded is not None))
    D, neighbors = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    quick = 256 * max(1, MULTIPLICATIONS // (256 * V.size))  # Scikit-learn's chunks.
    step = max(1, min(tile, quick, 8 * tile**2 // (wanted * (P.shape[1] + 3))))
    for start in progress_bar(range(0, len(Q), step), "neighbors", None, "block"):
        rows = slice(start, min(start + step, len(Q)))
        far, near = search.kneighbors(Z[rows], wanted)
        exact = squared(L, Q[rows, None, :] - P[near])
        if excluded is not None:
            exact[near == excluded[rows, None]] = np.inf
        D[rows], neighbors[rows] = k_best(k, exact, near)
        if wanted == len(P):
            continue
        unsettled = np.flatnonzero(D[rows, -1] >= far[:, -1] ** 2 - slack)  # Eq. (1)
        unsettled = start + unsettled[np.argsort(D[start + unsettled, -1])]
        chunks = max(1, -(-len(unsettled) // (1 + tile // 64)))
        for chunk in np.array_split(unsettled, chunks):
            if len(chunk) == 0:
                continue
            radius = np.sqrt(D[chunk[-1], -1] + slack)
            within = search.radius_neighbors(Z[chunk], radius, return_distance=False)
            for i, candidates in zip(chunk, within, strict=True):
                if excluded is not None:
                    candidates = candidates[candidates != excluded[i]]
                exact = squared(L, Q[i] - P[candidates])
                order = np.lexsort((candidates, exact))[:k]
                D[i], neighbors[i] = exact[order], candidates[order]
    return D, neighbors
