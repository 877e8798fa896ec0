"""Two-stage mixture: closed forms for two observations and for α.

``densities.pair`` has the density of two observations: EQ-2 of seed 002 in its
mean-difference form, and EQ-4 and EQ-5 as the cases W = 0 and W' = 0. This module has
the following closed forms.

EQ-3 of seed 002 for small α is used only in documentation and tests, because EQ-2 is
exact at the same cost. Without the printed factor 1/α^d (erratum Y4), EQ-3 is
    Σ_k c_k N(Q - Y; 0, 2αΣ_k) N((Q + Y)/2 - μ_k; 0, Σ_k).                        (1)

The representative of n instances with mean x̄, and the component, have the posterior
    x | X, k ~ N(μ + G (x̄ - μ), B - G B),   G = B (B + W/n)⁻¹,                    (2)
    P(k | X) ∝ c_k p(X | k).

α is fitted to pairs of one source with fixed (c, μ, Σ). In coordinates whitened by Σ_k,
let r_k = P(k | Q, Y), n = d Σ w, A = Σ w r (|q|² + |y|²) and C = Σ w r q·y. The M-step
for ρ = 1 - α is the best root in (0, 1) of
    n ρ³ - C ρ² + (A - n) ρ - C = 0,   or ρ = 0 if that is better,                (3)
by the objective -(n/2) log(1 - ρ²) - (A - 2ρC)/(2 (1 - ρ²)).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp
from jaxtyping import Float

from probmetric.densities.gaussian import LOG_2PI, log_normal, log_peak
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.solvers.em import run_em
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.proportional import best_root
from probmetric.linalg import logdet_chol, solve_spd
from probmetric.models.two_stage import TwoStageParams
from probmetric.precision import numpy_in_numpy_out, one_program
from probmetric.typing import Array, Scalar


@numpy_in_numpy_out
@one_program
def log_joint_small_alpha(
    mixture: MixtureParams,
    alpha: Float[Array, ""] | float | int,
    Q: Float[Array, "N d"],
    Y: Float[Array, "N d"],
) -> Float[Array, "N"]:
    """Compute the log joint density for small α, Eq. (1) (EQ-3 of seed 002).

    The error of the log density of a component is (d/2) log(1 - α/2) + ½ r² α/(2 - α),
    where r² is the squared distance of (Q + Y)/2 from μ under Σ.
    """

    def log_pair(q: Array, y: Array) -> Array:
        def component(c: Array, mean: Array, S: Array) -> Array:
            apart = log_normal(jnp.linalg.cholesky(2 * alpha * S), q - y)
            middle = log_normal(jnp.linalg.cholesky(S), (q + y) / 2 - mean)
            return jnp.log(c) + apart + middle

        return logsumexp(jax.vmap(component)(*mixture))

    return jax.vmap(log_pair)(jnp.asarray(Q), jnp.asarray(Y))


class Representative(NamedTuple):
    """log P(k | X), and the mean and covariance of x given X and k."""

    log_component: Float[Array, "k"]
    mean: Float[Array, "k d"]
    covariance: Float[Array, "k d d"]


@numpy_in_numpy_out
@jax.jit
def representative(params: TwoStageParams, X: Float[Array, "n d"]) -> Representative:
    """Compute the posterior of a source's latent mean, given measurements X, Eq. (2).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import two_stage
    >>> from probmetric.models.two_stage import TwoStageParams
    >>> S = np.ones((1, 1, 1))
    >>> params = TwoStageParams(np.ones(1), np.zeros((1, 1)), within=S, between=S)
    >>> _, mean, covariance = two_stage.representative(params, np.array([[3.0], [5.0]]))
    >>> mean.round(4).tolist()  # Two instances and the prior: (3 + 5 + 0)/3
    [[2.6667]]
    >>> covariance.round(4).tolist()
    [[[0.3333]]]
    """
    rows = jnp.asarray(X)
    n, d = rows.shape
    center = jnp.mean(rows, 0)
    residual = rows - center

    def given_component(
        c: Array, mean: Array, W: Array, B: Array
    ) -> tuple[Array, Array, Array]:
        S = B + W / n
        G = solve_spd(S, B).T
        # B - G B = G W/n, which does not cancel and is symmetric.
        cov = G @ W / n
        # p(X | k) from the residuals: N of n - 1 orthonormal contrasts, Jacobian √n^d.
        L = jnp.linalg.cholesky(W)
        contrasts = jnp.sum(log_normal(L, residual)) - log_peak(L)
        of_mean = log_normal(jnp.linalg.cholesky(S), center - mean)
        log_k = jnp.log(c) + of_mean + contrasts - 0.5 * d * jnp.log(float(n))
        return log_k, mean + G @ (center - mean), (cov + cov.T) / 2

    log_k, mean, cov = jax.vmap(given_component)(*params)
    return Representative(log_k - logsumexp(log_k), mean, cov)


class AlphaData(NamedTuple):
    """Pairs of one source, whitened per component; ``log_c`` is log c_k - log|Σ_k|."""

    q: Float[Array, "k N d"]
    y: Float[Array, "k N d"]
    log_c: Float[Array, "k"]
    w: Float[Array, "N"]


@jax.jit
def _alpha_data(mixture: MixtureParams, Q: Array, Y: Array, w: Array) -> AlphaData:
    def whiten(mean: Array, S: Array) -> tuple[Array, Array, Array]:
        L = jnp.linalg.cholesky(S)
        q, y = (solve_triangular(L, (A - mean).T, lower=True).T for A in (Q, Y))
        return q, y, logdet_chol(L)

    q, y, logdet = jax.vmap(whiten)(mixture.means, mixture.covariances)
    return AlphaData(q, y, jnp.log(mixture.weights) - logdet, w)


def _log_pairs(alpha: Array, data: AlphaData) -> Array:
    """Compute log Pr(Q, Y, k) (k, N) without (2π)^d; α is common or has shape (k,)."""
    rho = 1 - jnp.broadcast_to(alpha, data.log_c.shape)[:, None]
    d = data.q.shape[-1]
    square = jnp.sum(data.q**2 + data.y**2, -1) - 2 * rho * jnp.sum(data.q * data.y, -1)
    v = 1 - rho**2
    return data.log_c[:, None] - 0.5 * d * jnp.log(v) - square / (2 * v)


def _root(n: Array, A: Array, C: Array) -> Array:
    """Compute α in (0, 1] from Eq. (3); NaN for an unbounded likelihood."""

    def objective(t: Array) -> Array:
        return -0.5 * n * jnp.log(1 - t**2) - (A - 2 * t * C) / (2 * (1 - t**2))

    root = best_root(jnp.stack([n, -C, A - n, -C]), 0.0, 1.0, objective)
    better = objective(jnp.where(jnp.isnan(root), 0.0, root)) > objective(0 * A)
    alpha = 1 - jnp.where(better, root, 0.0)
    # Σ r |q - y|² = 0 if all instances equal their representative.
    return jnp.where(A - 2 * C > 0, alpha, jnp.nan)


def alpha_step(alpha: Float[Array, "*k"], data: AlphaData) -> tuple[Array, Scalar]:
    """Run one EM step for α, Eq. (3); also return the previous log likelihood."""
    d = data.q.shape[-1]
    log_p = _log_pairs(alpha, data)
    log_x = logsumexp(log_p, 0)
    r = data.w * jnp.exp(log_p - log_x)
    n = d * jnp.sum(r, 1)
    A = jnp.sum(r * jnp.sum(data.q**2 + data.y**2, -1), 1)
    C = jnp.sum(r * jnp.sum(data.q * data.y, -1), 1)
    objective = data.w @ log_x - jnp.sum(data.w) * d * LOG_2PI
    if jnp.ndim(alpha) == 0:
        return _root(jnp.sum(n), jnp.sum(A), jnp.sum(C)), objective
    return jax.vmap(_root)(n, A, C), objective


@numpy_in_numpy_out
def fit_alpha(
    mixture: MixtureParams,
    Q: Float[Array, "N d"],
    Y: Float[Array, "N d"],
    *,
    w: Float[Array, "N"] | None = None,
    per_component: bool = False,
    max_steps: int = 1000,
    tol: float | None = None,
) -> Fit:
    """Fit α, the fraction of the variance within sources, to same-source pairs.

    The fit maximizes the likelihood of α. The mixture is fixed.

    Parameters
    ----------
    mixture : MixtureParams
    Q, Y : array of shape (N, d)
        First and second point of each of N pairs from one source.
    w : array of shape (N,), optional
        Pair weights.
    per_component : bool, default=False
        Whether to fit one α_k per component instead of a common α.
    max_steps, tol
        See ``run_em``.

    Returns
    -------
    Fit
        ``params`` is α, of shape () or (k,). α is exactly 1 if the correlation of the
        pairs is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import mixture, two_stage
    >>> S = np.ones((1, 1, 1))
    >>> total = mixture.MixtureParams(np.ones(1), np.zeros((1, 1)), S)
    >>> Q = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    >>> Y = np.array([[1.0], [-1.0], [1.0], [1.0]])
    >>> round(float(two_stage.fit_alpha(total, Q, Y).params), 4)  # 1 - ρ, ρ = 2/4
    0.5
    """
    rows = jnp.asarray(Q)
    w = jnp.ones(len(rows), rows.dtype) if w is None else w
    mixture = MixtureParams(*(jnp.asarray(a) for a in mixture))
    data = _alpha_data(mixture, rows, jnp.asarray(Y), jnp.asarray(w))
    start = jnp.full(mixture.weights.shape if per_component else (), 0.5, rows.dtype)
    return run_em(alpha_step, start, data, max_steps=max_steps, tol=tol)
