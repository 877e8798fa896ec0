"""Raise for values whose squares float64 cannot represent.

Squares of values above 1e150 overflow. Squares of differences below 1e-150 lose digits
or become 0. In these cases the order of neighbors would be wrong.
"""

import numpy as np
from jaxtyping import Float, Int

from probmetric.metric import Dissimilarity
from probmetric.metric.protocol import Bounded, maps_of

LARGEST, SMALLEST = 1e150, 1e-150
RESCALE = "Rescale the points or the metric."


def check_size(metric: Dissimilarity, X: Float[np.ndarray, "n d"], name: str) -> None:
    """Raise ValueError if points or their images under the metric reach 1e150."""
    largest = np.maximum(X.max(0), -X.min(0))
    sizes = [largest]
    with np.errstate(over="ignore"):
        for L in maps_of(metric):
            factor = np.abs(np.asarray(L, np.float64))
            sizes += [factor.ravel(), factor @ largest]
    size = np.concatenate(sizes).max()
    if not size < LARGEST:
        raise ValueError(
            f"{name}: entries must be below 1e150, before and after the linear map of "
            f"the metric, got {size:.3g} (largest entry {largest.max():.3g}). "
            f"{RESCALE}"
        )


def check_queries(
    metric: Dissimilarity, Q: Float[np.ndarray, "m d"], name: str
) -> None:
    """Raise ValueError if the metric cannot be computed at a query."""
    if isinstance(metric, Bounded):
        metric.refuse_far(Q, name)
    check_size(metric, Q, name)


def check_found(
    metric: Dissimilarity,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    D: Float[np.ndarray, "m k"],
    index: Int[np.ndarray, "m k"],
) -> None:
    """Raise ValueError if a neighbor's dissimilarity is infinite or underflows."""
    if not np.isfinite(D).all():
        size = max(np.abs(Q).max(), np.abs(P).max())
        raise ValueError(
            "points: dissimilarities must be finite, got infinity (largest entry of "
            f"points and queries {size:.3g}). {RESCALE}"
        )
    row, column = np.nonzero(np.abs(D) < SMALLEST**2)
    check_lost(metric, Q[row], P[index[row, column]])


def check_lost(
    metric: Dissimilarity, Q: Float[np.ndarray, "n d"], P: Float[np.ndarray, "n d"]
) -> None:
    """Raise for squared distances in (0, 1e-300) if the metric has linear maps."""
    if not len(Q):
        return
    delta = Q - P
    # Scale by powers of two: exact, and zero stays zero.
    delta = np.ldexp(delta, -np.frexp(np.abs(delta).max(1, keepdims=True))[1])
    for L in maps_of(metric):
        factor = np.asarray(L, np.float64)
        factor = np.ldexp(factor, -np.frexp(np.abs(factor).max())[1])
        if any(np.sum(delta * row, -1).any() for row in factor):
            raise ValueError(
                "points: two points must be equal or more than 1e-150 apart, got "
                f"{np.abs(Q - P).max():.3g} (largest entry of points "
                f"{np.abs(P).max():.3g}). {RESCALE}"
            )
