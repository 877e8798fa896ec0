"""Laplace's approximation of LCA's posterior, without the rotations of W.

At the mode θ̂ = (vec W, log b) the precision is H = -∇² log p. Draws are restricted to
the orthogonal complement of the rotation orbit of W, with the basis Q
(``inference.rotations``):

    θ = θ̂ + Q L⁻ᵀ ε,    QᵀHQ = LLᵀ,    ε ~ N(0, I).                                (1)

M and b of these draws are identified, but W is not. If the prior makes H positive
definite, the start of NUTS has the full covariance H⁻¹. NUTS uses only its diagonal,
unless ``dense_mass=True``.

Cost, with q = pd + 1: the Hessian of N rows takes 2 N q² flops, its factor and inverse
q³; memory is five matrices of q² numbers.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.inference.lca.curvature import precision
from probmetric.inference.lca.statistics import Statistics
from probmetric.inference.rotations import inverse_root, root_across
from probmetric.linalg import one_blas_thread
from probmetric.models.lca import LCAParams, LCAPrior, log_b_of, log_sigma2_of
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

MAX_PARAMETERS = 10_001
"""Largest p·d + 1 for second derivatives: 4 GB of matrices."""


class Laplace(NamedTuple):
    """Gaussian approximation at the mode.

    ``mode`` (q,) is (vec W, log b). ``root`` (q, m) is the matrix of Eq. (1): the
    covariance of the draws is root·rootᵀ. ``shape`` is (p, d).
    """

    mode: Float[Array, "q"]
    root: Float[Array, "q m"]
    shape: tuple[int, ...]


def laplace(
    params: LCAParams,
    stats: Statistics,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float = 1.0,
    *,
    quotient: bool = True,
) -> Laplace:
    """Compute the Laplace approximation of the posterior at a mode.

    ``params`` is the mode, computed by ``lca.fit`` with the same arguments. With
    ``quotient`` the variance along rotations of W is zero, Eq. (1). This requires p ≤
    d. ValueError is raised if the precision is not positive definite: ``params`` is not
    a mode, or neither data nor prior determine some direction.
    """
    W = np.asarray(params.W)
    p = len(W)
    if W.size + 1 > MAX_PARAMETERS:
        raise ValueError(
            f"params must have at most {MAX_PARAMETERS} parameters (components times "
            f"features, plus 1) for second derivatives, got {W.size + 1}. Fit fewer "
            "components, or use method='svi'."
        )
    with one_blas_thread(W.size):
        H = precision(params, stats, prior, learning_rate)
        H = (H + H.T) / 2
        mode = np.append(np.ravel(W), log_b_of(np.asarray(params.log_sigma2), p))
        if not quotient:
            return Laplace(mode, inverse_root(H), W.shape)
        return Laplace(mode, root_across(H, W), W.shape)


@numpy_in_numpy_out
def laplace_draws(approximation: Laplace, key: jax.Array, n_draws: int) -> LCAParams:
    """Draw W (s, p, d) and log σ² (s,) by Eq. (1); κ² (s,) is 1 for every draw."""
    mode, root, shape = approximation
    return _drawn(mode, root, key, n_draws, tuple(shape))


@partial(jax.jit, static_argnames=("n", "shape"))
def _drawn(
    mode: Array, root: Array, key: jax.Array, n: int, shape: tuple[int, ...]
) -> LCAParams:
    theta = mode + jax.random.normal(key, (n, root.shape[1]), root.dtype) @ root.T
    log_sigma2 = log_sigma2_of(theta[:, -1], shape[0])
    W = theta[:, :-1].reshape(n, *shape)
    return LCAParams(W, log_sigma2, jnp.ones(n, root.dtype))
