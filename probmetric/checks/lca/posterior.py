"""LCA's integrals against one-dimensional quadrature of what defines them.

Controls are the errors people make: the seed's variance (erratum 1), a wrong link
scale, a forgotten determinant, a flipped sign.
"""

from typing import Any

import numpy as np

from probmetric.checks.check import Check, Problem
from probmetric.data.containers import Pairs
from probmetric.inference.lca.latent import odds, pair_posterior
from probmetric.models.lca import coincidence_exponent, log1mexp

__all__ = ["CHECKS", "some_pairs"]

N_PAIRS = 6
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(200)


def some_pairs(problem: Problem, n: int = N_PAIRS) -> Pairs:
    """Choose n pairs spread over the quantiles of ‖Wδ‖², near ones first."""
    pairs: Any = problem.data
    W = np.asarray(problem.params.W)
    D = np.sum(((pairs.X[pairs.i] - pairs.X[pairs.j]) @ W.T) ** 2, 1)
    used = np.flatnonzero(np.ones(len(D)) if pairs.w is None else pairs.w)
    order = used[np.argsort(D[used], kind="stable")]
    near = order[: max(n, int(0.9 * len(order)))]
    chosen = near[np.linspace(0, len(near) - 1, n).astype(int)]
    return Pairs(
        np.asarray(pairs.X),
        np.asarray(pairs.i)[chosen],
        np.asarray(pairs.j)[chosen],
        np.asarray(pairs.y)[chosen],
    )


def _sigma2(problem: Problem) -> float:
    return float(np.exp(problem.params.log_sigma2))


def _kernel_moments(centre: float, sigma2: float) -> list[float]:
    """Return ∫ u^k e^{-u²/2} N(u; centre, 2σ²) du for k = 0, 1, 2, numerically.

    Gauss-Legendre on 14 widths either side of the peak: exact to rounding for a
    Gaussian times a polynomial, and it knows nothing of completing squares.
    """
    peak = centre / (1 + 2 * sigma2)
    width = np.sqrt(2 * sigma2 / (1 + 2 * sigma2))
    u, weight = peak + 14 * width * NODES, 14 * width * NODE_WEIGHTS
    density = np.exp(-0.25 * (u - centre) ** 2 / sigma2) / np.sqrt(4 * np.pi * sigma2)
    integrand = weight * np.exp(-0.5 * u**2) * density
    return [float(np.sum(u**k * integrand)) for k in range(3)]


def _by_quadrature(problem: Problem) -> tuple[Any, ...]:
    """Return pairs, g and, per pair, P1 and the y = 1 moments of u = z - z'.

    Along ĝ = g/‖g‖ and across it the defining integral factorises into integrals in
    one dimension, each done numerically.
    """
    pairs, W, sigma2 = some_pairs(problem), problem.params.W, _sigma2(problem)
    g = (pairs.X[pairs.i] - pairs.X[pairs.j]) @ np.asarray(W).T
    p = g.shape[1]
    across = _kernel_moments(0.0, sigma2)
    along = [_kernel_moments(float(np.linalg.norm(v)), sigma2) for v in g]
    P1 = np.array([a[0] * across[0] ** (p - 1) for a in along])
    mean1 = np.array([a[1] / a[0] for a in along])
    square1 = np.array([a[2] / a[0] for a in along])
    return pairs, g, P1, mean1, square1, across[2] / across[0]


def probability_reference(problem: Problem) -> dict[str, Any]:
    """Integrate log P(y) of either label by quadrature."""
    P1 = _by_quadrature(problem)[2]
    return {"log P(y=1)": np.log(P1), "log P(y=0)": np.log1p(-P1)}


def _probability(problem: Problem, eta_noise: float, determinant: bool) -> Any:
    pairs, sigma2 = some_pairs(problem), _sigma2(problem)
    W = np.asarray(problem.params.W)
    D = np.sum(((pairs.X[pairs.i] - pairs.X[pairs.j]) @ W.T) ** 2, 1)
    noise = eta_noise * sigma2 / 2
    t = np.asarray(coincidence_exponent(D, noise, 1.0, len(W) if determinant else 0))
    return {"log P(y=1)": -t, "log P(y=0)": np.asarray(log1mexp(t))}


def posterior_reference(problem: Problem) -> dict[str, Any]:
    """Integrate mean and covariance of (z, z') under either label by quadrature.

    (z + z')/2 is independent of u and of y; given y = 0 the moments are those of the
    prior less P1 times those given y = 1, over P0.
    """
    pairs, g, P1, mean1, square1, across1 = _by_quadrature(problem)
    sigma2, W = _sigma2(problem), np.asarray(problem.params.W)
    p = g.shape[1]
    middle = 0.5 * (pairs.X[pairs.i] + pairs.X[pairs.j]) @ W.T
    norm = np.linalg.norm(g, axis=1)
    unit = g / np.where(norm == 0, 1, norm)[:, None]
    result: dict[str, Any] = {}
    for y in (1, 0):
        if y == 1:
            mean, square, across = mean1, square1, np.full(len(g), across1)
        else:
            P0 = 1 - P1
            mean = (norm - P1 * mean1) / P0
            square = (norm**2 + 2 * sigma2 - P1 * square1) / P0
            across = (2 * sigma2 - P1 * across1) / P0
        project_on = unit[:, :, None] * unit[:, None, :]
        variance = square - mean**2
        cov_u = (
            across[:, None, None] * np.eye(p)
            + project_on * ((variance - across)[:, None, None])
        )
        own = 0.5 * sigma2 * np.eye(p) + cov_u / 4
        other = 0.5 * sigma2 * np.eye(p) - cov_u / 4
        half = 0.5 * mean[:, None] * unit
        result[f"E[z, z' | y={y}]"] = np.concatenate([middle + half, middle - half], 1)
        result[f"Cov[z, z' | y={y}]"] = np.block([[own, other], [other, own]])
    return result


def posterior_estimate(problem: Problem) -> dict[str, Any]:
    """Mean and covariance of (z, z') in closed form."""
    pairs = some_pairs(problem)
    result: dict[str, Any] = {}
    for y in (1, 0):
        found = pair_posterior(
            pairs.X[pairs.i],
            pairs.X[pairs.j],
            np.full(len(pairs.i), y),
            np.asarray(problem.params.W),
            _sigma2(problem),
        )
        result[f"E[z, z' | y={y}]"] = found.mean
        result[f"Cov[z, z' | y={y}]"] = found.cov
    return result


def posterior_with_the_seeds_variance(problem: Problem) -> dict[str, Any]:
    """Leave out R: the y = 0 variance of seed 000 (erratum 1)."""
    result = posterior_estimate(problem)
    pairs, sigma2 = some_pairs(problem), _sigma2(problem)
    W = np.asarray(problem.params.W)
    g = (pairs.X[pairs.i] - pairs.X[pairs.j]) @ W.T
    p, s = len(W), sigma2 / (1 + 2 * sigma2)
    t = coincidence_exponent(np.sum(g**2, 1), sigma2, 1.0, p)
    R = (np.asarray(odds(t)[1]) * s**2)[:, None, None] * (g[:, :, None] * g[:, None, :])
    result["Cov[z, z' | y=0]"] = result["Cov[z, z' | y=0]"] - np.block(
        [[-R, R], [R, -R]]
    )
    return result


def posterior_with_a_flipped_sign(problem: Problem) -> dict[str, Any]:
    """Pull the latent pair of a y = 0 pair together, not apart."""
    result = posterior_estimate(problem)
    pairs, W = some_pairs(problem), np.asarray(problem.params.W)
    prior = np.concatenate([pairs.X[pairs.i] @ W.T, pairs.X[pairs.j] @ W.T], 1)
    result["E[z, z' | y=0]"] = 2 * prior - result["E[z, z' | y=0]"]
    return result


CHECKS: tuple[Check, ...] = (
    Check(
        "P(y | x, x') is the integral over (z, z')",
        "exact",
        probability_reference,
        lambda problem: _probability(problem, 2.0, True),
        {
            "η = κ² + σ²": lambda problem: _probability(problem, 1.0, True),
            "no determinant": lambda problem: _probability(problem, 2.0, False),
        },
        rtol=1e-9,
        layer="quadrature",
    ),
    Check(
        "posterior of (z, z') is exact for either label",
        "exact",
        posterior_reference,
        posterior_estimate,
        {
            "the seed's y=0 variance (erratum 1)": posterior_with_the_seeds_variance,
            "y=0 pulls together": posterior_with_a_flipped_sign,
        },
        rtol=1e-9,
        layer="quadrature",
    ),
)
