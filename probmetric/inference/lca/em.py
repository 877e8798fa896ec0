"""EM for Latent Coincidence Analysis: the seed's, corrected, and the reduced one.

E-step (maths A3). With τ² = κ² + 2σ², s = σ²/τ², ν = P1/P0, and
a = s where y = 1, a = -νs where y = 0, the posterior means are
z̄ = W(x - aδ), z̄' = W(x' + aδ), and of u = z - z'

    ū = (1 - 2a) g,                                                               (1)
    tr Cov(u) = 2pσ²(1 - 2s)                        where y = 1,                  (2)
    tr Cov(u) = 2pσ²(1 + 2νs) - 4ν(1+ν)s²D          where y = 0.                  (3)

    ε² = E‖z - z̄‖² = pσ²(1 - s)                     where y = 1,                  (4)
    ε² = pσ²(1 + νs) - ν(1+ν)s²D                    where y = 0.                  (5)

Erratum 1 of seed 000: the seed omits the last term of Eq. (5). EM with its variance is
not EM: the likelihood falls on the way and σ² ends badly biased.

M-step (maths A5). With WG = Σ w a g δᵀ and R = W - W⁺,

* full (the seed's): augments with (z, z'). For prior precision c = λσ²/c₀² on W,

      W⁺ = (W S - WG + c W₀)(S + c I)⁻¹,                                           (6)
      σ² weighs  A = pn,    B = ½tr(R S Rᵀ) - tr(WG Rᵀ) + Σ w a²D + Σ w ε²;         (7)

* reduced: augments with u only; same likelihood, same fixed points, invariant to
  translating x, and faster:

      W⁺ = (W T - 2WG + 2c W₀)(T + 2c I)⁻¹,                                        (8)
      σ² weighs  A = pn/2,  4B = tr(R T Rᵀ) - 4tr(WG Rᵀ) + 4Σ w a²D + Σ w tr Cov(u). (9)

In both, x = log b minimises, with ρ(x) = log σ² = log (e^u - 1)/2 and u = 2e^x/p,

      f(x) = A ρ(x) + B e^{-ρ(x)} - a x + r e^x,         b ~ Gamma(a, rate r).     (10)

f is convex: ρ' = u/(1 - e^{-u}) has ρ'² ≥ ρ'' ≥ 0, as u ≥ tanh(u/2), so that ρ and
e^{-ρ} are. Its minimum lies between those of the likelihood, where σ² = B/A, and
of the prior, b = a/r; Newton's method, kept to that bracket, finds it. The learning
rate multiplies A and B and divides a, r and the prior precision of W. W is moved at
the old σ² (ECM), which is monotone too.

W is never formed through G, a d × d matrix: an iteration costs two products of the
rows, 4·m·p·d flops. S or T is decomposed once, since only the ridge c changes.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from probmetric.inference.lca.latent import odds
from probmetric.inference.lca.likelihood import log_prior, objective, to_params
from probmetric.inference.lca.statistics import (
    Statistics,
    project,
    scatter,
    squared_lengths,
)
from probmetric.models.lca import (
    LCAParams,
    LCAPrior,
    coincidence_exponent,
    log1mexp,
    log_b_of,
)
from probmetric.precision import numpy_in_numpy_out, one_program
from probmetric.typing import Array


class Moments(NamedTuple):
    """What the M-step needs of the E-step; every entry is a sum over pairs."""

    log_likelihood: Float[Array, ""]
    WG: Float[Array, "p d"]
    a2D: Float[Array, ""]
    eps2: Float[Array, ""]
    cov_u: Float[Array, ""]


@numpy_in_numpy_out
@one_program
def moments(params: LCAParams, stats: Statistics) -> Moments:
    """Return the E-step's sums at the given parameters (Eqs. 1-5)."""
    W, p = params.W, params.W.shape[0]
    sigma2, kappa2 = jnp.exp(params.log_sigma2), jnp.asarray(params.kappa2)
    k2 = kappa2 if stats.anchor is None else kappa2[stats.anchor]
    s = sigma2 / (k2 + 2 * sigma2)
    g = project(W, stats)
    D = jnp.sum(g**2, -1)
    t = coincidence_exponent(D, sigma2, k2, p)
    nu, nu2 = odds(t)
    spread = nu2 * s**2 * D
    a = jnp.where(stats.same, s, -nu * s)
    eps2 = jnp.where(
        stats.same, p * sigma2 * (1 - s), p * sigma2 * (1 + nu * s) - spread
    )
    cov_u = jnp.where(
        stats.same,
        2 * p * sigma2 * (1 - 2 * s),
        2 * p * sigma2 * (1 + 2 * nu * s) - 4 * spread,
    )
    w = stats.w
    rows = Moments(
        # log(1 - e^{-t}) from what ν needs anyway: its absolute error is of the order
        # of eps, which is what a sum over rows can hold.
        stats.ways + jnp.sum(w * jnp.where(stats.same, -t, jnp.log(-jnp.expm1(-t)))),
        scatter((w * a)[:, None] * g, stats),
        jnp.sum(w * a**2 * D),
        jnp.sum(w * eps2),
        jnp.sum(w * cov_u),
    )
    if stats.anchor is not None:
        return rows
    WT = W @ stats.T_same
    quadratic, n = jnp.sum(WT * W), stats.n_same
    pooled = Moments(
        -n * 0.5 * p * jnp.log1p(2 * sigma2 / k2) - 0.5 * quadratic * s / sigma2,
        s * WT,
        s**2 * quadratic,
        n * p * sigma2 * (1 - s),
        n * 2 * p * sigma2 * (1 - 2 * s),
    )
    return jax.tree.map(jnp.add, rows, pooled)


@numpy_in_numpy_out
def spectrum(scatter_matrix: Float[Array, "d d"]) -> tuple[Any, Any]:
    """Return the eigenvalues (d,) and eigenvectors (d, d) of S or T.

    Parameters
    ----------
    scatter_matrix : array of shape (d, d)
        ``Statistics.T``, or S for the seed's EM.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference import lca
    >>> eigenvalues, vectors = lca.spectrum(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> eigenvalues.round(3).tolist(), abs(vectors).round(3).tolist()
    ([1.0, 3.0], [[0.707, 0.707], [0.707, 0.707]])
    """
    return jnp.linalg.eigh(scatter_matrix)


def _ridge_solve(B: Any, decomposed: tuple[Any, Any], ridge: Any) -> Any:
    """Return B (S + ridge·I)⁻¹; at ridge 0 the minimum-norm B S⁺ (maths A5)."""
    eigenvalues, vectors = decomposed
    shifted = eigenvalues + ridge
    tol = len(eigenvalues) * jnp.finfo(B.dtype).eps * eigenvalues[-1]
    kept = shifted > tol
    return ((B @ vectors) * jnp.where(kept, 1 / jnp.where(kept, shifted, 1.0), 0.0)) @ (
        vectors.T
    )


def _log_b(A: Any, B: Any, p: int, shape: Any, rate: Any) -> Any:
    """Minimise Eq. (10) over x = log b; at shape 0 without the prior."""
    flat = log_b_of(jnp.log(B / A), p)
    proper = shape > 0
    shape, rate = jnp.where(proper, shape, 1.0), jnp.where(proper, rate, 1.0)

    def slope(x: Any) -> tuple[Any, Any]:
        """Return f' and f''."""
        u, b = 2 * jnp.exp(x) / p, rate * jnp.exp(x)
        gap = -jnp.expm1(-u)
        first = u / gap
        second = first * (1 - u * jnp.exp(-u) / gap)
        pull = 2 * B * jnp.exp(-u) / gap
        return first * (A - pull) - shape + b, second * (A - pull) + first**2 * pull + b

    def newton(_: Any, state: Any) -> Any:
        x, low, high = state
        f1, f2 = slope(x)
        low, high = jnp.where(f1 < 0, x, low), jnp.where(f1 < 0, high, x)
        step = x - f1 / f2
        inside = (step >= low) & (step <= high)
        return jnp.where(inside, step, 0.5 * (low + high)), low, high

    mode = jnp.log(shape / rate)
    low, high = jnp.minimum(flat, mode), jnp.maximum(flat, mode)
    found = jax.lax.fori_loop(0, 50, newton, (low, low, high))[0]
    return jnp.where(proper, found, flat)


def m_step(
    params: LCAParams,
    found: Moments,
    stats: Statistics,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float,
    decomposed: tuple[Any, Any],
    *,
    full: bool,
    scaled: bool = False,
) -> tuple[Float[Array, "p d"], Float[Array, ""]]:
    """Return W⁺ and log b⁺ (Eqs. 6-10).

    Parameters
    ----------
    decomposed : tuple
        ``spectrum`` of S if ``full``, else of T.
    full : bool
        The seed's augmentation with (z, z'), or the reduced one with z - z'.
    scaled : bool, default=False
        Prior W | σ² ~ N(W₀, σ²/λ) instead of N(W₀, c²/λ): then this is the exact
        joint maximiser.
    """
    W, (p, d), h = params.W, params.W.shape, learning_rate
    sigma2 = jnp.exp(params.log_sigma2)
    lam = prior.lam / h
    ridge = lam if scaled else lam * sigma2 / jnp.asarray(prior.width) ** 2
    factor = 1 if full else 2
    C = stats.S if full else stats.T
    target = W @ C - factor * found.WG + factor * ridge * prior.mean
    new = _ridge_solve(target, decomposed, factor * ridge)
    R = W - new
    moved, cross = jnp.sum((R @ C) * R), jnp.sum(found.WG * R)
    if full:
        A = p * stats.n
        B = 0.5 * moved - cross + found.a2D + found.eps2
    else:
        A = 0.5 * p * stats.n
        B = 0.25 * (moved - 4 * cross + 4 * found.a2D + found.cov_u)
    if scaled:
        A = A + 0.5 * p * d / h
        B = B + 0.5 * lam * jnp.sum((new - prior.mean) ** 2)
    return new, _log_b(A, B, p, prior.b_shape / h, prior.b_rate / h)


def _step(unconstrained: dict[str, Any], data: Any, *, full: bool) -> tuple[Any, Any]:
    stats, prior, learning_rate, decomposed = data
    params = to_params(unconstrained)
    found = moments(params, stats)
    value = learning_rate * found.log_likelihood + log_prior(params, prior)
    W, log_b = m_step(params, found, stats, prior, learning_rate, decomposed, full=full)
    return {"W": W, "log_b": log_b}, value


@numpy_in_numpy_out
def reduced_step(unconstrained: dict[str, Any], data: Any) -> tuple[Any, Any]:
    """Return the state after one step of the reduced EM, for ``run_em``.

    Parameters
    ----------
    unconstrained : dict
        W (p, d) and log_b ().
    data : tuple
        Statistics, prior, learning rate, and ``spectrum`` of T.

    Returns
    -------
    state : dict
        After the step.
    objective : array of shape ()
        Log joint density *before* it.

    Examples
    --------
    The objective does not fall:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import lca
    >>> from probmetric.models.lca import LCAPrior
    >>> X, i, j = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0]), np.array([1, 2])
    >>> stats = lca.prepare(Pairs(X, i, j, y=np.array([1, 0])))
    >>> data = stats, LCAPrior(np.eye(1)), 1.0, lca.spectrum(stats.T)
    >>> state, values = {"W": np.eye(1), "log_b": np.array(0.0)}, []
    >>> for _ in range(3):
    ...     state, value = lca.reduced_step(state, data)
    ...     values.append(round(float(value), 3))
    >>> values
    [-2.165, -2.087, -2.04]
    """
    return _step(unconstrained, data, full=False)


def full_step(unconstrained: dict[str, Any], data: Any) -> tuple[Any, Any]:
    """Advance the seed's EM, corrected, by one step, for ``run_em``."""
    return _step(unconstrained, data, full=True)


def kappa_step(unconstrained: dict[str, Any], data: Any) -> tuple[Any, Any]:
    """Advance ECME with a κ² per anchor: W by reduced EM, then κ² by line search.

    σ² is fixed at ½ (erratum 3 of seed 000: with free κ it is the scale gauge).
    """
    stats, prior, learning_rate, decomposed = data
    params = to_params(unconstrained)
    value = objective(unconstrained, data)
    found = moments(params, stats)
    W, _ = m_step(params, found, stats, prior, learning_rate, decomposed, full=False)
    D = squared_lengths(W, stats)
    return {
        "W": W,
        "log_kappa2": best_log_kappa2(
            D, stats, unconstrained["log_kappa2"], W.shape[0]
        ),
    }, value


def best_log_kappa2(
    D: Float[Array, "r"],
    stats: Statistics,
    current: Float[Array, "anchors"],
    p: int,
    sigma2: Float[Array, ""] | float = 0.5,
) -> Float[Array, "anchors"]:
    """Maximise each anchor's observed likelihood over τ = log κ² (maths A9).

    Bisection of dℓ/dτ on [-30, 30]. An anchor keeps its value where that is not an
    improvement (no weight, one label only, or a group that is not unimodal).
    """

    def group_sum(values: Any) -> Any:
        return jnp.zeros_like(current).at[stats.anchor].add(stats.w * values)

    def exponent(tau: Any) -> tuple[Any, Any]:
        k2 = jnp.exp(tau)[stats.anchor]
        return coincidence_exponent(D, sigma2, k2, p), k2

    def value(tau: Any) -> Any:
        t, _ = exponent(tau)
        return group_sum(jnp.where(stats.same, -t, log1mexp(t)))

    def slope(tau: Any) -> Any:
        t, k2 = exponent(tau)
        eta = k2 + 2 * sigma2
        r = jnp.where(stats.same, 1.0, -odds(t)[0])
        return group_sum(r * (p * sigma2 / eta + k2 * D / (2 * eta**2)))

    def halve(_: Any, bracket: Any) -> Any:
        low, high = bracket
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    ends = jnp.full_like(current, -30.0), jnp.full_like(current, 30.0)
    low, high = jax.lax.fori_loop(0, 60, halve, ends)
    best = 0.5 * (low + high)
    return jnp.where(value(best) > value(current), best, current)
