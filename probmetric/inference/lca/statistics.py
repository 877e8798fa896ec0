"""The sufficient statistics and rows in the likelihood of LCA, computed once per fit.

A pair with y = 1 enters the log likelihood only through the number n₁ = Σ w and the
scatter T₁ = Σ w δδᵀ of such pairs, as its t is linear in ‖Wδ‖². These pairs are
*pooled*: after ``prepare`` the cost of an evaluation does not depend on their number.
Pairs with y = 0 are *rows*. A pair with y of m judgments *same* equals two labeled
pairs with weights w y and w (m - y) (``data.pairs.as_labels``), up to a constant.

W is applied to the rows in one of three ways:

* by differences δ, if pairs are fewer than points; the cost is 2·m·p·d flops;
* by M = WᵀW, for ``squared_lengths`` of few rows; the cost is m·d(d+1) flops;
* by points, if P points are in many more pairs. Points are projected and then
  subtracted, O(P·p·d + m·p). Points are centered first to avoid cancellation.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from probmetric.data.containers import Pairs, weights
from probmetric.data.pairs import as_labels
from probmetric.typing import Array

PACKED = 1 << 17
"""Largest number of products δᵢδⱼ that are stored (1 MB, which fits a cache).
"""


class Statistics(NamedTuple):
    """Statistics of the pooled pairs (y = 1), and the other pairs (y = 0) as rows.

    ``X`` has differences δ if ``i`` is None, otherwise centered points, and ``i``,
    ``j`` are the rows' points in ``X``. ``w`` are data weights of the rows. ``n_same``
    = Σ w and ``T_same`` = Σ w δδᵀ are sums over the pooled pairs.
    ``n`` = Σ w, ``T`` = Σ w δδᵀ and ``S`` = Σ w (xxᵀ + x'x'ᵀ), not centered, are sums
    over all pairs. ``ways`` = Σ w log C(m, y) for counts does not depend on the
    parameters; it is 0 for labels.
    """

    X: Float[Array, "m d"]
    i: Int[Array, "r"] | None
    j: Int[Array, "r"] | None
    w: Float[Array, "r"]
    n_same: Float[Array, ""]
    T_same: Float[Array, "d d"]
    n: Float[Array, ""]
    T: Float[Array, "d d"]
    S: Float[Array, "d d"]
    ways: Float[Array, ""] | float = 0.0


def prepare(pairs: Pairs, *, by_points: bool | None = None) -> Statistics:
    """Compute the statistics of labeled pairs, on the host.

    Parameters
    ----------
    pairs : Pairs
        Pairs with labels y in {0, 1} or counts. Pairs of weight zero have no effect.
    by_points : bool, optional
        If True, project points instead of differences. Default: True if there are fewer
        points than half the number of rows.

    Examples
    --------
    Half of the weight of a pair with four of eight judgments *same* is pooled:

    >>> X, i = np.array([[0.0], [3.0]]), np.array([0])
    >>> stats = prepare(Pairs(X, i, i + 1, y=np.array([4]), trials=np.array([8])))
    >>> float(stats.n), float(stats.n_same), float(np.exp(stats.ways).round(3))
    (8.0, 4.0, 70.0)
    """
    pairs, ways = labeled(pairs)
    # NumPy: this runs once a fit, and every JAX operation of a new shape compiles.
    X, i, j, y = (np.asarray(v) for v in (pairs.X, pairs.i, pairs.j, pairs.y))
    w = np.asarray(weights(pairs), X.dtype)
    delta = X[i] - X[j]
    same = y == 1
    rows, w_same = np.flatnonzero(~same), w * same
    w_rows = w[rows]
    T_same = (delta * w_same[:, None]).T @ delta
    T_rows = (delta[rows] * w_rows[:, None]).T @ delta[rows]
    degree = np.bincount(np.append(i, j), np.append(w, w), len(X)).astype(X.dtype)
    if by_points is None:
        by_points = 2 * len(X) < len(rows)
    return Statistics(
        X=X - X.mean(0) if by_points else delta[rows],
        i=i[rows] if by_points else None,
        j=j[rows] if by_points else None,
        w=w_rows,
        n_same=np.asarray(np.sum(w_same)),
        T_same=T_same,
        n=np.asarray(np.sum(w_same) + np.sum(w_rows)),
        T=T_same + T_rows,
        S=(X * degree[:, None]).T @ X,
        ways=np.asarray(ways, X.dtype),
    )


def labeled(pairs: Pairs) -> tuple[Pairs, float]:
    """Return pairs with labels instead of counts, and Σ w log C(m, y)."""
    if pairs.y is None:
        raise ValueError("pairs.y must be labels in {0, 1}, got None.")
    if pairs.trials is None:
        return as_labels(pairs), 0.0
    m, y = np.asarray(pairs.trials), np.asarray(pairs.y)
    ways = gammaln(m + 1.0) - gammaln(y + 1.0) - gammaln(m - y + 1.0)
    return as_labels(pairs), float(np.sum(np.asarray(weights(pairs)) * ways))


def project(W: Float[Array, "p d"], stats: Statistics) -> Float[Array, "r p"]:
    """Return g = Wδ for every row, at a cost of 2·m·p·d flops."""
    Z = stats.X @ W.T
    return Z if stats.i is None else Z[stats.i] - Z[stats.j]


def squared_lengths(W: Float[Array, "p d"], stats: Statistics) -> Float[Array, "r"]:
    """Return D = ‖Wδ‖² for every row, as δᵀMδ for few rows and otherwise from Wδ.

    The products δᵢδⱼ, i ≤ j, do not depend on W, so a loop over W computes them once.
    Computed from M, the absolute error is eps ‖M‖ ‖δ‖², as for the pooled pairs (tr(W
    T₁ Wᵀ)). Computed from Wδ, it is eps √D ‖W‖ ‖δ‖.
    """
    p, d = W.shape
    if stats.i is not None or not n_products(len(stats.X), p, d):
        return jnp.sum(project(W, stats) ** 2, -1)
    i, j = np.triu_indices(d)
    products = stats.X.T[i] * stats.X.T[j] * (2 - (i == j))[:, None].astype(W.dtype)
    D = (W.T @ W)[i, j] @ products
    # Rounding can make a square negative. ``maximum`` would halve the slope at zero.
    return jnp.where(D < 0, 0.0, D)


def n_products(rows: int, p: int, d: int) -> int:
    """Return the number of products that ``squared_lengths`` computes."""
    f = d * (d + 1) // 2
    return rows * f if f < p * d and rows * f <= PACKED else 0


def scatter(C: Float[Array, "r p"], stats: Statistics) -> Float[Array, "p d"]:
    """Return Σ c δᵀ over the rows (adjoint of ``project``), in 2·m·p·d flops."""
    if stats.i is None:
        return C.T @ stats.X
    at_points = jnp.zeros((len(stats.X), C.shape[1]), C.dtype)
    return at_points.at[stats.i].add(C).at[stats.j].add(-C).T @ stats.X
