"""The log joint density of responses and map, and its gradient.

With differences δ_ik, responses y_i and weights w_i of the triplets, D_ik, P and P* of
Eqs. (1), (2), (5) of ``models.triplet_comparisons`` and τ = λ/c²,

    log p(y, W) = η Σ_i w_i log P*(y_i) - (τ/2) ‖W - W₀‖² + (pd/2) log(τ/2π),        (1)
    ∂/∂W = 2W Σ_ik r_ik δ_ik δ_ikᵀ - τ (W - W₀),
    r_ik = η w_i a_i (P(k) - [y_i = k]),                                            (2)
    a_i = (1 - ε) P(y_i) / P*(y_i),                                                 (3)

and, if ε is learned, with u and the prior Beta(α, β), Eq. (6) of
``models.triplet_comparisons``, the term

    log p(u) = α log ε + β log(1 - ε) - log B(α, β),
    ∂/∂u = Σ_i η w_i (1 - a_i - ε) + α (1 - ε) - βε,                                (4)

If raters differ, √s_r δ_ik replaces δ_ik and s_r D_ik replaces D_ik in Eqs. (1)-(4).
With z ~ N(0, I) and log s = ωBz, Eq. (7) of ``models.triplet_comparisons``, Eq. (1) has
the additional term

    log p(z) = -½ ‖z‖² - (R-1)/2 log 2π,
    ∂/∂z = ωBᵀ h - z,    h_r = Σ_{i of r} Σ_k r_ik s_r D_ik,                        (5)

They follow from ∂ log P(y)/∂D_k = P(k) - [y = k] and ∂ log P*/∂ log P = a. The share
a_i is the posterior probability that response i is no lapse. Responses that contradict
the map therefore have little weight. For two alternatives the gradient is a difference
of two scatter matrices, because r_i0 = -r_i1. If ε = 0, then a = 1 and the likelihood
is log-concave in M, because D is linear in M and log P is concave in D. Eq. (1) is not
concave in W.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from probmetric.inference.triplet_comparisons.statistics import Differences
from probmetric.models.triplet_comparisons import TripletPrior, contrasts
from probmetric.precision import numpy_in_numpy_out, one_program
from probmetric.typing import Array, Scalar


def _squared(W: Array, data: Differences, prior: TripletPrior) -> Array:
    return jnp.sum((data.sharpened(prior) @ W.T) ** 2, -1)


def _log_responses(log_p: Array, data: Differences) -> tuple[Array, Array]:
    """Return log (1 - ε) P(y) and log P*(y) of the responses."""
    picked = jnp.take_along_axis(log_p, data.y[:, None], -1)[:, 0]
    own = picked + jnp.log1p(-data.lapse)
    return own, jnp.logaddexp(own, jnp.log(data.lapse / log_p.shape[-1]))


@numpy_in_numpy_out
def parts(W: Array, data: Differences, prior: TripletPrior) -> tuple[Scalar, Scalar]:
    """Return the log prior of W and the log likelihood; their sum is Eq. (1)."""
    tau = prior.lam / jnp.square(prior.c)
    normal = 0.5 * W.size * jnp.log(tau / (2 * np.pi))
    log_prior = normal - 0.5 * tau * jnp.sum((W - prior.mean) ** 2)
    log_p = jax.nn.log_softmax(-_squared(W, data, prior), -1)
    return log_prior, jnp.sum(data.w * _log_responses(log_p, data)[1])


def log_lapse(rate: Array, prior: TripletPrior) -> Scalar:
    """Return log p(u) of Eq. (4) at ε, or 0 if ε is not learned."""
    if prior.lapse is None:
        return jnp.zeros_like(rate)
    alpha, beta = prior.lapse
    density = alpha * jnp.log(rate) + beta * jnp.log1p(-rate)
    # betaln of jax.scipy has errors of 1e-6.
    return density + gammaln(alpha + beta) - gammaln(alpha) - gammaln(beta)


def log_effects(z: Array | None, prior: TripletPrior) -> Scalar:
    """Return log p(z) of Eq. (5), or 0 if raters do not differ."""
    if prior.spread is None or z is None:
        return jnp.zeros(())
    return jnp.sum(jax.scipy.stats.norm.logpdf(z))


@numpy_in_numpy_out
@one_program
def log_joint(W: Array, data: Differences, prior: TripletPrior) -> Scalar:
    """Compute the log joint density (Eqs. 1, 4 and 5), constants included."""
    effects = log_lapse(data.lapse, prior) + log_effects(data.z, prior)
    return sum(parts(W, data, prior)) + effects


@numpy_in_numpy_out
@one_program
def value_and_gradient(
    W: Array, data: Differences, prior: TripletPrior
) -> tuple[Scalar, Array, Array]:
    """Compute the log joint density, and its slopes in W, Eq. (2), and in effects.

    The effects are z, Eq. (5), if raters differ, and u, Eq. (4), if ε is learned.
    """
    delta, squared = data.sharpened(prior), _squared(W, data, prior)
    log_p = jax.nn.log_softmax(-squared, -1)
    own, log_response = _log_responses(log_p, data)
    p, a = jnp.exp(log_p), jnp.exp(own - log_response)  # Eq. (3)
    r = (data.w * a)[:, None] * (p - jax.nn.one_hot(data.y, p.shape[-1], dtype=p.dtype))
    flat = delta.reshape(-1, delta.shape[-1])
    pull = (flat * r.reshape(-1, 1)).T @ flat
    tau = prior.lam / jnp.square(prior.c)
    in_W, in_effects = 2 * W @ pull - tau * (W - prior.mean), jnp.zeros(0, W.dtype)
    if prior.spread is not None and data.z is not None:
        zero = jnp.zeros_like(prior.spread)
        h = zero.at[data.rater].add(jnp.sum(r * squared, -1))
        in_effects = contrasts(len(h)).T @ (prior.spread * h) - data.z
    if prior.lapse is not None:
        alpha, beta = prior.lapse
        in_u = jnp.sum(data.w * (1 - a - data.lapse))
        in_u = in_u + alpha * (1 - data.lapse) - beta * data.lapse
        in_effects = jnp.append(in_effects, in_u)
    return log_joint(W, data, prior), in_W, in_effects
