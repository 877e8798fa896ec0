"""Cholesky-based linear algebra: factors and solves, without explicit inverses.

No jitter is added. A matrix that is not positive definite gives NaN, which the caller
converts to a result code or an error. A ridge must be an explicit prior.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Bool, Float
from threadpoolctl import ThreadpoolController

from probmetric.precision import numpy_in_numpy_out, one_program
from probmetric.typing import Array


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


MANY_ROWS = 500
"""Number of rows of a matrix from which several BLAS threads are faster."""


def one_blas_thread(n_rows: int = 0) -> AbstractContextManager[object]:
    """Return a context with one BLAS thread for fewer than ``MANY_ROWS`` rows."""
    if n_rows >= MANY_ROWS:
        return nullcontext()
    return _libraries().limit(limits=1, user_api="blas")


def blas_threads() -> int:
    """Return the number of BLAS threads (1 within ``one_blas_thread``)."""
    libraries = _libraries().select(user_api="blas").info()
    return max((library["num_threads"] for library in libraries), default=1)


def row_signs(rows: Float[Array, "r d"]) -> Float[Array, "r 1"]:
    """Return 1 or -1 so that each row's largest entry is positive (1 for NaN)."""
    peak = rows[np.arange(len(rows)), abs(rows).argmax(1)]
    return (1 - 2 * (peak < 0)).astype(rows.dtype)[:, None]


def solve_spd(
    A: Float[Array, "d d"], B: Float[Array, "d ..."]
) -> Float[Array, "d ..."]:
    """Solve ``A X = B`` for a symmetric positive definite A by its Cholesky factor."""
    return cho_solve((jnp.linalg.cholesky(A), True), B)


@numpy_in_numpy_out
def logdet_chol(L: Float[Array, "*batch d d"]) -> Float[Array, "*batch"]:
    """Return log |L Lᵀ| (natural log) from a lower Cholesky factor."""
    return 2 * jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), -1)


def mahalanobis_sq(
    L: Float[Array, "d d"], delta: Float[Array, "*n d"]
) -> Float[Array, "*n"]:
    """Return δᵀ (L Lᵀ)⁻¹ δ for rows δ, from a lower Cholesky factor L."""
    rows = delta.reshape(-1, delta.shape[-1])
    whitened = solve_triangular(L, rows.T, lower=True)
    return jnp.sum(whitened**2, 0).reshape(delta.shape[:-1])


def log1p_squares(
    white: Float[Array, "*n d"], eta: Float[Array, "*#n"]
) -> Float[Array, "*n"]:
    """Return log(1 + |w|²/η) without overflow of the square (Student-t tails)."""
    top = jnp.max(jnp.abs(white), -1)
    # Beyond this, 1 is below the spacing of floats at |w|².
    far = top > jnp.finfo(white.dtype).max ** 0.25
    unit = jnp.where(far, top, 1.0)
    q = jnp.sum((white / unit[..., None]) ** 2, -1) / eta
    # "Double where": the branch not taken must not see log 0.
    beyond = 2 * jnp.log(unit) + jnp.log(jnp.where(far, q, 1.0))
    return jnp.where(far, beyond, jnp.log1p(jnp.where(far, 0.0, q)))


@numpy_in_numpy_out
@one_program
def psd_factor(M: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Factor a positive semi-definite M as LᵀL, rows in descending order of eigenvalue.

    The largest entry of each row is positive. Eigenvalues from -d ε max to 0 are set to
    0, with ε the spacing of floats at 1 and max the largest absolute eigenvalue. If an
    eigenvalue is lower, all entries are NaN.
    """
    return root_of(jnp, jnp.asarray(M))


def cholesky_of(xp: ModuleType, S: Array) -> Array:
    """Return the lower Cholesky factor of a symmetric S, by NumPy or JAX (``xp``).

    NumPy reads only one triangle of S and does not check for NaN. As in JAX, S is first
    symmetrized. NaN or infinity raises LinAlgError in NumPy and gives NaN in JAX.
    """
    if xp is np:
        if not np.isfinite(S).all():
            raise np.linalg.LinAlgError(
                "A covariance or precision matrix has NaN or infinity. Check the data "
                "for NaN, or rescale the points."
            )
        S = (S + np.swapaxes(S, -1, -2)) / 2
    return xp.linalg.cholesky(S)


def solve_lower(
    xp: ModuleType, L: Array, B: Array, *, transposed: bool = False
) -> Array:
    """Return L⁻¹B, or L⁻ᵀB, for a lower triangular L by SciPy or by JAX."""
    # With check_finite=False NaN gives NaN, as in JAX.
    solve = scipy.linalg.solve_triangular if xp is np else solve_triangular
    return solve(L, B, lower=True, trans=int(transposed), check_finite=False)


def root_of(xp: ModuleType, M: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Compute ``psd_factor`` with NumPy or JAX (``xp``)."""
    eigenvalues, vectors = xp.linalg.eigh((M + M.T) / 2)
    share = M.shape[0] * float(jnp.finfo(M.dtype).eps)
    valid = eigenvalues[0] >= -share * xp.max(xp.abs(eigenvalues))
    rows = (xp.sqrt(xp.maximum(eigenvalues, 0)) * vectors).T[::-1]
    return xp.where(valid, row_signs(rows) * rows, xp.nan)


def mixed_with_identity(
    factor: Float[np.ndarray, "r d"],
    strength: float | int,
    n: float | int,
    live: Bool[np.ndarray, "d"] | None = None,
) -> Float[np.ndarray, "d d"]:
    """Return L with LᵀL = (1 - w) M + w (tr M/d) I, where M = factorᵀ factor.

    M is learned from n points, and I has the weight of s = ``strength`` points, so
    w = s/(n + s). s may be infinite. I and d include only the columns ``live``
    (default: all columns). All other columns of L are zero. Rows are in descending
    order of length, and the largest entry of each row is positive.
    """
    live = np.ones(factor.shape[1], bool) if live is None else live
    mixed = np.zeros((factor.shape[1],) * 2, factor.dtype)
    factor, d = factor[:, live], int(live.sum())
    level = np.sum(factor**2) / d
    if np.isinf(strength):  # A multiple of I
        mixed[:d, live] = np.sqrt(level) * np.eye(d)
        return mixed
    w = strength / (n + strength)
    _, lengths, rows = np.linalg.svd(factor)
    squared = np.zeros(d, factor.dtype)
    squared[: len(lengths)] = (1 - w) * lengths[:d] ** 2
    mixed[:d, live] = np.sqrt(squared + w * level)[:, None] * row_signs(rows) * rows
    return mixed
