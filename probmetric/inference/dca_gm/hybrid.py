"""DCA-GM: the paper's hybrid, EM for the mixtures and conjugate gradients for A.

Each outer iteration

1.  takes a few EM steps on θ at the current A (``dca_gm.em``);
2.  sets the gauge by B = (pooled Σ)^{-1/2}, because otherwise the penalized objective
    would increase without bound as A shrinks (erratum 3 of seed 001);
3.  takes one conjugate-gradient step on A at the current θ. The direction is
    r = g + max(0, ⟨g, g - g₋⟩/‖g₋‖²) r₋ (Polak-Ribière+), or g if this r points down.
    Armijo's backtracking with c₁ = 1e-4 halves the step, which starts at 0.5 ‖A‖/‖r‖.

The reported objective is L - (λ/2c²)‖A - A0‖² after step 3, where L is the conditional
log likelihood. The method does not maximize a single objective: step 1 maximizes the
joint density and may lower L (erratum 4). The fit therefore returns the best iterate,
not the last, and a decrease of the objective is not an error. With ``tied``, the
centers change with the projection in step 3, μ = Aμ' (the paper's reparametrization).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.arguments import check_counts
from probmetric.data.containers import Labeled, weights
from probmetric.inference.dca_gm.em import EMData, EMPrior, em_steps, source_centres
from probmetric.inference.dca_gm.likelihood import (
    apply_gauge,
    conditional_log_likelihood,
    gradient_A,
    gradient_A_tied,
)
from probmetric.inference.solvers.result import Fit, Result
from probmetric.metric.class_distribution import pooled_covariance
from probmetric.models.dca_gm import DCAGMParams, log_weight
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

ARMIJO, HALVINGS, STALL = 1e-4, 40, 5


class Penalty(NamedTuple):
    """Norm penalty (precision/2) ‖A - mean‖² on A, with precision λ/c²."""

    mean: Float[Array, "p d"]
    precision: Float[Array, ""] | float


class _State(NamedTuple):
    theta: DCAGMParams
    best: DCAGMParams
    best_value: Array
    gradient: Array
    direction: Array
    value: Array
    stalled: Array
    result: Array
    n_steps: Array
    n_evaluations: Array
    trace: jax.Array


@numpy_in_numpy_out
@partial(jax.jit, static_argnames=("max_steps", "n_em", "tied"))
def fit_hybrid(
    params: DCAGMParams,
    data: Labeled,
    penalty: Penalty,
    em_prior: EMPrior,
    tol: Float[Array, ""] | float = 1e-6,
    *,
    max_steps: int = 30,
    n_em: int = 3,
    tied: bool = False,
) -> Fit:
    """Fit by the paper's hybrid of EM and conjugate gradients, from ``params``.

    The penalty applies in the gauge in which the pooled covariance within components is
    I. The fit has converged if the gradient in A is below ``tol * max(1, |L|)`` and the
    relative change of the objective was below 1e-5 in five successive iterations.
    Convergence is not guaranteed, because EM steps may change θ along the tilts
    indefinitely. The best iterate is returned. With ``tied``, the conjugate-gradient
    step uses the centers μ = Aμ'.
    """
    (max_steps,) = check_counts(max_steps=max_steps)
    w = weights(data)
    X, y = jnp.asarray(data.X), jnp.asarray(data.y)

    def penalized(theta: DCAGMParams) -> Array:
        distance2 = jnp.sum((theta.A - penalty.mean) ** 2)
        likelihood = conditional_log_likelihood(theta, data)
        return likelihood - 0.5 * penalty.precision * distance2

    def body(state: _State) -> _State:
        em = EMData(X @ state.theta.A.T, y, w, em_prior)
        theta = em_steps(state.theta, em, n_em)
        B = _inverse_root(pooled_covariance(log_weight(theta), theta.chol))
        theta = apply_gauge(theta, B)
        # A change of gauge maps a direction r to B r, and a gradient g to B⁻ᵀ g.
        last_direction = B @ state.direction
        last_gradient = jnp.linalg.solve(B.T, state.gradient)

        mu_prime = source_centres(theta, X, y, w) if tied else None

        def at(A: Float[Array, "p d"]) -> DCAGMParams:
            mu = theta.mu if mu_prime is None else mu_prime @ A.T
            return theta._replace(A=A, mu=mu)

        gradient = (
            gradient_A(theta, data)
            if mu_prime is None
            else gradient_A_tied(theta, mu_prime, data)
        ) - penalty.precision * (theta.A - penalty.mean)
        direction = _polak_ribiere(gradient, last_gradient, last_direction)
        before = penalized(at(theta.A))
        slope = jnp.sum(gradient * direction)
        first = 0.5 * jnp.linalg.norm(theta.A) / jnp.linalg.norm(direction)

        def too_far(search: tuple[Array, Array, Array]) -> Array:
            step, value, halvings = search
            # A NaN value must count as too far.
            enough = value >= before + ARMIJO * step * slope
            return ~enough & (halvings < HALVINGS)

        def halve(search: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            step = search[0] / 2
            value = penalized(at(theta.A + step * direction))
            return step, value, search[2] + 1

        opening = (first, penalized(at(theta.A + first * direction)), jnp.asarray(0))
        step, value, halvings = jax.lax.while_loop(too_far, halve, opening)
        failed = ~(value >= before)
        theta = at(theta.A + jnp.where(failed, 0.0, step) * direction)
        value = jnp.where(failed, before, value)

        scale = jnp.maximum(1.0, jnp.abs(value))
        stalled = jnp.where(
            jnp.abs(value - state.value) < 1e-5 * scale, state.stalled + 1, 0
        )
        met = (jnp.max(jnp.abs(gradient)) <= tol * scale) & (stalled >= STALL)
        result = jnp.where(met, Result.CONVERGED, state.result)
        result = jnp.where(jnp.isfinite(value), result, Result.NONFINITE)
        better = value > state.best_value
        return _State(
            theta,
            jax.tree.map(lambda a, b: jnp.where(better, a, b), theta, state.best),
            jnp.where(better, value, state.best_value),
            gradient,
            direction,
            value,
            stalled,
            result,
            state.n_steps + 1,
            state.n_evaluations + halvings + 2,
            state.trace.at[state.n_steps].set(value),
        )

    def going(state: _State) -> Array:
        return (state.result == Result.MAX_STEPS) & (state.n_steps < max_steps)

    zeros = jnp.zeros_like(params.A)
    low = jnp.asarray(-jnp.inf, params.A.dtype)
    opening = _State(
        theta=params,
        best=params,
        best_value=low,
        gradient=zeros,
        direction=zeros,
        value=low,
        stalled=jnp.asarray(0),
        result=jnp.asarray(int(Result.MAX_STEPS)),
        n_steps=jnp.asarray(0),
        n_evaluations=jnp.asarray(0),
        trace=jnp.full(max_steps, jnp.nan, params.A.dtype),
    )
    end = jax.lax.while_loop(going, body, opening)
    return Fit(
        end.best, end.best_value, end.result, end.n_steps, end.n_evaluations, end.trace
    )


def _polak_ribiere(
    gradient: Float[Array, "p d"],
    last_gradient: Float[Array, "p d"],
    last_direction: Float[Array, "p d"],
) -> Float[Array, "p d"]:
    """Compute the Polak-Ribière+ direction; it is the gradient at first or if reset."""
    size2 = jnp.sum(last_gradient**2)
    change = jnp.sum(gradient * (gradient - last_gradient))
    beta = jnp.where(size2 > 0, jnp.maximum(0.0, change / size2), 0.0)
    direction = gradient + beta * last_direction
    return jnp.where(jnp.sum(direction * gradient) > 0, direction, gradient)


def _inverse_root(S: Float[Array, "p p"]) -> Float[Array, "p p"]:
    eigenvalues, vectors = jnp.linalg.eigh(S)
    return (vectors / jnp.sqrt(eigenvalues)) @ vectors.T
