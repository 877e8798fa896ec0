"""The likelihood of Latent Coincidence Analysis, its prior and its log joint density.

Symbols: δ = x - x', g = Wδ, D = ‖g‖², τ² = κ² + 2σ², s = σ²/τ² in (0, ½), weights w,
learning rate η.

1. Marginal. With b = (p/2) log(1 + 2σ²/κ²) and t = b + D/(2τ²),

       log P(y=1) = -t,   log P(y=0) = log(1 - e^{-t}),   ν = P1/P0 = 1/(e^t - 1).  (1)

2. Log likelihood. Pairs with y = 1 enter only through n₁ and T₁. Rows have y = 0:

       ℓ = -n₁ b - tr(W T₁ Wᵀ)/(2τ²) + Σ_rows w log(1 - e^{-t}),                    (2)

   plus Σ w log C(m, y) for counts.

3. Log joint density with the prior of ``LCAPrior`` and the learning rate η:

       log p = η ℓ + log N(W; W₀, c²/λ) + log p(log b),                            (3)

   with b ~ Gamma(a, r), log p(log b) = a log(rb) - rb - log Γ(a).

   Eq. (3) equals the NumPyro density of ``models.lca.lca``, including constants. A flat
   prior contributes 0. Eq. (3) is a density of (W, log b), and the fit is its mode in
   these coordinates. σ² is computed from b, without a Jacobian.
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Float, PyTree

from probmetric.inference.lca.statistics import Statistics, squared_lengths
from probmetric.inference.sampling.target import Arrays
from probmetric.models.lca import (
    LCAParams,
    LCAPrior,
    coincidence_exponent,
    log1mexp,
    log_b_of,
    log_sigma2_of,
)
from probmetric.precision import numpy_in_numpy_out, one_program
from probmetric.typing import Array, Scalar


@numpy_in_numpy_out
@one_program
def log_likelihood(params: LCAParams, stats: Statistics) -> Float[Array, ""]:
    """Compute the log likelihood of pair labels (Eq. 2), natural log.

    Parameters
    ----------
    params : LCAParams
    stats : Statistics
        From ``prepare``.

    Examples
    --------
    P(same) is 1/2 for the first pair, labeled same, and 1/4 for the second, labeled
    different:

    >>> from probmetric.data import Pairs
    >>> from probmetric.inference.lca import prepare
    >>> X = np.array([[0.0], [0.0], [np.sqrt(8 * np.log(2))]])
    >>> pairs = Pairs(X, np.array([0, 0]), np.array([1, 2]), y=np.array([1, 0]))
    >>> float(np.exp(log_likelihood(LCAParams(np.eye(1), np.log(1.5)), prepare(pairs))))
    0.375
    """
    W, p = params.W, params.W.shape[0]
    sigma2, kappa2 = jnp.exp(params.log_sigma2), jnp.asarray(params.kappa2)
    t = coincidence_exponent(squared_lengths(W, stats), sigma2, kappa2, p)
    total = jnp.sum(stats.w * log1mexp(t)) + stats.ways
    pooled = coincidence_exponent(jnp.asarray(0.0, W.dtype), sigma2, kappa2, p)
    quadratic = jnp.sum((W @ stats.T_same) * W) / (2 * (kappa2 + 2 * sigma2))
    return total - stats.n_same * pooled - quadratic


@numpy_in_numpy_out
def log_prior(params: LCAParams, prior: LCAPrior) -> Float[Array, ""]:
    """Compute the log prior of (W, log b); flat priors add 0."""
    W = params.W
    precision = prior.lam / jnp.asarray(prior.width) ** 2
    flat = precision == 0
    safe = jnp.where(flat, 1.0, precision)
    constant = 0.5 * W.size * jnp.log(safe / (2 * jnp.pi))
    density = constant - 0.5 * precision * jnp.sum((W - prior.mean) ** 2)
    density = jnp.where(flat, 0.0, density)
    log_b = log_b_of(params.log_sigma2, W.shape[0], params.kappa2)
    shape, rate = jnp.asarray(prior.b_shape, W.dtype), jnp.asarray(prior.b_rate)
    flat = shape == 0
    safe, safe_rate = jnp.where(flat, 1.0, shape), jnp.where(flat, 1.0, rate)
    gamma = safe * (jnp.log(safe_rate) + log_b) - safe_rate * jnp.exp(log_b)
    return density + jnp.where(flat, 0.0, gamma - gammaln(safe))


def log_priors(params: LCAParams, prior: LCAPrior) -> Arrays:
    """Return the log prior densities of W and of log b, by name."""
    flat_b = prior._replace(b_shape=jnp.zeros_like(prior.b_shape))
    flat_W = prior._replace(lam=jnp.zeros_like(prior.lam))
    return {
        "W": jnp.asarray(log_prior(params, flat_b)),
        "log_b": jnp.asarray(log_prior(params, flat_W)),
    }


@numpy_in_numpy_out
def log_joint(
    params: LCAParams,
    stats: Statistics,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float = 1.0,
) -> Float[Array, ""]:
    """Compute the log joint density of labels and (W, log b) (Eq. 3).

    Parameters
    ----------
    params, stats
        See ``log_likelihood``.
    prior : LCAPrior
    learning_rate : float, default=1
        Power η on the likelihood.

    Examples
    --------
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference.lca import prepare
    >>> stats = prepare(Pairs(np.eye(2), np.array([0]), np.array([1]), y=np.array([1])))
    >>> at = LCAParams(np.eye(2), np.log(1.5)), stats, LCAPrior(np.eye(2))
    >>> zero, one, two = (float(log_joint(*at, h)) for h in (0.0, 1.0, 2.0))
    >>> round((two - zero) / (one - zero), 6)  # η is a power of the likelihood.
    2.0
    """
    likelihood = jnp.asarray(log_likelihood(params, stats))
    return learning_rate * likelihood + log_prior(params, prior)


def objective(unconstrained: Arrays, data: tuple[PyTree, ...]) -> Scalar:
    """Return the log joint density at unconstrained values, for optimizers."""
    stats, prior, learning_rate = data[:3]
    return log_joint(to_params(unconstrained), stats, prior, learning_rate)


def to_params(unconstrained: Arrays) -> LCAParams:
    """Map {W, log_b} to parameters."""
    W = unconstrained["W"]
    log_sigma2 = log_sigma2_of(unconstrained["log_b"], W.shape[-2])
    return LCAParams(W, log_sigma2, np.ones((), W.dtype))
