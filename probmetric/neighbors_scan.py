"""Nearest neighbours under any metric: tiles of ``pairwise``, keeping the k best.

A kind whose ``pairwise`` rounds coarsely (a GEMM form) may offer
``refine(Q, P, candidates) -> (m, k')`` in difference form: a shortlist by ``pairwise``
is then re-ranked by it, and doubled until the k-th refined value lies below the last
of the shortlist by more than eight times the largest discrepancy seen between the two.

Memory in numbers of 8 bytes, for tiles of t queries and t points: 9 t² beside what
``pairwise`` itself needs for t² pairs (where k > t / 2 points are taken by k' and fewer
queries at a time); 9 k' where that is more. Shapes are padded to few sizes
(``bucket``), so that other numbers of points seldom compile anew.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped

from probmetric.metric import Mahalanobis, Metric
from probmetric.typing import Array

__all__ = [
    "HIDDEN",
    "bucket",
    "from_queries",
    "in_tiles",
    "nearest_scanned",
    "refuse_nan",
]

HIDDEN = np.iinfo(np.int32).max
"""The index that stands for "not a point": padding, or the query itself."""

type Nearest = tuple[Float[np.ndarray, "m k"], Int[np.ndarray, "m k"]]


def bucket(n: int, tile: int) -> tuple[int, int]:
    """Return (tiles, rows of a tile) for n rows: few shapes, so that jit is reused."""
    side = min(tile, 1 << max(5, (n - 1).bit_length()))
    return -(-n // side), side


def in_tiles(
    X: Shaped[np.ndarray, "n *d"], shape: tuple[int, int]
) -> Shaped[np.ndarray, "t p *d"]:
    """Cut rows into tiles; the last row is repeated where the last tile is not full."""
    fill = np.repeat(X[-1:], shape[0] * shape[1] - len(X), 0)
    return np.concatenate([X, fill]).reshape(shape + X.shape[1:])


@partial(jax.jit, static_argnames="k")
def _scan(
    metric: Metric,
    Q: Float[Array, "q d"],
    tiles: Float[Array, "t p d"],
    n: Int[Array, ""] | int,
    own: Int[Array, "q"],
    k: int,
) -> tuple[Float[Array, "q k"], Int[Array, "q k"]]:
    """Keep the k best of each query over tiles of points; k ≤ points of a tile."""
    side = tiles.shape[1]
    distances = from_queries(metric, Q)

    def best(D: Array, index: Array) -> tuple[Array, Array]:
        # top_k prefers the earlier of equals, and puts NaN first, where the caller
        # finds it. -0.0 must equal 0.0, and a hidden point lie beyond any other, also
        # beyond those at infinity.
        key = jnp.minimum(jnp.where(D == 0, 0.0, D), jnp.finfo(D.dtype).max)
        _, at = jax.lax.top_k(jnp.where(index == HIDDEN, -jnp.inf, -key), k)
        return jnp.take_along_axis(D, at, 1), jnp.take_along_axis(index, at, 1)

    def scored(t: Array | int, P: Array) -> tuple[Array, Array]:
        index = jnp.broadcast_to(t * side + jnp.arange(side), (len(Q), side))
        hidden = (index >= n) | (index == own[:, None])
        return distances(P), jnp.where(hidden, HIDDEN, index)

    def step(kept: Any, tile: Any) -> Any:
        D, index = scored(*tile)
        return best(jnp.hstack([kept[0], D]), jnp.hstack([kept[1], index])), None

    first = best(*scored(0, tiles[0]))
    rest = (jnp.arange(1, len(tiles)), tiles[1:])
    return jax.lax.scan(step, first, rest)[0]


def from_queries(metric: Any, Q: Array) -> Callable[[Array], Array]:
    """Return P ↦ pairwise(Q, P), with what depends on Q alone computed once."""
    if isinstance(metric, Mahalanobis):
        # Row by row: fused into what uses it, the reduction runs ten times slower.
        Z, L = Q @ metric.factor.T, metric.factor

        def rows(P: Array) -> Array:
            V = P @ L.T
            return jax.lax.map(lambda z: jnp.sum((V - z) ** 2, -1), Z)

        return rows
    if hasattr(metric, "frame_matrix_at"):  # Local metrics: a matrix for each query.
        return partial(metric.pairwise, Q, matrices=metric.frame_matrix_at(Q))
    return partial(metric.pairwise, Q)


def nearest_scanned(
    metric: Metric,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
) -> Nearest:
    """Find neighbours by tiles; arguments as `nearest_but_own`, checked there."""
    refine = getattr(metric, "refine", None)
    limit = len(P) - (own is not None)
    own = np.full(len(Q), HIDDEN) if own is None else own
    D, found = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, tile**2 // max(tile, 2 * k + 8))
    for start in range(0, len(Q), step):
        rows = slice(start, min(start + step, len(Q)))
        shortlist = k if refine is None else min(limit, 2 * k + 8)
        while True:
            near, index = _scan_tile(
                metric, Q[rows], P, own[rows], shortlist, (step, tile)
            )
            if refine is None:
                break
            exact = np.asarray(refine(Q[rows], P, index))
            refuse_nan(exact)
            order = np.lexsort((index, exact))
            index = np.take_along_axis(index, order, 1)[:, :k]
            off = np.zeros_like(exact)  # Equal infinities are no discrepancy.
            np.subtract(exact, near, out=off, where=exact != near)
            discrepancy = np.abs(off).max(1)
            last, near = near[:, -1], np.take_along_axis(exact, order, 1)[:, :k]
            if shortlist == limit or (near[:, -1] < last - 8 * discrepancy).all():
                break
            shortlist = min(limit, 2 * shortlist)
        D[rows], found[rows] = near, index
    return D, found


def _scan_tile(
    metric: Metric,
    Q: Float[np.ndarray, "q d"],
    P: Float[np.ndarray, "n d"],
    own: Int[np.ndarray, "q"],
    k: int,
    tile: tuple[int, int],
) -> Nearest:
    """Scan all points for one tile of queries, padded to shapes that jit has seen."""
    with jax.enable_x64(True):
        near, index = _scan(
            metric,
            in_tiles(Q, bucket(len(Q), tile[0])).reshape(-1, Q.shape[1]),
            in_tiles(P, bucket(len(P), max(tile[1], k))),
            len(P),
            in_tiles(own, bucket(len(Q), tile[0])).reshape(-1),
            k,
        )
        near, index = np.asarray(near)[: len(Q)], np.asarray(index)[: len(Q)]
    refuse_nan(near)
    return near, index


def refuse_nan(D: Float[np.ndarray, "*any"]) -> None:
    """Raise where a metric gave NaN: it has no place in an order."""
    if np.isnan(D).any():
        raise ValueError(
            "metric: wanted a dissimilarity for every query and point, got NaN"
        )
