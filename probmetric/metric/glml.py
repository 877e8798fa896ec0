"""The matrices of Generative Local Metric Learning at one point.

With ρ_c the posterior of class c at x, H̄_c = ∇∇p_c/p_c and s = Σρ², the error of the
nearest neighbor at distance r in the metric A, |A| = 1, is (maths 2.1)

    err(x, r) = (1 - s) + r²/(2D) · tr(A⁻¹B) + O(r⁴),                             (1)
    B = Σ_i w_i H̄_i,   w_i = ρ_i (s - ρ_i),   Σ_i w_i = 0.                        (2)

Multiplying B by a nonzero number does not change A. For two classes B ∝ H̄_1 - H̄_2.
This form needs neither posterior nor prior, and is not singular on the boundary. For
more classes, let m be the most probable class. The weights in (3) are relative to the
second most probable class, and do not underflow far from the data:

    B ∝ Σ_{j≠m} (ρ_j / max_{i≠m} ρ_i) (s - ρ_j) (H̄_j - H̄_m).                     (3)

Let B = U diag(λ) Uᵀ. Each of the three rules computes a matrix A = U diag(a) Uᵀ:

* ``zero_bias``, Eq. (10) of the paper: a_i = d₊λ_i or -d₋λ_i, with d₊, d₋ the numbers
  of positive and negative eigenvalues. This A minimizes tr(A⁻¹|B|) subject to
  tr(A⁻¹B) = 0 and |A| = 1. A is singular if B has a zero eigenvalue, as for equal
  covariances and D > 2. B = 0 gives I.                                           (4)
* ``min_norm``: P = A⁻¹ minimizes ½‖P‖² - log|P| + τ_max |tr(PB̃)|, B̃ = B/max|λ|:

      log a_i = asinh(τ λ̃_i / 2),  τ ∈ [-τ_max, τ_max] with Σ λ̃_i/a_i = 0,       (5)

  If all λ have the same sign, no metric removes the bias, τ is at its bound, and A →
  |B| as τ_max grows. A is continuous in B and always invertible. B = 0 gives I.
* ``regularised``: P minimizes ½ tr(PB)² + ½ε‖P‖² - log|P|:

      log p_i = -½ log ε - asinh(t λ_i / (2√ε)),   t = Σ λ_i p_i(t).              (6)

References
----------
Noh, Zhang and Lee, NIPS 2010 (seed 004), Eqs. (9)-(11) of the paper. Errata G1 (figure
1 has r²/4D), G3 (Eq. (8) of the paper is not convex, its solution is not unique, and
Eq. (10) of the paper is not normalized) and G10 (γ has the units of B unless A is
normalized first).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.typing import Array

MAX_MULTIPLIER = 100.0
"""τ_max of Eq. (5). It limits the condition number of A to about τ_max² = 10⁴."""

BISECTIONS = 70
"""Number of bisections. A bracket of width 10 then is below float64's spacing."""


class Spectrum(NamedTuple):
    """Eigenvalues a (d,) ≥ 0 and eigenvectors U (d, d) of A = U diag(a) Uᵀ."""

    a: Float[Array, "d"]
    U: Float[Array, "d d"]


def bias_matrix(
    log_rho: Float[Array, "c"], H: Float[Array, "c d d"]
) -> tuple[Float[Array, "d d"], Float[Array, ""]]:
    """Return B (Eqs. 2 and 3) up to a positive factor, and the size of its terms.

    ``H`` is ∇∇p_c/p_c. The size is the largest absolute entry among the terms; rounding
    in B is a few eps · size.
    """
    largest = jnp.max(jnp.abs(H), (-2, -1))
    if H.shape[0] == 2:
        return H[0] - H[1], largest[0] + largest[1]
    best = jnp.argmax(log_rho)
    others = jnp.where(jnp.arange(H.shape[0]) == best, -jnp.inf, log_rho)
    rho = jnp.exp(log_rho)
    v = jnp.exp(others - jnp.max(others)) * (jnp.sum(rho**2) - rho)
    B = jnp.einsum("c,cij->ij", v, H - H[best])
    return B, jnp.sum(jnp.abs(v) * (largest + largest[best]))


def fisher_matrix(
    log_rho: Float[Array, "c"], scores: Float[Array, "c d"], *, relative: bool = False
) -> Float[Array, "d d"]:
    """Return the Fisher information of the class posterior in x.

    The matrix is F = Σ_{i<j} ρ_iρ_j (g_i - g_j)(g_i - g_j)ᵀ with the scores g_c = ∇ log
    p_c. Its rank is at most c - 1. The KL divergence between the class posteriors at x
    and x + δ is ½ δᵀFδ to second order. (The paper's "local" Fisher metric of one
    Gaussian does not depend on x: erratum G5.) ``relative=True`` divides F by the
    largest ρ_iρ_j, which may underflow far from the boundary.
    """
    i, j = jnp.triu_indices(scores.shape[0], 1)
    log_weight = log_rho[i] + log_rho[j]
    if relative:
        log_weight = log_weight - jnp.max(log_weight)
    gap = scores[i] - scores[j]
    return jnp.einsum("n,ni,nj->ij", jnp.exp(log_weight), gap, gap)


def unit_determinant(a: Float[Array, "d"]) -> Float[Array, "d"]:
    """Divide eigenvalues by the geometric mean of the nonzero eigenvalues."""
    live = a > 0
    log_a = jnp.log(jnp.where(live, a, 1.0))
    return a * jnp.exp(-jnp.sum(log_a) / jnp.maximum(jnp.sum(live), 1))


def _eigen(
    B: Float[Array, "d d"], size: Float[Array, ""] | float
) -> tuple[Float[Array, "d"], Float[Array, "d d"]]:
    """Return eigenvalues (0 if within rounding error) and eigenvectors of B."""
    values, U = jnp.linalg.eigh(B)
    rounding = B.shape[-1] * jnp.finfo(B.dtype).eps * size
    return jnp.where(jnp.abs(values) > rounding, values, 0.0), U


def zero_bias(
    B: Float[Array, "d d"], *, size: Float[Array, ""] | float = 0.0
) -> Spectrum:
    """Return the paper's A_opt (Eq. 4) with |A| = 1 on its range, or I if B = 0."""
    values, U = _eigen(B, size)
    up, down = values > 0, values < 0
    a = jnp.where(up, jnp.sum(up) * values, -jnp.sum(down) * values)
    # A singular A_opt stays singular: eigenvalues at the level of rounding are 0.
    rounding = len(a) * jnp.finfo(B.dtype).eps * jnp.max(a)
    a = jnp.where(a > rounding, a, 0.0)
    return Spectrum(unit_determinant(jnp.where(jnp.max(a) > 0, a, 1.0)), U)


def _bisect(falling: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the zero of a decreasing function, or the nearest end of the bracket."""

    def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = 0.5 * (low + high)
        above = falling(middle) > 0
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))
    return 0.5 * (low + high)


def min_norm(
    B: Float[Array, "d d"],
    *,
    size: Float[Array, ""] | float = 0.0,
    max_multiplier: float = MAX_MULTIPLIER,
) -> Spectrum:
    """Return the matrix A nearest to I that removes the bias (Eq. 5), with |A| = 1."""
    values, U = _eigen(B, size)
    top = jnp.max(jnp.abs(values))
    scaled = values / jnp.where(top > 0, top, 1.0)
    bound = jnp.arcsinh(jnp.asarray(max_multiplier / 2, B.dtype))

    def half(v: Array) -> Array:  # τ = 2 sinh v covers small and large τ evenly.
        return jnp.sinh(v) * scaled

    def gap(v: Array) -> Array:
        x = half(v)
        larger = jnp.abs(x) + jnp.sqrt(1 + x**2)  # e^|asinh x|, without logarithms
        return jnp.sum(scaled * jnp.where(x > 0, 1 / larger, larger))

    v = _bisect(gap, -bound, bound)
    # B = 0 satisfies the constraint for every τ, with a = 1.
    return Spectrum(unit_determinant(jnp.exp(jnp.arcsinh(half(v)))), U)


def log_inverse(
    g: Float[Array, "d"], epsilon: Float[Array, ""] | float
) -> Float[Array, "d"]:
    """Return log eigenvalues of P = A⁻¹, Eq. (6), from g = tλ."""
    return -0.5 * jnp.log(epsilon) - jnp.arcsinh(g / (2 * jnp.sqrt(epsilon)))


def regularised(B: Float[Array, "d d"], epsilon: Float[Array, ""] | float) -> Spectrum:
    """Return the minimizer A = P⁻¹ of the penalized bias (Eq. 6), |A| = 1, ε > 0."""
    values, U = jnp.linalg.eigh(B)
    # Stationarity gives t² + ε‖P‖² = D, which bounds t.
    bound = jnp.sqrt(jnp.asarray(values.shape[-1], B.dtype))

    def gap(t: Array) -> Array:
        return jnp.sum(values * jnp.exp(log_inverse(t * values, epsilon))) - t

    t = _bisect(gap, -bound, bound)
    return Spectrum(unit_determinant(jnp.exp(-log_inverse(t * values, epsilon))), U)


def with_base(spectrum: Spectrum, gamma: Float[Array, ""] | float) -> Spectrum:
    """Return γI + D·A/tr A, scaled to determinant 1. If A is singular, use γ > 0."""
    a = spectrum.a
    total = jnp.sum(a)
    flat = jnp.where(total > 0, a * len(a) / jnp.where(total > 0, total, 1.0), 1.0)
    gamma = jnp.asarray(gamma, a.dtype)
    finite = jnp.where(jnp.isinf(gamma), 0.0, gamma)
    share = jnp.where(jnp.isinf(gamma), 1.0, finite / (1 + finite))
    return Spectrum(unit_determinant((1 - share) * flat + share), spectrum.U)


def compose(spectrum: Spectrum) -> Float[Array, "d d"]:
    """Return U diag(a) Uᵀ."""
    return (spectrum.U * spectrum.a) @ spectrum.U.T
