"""Two-stage similarity of all pairs: matrix products, in tiles of bounded memory.

In each tile, the products of ``GROUP`` components (Eq. (3) of ``densities.pair``) are
computed together, and their exponentials are summed in one pass. For any k, m and n,
the working memory is GROUP tiles and k · d numbers per row.
"""

from collections.abc import Callable
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Bool, Float

from probmetric.densities.pair import (
    PairModel,
    Regression,
    log_components,
    log_pair_components,
    log_two_sources,
    regression,
)
from probmetric.typing import Array

TILE = 512
"""Rows and columns of a tile."""
GROUP = 8
"""Components whose products are in memory at a time."""


def _factors(
    reg: Regression, Q: Array, P: Array, log_q: Array, log_y: Array
) -> tuple[Array, Array]:
    """Return factors (k, ·, d + 2) whose products are log densities.

    See Eq. (3) of ``densities.pair``. ``log_q`` and ``log_y`` are subtracted.
    """
    F, V = (X - reg.means[:, None] for X in (Q, P))
    F, G, white = (
        jnp.einsum("knd,ked->kne", X, A)
        for X, A in ((F, reg.T), (V, reg.TH), (V, reg.U))
    )
    row = reg.constant[:, None] - log_q - 0.5 * jnp.sum(F**2, -1)
    column = -log_y - 0.5 * (jnp.sum(G**2, -1) + jnp.sum(white**2, -1))
    ones_q, ones_y = jnp.ones_like(row), jnp.ones_like(column)
    wider = jnp.stack([row, ones_q], -1), jnp.stack([ones_y, column], -1)
    return jnp.concatenate([F, wider[0]], -1), jnp.concatenate([G, wider[1]], -1)


def _log_sum(F: Array, G: Array, best: Array | None = None) -> Array:
    """Return log Σ_k exp(F_ki · G_kj) (m, n) of a tile.

    The maximum is subtracted only if a sum in the tile overflows or may underflow. With
    ``best`` (n,), column j uses only the term of component best[j].
    """
    k = len(F)
    if best is not None:
        out = jnp.zeros((F.shape[1], G.shape[1]), F.dtype)
        for c, term in enumerate(_terms(F, G, 0, k)):
            out = jnp.where(best == c, term, out)
        return out
    if k == 1:
        return _terms(F, G, 0, 1)[0]
    total = jnp.zeros((), F.dtype)
    for first in range(0, k, GROUP):
        group = sum(jnp.exp(t) for t in _terms(F, G, first, GROUP))
        # Without the barrier XLA would keep the products of all groups in memory.
        total = jax.lax.optimization_barrier(total + group)
    limits = jnp.finfo(F.dtype)
    sound = jnp.all((total > limits.tiny / limits.eps) & (total < jnp.inf))
    return jax.lax.cond(sound, lambda: jnp.log(total), lambda: _shifted(F, G))


def _terms(F: Array, G: Array, first: int, n: int) -> list[Array]:
    return [F[c] @ G[c].T for c in range(first, min(first + n, len(F)))]


def _shifted(F: Array, G: Array) -> Array:
    """Return the log sum, computed after subtracting the largest term."""
    # Not -inf: a component of weight zero would give -inf - (-inf).
    top = jnp.asarray(jnp.finfo(F.dtype).min)
    total = jnp.zeros((), F.dtype)
    for first in range(0, len(F), GROUP):
        terms = _terms(F, G, first, GROUP)
        largest = reduce(jnp.maximum, terms, top)
        rescaled = total * jnp.exp(top - largest)
        total = sum((jnp.exp(t - largest) for t in terms), rescaled)
        top = largest
    return top + jnp.log(total)


@partial(jax.jit, static_argnames=("other", "missing"))
def marginal(
    model: PairModel, X: Float[Array, "n d"], *, other: bool, missing: bool
) -> Float[Array, "n"]:
    """Return log Pr(x) of every row."""
    return logsumexp(log_components(model, X, other=other, missing=missing), -1)


@partial(jax.jit, static_argnames="missing")
def responsibilities(
    model: PairModel, X: Float[Array, "n d"], *, missing: bool
) -> Float[Array, "n k"]:
    """Return log P(k | x) of every row."""
    return jax.nn.log_softmax(
        log_components(model, X, other=False, missing=missing), -1
    )


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
    """Return the scores of matching rows, computed from differences."""
    pair = log_pair_components(model, A, B, missing=missing)
    joint = logsumexp(pair, -1)
    if score == "joint":
        return joint
    if score == "kernel":
        return joint - (_log_self(model, A, missing) + _log_self(model, B, missing)) / 2
    terms_y = log_components(model, B, other=True, missing=missing)
    if score == "vq":
        best = jnp.argmax(terms_y, -1)[:, None]
        joint = jnp.take_along_axis(pair, best, -1)[:, 0]
    if score in ("conditional", "vq"):
        return joint - logsumexp(terms_y, -1)
    terms_q = log_components(model, A, other=False, missing=missing)
    return joint - log_two_sources(model.log_weights, terms_q, terms_y, blocks)


type _Rows = tuple[Array, Array | None]
type _Columns = tuple[Array, Array | None, Array | None]


@partial(jax.jit, static_argnames=("score", "blocks", "tile"))
def pairwise(
    model: PairModel,
    score: str,
    blocks: tuple[int, ...],
    Q: Float[Array, "m d"],
    P: Float[Array, "n d"],
    mask_q: Bool[Array, "d"] | None = None,
    mask_y: Bool[Array, "d"] | None = None,
    *,
    tile: int = TILE,
) -> Float[Array, "m n"]:
    """Return minus the scores of all pairs; masks mark observed features."""
    reg = regression(model, mask_q, mask_y)

    def terms(X: Array, mask: Array | None, other: bool) -> Array:
        rows = X if mask is None else jnp.where(mask, X, jnp.nan)
        return log_components(model, rows, other=other, missing=mask is not None)

    log_q, log_y = jnp.zeros(len(Q), Q.dtype), jnp.zeros(len(P), Q.dtype)
    best = blend_q = blend_y = None
    if score == "kernel":
        log_q, log_y = _half_self(model, Q, mask_q), _half_self(model, P, mask_y)
    elif score != "joint":
        terms_y = terms(P, mask_y, True)
        terms_q = terms(Q, mask_q, False) if score == "log_ratio" else None
        best = jnp.argmax(terms_y, -1, keepdims=True) if score == "vq" else None
        if terms_q is not None and len(blocks) > 1:
            blend_q, blend_y = terms_q, terms_y
        else:
            log_y = logsumexp(terms_y, -1)
            log_q = log_q if terms_q is None else logsumexp(terms_q, -1)
    F, G = _factors(reg, Q, P, log_q, log_y)

    def negative_score(rows: _Rows, columns: _Columns) -> Array:
        (F, blend_q), (G, blend_y, best) = rows, columns
        score = _log_sum(F, G, None if best is None else best[:, 0])
        if blend_q is None or blend_y is None:
            return -score
        apart = log_two_sources(model.log_weights, blend_q[:, None], blend_y, blocks)
        return apart - score

    return _tiled(negative_score, (F, blend_q), (G, blend_y, best), tile)


def _log_self(model: PairModel, X: Array, missing: bool) -> Array:
    """Return log Pr(x, x) of every row: two observations x of one source."""
    return logsumexp(log_pair_components(model, X, X, missing=missing), -1)


def _half_self(model: PairModel, X: Array, mask: Array | None) -> Array:
    rows = X if mask is None else jnp.where(mask, X, jnp.nan)
    return _log_self(model, rows, mask is not None) / 2


def _tiled[R, C](
    function: Callable[[R, C], Array], rows: R, columns: C, tile: int
) -> Array:
    """Apply ``function(rows, columns)`` tile by tile.

    All tiles have the same size, so the last tile overlaps the tile before it.
    """
    m, n = (jax.tree.leaves(tree)[0].shape[-2] for tree in (rows, columns))
    a, b = (max(-(-size // tile), 1) for size in (m, n))
    s, t = -(-m // a), -(-n // b)

    def cut[T](tree: T, start: Array | int, size: int) -> T:
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, start, size, -2), tree
        )

    def block(index: Array | int) -> Array:
        return function(cut(rows, index // b * s, s), cut(columns, index % b * t, t))

    def put(index: Array, out: Array) -> Array:
        start = (index // b * s, index % b * t)  # JAX clamps it as for slices.
        return jax.lax.dynamic_update_slice(out, block(index), start)

    dtype = jax.eval_shape(block, 0).dtype
    return jax.lax.fori_loop(0, a * b, put, jnp.zeros((m, n), dtype))


def pairwise_missing(
    model: PairModel,
    score: str,
    blocks: tuple[int, ...],
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
) -> Float[Array, "m n"]:
    """Return ``pairwise`` scores in blocks of rows with the same missing features."""
    out = np.empty((len(Q), len(P)), Q.dtype)
    masks_q, code_q = np.unique(~np.isnan(Q), axis=0, return_inverse=True)
    masks_y, code_y = np.unique(~np.isnan(P), axis=0, return_inverse=True)
    for a, mask_q in enumerate(masks_q):
        rows = np.flatnonzero(code_q == a)
        for b, mask_y in enumerate(masks_y):
            columns = np.flatnonzero(code_y == b)
            block = pairwise(
                model,
                score,
                blocks,
                jnp.where(mask_q, Q[rows], 0.0),
                jnp.where(mask_y, P[columns], 0.0),
                jnp.asarray(mask_q),
                jnp.asarray(mask_y),
            )
            out[np.ix_(rows, columns)] = np.asarray(block)
    return jnp.asarray(out)
