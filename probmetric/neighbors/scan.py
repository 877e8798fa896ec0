"""Nearest neighbours under any metric: tiles of ``pairwise``, keeping the k best.

A kind whose ``pairwise`` rounds coarsely (a GEMM form) may offer
``refine(Q, P, candidates) -> (m, k')`` in difference form: a shortlist by ``pairwise``
is then re-ranked by it, and doubled until the k-th refined value lies below the last
of the shortlist by more than eight times the largest discrepancy seen between the two.
JAX traces it as it traces ``pairwise``; as P it gets candidates of a tile alone, and of
each query as many at a time as make ``REFINED`` numbers.

What depends on the queries alone (the matrices of a local metric) is computed once for
each tile of queries, and serves the scan, every deepening of it, and ``refine``.

The k best of each row (``keep_best``; host, NumPy). After some tiles few entries of the
next one beat the k-th best so far (about k/s of them after s tiles), so a tile costs
one comparison for each entry and a sort of the few that pass: ``jax.lax.top_k`` on a
CPU in float64 sorts everything, at several times the cost of the matrix product that
made the tile. Order is by (value, column). Tiles must come in ascending order of
columns: what was kept then has the lower columns, and stable sorts do the rest. NaN
means "no entry": it is never kept, and fills rows that have seen fewer than k entries.

Memory in numbers of 8 bytes, for tiles of t queries and t points: 9 t² beside what
``pairwise`` itself needs for t² pairs (where k > t / 2 points are taken by k' and fewer
queries at a time); 9 k' where that is more. Of the 9, two are a tile and the one being
computed meanwhile, 4 the worst case of ``keep_best``, the rest the shortlists and what
``ready`` hands over: for a local metric t (D² + f) numbers more, f = D(D+1)/2 + D.
Shapes are padded to few sizes (``bucket``), so that other numbers of points seldom
compile again.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from probmetric.compilation import COMPILED_SOON
from probmetric.data.padding import pad_rows
from probmetric.linalg import one_blas_thread
from probmetric.metric import Dissimilarity
from probmetric.metric.protocol import Prepared
from probmetric.typing import Array

HIDDEN = np.iinfo(np.int32).max
"""The index that stands for "not a point": padding, or the query itself."""

REFINED = 9 << 14
"""Numbers of the candidates that ``refine`` is given at a time (one a query at least).

1.2 MB, of which a mixture of k components makes 4.2 k times as much: 40 MB for k = 8.
Just over 8192 points of 16 features: XLA rounds smaller programs otherwise.
"""

type Prepare = Callable[[Any, np.ndarray], Any]
"""Of a metric and a tile of queries what these share: ``ready_alone``, or alike."""

type Kept = tuple[Float[np.ndarray, "q k"], Int[np.ndarray, "q k"]]


def empty(q: int, k: int) -> Kept:
    """Return what is kept before the first tile."""
    return np.full((q, k), np.nan), np.full((q, k), HIDDEN)


def keep_best(kept: Kept, D: Float[np.ndarray, "q p"], first: int) -> Kept:
    """Return the k best of what was kept and a tile whose first column is ``first``.

    Memory: an eighth of a number an entry, and 4 (k + c) a row where c entries of some
    row pass; at worst (every entry below all before it) 4 q (k + p).
    """
    k, p = kept[0].shape[1], D.shape[1]
    if p > 4 * k and np.isnan(kept[0][:, -1]).any():
        # Nothing to compare with yet: a quarter of the tile sets the mark for the rest.
        kept = keep_best(kept, D[:, : p // 4], first)
        return _compared(kept, D[:, p // 4 :], first + p // 4)
    return _compared(kept, D, first)


def _compared(kept: Kept, D: Float[np.ndarray, "q p"], first: int) -> Kept:
    """Merge the entries below the k-th best so far into those kept, in order."""
    near, index = kept
    (q, k), p = near.shape, D.shape[1]
    # An equal value of a higher column does not enter: strictly below the k-th.
    limit = np.nextafter(near[:, -1], -np.inf)
    limit[np.isnan(limit)] = np.inf
    row, column = np.divmod(np.flatnonzero(D <= limit[:, None]), p)
    if len(row) == 0:
        return kept
    passed = np.bincount(row, minlength=q)
    slot = k + np.arange(len(row)) - np.repeat(np.cumsum(passed) - passed, passed)
    values = np.full((q, k + passed.max()), np.nan)
    columns = np.full(values.shape, HIDDEN)
    values[:, :k], columns[:, :k] = near, index
    values[row, slot], columns[row, slot] = D[row, column], first + column
    order = np.argsort(values, 1, kind="stable")[:, :k]  # NaN comes last.
    return np.take_along_axis(values, order, 1), np.take_along_axis(columns, order, 1)


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


def ready(metric: Any, Q: Array) -> Any:
    """Return what all distances from the rows of Q share, or None."""
    return metric.prepare(Q) if isinstance(metric, Prepared) else None


def distances(metric: Any, Q: Array, shared: Any, P: Array) -> Array:
    """Return pairwise(Q, P), given ``shared = ready(metric, Q)``."""
    if isinstance(metric, Prepared):
        return metric.from_prepared(shared, P)
    return metric.pairwise(Q, P)


@jax.jit
def tile_of(
    metric: Any,
    Q: Float[Array, "q d"],
    shared: Any,
    P: Float[Array, "p d"],
    n: Int[Array, ""] | int,
    own: Int[Array, "q"],
) -> tuple[Float[Array, "q p"], Bool[Array, ""]]:
    """Return a tile, NaN where a point is hidden, and whether the metric gave a NaN."""
    D = distances(metric, Q, shared, P)
    column = jnp.arange(len(P))
    hidden = (column >= n) | (column == own[:, None])
    return jnp.where(hidden, jnp.nan, D), jnp.any(jnp.isnan(D) & ~hidden)


_ready = jax.jit(ready, compiler_options=COMPILED_SOON)


def ready_alone(metric: Any, Q: Float[np.ndarray, "q d"]) -> Any:
    """Compute ``ready`` with one BLAS thread for each of XLA's.

    XLA decomposes a batch of small matrices in parallel by LAPACK calls; an OpenBLAS
    that starts threads of its own inside each made 1024 eigenproblems of size 32 take
    2 to 100 times longer. XLA's own products do not use that library.
    """
    with jax.enable_x64(True), one_blas_thread():
        if hasattr(metric, "prepare_alone"):
            return metric.prepare_alone(Q)
        return jax.block_until_ready(_ready(metric, Q))


class Latest:
    """``ready_alone`` that keeps its latest answer, for a tile that is met again."""

    def __init__(self) -> None:
        self._asked: tuple[Any, np.ndarray] | None = None
        self._answer: Any = None

    def __call__(self, metric: Any, Q: Float[np.ndarray, "q d"]) -> Any:
        """Return ``ready_alone(metric, Q)``, computed unless it was the last asked."""
        last = self._asked
        if last is None or last[0] is not metric or not np.array_equal(last[1], Q):
            self._asked = self._answer = None  # It keeps one.
            self._answer = ready_alone(metric, Q)
            self._asked = metric, Q
        return self._answer


def nearest_scanned(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    k: int,
    own: Int[np.ndarray, "m"] | None,
    tile: int,
    prepare: Prepare = ready_alone,
) -> Nearest:
    """Find neighbours by tiles; arguments as `found_but_own`, checked there."""
    limit = len(P) - (own is not None)
    own = np.full(len(Q), HIDDEN) if own is None else own
    D, found = np.empty((len(Q), k)), np.empty((len(Q), k), np.intp)
    step = max(1, tile**2 // max(tile, 2 * k + 8))
    for start in range(0, len(Q), step):
        rows = slice(start, min(start + step, len(Q)))
        mine = in_tiles(Q[rows], bucket(rows.stop - start, step))[0]
        shared = prepare(metric, mine)
        refines = hasattr(metric, "refine")
        shortlist = min(limit, 2 * k + 8) if refines else k
        while True:
            near, index = _scan(metric, mine, shared, P, own[rows], shortlist, tile)
            if not refines:
                break
            near, index, _, certain = settle(
                metric, mine, P, near, index, index, shared, k
            )
            if certain or shortlist == limit:
                break
            shortlist = min(limit, 2 * shortlist)
        D[rows], found[rows] = near, index
    return D, found


def settle(
    metric: Any,
    Q: Float[np.ndarray, "p d"],
    P: Float[np.ndarray, "n d"],
    near: Float[np.ndarray, "q s"],
    index: Int[np.ndarray, "q s"],
    place: Int[np.ndarray, "q s"],
    shared: Any,
    k: int,
) -> tuple[
    Float[np.ndarray, "q k"], Int[np.ndarray, "q k"], Int[np.ndarray, "q k"], bool
]:
    """Re-rank a shortlist by ``refine``; say whether no point outside it can be nearer.

    Parameters
    ----------
    near, index
        The shortlist by ``pairwise``, in order, and the numbers that break ties.
    place
        Where its points stand in P.

    Returns
    -------
    near, index, place
        Of the k best.
    certain : bool
    """
    exact = _refined(metric, Q, P, place, shared)
    refuse_nan(np.isnan(exact).any(), Q, P)
    order = np.lexsort((index, exact))
    off = np.zeros_like(exact)  # Equal infinities are no discrepancy.
    np.subtract(exact, near, out=off, where=exact != near)
    discrepancy = np.abs(off).max(1)
    last = near[:, -1]
    near, index, place = (
        np.take_along_axis(a, order, 1)[:, :k] for a in (exact, index, place)
    )
    return near, index, place, bool((near[:, -1] < last - 8 * discrepancy).all())


def _refined(
    metric: Any,
    Q: Float[np.ndarray, "p d"],
    P: Float[np.ndarray, "n d"],
    index: Int[np.ndarray, "q k"],
    shared: Any,
) -> Float[np.ndarray, "q k"]:
    """Call ``refine`` at padded shapes, some columns of candidates at a time.

    By columns and not by rows: what the queries share then serves every block as it
    is, whatever a metric keeps in it. The last block reaches back over the one before.
    """
    index, q = pad_rows(index, len(Q)), len(index)
    k = index.shape[1]
    wide = min(k, max(1, REFINED // Q.size))
    exact = np.empty(index.shape)
    candidates = np.arange(len(Q) * wide).reshape(len(Q), wide)
    for start in range(0, k, wide):
        start = min(start, k - wide)
        some = slice(start, start + wide)
        points = P[index[:, some].ravel()]
        with jax.enable_x64(True):
            exact[:, some] = _refine(metric, Q, points, candidates, shared)
    return exact[:q]


@jax.jit
def _refine(metric: Any, Q: Array, P: Array, index: Array, shared: Any) -> Array:
    prepared = {} if shared is None else {"prepared": shared}
    return metric.refine(Q, P, index, **prepared)


def _scan(
    metric: Any,
    Q: Float[np.ndarray, "p d"],
    shared: Any,
    P: Float[np.ndarray, "n d"],
    own: Int[np.ndarray, "q"],
    k: int,
    tile: int,
) -> Nearest:
    """Scan all points for one tile of queries, padded to shapes that jit has seen."""
    n_tiles, side = bucket(len(P), max(tile, k))
    mine = np.concatenate([own, np.full(len(Q) - len(own), HIDDEN)])
    kept = empty(len(own), k)

    def start_tile(first: int) -> Any:
        points = in_tiles(P[first : first + side], (1, side))[0]
        return tile_of(metric, Q, shared, points, len(P) - first, mine - first)

    with jax.enable_x64(True):
        ahead = start_tile(0)
        for first in range(0, n_tiles * side, side):
            D, bad = ahead
            if first + side < n_tiles * side:
                ahead = start_tile(first + side)  # Runs while this one is sorted in.
            refuse_nan(bad, Q, P)
            kept = keep_best(kept, np.asarray(D)[: len(own)], first)
    return kept


def refuse_nan(
    bad: bool | np.bool_ | Bool[Array, ""],
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
) -> None:
    """Raise where a metric gave a NaN, which has no place in an order."""
    if bad:
        size = max(np.abs(Q).max(), np.abs(P).max())
        raise ValueError(
            "metric: expected a dissimilarity for every query and point, got NaN "
            f"(largest entry {size:.3g}); rescale the points or the metric"
        )
