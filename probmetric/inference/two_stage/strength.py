"""How strong a prior of W and B should be: chosen by soft votes of neighbours.

One component. A priori W and B are about isotropic ones, of the size that the sources
have: with w and b their variances of a feature, averaged over features,

    W ~ IW(s + d + 1, s w I),   B ~ IW(s + d + 1, s b I),
    E[W] = w I,   E[B] = b I,                                                     (1)

so that the first counts as s points and the second as s sources. Of N points in G
sources, n_i and mean x̄_i each, x̄ the mean of all and S the scatter within sources,

    w = tr S/(d (N - G)),   b = (Σ_i n_i |x̄_i - x̄|²/(d (G - 1)) - w)/n₀,
    n₀ = (N - Σ_i n_i²/N)/(G - 1),                                                (2)

the unbiased estimates, b at least w/20. (Where entries are missing N, G and n_i are
those of a feature, and all but tr S and the sum over i are summed over features.)

Not to learn is s = ∞: W = w I and, b being ``APART`` · w there, the log ratio orders
pairs as their Euclidean distance does, up to a part in ``APART``. (With B = b I the
score also pulls queries from the mean of all.) Every s is a prior of the model, so that
EM, the NumPyro model and draws know it; of s = ∞ one of ``KNOWN`` points.

s is chosen by ``neighbors.strength``: sources are classes, and points are predicted by
the votes of others, at dissimilarity minus the log ratio (of its terms those of the
query alone do not matter),

    D(q, y) = Σ_e ½ [ρ²(q² + y²) - 2ρ q y]/(1 - ρ²),                              (3)

in coordinates where B + W is I and B diag(ρ). ``benchmarks/accuracy.py`` has what it
was chosen on and where it was confirmed. EM in the folds is on the host (``learned``):
it compiles nothing.
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

KNOWN = 1e9
"""Points that a prior of infinite strength counts as."""

APART = 1e6
"""b/w at s = ∞."""

TOLERANCE, MOST_STEPS = 1e-4, 100
"""Of EM in folds, on W and B relative to their largest entry."""


class ChosenPrior(NamedTuple):
    """The prior, its strength, and the mean held-out loss of each that was tried."""

    prior: TwoStagePrior
    strength: float
    losses: Float[np.ndarray, "s"]


def seen_entries(
    X: Float[Array, "n d"], codes: Int[Array, "n"]
) -> Float[np.ndarray, "G d"]:
    """Return how many entries of each feature, NaN left out, each source has.

    Parameters
    ----------
    X : array of shape (n, d)
    codes : array of shape (n,)
        Sources 0..G-1.
    """
    return np.stack([np.bincount(codes, x) for x in ~np.isnan(X).T], 1)


def variances(X: Float[Array, "n d"], codes: Int[Array, "n"]) -> tuple[float, float]:
    """Return w and b of Eq. (2).

    Parameters
    ----------
    X : array of shape (n, d)
        NaN entries are left out.
    codes : array of shape (n,)
        Sources 0..G-1, of which there are two at least.

    Raises
    ------
    ValueError
        For one source, or for sources of one point each: nothing then tells w from b.
    """
    X, own = np.asarray(X, float), np.unique(codes, return_inverse=True)[1]
    seen, size = ~np.isnan(X), seen_entries(X, own)
    if len(size) < 2 or size.max() < 2:
        raise ValueError(
            "groups: expected two sources at least, and one of two points or more, got "
            f"{len(size)} sources of {len(X)} points"
        )
    X = np.where(seen, X - np.nanmean(X, 0), 0.0)
    means = np.stack([np.bincount(own, x) for x in X.T], 1) / np.maximum(size, 1)
    within = np.sum(np.where(seen, X - means[own], 0.0) ** 2)
    return variances_of(float(within), float(np.sum(size * means**2)), size)


def variances_of(
    within: float, between: float, size: Float[Array, "G d"]
) -> tuple[float, float]:
    """Return w and b of Eq. (2).

    Parameters
    ----------
    within, between : float
        tr S and Σ_i n_i |x̄_i - x̄|².
    size : array of shape (G, d)
        Entries seen of each feature in each source.
    """
    size = np.asarray(size, float)
    n = size.sum(0)
    some = float(np.maximum(size - 1, 0).sum())
    apart = float(((size > 0).sum(0) - 1).sum())
    each = float((n - np.sum(size**2, 0) / n).sum())
    found, means = within / max(some, 1.0), between / max(apart, 1.0)
    # Of points that do not vary within sources: not zero, or nothing could be.
    w = max(found, 1e-6 * means) if found + means > 0 else 1.0
    return w, max((between - w * apart) / max(each, 1.0), w / 20)


def prior_of(
    X: Float[Array, "n d"], codes: Int[Array, "n"], strength: float | int
) -> TwoStagePrior:
    """Return the prior of Eq. (1), for one component.

    Parameters
    ----------
    X : array of shape (n, d)
        Without missing entries.
    codes : array of shape (n,)
        Sources, as ``variances``.
    strength : float
        s > 0; ∞ counts as ``KNOWN``.
    """
    w, b = variances(X, codes)
    s, d = float(strength), np.shape(X)[1]
    if np.isinf(s):
        s, b = KNOWN, APART * w
    one, df = np.eye(d), s + d + 1.0
    weak = default_prior(np.asarray(X), 1)
    return weak._replace(
        df=df, scale=s * b * one, within_df=df, within_scale=s * w * one
    )


def choose_prior(data: Groups, strengths: Sequence[float] = STRENGTHS) -> ChosenPrior:
    """Choose s of Eq. (1) by the votes of neighbours in folds.

    Parameters
    ----------
    data : Groups
        Unweighted, without missing entries; sources by codes 0..G-1.
    strengths : sequence of float
        From the strongest down.

    Returns
    -------
    ChosenPrior
        The prior is made of all points, those of the folds of what they learn from.

    Raises
    ------
    ValueError
        As ``variances``.
    """
    X, codes = np.asarray(data.X), np.asarray(data.group)
    variances(X, codes)

    def learn(rows: np.ndarray) -> list[TwoStageParams | None]:
        try:
            priors = [prior_of(X[rows], codes[rows], s) for s in strengths]
        except ValueError:  # Sources of one point each are left.
            return [None] * len(strengths)
        sums, found, last = sums_of(X[rows], codes[rows]), [], None
        for s, prior in zip(strengths, priors, strict=True):
            params = _at_prior_means(prior, sums.mean.mean(0))
            if np.isfinite(s):  # A weaker prior starts where a stronger one ended.
                params = last = learned(sums, prior, last or params)
            found.append(params)
        return found

    chosen = choose_strength(learn, X, codes, strengths, losses=_losses)
    prior = prior_of(X, codes, chosen.strength)
    return ChosenPrior(prior, chosen.strength, chosen.losses)


def _at_prior_means(prior: TwoStagePrior, centre: np.ndarray) -> TwoStageParams:
    """Return W and B at their prior means."""
    d = len(centre)
    within = np.asarray(prior.within_scale) / (float(prior.within_df) - d - 1)
    between = np.asarray(prior.scale) / (float(prior.df) - d - 1)
    return TwoStageParams(np.ones(1), centre[None], within[None], between[None])


class Sums(NamedTuple):
    """Of one component's sources: sizes (G,), means (G, d) and scatter S (d, d)."""

    size: Float[np.ndarray, "G"]
    mean: Float[np.ndarray, "G d"]
    scatter: Float[np.ndarray, "d d"]


def sums_of(X: Float[Array, "n d"], codes: Int[Array, "n"]) -> Sums:
    """Return what EM needs of points (n, d) and their sources (n,)."""
    own = np.unique(codes, return_inverse=True)[1]
    size = np.bincount(own).astype(float)
    mean = np.stack([np.bincount(own, x) for x in np.asarray(X).T], 1) / size[:, None]
    rest = np.asarray(X) - mean[own]
    return Sums(size, mean, rest.T @ rest)


def learned(sums: Sums, prior: TwoStagePrior, start: TwoStageParams) -> TwoStageParams:
    """Return W, B and μ of one component by EM, Eqs. (2)-(4) of ``groups``.

    On the host, where no number of points or sources compiles a program; until a step
    moves no entry of W or B by more than ``TOLERANCE`` of the largest, which is enough
    to vote by, or ``MOST_STEPS``.

    Parameters
    ----------
    sums : Sums
        Unweighted, without missing entries.
    prior : TwoStagePrior
    start : TwoStageParams
        Of one component.
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
    """Return a fit under the prior of s, its outcome judged.

    At s = ∞ one step is the mode, to a part in ``KNOWN``; the prior's terms are so
    large that their rounding looks like an objective that falls.
    """
    if np.isinf(strength) and int(end.result) == Result.DECREASED:
        return end._replace(result=np.asarray(int(Result.CONVERGED)))
    return end


def _losses(
    params: TwoStageParams,
    X: np.ndarray,
    codes: np.ndarray,
    Q: np.ndarray,
    own: np.ndarray,
) -> Float[np.ndarray, "b m"]:
    """Return minus log P of each query's own source, for every bandwidth."""
    near = np.sort(dissimilarity(params, X, X, own=False), 1)
    k = min(NEIGHBORS, len(X) - 1)
    spread = near[:, k - 1] - near[:, 0]  # Eq. (2) of ``neighbors.votes``
    middle, some = np.median(spread), spread[spread > 0]
    scale = middle if middle > 0 else np.median(some) if len(some) else 1.0
    return vote_losses(dissimilarity(params, Q, X), float(scale), codes, own)


def dissimilarity(
    params: TwoStageParams,
    Q: Float[Array, "m d"],
    X: Float[Array, "n d"],
    *,
    own: bool = True,
) -> Float[np.ndarray, "m n"]:
    """Return Eq. (3), minus the log ratio up to a constant, of one component.

    Parameters
    ----------
    params : TwoStageParams
    Q, X : arrays of shape (m, d), (n, d)
    own : bool, default=True
        False: Q is X, and a point is infinitely far from itself.
    """
    W, B = np.asarray(params.within)[0], np.asarray(params.between)[0]
    a, V = eigh(W, B + W)
    a = np.clip(a, np.finfo(float).tiny, 1.0)  # Which rounding may miss.
    rho, rest = 1 - a, a * (2 - a)  # 1 - ρ² without cancellation
    Q, X = ((np.asarray(Z) - np.asarray(params.means)[0]) @ V for Z in (Q, X))
    square, cross = 0.5 * rho**2 / rest, rho / rest
    D = (Q**2 @ square)[:, None] + X**2 @ square - (Q * cross) @ X.T
    if not own:
        np.fill_diagonal(D, np.inf)
    return D
