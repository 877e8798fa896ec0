"""A Gaussian at a mode of a map W, with the rotations of W left out.

M = WᵀW does not change along the tangents vec(ΩW), Ω skew, of the orbit of rotations
of W (p, d): to first order they carry nothing, to second order a Gaussian that spreads
along them drifts off the orbit and inflates M. So with θ = (vec W, further entries) of
precision H at a mode θ̂, draws are restricted to the orthogonal complement of the
tangents: with Q its basis,

    θ = θ̂ + Q L⁻ᵀ ε,    QᵀHQ = LLᵀ,    ε ~ N(0, I).                                (1)

V is orthogonal to every ΩW if and only if VWᵀ is symmetric. With W = U S Aᵀ, A (d, d),
and V = U Y Aᵀ that says Y_ab S_b = Y_ba S_a for a, b ≤ p. So Q is, in the entries of Y,

    E_aa;   (S_a E_ab + S_b E_ba) / √(S_a² + S_b²),  a < b ≤ p;   E_ab,  b > p,      (2)

and no orthogonal factor of the q × p(p-1)/2 tangents is needed: QᵀHQ costs 4 products
of H with U or A, 4 q² (p + d) flops. The tangents are, in the entries of Y, spanned by

    T_ab = (S_b E_ab - S_a E_ba) / √(S_a² + S_b²),  a < b ≤ p.                      (3)

What is said of draws of Eq. (1) is said of M, never of W. Two things are not counted:
how the prior varies along the orbit, and the orbit's size, ∏ √(S_a² + S_b²).
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

from probmetric.typing import Array


class _Complement(NamedTuple):
    """Q of Eq. (2): W's singular vectors, and where its columns have entries of Y.

    ``alone`` are the places of single entries in vec Y; ``upper``, ``lower`` those of
    the pairs ab, ba, with coefficients ``s_upper``, ``s_lower``. Entries of θ beyond
    those of W are left as they are.
    """

    U: Any
    At: Any
    alone: Any
    upper: Any
    lower: Any
    s_upper: Any
    s_lower: Any


def _complement(W: Float[Array, "p d"]) -> _Complement:
    p, d = W.shape
    U, S, At = np.linalg.svd(W, full_matrices=True)
    zeros = int(np.sum(S <= max(p, d) * np.finfo(S.dtype).eps * S[0]))
    if zeros > 1:  # Their tangent is 0: nothing says what is left out.
        raise ValueError(
            "params: expected at most one singular value of W that is 0, got "
            f"{zeros}: fit fewer components"
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


def _into(Q: _Complement, V: Any) -> Any:
    """Return Qᵀ V of columns V (q, k)."""
    p, d = len(Q.U), len(Q.At)
    Y = Q.U.T @ V[: p * d].reshape(p, -1)
    Y = np.einsum("bj,ajk->abk", Q.At, Y.reshape(p, d, -1)).reshape(p * d, -1)
    pairs = Q.s_upper * Y[Q.upper] + Q.s_lower * Y[Q.lower]
    return np.concatenate([Y[Q.alone], pairs, V[p * d :]])


def _out(Q: _Complement, X: Any) -> Any:
    """Return Q X of columns X (m, k)."""
    p, d, n = len(Q.U), len(Q.At), len(Q.alone)
    Y = np.zeros((p * d, X.shape[1]), X.dtype)
    pairs = X[n : n + len(Q.upper)]
    Y[Q.alone], Y[Q.upper], Y[Q.lower] = X[:n], Q.s_upper * pairs, Q.s_lower * pairs
    Y = Q.U @ Y.reshape(p, -1)
    V = np.einsum("bj,abk->ajk", Q.At, Y.reshape(p, d, -1))
    return np.concatenate([V.reshape(p * d, -1), X[n + len(pairs) :]])


def root_across(H: Float[Array, "q q"], W: Float[Array, "p d"]) -> Float[Array, "q m"]:
    """Return Q L⁻ᵀ of Eq. (1), m = q - p(p-1)/2.

    Parameters
    ----------
    H : array of shape (q, q)
        The precision of (vec W, ...) at a mode, W row by row and first.
    W : array of shape (p, d)
        The map there, p ≤ d.

    Raises
    ------
    ValueError
        H is not positive definite across the orbit: no mode, or a direction that
        neither data nor prior hold. p > d. Two singular values of W are 0, up to
        rounding: the tangent of their rotation is 0.

    Examples
    --------
    Of a precision that is 0 along the rotations nothing is lost:

    >>> import numpy as np
    >>> from probmetric.inference.rotations import root_across
    >>> H = np.eye(4)
    >>> H[1:3, 1:3] = [[0.5, 0.5], [0.5, 0.5]]  # 0 along (0, 1, -1, 0), vec ΩI
    >>> root = root_across(H, np.eye(2))
    >>> root.shape, np.allclose(H @ root @ root.T @ H, H)
    ((4, 3), True)
    """
    p, d = W.shape
    if p > d:
        raise ValueError(
            "params: expected at most as many components as features (W of shape (p, "
            "d) "
            f"with p <= d) to quotient the rotations out, got p = {p} > d = {d}"
        )
    Q = _complement(W)
    return _out(Q, inverse_root(_into(Q, _into(Q, H).T)))


def root_around(H: Float[Array, "q q"], W: Float[Array, "p d"]) -> Float[Array, "q q"]:
    """Return a root of full rank where nothing holds the rotations of W.

    Under a prior centred at 0 the precision is 0 along them. The columns are those of
    ``root_across``, and the tangents (Eq. 3) at the mean precision across the orbit: a
    mass matrix for NUTS, which needs one of full rank, and no covariance.

    Parameters
    ----------
    H, W
        As of ``root_across``.

    Raises
    ------
    ValueError
        As ``root_across``.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference.rotations import root_around
    >>> H = np.eye(4)
    >>> H[1:3, 1:3] = [[0.5, 0.5], [0.5, 0.5]]  # 0 along (0, 1, -1, 0), vec ΩI
    >>> root = root_around(H, np.eye(2))
    >>> np.allclose(root @ root.T, np.eye(4))
    True
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


def inverse_root(H: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Return L⁻ᵀ of H = LLᵀ; an H that is not positive definite is an error.

    Raises
    ------
    ValueError
        With the range of H's eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.inference.rotations import inverse_root
    >>> inverse_root(np.diag([4.0, 1.0])).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    eps, n = np.finfo(H.dtype).eps, len(H)
    try:
        L = np.linalg.cholesky(H)
        inverse = scipy.linalg.solve_triangular(L, np.eye(n, dtype=H.dtype), lower=True)
    except np.linalg.LinAlgError:
        inverse = np.full_like(H, np.inf)
    # 1/‖L⁻¹‖² (Frobenius) is a lower bound of the smallest eigenvalue; only where it
    # does not settle the matter are eigenvalues computed.
    if not np.sum(inverse**2) * np.linalg.norm(H) < 1 / (n * eps):
        smallest, *_, largest = np.linalg.eigvalsh(H)
        if not smallest > n * eps * largest:
            raise ValueError(
                "params: expected a posterior mode with positive definite precision, "
                f"got eigenvalues from {smallest:.3g} to {largest:.3g}: fit to "
                "convergence (tol, max_iter), or set a stronger prior (lam)"
            )
    return inverse.T
