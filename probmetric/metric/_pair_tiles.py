"""All pairs of the two-stage similarity: GEMMs, streamed, in tiles of bounded memory.

Within a tile the components are streamed with a running log-sum-exp, so that nothing
of size k × m × n exists; see ``_pair_density`` Eq. (3) for the algebra.
"""

from functools import partial
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
    "stream_log_joint",
]

TILE = 512
"""Rows and columns of a tile: work memory is a few tiles."""


def _log_joint_k(reg: Regression, Q: Any, P: Any) -> Any:
    """Return log Pr(Q_i, Y_j, k) for one component: one GEMM, shape (m, n)."""
    F, V = (Q - reg.means) @ reg.T.T, P - reg.means
    G = V @ reg.TH.T
    of_q = -0.5 * jnp.sum(F**2, -1) + reg.constant
    of_y = -0.5 * (jnp.sum(G**2, -1) + jnp.sum((V @ reg.U.T) ** 2, -1))
    return F @ G.T + of_q[:, None] + of_y


def stream_log_joint(
    reg: Regression,
    Q: Float[Array, "m d"],
    P: Float[Array, "n d"],
    best: Any = None,
) -> Float[Array, "m n"]:
    """Return log Pr(Q_i, Y_j), streaming over components; memory a few m · n.

    Carries the running maximum and the sum of exponentials relative to it, at one
    exponential a component. With ``best`` (n,), only component best[j] counts for
    element j (hard assignment).
    """
    shape = len(Q), len(P)
    if best is not None:
        k = jnp.arange(len(reg.constant))
        out = jnp.zeros(shape, reg.means.dtype)
        return jax.lax.scan(
            lambda c, s: (jnp.where(best == s[1], _log_joint_k(s[0], Q, P), c), None),
            out,
            (reg, k),
        )[0]

    def add(carry: Any, component: Regression) -> tuple[Any, None]:
        top, total = carry
        new = _log_joint_k(component, Q, P)
        small = jnp.exp(-jnp.abs(top - new))
        total = jnp.where(new > top, total * small + 1, total + small)
        return (jnp.maximum(top, new), total), None

    first, rest = (jax.tree.map(lambda a, s=s: a[s], reg) for s in (0, slice(1, None)))
    start = _log_joint_k(first, Q, P)
    if len(reg.constant) == 1:
        return start
    # A component of weight zero is -inf everywhere: keep -inf - (-inf) out.
    floor = jnp.maximum(start, jnp.finfo(start.dtype).min)
    total = (start > -jnp.inf).astype(start.dtype)
    (top, total), _ = jax.lax.scan(add, (floor, total), rest)
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

    def one(block: Any) -> Any:
        (Q, of_q), (P, of_y, best) = block
        hard = best if score == "vq" else None
        joint = stream_log_joint(reg, Q, P, hard)
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

    return _tiled(one, (Q, of_q), (P, of_y, best), tile)


def _half_self(model: PairModel, X: Any, seen: Any) -> Any:
    """Return ½ log Pr(x, x) of every row, x twice from one source."""
    rows = X if seen is None else jnp.where(seen, X, jnp.nan)
    return logsumexp(_pair(model, rows, rows, seen is not None), -1) / 2


def _tiled(function: Any, rows: Any, columns: Any, tile: int) -> Any:
    """Apply ``function((rows, columns))`` block by block; join the blocks."""

    def cut(tree: Any) -> tuple[Any, int]:
        n = len(jax.tree.leaves(tree)[0])
        size = max(-(-n // max(-(-n // tile), 1)), 1)  # blocks of equal size
        pad = -n % size

        def one(a: Any) -> Any:
            a = jnp.concatenate([a, jnp.zeros((pad, *a.shape[1:]), a.dtype)])
            return a.reshape(-1, size, *a.shape[1:])

        return jax.tree.map(one, tree), n

    (rows, m), (columns, n) = cut(rows), cut(columns)
    strip = lambda r: jax.lax.map(lambda c: function((r, c)), columns)  # noqa: E731
    blocks = jax.lax.map(strip, rows)  # (row blocks, column blocks, tile, tile)
    a, b, s, t = blocks.shape
    return blocks.transpose(0, 2, 1, 3).reshape(a * s, b * t)[:m, :n]


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
