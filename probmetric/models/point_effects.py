"""LCA with point effects: judged pairs that share points.

Some points are easier to recognize than others, in all their judgments. The model, with
n points and otherwise the assumptions of ``models.lca``:

1.  the linear map W ~ N(W₀, c²/λ) entry by entry; the intercept of a typical point
    b ~ Gamma(a, r);
2.  ω ~ HalfNormal(s), the *spread* of the points;
3.  b_i = b e^{u_i}, u_i = ω z_i, z_i ~ N(0, 1), for each point i = 1..n;         (1)
4.  the pair (i, j) coincides with probability exp(-t),
    t = (b_i + b_j)/2 + D/2 = b + a_i + a_j + D/2,                                 (2)
    a_i = (b_i - b)/2,  D = ‖Wδ‖²/τ²,  τ² = e^{2b/p},  δ the difference of the points.

e^{-b_i} is P(same) of two copies of point i. Pairs are independent given the b_i. With
the b_i integrated out, pairs that share a point are dependent.

The effects of two new points are integrated out separately:

    P(same | two new points) = exp(-(b' + D/2)),   b' = -2 log E[e^{-b_i/2}] :     (3)

This is LCA's link with another intercept, b' ≤ E[b_i]. The distance does not change.

References
----------
Hoff, "Bilinear Mixed-Effects Models for Dyadic Data", JASA 2005, for effects of the two
members of a pair; White, Frye, Slingsby, Silander and Gelfand, "Generative Spatial
Generalized Dissimilarity Mixed Modelling (spGDMM)", Methods in Ecology and Evolution
2023, for random effects of sites with the same link.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float

from probmetric.data.containers import Pairs, checked_rows, refuse_trials, weights
from probmetric.metric import Link, Mahalanobis
from probmetric.models._sample import sample
from probmetric.models.distributions import drawn
from probmetric.models.lca import (
    Coincidence,
    LCAParams,
    LCAPrior,
    log_b_of,
    log_sigma2_of,
    sample_common,
)
from probmetric.models.lca import identified as identified_of
from probmetric.models.lca import to_metric as metric_of
from probmetric.precision import numpy_in_numpy_out, on_host, one_program
from probmetric.typing import Array, Numeric

__all__ = [
    "PointEffectsParams",
    "PointEffectsPrior",
    "point_effects",
    "simulate",
    "to_metric",
]


class PointEffectsParams(NamedTuple):
    """Linear map W (p, d), log σ² (), and the effects of n points.

    σ² is the variance of the latent noise. ``effects`` (n,) are the logs of the ratios
    of a point's intercept to the typical intercept. ``spread`` ≥ 0 is their standard
    deviation.
    """

    W: Float[Array, "p d"]
    log_sigma2: Float[Array, ""]
    spread: Float[Array, ""]
    effects: Float[Array, "n"]


class PointEffectsPrior(NamedTuple):
    """``LCAPrior`` of the map and the typical intercept, and prior of point effects.

    ``common`` must have ``lam`` > 0. The log of a point's intercept is normal around
    the log of the typical intercept. Its standard deviation ω is half-normal with scale
    ``spread``. With the default 1, a point's intercept differs from the typical one by
    less than a factor of 50 with 95% prior probability. The prior median of ω is 0.67,
    a factor of two.
    """

    common: LCAPrior
    spread: Float[Array, ""] | float = 1.0


NODES = np.linspace(-9.0, 9.0, 181)
"""Nodes of the trapezoidal rule over z. The error is rounding if ω ≤ 2, 1e-5 at 8."""

_LOG_WEIGHTS = -0.5 * NODES**2 - 0.5 * np.log(2 * np.pi) + np.log(NODES[1] - NODES[0])


@numpy_in_numpy_out
@jax.jit
def intercept_of_new(
    b: Float[Array, "*s"] | float, spread: Float[Array, "*s"] | float
) -> Float[Array, "*s"]:
    """Return b' of Eq. (3), the intercept of P(same) of two new points."""
    b, spread = jnp.asarray(b), jnp.asarray(spread)
    nodes = jnp.asarray(NODES, b.dtype)
    h = 0.5 * b[..., None] * jnp.exp(spread[..., None] * nodes)
    terms = jnp.asarray(_LOG_WEIGHTS, b.dtype) - h
    return -2 * jax.scipy.special.logsumexp(terms, -1)


def point_effects(
    pairs: Pairs, prior: PointEffectsPrior, *, learning_rate: Numeric = 1.0
) -> None:
    """Define the generative model of labels of pairs that share points (NumPyro).

    The intercept of a pair is -log P(same) at distance 0. Each row of X is one point,
    whose effect changes the intercepts of its pairs. The named variables (NumPyro
    sites) are:

    * ``W`` (p, d), the linear map.
    * ``log_b`` (), the log of the typical intercept b.
    * ``spread`` () and ``z`` (n,): standard deviation of the effects, and standardized
      effects.
    * ``y``, the labels.
    * Computed from the others: the matrix ``M`` (d, d) of the metric, and the
      intercepts ``b``, ``b_point`` (n,) of the points and ``b_new`` of two new points.

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> i, prior = jnp.array([0]), PointEffectsPrior(LCAPrior(jnp.eye(2)))
    >>> sample = Predictive(point_effects, num_samples=3)
    >>> draws = sample(jax.random.key(0), Pairs(jnp.eye(2), i, i + 1, None), prior)
    >>> draws["b_point"].shape
    (3, 2)
    """
    refuse_trials(pairs, "point_effects")
    pairs = jax.tree.map(jnp.asarray, pairs)
    W, log_b, _ = sample_common(prior.common)
    spread = sample("spread", dist.HalfNormal(prior.spread))
    z = sample("z", dist.Normal(jnp.zeros(len(pairs.X), W.dtype), 1.0).to_event(1))
    b_point = jnp.exp(log_b + spread * z)  # Eq. (1)
    numpyro.deterministic("b_point", b_point)
    numpyro.deterministic("b_new", intercept_of_new(jnp.exp(log_b), spread))
    with numpyro.plate("pair", len(pairs.i)):
        delta = jnp.subtract(pairs.X[pairs.i], pairs.X[pairs.j])
        t = _exponent(W, log_b, b_point[pairs.i] + b_point[pairs.j], delta)
        sample("y", Coincidence(-t, weights(pairs), learning_rate), obs=pairs.y)


def _exponent(W: Array, log_b: Array, b_both: Array, delta: Array) -> Array:
    """Return t of Eq. (2): LCA's t, with b replaced by the mean of b_i and b_j."""
    squared = jnp.sum((delta @ W.T) ** 2, -1)
    sigma2 = jnp.exp(log_sigma2_of(log_b, W.shape[0]))
    half = squared / (2 * (1 + 2 * sigma2))
    return 0.5 * b_both + half


def _b_of(params: PointEffectsParams) -> tuple[Array, Array]:
    log_b = log_b_of(jnp.asarray(params.log_sigma2), params.W.shape[0])
    return log_b, jnp.exp(log_b + params.effects)


@numpy_in_numpy_out
def simulate(key: jax.Array, params: PointEffectsParams, pairs: Pairs) -> Pairs:
    """Simulate labels for the same pairs, with the same data weights.

    Examples
    --------
    >>> u = np.array([-30.0, -30.0, 5.0])  # The last point is rarely recognized.
    >>> params = PointEffectsParams(np.eye(1), np.asarray(0.5), np.asarray(1.0), u)
    >>> pairs = Pairs(np.zeros((3, 1)), np.array([0, 0]), np.array([1, 2]), None)
    >>> simulate(jax.random.key(0), params, pairs).y.tolist()
    [1, 0]
    """
    pairs = checked_rows(pairs)
    rows = pairs.X[pairs.i], pairs.X[pairs.j]
    log_p = on_host(_log_probability(params, *rows, pairs.i, pairs.j))
    return pairs._replace(y=drawn(Coincidence(log_p), key))


@one_program
def _log_probability(
    params: PointEffectsParams, A: Array, B: Array, i: Array, j: Array
) -> Array:
    log_b, b_point = _b_of(params)
    W, b_both = jnp.asarray(params.W), b_point[i] + b_point[j]
    return -_exponent(W, log_b, b_both, jnp.subtract(A, B))


@numpy_in_numpy_out
def identified(params: PointEffectsParams) -> dict[str, Array]:
    """Return M, b, ``b_point`` (n,) of each point, ``b_new`` and the spread."""
    log_b, b_point = _b_of(params)
    b_new = intercept_of_new(jnp.exp(log_b), params.spread)
    common = identified_of(LCAParams(params.W, params.log_sigma2))
    return {**common, "b_point": b_point, "b_new": b_new, "spread": params.spread}


def to_metric(params: PointEffectsParams) -> Mahalanobis:
    """Return the metric, with P(same) of two points that were not in the fit.

    Examples
    --------
    >>> log_sigma2, zero = np.log(np.expm1(2.0) / 2), np.zeros((1, 1))  # b = 1
    >>> params = PointEffectsParams(np.eye(1), log_sigma2, np.asarray(0.0), np.zeros(1))
    >>> round(float(to_metric(params).same_probability(zero, zero)[0]), 4)  # e^{-b}
    0.3679
    """
    metric = metric_of(LCAParams(params.W, params.log_sigma2))
    return Mahalanobis(metric.factor, Link(_new(params), np.asarray(0.5)))


@numpy_in_numpy_out
def _new(params: PointEffectsParams) -> Array:
    return intercept_of_new(jnp.exp(_b_of(params)[0]), params.spread)
