"""Votes of neighbors for classes, averaged over metrics, and probabilities from votes.

Soft votes. All n training points vote; point j votes for its class with weight

    w_j(q) ∝ exp(-(D(q, j) - min_i D(q, i)) / (2 h)).                              (1)

The minimum is updated while tiles of points pass (a log-sum-exp): the nearest point has
weight one, and a far query never gives 0/0. Adding a constant to all dissimilarities of
a query does not change (1). h = b · s with b the ``bandwidth`` and s the scale of the
metric:

    s = median_i D_k(i)             if every point is at zero from itself and no
                                    other is nearer (distances, local metrics),
    s = median_i (D_k(i) - D_1(i))  otherwise (log ratios and other scores, which may
                                    be negative and have no zero),                 (2)

where D_k(i) is the k-th smallest dissimilarity of training point i to the others. If
the median is zero (many duplicates), s is the median of the positive values, and one if
there are none: then all weights are equal for every h.

Votes of a class. With W_c the sum of (1) over the n_c points of class c and t the
``sharpness``, the share of class c is

    v_c ∝ n_c (W_c / n_c)^t.                                                       (4)

t = 1 gives shares of the votes: one near point decides. As t and h grow together, v_c
tends to n_c exp(-t mean_j D(q, j) / (2 h)): the mean distance to the class decides.

Count votes. The k nearest have one vote each.

Shares of votes. A point may split its vote over columns instead of one class: the votes
for column c are then Σ_j w_j B_jc with ballots B whose rows sum to one, and t = 1.

Averages. Under a posterior of metrics the *probabilities* of the draws are averaged,
each with its scale s, never the distances: their mean square is a single metric.

Probabilities. With π the training shares of the classes and v̄ the votes averaged over
draws, the class prior is mixed in with weight a:

    soft:   P = (1 - a) v̄ + a π,          count:  P = (k v̄ + a π) / (k + a).      (3)

Tuning. b and t (soft votes) and a are chosen on a grid by the log score of the
*averaged* prediction (3) of each training point from the others, with π counted without
it. Tuning the plug-in prediction instead overfits. The metric was learned with the
point that is left out, which favors small b, so b and t have a prior: the sum of the
log scores is reduced by

    2 log²(b / 0.5) + log²(t).                                                     (5)

The only point of a class cannot be predicted and is not scored. With more than
``MOST_TUNED`` points, that many are scored, in an order that does not depend on the
order of rows; the scale (2) is that of the same points.

Memory in numbers of 8 bytes: (g + 4) T² for tiles of T = 512 points and g bandwidths
(eight while tuning, then one), besides ``pairwise``; the result has a number for each
bandwidth, sharpness, query and class. Time: draws · m · n.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.chunked import chunked
from probmetric.data.hash import canonical_order, first_best
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.protocol import Prepared, maps_of
from probmetric.neighbors.range import check_queries
from probmetric.neighbors.scan import (
    Latest,
    Prepare,
    bucket,
    distances,
    in_tiles,
    ready,
    ready_alone,
    refuse_nan,
)
from probmetric.neighbors.search import found_but_own
from probmetric.precision import in_native_order
from probmetric.typing import Array

VOTE_TILE = 512
"""Side of a tile: (6 + 4) · 512² numbers are 21 MB."""

type Votes = Int[np.ndarray, "n"] | Float[np.ndarray, "n c"]
"""Classes of the points, or ballots whose rows sum to one."""


def neighborhood_scale(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    k: int,
    rows: Int[np.ndarray, "m"],
    prepare: Prepare = ready_alone,
) -> Float[np.ndarray, ""] | float:
    """Compute the scale s > 0, Eq. (2), from the k nearest neighbors of some points."""
    n = len(X)
    if n == 1:
        return 1.0
    D, _ = found_but_own(metric, X[rows], X, min(k, n - 1), rows, prepare=prepare)
    reach = D[:, -1]
    squared = metric.is_distance or maps_of(metric)
    if not (squared or _zero_is_nearest(metric, X, D)):
        reach = reach - D[:, 0]
    middle, positive = np.median(reach), reach[reach > 0]
    if middle > 0:
        return float(middle)
    return float(np.median(positive)) if len(positive) else 1.0


def _zero_is_nearest(
    metric: Dissimilarity, X: Float[np.ndarray, "n d"], D: Float[np.ndarray, "n k"]
) -> bool:
    points = in_tiles(X[:: max(1, len(X) // 64)][:64], (1, 64))[0]
    with jax.enable_x64(True):
        to_itself = np.asarray(_diagonal(metric, points))
    rounding = np.sqrt(np.finfo(float).eps) * np.median(np.abs(D))
    return bool((np.abs(to_itself) <= rounding).all() and D.min() >= -rounding)


@jax.jit
def _diagonal(metric: Dissimilarity, X: Float[Array, "n d"]) -> Float[Array, "n"]:
    return jnp.diagonal(metric.pairwise(X, X))


@chunked("X")
def count_votes(
    metrics: Sequence[Dissimilarity],
    Q: Float[np.ndarray, "m d"],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    k: int,
    n_classes: int,
    excluded: Int[np.ndarray, "m"] | None = None,
) -> Float[np.ndarray, "m c"]:
    """Compute the class shares among the k nearest points, averaged over metrics."""
    votes = np.zeros((len(Q), n_classes))
    rows = np.arange(len(Q))[:, None]
    for metric in metrics:
        index = found_but_own(metric, Q, X, k, excluded)[1]
        np.add.at(votes, (rows, codes[index]), 1.0)
    return votes / (k * len(metrics))


def soft_votes(
    metrics: Sequence[Dissimilarity],
    scales: Float[np.ndarray, "s"],
    bandwidths: Float[np.ndarray, "g"],
    Q: Float[np.ndarray, "m d"],
    X: Float[np.ndarray, "n d"],
    codes: Votes,
    n_classes: int,
    own: Int[np.ndarray, "m"] | None = None,
    prepare: Prepare = ready_alone,
    sharpness: Sequence[float] = (1.0,),
) -> Float[np.ndarray, "g t m c"]:
    """Compute the class shares of soft votes, Eq. (4), averaged over metrics.

    ``scales`` are s of each metric, Eq. (2), and ``bandwidths`` b in units of it. Codes
    are classes, or ballots (n, c) whose rows sum to one. Point ``own[i]`` does not vote
    for query i. If a query is infinitely far from every point, all weights are equal.
    ``prepare`` computes the terms that depend only on a tile of queries and a metric.
    """
    scales, bandwidths = in_native_order((scales, bandwidths))
    size = _together(metrics)
    if isinstance(metrics[0], Mahalanobis):
        Q, X, metrics = _padded(Q, X, metrics)
    starts = range(0, len(metrics), size)
    groups = [(*stack(metrics[i : i + size]), scales[i : i + size]) for i in starts]
    shape, tiles = bucket(len(Q), VOTE_TILE), bucket(len(X), VOTE_TILE)
    index = in_tiles(np.arange(len(X), dtype=np.int32), tiles)
    index.reshape(-1)[len(X) :] = -1
    own = np.full(len(Q), -2) if own is None else own
    padded = -(-n_classes // 4) * 4
    if codes.ndim == 2:
        codes = np.pad(codes, ((0, 0), (0, padded - n_classes)))
    results: list[np.ndarray] = []
    with jax.enable_x64(True):
        points = jax.device_put((in_tiles(X, tiles), in_tiles(codes, tiles), index))
        for q, hidden in zip(in_tiles(Q, shape), in_tiles(own, shape), strict=True):
            votes = np.zeros(())
            for i, (leaves, structure, s) in zip(starts, groups, strict=True):
                shared = prepare(metrics[i], q) if _prepares(metrics[i]) else None
                draws, queries = (leaves, s), (q, hidden, shared)
                shares = _soft(
                    *(draws, bandwidths, queries, points),
                    *(structure, padded, tuple(sharpness)),
                )
                votes = votes + np.asarray(shares)
            results.append(votes / len(metrics))
    votes = np.concatenate(results, 2)[:, :, : len(Q), :n_classes]
    refuse_nan(np.isnan(votes).any(), Q, X)
    return votes


def _prepares(metric: Dissimilarity) -> bool:
    """Whether shared quantities are large, and computed for one draw at a time."""
    return isinstance(metric, Prepared) and not isinstance(metric, Mahalanobis)


def _together(metrics: Sequence[Dissimilarity]) -> int:
    return 1 if _prepares(metrics[0]) else len(metrics)


class Neighborhood(NamedTuple):
    """Points that vote, the metrics, and the scale s of each metric, Eq. (2)."""

    metrics: Sequence[Dissimilarity]
    X: Float[np.ndarray, "n d"]
    scales: Float[np.ndarray, "s"]

    def votes(
        self,
        bandwidth: float,
        Q: Float[np.ndarray, "m d"],
        codes: Votes,
        n_classes: int,
        sharpness: float = 1.0,
        own: Int[np.ndarray, "m"] | None = None,
    ) -> Float[np.ndarray, "m c"]:
        """Compute the ``soft_votes`` of these points for queries."""
        for metric in self.metrics:
            check_queries(metric, Q, "X")
        return soft_votes(
            *(self.metrics, self.scales, np.array([bandwidth]), Q, self.X),
            *(codes, n_classes, own),
            sharpness=(sharpness,),
        )[0, 0]


def neighborhood(
    metrics: Sequence[Dissimilarity],
    X: Float[np.ndarray, "n d"],
    k: int,
    bandwidths: Sequence[float],
    codes: Votes,
    n_classes: int,
    rows: Int[np.ndarray, "m"],
    sharpness: Sequence[float] = (1.0,),
) -> tuple[Neighborhood, Float[np.ndarray, "g t m c"]]:
    """Compute scales, and the votes of the other points for some points.

    If all points fit into one tile, the terms that depend only on queries are computed
    once per draw, for both its scale and its votes.
    """
    for metric in metrics:
        check_queries(metric, X, "X")
    size, b, Q = _together(metrics), np.array(bandwidths), X[rows]
    prepare, scales = Latest(), np.empty(len(metrics))
    votes = np.zeros((len(b), len(sharpness), len(rows), n_classes))
    starts = range(0, len(metrics), size)
    for start in starts:
        group = metrics[start : start + size]
        s = np.array([neighborhood_scale(m, X, k, rows, prepare) for m in group])
        scales[start : start + size] = s
        if len(b):
            votes += soft_votes(
                *(group, s, b, Q, X, codes, n_classes, rows, prepare), sharpness
            )
    return Neighborhood(metrics, X, scales), votes / len(starts)


def _padded(
    Q: Float[np.ndarray, "m d"],
    X: Float[np.ndarray, "n d"],
    metrics: Sequence[Dissimilarity],
) -> tuple[np.ndarray, np.ndarray, list[Dissimilarity]]:
    """Map points under a single metric and pad with zeros: few shapes to compile."""
    factors = [m.factor for m in metrics if isinstance(m, Mahalanobis)]
    L = np.stack([np.asarray(factor, np.float64) for factor in factors])
    center = X.mean(0)
    Q, X = Q - center, X - center
    if len(metrics) == 1:  # One map for all pairs.
        Q, X, L = Q @ L[0].T, X @ L[0].T, np.eye(L.shape[1])[None]
    rows, columns = (-size % 8 for size in L.shape[1:])
    L = np.pad(L, ((0, 0), (0, rows), (0, columns)))
    wide = ((0, 0), (0, columns))
    return np.pad(Q, wide), np.pad(X, wide), [Mahalanobis(factor) for factor in L]


def stack(
    metrics: Sequence[Dissimilarity],
) -> tuple[tuple[np.ndarray, ...], Any]:
    """Return leaves with a leading draw axis, and the structure of a single metric."""
    leaves = zip(*map(jax.tree.leaves, metrics), strict=True)
    return (
        tuple(np.stack([np.asarray(a) for a in leaf]) for leaf in leaves),
        jax.tree.structure(metrics[0]),
    )


@partial(jax.jit, static_argnames=("structure", "n_classes", "sharpness"))
def _soft(
    draws: tuple[tuple[Array, ...], Array],
    bandwidths: Float[Array, "g"],
    queries: tuple[Array, Array, object],
    points: tuple[Array, Array, Array],
    structure: Any,
    n_classes: int,
    sharpness: tuple[float, ...],
) -> Float[Array, "g t q c"]:
    """Compute shares by Eq. (4), summed over draws.

    ``draws`` are the leaves and scales of metrics. ``queries`` are rows, the point that
    is hidden from each, and the result of ``ready``, or None. ``points`` are tiles of
    rows, of codes (or ballots) and of indices, which are scanned.
    """
    Q, own, shared = queries
    _, codes, indices = points

    def add(
        state: tuple[Array, Array], tile: tuple[Array, ...], D: Array, h: Array
    ) -> tuple[Array, Array]:
        low, total = state
        _, code, index = tile
        hidden = (index < 0) | (index == own[:, None])
        D = jnp.where(hidden, jnp.inf, D)
        new = jnp.minimum(low, jnp.min(D, 1))
        # Use zero until a finite value comes: every weight is exp(-∞).
        zero = jnp.where(jnp.isposinf(new), 0.0, new)
        w = jnp.exp(-(D - zero[:, None]) / (2 * h[:, None, None]))
        fade = jnp.exp(-(low - zero) / (2 * h[:, None]))
        votes = w @ ballots(code, index)
        return new, total * fade[..., None] + votes

    def one_draw(
        votes: Array, draw: tuple[tuple[Array, ...], Array]
    ) -> tuple[Array, None]:
        metric = jax.tree.unflatten(structure, draw[0])
        once = ready(metric, Q) if shared is None else shared
        start = (
            jnp.full(len(Q), jnp.inf, Q.dtype),
            jnp.zeros((len(bandwidths), len(Q), n_classes), Q.dtype),
        )

        def scan(
            state: tuple[Array, Array], tile: tuple[Array, ...]
        ) -> tuple[tuple[Array, Array], None]:
            D = distances(metric, Q, once, tile[0])
            return add(state, tile, D, bandwidths * draw[1]), None

        (_, total), _ = jax.lax.scan(scan, start, points)
        mean = total / jnp.where(others > 0, others, 1)
        powers = [total if t == 1 else others * mean**t for t in sharpness]
        powers = jnp.stack(powers, 1)
        size = jnp.sum(powers, -1, keepdims=True)
        share = jnp.where(size > 0, powers / jnp.where(size > 0, size, 1), equal)
        return votes + share, None

    def ballots(code: Array, index: Array) -> Array:
        if jnp.issubdtype(code.dtype, jnp.integer):
            code = jnp.where(index < 0, -1, code)
            return jax.nn.one_hot(code, n_classes, dtype=Q.dtype)
        return jnp.where(index[..., None] < 0, 0.0, code)

    all_codes = codes.reshape(-1, *codes.shape[2:])
    others = jnp.sum(ballots(codes, indices), (0, 1)) - ballots(all_codes[own], own)
    equal = others / jnp.sum(others, -1, keepdims=True)
    none = jnp.zeros((len(bandwidths), len(sharpness), len(Q), n_classes), Q.dtype)
    return jax.lax.scan(one_draw, none, draws)[0]


BANDWIDTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Grid of b, in units of the scale s of the metric, Eq. (2), at t = 1."""

GRIDS = (0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0, 4.0), (1.0, 1.5, 2.0, 3.0)
"""Grids of b and t for class probabilities."""

PRIOR_WEIGHTS = {"soft": (0.02,), "count": (0.5, 1.0, 2.0, 4.0)}
"""Grid of a in Eq. (3), by kind of votes.

Only one value for soft votes: choosing it gave mixed results; see docs/measured.md.
"""

MOST_TUNED = 2000
"""Maximum number of points that are scored to choose b, t and a."""


def scored_rows(
    X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"] | None = None
) -> Int[np.ndarray, "m"]:
    """Return all row numbers, or a sample that does not depend on the order of rows."""
    if len(X) <= MOST_TUNED:
        return np.arange(len(X))
    return np.sort(canonical_order(X, codes)[:MOST_TUNED])


def mix_prior(
    votes: Float[np.ndarray, "*g m c"],
    prior: Float[np.ndarray, "*m c"],
    weight: float,
    k: int | None,
) -> Float[np.ndarray, "*g m c"]:
    """Mix the class prior into k count votes, or soft votes if k is None, Eq. (3)."""
    share = weight if k is None else weight / (k + weight)
    votes, prior = (1 - share) * votes, share * prior
    # Votes of a few ulp would order two classes, but not the logarithms of their sums.
    return np.where(votes > 1e-12 * prior, votes, 0.0) + prior


class Tuned(NamedTuple):
    """b, t and a chosen by leave-one-out, and all mean log scores."""

    bandwidth: float
    sharpness: float
    prior_weight: float
    scores: Float[np.ndarray, "g t a"]


type Grids = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""Values of b, t and a to try."""


def untuned(grids: Grids) -> Tuned:
    """Return the middle of each grid without tuning, with scores NaN."""
    b, t, a = grids
    at = b[len(b) // 2], t[(len(t) - 1) // 2], a[(len(a) - 1) // 2]
    return Tuned(*at, np.full((len(b), len(t), len(a)), np.nan))


def leave_one_out(
    votes: Float[np.ndarray, "g t m c"],
    codes: Int[np.ndarray, "m"],
    members: Int[np.ndarray, "c"],
    grids: Grids,
    k: int | None,
) -> Tuned:
    """Choose b, t and a by the log score of leave-one-out votes, less Eq. (5).

    ``members`` are the class sizes of the points that vote. If no point can be scored,
    because each is the only one of its class, return `untuned`.
    """
    n = int(members.sum())
    scored = np.flatnonzero(members[codes] > 1)
    if len(scored) == 0:
        return untuned(grids)
    bandwidths, sharpness, weights = grids
    scores = np.empty((len(bandwidths), len(sharpness), len(weights)))
    classes = codes[scored]
    prior = (members[classes] - 1) / (n - 1)
    for column, weight in enumerate(weights):
        predicted = mix_prior(votes[:, :, scored, classes], prior, weight, k)
        tiny = np.finfo(float).tiny  # A point without any vote for its class.
        scores[..., column] = np.log(np.maximum(predicted, tiny)).mean(-1)
    penalty = 2 * np.log(np.divide(bandwidths, 0.5))[:, None, None] ** 2
    penalty = penalty + np.log(sharpness)[None, :, None] ** 2
    best = first_best((scores - penalty / len(scored)).ravel())
    i, j, column = map(int, np.unravel_index(best, scores.shape))
    return Tuned(bandwidths[i], sharpness[j], weights[column], scores)
