"""Choice of the strength of the prior of W and B by soft votes of neighbors.

The model has one component. The prior means of W and B are isotropic matrices on the
scale of the data. Let w and b be the variances of a feature within and between sources,
averaged over features. Then

    W ~ IW(s + d + 1, s w I),   B ~ IW(s + d + 1, s b I),
    E[W] = w I,   E[B] = b I,                                                     (1)

and the prior of W counts as s points, and the prior of B as s sources. Let N points be
in G sources. Source i has n_i points with mean x̄_i. x̄ is the mean of all points, and
S is the scatter within sources. The estimates are

    w = tr S/(d (N - G)),   b = (Σ_i n_i |x̄_i - x̄|²/(d (G - 1)) - w)/n₀,
    n₀ = (N - Σ_i n_i²/N)/(G - 1),                                                (2)

The estimates are unbiased, except that b is at least w/20. With missing entries, N, G
and n_i depend on the feature, and all terms except tr S and the sum over i are summed
over features.

With s = ∞, nothing is learned: W = w I and B = b I with b = ``APART`` · w. The log
ratio then orders pairs by Euclidean distance, up to a relative error of order
1/``APART``. (With b of Eq. (2), the score would also shrink queries to the mean of all
points.) Every s defines a prior of the model, which EM, the NumPyro model and draws
use. s = ∞ is computed as ``INFINITE`` points.

s is chosen as in ``neighbors.strength``. Sources are the classes, and votes of other
points predict the source of a point. The dissimilarity is minus the log ratio, without
terms that depend only on the query,

    D(q, y) = Σ_e ½ [ρ²(q² + y²) - 2ρ q y]/(1 - ρ²),                              (3)

in coordinates in which B + W is I and B is diag(ρ). EM in the folds runs in NumPy
(``learned``) and compiles nothing. For measurements, see Benchmarks: few sources.
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
from probmetric.neighbors.strength import NEIGHBORS, STRENGTHS, vote_losses
from probmetric.typing import Array

INFINITE = 1e9
"""Number of points of a prior of infinite strength."""

APART = 1e6
"""b/w at s = ∞."""

TOLERANCE, MOST_STEPS = 1e-4, 100
"""Tolerance of EM in folds, relative to the largest entry of W and B; its steps."""


class ChosenPrior(NamedTuple):
    """The chosen prior, its strength, and the mean held-out loss of each strength."""

    prior: TwoStagePrior
    strength: float
    losses: Float[np.ndarray, "s"]


def seen_entries(
    X: Float[Array, "n d"], codes: Int[Array, "n"]
) -> Float[np.ndarray, "G d"]:
    """Count the observed entries of each feature in each source 0..G-1."""
    return np.stack([np.bincount(codes, x) for x in ~np.isnan(X).T], 1)


def variances(X: Float[Array, "n d"], codes: Int[Array, "n"]) -> tuple[float, float]:
    """Estimate w and b, Eq. (2), without NaN; raise if they are not identified."""
    X, owner = np.asarray(X, float), np.unique(codes, return_inverse=True)[1]
    observed, size = ~np.isnan(X), seen_entries(X, owner)
    if len(size) < 2 or size.max() < 2:
        raise ValueError(
            "groups must contain at least two sources, one of them with two or more "
            f"points, got {len(size)} sources of {len(X)} points."
        )
    X = np.where(observed, X - np.nanmean(X, 0), 0.0)
    means = np.stack([np.bincount(owner, x) for x in X.T], 1) / np.maximum(size, 1)
    within = np.sum(np.where(observed, X - means[owner], 0.0) ** 2)
    return variances_of(float(within), float(np.sum(size * means**2)), size)


def variances_of(
    within: float, between: float, size: Float[Array, "G d"]
) -> tuple[float, float]:
    """Estimate w and b, Eq. (2), from tr S, Σ_i n_i |x̄_i - x̄|² and ``seen_entries``."""
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
    """Make the prior of W and B with strength s, Eq. (1), from complete points."""
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
    """Choose the strength s of the prior, Eq. (1), by cross-validated neighbor votes.

    Points are unweighted and complete, and come from sources 0..G-1. ``strengths``
    begins with the strongest prior. The returned prior is computed from all points.
    ValueError is raised if ``variances`` raises it.
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
    d = len(center)
    within = np.asarray(prior.within_scale) / (float(prior.within_df) - d - 1)
    between = np.asarray(prior.scale) / (float(prior.df) - d - 1)
    return TwoStageParams(np.ones(1), center[None], within[None], between[None])


class Sums(NamedTuple):
    """Sizes and means of sources, and scatter S within sources."""

    size: Float[np.ndarray, "G"]
    mean: Float[np.ndarray, "G d"]
    scatter: Float[np.ndarray, "d d"]


def sums_of(X: Float[Array, "n d"], codes: Int[Array, "n"]) -> Sums:
    """Compute the sums for EM from complete, unweighted points and source codes."""
    owner = np.unique(codes, return_inverse=True)[1]
    size = np.bincount(owner).astype(float)
    total = np.stack([np.bincount(owner, x) for x in np.asarray(X).T], 1)
    mean = total / size[:, None]
    residual = np.asarray(X) - mean[owner]
    return Sums(size, mean, residual.T @ residual)


def learned(sums: Sums, prior: TwoStagePrior, start: TwoStageParams) -> TwoStageParams:
    """Fit W, B and μ of one component by EM, Eqs. (2)-(4) of ``groups``.

    EM runs in NumPy and compiles nothing. EM stops when no entry of W or B changes by
    more than ``TOLERANCE`` times the largest entry, which is sufficient for votes, or
    after ``MOST_STEPS`` steps.
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

    At s = ∞ one EM step reaches the posterior mode, up to a relative error of order
    1/``INFINITE``. The terms of the prior are so large that their rounding errors may
    look like a decreasing objective.
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
    """Compute Eq. (3) for one component; infinite to itself if not ``own``."""
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
