"""Dissimilarities for classical scaling: made from features, or checked as given."""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from probmetric.metric import Mahalanobis, Metric

__all__ = ["check_dissimilarities", "dissimilarities"]

LIMIT = 2.0**240
"""About 1.8e72: fourth powers of dissimilarities are summed."""


def dissimilarities(
    A: Float[np.ndarray, "m d"],
    B: Float[np.ndarray, "n d"],
    metric: Any,
    params: dict[str, Any] | None = None,
) -> Float[np.ndarray, "m n"]:
    """Return the distances (not squared) between rows, shape (m, n).

    Parameters
    ----------
    A, B : arrays of shape (m, d), (n, d)
    metric : str, callable or Metric
        A name that scikit-learn knows, or a metric of this package.
    params : dict, optional
        For scikit-learn.

    Raises
    ------
    ValueError
        For a metric that is no distance (not symmetric, or a similarity).
    """
    if isinstance(metric, Mahalanobis):
        return cdist(np.asarray(metric.transform(A)), np.asarray(metric.transform(B)))
    if isinstance(metric, Metric):
        if not (metric.is_distance and metric.symmetric):
            raise ValueError(
                "metric: wanted a distance (symmetric, zero on equal points), got a "
                f"{type(metric).__name__}; hand in a matrix with metric='precomputed'"
            )
        distance: Any = getattr(metric, "distance")  # noqa: B009  where is_distance
        rows = [distance(np.broadcast_to(a, B.shape), B) for a in A]
        return np.asarray(rows, float)
    if metric == "euclidean" and not params:
        # Differences first: scikit-learn's dot products round a distance of zero up.
        return cdist(A, B)
    return np.asarray(pairwise_distances(A, B, metric=metric, **(params or {})))


def check_dissimilarities(
    D: Float[np.ndarray, "m n"], *, square: bool
) -> Float[np.ndarray, "m n"]:
    """Return dissimilarities, made exactly symmetric, or say what is wrong.

    Raises
    ------
    ValueError
        When an entry is missing (NaN), infinite or negative; and, for a square
        matrix, when it is not symmetric or its diagonal is not zero, up to the square
        root of rounding.
    """
    missing = int(np.sum(np.isnan(D)))
    if missing:
        raise ValueError(
            f"D: wanted every dissimilarity, got {missing} missing (NaN) of {D.size}; "
            "fill them in first (shortest paths are one way)"
        )
    if not np.all(np.isfinite(D)):
        raise ValueError("D: wanted finite dissimilarities, got infinity")
    if np.any(D < 0):
        raise ValueError(
            f"D: wanted dissimilarities ≥ 0, got a negative one ({D.min():.6g}); a "
            "similarity has to be turned into a dissimilarity first"
        )
    if D.max() > LIMIT or (square and 0 < D.max() < 1 / LIMIT):
        raise ValueError(
            f"D: wanted a largest dissimilarity between {1 / LIMIT:.3g} and "
            f"{LIMIT:.3g}, so that float64 holds its fourth power, got {D.max():.3g}; "
            "rescale it"
        )
    if not square:
        return D
    if D.shape[0] != D.shape[1]:
        raise ValueError(f"D: wanted a square matrix, got shape {D.shape}")
    slack = np.sqrt(np.finfo(D.dtype).eps) * D.max()
    gap = np.abs(D - D.T)
    if gap.max() > slack:
        a, b = np.unravel_index(int(np.argmax(gap)), D.shape)
        raise ValueError(
            f"D: wanted a symmetric matrix, got D[{a}, {b}] = {D[a, b]:.6g} and "
            f"D[{b}, {a}] = {D[b, a]:.6g}"
        )
    if np.diag(D).max() > slack:
        a = int(np.argmax(np.diag(D)))
        raise ValueError(
            f"D: wanted zeros on the diagonal, got D[{a}, {a}] = {D[a, a]:.6g}"
        )
    symmetric = (D + D.T) / 2
    np.fill_diagonal(symmetric, 0)
    return symmetric
