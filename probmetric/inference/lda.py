"""LDA and RCA: the metrics of Gaussian classes with one covariance.

The story is ``models.gaussian_classes`` with ``covariance="tied"``: μ_c, Σ ~ NIW,
x | y ~ N(μ_y, Σ). With n_c points, means x̄_c and scatters S_c a class, its posterior,
Eq. (1) of ``gaussian_classes.posterior``, has

    m_c = m + n_c/(κ + n_c) (x̄_c - m),                                             (1)
    Σ_W = E[Σ | data] = Ψ/(ν - d - 1),   ν = ν₀ + n,
    Ψ = Ψ₀ + Σ_c S_c + Σ_c κ n_c/(κ + n_c) (x̄_c - m)(x̄_c - m)ᵀ.                    (2)

``shrinkage_prior(T, s)`` is κ = 0 (flat means), Ψ₀ = s T, ν₀ = s + d + 1: the prior
mean of Σ is T, it counts as s points, and

    Σ_W = (S + s T)/(n + s),      s = 0: maximum likelihood.                       (3)

With class weights π_c and Σ_B = Σ_c π_c (m_c - m̄)(m_c - m̄)ᵀ, LDA takes the k largest
solutions of

    Σ_B u = λ Σ_W u,      UᵀΣ_W U = I,      metric M = U Uᵀ,   k ≤ min(C - 1, d).   (4)

With k = C - 1 distances between class means under M are those under Σ_W⁻¹, exactly.
RCA is that whole metric, M = Σ_W⁻¹ (5): the classes enter as chunks only.

Errata of seed 003: P5: U is *not* orthonormal: Σ_W⁻¹Σ_B is not symmetric, its
eigenvectors are Σ_W-orthogonal. Orthonormalising keeps the span but multiplies
distances by factors that differ from pair to pair. P6: the span need not pass through
the class means (only Σ_W U does). P8: k ≤ min(C - 1, d).

One d × d eigenproblem on the host: NumPy and SciPy, where JAX brings nothing (it has
no generalised eigensolver).

References
----------
Fisher 1936; Bar-Hillel et al., "Learning a Mahalanobis metric from equivalence
constraints", JMLR 2005 (RCA).
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from probmetric.data.containers import Labelled, weights
from probmetric.inference.solvers.result import Fit
from probmetric.linalg import row_signs
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.models.lda import LDAParams
from probmetric.typing import Array


def shrinkage_prior(target: Float[Array, "d d"], strength: float | int) -> NIWPrior:
    """Return the prior of Eq. (3): Σ has prior mean ``target``, worth s points.

    Parameters
    ----------
    target : array of shape (d, d)
        T, positive definite.
    strength : float
        s ≥ 0. Proper in Σ for s > 0; flat in the means.
    """
    T = np.asarray(target)
    return NIWPrior(
        mean=np.zeros(len(T), T.dtype),
        Psi=strength * T,
        kappa=0.0,
        nu=float(strength) + len(T) + 1.0,
    )


def class_moments(
    data: Labelled, prior: NIWPrior
) -> tuple[Float[np.ndarray, "c"], Float[np.ndarray, "c d"], Float[np.ndarray, "d d"]]:
    """Return π (c,), m (c, d) and Σ_W (d, d) (Eqs. 1, 2)."""
    X = np.asarray(data.X)
    d = X.shape[1]
    w = np.asarray(weights(data))
    y = np.asarray(data.y)
    member = (y == np.arange(y.max() + 1)[:, None]).astype(X.dtype) * w
    size = member.sum(1)
    if size.min() <= 0:
        raise ValueError(
            f"y: expected a point of positive weight in every class, got none in class "
            f"{int(np.argmin(size))}"
        )
    raw = member @ X / size[:, None]
    delta = X - raw[y]
    m, kappa = np.asarray(prior.mean), float(prior.kappa)
    gap = raw - m
    pull = kappa * size / (kappa + size)
    Psi = (
        np.asarray(prior.Psi)
        + (delta * w[:, None]).T @ delta
        + (gap * pull[:, None]).T @ gap
    )
    df = float(prior.nu) + size.sum() - d - 1
    mean = m + (size / (kappa + size))[:, None] * gap
    counts = size + float(prior.alpha) - 1
    return counts / counts.sum(), mean.astype(X.dtype), (Psi / df).astype(X.dtype)


def whitening(within: Float[Array, "d d"]) -> Float[np.ndarray, "d d"]:
    """Return L with LᵀL = Σ_W⁻¹ (Eq. 5), the inverse Cholesky root.

    Raises
    ------
    ValueError
        When Σ_W is singular.
    """
    root = _root(np.asarray(within))
    one = np.diag(np.ones_like(root[0]))
    return solve_triangular(root, one, lower=True)


def _root(within: np.ndarray) -> np.ndarray:
    """Return the Cholesky root of Σ_W, or say that it is singular."""
    d = len(within)
    singular = (
        "prior: expected a within-class covariance of full rank, got a singular one "
        f"(d = {d}): some direction does not vary within classes; use a prior of "
        "positive strength, or drop or combine features"
    )
    try:
        root = cholesky(within, lower=True)
    except LinAlgError as error:
        raise ValueError(singular) from error
    # Relative to each feature's own scale: pivots are conditional variances.
    pivots = np.diag(root) ** 2 / np.diag(within)
    if pivots.min() <= 10 * d * np.finfo(within.dtype).eps:
        raise ValueError(singular)
    return root


def discriminants(
    weights: Float[Array, "c"],
    mean: Float[Array, "c d"],
    within: Float[Array, "d d"],
    k: int,
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k d"]]:
    """Return the k largest λ and the rows Uᵀ of Eq. (4).

    Σ_B has rank at most C - 1, so the problem is solved from its root: with
    Σ_W = RRᵀ and B the rows √π_c (m_c - m̄), the singular values of B R⁻ᵀ are √λ.
    """
    root, pi = _root(np.asarray(within)), np.asarray(weights)
    rows = np.sqrt(pi)[:, None] * (mean - pi @ np.asarray(mean))
    whitened = solve_triangular(root, rows.T, lower=True).T
    _, values, vectors = np.linalg.svd(whitened, full_matrices=False)
    factor = solve_triangular(root, vectors[:k].T, lower=True, trans=1).T
    return values[:k] ** 2, row_signs(factor) * factor


def fit(
    data: Labelled, prior: NIWPrior | None = None, n_components: int | None = None
) -> Fit:
    """Fit LDA (Eqs. 1-4).

    Parameters
    ----------
    data : Labelled
        y in 0..C-1, every class with a positive weight.
    prior : NIWPrior, optional
        Of the tied model. Default: flat, ``shrinkage_prior(I, 0)``.
    n_components : int, optional
        k, 1 to min(C - 1, d), which is the default.

    Returns
    -------
    Fit
        ``params`` is an ``LDAParams``; ``objective`` the trace criterion Σλ.

    Raises
    ------
    ValueError
        When k is too large, a class is empty, or Σ_W is singular.
    """
    if prior is None:
        X = np.asarray(data.X)
        prior = shrinkage_prior(np.eye(X.shape[1], dtype=X.dtype), 0.0)
    pi, mean, within = class_moments(data, prior)
    most = min(len(pi) - 1, len(within))
    values, factor = discriminants(pi, mean, within, most)
    every = LDAParams(factor, values, mean, within, pi)
    params = every if n_components is None else leading(every, n_components)
    return Fit.closed(params, params.eigenvalues.sum())


def leading(params: LDAParams, k: int) -> LDAParams:
    """Return the k leading directions of a fit that has all min(C - 1, d).

    Raises
    ------
    ValueError
        When k is not 1 to that number.
    """
    (c, d), most = params.mean.shape, len(params.factor)
    if not 1 <= k <= most:
        raise ValueError(
            f"n_components: expected 1 to min(C - 1, d) = {most} (C = {c} classes, "
            f"d = {d} features), got {k}"
        )
    return params._replace(factor=params.factor[:k], eigenvalues=params.eigenvalues[:k])
