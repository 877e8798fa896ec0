"""LDA and RCA: the metrics of Gaussian classes with one covariance.

The model is ``models.gaussian_classes`` with ``covariance="tied"``: μ_c, Σ ~ NIW and x
| y ~ N(μ_y, Σ). Class c has n_c points, mean x̄_c and scatter S_c. The posterior, Eq.
(1) of ``gaussian_classes.posterior``, has

    m_c = m + n_c/(κ + n_c) (x̄_c - m),                                             (1)
    Σ_W = E[Σ | data] = Ψ/(ν - d - 1),   ν = ν₀ + n,
    Ψ = Ψ₀ + Σ_c S_c + Σ_c κ n_c/(κ + n_c) (x̄_c - m)(x̄_c - m)ᵀ.                    (2)

``shrinkage_prior(T, s)`` is κ = 0 (flat means), Ψ₀ = s T, ν₀ = s + d + 1. Under this
prior Σ has the mean T, which counts as s points:

    Σ_W = (S + s T)/(n + s),      s = 0: maximum likelihood.                       (3)

``choose_strength`` chooses s in folds, with s = ∞ among the candidates. With s = ∞
nothing is learned: Σ_W = T, computed with ``INFINITE`` points. With class weights π_c
and Σ_B = Σ_c π_c (m_c - m̄)(m_c - m̄)ᵀ, LDA takes the k largest solutions of

    Σ_B u = λ Σ_W u,      UᵀΣ_W U = I,      metric M = U Uᵀ,   k ≤ min(C - 1, d).   (4)

With k = C - 1, distances between class means under M equal distances under Σ_W⁻¹. RCA
uses the full metric M = Σ_W⁻¹ (5). This is the metric of (4) with all d directions,
where d - C + 1 directions have λ = 0. The classes of RCA are only chunks.

Errata of seed 003. P5: U is *not* orthonormal. Its columns are Σ_W-orthogonal.
Orthonormalizing preserves the span but multiplies distances by factors that differ from
pair to pair. P6: the span of Σ_W U contains the class means, the span of U need not.
P8: k ≤ min(C - 1, d).

Draws are exact and independent. (π, μ, Σ) is drawn by Eq. (4) of
``gaussian_classes.posterior``. M is then computed from the directions (4) or from Σ⁻¹
(5) of each draw (6). With κ = 0 the prior is p(μ_c | Σ) ∝ |Σ|^(-1/2), Σ ~ IW(s + d + 1,
s T), which is improper at s = 0, and π ~ Dirichlet(α). The fit has the posterior means
of μ and Σ, and the mode of π. M is not the mean of its draws: E[Σ⁻¹] = Σ_W⁻¹ ν/(ν - d -
1).

References
----------
Fisher 1936; Bar-Hillel et al., "Learning a Mahalanobis metric from equivalence
constraints", JMLR 2005 (RCA).
"""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular, svd
from scipy.sparse import csr_array

from probmetric.data.containers import Labeled, weights
from probmetric.data.padding import pad_labeled
from probmetric.data.scaling import Scaler, constant_columns
from probmetric.inference.choose import choose_strength as choose_by_folds
from probmetric.inference.gaussian_classes.draws import sample as sample_classes
from probmetric.inference.gaussian_classes.posterior import (
    ClassPosterior,
    ClassStatistics,
    posterior,
    statistics,
)
from probmetric.inference.sampling.metrics import joined, mahalanobis
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import row_signs
from probmetric.metric import Mahalanobis
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.models.lda import LDAParams
from probmetric.neighbors.strength import STRENGTHS, Chosen
from probmetric.precision import native_arrays, numpy_in_numpy_out
from probmetric.typing import Array

__all__ = [
    "choose_strength",
    "class_moments",
    "discriminants",
    "fit",
    "shrinkage_prior",
    "whitening",
]

INFINITE = 1e18
"""Number of points of a prior of infinite strength: Σ_W = T to the last digit."""


def shrinkage_prior(target: Float[Array, "d d"], strength: float | int) -> NIWPrior:
    """Make the shrinkage prior of Eq. (3): Σ has mean ``target``, worth s points.

    ``strength`` is s. The prior of Σ is proper for s > 0; s = ∞ is computed as
    ``INFINITE``. The prior of the means is flat.
    """
    T = np.asarray(target)
    strength = INFINITE if np.isinf(strength) else float(strength)
    return NIWPrior(
        mean=np.zeros(len(T), T.dtype),
        Psi=strength * T,
        kappa=0.0,
        nu=strength + len(T) + 1.0,
    )


def host_statistics(data: Labeled) -> ClassStatistics:
    """Compute sizes, means and total scatter within classes; None if one is empty."""
    X, y = np.asarray(data.X), np.asarray(data.y)
    w = np.asarray(weights(data))
    size = np.bincount(y, w).astype(X.dtype)
    if size.min() <= 0:
        return ClassStatistics(size, np.zeros((0, 0)), np.zeros((0, 0, 0)))
    place = y, np.arange(len(y))
    sums = csr_array((w.astype(float), place), (len(size), len(y))) @ X
    sums = sums.astype(X.dtype)
    mean = sums / size[:, None]
    delta = (X - mean[y]) * np.sqrt(w.astype(X.dtype))[:, None]
    return ClassStatistics(size, mean, (delta.T @ delta)[None])


def class_moments(
    data: Labeled | ClassStatistics, prior: NIWPrior
) -> tuple[Float[np.ndarray, "c"], Float[np.ndarray, "c d"], Float[np.ndarray, "d d"]]:
    """Compute the weights π, means m and covariance Σ_W of the classes, Eqs. (1)-(2).

    Examples
    --------
    A prior of 4 points with mean 1 moves Σ_W half way from 10/4 to 1:

    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import lda
    >>> X, y = np.array([[0.0], [2.0], [5.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> prior = lda.shrinkage_prior(np.eye(1), 4)
    >>> lda.class_moments(Labeled(X, y), prior)[2].tolist()
    [[1.75]]
    """
    stats = host_statistics(data) if isinstance(data, Labeled) else data
    size, raw = np.asarray(stats.n), np.asarray(stats.mean)
    d, dtype = raw.shape[1], raw.dtype
    if size.min() <= 0:
        raise ValueError(
            "y: every class must have a point with weight above 0, got none in class "
            f"{int(np.argmin(size))}. Drop the class, or change its weights."
        )
    m, kappa = np.asarray(prior.mean), float(prior.kappa)
    gap = raw - m
    pull = kappa * size / (kappa + size)
    Psi = (
        np.asarray(prior.Psi)
        + np.asarray(stats.scatter).sum(0)
        + (gap * pull[:, None]).T @ gap
    )
    df = float(prior.nu) + size.sum() - d - 1
    mean = m + (size / (kappa + size))[:, None] * gap
    counts = size + float(prior.alpha) - 1
    return counts / counts.sum(), mean.astype(dtype), (Psi / df).astype(dtype)


@native_arrays
def whitening(within: Float[Array, "d d"]) -> Float[np.ndarray, "d d"]:
    """Compute the lower triangular L of RCA with LᵀL = Σ_W⁻¹, Eq. (5).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import lda
    >>> lda.whitening(np.diag([4.0, 16.0])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    root = _root(np.asarray(within))
    eye = np.diag(np.ones_like(root[0]))
    return solve_triangular(root, eye, lower=True)


def _root(within: np.ndarray) -> np.ndarray:
    d = len(within)
    singular = (
        "prior: the covariance within classes must have full rank, got a singular "
        f"matrix (d = {d}), because some direction does not vary within classes. Set "
        "prior_strength above 0, or drop features."
    )
    try:
        root = cholesky(within, lower=True)
    except LinAlgError as error:
        raise ValueError(singular) from error
    # Relative to the scale of each feature, because pivots are conditional variances.
    pivots = np.diag(root) ** 2 / np.diag(within)
    if pivots.min() <= 10 * d * np.finfo(within.dtype).eps:
        raise ValueError(singular)
    return root


@native_arrays
def discriminants(
    weights: Float[Array, "c"],
    mean: Float[Array, "c d"],
    within: Float[Array, "d d"],
    k: int,
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k d"]]:
    """Compute the k largest eigenvalues λ and the rows Uᵀ of LDA, Eq. (4).

    Σ_B = BᵀB has rank at most C - 1, where B has the rows √π_c (m_c - m̄). With Σ_W =
    RRᵀ the singular values of B R⁻ᵀ are √λ. With k = d the remaining λ are zero, and
    UUᵀ = Σ_W⁻¹.

    The largest entry of each row is positive. A singular Σ_W raises ValueError.

    Examples
    --------
    Two classes are 4 apart along the first feature, with variance ½ within the classes.
    Hence λ = 4/½. The direction has length 1 under Σ_W:

    >>> import numpy as np
    >>> from probmetric.inference import lda
    >>> mean, within = np.array([[-2.0, 0.0], [2.0, 0.0]]), np.diag([0.5, 2.0])
    >>> values, U = lda.discriminants(np.array([0.5, 0.5]), mean, within, 1)
    >>> values.round(3).tolist(), abs(U).round(3).tolist()
    ([8.0], [[1.414, 0.0]])
    """
    root, pi = _root(np.asarray(within)), np.asarray(weights)
    rows = np.sqrt(pi)[:, None] * (mean - pi @ np.asarray(mean))
    whitened = solve_triangular(root, rows.T, lower=True).T
    every = k > min(whitened.shape)
    _, values, vectors = np.linalg.svd(whitened, full_matrices=every)
    factor = solve_triangular(root, vectors[:k].T, lower=True, trans=1).T
    values = np.pad(values, (0, max(0, k - len(values))))
    return values[:k] ** 2, row_signs(factor) * factor


def fit(
    data: Labeled | ClassStatistics,
    prior: NIWPrior | None = None,
    n_components: int | None = None,
) -> Fit:
    """Fit LDA under a prior of Gaussian classes with one covariance, Eqs. (1)-(4).

    Parameters
    ----------
    data : Labeled or ClassStatistics
        Points with y in 0..C-1 and a positive weight in every class, or the statistics
        of data on disk (``moments``).
    prior : NIWPrior, optional
        Prior of the class means and the common covariance. The default is flat:
        ``shrinkage_prior(I, 0)``.
    n_components : int, optional
        Number k of directions, from 1 to min(C - 1, d). The default is min(C - 1, d).

    Returns
    -------
    Fit
        ``params`` is an ``LDAParams``. ``objective`` is the sum over directions of λ,
        the variance between classes divided by the variance within classes.

    Raises
    ------
    ValueError
        If k is out of range, a class has no weight, or the covariance within classes is
        singular.

    Examples
    --------
    The class means are 4/√½ = 5.657 apart under the metric, which uses only the first
    feature:

    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import lda
    >>> cross = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    >>> X, y = np.vstack([cross - [2, 0], cross + [2, 0]]), np.repeat([0, 1], 4)
    >>> result = lda.fit(Labeled(X, y))
    >>> gap = result.params.factor @ (result.params.mean[1] - result.params.mean[0])
    >>> round(float(result.objective), 3), abs(gap).round(3).tolist()
    (8.0, [5.657])
    """
    if prior is None:
        rows = np.asarray(data.X if isinstance(data, Labeled) else data.mean)
        prior = shrinkage_prior(np.eye(rows.shape[1], dtype=rows.dtype), 0.0)
    pi, mean, within = class_moments(data, prior)
    most = min(len(pi) - 1, len(within))
    values, factor = discriminants(pi, mean, within, most)
    params = LDAParams(factor, values, mean, within, pi)
    if n_components is not None:
        params = leading(params, n_components)
    return Fit.closed(params, params.eigenvalues.sum())


def whole(data: Labeled | ClassStatistics, prior: NIWPrior) -> LDAParams:
    """Fit all d directions, with the metric Σ_W⁻¹; LDA directions come first."""
    pi, mean, within = class_moments(data, prior)
    values, factor = discriminants(pi, mean, within, len(within))
    return LDAParams(factor, values, mean, within, pi)


def choose_strength(
    data: Labeled,
    target: Float[Array, "d d"],
    n_components: int | None = None,
    *,
    chunks: bool = False,
) -> Chosen:
    """Choose the strength s of the prior, Eq. (3), by cross-validation.

    The loss is the log loss of the votes of neighbors.

    Parameters
    ----------
    data : Labeled
        Unweighted points.
    target : array of shape (d, d)
        Prior mean T of the covariance within classes.
    n_components : int, optional
        Number of directions of LDA. The default is min(C - 1, d). For s = ∞ all d
        directions are used, because nothing is learned and the metric is T⁻¹.
    chunks : bool, default=False
        Whether to use the metric of RCA, Eq. (5), instead of LDA.

    Examples
    --------
    The second feature is noise. With the metric I (s = ∞) votes are random:

    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import lda
    >>> y = np.arange(20) % 2
    >>> X = np.random.default_rng(0).normal(size=(20, 2)) * [1.0, 10.0]
    >>> X[:, 0] += 3 * y
    >>> chosen = lda.choose_strength(Labeled(X, y), np.eye(2))
    >>> chosen.strength, chosen.losses[[0, -1]].round(2).tolist()
    (1.0, [0.7, 0.01])
    """
    X, y = np.asarray(data.X), np.asarray(data.y)
    A = coordinates(X, np.asarray(target))
    flat = shrinkage_prior(np.eye(A.shape[1]), 0.0)

    def learn(rows: np.ndarray) -> Iterator[np.ndarray]:
        pi, mean, scatter = class_moments(Labeled(A[rows], y[rows]), flat)
        # VᵀSV = nΛ whitens (3) for every s.
        values, V = eigh(scatter)
        values = np.maximum(values, 0.0)  # Rounding may make them negative.
        between = (np.sqrt(pi)[:, None] * (mean - pi @ mean)) @ V
        k, points = n_components or min(len(pi) - 1, X.shape[1]), A @ V
        for s in (min(s, INFINITE) for s in STRENGTHS):
            root = np.sqrt((len(rows) + s) / (len(rows) * values + s))
            if not chunks and (s < INFINITE or n_components is not None):
                axes = svd(between * root, full_matrices=False)[2][:k]
                yield points @ (root * axes).T
            else:
                yield points * root

    return choose_by_folds(learn, X, y, images=True)


def coordinates(
    X: Float[np.ndarray, "n d"], T: Float[np.ndarray, "d d"]
) -> Float[np.ndarray, "n r"]:
    """Return at most n coordinates of points in which T is the identity."""
    X = X - X.mean(0)
    if np.any(T != np.eye(len(T))):
        X = solve_triangular(cholesky(T, lower=True), X.T, lower=True).T
    if len(X) >= X.shape[1]:
        return X
    values, U = eigh(X @ X.T)
    there = values > values[-1] * len(X) * np.finfo(float).eps
    return U[:, there] * np.sqrt(values[there])


def leading(params: LDAParams, k: int) -> LDAParams:
    """Return the k leading directions of a fit with all min(C - 1, d) directions."""
    (c, d), most = params.mean.shape, len(params.factor)
    if not 1 <= k <= most:
        raise ValueError(
            f"n_components must be from 1 to min(C - 1, d) = {most} for C = {c} "
            f"classes and d = {d} features, got {k}."
        )
    return params._replace(factor=params.factor[:k], eigenvalues=params.eigenvalues[:k])


def sample(
    data: Labeled,
    prior: NIWPrior,
    scaler: Scaler,
    *,
    n_components: int | None,
    **options: Any,
) -> xr.DataTree:
    """Draw the classes and M exactly and independently, Eq. (6), in input units.

    ``data`` and ``prior`` are in the units of ``scaler``. M is UUᵀ with
    ``n_components`` directions, or Σ⁻¹ (RCA) if ``n_components`` is None. ``options``
    are passed to ``gaussian_classes.draws.sample``.
    """
    with jax.enable_x64(True):
        post = _posterior(pad_labeled(data), prior, int(np.asarray(data.y).max()) + 1)
    shown = data._replace(X=scaler.mean + np.asarray(data.X) * scaler.scale)
    arguments = {"prior": prior, "covariance": "tied"}
    tree = sample_classes(post, scaler, shown, arguments=arguments, **options)
    drawn = joined(tree)
    # All draws at once, as one call of ``discriminants`` per draw takes seconds.
    root = np.linalg.cholesky(drawn["covariance"][:, 0])
    factor = np.linalg.solve(root, np.eye(root.shape[1]))
    if n_components is not None:
        pi, mean = drawn["weights"][..., None], drawn["mean"]
        rows = np.sqrt(pi) * (mean - np.sum(pi * mean, 1, keepdims=True))
        vectors = np.linalg.svd(rows @ factor.mT, full_matrices=False)[2]
        factor = vectors[:, :n_components] @ factor
        tree.attrs["n_components"] = n_components
    # Constant columns have no weight, even if the prior gives them weight.
    factor = np.where(constant_columns(np.asarray(data.X)), 0.0, factor)
    axes = ("chain", "draw", "feature", "feature_bis")
    M = (factor.mT @ factor)[None]
    tree["posterior"] = tree["posterior"].to_dataset().assign(M=(axes, M))
    return tree


@numpy_in_numpy_out
@jax.jit(static_argnames="n_classes")
def _posterior(data: Labeled, prior: NIWPrior, n_classes: int) -> ClassPosterior:
    """Compute the posterior of the classes in one compiled program."""
    return posterior(statistics(data, n_classes), prior, covariance="tied")


def metrics(draws: xr.DataTree) -> list[Mahalanobis] | None:
    """Make one metric per draw of M, of rank ``n_components``; None without M."""
    values = joined(draws)
    if "M" not in values:
        return None
    rank = draws.attrs.get("n_components")
    return mahalanobis(values["M"], rank=None if rank is None else int(rank))
