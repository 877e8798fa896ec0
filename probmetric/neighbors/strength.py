"""How strong a prior of a linear map should be: folds, and soft votes of neighbours.

A learner has a prior that counts as s points and pulls its metric to one that was not
learned, the Euclidean distance of scaled features; s = ∞ is that metric itself. For
each s of ``STRENGTHS`` the learner learns from all folds but one, and the points of
that one are predicted by the soft votes, Eq. (1) of ``neighbors.votes``, of the others.
A point's loss is minus the log of the share of its own class, with .02 of the training
shares mixed in (Eq. 3 there), and of the bandwidths b there each s has its best, or
(``tuned_losses``) the one that the points which vote would choose.

With L_i(s) the loss of point i, averaged over the repeats, and s* the s of the least
mean, the choice is the largest s for which

    mean_i (L_i(s) - L_i(s*)) ≤ ½ sd_i (L_i(s) - L_i(s*)) / √n :                   (1)

half a standard error of the paired differences. With ten points a class the least mean
alone is mostly noise, and its errors are not alike: too weak a prior can cost a
multiple of what too strong a one forgoes.

Folds are stratified. Which point is in which fold depends only on the set of points,
not on their order or that of the columns (``data.hash.canonical_order``). More than
1000 points: all but a fold are learned from, and 1000 of them, in the shares of the
classes, vote and are predicted.

The rule, the grid, the folds and the half were chosen on three splits of eleven data
sets and confirmed on other splits of the same sets (``benchmarks/accuracy.py``).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist

from probmetric.data.hash import SAME, canonical_order, first_best
from probmetric.neighbors.votes import BANDWIDTHS, PRIOR_WEIGHTS, mix_prior

STRENGTHS = (np.inf, 256.0, 64.0, 16.0, 4.0, 1.0)
"""Grid of s in points, from the strongest prior down."""

N_FOLDS = 5
N_REPEATS = 3
ONCE = 300
"""Points from which on folds are made once: the repeats quieten the choice of few."""

MOST_VOTERS = 1000
NEIGHBORS = 5
TOLERANCE = 0.5
"""Standard errors that a stronger prior may be worse by, Eq. (1)."""

type Losses = Callable[[Any, Any, Any, Any, Any], Float[np.ndarray, "b m"]]
"""What was learned, voters, their classes, queries, theirs: ``vote_losses`` of them.

b is 1 where the bandwidth is chosen by the voters.
"""


class Chosen(NamedTuple):
    """The strength chosen, and of each that was tried the mean held-out loss.

    ``errors`` are the standard errors of Eq. (1), without the ½.
    """

    strength: float
    losses: Float[np.ndarray, "s"]
    errors: Float[np.ndarray, "s"]


class Fold(NamedTuple):
    """Rows to learn from, those of them that vote, and those to predict."""

    learned: Int[np.ndarray, "l"]
    voters: Int[np.ndarray, "v"]
    asked: Int[np.ndarray, "m"]


def folds(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    n_folds: int,
    repeats: int,
) -> Iterator[Fold]:
    """Yield stratified folds, dealt out anew in every repeat.

    Parameters
    ----------
    X : array of shape (n, d)
    codes : array of shape (n,)
        Classes 0..c-1.
    n_folds, repeats : int
        Of fewer points than folds each is a fold.
    """
    voters = some_voters(X, codes)
    for repeat in range(repeats):
        fold = deal(X, codes, n_folds, repeat)
        at = fold[voters]
        for out in range(min(n_folds, len(X))):
            learned = np.flatnonzero(fold != out)
            yield Fold(learned, voters[at != out], voters[at == out])


def deal(
    X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"], n_folds: int, seed: int
) -> Int[np.ndarray, "n"]:
    """Return the fold 0..n_folds-1 of each point, the classes spread over all.

    -1 for the only point of a class: no fold leaves it out, as none could predict it.
    """
    fold = np.empty(len(X), int)
    fold[by_class(X, codes, seed)] = np.arange(len(X)) % n_folds
    return np.where(np.bincount(codes)[codes] > 1, fold, -1)


def some_voters(
    X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "v"]:
    """Return 1000 points at most, in the shares of the classes, class after class."""
    steps = np.linspace(0, len(X) - 1, min(len(X), MOST_VOTERS)).round().astype(int)
    return by_class(X, codes, 0)[steps]


def by_class(
    X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"], seed: int
) -> Int[np.ndarray, "n"]:
    """Return the points class after class, and shuffled within each.

    Neither the order of the points or columns nor the names of the classes matter.
    Dealt out in turn, or met at equal steps, they come in the shares of the classes.
    """
    order = canonical_order(X, codes)
    order = order[np.random.default_rng(seed).permutation(len(order))]
    _, first, own = np.unique(codes[order], return_index=True, return_inverse=True)
    return order[np.argsort(first[own], kind="stable")]


def map_losses(
    factor: Float[np.ndarray, "p d"],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    Q: Float[np.ndarray, "m d"],
    own: Int[np.ndarray, "m"],
) -> Float[np.ndarray, "b m"]:
    """Return minus log P of each query's own class, for every bandwidth.

    Parameters
    ----------
    factor : array of shape (p, d)
        Under which X votes for the classes of Q.
    X, codes, Q, own
        Voters and their classes, queries and theirs.
    """
    Z, Q = _mapped(factor, X, Q)
    return vote_losses(cdist(Q, Z, "sqeuclidean"), reach(Z), codes, own)


def tuned_losses(
    factor: Float[np.ndarray, "p d"],
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    Q: Float[np.ndarray, "m d"],
    own: Int[np.ndarray, "m"],
) -> Float[np.ndarray, "1 m"]:
    """Return minus log P of each query's own class, at the bandwidth that X chooses.

    It is that of ``KNeighborsClassifier``: under it the points of X are predicted best,
    each by the others. Where X taught the map, its points lie closer to their own
    classes than new ones do and choose too small a bandwidth: here that has its price,
    and in ``map_losses`` it has none.

    Parameters
    ----------
    factor, X, codes, Q, own
        As in ``map_losses``; X of two points at least.
    """
    Z, Q = _mapped(factor, X, Q)
    scale, n = reach(Z), len(Z)
    others = ~np.eye(n, dtype=bool)
    D = cdist(Z, Z, "sqeuclidean")[others].reshape(n, n - 1)
    around = np.broadcast_to(codes, (n, n))[others].reshape(n, n - 1)
    best = first_best(-vote_losses(D, scale, around, codes).mean(1))
    return vote_losses(cdist(Q, Z, "sqeuclidean"), scale, codes, own)[[best]]


def _mapped(
    factor: Float[np.ndarray, "p d"],
    X: Float[np.ndarray, "n d"],
    Q: Float[np.ndarray, "m d"],
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "m p"]]:
    """Return X and Q under a map, of ordinary size: squares are formed of them."""
    Z, Q = X @ factor.T, Q @ factor.T
    size = max(np.abs(Z).max(), np.abs(Q).max())
    return (Z / size, Q / size) if size > 0 else (Z, Q)


def vote_losses(
    D: Float[np.ndarray, "m n"],
    scale: float,
    codes: Int[np.ndarray, "*q n"],
    own: Int[np.ndarray, "m"],
) -> Float[np.ndarray, "b m"]:
    """Return minus log P of each query's own class, for every bandwidth.

    Parameters
    ----------
    D : array of shape (m, n)
        From queries to the points that vote.
    scale : float
        s of Eq. (2) of ``neighbors.votes``, in whose units the bandwidths are.
    codes : array of shape (n,) or (m, n)
        Classes of the points, or of those that vote for each query.
    own : array of shape (m,)
        Classes of the queries.

    Returns
    -------
    array of shape (b, m)
        0 for a query whose class has no point here: nobody can vote for it.
    """
    D = D - D.min(1, keepdims=True)
    same = own[:, None] == codes
    shares = same.mean(1)
    wide = np.multiply(BANDWIDTHS, 2 * scale)
    kernels = (np.exp(-D / h) for h in wide)
    votes = np.array([np.sum(w * same, 1) / w.sum(1) for w in kernels])
    P = mix_prior(votes[..., None], shares[:, None], PRIOR_WEIGHTS["soft"][0], None)
    return -np.log(np.where(shares > 0, P[..., 0], 1.0))


def reach(Z: Float[np.ndarray, "n p"]) -> float:
    """Return s of Eq. (2) of ``neighbors.votes``, as for distances, without JAX."""
    k = min(NEIGHBORS, len(Z) - 1)
    found = np.partition(cdist(Z, Z, "sqeuclidean"), k, 1)[:, k]  # Itself is at zero.
    middle, positive = np.median(found), found[found > 0]
    return float(middle if middle > 0 else np.median(positive) if len(positive) else 1)


def strongest(
    losses: Float[np.ndarray, "s b n"],
    strengths: Sequence[int | float],
    tolerance: float | int = TOLERANCE,
) -> Chosen:
    """Return the strength of Eq. (1), each one's losses being at its best bandwidth.

    Parameters
    ----------
    losses : array of shape (s, b, n)
        Of every strength, bandwidth and point; infinite where one could not be had.
    strengths : sequence of float
        From the strongest down.
    tolerance : float
        Standard errors, ½ in Eq. (1).
    """
    means = losses.mean(2)
    widths, means = np.array([first_best(-mean) for mean in means]), means.min(1)
    known = np.isfinite(means)
    if not known.any():
        return Chosen(strengths[-1], means, np.full(len(means), np.nan))
    own = losses[np.arange(len(means)), widths]
    gap = np.where(known[:, None], own - own[first_best(-means)], 0.0)
    error = np.where(known, gap.std(1, ddof=1) / np.sqrt(gap.shape[1]), np.nan)
    fits = known & (gap.mean(1) <= tolerance * error + SAME)
    return Chosen(strengths[int(np.argmax(fits))], means, error)
