"""References independent of the package: loops and full matrices, slow and plain."""

import numpy as np


def lca_log_likelihood(pairs, W, sigma2, kappa2=1.0):
    """LCA's log likelihood, pair by pair in plain Python."""
    total, p = 0.0, len(W)
    for n, (i, j, y) in enumerate(zip(pairs.i, pairs.j, pairs.y, strict=True)):
        g = W @ (pairs.X[i] - pairs.X[j])
        eta = kappa2 + 2 * sigma2
        P1 = (kappa2 / eta) ** (p / 2) * np.exp(-g @ g / (2 * eta))
        weight = 1.0 if pairs.w is None else pairs.w[n]
        total += weight * np.log(P1 if y == 1 else 1 - P1)
    return total


def lca_em_step(pairs, W, sigma2, kappa2=1.0):
    """One EM step of LCA from every pair's latent moments and one regression."""
    p, d = W.shape
    eta = kappa2 + 2 * sigma2
    s = sigma2 / eta
    inputs, targets, variance, rows = [], [], 0.0, []
    for n, (i, j, y) in enumerate(zip(pairs.i, pairs.j, pairs.y, strict=True)):
        x, x2 = pairs.X[i], pairs.X[j]
        mean = np.concatenate([W @ x, W @ x2])
        prior = sigma2 * np.eye(2 * p)
        # The coincidence factor as a precision on (z, z'), conditioned by brute force.
        pull = np.kron(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.eye(p)) / kappa2
        cov1 = np.linalg.inv(np.linalg.inv(prior) + pull)
        mean1 = cov1 @ np.linalg.solve(prior, mean)
        g = W @ (x - x2)
        P1 = (kappa2 / eta) ** (p / 2) * np.exp(-g @ g / (2 * eta))
        if y == 1:
            m, C = mean1, cov1
        else:  # prior = P1 · posterior(y=1) + P0 · posterior(y=0)
            m = (mean - P1 * mean1) / (1 - P1)
            second = prior + np.outer(mean, mean)
            second1 = cov1 + np.outer(mean1, mean1)
            C = (second - P1 * second1) / (1 - P1) - np.outer(m, m)
        weight = 1.0 if pairs.w is None else pairs.w[n]
        for half, point in ((slice(0, p), x), (slice(p, 2 * p), x2)):
            inputs.append(np.sqrt(weight) * point)
            targets.append(np.sqrt(weight) * m[half])
            variance += weight * np.trace(C[half, half])
            rows.append(weight)
    A, B = np.array(inputs), np.array(targets)
    new = np.linalg.lstsq(A, B, rcond=None)[0].T
    residual = np.sum((B - A @ new.T) ** 2)
    return new, (residual + variance) / (p * sum(rows))
