"""Grouped EM under proportionality: W = αΣ and B = (1 - α)Σ with one α.

The E-step is in ``two_stage.groups``, whose equation numbers continue here. The M-step
consists of three conditional maximizations, so EM is monotone. With B̃ about the new μ,

    δ = [f/(1-α) + κ₀(m₀ - μ)] / [R/(1-α) + κ₀]
    Σ = [B̃/(1-α) + W̃/α + Ψ + κ₀(μ - m₀)(μ - m₀)ᵀ]/(R + N + df + d + 2)            (5)
    α: root in (0, 1) of
    -(D_R + D_N)α³ + (D_R - b + 2 D_N + w)α² - (D_N + 2w)α + w = 0                 (6)
with b = Σ_k tr Σ_k⁻¹B̃_k, w = Σ_k tr Σ_k⁻¹W̃_k, D_R = d ΣR - 2(β - 1) and
D_N = d ΣN - 2(a - 1) under α ~ Beta(a, β). Without a prior, the terms and degrees of
freedom of the prior are zero. If all groups have one point, the likelihood is flat in
α, and only the prior changes α in Eq. (6).

``best_root`` computes the best root of a cubic in an interval, for (6) and Eq. (3) of
``two_stage.pairs``. A cubic is monotone between its two stationary points, so at most
three bisections find all roots. The function works under ``jit`` and ``vmap`` on every
device, because it needs no eigenvalues of a companion matrix. The result is always
inside the interval.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from probmetric.inference.mixture.em import about, new_weights, step_of_means, symmetric
from probmetric.inference.mixture.prior import log_beta, log_prior
from probmetric.inference.mixture.statistics import GroupStats
from probmetric.inference.two_stage.groups import GroupData, e_step
from probmetric.inference.two_stage.groups_missing import GroupRows
from probmetric.linalg import solve_spd
from probmetric.models.two_stage import TwoStagePrior, proportional
from probmetric.typing import Array, Scalar


def best_root(
    cubic: Float[Array, "4"],
    low: float,
    high: float,
    objective: Callable[[Array], Array],
) -> Float[Array, ""]:
    """Return the root of a cubic in (low, high) with the best objective, or NaN."""
    eps = jnp.finfo(cubic.dtype).eps
    c3, c2, c1, _ = cubic
    # Stationary points, by the quadratic formula without cancellation.
    half = -(
        c2
        + jnp.where(c2 < 0, -1.0, 1.0) * jnp.sqrt(jnp.maximum(c2**2 - 3 * c3 * c1, 0))
    )
    turns = jnp.stack(
        [
            half / jnp.where(c3 == 0, jnp.nan, 3 * c3),
            c1 / jnp.where(half == 0, jnp.nan, half),
        ]
    )
    turns = jnp.sort(jnp.clip(jnp.where(jnp.isnan(turns), low, turns), low, high))
    ends = jnp.concatenate(
        [jnp.asarray([low], cubic.dtype), turns, jnp.asarray([high], cubic.dtype)]
    )
    left, right = ends[:-1], ends[1:]
    at_left = jnp.polyval(cubic, left)
    crosses = at_left * jnp.polyval(cubic, right) <= 0

    def halve(_: Array | int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = bracket
        middle = (a + b) / 2
        same = jnp.sign(jnp.polyval(cubic, middle)) == jnp.sign(at_left)
        return jnp.where(same, middle, a), jnp.where(same, b, middle)

    # Each halving gains one bit, even for roots near zero.
    n = int(-2 * np.log2(eps))
    a, b = jax.lax.fori_loop(0, n, halve, (left, right))
    root = (a + b) / 2
    inside = crosses & (root > low) & (root < high)
    value = jnp.where(
        inside, objective(jnp.where(inside, root, (low + high) / 2)), -jnp.inf
    )
    best = jnp.argmax(jnp.where(jnp.isnan(value), -jnp.inf, value))
    return jnp.where(jnp.any(inside), root[best], jnp.nan)


class ProportionalParams(NamedTuple):
    """Proportional parameters: c, μ, Σ and one α in (0, 1)."""

    weights: Float[Array, "k"]
    means: Float[Array, "k d"]
    covariances: Float[Array, "k d d"]
    alpha: Float[Array, ""]


def _traces(S: Array, A: Array) -> Array:
    return jnp.sum(jax.vmap(lambda S, A: jnp.trace(solve_spd(S, A)))(S, A))


def proportional_m_step(
    between: Float[Array, "k d d"],
    within: Float[Array, "k d d"],
    mass: Float[Array, "k"],
    instances: Float[Array, "k"],
    alpha: Float[Array, ""] | float,
    *,
    prior: TwoStagePrior | None = None,
    pull: Float[Array, "k d d"] | float = 0.0,
) -> tuple[Float[Array, "k d d"], Float[Array, ""]]:
    """Maximize over Σ, then over α, by Eqs. (5)-(6), from B̃ about the new means and W̃.

    ``mass`` and ``instances`` are R and N, Eq. (3) of ``two_stage.groups``. ``pull`` is
    κ₀(μ - m₀)(μ - m₀)ᵀ + Ψ.
    """
    d = between.shape[-1]
    extra = 0.0 if prior is None else prior.df + d + 2
    ones = (1.0, 1.0) if prior is None else (prior.alpha_a, prior.alpha_b)
    D_N = d * jnp.sum(instances) - 2 * (ones[0] - 1)
    D_R = d * jnp.sum(mass) - 2 * (ones[1] - 1)

    def objective(t: Array, b: Array, w: Array) -> Array:
        return -0.5 * (D_R * jnp.log1p(-t) + D_N * jnp.log(t) + b / (1 - t) + w / t)

    total = between / (1 - alpha) + within / alpha + pull
    S = symmetric(total / (mass + instances + extra)[:, None, None])
    b, w = _traces(S, between), _traces(S, within)
    cubic = jnp.stack([-(D_R + D_N), D_R - b + 2 * D_N + w, -(D_N + 2 * w), w])
    return S, best_root(cubic, 0.0, 1.0, lambda t: objective(t, b, w))


def em_step_proportional(
    params: ProportionalParams, data: GroupData | GroupRows
) -> tuple[ProportionalParams, Scalar]:
    """Run one EM step; return parameters and the log joint density before the step."""
    return improved_proportional(
        params, e_step(proportional(*params), data), data.prior
    )


def improved_proportional(
    params: ProportionalParams, stats: GroupStats, prior: TwoStagePrior | None
) -> tuple[ProportionalParams, Scalar]:
    """Run one EM step from the expected statistics of all groups under ``params``."""
    p, a, objective = prior, params.alpha, stats.log_likelihood
    if p is not None:
        objective = objective + log_prior(*params[:3], p) + log_beta(a, p)
    R, f = stats.mass, stats.first
    delta, pull = step_of_means(R / (1 - a), f / (1 - a), params.means, p)
    between = about(R, f, stats.between, delta)
    args = between, stats.within, R, stats.instances, a
    S, alpha = proportional_m_step(*args, prior=p, pull=pull)
    weights = new_weights(R, p)
    return ProportionalParams(weights, params.means + delta, S, alpha), objective
