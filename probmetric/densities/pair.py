"""Densities of one and of two observations under the two-stage normal mixture.

A component k is drawn with probability c_k, and then a representative x ~ N(μ_k, B_k).
Given x, the query is Q ~ N(x, W_k) and the database element is Y ~ N(x, W'_k), usually
with W' = W. (Yianilos: B = (1 - α) Σ, W = W' = α Σ.) Integrating out x,

    Pr(Q)    = Σ_k c_k N(Q; μ_k, B_k + W_k),                                      (1)
    Pr(Q, Y) = Σ_k c_k N(Q - Y; 0, W_k + W'_k) N(m_k; μ_k, B_k + W_k∥W'_k),       (2)

with the parallel sum W∥W' = W (W + W')⁻¹ W' and the weighted mean m_k = Y + W'_k (W_k +
W'_k)⁻¹ (Q - Y). Given k, Q - Y and m_k are independent and the map (Q, Y) → (Q - Y,
m_k) has Jacobian 1, so Eq. (2) is exact. Eq. (2) has no cancellation as W → 0. For W' =
W, Eq. (2) is the *mean-difference form* of EQ-2 of seed 002,

    Pr(Q, Y) = Σ_k c_k N(Q - Y; 0, 2 W_k) N((Q + Y)/2; μ_k, B_k + W_k/2).

W = 0 gives EQ-4 (queries are representatives) and W' = 0 gives EQ-5.

For all pairs at once, the regression of Q on Y takes one matrix product per component:

    Pr(Q, Y | k) = N(Y; μ_k, S'_k) N(Q; μ_k + H_k (Y - μ_k), R_k),
    S' = B + W',   H = B S'⁻¹,   R = W + H W',                                    (3)

With T = chol(R)⁻¹, the exponent of the last density is -½|T(Q-μ)|² - ½|TH(Y-μ)|² +
T(Q-μ) · TH(Y-μ). For small W these terms cancel, so ``refine`` evaluates (2) for a
short list.

Missing entries (NaN) are integrated out, as in ``densities.gaussian``. Erratum Y3: the
constant printed in seed 002 is wrong by α^{-d} (1-α)^{-d/2}.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Bool, Float

from probmetric.densities.gaussian import (
    log_normal,
    log_normal_seen,
    log_peak,
    restricted,
)
from probmetric.linalg import logdet_chol
from probmetric.typing import Array


class PairModel(NamedTuple):
    """Two-stage normal mixture of k components, for one or two items.

    An item has the true value of its source, plus noise. In component k, true values
    are normal with mean ``means[k]`` and covariance ``between[k]``. The noise has
    covariance ``noise[k]`` for queries and ``noise_other[k]`` for database items.
    ``log_weights`` are the logs of the component probabilities.

    Examples
    --------
    One component, true values N(0, 3) and noise N(0, 1). Both items are 0. The squared
    ratio of their joint density to the product of densities is 4² / (4² - 3²).

    >>> from probmetric.metric import PairSimilarity
    >>> one, zero = jnp.ones((1, 1, 1)), jnp.zeros((1, 1))
    >>> model = PairModel(jnp.zeros(1), zero, 3 * one, one, one)
    >>> ratio = jnp.exp(PairSimilarity(*model).log_ratio(zero, zero))
    >>> round(float(ratio[0]) ** 2 * 7, 2)
    16.0
    """

    log_weights: Float[Array, "k"]
    means: Float[Array, "k d"]
    between: Float[Array, "k d d"]
    noise: Float[Array, "k d d"]
    noise_other: Float[Array, "k d d"]


def log_components(
    model: PairModel, X: Float[Array, "n d"], *, other: bool, missing: bool
) -> Float[Array, "n k"]:
    """Return log c_k N(x; μ_k, S_k) of every row and component, Eq. (1).

    If ``other``, the rows are database elements with noise W'. If ``missing``, NaN
    entries are integrated out.
    """
    S = model.between + (model.noise_other if other else model.noise)

    def log_density(x: Array, mean: Array, S: Array) -> Array:
        if missing:
            return log_normal_seen(x, mean, S)
        return log_normal(jnp.linalg.cholesky(S), x - mean)

    each = jax.vmap(log_density, (None, 0, 0))
    return jax.vmap(lambda x: model.log_weights + each(x, model.means, S))(X)


def log_pair_components(
    model: PairModel, A: Float[Array, "n d"], B: Float[Array, "n d"], *, missing: bool
) -> Float[Array, "n k"]:
    """Return log Pr(Q, Y, k) of matching rows, by the mean-difference form, Eq. (2).

    If ``missing``, NaN entries are integrated out from the joint covariance of (Q, Y).
    If W is much smaller than B, the joint covariance loses precision by cancellation:
    the relative error is about eps · ‖B‖/‖W‖.
    """

    def log_density(
        q: Array, y: Array, log_c: Array, mean: Array, B: Array, W: Array, W2: Array
    ) -> Array:
        if missing:
            joint = jnp.block([[B + W, B], [B, B + W2]])
            both = jnp.concatenate([q, y])
            return log_c + log_normal_seen(both, jnp.tile(mean, 2), joint)
        total = jnp.linalg.cholesky(W + W2)
        share = cho_solve((total, True), W2).T  # W' (W + W')⁻¹
        parallel = share @ W
        middle = y + share @ (q - y) - mean
        spread = B + (parallel + parallel.T) / 2
        of_middle = log_normal(jnp.linalg.cholesky(spread), middle)
        return log_c + log_normal(total, q - y) + of_middle

    each = jax.vmap(log_density, (None, None, 0, 0, 0, 0, 0))
    return jax.vmap(lambda q, y: each(q, y, *model))(A, B)


class Regression(NamedTuple):
    """Terms of Eq. (3) per component: constants, and linear maps of Q - μ and Y - μ."""

    constant: Float[Array, "k"]
    means: Float[Array, "k d"]
    T: Float[Array, "k d d"]
    TH: Float[Array, "k d d"]
    U: Float[Array, "k d d"]


def regression(
    model: PairModel,
    seen_q: Bool[Array, "d"] | None = None,
    seen_y: Bool[Array, "d"] | None = None,
) -> Regression:
    """Compute the terms of Eq. (3) that are common to all pairs.

    ``seen_q`` and ``seen_y`` (d,) mark the features that are observed in the queries
    and in the database elements. By default all features are observed, and R = W + H W'
    is computed without cancellation.
    """
    eye = jnp.eye(model.means.shape[-1], dtype=model.means.dtype)

    def pack(
        log_c: Array,
        mean: Array,
        S: Array,
        cross: Array,
        R_of: Callable[[Array], Array],
        n_seen: Array | int,
    ) -> Regression:
        L = jnp.linalg.cholesky(S)
        H = cho_solve((L, True), cross.T).T
        R = R_of(H)
        root = jnp.linalg.cholesky((R + R.T) / 2)
        T, U = (solve_triangular(A, eye, lower=True) for A in (root, L))
        constant = log_c + log_peak(root, n_seen) - 0.5 * logdet_chol(L)
        return Regression(constant, mean, T, T @ H, U)

    if seen_q is None or seen_y is None:

        def full(
            log_c: Array, mean: Array, B: Array, W: Array, W2: Array
        ) -> Regression:
            return pack(log_c, mean, B + W2, B, lambda H: W + H @ W2, 2 * len(mean))

        return jax.vmap(full)(*model)

    n_seen = jnp.sum(seen_q) + jnp.sum(seen_y)

    def partial(log_c: Array, mean: Array, B: Array, W: Array, W2: Array) -> Regression:
        cross = jnp.where(seen_q[:, None] & seen_y, B, 0.0)
        S, S_q = restricted(B + W2, seen_y), restricted(B + W, seen_q)
        reg = pack(log_c, mean, S, cross, lambda H: S_q - H @ cross.T, n_seen)
        # The values in missing coordinates are ignored.
        return reg._replace(T=reg.T * seen_q, TH=reg.TH * seen_y, U=reg.U * seen_y)

    return jax.vmap(partial)(*model)


def blocks_logsumexp(
    terms: Float[Array, "*n k"], blocks: tuple[int, ...]
) -> Float[Array, "*n models"]:
    """Return log sums over the components of each model of a blend (``blocks``)."""
    cuts = itertools.pairwise(itertools.accumulate(blocks, initial=0))
    return jnp.stack([logsumexp(terms[..., a:b], -1) for a, b in cuts], -1)


def log_two_sources(
    log_weights: Float[Array, "k"],
    terms_q: Float[Array, "*n k"],
    terms_y: Float[Array, "*m k"],
    blocks: tuple[int, ...],
) -> Float[Array, "..."]:
    """Return log Σ_n π_n Pr_n(Q) Pr_n(Y), from log c_k N(·; μ_k, S_k) of Q and of Y."""
    if len(blocks) <= 1:
        return logsumexp(terms_q, -1) + logsumexp(terms_y, -1)
    by_q, by_y = (blocks_logsumexp(t, blocks) for t in (terms_q, terms_y))
    return logsumexp(by_q + by_y - blocks_logsumexp(log_weights, blocks), -1)
