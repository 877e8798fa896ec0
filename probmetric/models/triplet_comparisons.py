"""Comparisons of distances: triplets, quadruplets and odd-one-out responses.

A response names the nearest of K pairs of points of R^d, the *alternatives*. Let δ_k be
the difference of the points of alternative k, W (p, d) the linear map and M = WᵀW. The
squared distances and the probability that y = k is the response are

    D_k = ‖Wδ_k‖² = δ_kᵀMδ_k,                                                       (1)
    P(y = k) = e^{-D_k} / Σ_l e^{-D_l},        k, l = 0, ..., K - 1.                (2)

*Triplets*, "a is nearer to p than to q", have an anchor a and two points p (``near``)
and q (``far``). The alternatives are δ_1 = x_a - x_p (y = 1, "near is nearer") and δ_0
= x_a - x_q (y = 0). For K = 2, Eq. (2) is a logistic model with log odds

    t = log P(y = 1) / P(y = 0) = D_0 - D_1.                                       (3)

For *quadruplets*, "a is nearer to p than b is to q", δ_0 = x_b - x_q. Exchanging near
and far (and a and b) turns y into 1 - y.

*Odd-one-out* responses to three objects a, p, q name the object outside the nearest
pair. They have a third alternative,

    δ_2 = x_p - x_q,        y = 1, 0, 2 if q, p, a is the odd one.                 (4)

If y is not 2, it has the log odds of the triplet, Eq. (3). All orders of the three
objects give the same model.

The scale of M is identified, because a difference of 1 in squared distance is log odds
of 1. W is identified only up to rotation. A *lapse* is a response that ignores the
objects, with all alternatives equally probable. With lapse rate ε in [0, 1), the
probability of a response is

    P*(y = k) = (1 - ε) P(y = k) + ε/K.                                            (5)

An unknown lapse rate has a prior, and is sampled as u,

    ε ~ Beta(α, β),        u = log(ε/(1 - ε)).                                     (6)

*Raters* r = 1..R can differ in sharpness s_r > 0: a response of rater r has s_r D_k
instead of D_k in Eq. (2), so s_r multiplies the log odds of Eq. (3). With contrasts B
(R, R-1), orthonormal columns that sum to 0, and ω > 0,

    log s_r = ω Σ_m B_rm z_m,        z_m ~ N(0, 1).                                (7)

The geometric mean of all s_r is fixed at 1, because another value only changes the
scale of M. M is the metric of a *typical* rater, with s = 1.

References
----------
Tamuz, Liu, Belongie, Shamir and Kalai, "Adaptively Learning the Crowd Kernel", ICML
2011, and van der Maaten and Weinberger, "Stochastic Triplet Embedding", MLSP 2012, for
comparisons as probabilities (other links, no features); Schultz and Joachims, "Learning
a Distance Metric from Relative Comparisons", NIPS 2003, for Eq. (3) with a margin;
Zheng, Pereira, Baker and Hebart, "Revealing interpretable object representations from
human behavior" (SPoSE), ICLR 2019, for Eq. (2) of three pairs, with scalar products
instead of -D; Schütt, Harmeling, Macke and Wichmann, "Painfree and accurate Bayesian
estimation of psychometric functions for (potentially) overdispersed data", Vision
Research 122, 2016, for the prior Beta(1, 10) of lapses; Whitehill, Ruvolo, Wu, Bergsma
and Movellan, "Whose Vote Should Count More", NIPS 2009, for a factor of the log odds of
each rater.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.linalg
from jaxtyping import Float
from numpyro.distributions.transforms import SigmoidTransform

from probmetric.data.containers import Triplets, checked_rows, weights
from probmetric.metric import Mahalanobis
from probmetric.models._sample import sample
from probmetric.models.distributions import ClassLabel, drawn
from probmetric.precision import numpy_in_numpy_out, one_program
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
    """Linear map W (p, d), lapse rate, and sharpness of raters.

    ``lapse_rate`` is the learned probability that a response ignores the objects. It is
    None if this probability is an argument of the model. ``sharpness`` (R,) has a
    factor of the log odds for each rater, or is None if raters do not differ.
    """

    W: Float[Array, "p d"]
    lapse_rate: Float[Array, ""] | float | None = None
    sharpness: Float[Array, "R"] | None = None

    def rate(self, lapse_rate: Numeric) -> Numeric:
        """Return the learned lapse rate, or the argument if no rate was learned."""
        return lapse_rate if self.lapse_rate is None else self.lapse_rate


class TripletPrior(NamedTuple):
    """Normal prior of the linear map W, and priors of the lapse rate and of raters.

    An entry of W is normal around ``mean`` with standard deviation ``c``/√``lam``, and
    ``lam`` > 0. If the lapse rate is learned, ``lapse`` are the two parameters of its
    beta prior. If R raters differ, ``spread`` (R,) repeats one number for each rater:
    the prior standard deviation of the log of the sharpness, before centering.
    """

    mean: Float[Array, "p d"]
    c: Float[Array, ""] | float = 1.0
    lam: Float[Array, ""] | float = 1.0
    lapse: tuple[Numeric, Numeric] | None = None
    spread: Float[Array, "R"] | None = None

    def sharpness(self, z: Float[Array, "m"]) -> Float[Array, "R"]:
        """Return the sharpness of each rater from the standardized effects."""
        assert self.spread is not None
        return jnp.exp(self.spread * (contrasts(len(self.spread)) @ z))

    def effects(
        self, sharpness: Float[Array, "R"] | None
    ) -> Float[np.ndarray, "m"] | None:
        """Return standardized effects of raters, or None if raters do not differ."""
        if sharpness is None or self.spread is None:
            return None
        return contrasts(len(sharpness)).T @ (np.log(sharpness) / self.spread)


def contrasts(n: int) -> Float[np.ndarray, "n m"]:
    """Return orthonormal columns that sum to 0 (Helmert's), in float64."""
    return np.asarray(scipy.linalg.helmert(n)).T.copy()


def _squared(W: Array, triplets: Triplets, sharpness: Array | None) -> Array:
    Z = jnp.asarray(triplets.X) @ W.T
    pairs = triplets.alternatives
    D = jnp.stack([jnp.sum((Z[i] - Z[j]) ** 2, -1) for i, j in pairs], -1)
    if sharpness is None or triplets.rater is None:
        return D
    return sharpness[triplets.rater][:, None] * D


def _log_odds(W: Array, triplets: Triplets, sharpness: Array | None) -> Array:
    D = _squared(W, triplets, sharpness)
    return D[:, 0] - D[:, 1]


def _log_probability(
    W: Array, triplets: Triplets, lapse_rate: Numeric, sharpness: Array | None
) -> Array:
    log_p = jax.nn.log_softmax(-_squared(W, triplets, sharpness), -1)
    lapse = jnp.asarray(lapse_rate, log_p.dtype)
    return jnp.logaddexp(log_p + jnp.log1p(-lapse), jnp.log(lapse / log_p.shape[-1]))


def triplet_comparisons(
    triplets: Triplets,
    prior: TripletPrior,
    *,
    learning_rate: Numeric = 1.0,
    lapse_rate: Numeric = 0.0,
) -> None:
    """Define the generative model of the responses to triplets (NumPyro).

    ``OddOneOut`` triplets have responses y in {0, 1, 2}, otherwise y is in {0, 1}.

    The named variables (NumPyro sites) are the linear map ``W`` (p, d), the responses
    ``y``, and the matrix ``M`` (d, d) = WᵀW of the metric. There are more in two cases:

    * ``prior.lapse``: the lapse rate, the probability that a response ignores the
      objects, is learned. ``logit_lapse`` () is its logit, and ``lapse_rate`` ()
      replaces the argument.
    * ``prior.spread``: the R raters differ, and ``triplets.rater`` are numbers 0..R-1.
      ``effects`` (R-1,) are their standardized effects. ``sharpness`` (R,) are factors
      of their log odds, computed from ``effects``.

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
    if prior.lapse is not None:
        logit, rate = SigmoidTransform().inv, dist.Beta(*prior.lapse)
        u = sample("logit_lapse", dist.TransformedDistribution(rate, logit))
        lapse_rate = jax.nn.sigmoid(u)
        numpyro.deterministic("lapse_rate", lapse_rate)
    sharpness = None
    if prior.spread is not None:
        zero = jnp.zeros(len(prior.spread) - 1, W.dtype)
        z = sample("effects", dist.Normal(zero, 1.0).to_event(1))
        sharpness = prior.sharpness(z)
        numpyro.deterministic("sharpness", sharpness)
    with numpyro.plate("triplet", len(triplets.anchor)):
        log_p = _log_probability(W, triplets, lapse_rate, sharpness)
        response = ClassLabel(log_p, weights(triplets), learning_rate)
        sample("y", response, obs=triplets.y)


@numpy_in_numpy_out
def log_odds(params: TripletParams, triplets: Triplets) -> Float[Array, "N"]:
    """Return the log odds that near is nearer than far. ``triplets.y`` is not used.

    Without ``triplets.rater`` they are the log odds of a typical rater.

    Examples
    --------
    >>> X, rows = jnp.array([[0.0], [1.0], [2.0]]), jnp.array([[0], [1], [2]])
    >>> triplets = Triplets(X, *rows, y=None)
    >>> log_odds(TripletParams(jnp.eye(1)), triplets).tolist()  # 2² - 1²
    [3.0]
    """
    return _log_odds_at(params.W, triplets._replace(y=None), params.sharpness)


@numpy_in_numpy_out
def log_probability(
    params: TripletParams, triplets: Triplets, lapse_rate: Numeric = 0.0
) -> Float[Array, "N K"]:
    """Return the log probability of each response (Eq. 5), in the order of y.

    Without ``triplets.rater`` it is the log probability of a typical rater.

    Examples
    --------
    >>> X, rows = jnp.array([[0.0], [1.0], [2.0]]), jnp.array([[0], [1], [2]])
    >>> triplets = Triplets(X, *rows, y=None)
    >>> P = jnp.exp(log_probability(TripletParams(jnp.eye(1)), triplets))
    >>> [round(float(p), 3) for p in P[0]]
    [0.047, 0.953]
    """
    rate = params.rate(lapse_rate)
    triplets = triplets._replace(y=None)
    return _log_probability_at(params.W, triplets, rate, params.sharpness)


@numpy_in_numpy_out
def simulate(
    key: jax.Array,
    params: TripletParams,
    triplets: Triplets,
    lapse_rate: Numeric = 0.0,
) -> Triplets:
    """Simulate responses to the same triplets, with the same data weights.

    Examples
    --------
    >>> a, near, far = jnp.array([[0, 0], [1, 2], [2, 1]])
    >>> triplets = Triplets(jnp.array([[0.0], [1.0], [9.0]]), a, near, far, y=None)
    >>> simulate(jax.random.key(0), TripletParams(jnp.eye(1)), triplets).y.tolist()
    [1, 0]
    """
    triplets = checked_rows(triplets)
    log_p = log_probability(params, triplets, lapse_rate)
    return triplets._replace(y=drawn(ClassLabel(log_p), key))


_log_odds_at = one_program(_log_odds)
_log_probability_at = one_program(_log_probability)


def to_metric(params: TripletParams) -> Mahalanobis:
    """Return the learned metric with linear map W.

    A difference of two squared distances is the log odds of a response. The metric has
    no P(same), because triplets only compare distances.

    Examples
    --------
    >>> to_metric(TripletParams(2 * jnp.eye(1, 2))).transform(jnp.ones((1, 2))).tolist()
    [[2.0]]
    """
    return Mahalanobis(params.W)
