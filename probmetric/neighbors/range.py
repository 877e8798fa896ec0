"""Dissimilarities out of float64's range, of kinds that are not one linear map.

What is refused here would otherwise be a wrong order without a word: infinities that
tie, squares that became 0, points so small or large that a density is the same number
at all of them, and queries at which a local matrix cannot be computed.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from probmetric.linalg_scaled import LARGEST, LOST, NOTHING, ORDINARY, squares
from probmetric.metric import Mahalanobis
from probmetric.metric.protocol import Bounded, maps_of


def at_ordinary_scale(
    metrics: list[Any], X: Float[np.ndarray, "n d"]
) -> tuple[list[Any], int]:
    """Return each metric times a power of two, for points divided by 2**power.

    Soft votes do not see the powers, as every metric has its own scale. Metrics and
    points of ordinary size come back as they are, other kinds than Mahalanobis too.
    """
    if not isinstance(metrics[0], Mahalanobis):
        return metrics, 0
    size = int(np.frexp(np.abs(X).max())[1])
    power = size if abs(size) > ORDINARY else 0
    factors = [np.asarray(metric.factor, np.float64) for metric in metrics]
    spreads = [_spread(L, X) for L in factors]
    if power == 0 and not any(spreads):
        return metrics, 0
    scaled = [
        Mahalanobis(np.ldexp(L, power - spread))
        for L, spread in zip(factors, spreads, strict=True)
    ]
    return scaled, power


def _spread(L: np.ndarray, X: np.ndarray) -> int:
    """Return the power of two of the points' spread, 0 where it is ordinary."""
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.abs((X - X[0]) @ L.T).max()
    if 2.0**-ORDINARY < plain < 2.0**ORDINARY:
        return 0
    e = int(squares(L, X, X[:1])[1].max())
    return 0 if e == NOTHING else e // 2


def refuse_far(metric: Any, Q: Float[np.ndarray, "m d"], name: str) -> None:
    """Refuse queries at which a kind cannot be computed, or whose squares overflow."""
    if isinstance(metric, Mahalanobis):
        with np.errstate(over="ignore", invalid="ignore"):
            reach = np.abs(Q @ np.asarray(metric.factor).T)
        if not np.all(reach < LARGEST):
            raise ValueError(
                f"{name}: expected points less than 1e150 times as far off as the "
                f"training points, got a largest entry of {np.abs(Q).max():.3g} times "
                "theirs"
            )
        return
    if isinstance(metric, Bounded):
        metric.refuse_far(Q, name)


def refuse_lost(
    metric: Any,
    Q: Float[np.ndarray, "m d"],
    P: Float[np.ndarray, "n d"],
    D: Float[np.ndarray, "m k"],
    index: Int[np.ndarray, "m k"],
) -> None:
    """Refuse infinite dissimilarities, squares that lost terms, and ties of all points.

    Raises
    ------
    ValueError
        Naming the size of what came.
    """
    size = max(np.abs(Q).max(), np.abs(P).max())
    if not np.isfinite(D).all():
        raise ValueError(
            "points: expected finite dissimilarities of neighbours, got infinity "
            f"(largest entry {size:.3g}); rescale the points or the metric"
        )
    row, column = np.nonzero(np.abs(D) < 2.0**LOST)
    for L in maps_of(metric):
        s, e = squares(np.asarray(L, np.float64), Q[row], P[index[row, column]])
        if np.any((s > 0) & (e < LOST)):
            raise ValueError(
                "points: expected points whose squared distances float64 holds, got "
                f"neighbours closer than 1e-120 (largest entry {size:.3g}); rescale "
                "the points or the metric"
            )
    ordinary = 2.0**-ORDINARY < size < 2.0**ORDINARY
    if not ordinary and (D == D[:, :1]).all() and (P[index] != Q[:, None]).any():
        raise ValueError(
            "points: expected points that the metric tells apart, got neighbours that "
            f"are all as near (largest entry {size:.3g}); rescale the points or the "
            "metric"
        )
