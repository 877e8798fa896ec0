"""Second derivatives of triplet comparisons: the Hessian, a certificate of the mode.

With g_ik = ½ ∂D_ik/∂W = Wδ_ik δ_ikᵀ, r_ik and a_i of Eqs. (2), (3) of
``triplet_comparisons.likelihood``, e_ik = P_i(k) - [y_i = k] and

    C_i = ηw_i (a_i (diag P_i - P_i P_iᵀ) - a_i (1 - a_i) e_i e_iᵀ),                (1)

minus the Hessian in vec W, row by row, is

    H = 4 Σ_ikl C_ikl vec g_ik vec g_ilᵀ - I ⊗ 2 Σ_ik r_ik δ_ik δ_ikᵀ + τI.          (2)

because ∂a/∂ log P = a (1 - a). Raters who differ add rows and columns for log s_r. With
√s_r δ instead of δ, and t_ik = s_r D_ik, their entries are sums over the responses i of
r:

    Σ_ikl 2C_ikl t_il vec g_ik - 2 Σ_ik r_ik vec g_ik    and
    Σ_ikl C_ikl t_ik t_il - Σ_ik r_ik t_ik.                                        (5)

The entries for z follow from log s = ωBz, and the prior of z adds I. A learned lapse
rate adds a row and a column for u. With v_i = ηw_i a_i (1 - a_i) and ∂a/∂u = -a (1 -
a), the entries for W and u are

    2W Σ_ik v_i e_ik δ_ik δ_ikᵀ    and    ε (1 - ε) (Σ_i ηw_i + α + β) - Σ_i v_i,    (4)

and Σ_ik v_i e_ik t_ik for log s_r. The rows of C_i sum to 0. The sums therefore run
over k, l ≥ 1 with g_ik - g_i0 instead of g_ik.

The certificate of a mode is the gap in nats between the maximum of the local quadratic
model and the value of the log density. With the gradient g and a positive definite H,
the gap is

    ½ gᵀH⁻¹g.                                                                      (3)

Under a prior centered at 0 the density is constant along the rotations of W, so g and H
are 0 in these directions. H is then restricted to the orthogonal directions
(``inference.rotations``).
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float
from scipy.special import expit, log_softmax

from probmetric.data.containers import Triplets
from probmetric.inference.rotations import inverse_root, root_across
from probmetric.inference.triplet_comparisons.likelihood import value_and_gradient
from probmetric.inference.triplet_comparisons.start import as_arrays
from probmetric.inference.triplet_comparisons.statistics import Differences, differences
from probmetric.models.triplet_comparisons import (
    TripletParams,
    TripletPrior,
    contrasts,
)
from probmetric.precision import native_arrays
from probmetric.typing import Array

MAX_PARAMETERS = 10_000
"""Largest p·d for second derivatives; their matrices need 800 MB."""

BLOCK_ENTRIES = 1 << 22
"""Number of entries of g_i that the Hessian processes at once (32 MiB)."""


def hessian(
    params: TripletParams, data: Differences, prior: TripletPrior
) -> Float[np.ndarray, "q q"]:
    """Compute minus the Hessian of the log joint density (Eqs. 2, 4, 5), in blocks."""
    W = np.asarray(params.W)
    with jax.enable_x64(W.dtype == np.float64):
        delta = np.asarray(data.sharpened(prior))
    d, pd, mapped = delta.shape[-1], W.size, delta @ W.T
    t = np.sum(mapped**2, -1)
    log_p = log_softmax(-t, -1)
    p = np.exp(log_p)
    n, n_alternatives = p.shape
    with np.errstate(divide="ignore"):  # Without lapses, log 0.
        log_lapse = np.log(data.lapse / n_alternatives)
    a = expit(log_p[np.arange(n), data.y] + np.log1p(-data.lapse) - log_lapse)
    e = p - np.eye(n_alternatives)[data.y]
    r = (data.w * a)[:, None] * e
    C = p[:, 1:, None] * (np.eye(n_alternatives - 1) - p[:, None, 1:])
    C = C - (1 - a)[:, None, None] * e[:, 1:, None] * e[:, None, 1:]
    C = 4 * (data.w * a)[:, None, None] * C  # 4 times Eq. (1)
    flat = delta.reshape(-1, d)
    pull = (flat * r.reshape(-1, 1)).T @ flat
    tau = float(prior.lam) / float(prior.c) ** 2
    block = np.asarray(tau * np.eye(d, dtype=W.dtype) - 2 * pull)
    spread = np.zeros(0) if prior.spread is None else np.asarray(prior.spread)
    raters = np.arange(len(spread))
    of = np.zeros((n, 0)) if data.rater is None else data.rater[:, None] == raters
    H = np.zeros((pd + len(spread),) * 2, block.dtype)
    for row in range(0, pd, d):
        H[row : row + d, row : row + d] = block
    size = max(1, BLOCK_ENTRIES // len(H))
    for start in range(0, n, size):
        at = slice(start, start + size)
        g = (mapped[at, ..., None] * delta[at, :, None]).reshape(*t[at].shape, pd)
        in_s = (0.5 * t[at, :, None]) * of[at, None]
        mixed = of[at].T @ np.einsum("nk,nkq->nq", r[at], g)
        H[pd:, :pd] -= 2 * mixed
        H[:pd, pd:] -= 2 * mixed.T
        J = np.concatenate([g, in_s], -1)
        J = J[:, :1] - J[:, 1:]
        H += J.reshape(-1, len(H)).T @ (C[at] @ J).reshape(-1, len(H))
    v = data.w * a * (1 - a)
    edge = (2 * W @ (flat * (v[:, None] * e).reshape(-1, 1)).T @ flat).ravel()
    if prior.spread is not None:  # Eq. (5), from log s to z.
        H[pd + raters, pd + raters] -= of.T @ np.sum(r * t, -1)
        B = spread[:, None] * contrasts(len(spread))
        edge = np.append(edge, B.T @ (of.T @ (v * np.sum(e * t, -1))))
        T = np.asarray(scipy.linalg.block_diag(np.eye(pd), B))
        of_prior = np.diag(np.repeat([0.0, 1.0], [pd, len(B.T)]))
        H = (T.T @ H @ T + of_prior).astype(H.dtype)
    if prior.lapse is None:
        return H
    total = np.sum(data.w) + sum(prior.lapse)
    alone = data.lapse * (1 - data.lapse) * total - np.sum(v)  # Eq. (4)
    return np.block([[H, edge[:, None]], [edge[None], alone]])


@native_arrays
def gap(
    params: TripletParams,
    triplets: Triplets,
    prior: TripletPrior,
    *,
    learning_rate: float = 1.0,
    lapse_rate: float = 0.0,
) -> float:
    """Estimate how far the log density is below its local maximum, Eq. (3), in nats.

    ``params`` is the result of a fit, and the other arguments are the arguments of
    ``fit``. The result is ∞ if minus the Hessian is not positive definite, so the
    fit is not a mode. The result is NaN if W has more than ``MAX_PARAMETERS`` entries
    (cost (pd)³).
    """
    W = np.asarray(params.W)
    z = prior.effects(params.sharpness)
    data = differences(triplets, learning_rate, params.rate(lapse_rate), z)
    if W.size > MAX_PARAMETERS:
        return np.nan
    prior = as_arrays(prior, W.dtype)
    with jax.enable_x64(W.dtype == np.float64):
        slope = np.asarray(_slope(W, data, prior))
    H = hessian(params, data, prior)
    try:
        root = inverse_root(H) if np.any(prior.mean) else root_across(H, W)
    except ValueError:
        return np.inf
    return float(0.5 * np.sum((root.T @ slope) ** 2))


@jax.jit
def _slope(W: Array, data: Differences, prior: TripletPrior) -> Array:
    _, in_W, in_effects = value_and_gradient(W, data, prior)
    return jnp.append(in_W.ravel(), in_effects)
