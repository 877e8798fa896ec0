"""Votes of neighbors for classes, averaged over metrics, and probabilities from votes.

Soft votes. All n training points vote. For query q, point j votes for its class with
weight

    w_j(q) = exp(-(D(q, j) - min_i D(q, i)) / (2 h)).                              (1)

The nearest point has weight one, so a far query never gives 0/0. Adding a constant to
all dissimilarities of a query does not change (1). h is b · s, with the ``bandwidth`` b
and the scale s of the metric:

    s = median_i D_k(i)             if D(i, i) = 0 is the smallest dissimilarity of
                                    every point i (distances, local metrics),
    s = median_i (D_k(i) - D_1(i))  otherwise (log ratios and other scores, which may
                                    be negative and have no zero),                 (2)

where D_k(i) is the k-th smallest dissimilarity of training point i to the other points.
If the median is zero (many duplicates), s is the median of the positive values. If no
value is positive, s is one, and all weights are equal.

Votes of a class. Let W_c be the sum of (1) over the n_c points of class c, and t the
``sharpness``. The share of class c is

    v_c ∝ n_c (W_c / n_c)^t.                                                       (4)

With t = 1, v_c is the share of the votes, and one near point can decide. As t and h
grow together, v_c tends to n_c exp(-t mean_j D(q, j) / (2 h)), so that the mean
dissimilarity to the class decides.

Count votes and ballots. With count votes, each of the k nearest points has one vote. A
point may split its vote over columns. The votes for column c are then Σ_j w_j B_jc,
where the rows of the ballots B sum to one, and t is 1.

Averages. Under a posterior, the *probabilities* of the draws are averaged, not the
distances, because the mean squared distance is a single metric. Each draw has its own
scale s. Let π be the training shares of the classes, and v̄ the votes averaged over
draws. The class prior π has weight a:

    soft:   P = (1 - a) v̄ + a π,          count:  P = (k v̄ + a π) / (k + a).      (3)

The weight of a point multiplies its vote, its term in n_c and π, and its term in the
tuning. Scales do not depend on weights.

Tuning. b and t (soft votes) and a are chosen on a grid by the log score of the
*averaged* prediction (3) of each training point from the other points. π is also
computed from the other points. (Tuning the prediction of a single metric overfits.) The
metric was learned with the left-out point, which favors small b. The log prior of b and
t is therefore minus

    2 log²(b / 0.5) + log²(t),                                                     (5)

and is added to the sum of the log scores. If a class has one point, it is not scored.
At most ``MOST_TUNED`` points are scored. The choice of these points does not depend on
the order of rows. The scale (2) is computed from the same points.

Memory in numbers of 8 bytes, besides ``pairwise``: max(2²⁰, 8 n) + 2¹⁷ + q g c for n
points, g bandwidths, c classes, and q ≤ 512 queries at a time. The result has one
number per bandwidth, sharpness, query and class. Time is proportional to draws · m · n.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

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
    ready_alone,
    refuse_nan,
)
from probmetric.neighbors.search import found_but_own
from probmetric.precision import in_native_order
from probmetric.typing import Array

VOTE_TILE = 512
"""Largest number of queries that are prepared at a time."""

BLOCK = 1 << 20
"""Approximate number of dissimilarities at a time."""

TILE = 1 << 15
"""Approximate number of weights at a time, chosen to fit into a processor's cache."""

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
    w: Float[np.ndarray, "n"] | None = None,
) -> Float[np.ndarray, "m c"]:
    """Compute the class shares among the k nearest points, averaged over metrics."""
    votes = np.zeros((len(Q), n_classes))
    rows = np.arange(len(Q))[:, None]
    for metric in metrics:
        index = found_but_own(metric, Q, X, k, excluded)[1]
        size = 1.0 if w is None else w[index] * (k / w[index].sum(1, keepdims=True))
        np.add.at(votes, (rows, codes[index]), size)
    return votes / (k * len(metrics))


def soft_votes(
    metrics: Sequence[Dissimilarity],
    scales: Float[np.ndarray, "s"],
    bandwidths: Float[np.ndarray, "g"],
    Q: Float[np.ndarray, "m d"],
    X: Float[np.ndarray, "n d"],
    codes: Votes,
    n_classes: int,
    own_rows: Int[np.ndarray, "m"] | None = None,
    prepare: Prepare = ready_alone,
    sharpness: Sequence[float] = (1.0,),
    wanted: Int[np.ndarray, "m"] | None = None,
) -> Float[np.ndarray, "g t m *c"]:
    """Compute the class shares of soft votes, Eq. (4), averaged over metrics.

    ``scales`` contains s of each metric, Eq. (2). ``bandwidths`` are values of b, whose
    ratios must be ratios of small integers. ``codes`` are classes, or ballots (n, c).
    Point ``own_rows[i]`` does not vote for query i. With ``wanted``, only the share of
    class ``wanted[i]`` is returned for query i, and the shape is (g, t, m). If a query
    is infinitely far from every point, all weights are equal. ``prepare`` computes the
    terms of queries.
    """
    scales, bandwidths = in_native_order((scales, bandwidths))
    hard, n, g = codes.ndim == 1, len(X), len(bandwidths)
    order = np.argsort(codes, kind="stable") if hard else np.arange(n)
    X, codes, place = X[order], codes[order], np.argsort(order)
    all_votes = np.bincount(codes, minlength=n_classes) if hard else codes.sum(0)
    at_once = BLOCK // (n + g * n_classes)
    side = min(VOTE_TILE, 1 << max(3, at_once.bit_length() - 1))
    tiles = _ballots(codes, max(1, TILE // side))
    shape = g, len(sharpness), len(Q)
    result = np.zeros((*shape, n_classes) if wanted is None else shape)
    for metric, s in zip(metrics, scales, strict=True):
        blocks = _dissimilarities(metric, Q, X, side, prepare, s * bandwidths.min())
        for start, D in zip(range(0, len(Q), side), blocks, strict=True):
            rows = slice(start, start + side)
            voters = np.repeat(all_votes[:, None].astype(float), D.shape[1], 1)
            if own_rows is not None:
                at, hidden = np.arange(D.shape[1]), place[own_rows[rows]]
                D[hidden, at] = np.inf
                if hard:
                    voters[codes[hidden], at] -= 1
                else:
                    voters -= codes[hidden].T
            low = D.min(0)
            D -= np.where(np.isposinf(low), 0.0, low)  # All weights are then exp(-∞).
            D *= -1 / (2 * s * bandwidths.max())
            votes = _sums(D, bandwidths, tiles, n_classes)
            of = None if wanted is None else wanted[rows]
            result[:, :, rows] += _shares(votes, voters, sharpness, of)
    refuse_nan(np.isnan(result).any(), Q, X)
    return result / len(metrics)


def _ballots(codes: Votes, height: int) -> list[tuple[slice, slice, Any]]:
    """Return the rows, classes and ballots (c, p) of each tile of sorted points."""
    tiles: list[tuple[slice, slice, Any]] = []
    for start in range(0, len(codes), height):
        part = codes[start : start + height]
        classes, ballots = slice(None), part.T
        if codes.ndim == 1:
            classes = slice(part[0], part[-1] + 1)
            entries = np.ones(len(part)), (part - part[0], np.arange(len(part)))
            ballots = csr_array(entries)
        tiles.append((slice(start, start + len(part)), classes, ballots))
    return tiles


def _dissimilarities(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    X: Float[np.ndarray, "n d"],
    side: int,
    prepare: Prepare,
    width: float,
) -> Iterator[Float[np.ndarray, "n q"]]:
    """Yield dissimilarities of all points from ``side`` queries, minus a constant."""
    if isinstance(metric, Mahalanobis):
        L, center = np.asarray(metric.factor, np.float64), X.mean(0)
        Z, V = (X - center) @ L.T, (Q - center) @ L.T
        norms = np.einsum("ij,ij->i", Z, Z)
        points = np.column_stack([Z, norms])
        queries = np.column_stack([-2 * V, np.ones(len(V))])
        block = np.empty((len(X), min(side, len(Q))))
        for start in range(0, len(Q), side):
            at = slice(start, start + side)
            # |z|² - 2 z·v takes less time, but rounds relative to the largest |z|².
            if norms.max() * np.finfo(float).eps < 1e-10 * width:
                D = block[:, : len(V[at])]
                yield np.matmul(points, queries[at].T, out=D)
            else:
                yield cdist(Z, V[at], "sqeuclidean")
        return
    with jax.enable_x64(True):
        tiles = jax.device_put([*in_tiles(X, bucket(len(X), VOTE_TILE**2 // side))])
    for start, q in enumerate(in_tiles(Q, bucket(len(Q), side))):
        with jax.enable_x64(True):
            shared = prepare(metric, q) if isinstance(metric, Prepared) else None
            D = np.concatenate([_tile(metric, q, shared, tile) for tile in tiles], 1)
        yield np.array(D[: len(Q) - start * side, : len(X)].T, float, order="C")


@jax.jit
def _tile(metric: Dissimilarity, Q: Array, shared: object, P: Array) -> Array:
    return distances(metric, Q, shared, P)


def _sums(
    E: Float[np.ndarray, "n q"],
    bandwidths: Float[np.ndarray, "g"],
    tiles: list[tuple[slice, slice, Any]],
    n_classes: int,
) -> Float[np.ndarray, "g c q"]:
    """Sum exp(E · max(b) / b) over the points of each class, for every b."""
    ratio, q = bandwidths.max() / bandwidths, E.shape[1]
    unit = next(
        u for u in range(1, 1000) if np.all(abs(np.rint(u * ratio) / ratio - u) < 1e-9)
    )
    powers = np.rint(unit * ratio).astype(int)
    votes = np.zeros((len(powers), n_classes, q))
    buffers = np.empty((3, max(rows.stop - rows.start for rows, *_ in tiles), q))
    for rows, classes, ballots in tiles:
        base, weights, factor = buffers[:, : rows.stop - rows.start]
        np.exp(np.divide(E[rows], unit, out=base), out=base)
        reached = 0
        for g in np.argsort(powers):
            more = int(powers[g]) - reached
            if reached == 0:
                power(base, more, weights)
            else:
                weights *= weights if more == reached else power(base, more, factor)
            votes[g, classes] += ballots @ weights
            reached += more
    return votes


def power(
    base: Float[np.ndarray, "*n"], k: int, out: Float[np.ndarray, "*n"]
) -> Float[np.ndarray, "*n"]:
    """Compute base^k for k ≥ 1 by products, and store the result in ``out``."""
    np.copyto(out, base)
    for bit in bin(k)[3:]:
        out *= out
        if bit == "1":
            out *= base
    return out


def _shares(
    votes: Float[np.ndarray, "g c q"],
    voters: Float[np.ndarray, "c q"],
    sharpness: Sequence[float],
    wanted: Int[np.ndarray, "q"] | None,
) -> Float[np.ndarray, "g t q *c"]:
    """Compute the shares (4) of all classes, or of one class per query."""
    one = slice(None) if wanted is None else (wanted, np.arange(len(wanted)))
    equal, divisor = (voters / voters.sum(0))[one], np.where(voters > 0, voters, 1)
    shares = np.empty((len(votes), len(sharpness), *equal.T.shape))
    for vote, rows in zip(votes, shares, strict=True):
        mean = vote / divisor
        root = np.sqrt(mean)
        for t, row in zip(sharpness, rows, strict=True):
            k = int(2 * t)
            raised = power(root, k, np.empty_like(mean)) if k == 2 * t else mean**t
            raised = mean if t == 1 else raised
            size = np.einsum("cq,cq->q", voters, raised)
            part = (voters[one] * raised[one]) / np.where(size > 0, size, 1)
            row[:] = np.where(size > 0, part, equal).T
    return shares


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
        own_rows: Int[np.ndarray, "m"] | None = None,
    ) -> Float[np.ndarray, "m c"]:
        """Compute the ``soft_votes`` of these points for queries."""
        for metric in self.metrics:
            check_queries(metric, Q, "X")
        return soft_votes(
            *(self.metrics, self.scales, np.array([bandwidth]), Q, self.X),
            *(codes, n_classes, own_rows),
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
) -> tuple[Neighborhood, Float[np.ndarray, "g t m *c"]]:
    """Compute scales, and the votes of all other points for each of ``rows``.

    If ``codes`` are classes, only the votes for the class of each row are computed. If
    all points fit into one tile, terms that depend only on queries are computed once
    per draw.
    """
    for metric in metrics:
        check_queries(metric, X, "X")
    b, scales, prepare = np.array(bandwidths), np.empty(len(metrics)), Latest()
    own_classes = codes[rows] if codes.ndim == 1 else None
    shape = len(b), len(sharpness), len(rows)
    votes = np.zeros((*shape, n_classes) if own_classes is None else shape)
    for i, metric in enumerate(metrics):
        s = neighborhood_scale(metric, X, k, rows, prepare)
        scales[i] = s
        if len(b):
            votes += soft_votes(
                *([metric], scales[[i]], b, X[rows], X, codes, n_classes, rows),
                *(prepare, sharpness, own_classes),
            )
    return Neighborhood(metrics, X, scales), votes / len(metrics)


def stack(metrics: Sequence[Dissimilarity]) -> tuple[tuple[np.ndarray, ...], Any]:
    """Return leaves with a leading draw axis, and the structure of a single metric."""
    leaves = zip(*map(jax.tree.leaves, metrics), strict=True)
    return (
        tuple(np.stack([np.asarray(a) for a in leaf]) for leaf in leaves),
        jax.tree.structure(metrics[0]),
    )


BANDWIDTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Grid of b for votes with t = 1. The unit is the scale s, Eq. (2)."""

GRIDS = (0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.0, 4.0), (1.0, 1.5, 2.0, 3.0)
"""Grids of b and t for class probabilities."""

PRIOR_WEIGHTS = {"soft": (0.02,), "count": (0.5, 1.0, 2.0, 4.0)}
"""Grid of a in Eq. (3), by kind of votes.

There is one value for soft votes, because tuning had mixed results (docs/measured.md).
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
    """Mix the class prior into count votes, or soft votes if k is None (Eq. 3)."""
    share = weight if k is None else weight / (k + weight)
    votes, prior = (1 - share) * votes, share * prior
    # Votes of a few ulp would order two classes, but not the logarithms of their sums.
    return np.where(votes > 1e-12 * prior, votes, 0.0) + prior


class Tuned(NamedTuple):
    """Values of b, t and a chosen by leave-one-out, and all mean log scores."""

    bandwidth: float
    sharpness: float
    prior_weight: float
    scores: Float[np.ndarray, "g t a"]


type Grids = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""Values of b, t and a to try."""


def untuned(grids: Grids) -> Tuned:
    """Return the middle of each grid, without tuning. All scores are NaN."""
    b, t, a = grids
    at = b[len(b) // 2], t[(len(t) - 1) // 2], a[(len(a) - 1) // 2]
    return Tuned(*at, np.full((len(b), len(t), len(a)), np.nan))


def leave_one_out(
    votes: Float[np.ndarray, "g t m"],
    codes: Int[np.ndarray, "m"],
    members: Int[np.ndarray, "c"] | Float[np.ndarray, "c"],
    grids: Grids,
    k: int | None,
    w: Float[np.ndarray, "m"] | None = None,
) -> Tuned:
    """Choose b, t and a by the log score of leave-one-out votes, minus Eq. (5).

    ``codes`` are the classes of the scored points, and ``votes`` are the votes for
    these classes. ``members`` are the numbers of voters of each class, or sums of
    weights. If each point is the only point of its class, return ``untuned``.
    """
    n, w = members.sum(), np.ones(len(codes)) if w is None else w
    scored = np.flatnonzero(members[codes] > w * (1 + 1e-9))
    if len(scored) == 0:
        return untuned(grids)
    bandwidths, sharpness, weights = grids
    scores = np.empty((len(bandwidths), len(sharpness), len(weights)))
    classes = codes[scored]
    w = w[scored]
    prior = (members[classes] - w) / (n - w)
    for column, weight in enumerate(weights):
        predicted = mix_prior(votes[:, :, scored], prior, weight, k)
        tiny = np.finfo(float).tiny  # A point without any vote for its class.
        scores[..., column] = np.log(np.maximum(predicted, tiny)) @ (w / w.sum())
    penalty = 2 * np.log(np.divide(bandwidths, 0.5))[:, None, None] ** 2
    penalty = penalty + np.log(sharpness)[None, :, None] ** 2
    best = first_best((scores - penalty / w.sum()).ravel())
    i, j, column = map(int, np.unravel_index(best, scores.shape))
    return Tuned(bandwidths[i], sharpness[j], weights[column], scores)
