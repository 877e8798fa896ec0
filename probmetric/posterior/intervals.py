"""Functions of one draw, and intervals of their values over draws."""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from probmetric.arguments import check_number, check_within_0_1
from probmetric.metric import Dissimilarity, Mahalanobis
from probmetric.metric.protocol import check_features, maps_of
from probmetric.precision import finite, numpy_in_numpy_out
from probmetric.typing import Array

MATRIX_REFUSAL = (
    "matrix_interval: no {prob:.0%} interval for entries of a metric can be given: "
    "nominal 90 % covered at most 60 % whatever made the draws (squares are biased "
    "upwards near the boundary of the positive matrices); ask for distances (interval) "
    "or ratios of them (ratio_interval)"
)


class Interval(NamedTuple):
    """Equal-tailed limits, lower ≤ upper, of the shape of the question.

    Examples
    --------
    >>> import numpy as np
    >>> import probmetric as pm
    >>> draws = [pm.Mahalanobis(np.diag([s])) for s in np.linspace(1, 3, 201)]
    >>> posterior = pm.PosteriorMetric(draws, "intervals", pairs_independent=True)
    >>> lower, upper = posterior.interval(np.zeros(1), np.ones(1), prob=0.9)
    >>> round(float(lower), 2), round(float(upper), 2)
    (1.1, 2.9)
    """

    lower: np.ndarray
    upper: np.ndarray


def same_features(metric: Any, **points: Any) -> None:
    """Refuse points of other features than the metric's, or than each other.

    Arrays are broadcast after this: a single feature would be taken for every one.
    """
    check_features(metric, **points)
    (first, X), (second, Y) = points.items()
    if np.shape(X)[-1:] != np.shape(Y)[-1:]:  # A metric of one's own may not say.
        raise ValueError(
            f"{second}: expected as many features as {first}, got shapes "
            f"{np.shape(X)} and {np.shape(Y)}"
        )


def pairwise(metric: Dissimilarity, Q: Array, P: Array) -> Array:
    """Return dissimilarities of all pairs under one draw."""
    return metric.pairwise(Q, P)


def between_rows(metric: Any, A: Array, B: Array) -> Array:
    """Return distances between matching rows, or dissimilarities where it has none."""
    if metric.is_distance:
        return metric.distance(A, B)
    if hasattr(metric, "refine"):
        return metric.refine(A, B, jnp.arange(len(A))[:, None])[:, 0]
    return jax.vmap(lambda a, b: metric.dissimilarity(a, b[None])[0])(A, B)


def need_distance(metric: Any) -> None:
    """Raise for ratios of what is no distance."""
    if not metric.is_distance:
        raise ValueError(
            "ratio_interval: expected a distance, got "
            f"{type(metric).__name__}, which has no zero that means 'equal'"
        )


def apart(values: np.ndarray) -> np.ndarray:
    """Return what a ratio is divided by, or refuse zeros."""
    if (values == 0).any():
        raise ValueError(
            "second: expected points at a distance, got a pair at distance zero"
        )
    return values


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return above / below, or refuse ratios that float64 cannot hold."""
    with np.errstate(over="ignore"):  # Refused in the next line.
        values = above / below
    return finite(values, "ratio_interval")


def is_positive(metric: Any) -> bool:
    """Say whether dissimilarities are ≥ 0 and zero between equal points."""
    return metric.is_distance or bool(maps_of(metric))  # A squared distance.


def same(metric: Any, A: Array, B: Array) -> Array:
    """Return P(same) of matching rows under one draw."""
    if not hasattr(metric, "same_probability"):
        raise ValueError(
            "same_probability: expected a metric that defines P(same), got "
            f"{type(metric).__name__}"
        )
    return metric.same_probability(A, B)


def exponent(metric: Any, A: Array, B: Array) -> Array:
    """Return -log P(same) of matching rows; of a link even where P underflows."""
    if isinstance(metric, Mahalanobis) and metric.link is not None:
        return -metric.link.log_probability(metric.distance(A, B) ** 2)
    return -jnp.log(same(metric, A, B))


@numpy_in_numpy_out
def log_odds(metric: Any, A: Array, B: Array) -> Array:
    """Return log(P/(1 - P)) of P(same) of matching rows; also where P underflows."""
    link: Any = getattr(metric, "link", None)
    if hasattr(link, "log_odds"):
        return link.log_odds(metric.distance(A, B) ** 2)
    e = exponent(metric, A, B)
    return -e - jnp.log(-jnp.expm1(-e))


def spread(values: np.ndarray, inflate: float, positive: bool) -> np.ndarray:
    """Return draws moved from their mean (of logarithms where positive) by a factor.

    Examples
    --------
    A factor of 1 leaves draws as they are. Any other factor is deprecated and warns; 2
    would turn these draws into 0 and 4.

    >>> import numpy as np
    >>> from probmetric.posterior import spread
    >>> spread(np.array([1.0, 3.0]), 1.0, positive=False).tolist()
    [1.0, 3.0]
    """
    check_number("inflate", inflate, 0, open_low=True)
    if inflate == 1:
        return values
    warnings.warn(
        "inflate: goes with the next release; for intervals that cover without it ask "
        "posterior_metric('intervals'), the jackknife",
        FutureWarning,
        stacklevel=3,
    )
    if not positive:
        return values.mean(0) + inflate * (values - values.mean(0))
    zero: Bool[np.ndarray, "..."] = values == 0  # Equal points stay at distance zero.
    logs = np.log(np.where(zero, 1.0, values))
    return np.where(zero, 0.0, np.exp(logs.mean(0) + inflate * (logs - logs.mean(0))))


def quantiles(values: np.ndarray, prob: float, method: Any = "linear") -> Interval:
    """Return equal-tailed quantiles over the leading axis."""
    check_within_0_1(prob=prob)
    finite(values, "interval")
    tails = [(1 - prob) / 2, (1 + prob) / 2]
    return Interval(*np.quantile(values, tails, axis=0, method=method))
