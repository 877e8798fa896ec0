"""Likelihood ratios of items with several measurements, under a two-stage mixture.

An item is a set of n measurements of one source, with mean x̄ and residuals e_j. Under
component k, its log density is Eq. (1) of ``two_stage.groups``. The columns of V solve
W V = (B + W) V diag(a) with Vᵀ(B + W)V = I, so that Vᵀ W V = diag(a). With
u = Vᵀ(x̄ - μ) and the scatter s = Σ_j Σ_i (Vᵀe_j)²_i / a_i,

    log p(X | k) = -½ [ n (d log 2π + log|B + W|) + Σ_i (log v_i + u_i²/v_i)
                        + (n - 1) Σ_i log a_i + s + d log n ],
    v = 1 - a + a/n.                                                               (1)

The union of items X and Y has n + m measurements. Its u is the weighted mean of u(X)
and u(Y), and its scatter is

    s(X, Y) = s(X) + s(Y) + n m/(n + m) Σ_i (u_i(X) - u_i(Y))²/a_i.                (2)

With component weights c_k, the likelihood ratio of one source to two sources is

    LR = Σ_k c_k p(X, Y | k) / [Σ_k c_k p(X | k) · Σ_k c_k p(Y | k)].              (3)

For a blend, numerator and denominator are averaged over models (``PairSimilarity``).
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh

from probmetric.data import inputs
from probmetric.typing import ArrayLike

if TYPE_CHECKING:
    from probmetric.metric.pair_similarity import PairSimilarity

BLOCK = 1 << 20
"""Approximate number of array entries per block of pairs."""


class Items(NamedTuple):
    """Measurements, item numbers of measurements, and names and sizes of items."""

    X: Float[np.ndarray, "n d"]
    item: Int[np.ndarray, "n"]
    names: np.ndarray
    sizes: Int[np.ndarray, "m"]


class _Terms(NamedTuple):
    """Terms n, u and s of Eq. (1) for every item, under one component."""

    n: Float[np.ndarray, "*m"]
    u: Float[np.ndarray, "*m d"]
    s: Float[np.ndarray, "*m"]


def items_of(X: ArrayLike, items: ArrayLike | None, name: str) -> Items:
    """Check measurements and their items; by default each row is an item."""
    rows = inputs.points(X, name)
    of = np.arange(len(rows)) if items is None else items
    if np.shape(of) != (len(rows),):
        raise ValueError(
            f"{name}_items must have shape ({len(rows)},), got {np.shape(of)}."
        )
    names, item = inputs.codes_of(of, f"{name}_items")
    return Items(rows, item, names, np.bincount(item))


def log_ratios(
    similarity: "PairSimilarity", left: Items, right: Items
) -> Float[np.ndarray, "l r"]:
    """Compute the log ratios of the model, Eq. (3), for all pairs of items."""
    log_weights, means, between, noise = (
        np.asarray(a, np.float64)
        for a in (
            similarity.log_weights,
            similarity.means,
            similarity.between,
            similarity.noise,
        )
    )
    ends = np.cumsum(similarity.blocks or (len(means),))[:-1]
    models = np.split(np.arange(len(means)), ends)
    joint = np.full((len(left.names), len(right.names)), -np.inf)
    apart = joint.copy()
    for components in models:
        each: list[list[np.ndarray]] = [[], []]
        for k in components:
            a, V = _independent(noise[k], between[k] + noise[k])
            logdet = np.linalg.slogdet(between[k] + noise[k])[1]
            x, y = (_terms(side, means[k], a, V) for side in (left, right))
            for log_p, term in zip(each, (x, y), strict=True):
                log_p.append(log_weights[k] + _log_density(term, a, logdet))
            both = _log_unions(x, y, a, logdet)
            joint = np.logaddexp(joint, log_weights[k] + both)
        p, q = (np.logaddexp.reduce(log_p, 0) for log_p in each)
        weight = np.logaddexp.reduce(log_weights[components])
        apart = np.logaddexp(apart, p[:, None] + q - weight)
    return joint - apart


def _independent(W: np.ndarray, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a and V with W V = S V diag(a) and Vᵀ S V = I."""
    a, V = eigh(W, S)
    return np.asarray(a), np.asarray(V)


def _terms(items: Items, mean: np.ndarray, a: np.ndarray, V: np.ndarray) -> _Terms:
    Z = (items.X - mean) @ V
    u = np.zeros((len(items.sizes), Z.shape[1]))
    np.add.at(u, items.item, Z)
    u /= items.sizes[:, None]
    s = np.bincount(items.item, np.sum((Z - u[items.item]) ** 2 / a, 1))
    return _Terms(items.sizes.astype(float), u, s)


def _log_density(
    terms: _Terms, a: Float[np.ndarray, "d"], logdet: float
) -> Float[np.ndarray, "*m"]:
    n, u, s = terms
    d = len(a)
    v = 1 - a + a / n[..., None]
    of_mean = np.sum(np.log(v) + u**2 / v, -1)
    constant = n * (d * np.log(2 * np.pi) + logdet) + (n - 1) * np.sum(np.log(a))
    return -0.5 * (constant + of_mean + s + d * np.log(n))


def _log_unions(
    left: _Terms, right: _Terms, a: Float[np.ndarray, "d"], logdet: float
) -> Float[np.ndarray, "l r"]:
    step = max(1, BLOCK // max(1, right.u.size))
    parts: list[np.ndarray] = []
    for start in range(0, len(left.n), step):
        n, u, s = (term[start : start + step, None] for term in left)
        total = n + right.n
        mean = (n[..., None] * u + right.n[:, None] * right.u) / total[..., None]
        apart = np.sum((u - right.u) ** 2 / a, -1)
        scatter = s + right.s + n * right.n / total * apart
        parts.append(_log_density(_Terms(total, mean, scatter), a, logdet))
    return np.concatenate(parts)
