"""Second derivatives of LCA: the Hessian, and a certificate of the optimum.

With κ = 1, τ² = 1 + 2σ² = e^{2b/p} and θ = (vec W row by row, log b), the exponent
t = b + D/(2τ²) of Eq. (1) of ``lca.likelihood`` has, with r_b = b/p,
∇t = (g δᵀ/τ², r_b(p - D/τ²)):

    ∇ℓ  = -Σ w r ∇t,                      r = 1 (y=1), -ν (y=0),                  (1)
    ∇²ℓ = -Σ w (h ∇t∇tᵀ + r ∇²t),         h = 0 (y=1), ν(1+ν) (y=0),              (2)

with ∇²t = I_p ⊗ δδᵀ/τ², -2r_b g δᵀ/τ² and r_b(p - D/τ²) + 2r_b²D/τ² for the blocks
(W, W), (W, log b) and (log b, log b). Pooled pairs enter through T₁ and n₁.

Certificate. With a common κ the log likelihood is concave in (b, M). Let Γ = -½ Σ w r
δδᵀ. A stationary W has ΓWᵀ = 0. This W is the global optimum over all ranks if and only
if Γ ⪯ 0.

All functions require a common κ, use NumPy, and are called once per fit, at a mode.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Pairs
from probmetric.data.padding import host_weights
from probmetric.data.pairs import as_labels
from probmetric.inference.lca.statistics import Statistics
from probmetric.linalg import one_blas_thread
from probmetric.models.lca import LCAParams, LCAPrior, log_b_of
from probmetric.typing import Array


class Certificate(NamedTuple):
    """Certificate, whose entries are 0 at a global optimum up to rounding.

    ``largest`` is the largest eigenvalue of Γ and ``stationarity`` the largest entry
    of ΓWᵀ, both relative to the spectral norm of ½ Σ w δδᵀ.
    """

    largest: float
    stationarity: float


class Rows(NamedTuple):
    """Quantities of the rows in Eqs. (1) and (2), for κ² = 1.

    ``delta``, ``g``, ``D`` are δ, Wδ, ‖Wδ‖²; ``nu2`` is ν(1 + ν), ``eta`` is τ² and
    ``rb`` is b/p.
    """

    W: np.ndarray
    delta: np.ndarray
    g: np.ndarray
    D: np.ndarray
    t: np.ndarray
    nu: np.ndarray
    nu2: np.ndarray
    eta: np.ndarray | np.floating
    rb: np.ndarray | np.floating

    @property
    def slope(self) -> Float[np.ndarray, "rows q"]:
        """∇t (computed on each access)."""
        by_W = self.g[:, :, None] * self.delta[:, None, :] / self.eta
        by_log_b = self.rb * (len(self.W) - self.D / self.eta)
        return np.column_stack([by_W.reshape(len(self.g), -1), by_log_b])


def rows(params: LCAParams, data: Statistics | Pairs) -> Rows:
    """Compute the quantities of the rows in Eqs. (1) and (2), for κ² = 1."""
    W, X = np.asarray(params.W), np.asarray(data.X)
    p = W.shape[0]
    delta = X if data.i is None else X[np.asarray(data.i)] - X[np.asarray(data.j)]
    sigma2 = np.exp(np.asarray(params.log_sigma2))
    eta = 1 + 2 * sigma2
    rb = 0.5 * np.log1p(2 * sigma2)
    g = delta @ W.T
    D = np.sum(g**2, -1)
    t = p * rb + D / (2 * eta)
    # ν and ν(1 + ν), accurate for large and small t.
    decay, gap = np.exp(-t), -np.expm1(-t)
    return Rows(W, delta, g, D, t, decay / gap, decay / gap**2, eta, rb)


def gradient(params: LCAParams, stats: Statistics) -> Float[Array, "q"]:
    """Return ∇ℓ in θ = (vec W, log b), length q = pd + 1 (Eq. 1)."""
    row = rows(params, stats)
    W = row.W
    WT = W @ stats.T_same
    pooled_b = row.rb * (stats.n_same * W.shape[0] - np.sum(WT * W) / row.eta)
    pooled = np.append(np.ravel(WT / row.eta), pooled_b)
    return (stats.w * row.nu) @ row.slope - pooled


def hessian(params: LCAParams, stats: Statistics) -> Float[Array, "q q"]:
    """Return ∇²ℓ in θ = (vec W, log b), shape (pd + 1, pd + 1) (Eq. 2)."""
    row = rows(params, stats)
    W, p = row.W, len(row.W)
    rb, eta, D, delta = row.rb, row.eta, row.D, row.delta
    wr, wh = -stats.w * row.nu, stats.w * row.nu2
    slope = row.slope
    outer = (slope * wh[:, None]).T @ slope
    # Σ w r ∇²t, rows and pooled pairs together.
    WT = W @ stats.T_same
    scatter = (delta * wr[:, None]).T @ delta + stats.T_same
    WW = np.kron(np.eye(p, dtype=W.dtype), scatter / eta)
    Wb = -2 * rb / eta * ((row.g * wr[:, None]).T @ delta + WT)
    total, squared = np.sum(wr) + stats.n_same, wr @ D + np.sum(WT * W)
    bb = rb * (p * total - squared / eta) + 2 * rb**2 * squared / eta
    edge = np.ravel(Wb)
    curvature = np.block([[WW, edge[:, None]], [edge[None, :], bb[None, None]]])
    return -(outer + curvature)


def prior_precision(params: LCAParams, prior: LCAPrior) -> Float[Array, "q"]:
    """Return the diagonal of the prior precision of θ; zero for flat factors."""
    b = np.exp(log_b_of(np.asarray(params.log_sigma2), len(params.W)))
    on_W = np.full(np.size(params.W), prior.lam / np.asarray(prior.width) ** 2)
    return np.append(on_W, np.where(prior.b_shape > 0, prior.b_rate * b, 0.0))


def precision(
    params: LCAParams,
    stats: Statistics,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float = 1.0,
) -> Float[Array, "q q"]:
    """Return minus the Hessian of the log joint density in θ = (vec W, log b)."""
    diagonal = prior_precision(params, prior)
    return np.diag(diagonal) - learning_rate * hessian(params, stats)


def certificate(params: LCAParams, stats: Statistics) -> Certificate:
    """Compute the certificate that a maximum-likelihood fit is a global maximum.

    The certificate applies if the linear map W has p = d rows. The fit is global if
    ``largest`` and ``stationarity`` are zero up to about the square root of the
    relative gap of the fit. With p < d, a positive ``largest`` only means that a higher
    rank has a larger likelihood. With a prior on W, there is no certificate, because
    the objective is not concave.

    Parameters
    ----------
    params : LCAParams
        Parameters with κ² = 1, as from ``fit``.
    stats : Statistics
        From ``prepare``.

    Examples
    --------
    >>> from probmetric.inference import lca
    >>> X, i, j = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0]), np.array([1, 2])
    >>> pairs = Pairs(X, i, j, y=np.array([4, 1]), trials=np.array([8, 8]))
    >>> flat = LCAPrior(np.eye(1), lam=0.0, b_shape=0.0, b_rate=0.0)
    >>> result = certificate(lca.fit(pairs, flat).params, lca.prepare(pairs))
    >>> bool(abs(result.largest) < 1e-6), bool(result.stationarity < 1e-6)
    (True, True)
    """
    row = rows(params, stats)
    W = row.W
    wr = -stats.w * row.nu
    pull = 0.5 * stats.T_same
    Gamma = -0.5 * (row.delta * wr[:, None]).T @ row.delta - pull
    norm = np.linalg.norm(0.5 * stats.T, 2)
    return Certificate(
        np.linalg.eigvalsh(Gamma)[-1] / norm, np.max(np.abs(Gamma @ W.T)) / norm
    )


def generalized_rate(
    params: LCAParams,
    pairs: Pairs,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float,
) -> float:
    """Estimate the learning rate η_G from the scores of *points*.

    Pairs that share a point are not independent. Let I be the expected information of
    the pairs, U_i the sum of the scores of the pairs of point i, J = Σ U_iU_iᵀ and H =
    I + prior precision/η. Then

        η_G = tr(H⁻¹ I) / tr(H⁻¹ J).

    The estimate is meant for pairs that share points. The score of a pair enters U of
    its two points, so pairs that share no point have the estimate ½ instead of 1.
    ``params`` is the fit at ``learning_rate``, which is of the order of n/N.
    """
    pairs = as_labels(pairs)
    with one_blas_thread(np.size(params.W)):
        row = rows(params, pairs)
        w = host_weights(pairs)
        slope = row.slope
        information = (slope * (w * row.nu)[:, None]).T @ slope
        r = np.where(np.asarray(pairs.y) == 1, 1.0, -row.nu)
        score = -(w * r)[:, None] * slope
        U = np.zeros((len(pairs.X), score.shape[1]), score.dtype)
        for end in (pairs.i, pairs.j):
            np.add.at(U, np.asarray(end), score)
        diagonal = prior_precision(params, prior) / learning_rate
        H = information + np.diag(diagonal)
        both = np.linalg.solve(H, np.concatenate([information, U.T @ U], 1))
        q = len(H)
        return np.trace(both[:, :q]) / np.trace(both[:, q:])


def log_evidence(
    params: LCAParams,
    pairs: Pairs,
    log_joint: Float[Array, ""] | float,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float,
) -> float:
    """Approximate the log evidence of λ up to a constant, for choosing λ.

    In Laplace's approximation, the (W, W) block of ``learning_rate`` · I is replaced by
    its Kronecker form A ⊗ B, A = Σ wν ggᵀ/(τ⁴ Σwν), B = Σ wν δδᵀ:

        log p(θ̂, y) + ½ pd log 2π - ½ Σ log(α_k β_l + λ/c²),

    The cost is p³ + d³ instead of (pd)³. ``log_joint`` is log p(θ̂, y) at the mode. The
    result can be tens of nats too high if ‖g‖ and ‖δ‖ are strongly dependent, and the
    scale of a tempered likelihood is arbitrary. Prefer cross-validation.
    """
    pairs = as_labels(pairs)
    row = rows(params, pairs)
    wnu = learning_rate * host_weights(pairs) * row.nu
    A = (row.g * wnu[:, None]).T @ row.g / (row.eta**2 * np.sum(wnu))
    B = (row.delta * wnu[:, None]).T @ row.delta
    h = np.linalg.eigvalsh(A)[:, None] * np.linalg.eigvalsh(B)[None, :]
    shrunk = np.maximum(h, 0) + prior.lam / np.asarray(prior.width) ** 2
    return (
        log_joint
        + 0.5 * params.W.size * np.log(2 * np.pi)
        - 0.5 * np.sum(np.log(shrunk))
    )
