"""The mode of LCA by L-BFGS in coordinates that make the pooled pairs diagonal.

Pairs with y = 1 enter Eq. (2) of ``likelihood`` through T₁ = V diag(τ) Vᵀ. Near the
prior mean, the curvature of a row of W is about η e^{-2b/p} T₁ + λ/c², which has the
same eigenvectors. The coordinates are U = W V diag(√v), v = η e^{-2b/p} τ + λ/c², and
the differences are ε = diag(1/√v) Vᵀδ, for which Uε = Wδ. The log joint density of (U,
log b) is, up to a constant,

    f = η [ -n₁ b - ½ q Σ_k (τ_k/v_k) ‖U_k‖² + Σ_rows w log(1 - e^{-t}) ]
        - ½ λ/c² Σ_k ‖U_k - U₀_k‖²/v_k + a log b - r b,                             (1)

with q = e^{-2b/p}, t = b + ½ q ‖Uε‖² and columns U_k. With g = Uε and the odds
ν = 1/(e^t - 1), its derivatives are

    ∂f/∂U_k = -η q (τ_k/v_k) U_k + η q Σ_rows w ν g ε_k - λ/c² (U_k - U₀_k)/v_k,    (2)
    ∂f/∂log b = b [ η (-n₁ + (q/p) Σ_k (τ_k/v_k) ‖U_k‖²
                + Σ_rows w ν (1 - (q/p) ‖g‖²)) - r ] + a.                           (3)

No product with T₁ or V remains in the loop. The code uses NumPy and compiles nothing.

With fewer points than features, W - W₀ is zero outside the span of the points. V then
has one column for each of the r < n dimensions of this span. By Eq. (2) the columns of
W stay in the span of the columns of W₀V, and the loop has r rows instead of p.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array
from scipy.special import gammaln

from probmetric.data.containers import Pairs, weights
from probmetric.inference.lca.likelihood import to_params
from probmetric.inference.lca.statistics import labeled
from probmetric.inference.sampling.target import Arrays
from probmetric.inference.solvers.lbfgs import climb
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAPrior


class Pooled(NamedTuple):
    """Pairs with a common κ, in the eigenvectors of T₁ within the span of the points.

    ``X`` (m, r) has the differences of the y = 0 pairs, or the points from which
    ``ends`` computes the differences. ``w`` are the weights of these pairs. ``values``
    are the eigenvalues of T₁, and ``axes`` are its eigenvectors, as columns. ``ways``
    is Σ w log C(m, y).
    """

    X: Float[np.ndarray, "m r"]
    ends: csr_array | None
    w: Float[np.ndarray, "q"]
    n_same: float
    values: Float[np.ndarray, "r"]
    axes: Float[np.ndarray, "d r"]
    ways: float


def span(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d r"]:
    """Return r ≤ n orthonormal columns that span all differences of points."""
    if len(X) >= X.shape[1]:
        return np.eye(X.shape[1], dtype=X.dtype)
    return np.linalg.svd(X - X.mean(0), full_matrices=False)[2].T


def pool(pairs: Pairs) -> Pooled:
    """Rotate labeled pairs, and replace the pairs with y = 1 by their sums."""
    pairs, ways = labeled(pairs)
    X, i, j = np.asarray(pairs.X, float), np.asarray(pairs.i), np.asarray(pairs.j)
    w, same = np.asarray(weights(pairs), float), np.asarray(pairs.y) == 1
    axes = span(X)
    X = X - X.mean(0)
    X = X @ axes if len(X) < len(axes) else X
    delta = (X[i[same]] - X[j[same]]) * np.sqrt(w[same, None])
    values, vectors = np.linalg.eigh(delta.T @ delta)
    X, i, j, ends = X @ vectors, i[~same], j[~same], None
    if 2 * len(X) < len(i):
        signs = np.tile(np.array([1.0, -1.0]), len(i))
        column, row = np.stack([i, j], 1).ravel(), np.arange(0, 2 * len(i) + 1, 2)
        ends = csr_array((signs, column, row), shape=(len(i), len(X)))
    else:
        X = X[i] - X[j]
    n_same = float(w[same].sum())
    values = np.maximum(values, 0)
    return Pooled(X, ends, w[~same], n_same, values, axes @ vectors, ways)


def maximize(
    pairs: Pooled,
    prior: LCAPrior,
    learning_rate: float,
    start: Arrays,
    *,
    max_steps: int,
    tol: float = 1e-8,
) -> Fit:
    """Maximize the log joint density from {W, log_b} until a step gains under ``tol``.

    If there are fewer points than features, ``start`` must be the prior mean or a fit
    with the same prior mean.
    """
    eta, mean = float(learning_rate), np.asarray(prior.mean)
    dtype = mean.dtype
    p, entries = len(mean), mean.size
    precision = float(prior.lam) / float(prior.width) ** 2
    shape, rate = float(prior.b_shape), float(prior.b_rate)
    rate = rate if shape else 0.0
    log_b = float(start["log_b"])
    inner, W = mean @ pairs.axes, np.asarray(start["W"]) @ pairs.axes
    left = None
    if p > inner.shape[1] and precision:
        left, inner = np.linalg.qr(inner)
        W = left.T @ W
    b = np.exp(log_b)
    v = eta * np.exp(-2 * b / p) * pairs.values + precision
    # The floor only scales steps and does not change the model.
    v = np.maximum(v, max(1e-8 * v.max(), np.finfo(float).tiny))
    root, scale = np.sqrt(v), 1 / np.sqrt(1 + (eta * pairs.n_same + rate) * b)
    X, w = pairs.X / root, eta * pairs.w
    n_same, T, P = eta * pairs.n_same, eta * pairs.values / v, precision / v
    center, rows = inner * root, len(W)
    constant = eta * pairs.ways
    constant += 0.5 * entries * np.log(precision / (2 * np.pi)) if precision else 0.0
    constant += shape * np.log(rate) - gammaln(shape) if shape else 0.0
    adjoint = None if pairs.ends is None else csr_array(pairs.ends.T)
    signs = None if adjoint is None else adjoint.data

    def at(z: np.ndarray) -> tuple[float, np.ndarray]:
        U, log_b = z[:-1].reshape(rows, -1), z[-1] * scale
        b = np.exp(log_b)
        q = np.exp(-2 * b / p)
        g = X @ U.T if pairs.ends is None else pairs.ends @ (X @ U.T)
        D = np.einsum("ij,ij->i", g, g)
        apart = -np.expm1(-b - 0.5 * q * D)  # 1 - e^{-t}
        odds = w / apart - w
        away, Q = U - center, np.einsum("ij,ij->j", U, U) @ T
        prior_loss = np.einsum("ij,ij->j", away, away) @ P
        value = w @ np.log(apart) - n_same * b - 0.5 * (q * Q + prior_loss)
        value += shape * log_b - rate * b + constant  # Eq. (1)
        if adjoint is None:
            g *= q * odds[:, None]
        else:
            adjoint.data = signs * (q * odds)[adjoint.indices]
            g = adjoint @ g
        gradient = np.empty_like(z)
        slope = np.matmul(g.T, X, out=gradient[:-1].reshape(rows, -1))
        away *= P
        slope -= away
        slope -= np.multiply(U, q * T, out=away)  # Eq. (2)
        by_b = odds @ (1 - q / p * D) - n_same + q / p * Q - rate
        gradient[-1] = (b * by_b + shape) * scale  # Eq. (3)
        return value, gradient

    begin = np.append(W * root, log_b / scale)
    with np.errstate(all="ignore"):  # The line search backs off.
        fit = climb(at, begin, max_steps=max_steps, tol=tol, whitened=True)
    change = fit.params[:-1].reshape(rows, -1) / root - inner
    change = change if left is None else left @ change
    W = mean + change @ pairs.axes.T
    params = to_params({"W": W, "log_b": np.asarray(fit.params[-1] * scale)})
    return jax.tree.map(
        lambda a: a if a.dtype.kind == "i" else a.astype(dtype),
        fit._replace(params=params),
    )
