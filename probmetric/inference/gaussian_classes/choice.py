"""The NIW prior that predicts held-out classes best: folds, without compilation.

With S_W the pooled covariance within the C classes of n points, S_W = Σ_c S_c/(n - C),
and T the diagonal matrix of the features' variances, I in standardised units, the
priors tried are

    m₀ = mean of all points,  Ψ₀ = (ν₀ - D - 1) ((1 - a) S_W + a T),
    a = s/(s + n - C).                                                            (1)

The classes have covariances about a common one (ν₀ - D - 1: how alike, in points), and
that has T as its own prior mean, worth s points; κ₀ says how alike their means are.
To learn next to nothing is among them: at s = ∞ no covariance, at κ₀ = 100 hardly a
mean, and the class shares are predicted.

For each of (s, ν₀, κ₀) the loss is the mean of -log P(y_i | x_i, other folds), P the
exact predictive probability of ``gaussian_classes.predict``; the least is chosen. All
of (1) is of the points that are learned from, and nothing is used twice. The evidence
of a Ψ₀ made of the same S_W (``gaussian_classes.prior``) takes too small an a where n
is near D. A rule of half a standard error, as for votes, was worse.

Folds are stratified, and no more than the smallest class of two or more has members:
otherwise the fold's own classes would be known by what they lack. Of more than 1000
points, 1000 are predicted, in the shares of the classes; who is alone in a class is
learned from and not predicted.

One factor serves all κ₀. With A = Ψ₀ + S_c, g = x̄_c - m₀, r = κ₀n_c/κ and t = κ₀/κ the
posterior has Ψ = A + r ggᵀ and x - m = x - x̄_c + t g. With W, G the whitened x - x̄_c
and g, by A, and u = W + t G,

    log|Ψ| = log|A| + log(1 + r G²),
    (x - m)ᵀΨ⁻¹(x - m) = u² - r (uᵀG)²/(1 + r G²).                                (2)

The grid and the rule were chosen on three splits of eleven data sets and confirmed on
others (``benchmarks/accuracy.py``).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from probmetric.data.containers import Labelled
from probmetric.data.hash import first_best
from probmetric.inference.gaussian_classes.posterior import ClassStatistics
from probmetric.models.gaussian_classes import Covariance, NIWPrior
from probmetric.neighbors.strength import ONCE, Fold, folds

STRENGTHS = (np.inf, 256.0, 64.0, 16.0, 4.0)
"""Grid of s in Eq. (1), in points."""

EXCESS = (1e6, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
"""Grid of ν₀ - D - 1; the first is one covariance for all classes, in effect."""

KAPPA = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.01)
"""Grid of κ₀."""

N_FITS = 15
"""Folds learned from, over all repeats; of many points a third of them."""

MOST_FOLDS = 5

TOGETHER = 2**18
"""Numbers, about, that are computed at once: many small arrays cost more than large."""


class Strengths(NamedTuple):
    """The three numbers of Eq. (1): s, ν₀ - D - 1 and κ₀."""

    s: float
    excess: float
    kappa: float


class ChosenPrior(NamedTuple):
    """The prior, its numbers, and the mean held-out loss by (s, ν₀ - D - 1, κ₀)."""

    prior: NIWPrior
    strengths: Strengths
    losses: Float[np.ndarray, "s e k"]


def choose_prior(
    data: Labelled,
    n_classes: int,
    *,
    covariance: Covariance = "full",
    alpha: float | int = 1.0,
) -> ChosenPrior:
    """Return the prior (1) of least held-out loss.

    Parameters
    ----------
    data : Labelled
        Whole rows, without weights.
    n_classes : int
    covariance : {"full", "tied", "diagonal"}
    alpha : float, default=1
        Dirichlet concentration of the class weights, not chosen.

    Returns
    -------
    ChosenPrior
        The prior is made of all points; NaN throughout where they are equal within
        their classes. Of equal losses the first of the grids, which is the strongest:
        s decides before ν₀, and ν₀ before κ₀.

    Examples
    --------
    Of classes of variances 1 and 100 the prior chosen shares little between the classes
    (excess 1, the least of its grid):

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import gaussian_classes
    >>> y = np.arange(20) % 2
    >>> X = np.random.default_rng(0).normal(size=(20, 1)) * (1 + 9 * y[:, None])
    >>> found = gaussian_classes.choose_prior(Labelled(X, y), 2)
    >>> found.strengths.excess, found.losses.shape
    (1.0, (5, 7, 8))
    """
    X, codes = np.asarray(data.X, float), np.asarray(data.y)
    whole = statistics_of(X, codes, n_classes)
    losses, scored = np.zeros((len(STRENGTHS), len(EXCESS), len(KAPPA))), 0
    first = np.unique(codes, return_index=True)
    varied = np.any(X != X[first[1][np.searchsorted(first[0], codes)]])
    for learned, _, asked in folds_of(X, codes) if varied else ():
        stats = statistics_of(X[learned], codes[learned], n_classes)
        asked = asked[stats.n[codes[asked]] > 0]
        scored += len(asked)
        places = np.arange(len(asked)), codes[asked]
        for at, found in _log_joints(stats, X[asked], covariance, float(alpha)):
            total = np.logaddexp.reduce(found, -1)
            losses[at] += np.sum(total - found[..., *places], -1)
    losses = np.where(np.isfinite(losses), losses, np.inf) / max(scored, 1)
    s, e, k = np.unravel_index(first_best(-losses), losses.shape)
    best = Strengths(STRENGTHS[s], EXCESS[e], KAPPA[k])
    prior = prior_of(whole, best, covariance=covariance, alpha=alpha)
    if not varied:
        prior = NIWPrior(*(np.full(np.shape(part), np.nan) for part in prior))
    return ChosenPrior(prior, best, losses)


def folds_of(
    X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]
) -> Iterator[Fold]:
    """Yield folds, no more than the smallest class of two or more has members."""
    members = np.bincount(codes)
    n_folds = int(min(MOST_FOLDS, *members[members > 1], len(X)))
    n_fits = N_FITS if len(X) < ONCE else MOST_FOLDS
    return folds(X, codes, n_folds, n_fits // n_folds)


def statistics_of(
    X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"], n_classes: int
) -> ClassStatistics:
    """Return ``posterior.statistics``, on the host."""
    n, d = np.bincount(codes, minlength=n_classes).astype(float), X.shape[1]
    mean, scatter = np.zeros((n_classes, d)), np.zeros((n_classes, d, d))
    for k in np.flatnonzero(n):
        own = X[codes == k]
        mean[k] = own.mean(0)
        scatter[k] = (own - mean[k]).T @ (own - mean[k])
    return ClassStatistics(n, mean, scatter)


def prior_of(
    stats: ClassStatistics,
    strengths: Strengths,
    *,
    covariance: Covariance = "full",
    alpha: float | int = 1.0,
) -> NIWPrior:
    """Return the prior (1) of points with these statistics.

    Parameters
    ----------
    stats : ClassStatistics
    strengths : Strengths
        s from 0 to ∞ points, ν₀ - D - 1 > 0, κ₀ > 0.
    covariance : {"full", "tied", "diagonal"}
        "diagonal": the prior of one feature, D = 1 in ν₀.
    alpha : float, default=1
    """
    s, excess, kappa = strengths
    n, d = np.sum(stats.n), stats.mean.shape[1]
    free = max(n - np.sum(stats.n > 0), 0.0)
    a = 1.0 if free == 0 or np.isinf(s) else s / (s + free)
    grand = stats.n @ stats.mean / n
    within = np.sum(stats.scatter, 0)
    t = (np.diag(within) + stats.n @ (stats.mean - grand) ** 2) / n
    T = np.diag(np.where(t > 0, t, 1.0))  # Of what does not vary: any.
    center = (1 - a) * within / max(free, 1.0) + a * T
    nu = excess + (1 if covariance == "diagonal" else d) + 1
    numbers = (np.asarray(float(v)) for v in (kappa, nu, alpha))
    return NIWPrior(grand, excess * center, *numbers)


def _log_joints(
    stats: ClassStatistics,
    Q: Float[np.ndarray, "m d"],
    covariance: Covariance,
    alpha: float,
) -> Iterator[tuple[tuple[int, slice], Float[np.ndarray, "e k m c"]]]:
    """Yield places in the grids of s and ν₀, and log P(class, query) for every κ₀.

    Up to a constant. Eq. (2) of ``posterior`` from the squares (x - m)ᵀΨ⁻¹(x - m), one
    by one where features are independent.
    """
    n, d, kappa = stats.n, Q.shape[1], np.array(KAPPA)[:, None]
    grand = n @ stats.mean / np.sum(n)
    middle = np.where(n[:, None] > 0, stats.mean, grand)
    delta, gap = Q[None] - middle[:, None], middle - grand
    log_weights = np.log(alpha + n)
    at_kappa = kappa / (kappa + n), kappa * n / (kappa + n)  # t and r
    reach = (kappa + n + 1) / (kappa + n)  # of the scale matrix, times 1/df
    order = 1 if covariance == "diagonal" else d
    members = np.full(len(n), np.sum(n)) if covariance == "tied" else n
    together = max(1, TOGETHER // (len(KAPPA) * max(delta.size, 1)))
    for i, s in enumerate(STRENGTHS):
        one = prior_of(stats, Strengths(s, 1.0, 1.0), covariance=covariance)
        for first in range(0, len(EXCESS), together):
            at = slice(first, first + together)
            excess = np.array(EXCESS[at])[:, None, None]
            log_det, squares = FORMS[covariance](
                excess * one.Psi, stats, delta, gap, at_kappa
            )
            df = one.nu - 1 + excess + members - order + 1
            each = gammaln((df + order) / 2) - gammaln(df / 2)
            each = each - 0.5 * order * np.log(reach)
            if covariance == "diagonal":
                tails = np.sum(np.log1p(squares / reach[..., None, None]), -1)
            else:
                tails = np.log1p(squares / reach[..., None])
            density = (each * (d // order) - 0.5 * log_det)[..., None]
            density = density - ((df + order) / 2)[..., None] * tails
            yield (i, at), log_weights + np.swapaxes(density, 2, 3)


type _AtKappa = tuple[Float[np.ndarray, "k c"], Float[np.ndarray, "k c"]]
type _Forms = tuple[Float[np.ndarray, "e k c"], Float[np.ndarray, "e k c m *d"]]
"""log|Ψ|, and squares of each query."""


def _full(
    Psi: Float[np.ndarray, "e d d"],
    stats: ClassStatistics,
    delta: Float[np.ndarray, "c m d"],
    gap: Float[np.ndarray, "c d"],
    at_kappa: _AtKappa,
) -> _Forms:
    t, r = (v[..., None] for v in at_kappa)
    L = np.linalg.cholesky(Psi[:, None] + stats.scatter)
    both = np.concatenate([delta, gap[:, None]], 1)
    white = np.linalg.solve(L, np.swapaxes(both, 1, 2))
    W, G = white[..., :-1], white[..., -1]
    WG = np.einsum("ecdm,ecd->ecm", W, G)[:, None]
    GG = np.sum(G**2, 2)[:, None, :, None]
    uG, u2 = WG + t * GG, np.sum(W**2, 2)[:, None] + 2 * t * WG + t**2 * GG
    squares = np.maximum(u2 - r / (1 + r * GG) * uG**2, 0.0)  # Eq. (2)
    log_det = 2 * np.sum(np.log(np.diagonal(L, axis1=2, axis2=3)), 2)
    return log_det[:, None] + np.log1p(r * GG)[..., 0], squares


def _tied(
    Psi: Float[np.ndarray, "e d d"],
    stats: ClassStatistics,
    delta: Float[np.ndarray, "c m d"],
    gap: Float[np.ndarray, "c d"],
    at_kappa: _AtKappa,
) -> _Forms:
    t, r = at_kappa
    Psi = Psi[:, None] + np.sum(stats.scatter, 0)
    L = np.linalg.cholesky(Psi + np.einsum("kc,ci,cj->kij", r, gap, gap))
    u = delta + t[..., None, None] * gap[:, None]
    white = np.linalg.solve(L, np.swapaxes(u.reshape(len(t), -1, u.shape[-1]), 1, 2))
    log_det = 2 * np.sum(np.log(np.diagonal(L, axis1=2, axis2=3)), 2)
    squares = np.sum(white**2, 2).reshape(len(Psi), *u.shape[:3])
    return np.repeat(log_det[..., None], len(gap), 2), squares


def _diagonal(
    Psi: Float[np.ndarray, "e d d"],
    stats: ClassStatistics,
    delta: Float[np.ndarray, "c m d"],
    gap: Float[np.ndarray, "c d"],
    at_kappa: _AtKappa,
) -> _Forms:
    t, r = (v[..., None] for v in at_kappa)
    own = np.diagonal(Psi[:, None] + stats.scatter, axis1=2, axis2=3)
    scale = own[:, None] + r * gap**2
    u = delta + (t * gap)[:, :, None]
    return np.sum(np.log(scale), -1), u**2 / scale[:, :, :, None]


FORMS = {"full": _full, "tied": _tied, "diagonal": _diagonal}
