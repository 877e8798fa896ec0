"""The log joint density of LCA with point effects, its gradient and its Hessian.

Rows r = 1..N are pairs (i, j) with δ, y and weight w (η included). With s = e^{-2b/p},
k = 2b/p, g = Wδ, Q = s‖g‖²/2 = D/2, h_i = b e^{ωz_i}/2 and t = h_i + h_j + Q,

    log p(y, W, log b, z | ω) = Σ_r w [ -y t + (1-y) log(1 - e^{-t}) ]
                              + log N(W; W₀, c²/λ) + log p(log b) + log N(z; 0, I).  (1)

At ω = 0, this density is LCA's density times the prior of z. A joint mode over ω is
meaningless, and ω is fitted by its marginal density (``effects.fit``). The first and
second derivative of a row in t are, with ν = 1/(e^t - 1),

    ℓ' = -w y + w (1-y) ν,    ℓ'' = -w (1-y) ν (1+ν),                               (2)

and the derivatives of t

    ∂t/∂W = s g δᵀ,   ∂t/∂log b = h_i + h_j - kQ,   ∂t/∂z_i = ω h_i,               (3)
    ∂²t/∂W² = s I ⊗ δδᵀ,   ∂²t/∂W ∂log b = -k s g δᵀ,
    ∂²t/∂(log b)² = h_i + h_j + (k² - k)Q,   ∂²t/∂log b ∂z_i = ωh_i,
    ∂²t/∂z_i² = ω²h_i.                                                              (4)
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array

from probmetric.data.containers import Pairs, checked_rows, refuse_trials, weights
from probmetric.inference.lca.likelihood import log_priors
from probmetric.inference.lca.likelihood import to_params as lca_params
from probmetric.inference.sampling.target import Arrays
from probmetric.models.lca import log1mexp, log_b_of
from probmetric.models.point_effects import PointEffectsParams, PointEffectsPrior
from probmetric.typing import Array, Scalar


class Rows(NamedTuple):
    """Pairs as rows: δ (N, d), points i and j (N,), y = 1 (N,), weights ηw (N,)."""

    delta: Float[Array, "N d"]
    i: Int[Array, "N"]
    j: Int[Array, "N"]
    same: Bool[Array, "N"]
    w: Float[Array, "N"]


type PointData = tuple[Rows, PointEffectsPrior]


def rows_of(pairs: Pairs, learning_rate: float = 1.0) -> Rows:
    """Return labeled pairs of positive weight; raise for a point with itself."""
    refuse_trials(pairs, "point_effects")
    pairs = checked_rows(pairs)
    if pairs.y is None:
        raise ValueError("pairs.y must be labels 0 or 1, got None.")
    X, i, j = np.asarray(pairs.X), np.asarray(pairs.i), np.asarray(pairs.j)
    if np.any(i == j):
        raise ValueError(
            "pairs: the two points of a pair must be different, got point "
            f"{int(i[i == j][0])} paired with itself. Remove this pair."
        )
    w = (learning_rate * np.asarray(weights(pairs), float)).astype(X.dtype)
    weighted = w > 0
    i, j, same = i[weighted], j[weighted], np.asarray(pairs.y)[weighted] == 1
    return Rows(X[i] - X[j], i, j, same, w[weighted])


def to_params(at: Arrays) -> PointEffectsParams:
    """Map {W, log_b, z, spread} to parameters; ``spread`` is ω."""
    common = lca_params({"W": at["W"], "log_b": at["log_b"]})
    effects = at["spread"] * at["z"]
    return PointEffectsParams(at["W"], common.log_sigma2, at["spread"], effects)


def position(params: PointEffectsParams) -> Arrays:
    """Map parameters to a position {W, log_b, z}; z is 0 if ω is 0."""
    W, u, spread = (np.asarray(params[k]) for k in (0, 3, 2))
    z = u / spread if spread > 0 else np.zeros_like(u)
    log_b = log_b_of(np.asarray(params.log_sigma2), len(W))
    return {"W": W, "log_b": np.asarray(log_b, W.dtype), "z": z}


def log_likelihood(at: Arrays, rows: Rows) -> Scalar:
    """Return the log likelihood in Eq. (1) at {W, log_b, z, spread}."""
    W, b = at["W"], jnp.exp(at["log_b"])
    h = 0.5 * jnp.exp(at["log_b"] + at["spread"] * at["z"])
    squared = jnp.sum((rows.delta @ W.T) ** 2, -1)
    t = h[rows.i] + h[rows.j] + 0.5 * jnp.exp(-2 * b / len(W)) * squared
    # The inner where keeps an infinite gradient of the unused branch out.
    terms = jnp.where(rows.same, -t, log1mexp(jnp.where(rows.same, 1.0, t)))
    return jnp.sum(rows.w * terms)


def log_joint(at: Arrays, rows: Rows, prior: PointEffectsPrior) -> Scalar:
    """Return the log joint density given ω (Eq. 1), at {W, log_b, z, spread}."""
    params = lca_params({"W": at["W"], "log_b": at["log_b"]})
    z = at["z"]
    normal = -0.5 * jnp.sum(z**2) - 0.5 * z.size * np.log(2 * np.pi)
    log_prior = sum(log_priors(params, prior.common).values()) + normal
    return log_likelihood(at, rows) + log_prior


def objective(at: Arrays, data: tuple[PointData, Array]) -> Scalar:
    """Return the log joint density, Eq. (1), at {W, log_b, z}; ``data`` includes ω."""
    (rows, prior), spread = data
    return log_joint({**at, "spread": spread}, rows, prior)


def derivatives(
    at: Arrays, rows: Rows, prior: PointEffectsPrior
) -> tuple[Float[np.ndarray, "q"], Float[np.ndarray, "q q"]]:
    """Return the gradient and minus the Hessian of the log joint density given ω.

    The order of entries is (W, log b, z). NumPy computes them by Eqs. (2)-(4). ``at``
    is {W, log_b, z, spread}. Time is O(N m² + (m + n)²), memory (m + 1 + n)² numbers.
    """
    W, z, spread = np.asarray(at["W"]), np.asarray(at["z"]), float(at["spread"])
    b, p, n = float(np.exp(at["log_b"])), len(W), len(z)
    m, N, k = W.size, len(rows.w), 2 * b / p
    s, h = np.exp(-k), 0.5 * b * np.exp(spread * z)
    g = rows.delta @ W.T
    Q = 0.5 * s * (g**2).sum(1)
    both = h[rows.i] + h[rows.j]
    t = both + Q
    nu = np.exp(-t) / -np.expm1(-t)
    first = np.where(rows.same, -rows.w, rows.w * nu)  # Eq. (2)
    second = np.where(rows.same, 0.0, -rows.w * nu * (1 + nu))
    # Eq. (3), and the incidence matrix A of points and rows.
    slopes = (s * g[:, :, None] * rows.delta[:, None]).reshape(N, m)
    J = np.column_stack([slopes, both - k * Q])
    place, ones = np.tile(np.arange(N), 2), np.ones(2 * N)
    A = csr_array((ones, (np.append(rows.i, rows.j), place)), shape=(n, N))
    c, pull = spread * h, A @ first
    gradient = np.concatenate([first @ J, c * pull])
    H = np.zeros((m + 1 + n, m + 1 + n))
    map_block = H[: m + 1, : m + 1]
    map_block += (J * second[:, None]).T @ J
    map_block[:m, :m] += np.kron(
        np.eye(p), s * (rows.delta * first[:, None]).T @ rows.delta
    )
    map_block[:m, m] -= k * (first @ slopes)  # Eq. (4)
    map_block[m, :m] = map_block[:m, m]
    map_block[m, m] += first @ (both + (k**2 - k) * Q)
    cross = c[:, None] * (A @ (J * second[:, None]))
    cross[:, m] += c * pull
    H[m + 1 :, : m + 1], H[: m + 1, m + 1 :] = cross, cross.T
    coupled = (A * second[None]) @ A.T
    H[m + 1 :, m + 1 :] = c[:, None] * coupled.toarray() * c
    at_z = np.arange(m + 1, m + 1 + n)
    H[at_z, at_z] += spread**2 * h * pull
    common = prior.common
    precision = float(common.lam) / float(common.width) ** 2
    gradient[:m] -= precision * np.ravel(W - common.mean)
    gradient[m] += common.b_shape - common.b_rate * b
    gradient[m + 1 :] -= z
    prior_curvature = np.ones(m + 1 + n)
    prior_curvature[:m], prior_curvature[m] = precision, common.b_rate * b
    return gradient, np.diag(prior_curvature) - H
