"""The strength of the prior of W and B, chosen by the soft votes of neighbors.

One component. A priori W and B are about isotropic matrices of the size of the data.
With w and b the variances of a feature within and between sources, averaged over
features,

    W ~ IW(s + d + 1, s w I),   B ~ IW(s + d + 1, s b I),
    E[W] = w I,   E[B] = b I,                                                     (1)

hence the first counts as s points and the second as s sources. N points in G sources,
n_i and mean x̄_i each, with x̄ the mean of all and S the scatter within sources, give

    w = tr S/(d (N - G)),   b = (Σ_i n_i |x̄_i - x̄|²/(d (G - 1)) - w)/n₀,
    n₀ = (N - Σ_i n_i²/N)/(G - 1),                                                (2)

the unbiased estimates, b at least w/20. (With missing entries N, G and n_i are those of
a feature, and all terms except tr S and the sum over i are summed over features.)

No learning is s = ∞: W = w I, and b is ``APART`` · w there. The log ratio then orders
pairs as their Euclidean distance does, up to a factor of order 1/``APART``. (With B = b
I the score would also shrink queries to the mean of all.) Every s is a prior of the
model, used by EM, the NumPyro model and draws; s = ∞ counts as ``INFINITE`` points.

s is chosen as in ``neighbors.strength``: sources are classes, and points are predicted
by the votes of the others. The dissimilarity is minus the log ratio (terms of the query
only cancel),

    D(q, y) = Σ_e ½ [ρ²(q² + y²) - 2ρ q y]/(1 - ρ²),                              (3)

in coordinates in which B + W is I and B is diag(ρ). EM in the folds runs on the host
(``learned``) and compiles nothing. See Benchmarks: few sources.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh

from probmetric.data.containers import Groups
from probmetric.inference.choose import choose_strength
from probmetric.inference.mixture.prior import default_prior
from probmetric.inference.solvers.result import Fit, Result
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior
from probmetric.neighbors.strength import (
    NEIGHBORS,
    STRENGTHS,
    vote_losses,
)
from probmetric.typing import Array

INFINITE = 1e9
"""Number of points of a prior of infinite strength."""

APART = 1e6
"""b/w at s = ∞."""

TOLERANCE, MOST_STEPS = 1e-4, 100
"""Tolerance of EM in folds, on W and B relative to their largest entry; its steps."""


class ChosenPrior(NamedTuple):
    """The prior, its strength, and the mean held-out loss of each strength."""

    prior: TwoStagePrior
    strength: float
    losses: Float[np.ndarray, "s"]


def seen_entries(
    X: Float[Array, "n d"], codes: Int[Array, "n"]
) -> Float[np.ndarray, "G d"]:
    """Count the observed entries of each feature in each source.

    Parameters
    ----------
    X : array of shape (n, d)
    codes : array of shape (n,)
        Sources 0..G-1.
    """
    return np.stack([np.bincount(codes, x) for x in ~np.isnan(X).T], 1)


def variances(X: Float[Array, "n d"], codes: Int[Array, "n"]) -> tuple[float, float]:
    """Compute w and b of Eq. (2).

    Parameters
    ----------
    X : array of shape (n, d)
        NaN entries are ignored.
    codes : array of shape (n,)
        Sources 0..G-1, at least two.

    Raises
    ------
    ValueError
        For one source, or if every source has one point: w and b are then not
        identified.
    """
    X, owner = np.asarray(X, float), np.unique(codes, return_inverse=True)[1]
    observed, size = ~np.isnan(X), seen_entries(X, owner)
    if len(size) < 2 or size.max() < 2:
        raise ValueError(
            "groups must have at least two sources, and one with two points or more, "
            f"got {len(size)} sources of {len(X)} points."
        )
    X = np.where(observed, X - np.nanmean(X, 0), 0.0)
    means = np.stack([np.bincount(owner, x) for x in X.T], 1) / np.maximum(size, 1)
    within = np.sum(np.where(observed, X - means[owner], 0.0) ** 2)
    return variances_of(float(within), float(np.sum(size * means**2)), size)


def variances_of(
    within: float, between: float, size: Float[Array, "G d"]
) -> tuple[float, float]:
    """Compute w and b of Eq. (2) from sums of squares.

    Parameters
    ----------
    within, between : float
        tr S and Σ_i n_i |x̄_i - x̄|².
    size : array of shape (G, d)
        Observed entries of each feature in each source.
    """
    size = np.asarray(size, float)
    n = size.sum(0)
    df_within = float(np.maximum(size - 1, 0).sum())
    df_between = float(((size > 0).sum(0) - 1).sum())
    each = float((n - np.sum(size**2, 0) / n).sum())
    w, of_means = within / max(df_within, 1.0), between / max(df_between, 1.0)
    # Points may not vary within sources; w must still be positive.
    w = max(w, 1e-6 * of_means) if w + of_means > 0 else 1.0
    return w, max((between - w * df_between) / max(each, 1.0), w / 20)


def prior_of(
    X: Float[Array, "n d"], codes: Int[Array, "n"], strength: float | int
) -> TwoStagePrior:
    """Make the prior of Eq. (1), for one component.

    Parameters
    ----------
    X : array of shape (n, d)
        Without missing entries.
    codes : array of shape (n,)
        Sources; see ``variances``.
    strength : float
        s > 0; ∞ counts as ``INFINITE``.
    """
    w, b = variances(X, codes)
    s, d = float(strength), np.shape(X)[1]
    if np.isinf(s):
        s, b = INFINITE, APART * w
    eye, df = np.eye(d), s + d + 1.0
    weak = default_prior(np.asarray(X), 1)
    return weak._replace(
        df=df, scale=s * b * eye, within_df=df, within_scale=s * w * eye
    )


def choose_prior(data: Groups, strengths: Sequence[float] = STRENGTHS) -> ChosenPrior:
    """Choose s of Eq. (1) by the votes of neighbors in folds.

    Parameters
    ----------
    data : Groups
        Unweighted, without missing entries; sources by codes 0..G-1.
    strengths : sequence of float
        From the strongest down.

    Returns
    -------
    ChosenPrior
        The prior is made from all points; in a fold, from its training points.

    Raises
    ------
    ValueError
        See ``variances``.
    """
    X, codes = np.asarray(data.X), np.asarray(data.group)
    variances(X, codes)

    def learn(rows: np.ndarray) -> list[TwoStageParams | None]:
        try:
            priors = [prior_of(X[rows], codes[rows], s) for s in strengths]
        except ValueError:  # Every source of the fold has one point.
            return [None] * len(strengths)
        sums, fits, last = sums_of(X[rows], codes[rows]), [], None
        for s, prior in zip(strengths, priors, strict=True):
            params = _at_prior_means(prior, sums.mean.mean(0))
            if np.isfinite(s):  # Warm start from the next stronger prior.
                params = last = learned(sums, prior, last or params)
            fits.append(params)
        return fits

    chosen = choose_strength(learn, X, codes, strengths, losses=_losses)
    prior = prior_of(X, codes, chosen.strength)
    return ChosenPrior(prior, chosen.strength, chosen.losses)


def _at_prior_means(prior: TwoStagePrior, center: np.ndarray) -> TwoStageParams:
    """Make the parameters at the prior means of W and B."""
    d = len(center)
    within = np.asarray(prior.within_scale) / (float(prior.within_df) - d - 1)
    between = np.asarray(prior.scale) / (float(prior.df) - d - 1)
    return TwoStageParams(np.ones(1), center[None], within[None], between[None])


class Sums(NamedTuple):
    """Sizes (G,), means (G, d) and scatter S (d, d) of the sources of one component."""

    size: Float[np.ndarray, "G"]
    mean: Float[np.ndarray, "G d"]
    scatter: Float[np.ndarray, "d d"]


def sums_of(X: Float[Array, "n d"], codes: Int[Array, "n"]) -> Sums:
    """Compute the sums for EM from points (n, d) and their sources (n,)."""
    owner = np.unique(codes, return_inverse=True)[1]
    size = np.bincount(owner).astype(float)
    total = np.stack([np.bincount(owner, x) for x in np.asarray(X).T], 1)
    mean = total / size[:, None]
    residual = np.asarray(X) - mean[owner]
    return Sums(size, mean, residual.T @ residual)


def learned(sums: Sums, prior: TwoStagePrior, start: TwoStageParams) -> TwoStageParams:
    """Fit W, B and μ of one component by EM, Eqs. (2)-(4) of ``groups``.

    EM runs on the host, where no number of points or sources compiles a program. It
    stops when a step changes no entry of W or B by more than ``TOLERANCE`` of the
    largest, which is sufficient for votes, or after ``MOST_STEPS``.

    Parameters
    ----------
    sums : Sums
        Unweighted, without missing entries.
    prior : TwoStagePrior
    start : TwoStageParams
        With one component.
    """
    n, G, d = sums.size[:, None], len(sums.size), sums.mean.shape[1]
    mu, W, B = (np.asarray(a)[0] for a in start[1:])
    m0, kappa = np.asarray(prior.mean), float(prior.strength)
    for _ in range(MOST_STEPS):
        a, V = eigh(W, B + W)
        a, back = np.clip(a, np.finfo(float).tiny, 1.0), (B + W) @ V
        u = (sums.mean - mu) @ V
        gain = (1 - a) / ((1 - a) + a / n)
        h, rest = gain * u, (1 - gain) * (1 - a)
        first = back @ h.sum(0)
        of_B = back @ (np.diag(rest.sum(0)) + h.T @ h) @ back.T
        of_W = np.diag((n * rest).sum(0)) + (n * (u - h)).T @ (u - h)
        of_W = sums.scatter + back @ of_W @ back.T
        step = (first + kappa * (m0 - mu)) / (G + kappa)
        cross, mu = np.outer(step, first), mu + step
        of_B = of_B - cross - cross.T + G * np.outer(step, step)
        of_B = of_B + prior.scale + kappa * np.outer(mu - m0, mu - m0)
        new_B = of_B / (G + prior.df + d + 2)
        new_W = (of_W + prior.within_scale) / (n.sum() + prior.within_df + d + 1)
        pairs = ((new_W, W), (new_B, B))
        moved = max(np.abs(new - old).max() / np.abs(new).max() for new, old in pairs)
        W, B = (new_W + new_W.T) / 2, (new_B + new_B.T) / 2
        if moved <= TOLERANCE:
            break
    return TwoStageParams(np.ones(1), mu[None], W[None], B[None])


def settled(end: Fit, strength: float | int) -> Fit:
    """Correct the result code of a fit under the prior of s = ∞.

    At s = ∞ one step is the mode, up to a factor of order 1/``INFINITE``. The terms of
    the prior are so large that their rounding errors may look like a falling objective.
    """
    if np.isinf(strength) and int(end.result) == Result.DECREASED:
        return end._replace(result=np.asarray(int(Result.CONVERGED)))
    return end


def _losses(
    params: TwoStageParams,
    X: np.ndarray,
    codes: np.ndarray,
    Q: np.ndarray,
    labels: np.ndarray,
) -> Float[np.ndarray, "b m"]:
    """Compute minus log P of each query's source, for every bandwidth."""
    near = np.sort(dissimilarity(params, X, X, own=False), 1)
    k = min(NEIGHBORS, len(X) - 1)
    spread = near[:, k - 1] - near[:, 0]  # Eq. (2) of ``neighbors.votes``
    median, positive = np.median(spread), spread[spread > 0]
    scale = median if median > 0 else np.median(positive) if len(positive) else 1.0
    return vote_losses(dissimilarity(params, Q, X), float(scale), codes, labels)


def dissimilarity(
    params: TwoStageParams,
    Q: Float[Array, "m d"],
    X: Float[Array, "n d"],
    *,
    own: bool = True,
) -> Float[np.ndarray, "m n"]:
    """Compute Eq. (3), minus the log ratio up to a constant, for one component.

    Parameters
    ----------
    params : TwoStageParams
    Q, X : arrays of shape (m, d), (n, d)
    own : bool, default=True
        If False, Q is X, and a point is infinitely far from itself.
    """
    W, B = np.asarray(params.within)[0], np.asarray(params.between)[0]
    a, V = eigh(W, B + W)
    a = np.clip(a, np.finfo(float).tiny, 1.0)  # Undo rounding errors.
    rho, rest = 1 - a, a * (2 - a)  # 1 - ρ² without cancellation
    Q, X = ((np.asarray(Z) - np.asarray(params.means)[0]) @ V for Z in (Q, X))
    square, cross = 0.5 * rho**2 / rest, rho / rest
    D = (Q**2 @ square)[:, None] + X**2 @ square - (Q * cross) @ X.T
    if not own:
        np.fill_diagonal(D, np.inf)
    return D
