"""Closed forms for grouped instances: EM for W and B (the C and I processes).

Group i with n_i instances, mean x̄_i and residuals e_ij = x_ij - x̄_i has

    log p(X_i | k) = log N(x̄_i; μ_k, B_k + W_k/n_i) - ½ (n_i - 1)(d log 2π + log|W_k|)
                     - ½ Σ_j e_ijᵀ W_k⁻¹ e_ij - ½ d log n_i.                       (1)

For each component, a matrix T with T (B + W) Tᵀ = I and T W Tᵀ = diag(a), 0 < a ≤ 1,
makes all coordinates independent. For W = αΣ every entry of a is α. In these
coordinates, with u = T (x̄ - μ),

    u ~ N(0, v),  v = (1 - a) + a/n;   x | X, k ~ N(h, V),
    h = g u,  V = (1 - g)(1 - a),  g = (1 - a)/v.                                  (2)

E:  r_ik ∝ c_k p(X_i | k);  R = Σ w r,  N = Σ w r n,  f = Σ w r (h - μ),
    B̃ = Σ w r [V + (h - μ)(h - μ)ᵀ]                       (about the current μ)
    W̃ = Σ w r [Σ_j e eᵀ + n (x̄ - h)(x̄ - h)ᵀ + n V]                              (3)
M, free, with δ the step of μ as in Eq. (4) of ``mixture.em``:
    B = [Ψ + B̃ - δfᵀ - fδᵀ + Rδδᵀ + κ₀(μ - m₀)(μ - m₀)ᵀ]/(R + df + d + 2)
    W = [Ψ_W + W̃]/(N + df_W + d + 1)                                              (4)

Without a prior, the terms and degrees of freedom of the prior are zero. The M-step of
the proportional form is in ``two_stage.proportional``.

Groups of one point contain no information about the split of S into W and B. If all
groups have one point, only the prior determines the split. If the likelihood is largest
at a singular B, EM converges slowly (sublinearly).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Float, Int

from probmetric.data.containers import Groups, Pairs, Points
from probmetric.densities.gaussian import LOG_2PI
from probmetric.inference.mixture import em as mixture
from probmetric.inference.mixture.prior import log_inverse_wishart, log_prior
from probmetric.inference.mixture.statistics import GroupStats, responsibilities
from probmetric.inference.two_stage.groups_missing import (
    GroupRows,
    e_step_rows,
    group_rows,
)
from probmetric.linalg import logdet_chol
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Scalar


class GroupData(NamedTuple):
    """Groups for EM. ``residual`` has only points of groups with two or more points."""

    mean: Float[Array, "G d"]
    size: Float[Array, "G"]
    w: Float[Array, "G"]
    residual: Float[Array, "m d"]
    owner: Int[Array, "m"]
    prior: TwoStagePrior | None = None


def group_data(
    data: Points | Pairs | Groups, *, prior: TwoStagePrior | None = None
) -> GroupData:
    """Reduce groups to means, sizes, residuals and mean weights, by NumPy."""
    X, owner, size, w, prior = group_rows(data, prior=prior)
    total = np.zeros((len(size), X.shape[1]), X.dtype)
    np.add.at(total, owner, X)
    mean = total / size[:, None]
    many = size[owner] > 1
    residual = X[many] - mean[owner[many]]
    return GroupData(mean, size, w, residual, owner[many], prior)


class _Frame(NamedTuple):
    """The coordinates of one component: T, T⁻¹, the spectrum a, log|S|."""

    T: Array
    T_inverse: Array
    a: Array
    logdet: Array


def _frame(W: Array, B: Array) -> _Frame:
    L = jnp.linalg.cholesky(B + W)
    half = solve_triangular(L, W, lower=True)
    ratio = solve_triangular(L, half.T, lower=True)
    a, U = jnp.linalg.eigh((ratio + ratio.T) / 2)
    T = solve_triangular(L, U, lower=True, trans=1).T
    return _Frame(T, L @ U, a, logdet_chol(L))


def _log_group(frame: _Frame, mean: Array, data: GroupData) -> Array:
    n, d = data.size, len(mean)
    u = (data.mean - mean) @ frame.T.T
    v = (1 - frame.a) + frame.a / n[:, None]
    scatter = jnp.sum((data.residual @ frame.T.T) ** 2 / frame.a, -1)
    scatter = jax.ops.segment_sum(scatter, data.owner, len(n))
    of_mean = d * LOG_2PI + frame.logdet + jnp.sum(jnp.log(v) + u**2 / v, -1)
    logdet_W = frame.logdet + jnp.sum(jnp.log(frame.a))
    of_rest = (n - 1) * (d * LOG_2PI + logdet_W) + scatter + d * jnp.log(n)
    return -0.5 * (of_mean + of_rest)


@numpy_in_numpy_out
def log_groups(params: TwoStageParams, data: GroupData) -> Float[Array, "G k"]:
    """Compute log c_k p(X_i | k) of every group and component."""
    frames = jax.vmap(_frame)(params.within, params.between)
    each = jax.lax.map(lambda p: _log_group(p[0], p[1], data), (frames, params.means))
    return (jnp.log(params.weights)[:, None] + each).T


@numpy_in_numpy_out
def e_step(params: TwoStageParams, data: GroupData | GroupRows) -> GroupStats:
    """Compute the expected statistics, Eq. (3); NaN entries are integrated out."""
    if isinstance(data, GroupRows):
        return e_step_rows(params, data)
    total, r = responsibilities(log_groups(params, data), data.w)
    frames = jax.vmap(_frame)(params.within, params.between)

    def sums_of(component: tuple[_Frame, Array, Array]) -> tuple[Array, ...]:
        frame, mean, r = component
        n = data.size[:, None]
        u = (data.mean - mean) @ frame.T.T
        g = (1 - frame.a) / ((1 - frame.a) + frame.a / n)  # Eq. (2)
        h, V = g * u, (1 - g) * (1 - frame.a)
        e = data.residual @ frame.T.T
        between = jnp.diag(r @ V) + (r[:, None] * h).T @ h
        within = (r[data.owner][:, None] * e).T @ e + jnp.diag((r * data.size) @ V)
        within = within + ((r * data.size)[:, None] * (u - h)).T @ (u - h)
        back = frame.T_inverse
        return (
            jnp.sum(r),
            r @ data.size,
            back @ (r @ h),
            back @ between @ back.T,
            back @ within @ back.T,
        )

    sums = jax.lax.map(sums_of, (frames, params.means, r.T))
    return GroupStats(total, *sums)


def m_step(
    stats: GroupStats, means: Float[Array, "k d"], prior: TwoStagePrior | None
) -> TwoStageParams:
    """Maximize the expected log joint density with free W and B, Eq. (4)."""
    N, d = stats.instances[:, None, None], means.shape[1]
    sums = stats.log_likelihood, stats.mass, stats.first, stats.between
    c, mu, between = mixture.m_step(mixture.MixtureStats(*sums), means, prior)
    if prior is None:
        within = stats.within / N
    else:
        within = (stats.within + prior.within_scale) / (N + prior.within_df + d + 1)
    return TwoStageParams(c, mu, mixture.symmetric(within), between)


def em_step(
    params: TwoStageParams, data: GroupData | GroupRows
) -> tuple[TwoStageParams, Scalar]:
    """Run one EM step; return parameters and the log joint density before the step."""
    return improved(params, e_step(params, data), data.prior)


def improved(
    params: TwoStageParams, stats: GroupStats, prior: TwoStagePrior | None
) -> tuple[TwoStageParams, Scalar]:
    """Run one EM step from the expected statistics of all groups under ``params``."""
    objective, p = stats.log_likelihood, prior
    if p is not None:
        of_within = jax.vmap(
            lambda W: log_inverse_wishart(W, p.within_df, p.within_scale)
        )
        objective = objective + jnp.sum(of_within(params.within))
        objective = objective + log_prior(
            params.weights, params.means, params.between, p
        )
    return m_step(stats, params.means, p), objective
