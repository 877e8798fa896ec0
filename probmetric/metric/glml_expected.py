"""Bayes-GLML: one metric for a posterior over the bias matrix (maths 2.7b).

With draws B_1..B_s of the bias matrix at a point, P = A⁻¹ minimises

    ½ E_s tr(PB_s)² + ½ε‖P‖² - log|P|,                                             (1)

convex and self-concordant; the posterior spread of B takes the part of γ. Its dual
has one unknown a draw, t_s = tr(PB_s), instead of D² ones. With G = E_s t_sB_s =
U diag(g) Uᵀ and r_i = √(g_i² + 4ε),

    P = U diag(p) Uᵀ,   p_i = (r_i - g_i) / (2ε),                                  (2)

and Newton's equations for t are (I + K/s) Δ = (tr(PB_s) - t_s)_s with

    K_rs = Σ_ij (p_i + p_j)/(r_i + r_j) (UᵀB_rU)_ij (UᵀB_sU)_ij,                   (3)

from p_i - p_j = -(g_i - g_j)(p_i + p_j)/(r_i + r_j). At the solution P⁻¹ = G + εP and
E t² + ε‖P‖² = D. Isotropic noise about one B is the ``regularised`` rule.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.metric.glml import Spectrum, log_inverse, unit_determinant
from probmetric.typing import Array

__all__ = ["expected_bias"]


def expected_bias(
    B: Float[Array, "s d d"], epsilon: Float[Array, ""] | float, *, max_steps: int = 50
) -> Spectrum:
    """Return A = P⁻¹ that minimises the expected squared bias (Eq. 1), |A| = 1.

    Parameters
    ----------
    B : array of shape (s, d, d)
        One bias matrix a draw.
    epsilon : float
        Ridge on P, > 0, in units of B².
    max_steps : int, default=50
        Bound on damped Newton steps; about ten are used.
    """
    s = B.shape[0]

    def dual(t: Any) -> Any:
        g = jnp.linalg.eigvalsh(jnp.einsum("s,sij->ij", t, B) / s)
        log_p = log_inverse(g, epsilon)
        p = jnp.exp(log_p)
        value = jnp.sum(p * g + 0.5 * epsilon * p**2 - log_p)
        return value - 0.5 * jnp.mean(t**2)

    def newton(state: Any) -> Any:
        step, t, _ = state
        g, U = jnp.linalg.eigh(jnp.einsum("s,sij->ij", t, B) / s)
        p, r = jnp.exp(log_inverse(g, epsilon)), jnp.sqrt(g**2 + 4 * epsilon)
        turned = jnp.einsum("ia,sij,jb->sab", U, B, U)
        gap = jnp.einsum("saa,a->s", turned, p) - t
        weight = (p[:, None] + p) / (r[:, None] + r)
        K = jnp.einsum("sab,ab,rab->sr", turned, weight, turned)
        move = jnp.linalg.solve(jnp.eye(s, dtype=B.dtype) + K / s, gap)
        gain, now = jnp.dot(move, gap) / s, dual(t)

        def short(scale: Any) -> Any:  # Armijo, with room for rounding of the objective
            slack = 8 * jnp.finfo(B.dtype).eps * jnp.abs(now)
            return (dual(t + scale * move) < now + 1e-4 * scale * gain - slack) & (
                scale > 1e-8
            )

        scale = jax.lax.while_loop(short, lambda c: c / 2, jnp.ones((), B.dtype))
        return step + 1, t + scale * move, gain

    def unfinished(state: Any) -> Any:
        step, _, gain = state
        return (step < max_steps) & (gain > 4 * jnp.finfo(B.dtype).eps)

    start = (0, jnp.zeros(s, B.dtype), jnp.asarray(jnp.inf, B.dtype))
    _, t, _ = jax.lax.while_loop(unfinished, newton, start)
    g, U = jnp.linalg.eigh(jnp.einsum("s,sij->ij", t, B) / s)
    return Spectrum(unit_determinant(jnp.exp(-log_inverse(g, epsilon))), U)
