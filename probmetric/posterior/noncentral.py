"""Limits for the length of a vector from a noisy estimate.

An estimate v = μ + e of a vector in R^p, Cov(e) = Σ, is too long on average: E‖v‖² =
‖μ‖² + tr Σ. Quantiles of draws of ‖v + e'‖ add the noise a second time; limits for ‖μ‖
invert its distribution instead. With u = v/‖v‖, σ² = uᵀΣu along it and λ_k the
eigenvalues of (I - uuᵀ)Σ(I - uuᵀ) across it, the squared length at a true length x is

    Q(x) = (x + σ Z)² + Σ_k λ_k Z_k²,      G(x) = P(Q(x) ≤ ‖v‖²),                  (1)

a noncentral chi-square for equal variances; G decreases in x. With a = (1 - prob)/2

    lower: G(x) = 1 - a, 0 if there is none         upper: G(x) = a G(0).          (2)

Without G(0) the upper limit would not exist for estimates shorter than the noise, and
the limits would be [0, 0]. Division by G(0) ("CLs") prevents this for every true
length; it can only lengthen the interval, and changes nothing if the estimate is far
from zero.

G is computed as E[Φ((r - x)/σ) - Φ((-r - x)/σ)], r² = ‖v‖² - Σ_k λ_k Z_k² if that is
≥ 0, the mean over ``N_NODES`` fixed quasi-random normals Z_k: deterministic, smooth in
x, exact at p = 1. If ‖v‖² is below the noise, they come from the exponentially tilted
distribution with weights, which gives G(0) a small *relative* error. Tilted noise has
the mean m/(m + 3) of ‖v‖², with m = (Σλ)²/Σλ², and at least half of it: the mean of
noise of m equal variances given Q(0) ≤ ‖v‖².

References
----------
Read, "Presentation of search results: the CLs technique", J. Phys. G 28 (2002).
"""

from functools import cache

import numpy as np
from jaxtyping import Float
from scipy import special

from probmetric.arguments import check_within_0_1

N_NODES = 256
N_HALVINGS = 28


@cache
def _squared_normals(p: int) -> np.ndarray:
    from scipy.stats import qmc

    return special.ndtri(qmc.Sobol(p, rng=1).random(N_NODES)) ** 2


def _tilt(lam: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Solve Σ λ/(1 - 2tλ) = ``wanted``, the mean of tilted noise, for t ≤ 0 (or 0)."""
    high = lam.sum(1)
    low, up = np.zeros(len(lam)), lam.shape[1] / (2 * np.maximum(wanted, 1e-300))
    for _ in range(40):  # The mean falls in s = -t and is ≤ p/(2s).
        s = (low + up) / 2
        above = (lam / (1 + 2 * s[:, None] * lam)).sum(1) > wanted
        low, up = np.where(above, s, low), np.where(above, up, s)
    return np.where(high > wanted, -up, 0.0)


def distance_limits(
    v: Float[np.ndarray, "m p"],
    covariance: Float[np.ndarray, "m p p"],
    prob: float = 0.9,
) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
    """Compute limits for the lengths of vectors estimated by the rows of v, Eq. (2).

    The rows of v are approximately normal around the vectors. Multiply a covariance
    estimated from n values by (t/z)², the quantiles of t with n - 1 degrees of freedom
    and of the normal. Noise along u and across it is assumed to be uncorrelated. 0 ≤
    lower ≤ ‖v‖ ≤ upper, with equality for covariance 0.
    """
    check_within_0_1(prob=prob)
    a = (1 - prob) / 2
    length = np.linalg.norm(v, axis=1)
    unit = np.sqrt(length**2 + np.trace(covariance, axis1=1, axis2=2))
    unit = np.where(unit > 0, unit, 1.0)
    size, S = length / unit, covariance / unit[:, None, None] ** 2
    u = v / np.where(length > 0, length, 1.0)[:, None]
    if (length == 0).any():  # Use the direction of largest noise.
        u = np.where(length[:, None] > 0, u, np.linalg.eigh(S)[1][:, :, -1])
    sd = np.sqrt(np.maximum(np.einsum("mp,mpq,mq->m", u, S, u), 1e-24))
    across = np.eye(v.shape[1]) - u[:, :, None] * u[:, None]
    lam = np.maximum(np.linalg.eigvalsh(across @ S @ across), 0.0)
    D = np.maximum(size**2, 1e-12)

    even = lam.sum(1) ** 2 / np.maximum((lam**2).sum(1), 1e-300)
    t = _tilt(lam, D * np.maximum(0.5, even / (even + 3)))[:, None]
    shrunk = 1 / (1 - 2 * t * lam)
    noise = (lam * shrunk) @ _squared_normals(v.shape[1]).T
    weight = np.exp(-t * noise + 0.5 * np.log(shrunk).sum(1)[:, None])
    weight = np.where(noise <= D[:, None], weight, 0.0) / N_NODES
    r = np.sqrt(np.maximum(D[:, None] - noise, 0.0))

    def G(x: np.ndarray) -> np.ndarray:
        above, below = (r - x[:, None]) / sd[:, None], (-r - x[:, None]) / sd[:, None]
        return np.sum(weight * (special.ndtr(above) - special.ndtr(below)), 1)

    def solve(level: np.ndarray) -> np.ndarray:
        low, high = np.zeros(len(v)), size + 9 * sd
        for _ in range(N_HALVINGS):
            x = (low + high) / 2
            before = G(x) >= level
            low, high = np.where(before, x, low), np.where(before, high, x)
        return low

    at_zero = G(np.zeros(len(v)))
    lower = np.where(at_zero < 1 - a, 0.0, solve(np.full(len(v), 1 - a)))
    upper = solve(a * at_zero)
    no_noise = np.trace(S, axis1=1, axis2=2) == 0
    lower, upper = (np.where(no_noise, size, end) for end in (lower, upper))
    return np.minimum(lower * unit, length), np.maximum(upper * unit, length)
