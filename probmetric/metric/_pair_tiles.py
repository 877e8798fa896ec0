"""All pairs of the two-stage similarity: GEMMs, streamed, in tiles of bounded memory.

Within a tile the components are taken ``GROUP`` at a time: their products are held
side by side, so that the maximum, the exponentials and their sum are one pass. Between
such groups a running maximum and sum are carried. Work memory is GROUP tiles, whatever
k, m and n, beside k · d numbers a row. ``_pair_density`` Eq. (3) has the algebra.
"""

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float

from probmetric.metric._pair_density import (
    PairModel,
    Regression,
    log_components,
    log_components_missing,
    log_pair_components,
    log_pair_components_missing,
    log_two_sources,
    regression,
)
from probmetric.typing import Array

__all__ = [
    "marginal",
    "matching",
    "pairwise",
    "pairwise_missing",
    "responsibilities",
]

TILE = 512
"""Rows and columns of a tile."""
GROUP = 8
"""Components whose products are held at a time."""


def _prepared(reg: Regression, Q: Any, P: Any) -> tuple[Any, Any]:
    """Return what Eq. (3) needs of rows and of columns: (·, k, d) and (·, k)."""
    F, V = (X[:, None] - reg.means for X in (Q, P))
    F, G, own = (
        jnp.einsum("nkd,ked->nke", X, A)
        for X, A in ((F, reg.T), (V, reg.TH), (V, reg.U))
    )
    of_q = reg.constant - 0.5 * jnp.sum(F**2, -1)
    of_y = -0.5 * (jnp.sum(G**2, -1) + jnp.sum(own**2, -1))
    return (F, of_q), (G, of_y)


def _log_joint(rows: Any, columns: Any, best: Any = None) -> Any:
    """Return log Pr(Q_i, Y_j) (m, n) of a tile, at one exponential a component.

    With ``best`` (n,), only component best[j] counts for element j (hard assignment).
    """
    (F, of_q), (G, of_y) = rows, columns
    k = of_q.shape[1]

    def terms(first: int, n: int) -> list[Any]:
        """Return log Pr(Q_i, Y_j, k), one GEMM each."""
        return [
            F[:, c] @ G[:, c].T + of_q[:, c, None] + of_y[:, c]
            for c in range(first, min(first + n, k))
        ]

    if best is not None:
        hard = enumerate(terms(0, k))
        return reduce(lambda out, t: jnp.where(best == t[0], t[1], out), hard, 0.0)
    if k == 1:
        return terms(0, 1)[0]
    # Not -inf, so that a component of weight zero is not -inf - (-inf).
    top: Any = jnp.finfo(of_q.dtype).min
    total: Any = None
    for first in range(0, k, GROUP):
        new = terms(first, GROUP)
        most = reduce(jnp.maximum, new, top)
        old = () if total is None else (total * jnp.exp(top - most),)
        top, total = most, sum((jnp.exp(t - most) for t in new), *old)
    return top + jnp.log(total)


def _single(model: PairModel, X: Any, other: bool, missing: bool) -> Any:
    one = log_components_missing if missing else log_components
    return jax.vmap(lambda x: one(model, x, other=other))(X)


def _pair(model: PairModel, A: Any, B: Any, missing: bool) -> Any:
    one = log_pair_components_missing if missing else log_pair_components
    return jax.vmap(lambda q, y: one(model, q, y))(A, B)


@partial(jax.jit, static_argnames=("other", "missing"))
def marginal(
    model: PairModel, X: Float[Array, "n d"], *, other: bool, missing: bool
) -> Float[Array, "n"]:
    """Return log Pr(x) of every row."""
    return logsumexp(_single(model, X, other, missing), -1)


@partial(jax.jit, static_argnames="missing")
def responsibilities(
    model: PairModel, X: Float[Array, "n d"], *, missing: bool
) -> Float[Array, "n k"]:
    """Return log P(k | x) of every row."""
    return jax.nn.log_softmax(_single(model, X, False, missing), -1)


@partial(jax.jit, static_argnames=("score", "blocks", "missing"))
def matching(
    model: PairModel,
    score: str,
    blocks: tuple[int, ...],
    A: Float[Array, "n d"],
    B: Float[Array, "n d"],
    *,
    missing: bool,
) -> Float[Array, "n"]:
    """Return the scores of matching rows, by the mean-difference form."""
    pair = _pair(model, A, B, missing)
    joint = logsumexp(pair, -1)
    if score == "joint":
        return joint
    if score == "kernel":
        own = [logsumexp(_pair(model, X, X, missing), -1) for X in (A, B)]
        return joint - (own[0] + own[1]) / 2
    of_y = _single(model, B, True, missing)
    if score == "vq":
        best = jnp.argmax(of_y, -1)[:, None]
        joint = jnp.take_along_axis(pair, best, -1)[:, 0]
    if score in ("conditional", "vq"):
        return joint - logsumexp(of_y, -1)
    of_q = _single(model, A, False, missing)
    return joint - log_two_sources(model.log_weights, of_q, of_y, blocks)


@partial(jax.jit, static_argnames=("score", "blocks", "tile"))
def pairwise(
    model: PairModel,
    score: str,
    blocks: tuple[int, ...],
    Q: Any,
    P: Any,
    seen_q: Any = None,
    seen_y: Any = None,
    *,
    tile: int = TILE,
) -> Any:
    """Return minus all scores; masks say what is seen in *every* row of Q and P."""
    reg = regression(model, seen_q, seen_y)

    def terms(X: Any, seen: Any, other: bool) -> Any:
        rows = X if seen is None else jnp.where(seen, X, jnp.nan)
        return _single(model, rows, other, seen is not None)

    of_y = terms(P, seen_y, True)
    if score == "log_ratio":
        of_q: Any = terms(Q, seen_q, False)
    elif score == "kernel":
        of_q, of_y = _half_self(model, Q, seen_q), _half_self(model, P, seen_y)
    else:
        of_q = jnp.zeros(len(Q), Q.dtype)
    best = jnp.argmax(of_y, -1) if score == "vq" else jnp.zeros(len(P), int)

    rows, columns = _prepared(reg, Q, P)

    def one(block: Any) -> Any:
        (rows, of_q), (columns, of_y, best) = block
        joint = _log_joint(rows, columns, best if score == "vq" else None)
        match score:
            case "joint":
                return -joint
            case "kernel":
                return of_q[:, None] + of_y - joint
            case "conditional" | "vq":
                return logsumexp(of_y, -1) - joint
            case _:
                apart = of_q[:, None], of_y, blocks
                return log_two_sources(model.log_weights, *apart) - joint

    return _tiled(one, (rows, of_q), (columns, of_y, best), tile)


def _half_self(model: PairModel, X: Any, seen: Any) -> Any:
    """Return ½ log Pr(x, x) of every row, x twice from one source."""
    rows = X if seen is None else jnp.where(seen, X, jnp.nan)
    return logsumexp(_pair(model, rows, rows, seen is not None), -1) / 2


def _tiled(function: Any, rows: Any, columns: Any, tile: int) -> Any:
    """Apply ``function((rows, columns))`` tile by tile, each written in its place.

    The last tile of a strip reaches back over the one before it, so that all are of
    one size and nothing is padded.
    """
    m, n = (len(jax.tree.leaves(tree)[0]) for tree in (rows, columns))
    a, b = (max(-(-size // tile), 1) for size in (m, n))
    s, t = -(-m // a), -(-n // b)

    def cut(tree: Any, start: Any, size: int) -> Any:
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, start, size), tree
        )

    def block(at: Any) -> Any:
        return function((cut(rows, at // b * s, s), cut(columns, at % b * t, t)))

    def put(at: Any, out: Any) -> Any:
        where = at // b * s, at % b * t  # clamped at the ends as slices are
        return jax.lax.dynamic_update_slice(out, block(at), where)

    dtype = jax.eval_shape(block, 0).dtype
    return jax.lax.fori_loop(0, a * b, put, jnp.zeros((m, n), dtype))


def pairwise_missing(
    model: PairModel, score: str, blocks: tuple[int, ...], Q: Any, P: Any
) -> Any:
    """Evaluate block by block of equal missingness, on the host."""
    out = np.empty((len(Q), len(P)), Q.dtype)
    groups = [np.unique(~np.isnan(X), axis=0, return_inverse=True) for X in (Q, P)]
    for a, seen_q in enumerate(groups[0][0]):
        rows = np.flatnonzero(groups[0][1] == a)
        for b, seen_y in enumerate(groups[1][0]):
            columns = np.flatnonzero(groups[1][1] == b)
            block = pairwise(
                model,
                score,
                blocks,
                jnp.where(seen_q, Q[rows], 0.0),
                jnp.where(seen_y, P[columns], 0.0),
                jnp.asarray(seen_q),
                jnp.asarray(seen_y),
            )
            out[np.ix_(rows, columns)] = np.asarray(block)
    return jnp.asarray(out)
