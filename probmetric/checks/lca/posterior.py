"""LCA's integrals compared with one-dimensional quadrature.

Controls are common errors: the seed's variance (erratum 1), a wrong link scale, a
missing determinant, a flipped sign.
"""

from functools import partial
from typing import Any

import numpy as np

from probmetric.checks.check import Problem, Values, by_quadrature
from probmetric.data.containers import Pairs, weights
from probmetric.inference.lca.latent import odds, pair_posterior
from probmetric.models.lca import coincidence_exponent, log1mexp, to_metric

N_PAIRS = 6
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(200)


def some_pairs(problem: Problem[Pairs], n: int = N_PAIRS) -> Pairs:
    """Choose n pairs spread over the quantiles of ‖Wδ‖², near ones first."""
    pairs = problem.data
    D = np.sum(differences(problem, pairs) ** 2, 1)
    used = np.flatnonzero(weights(pairs))
    order = used[np.argsort(D[used], kind="stable")]
    near = order[: max(n, int(0.9 * len(order)))]
    chosen = near[np.linspace(0, len(near) - 1, n).astype(int)]
    i, j, y = (np.asarray(rows)[chosen] for rows in (pairs.i, pairs.j, pairs.y))
    return Pairs(np.asarray(pairs.X), i, j, y)


def differences(problem: Problem[Pairs], pairs: Pairs) -> np.ndarray:
    """Return g = Wδ of each pair."""
    delta = np.asarray(pairs.X[pairs.i] - pairs.X[pairs.j])
    return delta @ np.asarray(problem.params.W).T


def directions(g: np.ndarray) -> np.ndarray:
    """Return g / ‖g‖ of each pair, and 0 if g = 0."""
    norm = np.linalg.norm(g, axis=1, keepdims=True)
    return g / np.where(norm == 0, 1, norm)


def _sigma2(problem: Problem[Pairs]) -> float:
    return float(np.exp(problem.params.log_sigma2))


def _kernel_moments(center: float, sigma2: float) -> list[float]:
    """Return ∫ u^k e^{-u²/2} N(u; center, 2σ²) du for k = 0, 1, 2, by quadrature."""
    peak = center / (1 + 2 * sigma2)
    width = np.sqrt(2 * sigma2 / (1 + 2 * sigma2))
    u, weight = peak + 14 * width * NODES, 14 * width * NODE_WEIGHTS
    density = np.exp(-0.25 * (u - center) ** 2 / sigma2) / np.sqrt(4 * np.pi * sigma2)
    integrand = weight * np.exp(-0.5 * u**2) * density
    return [float(np.sum(u**k * integrand)) for k in range(3)]


def _by_quadrature(problem: Problem[Pairs]) -> tuple[np.ndarray, ...]:
    """Return P1 and, given y = 1, moments of u = z - z' of each pair."""
    sigma2, g = _sigma2(problem), differences(problem, some_pairs(problem))
    across = _kernel_moments(0.0, sigma2)
    norms = np.linalg.norm(g, axis=1)
    along = np.array([_kernel_moments(float(norm), sigma2) for norm in norms])
    P1 = along[:, 0] * across[0] ** (g.shape[1] - 1)
    mean, square = along[:, 1:].T / along[:, 0]
    return P1, mean, square, np.full(len(g), across[2] / across[0])


def probability_reference(problem: Problem[Pairs]) -> Values:
    """Integrate P(y) of either label by quadrature."""
    P1 = _by_quadrature(problem)[0]
    logs = {"log P(y=1)": np.log(P1), "log P(y=0)": np.log1p(-P1)}
    return {**logs, "P(same) of the metric": P1}


def _probability(
    problem: Problem[Pairs], eta_noise: float = 2.0, determinant: bool = True
) -> Values:
    g, noise = differences(problem, some_pairs(problem)), _sigma2(problem) / 2
    p = g.shape[1] if determinant else 0
    t = np.asarray(coincidence_exponent(np.sum(g**2, 1), eta_noise * noise, 1.0, p))
    pairs = some_pairs(problem)
    metric = to_metric(problem.params)
    P = metric.same_probability(pairs.X[pairs.i], pairs.X[pairs.j])
    logs = {"log P(y=1)": -t, "log P(y=0)": np.asarray(log1mexp(t))}
    return {**logs, "P(same) of the metric": P}


def posterior_reference(problem: Problem[Pairs]) -> Values:
    """Integrate mean and covariance of (z, z') under either label by quadrature."""
    pairs, sigma2 = some_pairs(problem), _sigma2(problem)
    P1, *given_1 = _by_quadrature(problem)
    g, W = differences(problem, pairs), np.asarray(problem.params.W)
    norm = np.linalg.norm(g, axis=1)
    before = norm, norm**2 + 2 * sigma2, 2 * sigma2
    given_0 = [(b - P1 * m) / (1 - P1) for b, m in zip(before, given_1, strict=True)]
    middle = 0.5 * (pairs.X[pairs.i] + pairs.X[pairs.j]) @ W.T
    unit = directions(g)
    onto, eye = unit[:, :, None] * unit[:, None, :], np.eye(g.shape[1])
    result: dict[str, Any] = {}
    for y, (mean, square, across) in ((1, given_1), (0, given_0)):
        along = (square - mean**2 - across)[:, None, None] * onto
        cov_u = across[:, None, None] * eye + along
        same = 0.5 * sigma2 * eye + cov_u / 4
        other = 0.5 * sigma2 * eye - cov_u / 4
        half = 0.5 * mean[:, None] * unit
        result[f"E[z, z' | y={y}]"] = np.concatenate([middle + half, middle - half], 1)
        result[f"Cov[z, z' | y={y}]"] = np.block([[same, other], [other, same]])
    return result


def posterior_estimate(problem: Problem[Pairs]) -> dict[str, Any]:
    """Mean and covariance of (z, z') in closed form."""
    pairs = some_pairs(problem)
    result: dict[str, Any] = {}
    for y in (1, 0):
        moments = pair_posterior(
            pairs.X[pairs.i],
            pairs.X[pairs.j],
            np.full(len(pairs.i), y),
            np.asarray(problem.params.W),
            _sigma2(problem),
        )
        result[f"E[z, z' | y={y}]"] = moments.mean
        result[f"Cov[z, z' | y={y}]"] = moments.cov
    return result


def posterior_with_the_seeds_variance(problem: Problem[Pairs]) -> Values:
    """Leave out R: the y = 0 variance of seed 000 (erratum 1)."""
    result, sigma2 = posterior_estimate(problem), _sigma2(problem)
    g, s = differences(problem, some_pairs(problem)), sigma2 / (1 + 2 * sigma2)
    t = coincidence_exponent(np.sum(g**2, 1), sigma2, 1.0, g.shape[1])
    R = (np.asarray(odds(t)[1]) * s**2)[:, None, None] * (g[:, :, None] * g[:, None, :])
    right = result["Cov[z, z' | y=0]"]
    return {**result, "Cov[z, z' | y=0]": right + np.block([[R, -R], [-R, R]])}


def posterior_with_a_flipped_sign(problem: Problem[Pairs]) -> Values:
    """Pull the latent pair of a y = 0 pair together, not apart."""
    result = posterior_estimate(problem)
    pairs, W = some_pairs(problem), np.asarray(problem.params.W)
    prior = np.concatenate([pairs.X[pairs.i] @ W.T, pairs.X[pairs.j] @ W.T], 1)
    result["E[z, z' | y=0]"] = 2 * prior - result["E[z, z' | y=0]"]
    return result


CHECKS = (
    by_quadrature(
        "P(same) of the model and of the metric is the integral over (z, z')",
        reference=probability_reference,
        estimate=_probability,
        controls={
            "η = κ² + σ²": partial(_probability, eta_noise=1.0),
            "no determinant": partial(_probability, determinant=False),
        },
    ),
    by_quadrature(
        "mean and covariance of (z, z') given either label are integrals over them",
        reference=posterior_reference,
        estimate=posterior_estimate,
        controls={
            "the seed's y=0 variance (erratum 1)": posterior_with_the_seeds_variance,
            "y=0 pulls together": posterior_with_a_flipped_sign,
        },
    ),
)
