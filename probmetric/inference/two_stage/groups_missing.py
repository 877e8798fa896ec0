"""The E-step for grouped instances with missing entries (NaN) integrated out.

Only the coordinates o of instance j of group i are observed. Given component k, with
u = x - μ_k, e_j = X_j - μ_k (zero for missing entries) and J_j the inverse of W
restricted to o and zero elsewhere, p(X_jo | u, k) = N(e_jo; u_o, W_oo). Write J = Σ_j
J_j, s = Σ_j J_j e_j and B = L Lᵀ. Completing the square gives

    u | X_i, k ~ N(h, V),   V = L A⁻¹ Lᵀ,   A = I + Lᵀ J L,   h = V s.            (1)

Since log p(X_i | k) = log p(X_i | h) + log p(h) - log p(h | X_i), and with r_j = e_j -
h on o and zero elsewhere,

    log p(X_i | k) = -½ Σ_j (d_o log 2π + log|W_oo| + r_jᵀ J_j r_j)
                     - ½ log|A| - ½ |A⁻¹ Lᵀ s|².                                  (2)

Let ε_j = X_j - x be the noise of an instance, including its missing entries. Given u,
ε_j is normal with mean W J_j (e_j - u) and covariance W - W J_j W. Averaged over u,

    E[ε_j ε_jᵀ | X_i, k] = W (J_j r_j r_jᵀ J_j + J_j V J_j - J_j) W + W.          (3)

The sums, Eq. (3) of ``two_stage.groups``, therefore become

    f = Σ w r h,   B̃ = Σ w r (V + h hᵀ),   W̃ = Σ w r Σ_j E[ε_j ε_jᵀ]            (4)

The M-steps of ``two_stage.groups`` do not change. Without missing entries J_j = W⁻¹,
and (4) equals the sums in Eq. (3) of ``two_stage.groups``.

Entries must be missing at random. The cost is n k d³, and memory is n d² numbers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Float, Int

from probmetric.data.containers import Groups, Pairs, Points, weights
from probmetric.data.groups import as_groups
from probmetric.densities.gaussian import chol_seen, log_peak
from probmetric.inference.mixture.statistics import GroupStats, responsibilities
from probmetric.linalg import logdet_chol
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


class GroupRows(NamedTuple):
    """Rows of groups for EM, with NaN: rows, group index, sizes and weights."""

    X: Float[Array, "n d"]
    owner: Int[Array, "n"]
    size: Float[Array, "G"]
    w: Float[Array, "G"]
    prior: TwoStagePrior | None = None


def group_rows(
    data: Points | Pairs | Groups, *, prior: TwoStagePrior | None = None
) -> GroupRows:
    """Pack the rows of groups by NumPy; see ``two_stage.groups.group_data``."""
    groups = as_groups(data)
    X, w = np.asarray(groups.X), np.asarray(weights(groups))
    owner = np.unique(np.asarray(groups.group), return_inverse=True)[1]
    size = np.bincount(owner).astype(X.dtype)
    w = (np.bincount(owner, w) / size).astype(X.dtype)
    return GroupRows(X, owner, size, w, prior)


def filled(data: Points | Pairs | Groups) -> Groups:
    """Replace NaN by the group mean, or by the column mean; only for starts of EM."""
    groups = as_groups(data)
    X = np.asarray(groups.X)
    observed, owner = ~np.isnan(X), np.unique(groups.group, return_inverse=True)[1]
    total, count = np.zeros((2, owner.max() + 1, X.shape[1]))
    np.add.at(total, owner, np.where(observed, X, 0))
    np.add.at(count, owner, observed)
    column = total.sum(0) / count.sum(0)
    mean = np.where(count > 0, total / np.maximum(count, 1), column)
    return groups._replace(X=np.where(observed, X, mean[owner]).astype(X.dtype))


class _Posterior(NamedTuple):
    """Eqs. (1), (2) of all groups under one component, and J_j, J_j r_j of rows."""

    log_p: Array
    h: Array
    V: Array
    J: Array
    Jr: Array


def _posterior(mean: Array, W: Array, B: Array, data: GroupRows) -> _Posterior:
    eye = jnp.eye(len(mean), dtype=W.dtype)
    sums = lambda a: jax.ops.segment_sum(a, data.owner, len(data.size))  # noqa: E731

    def instance(x: Array) -> tuple[Array, ...]:
        root, e, observed = chol_seen(x, mean, W)
        both = observed[:, None] & observed
        inverse = jnp.where(both, cho_solve((root, True), eye), 0.0)
        return inverse, e, observed, log_peak(root, jnp.sum(observed))

    J, e, observed, peak = jax.vmap(instance)(data.X)
    L = jnp.linalg.cholesky(B)
    s = sums(jnp.einsum("nij,nj->ni", J, e))
    A = eye + jnp.einsum("ai,gab,bj->gij", L, sums(J), L)
    root = jnp.linalg.cholesky((A + jnp.swapaxes(A, 1, 2)) / 2)
    half = jax.vmap(lambda R: solve_triangular(R, L.T, lower=True))(root)
    V = jnp.einsum("gai,gaj->gij", half, half)
    z = jax.vmap(lambda R, b: cho_solve((R, True), L.T @ b))(root, s)
    h = z @ L.T
    r = jnp.where(observed, e - h[data.owner], 0.0)
    Jr = jnp.einsum("nij,nj->ni", J, r)
    of_rows = sums(peak - 0.5 * jnp.sum(r * Jr, -1))
    log_p = of_rows - 0.5 * (logdet_chol(root) + jnp.sum(z**2, -1))
    return _Posterior(log_p, h, V, J, Jr)


@numpy_in_numpy_out
def log_rows(params: TwoStageParams, data: GroupRows) -> Float[Array, "G k"]:
    """Compute log c_k p(X_i | k) of every group and component by Eq. (2)."""
    parts = params.means, params.within, params.between
    each = jax.lax.map(lambda p: _posterior(p[0], p[1], p[2], data).log_p, parts)
    return (jnp.log(params.weights)[:, None] + each).T


@numpy_in_numpy_out
def e_step_rows(params: TwoStageParams, data: GroupRows) -> GroupStats:
    """Compute the expected statistics, Eq. (4), about the current means."""
    total, r = responsibilities(log_rows(params, data), data.w)

    def sums_of(component: tuple[Array, ...]) -> tuple[Array, ...]:
        mean, W, B, r = component
        p = _posterior(mean, W, B, data)
        of_row = r[data.owner]
        between = jnp.einsum("g,gij->ij", r, p.V) + (r[:, None] * p.h).T @ p.h
        JV = jnp.einsum("nij,njk->nik", p.J, p.V[data.owner])
        inner = jnp.einsum("nij,njk->nik", JV, p.J) - p.J
        inner = jnp.einsum("n,nij->ij", of_row, inner)
        inner = inner + (of_row[:, None] * p.Jr).T @ p.Jr  # Eq. (3)
        instances = r @ data.size
        return jnp.sum(r), instances, r @ p.h, between, W @ inner @ W + instances * W

    sums = jax.lax.map(sums_of, (params.means, params.within, params.between, r.T))
    return GroupStats(total, *sums)
