"""Triplet comparisons: "a is nearer to p than to q", under a Mahalanobis metric.

A triplet has an anchor a and two points p, q of R^d (``near`` and ``far``). With
W (p, d), M = WᵀW, u = x_a - x_far and v = x_a - x_near, the response y = 1 ("near is
nearer") has log odds

    t = ‖Wu‖² - ‖Wv‖² = uᵀMu - vᵀMv.                                               (1)

For quadruplets, "a is nearer to p than b is to q", u = x_b - x_far and the other
definitions do not change. Exchanging near and far (and a and b) turns y into 1 - y. The
model has no slope: the scale of M is identified (W only up to rotation), and a
difference of 1 in squared distance is log odds of 1. Consistent responses give a large
M. There is no intercept and no lapse rate: a random response to points that are clearly
apart is an outlier.

References
----------
Tamuz, Liu, Belongie, Shamir and Kalai, "Adaptively Learning the Crowd Kernel", ICML
2011, and van der Maaten and Weinberger, "Stochastic Triplet Embedding", MLSP 2012, for
comparisons as probabilities (other links, no features); Schultz and Joachims, "Learning
a Distance Metric from Relative Comparisons", NIPS 2003, for Eq. (1) with a margin.
"""

# NumPyro declares keys that may be None and complex values.
# pyright: reportIncompatibleMethodOverride=false

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from probmetric.data.containers import Triplets, checked_rows, weights
from probmetric.metric import Mahalanobis
from probmetric.models._sample import sample
from probmetric.models.distributions import drawn
from probmetric.precision import numpy_in_numpy_out, on_host, one_program
from probmetric.typing import Array, Numeric

__all__ = [
    "TripletParams",
    "TripletPrior",
    "log_odds",
    "simulate",
    "to_metric",
    "triplet_comparisons",
]


class TripletParams(NamedTuple):
    """Parameters: the linear map W (p, d), identified up to rotation.

    Examples
    --------
    >>> to_metric(TripletParams(2 * jnp.eye(1))).matrix.tolist()  # M = WᵀW
    [[4.0]]
    """

    W: Float[Array, "p d"]


class TripletPrior(NamedTuple):
    """W ~ N(mean, c²/lam) entry by entry; lam > 0.

    Examples
    --------
    >>> TripletPrior(jnp.eye(2), c=6.0).lam
    1.0
    """

    mean: Float[Array, "p d"]
    c: Float[Array, ""] | float = 1.0
    lam: Float[Array, ""] | float = 1.0


class Answer(dist.Distribution):
    """Distribution of a response y in {0, 1}, given log odds, weight and learning rate.

    ``log_prob`` is η · weight · log P(value), which is finite for all finite log odds.
    ``sample``, ``mean`` and ``variance`` ignore the weight and the learning rate.
    """

    arg_constraints = {  # noqa: RUF012  NumPyro's own class attribute
        "log_odds": constraints.real,
        "weight": constraints.nonnegative,
        "learning_rate": constraints.nonnegative,
    }
    support, has_enumerate_support = constraints.boolean, True  # pyright: ignore
    pytree_data_fields = ("log_odds", "weight", "learning_rate")

    def __init__(
        self,
        log_odds: Numeric,
        weight: Numeric = 1.0,
        learning_rate: Numeric = 1.0,
        *,
        validate_args: bool | None = None,
    ):
        self.log_odds, self.weight = log_odds, weight
        self.learning_rate = learning_rate
        shape = jnp.broadcast_shapes(
            jnp.shape(log_odds), jnp.shape(weight), jnp.shape(learning_rate)
        )
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw y in {0, 1}."""
        shape = sample_shape + self.batch_shape
        noise = jax.random.logistic(key, shape, jnp.result_type(self.log_odds))
        return (noise < self.log_odds).astype(jnp.int32)

    @validate_sample
    def log_prob(self, value: Numeric, intermediates: object = None) -> Array:
        """Return η · weight · log P(value)."""
        sign = jnp.where(value == 1, 1, -1)
        log_p = jax.nn.log_sigmoid(sign * self.log_odds)
        return self.learning_rate * self.weight * log_p

    def enumerate_support(self, expand: bool = True) -> Array:
        """Return 0 and 1 along a new leading axis."""
        values = jnp.arange(2).reshape((2,) + (1,) * len(self.batch_shape))
        return jnp.broadcast_to(values, (2, *self.batch_shape)) if expand else values

    @property
    def mean(self) -> Array:
        """Probability of y = 1."""
        return jnp.broadcast_to(jax.nn.sigmoid(self.log_odds), self.batch_shape)

    @property
    def variance(self) -> Array:
        """Variance of y: P(y = 1) P(y = 0)."""
        return self.mean * (1 - self.mean)


def _log_odds(W: Array, triplets: Triplets) -> Array:
    """Return t of Eq. (1), (N,)."""
    X = jnp.asarray(triplets.X) @ W.T
    u, v = X[triplets.beside] - X[triplets.far], X[triplets.anchor] - X[triplets.near]
    return jnp.sum(u**2, -1) - jnp.sum(v**2, -1)


def triplet_comparisons(
    triplets: Triplets, prior: TripletPrior, *, learning_rate: Numeric = 1.0
) -> None:
    """Define the generative model of the responses to triplets (NumPyro).

    The NumPyro sites are ``W`` (p, d), ``y`` and the deterministic ``M`` (d, d) = WᵀW.

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> triplets = Triplets(jnp.eye(3, 2), *jnp.array([[0], [1], [2]]), y=None)
    >>> sample = Predictive(triplet_comparisons, num_samples=4)
    >>> sample(jax.random.key(0), triplets, TripletPrior(jnp.eye(2)))["M"].shape
    (4, 2, 2)
    """
    triplets = jax.tree.map(jnp.asarray, triplets)
    scale = prior.c / jnp.sqrt(prior.lam)
    W = sample("W", dist.Normal(prior.mean, scale).to_event(2))
    numpyro.deterministic("M", W.T @ W)
    with numpyro.plate("triplet", len(triplets.anchor)):
        answer = Answer(_log_odds(W, triplets), weights(triplets), learning_rate)
        sample("y", answer, obs=triplets.y)


@numpy_in_numpy_out
def log_odds(params: TripletParams, triplets: Triplets) -> Float[Array, "N"]:
    """Return the log odds that near is nearer (Eq. 1); responses are not used.

    Examples
    --------
    >>> X, rows = jnp.array([[0.0], [1.0], [2.0]]), jnp.array([[0], [1], [2]])
    >>> triplets = Triplets(X, *rows, y=None)
    >>> log_odds(TripletParams(jnp.eye(1)), triplets).tolist()  # 2² - 1²
    [3.0]
    """
    return _log_odds_at(params.W, triplets._replace(y=None))


@numpy_in_numpy_out
def simulate(key: jax.Array, params: TripletParams, triplets: Triplets) -> Triplets:
    """Simulate responses to the same triplets, with the same data weights.

    Examples
    --------
    >>> a, near, far = jnp.array([[0, 0], [1, 2], [2, 1]])
    >>> triplets = Triplets(jnp.array([[0.0], [1.0], [9.0]]), a, near, far, y=None)
    >>> simulate(jax.random.key(0), TripletParams(jnp.eye(1)), triplets).y.tolist()
    [1, 0]
    """
    triplets = checked_rows(triplets)
    odds = on_host(_log_odds_at(params.W, triplets._replace(y=None)))
    return triplets._replace(y=drawn(Answer(odds), key))


_log_odds_at = one_program(_log_odds)


def to_metric(params: TripletParams) -> Mahalanobis:
    """Return the learned metric with linear map W; squared distances are log odds.

    The metric has no P(same), because triplets only compare distances.

    Examples
    --------
    >>> to_metric(TripletParams(2 * jnp.eye(1, 2))).transform(jnp.ones((1, 2))).tolist()
    [[2.0]]
    """
    return Mahalanobis(params.W)
