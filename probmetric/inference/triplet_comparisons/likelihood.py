"""The log joint density of responses and map, and its gradient.

With rows u_i, v_i of U, V (N, d), signs s_i, weights w_i, t_i of Eq. (1) of
``models.triplet_comparisons`` and τ = λ/c²,

    log p(y, W) = -η Σ_i w_i log(1 + e^{-s_i t_i})
                  - (τ/2) ‖W - W₀‖² + (pd/2) log(τ/2π),                            (1)
    ∂/∂W = 2W (Uᵀdiag(r) U - Vᵀdiag(r) V) - τ (W - W₀),
    r_i = η w_i s_i / (1 + e^{s_i t_i}).                                           (2)

The likelihood is log-concave in M. Eq. (1) is not concave in W.
"""

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.inference.triplet_comparisons.statistics import Differences
from probmetric.models.triplet_comparisons import TripletPrior
from probmetric.precision import numpy_in_numpy_out, one_program
from probmetric.typing import Array, Scalar


def _margin(W: Array, data: Differences) -> Array:
    return data.sign * (
        jnp.sum((data.u @ W.T) ** 2, -1) - jnp.sum((data.v @ W.T) ** 2, -1)
    )


@numpy_in_numpy_out
def parts(W: Array, data: Differences, prior: TripletPrior) -> tuple[Scalar, Scalar]:
    """Return the log prior and the log likelihood; their sum is Eq. (1)."""
    tau = prior.lam / jnp.square(prior.c)
    normal = 0.5 * W.size * jnp.log(tau / (2 * np.pi))
    log_prior = normal - 0.5 * tau * jnp.sum((W - prior.mean) ** 2)
    return log_prior, jnp.sum(data.w * jax.nn.log_sigmoid(_margin(W, data)))


@numpy_in_numpy_out
@one_program
def log_joint(W: Array, data: Differences, prior: TripletPrior) -> Scalar:
    """Compute the log joint density (Eq. 1), constants included."""
    return sum(parts(W, data, prior))


@numpy_in_numpy_out
@one_program
def value_and_gradient(
    W: Array, data: Differences, prior: TripletPrior
) -> tuple[Scalar, Array]:
    """Compute the log joint density, Eq. (1), and its gradient, Eq. (2)."""
    margin = _margin(W, data)
    r = data.w * data.sign * jax.nn.sigmoid(-margin)
    pull = (data.u * r[:, None]).T @ data.u - (data.v * r[:, None]).T @ data.v
    tau = prior.lam / jnp.square(prior.c)
    return log_joint(W, data, prior), 2 * W @ pull - tau * (W - prior.mean)
