"""Functions of one draw, and intervals of their values over draws.

A distance is the length of Lδ, and noise makes a vector longer. A draw of L contains
the noise of the estimate and additional noise, so quantiles of the lengths of draws are
too large. Let v be the mean of Lδ over draws, and u = v/‖v‖. For each draw, let
e = Lδ - v, a = uᵀe (along the mean) and c = ‖e‖² - a² (across the mean). The length of
the draw is √((‖v‖ + a)² + c). If the true length is x, the length of the *estimate* is
√((x + a)² + c), with other noise of the same distribution. So x is estimated by

    x = max(0, √max(0, ‖v‖² - c) + a).                                             (1)

Quantiles of (1) over draws are limits of the true length. If e is symmetric, they
invert the distribution of the estimate. If L has one row (c = 0), they are quantiles of
the draws' lengths. Draws of L are first rotated onto their mean.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.arguments import check_within_0_1
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.protocol import check_features, maps_of
from probmetric.neighbors.scan import Refining
from probmetric.precision import finite, numpy_in_numpy_out
from probmetric.typing import Array

CHUNK = 2**22
"""Number of array entries that ``true_lengths`` computes at a time."""

LEAST = 1e-3
"""Lower limit of the lengths (1) in a ratio, relative to ‖v‖."""


class Interval(NamedTuple):
    """Limits of equal-tailed intervals, with lower ≤ upper.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> draws = [pm.Mahalanobis(np.diag([s])) for s in np.linspace(1, 3, 201)]
    >>> posterior = pm.posterior.PosteriorMetric(
    ...     draws, "intervals", pairs_independent=True
    ... )
    >>> lower, upper = posterior.interval(np.zeros(1), np.ones(1), prob=0.9)
    >>> round(float(lower), 2), round(float(upper), 2)
    (1.1, 2.9)
    """

    lower: np.ndarray
    upper: np.ndarray


def same_features(metric: object, **points: Array) -> None:
    """Raise ValueError unless all points have the metric's number of features."""
    check_features(metric, **points)
    (first, X), (second, Y) = points.items()
    if np.shape(X)[-1:] != np.shape(Y)[-1:]:  # The metric may not define n_features.
        raise ValueError(
            f"{first} and {second} must have the same number of features, got shapes "
            f"{np.shape(X)} and {np.shape(Y)}"
        )


def pairwise(metric: Dissimilarity, Q: Array, P: Array) -> Array:
    """Compute dissimilarities of all pairs under one draw."""
    return metric.pairwise(Q, P)


def between_rows(metric: Dissimilarity, A: Array, B: Array) -> Array:
    """Compute distances (or dissimilarities) of matching rows."""
    if metric.is_distance:
        return metric.distance(A, B)  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(metric, Refining):
        return metric.refine(A, B, jnp.arange(len(A))[:, None])[:, 0]
    return jax.vmap(lambda a, b: metric.dissimilarity(a, b[None])[0])(A, B)


def aligned(
    factors: Float[np.ndarray, "s q d"], reference: Float[np.ndarray, "p d"]
) -> Float[np.ndarray, "s p d"]:
    """Rotate each linear map onto a reference by orthogonal Procrustes."""
    cross = np.einsum("pd,sqd->spq", reference, factors, optimize=True)
    U, _, Vt = np.linalg.svd(cross, full_matrices=False)
    return (U @ Vt) @ factors


def one_rotation(factors: Float[np.ndarray, "s p d"]) -> Float[np.ndarray, "s q d"]:
    """Rotate draws of a linear map onto their mean, independently of feature units."""
    M = np.einsum("spd,spe->de", factors, factors, optimize=True) / len(factors)
    norms = np.sqrt(np.diag(M))
    w = np.where(norms > 0, norms, 1.0)
    size = np.abs(factors / w).max((0, 2))
    kept = factors[:, size >= 1e-8 * size.max()] / w  # Other rows are zero.
    values, vectors = np.linalg.eigh(M / np.outer(w, w))
    mean = (np.sqrt(np.maximum(values, 0)) * vectors).T[::-1][: kept.shape[1]]
    turned = aligned(kept, mean)
    return aligned(turned, turned.mean(0)) * w


def true_lengths(
    factors: Float[np.ndarray, "s p d"], delta: Float[np.ndarray, "m d"]
) -> tuple[Float[np.ndarray, "s m"], Float[np.ndarray, "m"]]:
    """Return x of Eq. (1) for every draw, and ‖v‖; ``factors`` must be aligned."""
    step = max(1, CHUNK // max(1, factors[:, :, 0].size))
    lengths, means = np.empty((len(factors), len(delta))), np.empty(len(delta))
    for at in (slice(k, k + step) for k in range(0, len(delta), step)):
        v = np.einsum("spd,md->smp", factors, delta[at])
        unit = np.maximum(np.abs(v).max((0, 2)), np.finfo(float).tiny)
        v = v / unit[:, None]  # Squares neither overflow nor underflow.
        mean = v.mean(0)
        size = np.linalg.norm(mean, axis=1)
        e = v - mean
        along = np.einsum("smp,mp->sm", e, mean / np.where(size, size, 1.0)[:, None])
        across = np.maximum(np.sum(e**2, 2) - along**2, 0.0)
        root = np.sqrt(np.maximum(size**2 - across, 0.0))
        lengths[:, at] = np.maximum(root + along, 0.0) * unit
        means[at] = size * unit
    return lengths, means


def need_distance(metric: Dissimilarity) -> None:
    """Raise ValueError for ratios if the metric is not a distance."""
    if not metric.is_distance:
        raise ValueError(
            "ratio_interval requires a metric that is a distance, got "
            f"{type(metric).__name__}"
        )


def apart(values: np.ndarray) -> np.ndarray:
    """Return the denominators of a ratio; raise ValueError if one is zero."""
    if (values == 0).any():
        raise ValueError(
            "second: distances must be above 0, got 0. Remove pairs of equal points."
        )
    return values


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Compute the ratio above / below; raise ValueError if it overflows float64."""
    with np.errstate(over="ignore"):  # ``finite`` raises.
        values = above / below
    return finite(values, "ratio_interval")


def is_positive(metric: Dissimilarity) -> bool:
    """Whether dissimilarities are ≥ 0 and zero between equal points."""
    return metric.is_distance or bool(maps_of(metric))  # A squared distance.


def same(metric: Dissimilarity, A: Array, B: Array) -> Array:
    """Compute P(same) of matching rows under one draw."""
    if not hasattr(metric, "same_probability"):
        raise ValueError(
            "same_probability requires a metric with P(same), got "
            f"{type(metric).__name__} without P(same)"
        )
    return metric.same_probability(A, B)  # pyright: ignore[reportAttributeAccessIssue]


def exponent(metric: Dissimilarity, A: Array, B: Array) -> Array:
    """Compute -log P(same) of matching rows. With a link, P may underflow."""
    if isinstance(metric, Mahalanobis) and metric.link is not None:
        return -metric.link.log_probability(metric.distance(A, B) ** 2)
    return -jnp.log(same(metric, A, B))


@numpy_in_numpy_out
def log_odds(metric: Dissimilarity, A: Array, B: Array) -> Array:
    """Compute the log odds of P(same) of matching rows, even if P underflows."""
    link = getattr(metric, "link", None)
    if link is not None and hasattr(link, "log_odds"):
        return link.log_odds(between_rows(metric, A, B) ** 2)
    e = exponent(metric, A, B)
    return -e - jnp.log(-jnp.expm1(-e))


def quantiles(
    values: np.ndarray,
    prob: float,
    method: Literal["linear", "inverted_cdf"] = "linear",
) -> Interval:
    """Compute equal-tailed quantiles over the leading axis."""
    check_within_0_1(prob=prob)
    finite(values, "interval")
    tails = [(1 - prob) / 2, (1 + prob) / 2]
    return Interval(*np.quantile(values, tails, axis=0, method=method))
