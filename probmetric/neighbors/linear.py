"""Exact nearest neighbours under a Mahalanobis metric, by scikit-learn; ties settled.

Scikit-learn promises no order among equally near points, so its exact searches only
*shortlist* here. With Z = (X - x̄) Lᵀ a search (tree in few dimensions, brute force in
many) gives k' = k + 1 + own candidates per query and its k'-th distance r. Squared
distances are then recomputed row by row from differences, |L(q - x)|², so that
duplicates and mirror images tie exactly. Let u be the k-th smallest of them and τ a
bound on the rounding of the search (in squared distances):

    every point outside the shortlist lies at r² - τ or further.                   (1)

If u < r² - τ the row is settled. Otherwise all points within √(u + τ) are fetched by a
radius query, recomputed and sorted: no tie can be missed. With R the largest ‖z‖, A
the largest ‖L‖ (‖x - x̄‖ + ‖x̄‖), which bounds what cancels on the way to z, p and d
the shape of L and ε the spacing of floats at 1,

    τ = 16 ε (p + d) (R + A)².                                                     (2)

Features whose size is out of the ordinary are scaled by powers of two first. Where a
square may have lost terms even so (points closer than 1e-120 of the largest entry),
the query is compared with all points by ``linalg_scaled.squares``, which lose none.

Memory in numbers of 8 bytes: max(8 t², k' (d + 3)) for a tile side t (queries are taken
by fewer than t where k' (d + 3) > 8 t), and d + 1 times the points found by a radius
query, of 1 + t / 64 rows at a time (at worst n each).
"""

import numpy as np
from jaxtyping import Float, Int

from probmetric.linalg_scaled import LOST, balanced, squares
from probmetric.metric import Mahalanobis

PIECE = 1024
"""Rows taken at a time: arrays of megabytes are paged in anew each time, at 5 times
what is computed."""

MAX_TREE_DIMENSION = 15
"""Where scikit-learn's own "auto" rule goes from trees to brute force."""


def squared(
    L: Float[np.ndarray, "p d"], delta: Float[np.ndarray, "*n d"]
) -> Float[np.ndarray, "*n"]:
    """Return |Lδ|² by the same operations in every row, so that equal rows tie."""
    # No BLAS: a GEMM may treat rows at the edge of a block differently.
    total = np.zeros(delta.shape[:-1])
    for row in L:
        total += np.sum(delta * row, -1) ** 2
    return total


def rounding(
    L: Float[np.ndarray, "p d"],
    centre: Float[np.ndarray, "d"],
    images: tuple[Float[np.ndarray, "_ p"], ...],
    points: tuple[Float[np.ndarray, "_ d"], ...],
) -> float:
    """Return τ, Eq. (2), for points and their images (x - centre) Lᵀ."""
    reach = max(_longest(A, 0.0) for A in images)
    before = max(_longest(A, centre) for A in points)
    before = np.linalg.norm(L) * (before + np.linalg.norm(centre))
    return 16 * np.finfo(float).eps * sum(L.shape) * float(reach + before) ** 2


def centred_images(
    L: Float[np.ndarray, "p d"],
    X: Float[np.ndarray, "n d"],
    centre: Float[np.ndarray, "d"],
) -> Float[np.ndarray, "n p"]:
    """Return (x - centre) Lᵀ."""
    V = np.empty((len(X), len(L)))
    for a in range(0, len(X), PIECE):
        V[a : a + PIECE] = (X[a : a + PIECE] - centre) @ L.T
    return V


def _longest(
    X: Float[np.ndarray, "n d"], centre: Float[np.ndarray, "d"] | float
) -> float:
    """Return the largest ‖x - centre‖."""
    pieces = (X[a : a + PIECE] - centre for a in range(0, len(X), PIECE))
    return float(np.sqrt(max(np.einsum("ij,ij->i", A, A).max() for A in pieces)))


def nearest_linear(
    metric: Mahalanobis,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
) -> tuple[Float[np.ndarray, "m k"], Int[np.ndarray, "m k"], Int[np.ndarray, "m k"]]:
    """Find neighbours by (1) and (2); arguments as `found_but_own`, checked there.

    Returns
    -------
    D, indices, exponents
        Squared distances are D · 2**exponents.
    """
    given = np.asarray(metric.factor, np.float64), Q, P
    L, (Q, P), exponent = balanced(*given)
    D, found = _search(L, Q, P, k, own, tile)
    exponents = np.full(D.shape, exponent)
    for i in _lost(given, D, found, exponent):
        s, e = squares(given[0], given[1][i], given[2])
        if own is not None:
            e[own[i]] = np.iinfo(e.dtype).max
        order = np.lexsort((s, e))[:k]  # Stable: of equals the lower index first.
        D[i], found[i], exponents[i] = s[order], order, e[order]
    return D, found, exponents


def _lost(
    given: tuple[np.ndarray, ...], D: np.ndarray, found: np.ndarray, exponent: int
) -> np.ndarray:
    """Return the queries with a neighbour so near that its square lost terms."""
    row, column = np.nonzero(D < 2.0**LOST)
    L, Q, P = given
    s, e = squares(L, Q[row], P[found[row, column]])
    return np.unique(row[(s > 0) & (e - exponent < LOST)])


def _search(
    L: Float[np.ndarray, "p d"],
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
) -> tuple[Float[np.ndarray, "m k"], Int[np.ndarray, "m k"]]:
    centre = P.mean(0)
    V, Z = (centred_images(L, X, centre) for X in (P, Q))
    slack = rounding(L, centre, (V, Z), (P, Q))
    from sklearn.neighbors import NearestNeighbors  # Not read by whoever only fits.

    search = NearestNeighbors(
        algorithm="kd_tree" if L.shape[0] <= MAX_TREE_DIMENSION else "brute"
    ).fit(V)
    wanted = min(len(P), k + 1 + (own is not None))
    D, found = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, min(tile, 8 * tile**2 // (wanted * (P.shape[1] + 3))))
    for start in range(0, len(Q), step):
        rows = slice(start, min(start + step, len(Q)))
        mine = None if own is None else own[rows]
        far, near = search.kneighbors(Z[rows], wanted)
        exact = squared(L, Q[rows, None, :] - P[near])
        if mine is not None:
            exact[near == mine[:, None]] = np.inf
        order = np.lexsort((near, exact))[:, :k]
        D[rows] = np.take_along_axis(exact, order, 1)
        found[rows] = np.take_along_axis(near, order, 1)
        if wanted == len(P):
            continue
        unsettled = np.flatnonzero(D[rows, -1] >= far[:, -1] ** 2 - slack)  # Eq. (1)
        unsettled = start + unsettled[np.argsort(D[start + unsettled, -1])]
        parts = max(1, -(-len(unsettled) // (1 + tile // 64)))
        for some in np.array_split(unsettled, parts):
            if len(some) == 0:
                continue
            radius = np.sqrt(D[some[-1], -1] + slack)
            within = search.radius_neighbors(Z[some], radius, return_distance=False)
            for i, candidates in zip(some, within, strict=True):
                if own is not None:
                    candidates = candidates[candidates != own[i]]
                exact = squared(L, Q[i] - P[candidates])
                order = np.lexsort((candidates, exact))[:k]
                D[i], found[i] = exact[order], candidates[order]
    return D, found
