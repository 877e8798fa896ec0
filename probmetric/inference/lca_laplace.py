"""Laplace's approximation of LCA's posterior, with the rotation quotiented out.

At the mode θ̂ = (vec W, log σ²) the precision is H = -∇² log p. M = WᵀW does not change
along the tangents vec(ΩW), Ω skew, of the rotation orbit: to first order they carry
nothing, to second order a Gaussian that spreads along them drifts off the orbit and
inflates M. So draws are restricted to their orthogonal complement: with Q its basis,

    θ = θ̂ + Q (QᵀHQ)^{-1/2} ε,    ε ~ N(0, I).                                     (1)

Report M and b of such draws, never W. The full covariance H⁻¹ serves as the inverse
mass matrix of NUTS, where the prior makes H positive definite.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.inference.lca_curvature import precision
from probmetric.inference.lca_statistics import Statistics
from probmetric.models.lca import LCAParams, LCAPrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

__all__ = ["Laplace", "laplace", "laplace_draws"]


class Laplace(NamedTuple):
    """A Gaussian around the mode.

    ``mode`` (q,) is (vec W, log σ²); ``root`` (q, m) is the matrix of Eq. (1), so
    that the covariance of the draws is root·rootᵀ; ``shape`` is (p, d).
    """

    mode: Float[Array, "q"]
    root: Float[Array, "q m"]
    shape: tuple[int, ...]


def rotation_tangents(W: Float[Array, "p d"]) -> Float[Array, "q r"]:
    """Return vec(ΩW) for the p(p-1)/2 elementary skew Ω, with a zero for log σ²."""
    p, d = W.shape
    a, b = np.triu_indices(p, 1)
    k = np.arange(len(a))
    tangents = jnp.zeros((len(a), p, d), W.dtype)
    tangents = tangents.at[k, a].set(W[b]).at[k, b].set(-W[a])
    return jnp.pad(tangents.reshape(len(a), p * d), ((0, 0), (0, 1))).T


@numpy_in_numpy_out
def laplace(
    params: LCAParams,
    stats: Statistics,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float = 1.0,
    *,
    quotient: bool = True,
) -> Laplace:
    """Approximate the posterior at its mode.

    Parameters
    ----------
    params : LCAParams
        The mode, from ``lca.fit`` with the same prior and learning rate.
    stats, prior, learning_rate
        As given to the fit.
    quotient : bool, default=True
        Remove the rotation tangents (Eq. 1). False keeps the whole covariance.

    Raises
    ------
    ValueError
        When the precision is not positive definite on the space kept: the point is
        no mode, or a direction has neither data nor prior.
    """
    W = jnp.asarray(params.W)
    H = precision(params, stats, prior, learning_rate)
    H = (H + H.T) / 2
    basis = jnp.eye(len(H), dtype=H.dtype)
    if quotient and W.shape[0] > 1:
        tangents = rotation_tangents(W)
        full, _ = jnp.linalg.qr(tangents, mode="complete")
        basis = full[:, tangents.shape[1] :]
    eigenvalues, vectors = jnp.linalg.eigh(basis.T @ H @ basis)
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if not smallest > len(H) * float(jnp.finfo(H.dtype).eps) * largest:
        raise ValueError(
            "params: wanted a posterior mode with positive definite precision, got "
            f"eigenvalues from {smallest:.3g} to {largest:.3g}: fit to convergence "
            "(tol), or set a proper prior (lam > 0)"
        )
    mode = jnp.append(jnp.ravel(W), params.log_sigma2)
    return Laplace(mode, basis @ (vectors / jnp.sqrt(eigenvalues)), W.shape)


def laplace_draws(approximation: Laplace, key: Any, n_draws: int) -> LCAParams:
    """Draw parameters with a leading axis of length ``n_draws`` (Eq. 1).

    Parameters
    ----------
    approximation : Laplace
    key : typed JAX key
    n_draws : int

    Returns
    -------
    LCAParams
        W (s, p, d), log σ² (s,), κ² (s,) all one.
    """
    root = jnp.asarray(approximation.root)
    noise = jax.random.normal(key, (n_draws, root.shape[1]), root.dtype)
    theta = approximation.mode + noise @ root.T
    W = theta[:, :-1].reshape(n_draws, *approximation.shape)
    return LCAParams(W, theta[:, -1], jnp.ones(n_draws, root.dtype))
