"""DCA-GM: the conditional likelihood, its gradient in the projection, and its gauges.

Let y_i = Ax_i. p(k|y,c) is the posterior probability of component k within class c, and
p(c,k|y) is its posterior probability among the components of all classes. The
conditional log likelihood L = Σ_i w_i log p(c_i|y_i) has the gradient

    ∂L/∂A = Σ_i V_i x_iᵀ = Vᵀ X,                                                    (1)
    V_i = w_i Σ_ck (p(c,k|y_i) - 1[c=c_i] p(k|y_i,c)) Σ_ck⁻¹ (y_i - μ_ck)
        = w_i (m̄(y_i) - m_{c_i}(y_i)),  m_c of ``metric.class_distribution``,        (2)

(Eq. (3) of seed 001). The sum over components is computed in p dimensions before the
product with X. The cost is O(n (d p + C K p + C p²)), and no n × C × K × p × d array is
stored. With the centers tied to the projection, μ_ck = Aμ'_ck with fixed μ',

    ∂L/∂A = Vᵀ X - Σ_ck (Σ_i V_ick) μ'_ckᵀ,                                         (3)

where V_ick are the summands of (2).

Gauge. For an invertible B, (BA, Bμ, BΣBᵀ) gives the same p(c|x) as (A, μ, Σ) (4). The
*tilt* by any h and any symmetric Q with every Σ_ck⁻¹ + Q positive definite gives the
same p(c|x):

    Σ̃⁻¹ = Σ⁻¹ + Q,  μ̃ = Σ̃ (Σ⁻¹ μ + h),
    log π̃ = log π + ½ (μ̃ᵀΣ̃⁻¹μ̃ - μᵀΣ⁻¹μ) + ½ log (|Σ̃| / |Σ|) + constant,             (5)

The paper misses the tilts (erratum 2 of seed 001). The Euclidean distance in the
projection depends on the gauge, but J and p(c|x) do not.
"""

from types import ModuleType

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jax.scipy.special import logsumexp
from jaxtyping import Float

from probmetric.data.containers import Labeled, weights
from probmetric.linalg import cholesky_of, row_signs, solve_lower
from probmetric.metric.class_distribution import (
    class_log_joint,
    component_log_joint,
    pooled,
    scores,
)
from probmetric.metric.fisher import mean_fisher
from probmetric.models.dca_gm import DCAGMParams, log_weight
from probmetric.precision import host_or_program, numpy_in_numpy_out, one_program
from probmetric.typing import Array


@numpy_in_numpy_out
@jax.jit
def class_log_probability(
    params: DCAGMParams, X: Float[Array, "n d"]
) -> Float[Array, "n c"]:
    """Compute the natural log of the class probabilities p(c|x_i)."""
    Y = jnp.asarray(X) @ params.A.T
    joint = class_log_joint(Y, log_weight(params), params.mu, params.chol)
    return jax.nn.log_softmax(joint, axis=-1)


@numpy_in_numpy_out
@one_program
def conditional_log_likelihood(params: DCAGMParams, data: Labeled) -> Float[Array, ""]:
    """Compute the conditional log likelihood L = Σ w_i log p(c_i|x_i), at most 0.

    Examples
    --------
    The classes of two points have probabilities 1/2 and 3/4:

    >>> import numpy as np
    >>> from probmetric.data import Labeled
    >>> from probmetric.inference import dca_gm
    >>> from probmetric.models.dca_gm import DCAGMParams
    >>> mu, zero = np.array([[[-1.0]], [[1.0]]]), np.zeros((2, 1))
    >>> half, chol = np.log([0.5, 0.5]), np.ones((2, 1, 1, 1))
    >>> params = DCAGMParams(np.eye(1), half, zero, mu, chol)
    >>> data = Labeled(np.array([[0.0], [np.log(3) / 2]]), np.array([0, 1]))
    >>> round(float(np.exp(dca_gm.conditional_log_likelihood(params, data))), 3)
    0.375
    """
    log_p = class_log_probability(params, jnp.asarray(data.X))
    return jnp.sum(weights(data) * _own(log_p, data))


def _own(values: Float[Array, "n c *p"], data: Labeled) -> Float[Array, "n *p"]:
    return values[jnp.arange(len(data.X)), jnp.asarray(data.y)]


def gradient_A(params: DCAGMParams, data: Labeled) -> Float[Array, "p d"]:
    """Compute the gradient ∂L/∂A, Eq. (1), with fixed (μ, Σ, α, β)."""
    X = jnp.asarray(data.X)
    log_p, m = scores(X @ params.A.T, log_weight(params), params.mu, params.chol)
    V = jnp.einsum("nc,ncp->np", jnp.exp(log_p), m) - _own(m, data)  # Eq. (2)
    return (weights(data)[:, None] * V).T @ X


def gradient_A_tied(
    params: DCAGMParams, mu_prime: Float[Array, "c k d"], data: Labeled
) -> Float[Array, "p d"]:
    """Compute the gradient ∂L/∂A, Eq. (3), with centers Aμ' (not ``params.mu``)."""
    X = jnp.asarray(data.X)
    tied = params._replace(mu=jnp.asarray(mu_prime) @ params.A.T)
    Y = X @ tied.A.T
    joint = component_log_joint(Y, log_weight(tied), tied.mu, tied.chol)
    is_class = jnp.arange(joint.shape[0])[:, None] == jnp.asarray(data.y)
    in_all = jnp.exp(joint - logsumexp(joint, axis=(0, 1)))
    in_class = jnp.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    R = weights(data) * (in_all - is_class[:, None] * in_class)
    chol = jnp.broadcast_to(tied.chol, (*R.shape[:2], *tied.chol.shape[2:]))
    # Σ_i R_ick (y_i - μ_ck), its outer product with x_i, and a solve per component.
    total = jnp.sum(R, -1)
    sum_x = jnp.einsum("ckn,nd->ckd", R, X)
    sum_v = sum_x @ tied.A.T - total[..., None] * tied.mu
    V_total = cho_solve((chol, True), sum_v[..., None])[..., 0]
    return gradient_A(tied, data) - jnp.einsum("ckp,ckd->pd", V_total, mu_prime)


@numpy_in_numpy_out
def apply_gauge(params: DCAGMParams, B: Float[Array, "p p"]) -> DCAGMParams:
    """Change the gauge by an invertible B, Eq. (4); p(c|x) stays the same."""
    return _in_gauge(params, B)


def _other_gauge(xp: ModuleType, params: DCAGMParams, B: Array) -> DCAGMParams:
    moved = B @ params.chol
    fisher = params.fisher
    if fisher is not None:
        inner = xp.linalg.solve(B.T, fisher)
        fisher = xp.linalg.solve(B.T, inner.T)
    return params._replace(
        A=B @ params.A,
        mu=params.mu @ B.T,
        chol=cholesky_of(xp, moved @ xp.swapaxes(moved, -1, -2)),
        fisher=fisher,
    )


_in_gauge = host_or_program(_other_gauge)


@jax.jit
def with_fisher(params: DCAGMParams, data: Labeled) -> DCAGMParams:
    """Set ``fisher`` to the weighted average of J_y over the points of ``data``."""
    theta = (log_weight(params), params.mu, params.chol)
    Y = jnp.asarray(data.X) @ params.A.T
    return params._replace(fisher=mean_fisher(Y, *theta, weights(data)))


@numpy_in_numpy_out
def fix_gauge(params: DCAGMParams) -> DCAGMParams:
    """Set the gauge: pooled Σ = I, and the eigenvectors of E[J_y] as axes.

    The axes have descending eigenvalues. Without ``fisher`` they are the eigenvectors
    of A Aᵀ. The largest entry of each row of A is positive.
    """
    return _in_fixed_gauge(params)


def _fixed_gauge(xp: ModuleType, params: DCAGMParams) -> DCAGMParams:
    weight = params.log_alpha[:, None] + params.log_beta
    half = cholesky_of(xp, pooled(xp, weight, params.chol))
    eye = xp.eye(half.shape[0], dtype=half.dtype)
    whitened = _other_gauge(xp, params, solve_lower(xp, half, eye))
    spread = whitened.A @ whitened.A.T if params.fisher is None else whitened.fisher
    axes: Array = xp.linalg.eigh(spread)[1][:, ::-1].T
    return _other_gauge(xp, whitened, row_signs(axes @ whitened.A) * axes)


_in_fixed_gauge = host_or_program(_fixed_gauge)
