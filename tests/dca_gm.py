"""What tests of DCA-GM share."""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import logsumexp

from probmetric.linalg import logdet_chol
from probmetric.models.dca_gm import log_weight


def tilt(params, Q, h):
    """Tilt mixtures by Eq. (5) of ``likelihood``, with equal p(c|x).

    The result is NaN if a Σ⁻¹ + Q is indefinite.
    """
    p = h.shape[0]
    shape = (*params.mu.shape[:2], p, p)
    eye = jnp.broadcast_to(jnp.eye(p, dtype=h.dtype), params.chol.shape)
    half_precision = jnp.linalg.cholesky(cho_solve((params.chol, True), eye) + Q)
    half = solve_triangular(half_precision, eye, lower=True)
    chol = jnp.linalg.cholesky(jnp.swapaxes(half, -1, -2) @ half)
    old, new = (jnp.broadcast_to(L, shape) for L in (params.chol, chol))
    natural = cho_solve((old, True), params.mu[..., None])
    shifted = natural + h[:, None]
    mu = (new @ (jnp.swapaxes(new, -1, -2) @ shifted))[..., 0]
    quadratic = jnp.sum(mu * shifted[..., 0] - params.mu * natural[..., 0], -1)
    gain = 0.5 * (quadratic + logdet_chol(new) - logdet_chol(old))
    joint = log_weight(params) + gain
    log_alpha = logsumexp(joint, axis=1)
    return params._replace(
        log_alpha=jax.nn.log_softmax(log_alpha),
        log_beta=joint - log_alpha[:, None],
        mu=mu,
        chol=chol,
    )
