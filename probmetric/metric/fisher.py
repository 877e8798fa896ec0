"""The Fisher matrix of the class given a point, and its local metric.

With the class scores m_c(y) = -∇_y log p(y, c) and m̄ = Σ_c p(c|y) m_c,

    ∇_y log p(c|y) = m̄ - m_c,                                                       (1)
    J_y = Σ_c p(c|y) (m_c - m̄)(m_c - m̄)ᵀ = F(y)ᵀ F(y),  F(y) = rows √p(c|y) (m_c - m̄)ᵀ,
                                                                                    (2)
    J(x) = Aᵀ J_y(Ax) A,  of rank at most min(p, C - 1)                             (3)

(maths B6). Far from every class boundary p(c|x) is one-hot and J is 0, because a small
step does not change the class probabilities.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.metric.class_distribution import scores
from probmetric.metric.protocol import MetricBase, measured
from probmetric.precision import one_program
from probmetric.typing import Array


def fisher_factor(
    log_p: Float[Array, "n c"], m: Float[Array, "n c p"]
) -> Float[Array, "n c p"]:
    """Return the factors F(y_i), Eq. (2), from log p(c|y_i) and the class scores."""
    p = jnp.exp(log_p)
    return jnp.exp(log_p / 2)[..., None] * (m - jnp.einsum("nc,ncp->np", p, m)[:, None])


def mean_fisher(
    Y: Float[Array, "n p"],
    log_weight: Float[Array, "c k"],
    mu: Float[Array, "c k p"],
    chol: Float[Array, "c _k p p"],
    w: Float[Array, "n"] | None = None,
) -> Float[Array, "p p"]:
    """Return the (weighted) mean of J_y over the rows of Y, without n matrices."""
    F = fisher_factor(*scores(Y, log_weight, mu, chol))
    w = jnp.ones(len(Y), Y.dtype) if w is None else w
    flat = (jnp.sqrt(w / jnp.sum(w))[:, None, None] * F).reshape(-1, Y.shape[1])
    return flat.T @ flat


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class LocalFisher(MetricBase):
    """Squared distance (y - q)ᵀ J(q) (y - q) of y from a query q.

    J(q) is the Fisher information matrix of the class probabilities p(c|x) at x = q.
    The squared distance is not symmetric, because the matrix depends on the query. For
    close points, it is about 8 times the divergence of ``ClassDistribution``.

    Parameters
    ----------
    A, log_weight, mu, chol
        Parameters of the class probabilities, as in ``ClassDistribution``.

    Examples
    --------
    The first feature separates two classes. Its weight is largest between their means.

    >>> import numpy as np
    >>> mu, chol = np.array([[[-1.0]], [[1.0]]]), np.ones((2, 1, 1, 1))
    >>> metric = LocalFisher(np.eye(1, 2), np.log([[0.5], [0.5]]), mu, chol)
    >>> between, beyond = metric.pairwise(np.array([[0.0, 0.0], [3.0, 0.0]]), np.eye(2))
    >>> bool(between[0] > beyond[0] and between[1] == 0)
    True
    """

    A: Float[Array, "p d"]
    log_weight: Float[Array, "c k"]
    mu: Float[Array, "c k p"]
    chol: Float[Array, "c _k p p"]
    is_distance: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.A.shape[-1]

    def maps(self) -> list[Array]:
        """Return the linear maps of the metric, [``A``]."""
        return [self.A]

    def _factor(self, X: Float[Array, "n d"]) -> Float[Array, "n c p"]:
        Y = X @ self.A.T
        return fisher_factor(*scores(Y, self.log_weight, self.mu, self.chol))

    @measured
    @one_program
    def matrix_at(self, X: Float[Array, "n d"]) -> Float[Array, "n d d"]:
        """Compute the Fisher information matrix at each row, shape (n, d, d)."""
        rows = self._factor(jnp.asarray(X)) @ self.A
        return jnp.swapaxes(rows, 1, 2) @ rows

    @measured
    @one_program
    def pairwise(
        self, Q: Float[Array, "m d"], P: Float[Array, "n d"]
    ) -> Float[Array, "m n"]:
        """Compute squared distances from rows of Q to rows of P, shape (m, n).

        For c classes, m · n · c numbers are in memory.
        """
        Q = jnp.asarray(Q)
        F, Z, V = self._factor(Q), Q @ self.A.T, jnp.asarray(P) @ self.A.T
        return jax.vmap(lambda f, z: jnp.sum(((V - z) @ f.T) ** 2, -1))(F, Z)
