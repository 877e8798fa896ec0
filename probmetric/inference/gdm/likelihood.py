"""Log joint density of the generalized dissimilarity model, its gradient and Hessian.

The symbols are defined in ``models.gdm``. Pair i has z_i = (1, |I_fk(x) - I_fk(x')|) in
the order of β = (b, θ_11, …, θ_dk), q = 1 + dk entries, with t_i = z_iᵀβ. a_i is the
number of shared units and m_i the number of other units, both multiplied by the data
weight and the learning rate. With Λ the diagonal matrix of the precisions 1/scale²
(1/b_scale² for b),

    log p(y, β) = c + Σ_i [-a_i t_i + m_i log(1 - e^{-t_i})] - ½ βᵀΛβ,            (1)
    gradient      g = Zᵀ(-a + m/(e^t - 1)) - Λβ,                                   (2)
    minus Hessian H = Zᵀ diag(m e^t/(e^t - 1)²) Z + Λ,                             (3)

where c is the log binomial coefficients plus the constants of the half-normals. Since H
≥ Λ, Eq. (1) is strictly concave on β ≥ 0 and has one maximum.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from probmetric.data.containers import Pairs, checked_rows
from probmetric.data.padding import bucket, host_weights, pad_rows
from probmetric.inference.sampling.target import Arrays
from probmetric.metric.splines import gaps
from probmetric.models.gdm import GDMParams, GDMPrior
from probmetric.models.lca import log1mexp
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Scalar

LOG_HALF_NORMAL = 0.5 * float(np.log(2 / np.pi))
"""Log density of a half-normal of scale 1 at 0."""


class Rows(NamedTuple):
    """Pairs as rows: Z, a, m of Eq. (1), and the sum of log coefficients."""

    Z: Float[Array, "N q"]
    shared: Float[Array, "N"]
    other: Float[Array, "N"]
    ways: Float[Array, ""]


def rows_of(
    pairs: Pairs, model: GDMParams | GDMPrior, learning_rate: float = 1.0
) -> Rows:
    """Compute the rows of observed pairs; a pair without trials is one unit."""
    if pairs.y is None:
        raise ValueError("pairs.y must be the number of shared units, got None.")
    pairs = checked_rows(pairs)
    X = np.asarray(pairs.X)
    knots, coordinates = np.asarray(model.knots, X.dtype), model.coordinates
    if (c := X.shape[1] - (coordinates is not None)) != len(knots):
        raise ValueError(
            f"knots must have a row for each of {c} covariates, got {len(knots)}."
        )
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    apart = gaps(X, i, j, knots, coordinates).reshape(len(i), -1)
    Z = np.concatenate([np.ones((len(i), 1), X.dtype), apart], 1)
    y = np.asarray(pairs.y, float)
    trials = np.ones(len(y)) if pairs.trials is None else np.asarray(pairs.trials)
    power = learning_rate * host_weights(pairs)
    rest = trials - y
    orders = gammaln(trials + 1.0) - gammaln(y + 1) - gammaln(rest + 1)
    counts = (power * y, power * rest, np.asarray(np.sum(power * orders)))
    return Rows(Z, *(np.asarray(a, X.dtype) for a in counts))


def padded(rows: Rows) -> Rows:
    """Pad rows to a bucket size, so that datasets share compiled programs."""
    size = bucket(len(rows.shared))
    Z, shared, other = (pad_rows(a, size) for a in rows[:3])
    Z[len(rows.shared) :, 0] = 1
    return Rows(Z, shared, other, rows.ways)


def precisions(prior: GDMPrior) -> Float[np.ndarray, "q"]:
    """Return the prior precisions, the diagonal of Λ."""
    knots = np.asarray(prior.knots)
    theta = np.broadcast_to(np.asarray(prior.scale, knots.dtype) ** -2, knots.shape)
    return np.append(np.asarray(prior.b_scale, knots.dtype) ** -2, theta.ravel())


def log_prior(b: Scalar, theta: Array, prior: GDMPrior) -> Arrays:
    """Return the log density of each NumPyro site under the half-normal priors."""

    def half_normal(x: Scalar, scale: Scalar) -> Array:
        log = LOG_HALF_NORMAL - jnp.log(scale) - 0.5 * jnp.square(x / scale)
        return jnp.sum(jnp.broadcast_to(log, jnp.shape(x)))

    return {
        "b": half_normal(b, prior.b_scale),
        "theta": half_normal(theta, prior.scale),
    }


def log_likelihood(b: Scalar, theta: Array, rows: Rows) -> Array:
    """Compute the log likelihood in Eq. (1), including the log coefficients."""
    t = rows.Z @ jnp.concatenate([jnp.reshape(b, 1), jnp.ravel(theta)])
    return rows.ways + jnp.sum(rows.other * log1mexp(t) - rows.shared * t)


@numpy_in_numpy_out
def log_joint(b: Scalar, theta: Array, rows: Rows, prior: GDMPrior) -> Scalar:
    """Compute the log joint density (Eq. 1), constants included, for b > 0."""
    return log_likelihood(b, theta, rows) + sum(log_prior(b, theta, prior).values())


def value_and_derivatives(
    beta: Float[np.ndarray, "q"], rows: Rows, precision: Float[np.ndarray, "q"]
) -> tuple[float, Float[np.ndarray, "q"], Float[np.ndarray, "q q"]]:
    """Compute Eq. (1) without c, its gradient (2) and minus its Hessian (3).

    The value is -∞ if t = 0 for a pair with units that are not shared.
    """
    Z, shared, m = (np.asarray(a) for a in rows[:3])
    t = Z @ beta
    unshared = m > 0
    if np.any(t[unshared] <= 0):
        q = len(beta)
        return -np.inf, np.full(q, np.nan), np.full((q, q), np.nan)
    # t can be 0 for pairs that share all units; their logarithm is not used.
    safe = np.where(unshared, t, 1.0)
    log_rest = np.log(-np.expm1(-safe))
    odds = np.exp(-safe - log_rest)  # 1/(e^t - 1), also if e^t overflows.
    value = float(m @ log_rest - shared @ t - 0.5 * precision @ beta**2)
    slope = Z.T @ (m * odds - shared) - precision * beta
    H = (Z * (m * odds * (1 + odds))[:, None]).T @ Z + np.diag(precision)
    return value, slope, H


def to_beta(params: GDMParams) -> Float[np.ndarray, "q"]:
    """Return β = (b, θ) from parameters."""
    return np.append(np.asarray(params.b), np.ravel(np.asarray(params.theta)))


def to_params(
    beta: Float[np.ndarray, "*r q"], model: GDMParams | GDMPrior
) -> GDMParams:
    """Return parameters from β = (b, θ), with the knots of ``model``."""
    knots = np.asarray(model.knots)
    theta = np.asarray(beta[..., 1:]).reshape(*beta.shape[:-1], *knots.shape)
    return GDMParams(np.asarray(beta[..., 0]), theta, knots, model.coordinates)


def in_float64(prior: GDMPrior) -> GDMPrior:
    """Return the prior in float64."""
    return jax.tree.map(lambda value: np.asarray(value, float), prior)
