"""Choose the strength of a prior on a linear map by cross-validated soft votes.

A prior that counts as s points shrinks the metric to the Euclidean distance of scaled
features (the limit s = ∞). For each s of ``STRENGTHS``, the learner is fitted without
one fold, and the points of this fold are predicted by soft votes of the other points,
Eq. (1) of ``neighbors.votes``. The loss of a point is minus the log of P, Eq. (3) of
``neighbors.votes``, for its class, with the class prior mixed in with weight 0.02. Each
s uses its best bandwidth b, or (``tuned_losses``) the bandwidth tuned on the voters.

Let L_i(s) be the loss of point i, averaged over the repeats, and s* the s with the
smallest mean loss. The choice is the largest s for which

    mean_i (L_i(s) - L_i(s*)) ≤ ½ sd_i (L_i(s) - L_i(s*)) / √n,                    (1)

half a standard error of the paired differences. With ten points per class, s* is mostly
noise, and a prior that is too weak costs more than a prior that is too strong.

Folds are stratified, and depend only on the set of points, not on the order of rows or
columns (``data.hash.canonical_order``). With more than 1000 points, the learner is
fitted to all points outside the fold, but only a stratified sample of 1000 points votes
and is predicted. The rule, the grid and the folds were chosen on three splits of eleven
datasets, and confirmed on other splits of these datasets (``benchmarks/accuracy.py``).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist

from probmetric.data.hash import SAME, canonical_order, first_best
from probmetric.neighbors.votes import BANDWIDTHS, PRIOR_WEIGHTS, mix_prior, power

STRENGTHS = (np.inf, 256.0, 64.0, 16.0, 4.0, 1.0)
"""Grid of s in points, in descending order."""

N_FOLDS = 5
N_REPEATS = 3
ONCE = 300
"""Smallest number of points with a single division into folds, without repeats."""

MOST_VOTERS = 1000
WIDE = 32
"""Smallest number of features for distances by a matrix product."""

NEIGHBORS = 5
TOLERANCE = 0.5
"""Number of standard errors by which a stronger prior may be worse, Eq. (1)."""

type Losses = Callable[..., Float[np.ndarray, "b m"]]
"""Function of (fit, voters, voters' classes, queries, queries' classes).

It returns losses for b bandwidths, or for one bandwidth that is tuned on the voters.
"""


class Chosen(NamedTuple):
    """The chosen strength, mean held-out losses, and standard errors of Eq. (1)."""

    strength: float
    losses: Float[np.ndarray, "s"]
    errors: Float[np.ndarray, "s"]


class Fold(NamedTuple):
    """Training rows, the training rows that vote, and held-out rows to predict."""

    learned: Int[np.ndarray, "l"]
    voters: Int[np.ndarray, "v"]
    asked: Int[np.ndarray, "m"]


def folds(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    n_folds: int,
    repeats: int,
    order: Int[np.ndarray, "n"] | None = None,
    groups: Int[np.ndarray, "n"] | None = None,
) -> Iterator[Fold]:
    """Yield stratified folds that are not empty. Each repeat makes a new division."""
    order = canonical_order(X, codes) if order is None else order
    voters = some_voters(X, codes, order)
    for repeat in range(repeats):
        fold = deal(X, codes, n_folds, repeat, order, groups)
        at = fold[voters]
        for out in range(min(n_folds, len(X))):
            if (at == out).any():
                learned = np.flatnonzero(fold != out)
                yield Fold(learned, voters[at != out], voters[at == out])


def deal(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    n_folds: int,
    seed: int,
    order: Int[np.ndarray, "n"] | None = None,
    groups: Int[np.ndarray, "n"] | None = None,
) -> Int[np.ndarray, "n"]:
    """Assign stratified folds of whole groups, and -1 to the only group of a class.

    By default each point is a group.
    """
    if groups is not None:
        rows, unit, strata, only = strata_of(X, codes, groups)
        X, codes, order = X[rows], strata, None
    else:
        unit, only = np.arange(len(X)), np.bincount(codes)[codes] == 1
    order = by_class(X, codes, seed, order)
    order = order[~only[order]]
    fold = np.full(len(X), -1)
    fold[order] = np.arange(len(order)) % n_folds
    return fold[unit]


class Strata(NamedTuple):
    """Groups of points as units of folds.

    ``rows`` has a row of each group (the first in canonical order), ``unit`` the group
    of each point, ``strata`` the class of each group that is in the fewest groups (the
    first of several), and ``only`` whether this class is in no other group.
    """

    rows: Int[np.ndarray, "g"]
    unit: Int[np.ndarray, "n"]
    strata: Int[np.ndarray, "g"]
    only: Bool[np.ndarray, "g"]


def strata_of(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    groups: Int[np.ndarray, "n"],
) -> Strata:
    """Stratify groups, which may contain several classes, by their rarest class."""
    unit = np.unique(groups, return_inverse=True)[1]
    order = canonical_order(X, codes)
    rows = order[np.unique(unit[order], return_index=True)[1]]
    n_codes = codes.max() + 1
    group, code = np.divmod(np.unique(unit * n_codes + codes), n_codes)
    size = np.bincount(code)[code]
    rarest = np.lexsort((code, size, group))
    first = rarest[np.unique(group[rarest], return_index=True)[1]]
    return Strata(rows, unit, code[first], size[first] == 1)


def some_voters(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    order: Int[np.ndarray, "n"] | None = None,
) -> Int[np.ndarray, "v"]:
    """Select at most 1000 points, stratified, sorted by class."""
    steps = np.linspace(0, len(X) - 1, min(len(X), MOST_VOTERS)).round().astype(int)
    return by_class(X, codes, 0, order)[steps]


def by_class(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    seed: int,
    order: Int[np.ndarray, "n"] | None = None,
) -> Int[np.ndarray, "n"]:
    """Sort points by class, and shuffle each class independently of the row order."""
    order = canonical_order(X, codes) if order is None else order
    order = order[np.random.default_rng(seed).permutation(len(order))]
    _, first, code = np.unique(codes[order], return_index=True, return_inverse=True)
    return order[np.argsort(first[code], kind="stable")]


def map_losses(
    factor: Float[np.ndarray, "p d"],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    Q: Float[np.ndarray, "m d"],
    classes: Int[np.ndarray, "m"],
) -> Float[np.ndarray, "b m"]:
    """Compute minus log P of each query's class by bandwidth, under a linear map."""
    return image_losses(X @ factor.T, codes, Q @ factor.T, classes)


def image_losses(
    Z: Float[np.ndarray, "n p"],
    codes: Int[np.ndarray, "n"],
    Q: Float[np.ndarray, "m p"],
    classes: Int[np.ndarray, "m"],
) -> Float[np.ndarray, "b m"]:
    """Compute ``map_losses`` from the images of the points."""
    Z, Q = _scaled(Z, Q)
    return vote_losses(squares(Q, Z), reach(Z), codes, classes)


def tuned_losses(
    factor: Float[np.ndarray, "p d"],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    Q: Float[np.ndarray, "m d"],
    classes: Int[np.ndarray, "m"],
) -> Float[np.ndarray, "1 m"]:
    """Compute minus log P of each query's class at the bandwidth tuned on X.

    The bandwidth is chosen as in ``KNeighborsClassifier`` with ``BANDWIDTHS`` and
    sharpness 1. If the map was learned from X, the points X are nearer to their classes
    than new points. The bandwidth is then too small, which increases these losses but
    not the losses of ``map_losses``.
    """
    Z, Q = _scaled(X @ factor.T, Q @ factor.T)
    scale, n = reach(Z), len(Z)
    others = ~np.eye(n, dtype=bool)
    D = squares(Z, Z)[others].reshape(n, n - 1)
    around = np.broadcast_to(codes, (n, n))[others].reshape(n, n - 1)
    best = first_best(-vote_losses(D, scale, around, codes).mean(1))
    return vote_losses(squares(Q, Z), scale, codes, classes)[[best]]


def _scaled(
    Z: Float[np.ndarray, "n p"], Q: Float[np.ndarray, "m p"]
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "m p"]]:
    """Scale images to prevent overflow of squares."""
    size = max(np.abs(Z).max(), np.abs(Q).max())
    return (Z / size, Q / size) if size > 0 else (Z, Q)


def squares(
    A: Float[np.ndarray, "m p"], B: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, "m n"]:
    """Compute all squared distances, by a matrix product if there are many features.

    The error of the product is about 1e-15 of the squared norms. Squared distances
    below 1e-13 of the squared norms are set to zero.
    """
    if A.shape[1] < WIDE:
        return cdist(A, B, "sqeuclidean")
    center = B.mean(0)
    own, B = A is B, B - center
    A = B if own else A - center  # NumPy computes one triangle of B Bᵀ.
    size = np.sum(A * A, 1)[:, None] + np.sum(B * B, 1)
    D = A @ B.T
    D *= -2
    D += size
    size *= 1e-13
    D[D < size] = 0.0
    return D


def vote_losses(
    D: Float[np.ndarray, "m n"],
    scale: float,
    codes: Int[np.ndarray, "*q n"],
    classes: Int[np.ndarray, "m"],
) -> Float[np.ndarray, "b m"]:
    """Compute minus log P of each query's class for every bandwidth.

    D contains dissimilarities from queries to voters. ``scale`` is s of Eq. (2) of
    ``neighbors.votes``. ``codes`` (n,) are the classes of the voters, or (m, n) if they
    differ by query. If no voter has the class of the query, the loss is 0.
    """
    D = D - D.min(1, keepdims=True)
    same = classes[:, None] == codes
    shares = same.mean(1)
    widest = max(BANDWIDTHS)
    base = np.exp(-D / (2 * scale * widest))  # Kernels are powers of the widest one.
    powers = (round(widest / b) for b in BANDWIDTHS)
    kernels = (power(base, k, np.empty_like(base)) for k in powers)
    votes = np.array([np.sum(w * same, 1) / w.sum(1) for w in kernels])
    P = mix_prior(votes[..., None], shares[:, None], PRIOR_WEIGHTS["soft"][0], None)
    return -np.log(np.where(shares > 0, P[..., 0], 1.0))


def reach(Z: Float[np.ndarray, "n p"]) -> float:
    """Compute the scale s, Eq. (2) of ``neighbors.votes``, without JAX."""
    k = min(NEIGHBORS, len(Z) - 1)
    # Each point is at zero from itself: the k-th other is the k + 1-st.
    near = np.partition(squares(Z, Z), k, 1)[:, k]
    middle, positive = np.median(near), near[near > 0]
    return float(middle if middle > 0 else np.median(positive) if len(positive) else 1)


def strongest(
    losses: Float[np.ndarray, "s b n"],
    strengths: Sequence[int | float],
    tolerance: float | int = TOLERANCE,
) -> Chosen:
    """Choose a strength by Eq. (1). ``strengths`` are in descending order."""
    means = losses.mean(2)
    widths, means = np.array([first_best(-mean) for mean in means]), means.min(1)
    finite = np.isfinite(means)
    if not finite.any():
        return Chosen(strengths[-1], means, np.full(len(means), np.nan))
    best = losses[np.arange(len(means)), widths]
    gap = np.where(finite[:, None], best - best[first_best(-means)], 0.0)
    error = np.where(finite, gap.std(1, ddof=1) / np.sqrt(gap.shape[1]), np.nan)
    fits = finite & (gap.mean(1) <= tolerance * error + SAME)
    return Chosen(strengths[int(np.argmax(fits))], means, error)
