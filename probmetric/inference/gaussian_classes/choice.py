"""The NIW prior with the smallest held-out loss in folds, computed without compilation.

With S_W the pooled covariance within the C classes of n points, S_W = Σ_c S_c/(n - C),
and T the diagonal matrix of the features' variances (I in standardized units), the
candidates are

    m₀ = mean of all points,  Ψ₀ = (ν₀ - D - 1) ((1 - a) S_W + a T),
    a = s/(s + n - C).                                                            (1)

ν₀ - D - 1 is the strength of the prior of a class covariance, in points. The larger it
is, the closer the class covariances are to a common covariance. The common covariance
has the prior mean T, which counts as s points. κ₀ is the strength of the prior of a
class mean, in points. At s = ∞ no covariance is learned. At κ₀ = 100 the class means
hardly differ from m₀, and predictions are the class shares.

The choice minimizes, over (s, ν₀, κ₀), the mean of -log P(y_i | x_i, other folds),
where P is the exact predictive probability of ``gaussian_classes.predict``. Every
quantity in Eq. (1) is computed from the training points of the fold. The prior of
highest evidence (``gaussian_classes.prior``) uses S_W twice, and therefore chooses too
small an a if n is near D.

Folds are stratified. Their number is at most the size of the smallest class with at
least two points, because held-out points without that class would reveal information on
their labels. With more than 1000 points, a stratified subset of 1000 points is
predicted. A class with one point is never predicted. See Benchmarks: few labels.

One decomposition is sufficient for all κ₀ and ν₀. Let A = Ψ₀ + S_c, g = x̄_c - m₀, r =
κ₀n_c/κ and t = κ₀/κ. The posterior has Ψ = A + r ggᵀ and x - m = x - x̄_c + t g. Let A
whiten x - x̄_c to W and g to G, and let u = W + t G. Then

    log|Ψ| = log|A| + log(1 + r G²),
    (x - m)ᵀΨ⁻¹(x - m) = u² - r (uᵀG)²/(1 + r G²).                                (2)

With Ψ₀ = e Ψ₁, e = ν₀ - D - 1 and Ψ₁ = RRᵀ, let R⁻¹S_cR⁻ᵀ = V diag(l) Vᵀ, of rank at
most n_c - 1. For z = R⁻¹(x - x̄_c), and in the same way for WᵀG and G²,

    W² = z²/e + Σ_i (v_iᵀz)² (1/(e + l_i) - 1/e),
    log|A| = log|Ψ₁| + D log e + Σ_i log(1 + l_i/e).                              (3)
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import LinAlgError, cholesky, get_lapack_funcs, solve_triangular
from scipy.special import gammaln

from probmetric.data.containers import Labeled
from probmetric.data.hash import first_best
from probmetric.inference.choose import choose
from probmetric.inference.gaussian_classes.posterior import ClassStatistics
from probmetric.models.gaussian_classes import Covariance, NIWPrior
from probmetric.neighbors.strength import ONCE, Fold, folds, some_voters

STRENGTHS = (np.inf, 256.0, 64.0, 16.0, 4.0)
"""Grid of s in Eq. (1), in points."""

EXCESS = (1e6, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
"""Grid of ν₀ - D - 1; the first is effectively one covariance for all classes."""

KAPPA = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.01)
"""Grid of κ₀."""

N_FITS = 15
"""Number of fits in folds over all repeats; with many points, a third of it."""

MOST_FOLDS = 5

TOGETHER = 2**18
"""Approximate number of values computed at once, because small arrays are slow."""


class Strengths(NamedTuple):
    """The numbers s, ν₀ - D - 1 and κ₀ of the prior, Eq. (1)."""

    s: float
    excess: float
    kappa: float


class ChosenPrior(NamedTuple):
    """The chosen prior, its strengths, and mean held-out losses on the grid."""

    prior: NIWPrior
    strengths: Strengths
    losses: Float[np.ndarray, "s e k"]


def choose_prior(
    data: Labeled,
    n_classes: int,
    *,
    covariance: Covariance = "full",
    alpha: float | int = 1.0,
) -> ChosenPrior:
    """Choose the NIW prior, Eq. (1), of smallest held-out loss (unweighted points).

    The prior is computed from all points. It is NaN if every class has only equal
    points. For equal losses the prior with the largest s, then ν₀, then κ₀ is chosen.
    """
    X, codes = np.asarray(data.X, float), np.asarray(data.y)
    shape, voters = (len(EXCESS), len(KAPPA)), some_voters(X, codes)
    prior_at = partial(
        prior_of, statistics_of(X, codes, n_classes), covariance=covariance, alpha=alpha
    )
    _, first, of_class = np.unique(codes, return_index=True, return_inverse=True)
    if np.all(X == X[first][of_class]):
        strongest = Strengths(STRENGTHS[0], EXCESS[0], KAPPA[0])
        nothing = (np.full(np.shape(part), np.nan) for part in prior_at(strongest))
        losses = np.zeros((len(STRENGTHS), *shape))
        return ChosenPrior(NIWPrior(*nothing), strongest, losses)

    def learn(rows: np.ndarray) -> list[tuple[ClassStatistics, float]]:
        stats = statistics_of(X[rows], codes[rows], n_classes)
        return [(stats, s) for s in STRENGTHS]

    def losses_of(
        model: tuple[ClassStatistics, float], fold: Fold
    ) -> Float[np.ndarray, "e k m"]:
        rows = fold.asked
        places = np.arange(len(rows)), codes[rows]
        blocks = _log_joints(*model, X[rows], covariance, float(alpha))
        parts = [np.logaddexp.reduce(b, -1) - b[..., *places] for b in blocks]
        return np.concatenate(parts)

    best, losses = choose(
        STRENGTHS,
        learn,
        losses_of,
        _least_loss,
        folds=folds_of(X, codes),
        name="prior_strength",
        points=voters[np.bincount(codes)[codes[voters]] > 1],
        shape=shape,
    )
    return ChosenPrior(prior_at(best), best, losses)


def _least_loss(
    losses: Float[np.ndarray, "s e k n"], _: object
) -> tuple[Strengths, Float[np.ndarray, "s e k"]]:
    """Choose the strengths of smallest mean loss; NaN counts as infinite."""
    means = losses.mean(-1)
    means = np.where(np.isfinite(means), means, np.inf)
    s, e, k = np.unravel_index(first_best(-means), means.shape)
    return Strengths(STRENGTHS[s], EXCESS[e], KAPPA[k]), means


def folds_of(
    X: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]
) -> Iterator[Fold]:
    """Make stratified folds; the module docstring limits their number."""
    members = np.bincount(codes)
    n_folds = int(min(MOST_FOLDS, *members[members > 1], len(X)))
    n_fits = N_FITS if len(X) < ONCE else MOST_FOLDS
    return folds(X, codes, n_folds, n_fits // n_folds)


def statistics_of(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    n_classes: int | None = None,
    w: Float[np.ndarray, "n"] | None = None,
) -> ClassStatistics:
    """Compute ``posterior.statistics`` by NumPy, without compilation."""
    c, d = n_classes or int(codes.max()) + 1, X.shape[1]
    counted: Any = np.bincount(codes, w, minlength=c)  # pyright: ignore[reportCallIssue, reportArgumentType]
    n, mean, scatter = counted.astype(float), np.zeros((c, d)), np.zeros((c, d, d))
    for k in np.flatnonzero(n):
        rows, share = X[codes == k], None if w is None else w[codes == k]
        mean[k] = rows.mean(0) if share is None else share @ rows / n[k]
        delta = rows - mean[k]
        left = delta if share is None else delta * share[:, None]
        scatter[k] = left.T @ delta
    return ClassStatistics(n, mean, scatter)


def prior_of(
    stats: ClassStatistics,
    strengths: Strengths,
    *,
    covariance: Covariance = "full",
    alpha: float | int = 1.0,
) -> NIWPrior:
    """Compute the NIW prior, Eq. (1); s may be ∞. "diagonal" uses D = 1 in ν₀."""
    s, excess, kappa = strengths
    n, d = np.sum(stats.n), stats.mean.shape[1]
    free = max(n - np.sum(stats.n > 0), 0.0)
    a = 1.0 if free == 0 or np.isinf(s) else s / (s + free)
    grand = stats.n @ stats.mean / n
    within = np.sum(stats.scatter, 0)
    t = (np.diag(within) + stats.n @ (stats.mean - grand) ** 2) / n
    T = np.diag(np.where(t > 0, t, 1.0))  # Any value for constant columns.
    center = (1 - a) * within / max(free, 1.0) + a * T
    nu = excess + (1 if covariance == "diagonal" else d) + 1
    numbers = (np.asarray(float(v)) for v in (kappa, nu, alpha))
    return NIWPrior(grand, excess * center, *numbers)


def _log_joints(
    stats: ClassStatistics,
    s: float,
    Q: Float[np.ndarray, "m d"],
    covariance: Covariance,
    alpha: float,
) -> Iterator[Float[np.ndarray, "e k m c"]]:
    """Compute log P(class, query), up to a constant, for every κ₀ and blocks of ν₀."""
    n, d, kappa = stats.n, Q.shape[1], np.array(KAPPA)[:, None]
    grand = n @ stats.mean / np.sum(n)
    centers = np.where(n[:, None] > 0, stats.mean, grand)
    delta, gap = Q[None] - centers[:, None], centers - grand
    log_weights = np.log(alpha + n)
    at_kappa = kappa / (kappa + n), kappa * n / (kappa + n)  # t and r of Eq. (2)
    scale = (kappa + n + 1) / (kappa + n)  # Times Ψ/df: the scale matrix.
    order = 1 if covariance == "diagonal" else d
    members = np.full(len(n), np.sum(n)) if covariance == "tied" else n
    size = max(1, delta.size // (d if covariance == "full" else 1))
    together = max(1, TOGETHER // (len(KAPPA) * size))
    unit = prior_of(stats, Strengths(s, 1.0, 1.0), covariance=covariance)
    problem = _Problem(np.asarray(unit.Psi), stats, delta, gap, at_kappa)
    forms = FORMS[covariance](problem)
    for first in range(0, len(EXCESS), together):
        excess = np.array(EXCESS[first : first + together])[:, None, None]
        log_det, squares = forms(excess)
        df = unit.nu - 1 + excess + members - order + 1
        peak = gammaln((df + order) / 2) - gammaln(df / 2)
        peak = peak - 0.5 * order * np.log(scale)
        if covariance == "diagonal":
            tails = np.sum(np.log1p(squares / scale[..., None, None]), -1)
        else:
            tails = np.log1p(squares / scale[..., None])
        density = (peak * (d // order) - 0.5 * log_det)[..., None]
        density = density - ((df + order) / 2)[..., None] * tails
        yield log_weights + np.swapaxes(density, 2, 3)


class _Problem(NamedTuple):
    """Ψ₀, class statistics, ``delta`` x - x̄_c, ``gap`` g, and t and r of Eq. (2)."""

    Psi: Float[np.ndarray, "d d"]
    stats: ClassStatistics
    delta: Float[np.ndarray, "c m d"]
    gap: Float[np.ndarray, "c d"]
    at_kappa: tuple[Float[np.ndarray, "k c"], Float[np.ndarray, "k c"]]


type _Excess = Float[np.ndarray, "e 1 1"]
type _Both = tuple[Float[np.ndarray, "e k c"], Float[np.ndarray, "e k c m *d"]]
type _Forms = Callable[[_Excess], _Both]
"""Computes log|Ψ| and (x - m)ᵀΨ⁻¹(x - m) for some values of ν₀ - D - 1."""


def _full(problem: _Problem) -> _Forms:
    Psi, stats, delta, gap, at_kappa = problem
    t, r = (v[..., None] for v in at_kappa)
    root = cholesky(Psi, lower=True)
    half = partial(solve_triangular, root, lower=True, check_finite=False)
    queries, g = half((delta[0] + gap[0]).T).T, half(gap.T).T
    spectra = [_spectrum(scatter, half) for scatter in np.asarray(stats.scatter)]
    whole: list[tuple[np.ndarray, ...]] = []  # z² of Eq. (3) for W, W with G, and G.
    parts: list[tuple[np.ndarray, ...]] = []  # (v_iᵀz)² alike.
    for row, (_, axes) in zip(g, spectra, strict=True):
        z = queries - row
        on, by = z @ axes, row @ axes
        whole.append((np.einsum("md,md->m", z, z), z @ row, (row @ row)[None]))
        parts.append((on**2, on * by, (by**2)[None]))

    def forms(excess: _Excess) -> _Both:
        e = excess[:, 0]
        less = [1 / (e + values) - 1 / e for values, _ in spectra]
        WW, WG, GG = (
            np.stack(
                [
                    a[kind] / e + u @ b[kind].T
                    for a, b, u in zip(whole, parts, less, strict=True)
                ],
                1,
            )
            for kind in range(3)
        )
        WG, GG = WG[:, None], GG[:, None]
        uG, u2 = WG + t * GG, WW[:, None] + 2 * t * WG + t**2 * GG
        squares = np.maximum(u2 - r / (1 + r * GG) * uG**2, 0.0)  # Eq. (2)
        each = [np.log1p(values / excess[:, 0]).sum(1) for values, _ in spectra]
        log_det = 2 * np.sum(np.log(np.diag(root))) + len(root) * np.log(excess[..., 0])
        log_det = (log_det + np.stack(each, 1))[:, None]
        return log_det + np.log1p(r * GG)[..., 0], squares

    return forms


def _spectrum(
    scatter: Float[np.ndarray, "d d"], half: Callable[[np.ndarray], np.ndarray]
) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "d r"]]:
    """Return the positive eigenvalues l and vectors V of R⁻¹ S_c R⁻ᵀ, Eq. (3)."""
    (factor,) = get_lapack_funcs(("pstrf",), (scatter,))
    lower, pivots, rank, info = factor(scatter, lower=True)
    if info < 0 or not np.isfinite(scatter).all():
        raise LinAlgError("X: the scatter of the rows must be finite. Rescale X.")
    columns = np.empty((len(scatter), rank))
    columns[pivots - 1] = np.tril(lower[:, :rank])
    white = half(columns)
    values, vectors = np.linalg.eigh(white.T @ white)
    there = values > values[-1:] * len(scatter) * np.finfo(float).eps
    values, vectors = values[there], vectors[:, there]
    return values, white @ vectors / np.sqrt(values)


def _tied(problem: _Problem) -> _Forms:
    Psi, stats, delta, gap, at_kappa = problem
    t, r = at_kappa
    scatter = np.sum(stats.scatter, 0) + np.einsum("kc,ci,cj->kij", r, gap, gap)
    u = delta + t[..., None, None] * gap[:, None]
    queries = np.swapaxes(u.reshape(len(t), -1, u.shape[-1]), 1, 2)

    def forms(excess: _Excess) -> _Both:
        L = np.linalg.cholesky((excess * Psi)[:, None] + scatter)
        white = np.linalg.solve(L, queries)
        log_det = 2 * np.sum(np.log(np.diagonal(L, axis1=2, axis2=3)), 2)
        squares = np.sum(white**2, 2).reshape(len(excess), *u.shape[:3])
        return np.repeat(log_det[..., None], len(gap), 2), squares

    return forms


def _diagonal(problem: _Problem) -> _Forms:
    Psi, stats, delta, gap, at_kappa = problem
    t, r = (v[..., None] for v in at_kappa)
    u = delta + (t * gap)[:, :, None]

    def forms(excess: _Excess) -> _Both:
        scale = (excess * Psi)[:, None] + stats.scatter
        scale = np.diagonal(scale, axis1=2, axis2=3)[:, None] + r * gap**2
        return np.sum(np.log(scale), -1), u**2 / scale[:, :, :, None]

    return forms


FORMS = {"full": _full, "tied": _tied, "diagonal": _diagonal}
