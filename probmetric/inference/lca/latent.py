"""The exact posterior of the latent pair (z, z') given the label of the pair.

With g = Wδ, τ² = κ² + 2σ², s = σ²/τ², ν = P1/P0, and a = s (y = 1) or -νs (y = 0):

    E[z] = W(x - aδ),    E[z'] = W(x' + aδ),                                      (1)

    Cov | y=1  =  σ² [[(1-s) I, s I], [s I, (1-s) I]],                              (2)
    Cov | y=0  =  σ² [[(1+νs) I, -νs I], [-νs I, (1+νs) I]] + [[-R, R], [R, -R]],
    R = ν(1+ν)s² g gᵀ.                                                            (3)

Given y = 1 the posterior is Gaussian. Given y = 0 it is a signed mixture of the prior
(weight 1 + ν) and the y = 1 posterior (weight -ν). This mixture is not Gaussian, which
gives the term R. Erratum 1 of seed 000: the paper omits R, so that E‖z - z̄‖² is too
large by up to σ²/(2p).

Stability: t ≥ b ≥ p s implies νs ≤ 1/p, so products with ν are bounded.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from probmetric.models.lca import coincidence_exponent
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


class PairPosterior(NamedTuple):
    """Posterior moments of (z, z') given y, one entry per pair.

    ``mean`` (N, q = 2p) has the entries of z before the entries of z'; ``eps2`` (N,) is
    E‖z - E z‖², equal for z and z'.
    """

    mean: Float[Array, "N q"]
    cov: Float[Array, "N q q"]
    eps2: Float[Array, "N"]


def odds(
    t: Float[Array, "*N"] | float,
) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
    """Return ν = 1/(e^t - 1) and ν(1 + ν), accurate for all t."""
    decay, gap = jnp.exp(-t), -jnp.expm1(-t)
    return decay / gap, decay / gap**2


@numpy_in_numpy_out
@jax.jit
def pair_posterior(
    x: Float[Array, "N d"],
    x_prime: Float[Array, "N d"],
    y: Int[Array, "N"],
    W: Float[Array, "p d"],
    sigma2: Float[Array, ""] | float,
    kappa2: Float[Array, "..."] | float = 1.0,
) -> PairPosterior:
    """Compute the exact posterior mean and covariance of (z, z') (Eqs. 1-3).

    z and z' are the latent positions of the two points of a pair: Wx and Wx' plus
    noise. The posterior is given the label y of the pair.

    Parameters
    ----------
    x, x_prime : arrays of shape (N, d)
    y : int array of shape (N,)
        Labels in {0, 1}.
    W : array of shape (p, d)
    sigma2 : float
        Latent noise σ² > 0.
    kappa2 : float or array of shape (N,), default=1
        Squared width κ² > 0 of the coincidence: P(y = 1 | z, z') decreases with
        ‖z - z'‖²/κ².

    Returns
    -------
    PairPosterior
        ``mean`` (N, 2p) and ``cov`` of z and z', and ``eps2`` (N,) = E‖z - E z‖².

    Examples
    --------
    With σ² = κ² and y = 1, the points move toward each other by a third of their
    distance:

    >>> import numpy as np
    >>> x, W, y = np.zeros((2, 1)), np.eye(1), np.array([1, 0])
    >>> pair_posterior(x, x + 3, y, W, 1.0).mean.round(2).tolist()
    [[1.0, 2.0], [-0.15, 3.15]]
    """
    W = jnp.asarray(W)
    x, x_prime = jnp.asarray(x), jnp.asarray(x_prime)
    p = W.shape[0]
    delta = x - x_prime
    g = delta @ W.T
    D = jnp.sum(g**2, -1)
    s = jnp.broadcast_to(sigma2 / (kappa2 + 2 * sigma2), D.shape)
    nu, nu2 = odds(coincidence_exponent(D, sigma2, kappa2, p))
    same = y == 1
    a = jnp.where(same, s, -nu * s)
    ad = a[:, None] * g
    mean = jnp.concatenate([x @ W.T - ad, x_prime @ W.T + ad], -1)
    # The first terms of Eqs. (2) and (3) are the same function of a.
    eye = jnp.eye(p, dtype=W.dtype)
    variance = (sigma2 * (1 - a))[:, None, None] * eye
    covariance = (sigma2 * a)[:, None, None] * eye
    R = jnp.where(same, 0.0, nu2 * s**2)[:, None, None] * g[:, :, None] * g[:, None, :]
    top = jnp.concatenate([variance - R, covariance + R], -1)
    bottom = jnp.concatenate([covariance + R, variance - R], -1)
    cov = jnp.concatenate([top, bottom], -2)
    eps2 = p * sigma2 * (1 - a) - jnp.where(same, 0.0, nu2 * s**2 * D)
    return PairPosterior(mean, cov, eps2)
