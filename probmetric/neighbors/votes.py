"""Votes of neighbours for classes, averaged over metrics, and probabilities from votes.

Soft votes. Of all n training points, point j votes for its class with weight

    w_j(q) ∝ exp(-(D(q, j) - min_i D(q, i)) / (2 h)).                              (1)

The minimum is kept while tiles of points stream by (a log-sum-exp), so the nearest
point always has weight one and a far query never ends as 0/0; it also makes (1) blind
to a constant added to all of a query's dissimilarities. h = b · s with b the
``bandwidth`` and s the metric's own neighbourhood:

    s = median_i D_k(i)             if every point lies at zero from itself and
                                    nothing lies nearer (distances, local metrics),
    s = median_i (D_k(i) - D_1(i))  otherwise (log ratios and the like, which may be
                                    negative and have no zero),                    (2)

D_k(i) being the k-th smallest dissimilarity of training point i to the others. Where
the median is zero (many duplicates) the median of the positive values is used, and one
where there is none: then all weights are equal whatever h is.

Count votes. The k nearest have one vote each.

Shares of votes. A point may share its vote out over columns, in place of one class: the
votes for column c are then Σ_j w_j B_jc with B its ballots, rows summing to one.

Averages. Under a posterior of metrics the *probabilities* of the draws are averaged,
each with its own s, never the distances: the mean squared distance is one more single
metric.

Probabilities. With π the training shares of the classes and v̄ the votes averaged over
draws, the class prior is mixed in with weight a:

    soft:   P = (1 - a) v̄ + a π,          count:  P = (k v̄ + a π) / (k + a).      (3)

Tuning. The bandwidth b (of soft votes) and a are chosen on a grid by the mean log score
of the *averaged* prediction (3) of each training point from the others, with π counted
without it. Tuning the plug-in prediction instead is what over-fits. Points that are
alone in their class have nothing to be predicted from and are left out of the score.

Memory in numbers of 8 bytes: (g + 4) t² for tiles of t = 512 points and g bandwidths
(six while they are tuned, one after), beside what ``pairwise`` needs; the answer is
g · m · c. Time: draws · m · n.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.hash import first_best
from probmetric.linalg_scaled import represented
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.protocol import Prepared, maps_of
from probmetric.neighbors.range import at_ordinary_scale, refuse_far
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


def neighborhood_scale(
    metric: Dissimilarity,
    X: Float[np.ndarray, "n d"],
    k: int,
    prepare: Prepare = ready_alone,
) -> Float[np.ndarray, ""] | float:
    """Return s of Eq. (2), positive, from each point's k nearest others."""
    n = len(X)
    if n == 1:
        return 1.0
    near = found_but_own(metric, X, X, min(k, n - 1), np.arange(n), prepare=prepare)
    D = represented(near[0], near[2], "points", "dissimilarities")
    reach = D[:, -1]
    squared = metric.is_distance or maps_of(metric)
    if not (squared or _zero_is_nearest(metric, X, D)):
        reach = reach - D[:, 0]
    positive = reach[(reach > 0) & np.isfinite(reach)]
    middle = np.median(reach)
    if 0 < middle < np.inf:
        return float(middle)
    return float(np.median(positive)) if len(positive) else 1.0


def _zero_is_nearest(
    metric: Dissimilarity, X: Float[np.ndarray, "n d"], D: Float[np.ndarray, "n k"]
) -> bool:
    """Whether points lie at zero from themselves and at nothing less from others."""
    some = in_tiles(X[:: max(1, len(X) // 64)][:64], (1, 64))[0]
    with jax.enable_x64(True):
        own = np.asarray(_own(metric, some))
    rounding = np.sqrt(np.finfo(float).eps) * np.median(np.abs(D))
    return bool((np.abs(own) <= rounding).all() and D.min() >= -rounding)


@jax.jit
def _own(metric: Any, X: Float[Array, "n d"]) -> Float[Array, "n"]:
    return jnp.diagonal(metric.pairwise(X, X))


def count_votes(
    metrics: list[Dissimilarity],
    Q: Float[np.ndarray, "m d"],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    k: int,
    n_classes: int,
    own: Int[np.ndarray, "m"] | None = None,
) -> Float[np.ndarray, "m c"]:
    """Return the shares of the classes among the k nearest, averaged over metrics."""
    votes = np.zeros((len(Q), n_classes))
    rows = np.arange(len(Q))[:, None]
    for metric in metrics:
        index = found_but_own(metric, Q, X, k, own)[1]
        np.add.at(votes, (rows, codes[index]), 1.0)
    return votes / (k * len(metrics))


def soft_votes(
    metrics: list[Dissimilarity],
    scales: Float[np.ndarray, "s"],
    bandwidths: Float[np.ndarray, "g"],
    Q: Float[np.ndarray, "m d"],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"] | Float[np.ndarray, "n c"],
    n_classes: int,
    own: Int[np.ndarray, "m"] | None = None,
    prepare: Prepare = ready_alone,
) -> Float[np.ndarray, "g m c"]:
    """Return the normalised weights, Eq. (1), of the classes, averaged over metrics.

    ``codes`` are the points' classes, or ballots, rows summing to one. A query from
    which every point is infinitely far (all D = ∞) has equal weights.
    ``metrics`` share one structure; ``own[i]`` is the point that query i does not see;
    ``prepare`` is asked for what a tile of queries shares under a draw, where a draw
    is computed by itself.

    Examples
    --------
    Two points at squared distances 1 and 4 from the query, of weights exp(-1/2) and
    exp(-4/2) for h = 1: their shares are those of the odds exp(3/2).

    >>> import numpy as np
    >>> from probmetric.metric import Mahalanobis
    >>> from probmetric.neighbors import soft_votes
    >>> metrics, one = [Mahalanobis(np.eye(1))], np.ones(1)
    >>> X, codes = np.array([[1.0], [2.0]]), np.array([0, 1])
    >>> share = soft_votes(metrics, one, one, np.zeros((1, 1)), X, codes, 2)[0, 0]
    >>> round(float(np.log(share[0] / share[1])), 6)
    1.5
    """
    scales, bandwidths = in_native_order((scales, bandwidths))
    apart = _apart(metrics[0])
    size = 1 if apart else len(metrics)
    if isinstance(metrics[0], Mahalanobis):
        Q, X, metrics = _padded(Q, X, metrics)
    starts = range(0, len(metrics), size)
    groups = [(*stack(metrics[i : i + size]), scales[i : i + size]) for i in starts]
    shape, tiles = bucket(len(Q), VOTE_TILE), bucket(len(X), VOTE_TILE)
    seen = np.arange(len(X), dtype=np.int32)
    seen = in_tiles(seen, tiles)
    seen.reshape(-1)[len(X) :] = -1
    own = np.full(len(Q), -2) if own is None else own
    padded = -(-n_classes // 4) * 4
    if codes.ndim == 2:
        codes = np.pad(codes, ((0, 0), (0, padded - n_classes)))
    parts: list[Any] = []
    with jax.enable_x64(True):
        points = jax.device_put((in_tiles(X, tiles), in_tiles(codes, tiles), seen))
        for q, mine in zip(in_tiles(Q, shape), in_tiles(own, shape), strict=True):
            votes = 0.0
            for i, (leaves, structure, s) in zip(starts, groups, strict=True):
                shared = prepare(metrics[i], q) if apart else None
                queries = q, mine, shared
                draws = leaves, s
                of = _soft(draws, bandwidths, queries, points, structure, padded)
                votes = votes + np.asarray(of)
            parts.append(votes / len(metrics))
    votes = np.concatenate(parts, 1)[:, : len(Q), :n_classes]
    refuse_nan(np.isnan(votes).any(), Q, X)
    return votes


def _apart(metric: Dissimilarity) -> bool:
    """Whether what a draw prepares is large, and compiled once for all uses."""
    return isinstance(metric, Prepared) and not isinstance(metric, Mahalanobis)


class Neighborhood(NamedTuple):
    """Points X · 2^-e with metrics of them, and the scale s of each, Eq. (2)."""

    metrics: list[Any]
    X: Float[np.ndarray, "n d"]
    e: int
    scales: Float[np.ndarray, "s"]

    def votes(
        self,
        bandwidths: Sequence[float],
        Q: Float[np.ndarray, "m d"],
        codes: Int[np.ndarray, "n"] | Float[np.ndarray, "n c"],
        n_classes: int,
    ) -> Float[np.ndarray, "g m c"]:
        """Return ``soft_votes`` for queries in the units of the points given."""
        with np.errstate(over="ignore"):  # Refused by its name in the next line.
            Q = np.ldexp(Q, -self.e)
        for metric in self.metrics:
            refuse_far(metric, Q, "X")
        tried = np.array(bandwidths)
        return soft_votes(self.metrics, self.scales, tried, Q, self.X, codes, n_classes)


def neighborhood(
    metrics: list[Dissimilarity],
    X: Float[np.ndarray, "n d"],
    k: int,
    bandwidths: Sequence[float],
    codes: Int[np.ndarray, "n"] | Float[np.ndarray, "n c"],
    n_classes: int,
) -> tuple[Neighborhood, Float[np.ndarray, "g n c"]]:
    """Bring points to where float64 holds their squares; take scales and votes there.

    Returns
    -------
    near : Neighborhood
    votes : NumPy array of shape (g, n, c)
        ``near.votes`` of the points themselves, where none sees its own. What a draw
        prepares serves its scale and its votes, where one tile holds all points.
    """
    metrics, e = at_ordinary_scale(metrics, X)
    X = np.ldexp(X, -e)
    for metric in metrics:
        refuse_far(metric, X, "X")
    size = 1 if _apart(metrics[0]) else len(metrics)
    groups = [metrics[i : i + size] for i in range(0, len(metrics), size)]
    prepare, tried, own = Latest(), np.array(bandwidths), np.arange(len(X))
    scales, votes = [], np.zeros((len(tried), len(X), n_classes))
    for group in groups:
        s = np.array([neighborhood_scale(m, X, k, prepare) for m in group])
        scales.append(s)
        if len(tried):
            found = soft_votes(group, s, tried, X, X, codes, n_classes, own, prepare)
            votes += found
    votes /= len(groups)
    return Neighborhood(metrics, X, e, np.concatenate(scales)), votes


def _padded(
    Q: Float[np.ndarray, "m d"], X: Float[np.ndarray, "n d"], metrics: list[Any]
) -> tuple[Any, Any, list[Any]]:
    """Map points under a single metric and fill with zeros, so that jit is reused."""
    L = np.stack([np.asarray(metric.factor, np.float64) for metric in metrics])
    centre = X.mean(0)
    Q, X = Q - centre, X - centre
    if len(metrics) == 1:  # One map does for all pairs.
        Q, X, L = Q @ L[0].T, X @ L[0].T, np.eye(L.shape[1])[None]
    rows, columns = (-size % 8 for size in L.shape[1:])
    L = np.pad(L, ((0, 0), (0, rows), (0, columns)))
    wide = ((0, 0), (0, columns))
    return np.pad(Q, wide), np.pad(X, wide), [Mahalanobis(factor) for factor in L]


def stack(metrics: Sequence[Dissimilarity]) -> tuple[Any, Any]:
    """Return leaves with a leading draw axis, and the structure of one metric."""
    leaves = [jax.tree.leaves(metric) for metric in metrics]
    return (
        tuple(
            np.stack([np.asarray(a) for a in leaf])
            for leaf in zip(*leaves, strict=True)
        ),
        jax.tree.structure(metrics[0]),
    )


@partial(jax.jit, static_argnames=("structure", "n_classes"))
def _soft(
    draws: Any,
    bandwidths: Float[Array, "g"],
    queries: Any,
    points: Any,
    structure: Any,
    n_classes: int,
) -> Float[Array, "g q c"]:
    """Return votes by Eq. (1), summed over draws: leaves and scales of a metric each.

    ``queries`` are rows, the point each does not see, and what ``ready`` shares, or
    None; ``points`` are tiles of rows, of codes (or ballots) and of indices. These
    stream by.
    """
    Q, own, shared = queries
    _, codes, seen = points

    def add(kept: Any, tile: Any, D: Array, h: Array) -> Any:
        low, total = kept
        _, code, index = tile
        hidden = (index < 0) | (index == own[:, None])
        D = jnp.where(hidden, jnp.inf, D)
        new = jnp.minimum(low, jnp.min(D, 1))
        # While nothing finite has been seen, take zero: every weight is exp(-∞).
        zero = jnp.where(jnp.isposinf(new), 0.0, new)
        w = jnp.exp(-(D - zero[:, None]) / (2 * h[:, None, None]))
        fade = jnp.exp(-(low - zero) / (2 * h[:, None]))
        votes = w @ ballots(code, index)
        return new, total * fade[..., None] + votes

    def one_draw(votes: Array, draw: Any) -> Any:
        metric = jax.tree.unflatten(structure, draw[0])
        once = ready(metric, Q) if shared is None else shared
        empty = (
            jnp.full(len(Q), jnp.inf, Q.dtype),
            jnp.zeros((len(bandwidths), len(Q), n_classes), Q.dtype),
        )
        (_, total), _ = jax.lax.scan(
            lambda kept, tile: (
                add(
                    kept,
                    tile,
                    distances(metric, Q, once, tile[0]),
                    bandwidths * draw[1],
                ),
                None,
            ),
            empty,
            points,
        )
        size = jnp.sum(total, -1, keepdims=True)
        share = jnp.where(size > 0, total / jnp.where(size > 0, size, 1), equal)
        return votes + share, None

    def ballots(code: Array, index: Array) -> Array:
        if jnp.issubdtype(code.dtype, jnp.integer):
            code = jnp.where(index < 0, -1, code)
            return jax.nn.one_hot(code, n_classes, dtype=Q.dtype)
        return jnp.where(index[..., None] < 0, 0.0, code)

    all_codes = codes.reshape(-1, *codes.shape[2:])
    others = jnp.sum(ballots(codes, seen), (0, 1)) - ballots(all_codes[own], own)
    equal = others / jnp.sum(others, -1, keepdims=True)
    none = jnp.zeros((len(bandwidths), len(Q), n_classes), Q.dtype)
    return jax.lax.scan(one_draw, none, draws)[0]


BANDWIDTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Grid of b, in units of the metric's neighbourhood, s of Eq. (2).

Adding .02 and .05 worsened the test log loss of the Euclidean metric on wine, iris and
breast_cancer at 20 and 40 points (by up to .05) and bettered it on digits (by .06 from
40 points).
"""

PRIOR_WEIGHTS = {"soft": (0.02,), "count": (0.5, 1.0, 2.0, 4.0)}
"""Grid of a in Eq. (3), by kind of votes.

For soft votes the one value that was studied. Choosing among .01 to .1 was mixed at 20
points: test log loss fell from 1.304 to 1.157 on digits and rose by .015 on
breast_cancer.
"""


def mix_prior(
    votes: Float[np.ndarray, "*g m c"],
    prior: Float[np.ndarray, "*m c"],
    weight: float,
    k: int | None,
) -> Float[np.ndarray, "*g m c"]:
    """Return Eq. (3): of count votes if k is given, of soft votes if it is None."""
    share = weight if k is None else weight / (k + weight)
    return (1 - share) * votes + share * prior


class Tuned(NamedTuple):
    """What leave-one-out chose: b, a, and the mean log score of each (b, a) tried."""

    bandwidth: float
    prior_weight: float
    scores: Float[np.ndarray, "g a"]


def untuned(bandwidths: Sequence[float], prior_weights: Sequence[float]) -> Tuned:
    """Take the middle of each grid, or its only entry; the scores are NaN."""
    return Tuned(
        bandwidths[len(bandwidths) // 2],
        prior_weights[(len(prior_weights) - 1) // 2],
        np.full((len(bandwidths), len(prior_weights)), np.nan),
    )


def leave_one_out(
    votes: Float[np.ndarray, "g n c"],
    codes: Int[np.ndarray, "n"],
    bandwidths: Sequence[float],
    prior_weights: Sequence[float],
    k: int | None,
    members: Int[np.ndarray, "c"] | None = None,
) -> Tuned:
    """Choose b and a from averaged votes in which no point saw itself.

    ``members`` are the points of each class among those that voted: of ``codes``, if
    not given. With no point to score (each alone in its class) see `untuned`.
    """
    if members is None:
        members = np.bincount(codes, minlength=votes.shape[2])
    n = int(members.sum())
    scored = np.flatnonzero(members[codes] > 1)
    if len(scored) == 0:
        return untuned(bandwidths, prior_weights)
    scores = np.empty((len(bandwidths), len(prior_weights)))
    own = codes[scored]
    prior = (members[own] - 1) / (n - 1)
    for column, weight in enumerate(prior_weights):
        share = weight if k is None else weight / (k + weight)
        predicted = (1 - share) * votes[:, scored, own] + share * prior
        tiny = np.finfo(float).tiny  # A point that nobody votes for, rightly.
        scores[:, column] = np.log(np.maximum(predicted, tiny)).mean(-1)
    row, column = divmod(first_best(scores), len(prior_weights))
    return Tuned(bandwidths[row], prior_weights[column], scores)
