"""Gaussian approximation at a mode of a linear map W, without the rotations of W.

M = WᵀW is constant along the orbit of rotations of W (p, d). The tangents of the orbit
are vec(ΩW) with Ω skew-symmetric. To first order, moves along tangents do not change M.
To second order, a Gaussian that spreads along tangents leaves the orbit and inflates M.
Let θ = (vec W, further entries) have precision H at a mode θ̂. Draws are restricted to
the orthogonal complement of the tangents, with basis Q:

    θ = θ̂ + Q L⁻ᵀ ε,    QᵀHQ = LLᵀ,    ε ~ N(0, I).                                (1)

V is orthogonal to every ΩW if and only if VWᵀ is symmetric. With W = U S Aᵀ, A (d, d),
and V = U Y Aᵀ this condition is Y_ab S_b = Y_ba S_a for a, b ≤ p. Hence the columns of
Q are, as entries of Y,

    E_aa;   (S_a E_ab + S_b E_ba) / √(S_a² + S_b²),  a < b ≤ p;   E_ab,  b > p.      (2)

The q × p(p-1)/2 tangents need no orthogonal factorization. QᵀHQ costs 4 products of H
with U or A, 4 q² (p + d) flops. As entries of Y, the tangents are spanned by

    T_ab = (S_b E_ab - S_a E_ba) / √(S_a² + S_b²),  a < b ≤ p.                      (3)

Draws of Eq. (1) describe M, never W. The approximation ignores two things: the change
of the prior along the orbit, and the size of the orbit, ∏ √(S_a² + S_b²).
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

from probmetric.typing import Array


class _Complement(NamedTuple):
    """The basis Q of Eq. (2): singular vectors of W, and positions of entries of Y.

    ``alone`` are the positions of single entries in vec Y. ``upper`` and ``lower`` are
    the positions of the pairs ab and ba, with coefficients ``s_upper`` and ``s_lower``.
    Entries of θ beyond W do not change.
    """

    U: np.ndarray
    At: np.ndarray
    alone: np.ndarray
    upper: np.ndarray
    lower: np.ndarray
    s_upper: np.ndarray
    s_lower: np.ndarray


def _complement(W: Float[Array, "p d"]) -> _Complement:
    p, d = W.shape
    U, S, At = np.linalg.svd(W, full_matrices=True)
    zeros = int(np.sum(S <= max(p, d) * np.finfo(S.dtype).eps * S[0]))
    if zeros > 1:  # The rotation of two zero axes has the tangent 0.
        raise ValueError(
            "params: the linear map W must have at most one direction without effect "
            f"(zero singular value) for draws, got {zeros}. Fit fewer components."
        )
    a, b = np.triu_indices(p, 1)
    place = np.arange(p * d).reshape(p, d)
    alone = np.concatenate([np.diagonal(place), place[:, p:].ravel()])
    norm = np.sqrt(S[a] ** 2 + S[b] ** 2)[:, None]
    return _Complement(
        U,
        At,
        alone,
        place[a, b],
        place[b, a],
        S[a][:, None] / norm,
        S[b][:, None] / norm,
    )


def _into(Q: _Complement, V: np.ndarray) -> np.ndarray:
    """Compute Qᵀ V for columns V (q, k)."""
    p, d = len(Q.U), len(Q.At)
    Y = Q.U.T @ V[: p * d].reshape(p, -1)
    Y = np.einsum("bj,ajk->abk", Q.At, Y.reshape(p, d, -1)).reshape(p * d, -1)
    pairs = Q.s_upper * Y[Q.upper] + Q.s_lower * Y[Q.lower]
    return np.concatenate([Y[Q.alone], pairs, V[p * d :]])


def _out(Q: _Complement, X: np.ndarray) -> np.ndarray:
    """Compute Q X for columns X (m, k)."""
    p, d, n = len(Q.U), len(Q.At), len(Q.alone)
    Y = np.zeros((p * d, X.shape[1]), X.dtype)
    pairs = X[n : n + len(Q.upper)]
    Y[Q.alone], Y[Q.upper], Y[Q.lower] = X[:n], Q.s_upper * pairs, Q.s_lower * pairs
    Y = Q.U @ Y.reshape(p, -1)
    V = np.einsum("bj,abk->ajk", Q.At, Y.reshape(p, d, -1))
    return np.concatenate([V.reshape(p * d, -1), X[n + len(pairs) :]])


def root_across(H: Float[Array, "q q"], W: Float[Array, "p d"]) -> Float[Array, "q m"]:
    """Compute the root Q L⁻ᵀ of Eq. (1), with m = q - p(p-1)/2 columns.

    H is the precision of (vec W, further entries) at a mode, with W (p ≤ d) row by row.
    ValueError is raised if p > d, if two singular values of W are 0 (rotating their
    axes does not move W), or if H is not positive definite in the complement of the
    tangents. Then W is no mode, or data and prior leave a direction undetermined.
    """
    p, d = W.shape
    if p > d:
        raise ValueError(
            "params: the number of components p must be at most the number of "
            f"features d, got p = {p} and d = {d}. Fit fewer components."
        )
    Q = _complement(W)
    return _out(Q, inverse_root(_into(Q, _into(Q, np.asarray(H)).T)))


def root_around(H: Float[Array, "q q"], W: Float[Array, "p d"]) -> Float[Array, "q q"]:
    """Compute a root of full rank if H is 0 along the rotations of W.

    H is 0 along rotations under a prior centered at 0. The columns are the columns of
    ``root_across`` and the tangents, Eq. (3), scaled to the mean precision of the other
    directions. The result is not a covariance, but a mass matrix for NUTS, which needs
    full rank.
    """
    across, Q = root_across(H, W), _complement(W)
    p, d = W.shape
    n, k = len(Q.upper), np.arange(len(Q.upper))
    Y = np.zeros((p * d, n), H.dtype)
    Y[Q.upper, k], Y[Q.lower, k] = Q.s_lower[:, 0], -Q.s_upper[:, 0]
    V = np.einsum("bj,abk->ajk", Q.At, (Q.U @ Y.reshape(p, -1)).reshape(p, d, n))
    tangents = np.zeros((len(H), n), H.dtype)
    tangents[: p * d] = V.reshape(p * d, n)
    mean = np.trace(H) / across.shape[1]
    return np.concatenate([across, tangents / np.sqrt(mean)], 1)


def inverse_root(H: Float[Array, "m m"]) -> Float[np.ndarray, "m m"]:
    """Compute L⁻ᵀ of a positive definite H = LLᵀ, or raise ValueError."""
    eps, n = np.finfo(H.dtype).eps, len(H)
    try:
        L = np.linalg.cholesky(H)
        inverse = scipy.linalg.solve_triangular(L, np.eye(n, dtype=H.dtype), lower=True)
    except np.linalg.LinAlgError:
        inverse = np.full_like(H, np.inf)
    # 1/‖L⁻¹‖² (Frobenius) is a lower bound of the smallest eigenvalue. Eigenvalues are
    # computed only if this bound is not sufficient.
    if not np.sum(inverse**2) * np.linalg.norm(H) < 1 / (n * eps):
        smallest, *_, largest = np.linalg.eigvalsh(H)
        if not smallest > n * eps * largest:
            raise ValueError(
                "params must be a posterior mode, where the precision is positive "
                f"definite, got eigenvalues from {smallest:.3g} to {largest:.3g}. Fit "
                "to convergence (tol, max_iter), or set a stronger prior (lam)."
            )
    return inverse.T
