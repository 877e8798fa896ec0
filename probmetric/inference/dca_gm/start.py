"""DCA-GM: start of a fit from LDA, RCA and k-means, and checks of the data.

The projection is LDA followed by RCA with the classes as chunklets. Let S_B and S_W be
the covariances between and within classes. The rows of the projection are generalized
eigenvectors v, by descending ω,

    S_B v = ω (S_s + ε tr(S_s)/d I) v,   vᵀ (S_s + ε tr(S_s)/d I) v = 1,             (1)
    S_s = (n S_W + s T)/(n + s).

T is the diagonal matrix of the variances of the features and counts as s points. With n
points in d > n dimensions and s = 0, the classes shrink to points, and a classifier is
overconfident everywhere. S_B has rank at most C - 1. For p > C - 1 (the paper's
Ionosphere has C = p = 2), the remaining rows are the leading principal directions of
all data in the S_s-whitened complement of the first C - 1 rows (erratum 5 of seed 001).

The mixture is computed by k-means within each class, followed by a few EM steps.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float

from probmetric.data.containers import Labeled
from probmetric.data.hash import canonical_order
from probmetric.inference.dca_gm.em import EMData, EMPrior, em_steps
from probmetric.linalg import row_signs
from probmetric.models.dca_gm import DCAGMParams
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, ArrayLike

RIDGE = 1e-3
"""ε of Eq. (1) and of the mixtures' ridge, relative to the scale of the data."""


def default_rows(n_classes: int, d: int) -> int:
    """Compute the default number p of rows: n_classes - 1, at least 2, at most d."""
    return min(max(2, n_classes - 1), d)


def check_labeled(data: Labeled, n_latent: int) -> int:
    """Check labels, codes 0..C-1 and n_latent, and return the number of classes."""
    d = data.X.shape[1]
    if data.y is None:
        raise ValueError("data must have labels y, got None.")
    codes = np.unique(np.asarray(data.y))
    if not np.array_equal(codes, np.arange(len(codes))):
        raise ValueError(
            f"y must have every class code 0..C-1, got {codes}. Number the classes "
            "without gaps."
        )
    if len(codes) < 2:
        raise ValueError(
            "y must have at least 2 classes, got one class. Add rows of another class."
        )
    if not 1 <= n_latent <= d:
        raise ValueError(
            f"n_latent must be from 1 to {d}, the number of features, got {n_latent}."
        )
    return len(codes)


def lda_rca(
    data: Labeled, n_latent: int, *, ridge: float = RIDGE, strength: float | int = 0.0
) -> Float[np.ndarray, "p d"]:
    """Compute the LDA-RCA projection, Eq. (1), completed if p > C - 1.

    Rows are orthonormal under S_s + ε tr(S_s)/d I, where ε is ``ridge``. The largest
    entry of each row is positive. A constant feature gets the weight 0. ``strength`` is
    s ≥ 0.
    """
    X, y = np.asarray(data.X, float), np.asarray(data.y)
    w = _host_weights(data)
    n, w = w.sum(), w / w.sum()
    share = np.bincount(y, w)
    means = np.stack([np.bincount(y, w * x) / share for x in X.T], 1)
    grand = share @ means
    within = (w[:, None] * (X - means[y])).T @ (X - means[y])
    between = (share[:, None] * (means - grand)).T @ (means - grand)
    scale = np.trace(within) + np.trace(between)
    if scale == 0:
        raise ValueError(
            "X must have a feature that varies, got constant features only."
        )
    a = 1.0 if np.isinf(strength) else strength / (n + strength)
    shrunk = (1 - a) * within + a * np.diag(np.diag(within + between))
    mean_variance = (np.trace(shrunk) or scale) / X.shape[1]
    half = np.linalg.cholesky(shrunk + ridge * mean_variance * np.eye(X.shape[1]))

    def whiten(S: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        once = scipy.linalg.solve_triangular(half, S, lower=True)
        return scipy.linalg.solve_triangular(half, once.T, lower=True)

    first = min(n_latent, len(means) - 1)
    V = np.linalg.eigh(whiten(between))[1][:, ::-1][:, :first]
    if n_latent > first:
        outside = np.eye(X.shape[1]) - V @ V.T
        total = outside @ whiten(within + between) @ outside
        rest = np.linalg.eigh((total + total.T) / 2)[1][:, ::-1]
        V = np.hstack([V, rest[:, : n_latent - first]])
    A = scipy.linalg.solve_triangular(half, V, lower=True, trans=1).T
    A[np.abs(A) < 1e-14 * np.abs(A).max()] = 0
    return row_signs(A) * A


def em_prior(data: Labeled, A: Float[Array, "p d"]) -> EMPrior:
    """Make the prior of EM on the scale of the projected points: ρ = ε tr(Cov y)/p."""
    Y = np.asarray(data.X, float) @ np.asarray(A, float).T
    covariance = np.cov(Y.T, aweights=_host_weights(data), ddof=0)
    return EMPrior(rho=RIDGE * float(np.trace(np.atleast_2d(covariance))) / len(A))


@numpy_in_numpy_out
def start(
    data: Labeled,
    n_latent: int,
    *,
    n_gaussians: int | Sequence[int] = 3,
    covariance: str = "class",
    n_em: int = 10,
    strength: float | int = 0.0,
    seed: int = 0,
) -> DCAGMParams:
    """Compute a start for the projection and the mixtures.

    Parameters
    ----------
    data : Labeled
    n_latent : int
        Number p of rows of the projection, between 1 and d.
    n_gaussians : int or sequence of int, default=3
        One number of components for all classes, or one per class. A class with fewer
        distinct projected points has one component per distinct point.
    covariance : {"class", "component"}, default="class"
        One covariance per class, or one per component.
    n_em : int, default=10
        EM steps after k-means.
    strength : float ≥ 0, infinity included, default=0
        Strength s, in points, of the shrinkage of the covariance within classes, Eq.
        (1).
    seed : int, default=0
        Seed of k-means.
    """
    n_classes = check_labeled(data, n_latent)
    counts = _counts(n_gaussians, n_classes)
    X, y = np.asarray(data.X, float), np.asarray(data.y)
    from sklearn.cluster import KMeans

    w = _host_weights(data)
    A = lda_rca(data, n_latent, strength=strength)
    Y = X @ A.T
    prior = em_prior(data, A)

    most = max(counts)
    log_beta = np.full((n_classes, most), -np.inf)
    mu = np.zeros((n_classes, most, n_latent))
    chol = np.zeros((n_classes, most, n_latent, n_latent))
    for c in range(n_classes):
        rows = np.flatnonzero((y == c) & (w > 0))
        rows = rows[canonical_order(X[rows])]  # k-means++ depends on the row order.
        k = min(counts[c], len(np.unique(np.round(Y[rows], 9), axis=0)))
        kmeans: Any = KMeans(k, n_init=5, random_state=seed)  # pyright: ignore
        kmeans.fit(Y[rows], sample_weight=w[rows])
        share = np.bincount(kmeans.labels_, w[rows], minlength=k)
        residual = Y[rows] - kmeans.cluster_centers_[kmeans.labels_]
        scatter = (w[rows][:, None] * residual).T @ residual
        ridge = prior.nu * prior.rho * np.eye(n_latent)
        log_beta[c, :k] = np.log(share / share.sum())
        mu[c, :k] = kmeans.cluster_centers_
        chol[c] = np.linalg.cholesky((scatter + ridge) / (share.sum() + prior.nu))
    total = np.bincount(y, w)
    if covariance == "class":
        chol = chol[:, :1]
    dtype = data.X.dtype
    theta = (A, np.log(total / total.sum()), log_beta, mu, chol)
    params = DCAGMParams(*(a.astype(dtype) for a in theta))
    em = EMData(Y.astype(dtype), y, w.astype(dtype), prior)
    # EM does not read A: without its columns, one program serves every d.
    end = em_steps(params._replace(A=params.A[:, :0]), em, n_em)
    return end._replace(A=jax.device_put(params.A))


def _host_weights(data: Labeled) -> Float[np.ndarray, "n"]:
    return np.ones(len(data.X)) if data.w is None else np.asarray(data.w, float)


def _counts(n_gaussians: ArrayLike, n_classes: int) -> list[int]:
    counts = np.atleast_1d(np.asarray(n_gaussians))
    whole = np.issubdtype(counts.dtype, np.integer)
    if not whole or counts.size not in (1, n_classes) or np.any(counts < 1):
        raise ValueError(
            "n_gaussians must be a whole number of at least 1, or one for each of the "
            f"{n_classes} classes, got {n_gaussians!r}."
        )
    return [int(k) for k in np.broadcast_to(counts, n_classes)]
