"""Second derivatives of LCA: the Hessian, and a certificate of the optimum.

With κ = 1, τ² = 1 + 2σ² = e^{2b/p} and θ = (vec W row by row, log b), the exponent
t = b + D/(2τ²) of Eq. (1) of ``lca.likelihood`` has, with r_b = b/p,
∇t = (g δᵀ/τ², r_b(p - D/τ²)) (maths A7, with r_b for s as the coordinate is log b):

    ∇ℓ  = -Σ w r ∇t,                      r = 1 (y=1), -ν (y=0),                  (1)
    ∇²ℓ = -Σ w (h ∇t∇tᵀ + r ∇²t),         h = 0 (y=1), ν(1+ν) (y=0),              (2)

with ∇²t = I_p ⊗ δδᵀ/τ², -2r_b g δᵀ/τ² and r_b(p - D/τ²) + 2r_b²D/τ² for the blocks
(W, W), (W, log b) and (log b, log b). Pooled pairs enter through T₁ and n₁.

Certificate (maths A6). Under a common κ the log likelihood is concave in (b, M). With
Γ = -½ Σ w r δδᵀ, a stationary W has ΓWᵀ = 0, and it is the global optimum over all
ranks if and only if Γ ⪯ 0.

All need a common κ. They run in NumPy: once a fit, at a mode, with nothing to trace.
"""

from typing import Any, NamedTuple

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
    """Evidence of a global optimum; both entries vanish there, up to rounding.

    ``largest`` is the largest eigenvalue of Γ and ``stationarity`` the largest entry
    of ΓWᵀ, both relative to the spectral norm of Γ's y = 1 part.
    """

    largest: float
    stationarity: float


def rows(params: LCAParams, data: Statistics | Pairs) -> dict[str, Any]:
    """Return W and the row-wise quantities of Eqs. (1) and (2), for κ² = 1.

    Of pairs that are rows: δ, g, D, t, ν, ν(1 + ν), and ∇t as ``slope`` (rows, q).
    """
    if np.ndim(params.kappa2):
        raise ValueError("params.kappa2: expected a common κ² of 1, got one per anchor")
    W, X = np.asarray(params.W), np.asarray(data.X)
    p = W.shape[0]
    delta = X if data.i is None else X[np.asarray(data.i)] - X[np.asarray(data.j)]
    sigma2 = np.exp(np.asarray(params.log_sigma2))
    eta = 1 + 2 * sigma2
    rb = 0.5 * np.log1p(2 * sigma2)
    g = delta @ W.T
    D = np.sum(g**2, -1)
    t = p * rb + D / (2 * eta)
    # ν and ν(1 + ν), safe for large and small t (maths A4).
    decay, gap = np.exp(-t), -np.expm1(-t)
    by_W = (g[:, :, None] * delta[:, None, :] / eta).reshape(len(delta), W.size)
    by_log_b = rb * (p - D / eta)
    return {
        "W": W,
        "delta": delta,
        "g": g,
        "D": D,
        "t": t,
        "nu": decay / gap,
        "nu2": decay / gap**2,
        "eta": eta,
        "rb": rb,
        "slope": np.concatenate([by_W, by_log_b[:, None]], 1),
    }


def gradient(params: LCAParams, stats: Statistics) -> Float[Array, "q"]:
    """Return ∇ℓ in θ = (vec W, log b), length q = pd + 1 (Eq. 1)."""
    row = rows(params, stats)
    W = row["W"]
    r = np.where(stats.same, 1.0, -row["nu"])
    WT = W @ stats.T_same
    pooled_b = row["rb"] * (stats.n_same * W.shape[0] - np.sum(WT * W) / row["eta"])
    pooled = np.append(np.ravel(WT / row["eta"]), pooled_b)
    return -(stats.w * r) @ row["slope"] - pooled


def hessian(params: LCAParams, stats: Statistics) -> Float[Array, "q q"]:
    """Return ∇²ℓ in θ = (vec W, log b), shape (pd + 1, pd + 1) (Eq. 2)."""
    row = rows(params, stats)
    W, p = row["W"], len(row["W"])
    rb, eta, D, delta = row["rb"], row["eta"], row["D"], row["delta"]
    wr = stats.w * np.where(stats.same, 1.0, -row["nu"])
    wh = stats.w * np.where(stats.same, 0.0, row["nu2"])
    outer = (row["slope"] * wh[:, None]).T @ row["slope"]
    # Σ w r ∇²t, rows and pooled pairs together.
    WT = W @ stats.T_same
    scatter = (delta * wr[:, None]).T @ delta + stats.T_same
    WW = np.kron(np.eye(p, dtype=W.dtype), scatter / eta)
    Wb = -2 * rb / eta * ((row["g"] * wr[:, None]).T @ delta + WT)
    total, squared = np.sum(wr) + stats.n_same, wr @ D + np.sum(WT * W)
    bb = rb * (p * total - squared / eta) + 2 * rb**2 * squared / eta
    edge = np.ravel(Wb)
    curvature = np.block([[WW, edge[:, None]], [edge[None, :], bb[None, None]]])
    return -(outer + curvature)


def prior_precision(params: LCAParams, prior: LCAPrior) -> Float[Array, "q"]:
    """Return the diagonal of the prior's precision of θ; zero where flat.

    b ~ Gamma(a, r) has density a log b - rb in log b, of curvature -rb.
    """
    b = np.exp(log_b_of(np.asarray(params.log_sigma2), len(params.W)))
    on_W = np.full(np.size(params.W), prior.lam / np.asarray(prior.width) ** 2)
    return np.append(on_W, np.where(prior.b_shape > 0, prior.b_rate * b, 0.0))


def precision(
    params: LCAParams,
    stats: Statistics,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float = 1.0,
) -> Float[Array, "q q"]:
    """Return minus the Hessian of the log joint density in θ."""
    diagonal = prior_precision(params, prior)
    return np.diag(diagonal) - learning_rate * hessian(params, stats)


def certificate(params: LCAParams, stats: Statistics) -> Certificate:
    """Return the certificate that a maximum-likelihood fit at p = d is the global one.

    Both entries are of the order of the square root of the fit's relative gap at
    the optimum. With p < d a positive ``largest`` says only that a higher rank would
    do better. Under a prior on W it certifies nothing: the objective is not concave.

    Parameters
    ----------
    params : LCAParams
        With a common κ² of 1.
    stats : Statistics

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        For a κ² per anchor.

    Examples
    --------
    The fit gives each pair the share of its judgments that say *same*, 1/2 and 1/8, and
    nothing could be better:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import lca
    >>> from probmetric.models.lca import LCAPrior
    >>> X, i, j = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0]), np.array([1, 2])
    >>> pairs = Pairs(X, i, j, y=np.array([4, 1]), trials=np.array([8, 8]))
    >>> flat = LCAPrior(np.eye(1), lam=0.0, b_shape=0.0, b_rate=0.0)
    >>> found = lca.certificate(lca.fit(pairs, flat).params, lca.prepare(pairs))
    >>> bool(abs(found.largest) < 1e-6), bool(found.stationarity < 1e-6)
    (True, True)
    """
    row = rows(params, stats)
    W = row["W"]
    wr = stats.w * np.where(stats.same, 1.0, -row["nu"])
    pull = 0.5 * stats.T_same
    Gamma = -0.5 * (row["delta"] * wr[:, None]).T @ row["delta"] - pull
    norm = np.linalg.norm(0.5 * stats.T, 2)
    return Certificate(
        np.linalg.eigvalsh(Gamma)[-1] / norm, np.max(np.abs(Gamma @ W.T)) / norm
    )


def generalised_rate(
    params: LCAParams,
    pairs: Pairs,
    prior: LCAPrior,
    learning_rate: Float[Array, ""] | float,
) -> float:
    """Return η_G, the learning rate that the scores of *points* ask for.

    Pairs that share a point are not independent. With I the expected information of
    the pairs, U_i the summed scores of the pairs touching point i, J = Σ U_iU_iᵀ and
    H = I + prior precision/η,

        η_G = tr(H⁻¹ I) / tr(H⁻¹ J).

    It is for pairs that share points. A pair's score counts at both of its points, so
    that pairs that share none get ½, not the 1 that is right for them.

    Parameters
    ----------
    params : LCAParams
        The fit at ``learning_rate``.
    pairs : Pairs
        Labelled pairs, with their data weights.
    prior : LCAPrior
    learning_rate : float
        η of that fit, of the order of n/N.

    Returns
    -------
    float

    Examples
    --------
    Pairs that share no point, and the three pairs of three points, of which each counts
    in two, all at P(same) = 1/2:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import lca
    >>> from probmetric.models.lca import LCAParams, LCAPrior
    >>> params, X = LCAParams(np.eye(1), np.log(1.5)), np.zeros((4, 1))
    >>> apart = Pairs(X, np.array([0, 2]), np.array([1, 3]), np.array([1, 1]))
    >>> i, j, y = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1, 1, 1])
    >>> both = apart, Pairs(X, i, j, y)
    >>> prior = LCAPrior(np.eye(1))
    >>> [round(float(lca.generalised_rate(params, p, prior, 1.0)), 3) for p in both]
    [0.5, 0.25]
    """
    pairs = as_labels(pairs)
    with one_blas_thread(np.size(params.W)):
        row = rows(params, pairs)
        w = host_weights(pairs)
        information = (row["slope"] * (w * row["nu"])[:, None]).T @ row["slope"]
        r = np.where(np.asarray(pairs.y) == 1, 1.0, -row["nu"])
        score = -(w * r)[:, None] * row["slope"]
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
    """Return the approximate log evidence of λ up to a constant, for choosing λ.

    Laplace's approximation with the (W, W) block of ``learning_rate`` · I replaced by
    its Kronecker form A ⊗ B, A = Σ wν ggᵀ/(τ⁴ Σwν), B = Σ wν δδᵀ:

        log p(θ̂, y) + ½ pd log 2π - ½ Σ log(α_k β_l + λ/c²),

    which costs p³ + d³ instead of (pd)³. The form is crude where ‖g‖ and ‖δ‖ go
    together (tens of nats too high on some data), and the scale of a tempered
    likelihood is a convention: cross-validation is the principled choice of λ.

    Parameters
    ----------
    params : LCAParams
        The mode.
    pairs : Pairs
        Labelled pairs.
    log_joint : float
        Its log joint density: ``Fit.objective``.
    prior : LCAPrior
        With lam > 0.
    learning_rate : float

    Returns
    -------
    float
        Natural log.

    Examples
    --------
    Judgments that agree with the centre of the prior ask for a strong one:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import lca
    >>> from probmetric.models.lca import LCAPrior
    >>> X, i, j = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0]), np.array([1, 2])
    >>> pairs = Pairs(X, i, j, y=np.array([4, 1]), trials=np.array([8, 8]))
    >>> for lam in (1.0, 10.0, 100.0):
    ...     prior = LCAPrior(np.array([[1.2]]), lam=lam)
    ...     fit = lca.fit(pairs, prior)
    ...     found = lca.log_evidence(fit.params, pairs, fit.objective, prior, 1.0)
    ...     print(round(float(found), 1))
    -4.4
    -3.8
    -3.7
    """
    pairs = as_labels(pairs)
    row = rows(params, pairs)
    wnu = learning_rate * host_weights(pairs) * row["nu"]
    A = (row["g"] * wnu[:, None]).T @ row["g"] / (row["eta"] ** 2 * np.sum(wnu))
    B = (row["delta"] * wnu[:, None]).T @ row["delta"]
    h = np.linalg.eigvalsh(A)[:, None] * np.linalg.eigvalsh(B)[None, :]
    shrunk = np.maximum(h, 0) + prior.lam / np.asarray(prior.width) ** 2
    return (
        log_joint
        + 0.5 * params.W.size * np.log(2 * np.pi)
        - 0.5 * np.sum(np.log(shrunk))
    )
