"""Laplace's approximation of LCA's posterior, with the rotation quotiented out.

At the mode θ̂ = (vec W, log b) the precision is H = -∇² log p. M = WᵀW does not change
along the tangents vec(ΩW), Ω skew, of the rotation orbit: to first order they carry
nothing, to second order a Gaussian that spreads along them drifts off the orbit and
inflates M. So draws are restricted to their orthogonal complement: with Q its basis,

    θ = θ̂ + Q L⁻ᵀ ε,    QᵀHQ = LLᵀ,    ε ~ N(0, I).                                (1)

V is orthogonal to every ΩW if and only if VWᵀ is symmetric. With W = U S Aᵀ, A (d, d),
and V = U Y Aᵀ that says Y_ab S_b = Y_ba S_a for a, b ≤ p. So Q is, in the entries of Y,

    E_aa;   (S_a E_ab + S_b E_ba) / √(S_a² + S_b²),  a < b ≤ p;   E_ab,  b > p,      (2)

and no orthogonal factor of the q × p(p-1)/2 tangents is needed: QᵀHQ costs 4 products
of H with U or A, 4 q² (p + d) flops.

Report M and b of such draws, never W. The full covariance H⁻¹ serves as the inverse
mass matrix of NUTS, where the prior makes H positive definite.

Cost, with q = pd + 1: the Hessian of N rows 2 N q² flops, its factor and inverse q³;
memory five matrices of q² numbers, an error beyond ``MAX_PARAMETERS``.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from probmetric.inference.lca.curvature import precision
from probmetric.inference.lca.statistics import Statistics
from probmetric.linalg import one_blas_thread
from probmetric.models.lca import LCAParams, LCAPrior, log_b_of, log_sigma2_of
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

MAX_PARAMETERS = 10_001
"""Parameters p·d + 1 beyond which second derivatives are an error: 4 GB of matrices."""


class Laplace(NamedTuple):
    """A Gaussian around the mode.

    ``mode`` (q,) is (vec W, log b); ``root`` (q, m) is the matrix of Eq. (1), so
    that the covariance of the draws is root·rootᵀ; ``shape`` is (p, d).
    """

    mode: Float[Array, "q"]
    root: Float[Array, "q m"]
    shape: tuple[int, ...]


class _Complement(NamedTuple):
    """Q of Eq. (2): W's singular vectors, and where its columns have entries of Y.

    ``alone`` are the places of single entries in vec Y; ``upper``, ``lower`` those of
    the pairs ab, ba, with coefficients ``s_upper``, ``s_lower``.
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
    Y = Q.U.T @ V[:-1].reshape(p, -1)
    Y = np.einsum("bj,ajk->abk", Q.At, Y.reshape(p, d, -1)).reshape(p * d, -1)
    pairs = Q.s_upper * Y[Q.upper] + Q.s_lower * Y[Q.lower]
    return np.concatenate([Y[Q.alone], pairs, V[-1:]])


def _out(Q: _Complement, X: Any) -> Any:
    """Return Q X of columns X (m, k)."""
    p, d, n = len(Q.U), len(Q.At), len(Q.alone)
    Y = np.zeros((p * d, X.shape[1]), X.dtype)
    Y[Q.alone], pairs = X[:n], X[n:-1]
    Y[Q.upper], Y[Q.lower] = Q.s_upper * pairs, Q.s_lower * pairs
    Y = Q.U @ Y.reshape(p, -1)
    V = np.einsum("bj,abk->ajk", Q.At, Y.reshape(p, d, -1))
    return np.concatenate([V.reshape(p * d, -1), X[-1:]])


def laplace(
    params: LCAParams,
    stats: Statistics,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float = 1.0,
    *,
    quotient: bool = True,
) -> Laplace:
    """Approximate the posterior at its mode.

    Parameters
    ----------
    params : LCAParams
        The mode, from ``lca.fit`` with the same prior and learning rate.
    stats, prior, learning_rate
        As given to the fit.
    quotient : bool, default=True
        Remove the rotation tangents (Eq. 1), for p ≤ d. False keeps the whole
        covariance.

    Raises
    ------
    ValueError
        When the precision is not positive definite on the space kept: the point is
        no mode, or a direction has neither data nor prior. More than
        ``MAX_PARAMETERS`` parameters. With ``quotient``, p > d.
    """
    W = np.asarray(params.W)
    p, d = W.shape
    if quotient and p > d:
        raise ValueError(
            "params: expected at most as many components as features (W of shape (p, "
            "d) "
            f"with p <= d) to quotient the rotations out, got p = {p} > d = {d}"
        )
    if W.size + 1 > MAX_PARAMETERS:
        raise ValueError(
            f"params: expected at most {MAX_PARAMETERS} parameters (p·d + 1) for "
            f"second "
            f"derivatives, got {W.size + 1}: fit fewer components, or use the bootstrap"
        )
    with one_blas_thread(W.size):
        H = precision(params, stats, prior, learning_rate)
        H = (H + H.T) / 2
        mode = np.append(np.ravel(W), log_b_of(np.asarray(params.log_sigma2), p))
        if not quotient:
            return Laplace(mode, _root(H), W.shape)
        Q = _complement(W)
        return Laplace(mode, _out(Q, _root(_into(Q, _into(Q, H).T))), W.shape)


def _root(H: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Return L⁻ᵀ of H = LLᵀ; an H that is not positive definite is an error."""
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
                "convergence (tol), or set a proper prior (lam > 0)"
            )
    return inverse.T


@numpy_in_numpy_out
def laplace_draws(approximation: Laplace, key: Any, n_draws: int) -> LCAParams:
    """Draw parameters with a leading axis of length ``n_draws`` (Eq. 1).

    Parameters
    ----------
    approximation : Laplace
    key : typed JAX key
    n_draws : int

    Returns
    -------
    LCAParams
        W (s, p, d), log σ² (s,), κ² (s,) all one.
    """
    root = jnp.asarray(approximation.root)
    noise = jax.random.normal(key, (n_draws, root.shape[1]), root.dtype)
    theta = approximation.mode + noise @ root.T
    W = theta[:, :-1].reshape(n_draws, *approximation.shape)
    log_sigma2 = log_sigma2_of(theta[:, -1], approximation.shape[0])
    return LCAParams(W, log_sigma2, jnp.ones(n_draws, root.dtype))
