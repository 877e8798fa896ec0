"""Dissimilarity of points by their class distributions p(c|x).

A class is a mixture of Gaussians in the projection y = Ax (Peltonen, Goldberger and
Kaski 2007; maths B1, B6):

    log p(y, c) = log Σ_k π_ck N(y; μ_ck, L_ck L_ckᵀ),  π_ck = α_c β_ck.            (1)

With p(k|y,c) the probability of component k given the class c, the class score is

    m_c(y) = -∇_y log p(y, c) = Σ_k p(k|y,c) Σ_ck⁻¹ (y - μ_ck).                     (2)

For two points with a small difference δ, the squared Hellinger distance 1 - Σ√(p p')
and the Jensen-Shannon divergence (in nats) are δᵀJδ/8 to second order. J is the Fisher
matrix of ``metric.fisher``.
"""

from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Float

from probmetric.densities.gaussian import log_peak
from probmetric.metric.protocol import MetricBase, log_measured, measured
from probmetric.precision import one_program
from probmetric.typing import Array


def _whiten(
    Y: Float[Array, "n p"], mu: Float[Array, "c k p"], chol: Float[Array, "c _k p p"]
) -> Float[Array, "c k p n"]:
    """Return L_ck⁻¹ (y_i - μ_ck), with one triangular solve per Cholesky factor."""
    c, k, p = mu.shape
    rows = jnp.broadcast_to(Y.T, (*chol.shape[:2], p, len(Y)))
    factor = jnp.broadcast_to(chol, (c, k, p, p))
    centers = solve_triangular(factor, mu[..., None], lower=True)
    return solve_triangular(chol, rows, lower=True) - centers


def _log_joint_of(
    white: Float[Array, "c k p n"],
    log_weight: Float[Array, "c k"],
    chol: Float[Array, "c _k p p"],
) -> Float[Array, "c k n"]:
    constant = log_weight + log_peak(chol)
    return constant[..., None] - 0.5 * jnp.sum(white**2, 2)


def component_log_joint(
    Y: Float[Array, "n p"],
    log_weight: Float[Array, "c k"],
    mu: Float[Array, "c k p"],
    chol: Float[Array, "c _k p p"],
) -> Float[Array, "c k n"]:
    """Return log p(y_i, c, k), with n · c · k · p numbers in memory.

    ``chol`` has shape (c, 1, p, p) for one covariance per class, otherwise (c, k, p,
    p). Unused components have ``log_weight`` -inf, and finite μ and L.
    """
    return _log_joint_of(_whiten(Y, mu, chol), log_weight, chol)


def class_log_joint(
    Y: Float[Array, "n p"],
    log_weight: Float[Array, "c k"],
    mu: Float[Array, "c k p"],
    chol: Float[Array, "c _k p p"],
) -> Float[Array, "n c"]:
    """Return log p(y_i, c), Eq. (1), the log joint densities in the projection."""
    return logsumexp(component_log_joint(Y, log_weight, mu, chol), axis=1).T


def scores(
    Y: Float[Array, "n p"],
    log_weight: Float[Array, "c k"],
    mu: Float[Array, "c k p"],
    chol: Float[Array, "c _k p p"],
) -> tuple[Float[Array, "n c"], Float[Array, "n c p"]]:
    """Return log probabilities log p(c|y_i) and class scores m_c(y_i), Eq. (2)."""
    white = _whiten(Y, mu, chol)
    joint = _log_joint_of(white, log_weight, chol)
    per_class = logsumexp(joint, axis=1)
    share = jnp.exp(joint - per_class[:, None])
    weighted = share[:, :, None] * white
    if chol.shape[1] == 1:  # One factor per class: sum components before the solve.
        weighted = jnp.sum(weighted, 1, keepdims=True)
    m = jnp.sum(solve_triangular(chol, weighted, trans=1, lower=True), 1)
    return jax.nn.log_softmax(per_class, axis=0).T, jnp.moveaxis(m, 2, 0)


def pooled(xp: ModuleType, log_weight: Array, chol: Array) -> Array:
    """Return the sum of the components' covariances, weighted by exp(log_weight)."""
    factors = xp.broadcast_to(chol, (*log_weight.shape, *chol.shape[2:]))
    half = xp.exp(log_weight / 2)[..., None, None] * xp.swapaxes(factors, -1, -2)
    rows = half.reshape(-1, half.shape[-1])
    return rows.T @ rows


pooled_covariance = partial(pooled, jnp)


def hellinger_squared(
    log_p: Float[Array, "*n c"], log_q: Float[Array, "*n c"]
) -> Float[Array, "*n"]:
    """Return 1 - Σ√(p q), computed as ½Σ(√p - √q)² to avoid cancellation."""
    return 0.5 * jnp.sum((jnp.exp(log_p / 2) - jnp.exp(log_q / 2)) ** 2, -1)


def jensen_shannon(
    log_p: Float[Array, "*n c"], log_q: Float[Array, "*n c"]
) -> Float[Array, "*n"]:
    """Return the Jensen-Shannon divergence in nats, between 0 and log 2.

    The divergence is Σ m (u tanh u - log cosh u) with m = (p+q)/2 and
    u = (log p - log q)/2. All terms are ≥ 0, so this formula loses no digits. The usual
    difference of entropies loses digits for close points.
    """
    log_m = jnp.logaddexp(log_p, log_q) - jnp.log(2.0).astype(log_p.dtype)
    u = jnp.abs(log_p - log_q) / 2
    t = jnp.tanh(u)
    near = jnp.minimum(u, 1.0)
    small = near * jnp.tanh(near) + 0.5 * jnp.log1p(-(jnp.tanh(near) ** 2))
    large = u * (t - 1) + jnp.log(2.0).astype(u.dtype) - jnp.log1p(jnp.exp(-2 * u))
    return jnp.sum(jnp.exp(log_m) * jnp.where(u < 1, small, large), -1)


_DIVERGENCE = {"hellinger": hellinger_squared, "jensen_shannon": jensen_shannon}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class ClassDistribution(MetricBase):
    """Compare points by their class probabilities.

    Points x are projected to Ax. The density of each class in the projection is a
    mixture of Gaussians, from which class probabilities p(c|x) are computed.
    ``dissimilarity`` is a divergence of the class probabilities of two points, and
    ``distance`` is its square root. Points with equal class probabilities have distance
    0.

    Parameters
    ----------
    A : array of shape (p, d)
        Matrix of the projection.
    log_weight : array of shape (c, k)
        Log weights of the components. The weight of a component is the weight of its
        class times its weight within the class.
    mu : array of shape (c, k, p)
        Means of the components in the projection.
    chol : array of shape (c, 1, p, p) or (c, k, p, p)
        Lower Cholesky factors of the covariances. With length 1 on the second axis, all
        components of a class have one covariance.
    divergence : {"hellinger", "jensen_shannon"}, default="hellinger"
        Divergence of the class probabilities p and p' of two points:

        - "hellinger": the squared Hellinger distance 1 - Σ√(p p').
        - "jensen_shannon": the Jensen-Shannon divergence (natural logarithm).

    Examples
    --------
    >>> import numpy as np
    >>> mu, chol = np.array([[[-1.0]], [[1.0]]]), np.ones((2, 1, 1, 1))
    >>> metric = ClassDistribution(np.eye(1, 2), np.log([[0.5], [0.5]]), mu, chol)
    >>> metric.distance(np.zeros((2, 2)), np.array([[0.0, 9.0], [1.0, 0.0]])).round(3)
    array([0.   , 0.304])
    """

    A: Float[Array, "p d"]
    log_weight: Float[Array, "c k"]
    mu: Float[Array, "c k p"]
    chol: Float[Array, "c _k p p"]
    divergence: Literal["hellinger", "jensen_shannon"] = field(
        default="hellinger", metadata={"static": True}
    )
    is_distance: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.A.shape[-1]

    @log_measured
    @one_program
    def log_probability(self, X: Float[Array, "n d"]) -> Float[Array, "n c"]:
        """Compute the log probability of each class at each row, shape (n, c)."""
        Y = jnp.asarray(X) @ self.A.T
        joint = class_log_joint(Y, self.log_weight, self.mu, self.chol)
        return jax.nn.log_softmax(joint, axis=-1)

    @measured
    @one_program
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Compute divergences between rows of Q and rows of P, shape (m, n).

        For c classes, m · n · c numbers are in memory.
        """
        log_q = self.log_probability(jnp.asarray(Q))
        log_p = self.log_probability(jnp.asarray(P))
        divergence = _DIVERGENCE[self.divergence]

        def from_query(row: Float[Array, "c"]) -> Float[Array, "n"]:
            return divergence(jnp.broadcast_to(row, log_p.shape), log_p)

        return jax.vmap(from_query)(log_q)

    @measured
    @one_program
    def distance(
        self, A: Float[Array, "n d"], B: Float[Array, "n d"]
    ) -> Float[Array, "n"]:
        """Compute the distance (root of the divergence) of matching rows of A and B."""
        log_a = self.log_probability(jnp.asarray(A))
        log_b = self.log_probability(jnp.asarray(B))
        return jnp.sqrt(_DIVERGENCE[self.divergence](log_a, log_b))
