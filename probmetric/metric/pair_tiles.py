"""All pairs of the two-stage similarity: GEMMs, streamed, in tiles of bounded memory.

Within a tile the components are taken ``GROUP`` at a time: their products are held
side by side, so that the exponentials and their sum are one pass. Work memory is GROUP
tiles, whatever k, m and n, beside k · d numbers a row. The algebra is Eq. (3) of
``densities.pair``.
"""

from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Float

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
"""Components whose products are held at a time."""


def _prepared(reg: Regression, Q: Any, P: Any, of_q: Any, of_y: Any) -> tuple[Any, Any]:
    """Return (k, m, d + 2) and (k, n, d + 2), whose products give log densities.

    They are Eq. (3) of ``densities.pair``, less of_q and of_y. What belongs to a row or
    a column alone goes through the product too: adding it to every entry would cost as
    much as the exponential.
    """
    F, V = (X - reg.means[:, None] for X in (Q, P))
    F, G, own = (
        jnp.einsum("knd,ked->kne", X, A)
        for X, A in ((F, reg.T), (V, reg.TH), (V, reg.U))
    )
    row = reg.constant[:, None] - of_q - 0.5 * jnp.sum(F**2, -1)
    column = -of_y - 0.5 * (jnp.sum(G**2, -1) + jnp.sum(own**2, -1))
    one_q, one_y = jnp.ones_like(row), jnp.ones_like(column)
    wider = jnp.stack([row, one_q], -1), jnp.stack([one_y, column], -1)
    return jnp.concatenate([F, wider[0]], -1), jnp.concatenate([G, wider[1]], -1)


def _log_sum(F: Any, G: Any, best: Any = None) -> Any:
    """Return log Σ_k exp(F_ki · G_kj) (m, n) of a tile, at one exponential a component.

    Exponentials are summed as they come where that is sound in every entry: no sum is
    infinite, or so small that terms were lost. Only other tiles pay for the maximum.
    With ``best`` (n,), only component best[j] counts for element j (hard assignment).
    """
    k = len(F)
    if best is not None:
        hard = enumerate(_terms(F, G, 0, k))
        return reduce(lambda out, t: jnp.where(best == t[0], t[1], out), hard, 0.0)
    if k == 1:
        return _terms(F, G, 0, 1)[0]
    total: Any = 0.0
    for first in range(0, k, GROUP):
        own = sum(jnp.exp(t) for t in _terms(F, G, first, GROUP))
        # The barrier ends a group: XLA would hold the products of all.
        total = jax.lax.optimization_barrier(total + own)
    limits = jnp.finfo(F.dtype)
    sound = jnp.all((total > limits.tiny / limits.eps) & (total < jnp.inf))
    return jax.lax.cond(sound, lambda: jnp.log(total), lambda: _shifted(F, G))


def _terms(F: Any, G: Any, first: int, n: int) -> list[Any]:
    return [F[c] @ G[c].T for c in range(first, min(first + n, len(F)))]


def _shifted(F: Any, G: Any) -> Any:
    """Return the log sum with its largest term taken out."""
    # Not -inf, so that a component of weight zero is not -inf - (-inf).
    top: Any = jnp.finfo(F.dtype).min
    total: Any = None
    for first in range(0, len(F), GROUP):
        new = _terms(F, G, first, GROUP)
        most = reduce(jnp.maximum, new, top)
        old = () if total is None else (total * jnp.exp(top - most),)
        top, total = most, sum((jnp.exp(t - most) for t in new), *old)
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
    """Return the scores of matching rows, by the mean-difference form."""
    pair = log_pair_components(model, A, B, missing=missing)
    joint = logsumexp(pair, -1)
    if score == "joint":
        return joint
    if score == "kernel":
        own = [_log_self(model, X, missing) for X in (A, B)]
        return joint - (own[0] + own[1]) / 2
    of_y = log_components(model, B, other=True, missing=missing)
    if score == "vq":
        best = jnp.argmax(of_y, -1)[:, None]
        joint = jnp.take_along_axis(pair, best, -1)[:, 0]
    if score in ("conditional", "vq"):
        return joint - logsumexp(of_y, -1)
    of_q = log_components(model, A, other=False, missing=missing)
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
        return log_components(model, rows, other=other, missing=seen is not None)

    of_q, of_y = jnp.zeros(len(Q), Q.dtype), jnp.zeros(len(P), Q.dtype)
    best = apart_q = apart_y = None
    if score == "kernel":
        of_q, of_y = _half_self(model, Q, seen_q), _half_self(model, P, seen_y)
    elif score != "joint":
        terms_y = terms(P, seen_y, True)
        terms_q = terms(Q, seen_q, False) if score == "log_ratio" else None
        best = jnp.argmax(terms_y, -1, keepdims=True) if score == "vq" else None
        if terms_q is not None and len(blocks) > 1:
            apart_q, apart_y = terms_q, terms_y
        else:
            of_y = logsumexp(terms_y, -1)
            of_q = of_q if terms_q is None else logsumexp(terms_q, -1)
    F, G = _prepared(reg, Q, P, of_q, of_y)

    def one(block: Any) -> Any:
        (F, apart_q), (G, apart_y, best) = block
        score = _log_sum(F, G, None if best is None else best[:, 0])
        if apart_q is None:
            return -score
        args = apart_q[:, None], apart_y, blocks
        return log_two_sources(model.log_weights, *args) - score

    return _tiled(one, (F, apart_q), (G, apart_y, best), tile)


def _log_self(model: PairModel, X: Any, missing: bool) -> Any:
    """Return log Pr(x, x) of every row, x twice from one source."""
    return logsumexp(log_pair_components(model, X, X, missing=missing), -1)


def _half_self(model: PairModel, X: Any, seen: Any) -> Any:
    """Return ½ log Pr(x, x) of what is seen of every row."""
    rows = X if seen is None else jnp.where(seen, X, jnp.nan)
    return _log_self(model, rows, seen is not None) / 2


def _tiled(function: Any, rows: Any, columns: Any, tile: int) -> Any:
    """Apply ``function((rows, columns))`` tile by tile, each written in its place.

    Arrays are cut along their last axis but one. The last tile of a strip reaches back
    over the one before it, so that all are of one size and nothing is padded.
    """
    m, n = (jax.tree.leaves(tree)[0].shape[-2] for tree in (rows, columns))
    a, b = (max(-(-size // tile), 1) for size in (m, n))
    s, t = -(-m // a), -(-n // b)

    def cut(tree: Any, start: Any, size: int) -> Any:
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, start, size, -2), tree
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
