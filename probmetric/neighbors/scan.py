"""Exact nearest neighbors under any metric, by tiles of ``pairwise``.

If ``pairwise`` of a metric has large rounding errors (from a matrix product), the
metric may have a method ``refine(Q, P, candidates) -> (m, k')`` that computes the
dissimilarities from differences. ``pairwise`` then selects a shortlist, and ``refine``
ranks the shortlist. The shortlist is doubled until no other point can be nearer. This
is so if the k-th refined value is below the last ``pairwise`` value of the shortlist by
more than eight times the largest difference of refined and ``pairwise`` values. P
contains only the candidates of a tile, in batches of ``REFINED`` numbers.

Quantities that depend only on the queries (the matrices of a local metric) are computed
once per tile of queries, for the scan, longer shortlists, and ``refine``.

``keep_best`` merges a tile into the k best entries of each row on the host. After s
tiles, only about k/s entries per row of the next tile are among the k best. A tile
therefore costs one comparison per entry, and a sort of few entries. (On a CPU in
float64, ``jax.lax.top_k`` sorts all entries, which takes several times as long as the
matrix product.) Entries are ordered by (value, column), and tiles must come in
ascending order of columns. NaN means "no entry".

Memory in numbers of 8 bytes, for tiles of t queries and t points: 9 t² (or 9 k' if
larger) besides the memory of ``pairwise`` for t² pairs. If k > t / 2, tiles have k'
points and fewer queries. A local metric needs t (D² + f) more numbers, with
f = D(D+1)/2 + D. Shapes are padded to few sizes (``bucket``) to avoid compilation.

Shortlists of ``nearest``. A local metric has a different matrix at every query, near
its base metric FᵀF (F is ``frame``). A user's shortlist contains the m nearest points
under FᵀF. ``refine`` of the local metric ranks these points. The result is *not* exact,
because a point that is near under the query's matrix may be far under FᵀF. Memory in
numbers of 8 bytes: 2 m per query, 8 t² for ``nearest_linear``, and 2 t m' d for
t m' ≤ t² candidates at a time.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from probmetric.arguments import check_counts
from probmetric.compilation import COMPILED_SOON
from probmetric.data.padding import pad_rows
from probmetric.linalg import one_blas_thread
from probmetric.metric import Dissimilarity, LocalMahalanobis, Mahalanobis
from probmetric.metric.protocol import Prepared
from probmetric.neighbors.linear import Nearest, k_best, nearest_linear
from probmetric.progress import progress_bar
from probmetric.typing import Array

HIDDEN = np.iinfo(np.int32).max
"""Index of padding and of excluded points."""

REFINED = 9 << 14
"""Size of the array of candidates for ``refine`` (at least one candidate per query).

The array has 1.2 MB. A mixture of k components needs 4.2 k times as much. The size is
just over 8192 points of 16 features, because XLA rounds smaller programs differently.
"""

type Prepare = Callable[[Dissimilarity, np.ndarray], object]
"""Function such as ``ready_alone``, which computes the shared terms of queries."""


@runtime_checkable
class Refining(Protocol):
    """A metric that can recompute dissimilarities of candidates from differences."""

    def refine(self, Q: Array, P: Array, idx: Array, **prepared: object) -> Array:
        """Compute the dissimilarities (m, k') from queries to ``P[idx]``."""
        ...


def empty(q: int, k: int) -> Nearest:
    """Create the state of ``keep_best`` before the first tile."""
    return np.full((q, k), np.nan), np.full((q, k), HIDDEN)


def keep_best(best: Nearest, D: Float[np.ndarray, "q p"], first: int) -> Nearest:
    """Merge a tile, whose first column is ``first``, into the k best so far.

    Memory in numbers of 8 bytes: 1/8 per entry, and 4 (k + c) per row if c entries of
    some row are below its k-th best entry. The worst case is 4 q (k + p).
    """
    k, p = best[0].shape[1], D.shape[1]
    if p > 4 * k and np.isnan(best[0][:, -1]).any():
        # There is no k-th best yet: a quarter of the tile gives one for the rest.
        best = keep_best(best, D[:, : p // 4], first)
        return _merged(best, D[:, p // 4 :], first + p // 4)
    return _merged(best, D, first)


def _merged(best: Nearest, D: Float[np.ndarray, "q p"], first: int) -> Nearest:
    near, index = best
    (q, k), p = near.shape, D.shape[1]
    # An equal value of a higher column does not enter: strictly below the k-th.
    limit = np.nextafter(near[:, -1], -np.inf)
    limit[np.isnan(limit)] = np.inf
    row, column = np.divmod(np.flatnonzero(D <= limit[:, None]), p)
    if len(row) == 0:
        return best
    passed = np.bincount(row, minlength=q)
    slot = k + np.arange(len(row)) - np.repeat(np.cumsum(passed) - passed, passed)
    values = np.full((q, k + passed.max()), np.nan)
    columns = np.full(values.shape, HIDDEN)
    values[:, :k], columns[:, :k] = near, index
    values[row, slot], columns[row, slot] = D[row, column], first + column
    order = np.argsort(values, 1, kind="stable")[:, :k]  # NaN comes last.
    return np.take_along_axis(values, order, 1), np.take_along_axis(columns, order, 1)


def bucket(n: int, tile: int) -> tuple[int, int]:
    """Compute a number of tiles and of rows per tile, from few possible shapes."""
    side = min(tile, 1 << max(5, (n - 1).bit_length()))
    return -(-n // side), side


def in_tiles(
    X: Shaped[np.ndarray, "n *d"], shape: tuple[int, int]
) -> Shaped[np.ndarray, "t p *d"]:
    """Split rows into tiles, and repeat the last row to fill the last tile."""
    fill = np.repeat(X[-1:], shape[0] * shape[1] - len(X), 0)
    return np.concatenate([X, fill]).reshape(shape + X.shape[1:])


def ready(metric: Dissimilarity, Q: Array) -> Any:
    """Compute the terms that depend only on the queries Q, or None."""
    return metric.prepare(Q) if isinstance(metric, Prepared) else None


def distances(metric: Dissimilarity, Q: Array, shared: object, P: Array) -> Array:
    """Compute pairwise(Q, P), given ``shared = ready(metric, Q)``."""
    if isinstance(metric, Prepared):
        return metric.from_prepared(shared, P)
    return metric.pairwise(Q, P)


@jax.jit
def tile_of(
    metric: Dissimilarity,
    Q: Float[Array, "q d"],
    shared: object,
    P: Float[Array, "p d"],
    n: Int[Array, ""] | int,
    excluded: Int[Array, "q"],
) -> tuple[Float[Array, "q p"], Bool[Array, ""]]:
    """Compute a tile (NaN for hidden points), and whether the metric returned NaN."""
    D = distances(metric, Q, shared, P)
    column = jnp.arange(len(P))
    hidden = (column >= n) | (column == excluded[:, None])
    return jnp.where(hidden, jnp.nan, D), jnp.any(jnp.isnan(D) & ~hidden)


_ready = jax.jit(ready, compiler_options=COMPILED_SOON)


def ready_alone(metric: Dissimilarity, Q: Float[np.ndarray, "q d"]) -> Any:
    """Compute ``ready`` with one BLAS thread per XLA thread, to save time."""
    with jax.enable_x64(True), one_blas_thread():
        if hasattr(metric, "prepare_alone"):
            return metric.prepare_alone(Q)  # pyright: ignore[reportAttributeAccessIssue]
        return jax.block_until_ready(_ready(metric, Q))


class Latest:
    """``ready_alone`` with a cache for the last result."""

    def __init__(self) -> None:
        self._arguments: tuple[Dissimilarity, np.ndarray] | None = None
        self._result: object = None

    def __call__(self, metric: Dissimilarity, Q: Float[np.ndarray, "q d"]) -> object:
        """Compute ``ready_alone(metric, Q)`` unless it is the cached result."""
        last = self._arguments
        if last is None or last[0] is not metric or not np.array_equal(last[1], Q):
            self._arguments = self._result = None  # Free the memory first.
            self._result = ready_alone(metric, Q)
            self._arguments = metric, Q
        return self._result


def nearest_scanned(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    excluded: Int[np.ndarray, "m"] | None,
    tile: int,
    prepare: Prepare = ready_alone,
) -> Nearest:
    """Find exact neighbors tile by tile, without checking arguments."""
    limit = len(P) - (excluded is not None)
    excluded = np.full(len(Q), HIDDEN) if excluded is None else excluded
    D, neighbors = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, tile**2 // max(tile, 2 * k + 8))
    for start in progress_bar(range(0, len(Q), step), "neighbors", None, "block"):
        rows = slice(start, min(start + step, len(Q)))
        queries = in_tiles(Q[rows], bucket(rows.stop - start, step))[0]
        shared = prepare(metric, queries)
        refines = isinstance(metric, Refining)
        shortlist = min(limit, 2 * k + 8) if refines else k
        while True:
            near, index = _scan(
                metric, queries, shared, P, excluded[rows], shortlist, tile
            )
            if not refines:
                break
            near, index, _, certain = settle(
                metric, queries, P, near, index, index, shared, k
            )
            if certain or shortlist == limit:
                break
            shortlist = min(limit, 2 * shortlist)
        D[rows], neighbors[rows] = near, index
    return D, neighbors


def nearest_shortlisted(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    excluded: Int[np.ndarray, "m"] | None,
    tile: int,
    shortlist: int,
) -> Nearest:
    """Find k neighbors among the m (``shortlist``) nearest points under FᵀF."""
    if not isinstance(metric, LocalMahalanobis):
        raise ValueError(
            "shortlist must be None unless metric is a LocalMahalanobis, got "
            f"{shortlist} with {type(metric).__name__}. Omit it."
        )
    (shortlist,) = check_counts(shortlist=shortlist)
    limit = len(P) - (excluded is not None)
    if not k <= shortlist <= limit:
        raise ValueError(
            f"shortlist must be from k = {k} to {limit} for {len(P)} points, got "
            f"{shortlist}"
        )
    base = Mahalanobis(np.asarray(metric.frame, np.float64))
    candidates = nearest_linear(base, Q, P, shortlist, excluded, tile)[1]
    D, index = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, tile**2 // max(tile, shortlist))
    for start in range(0, len(Q), step):
        rows = slice(start, start + step)
        exact = np.asarray(metric.refine(Q[rows], P, candidates[rows]))
        refuse_nan(np.isnan(exact).any(), Q, P)
        D[rows], index[rows] = k_best(k, exact, candidates[rows])
    return D, index


def settle(
    metric: Refining,
    Q: Float[np.ndarray, "p d"],
    P: Float[np.ndarray, "n d"],
    near: Float[np.ndarray, "q s"],
    index: Int[np.ndarray, "q s"],
    place: Int[np.ndarray, "q s"],
    shared: object,
    k: int,
) -> tuple[
    Float[np.ndarray, "q k"], Int[np.ndarray, "q k"], Int[np.ndarray, "q k"], bool
]:
    """Rank a shortlist by ``refine``, and check whether other points can be nearer.

    ``near`` and ``index`` are ``pairwise`` values and row numbers of the shortlist, in
    ascending order of the values. ``place`` contains positions in P. Returns the k best
    of each query, and False if a point outside the shortlist can be nearer.
    """
    exact = _refined(metric, Q, P, place, shared)
    refuse_nan(np.isnan(exact).any(), Q, P)
    off = np.zeros_like(exact)  # Equal infinities do not differ.
    np.subtract(exact, near, out=off, where=exact != near)
    discrepancy = np.abs(off).max(1)
    best, index, place = k_best(k, exact, index, place)
    certain = best[:, -1] < near[:, -1] - 8 * discrepancy
    return best, index, place, bool(certain.all())


def _refined(
    metric: Refining,
    Q: Float[np.ndarray, "p d"],
    P: Float[np.ndarray, "n d"],
    index: Int[np.ndarray, "q k"],
    shared: object,
) -> Float[np.ndarray, "q k"]:
    index, q = pad_rows(index, len(Q)), len(index)
    k = index.shape[1]
    wide = min(k, max(1, REFINED // Q.size))
    exact = np.empty(index.shape)
    candidates = np.arange(len(Q) * wide).reshape(len(Q), wide)
    for start in range(0, k, wide):
        start = min(start, k - wide)
        columns = slice(start, start + wide)
        points = P[index[:, columns].ravel()]
        with jax.enable_x64(True):
            exact[:, columns] = _refine(metric, Q, points, candidates, shared)
    return exact[:q]


@jax.jit
def _refine(
    metric: Refining, Q: Array, P: Array, index: Array, shared: object
) -> Array:
    prepared = {} if shared is None else {"prepared": shared}
    return metric.refine(Q, P, index, **prepared)


def _scan(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "p d"],
    shared: object,
    P: Float[np.ndarray, "n d"],
    excluded: Int[np.ndarray, "q"],
    k: int,
    tile: int,
) -> Nearest:
    n_tiles, side = bucket(len(P), max(tile, k))
    padded = np.concatenate([excluded, np.full(len(Q) - len(excluded), HIDDEN)])
    best = empty(len(excluded), k)

    def start_tile(first: int) -> tuple[Array, Array]:
        points = in_tiles(P[first : first + side], (1, side))[0]
        return tile_of(metric, Q, shared, points, len(P) - first, padded - first)

    with jax.enable_x64(True):
        ahead = start_tile(0)
        for first in range(0, n_tiles * side, side):
            D, bad = ahead
            if first + side < n_tiles * side:
                ahead = start_tile(first + side)  # Runs while this one is merged.
            refuse_nan(bad, Q, P)
            best = keep_best(best, np.asarray(D)[: len(excluded)], first)
    return best


def refuse_nan(
    bad: bool | np.bool_ | Bool[Array, ""],
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
) -> None:
    """Raise ValueError if the metric returned NaN, which cannot be ordered."""
    if bad:
        size = max(np.abs(Q).max(), np.abs(P).max())
        raise ValueError(
            "metric must return numbers, got NaN for a query and a point (largest "
            f"entry {size:.3g}). Rescale the points or the metric."
        )
