"""Compare EQ-2 of the paper and the posterior of x with the trapezoid rule over x.

x is the representative of a source. Only the first two features are used, which follow
a two-stage mixture with the leading blocks of W and B. For a normal integrand the rule
is exact to rounding if its step is below the standard deviation of the integrand.
"""

import numpy as np
from scipy.stats import multivariate_normal as normal

from probmetric.checks.check import Problem, Values, by_quadrature
from probmetric.data.containers import Groups
from probmetric.inference.mixture.statistics import MixtureParams
from probmetric.inference.two_stage.pairs import log_joint_small_alpha, representative
from probmetric.models.two_stage import TwoStageParams, to_metric
from probmetric.typing import ArrayLike

N_PAIRS = 4
REACH = 9.0
"""The grid ends 9 sd of B from μ_k and the points. The mass beyond is about 1e-18."""


def leading(params: TwoStageParams) -> TwoStageParams:
    """Return the marginal model of the first two features."""
    c, mu, W, B = (np.asarray(a) for a in params)
    return TwoStageParams(c, mu[:, :2], W[:, :2, :2], B[:, :2, :2])


def some_pairs(problem: Problem[Groups]) -> tuple[np.ndarray, np.ndarray]:
    """Pair the first points of the problem, first two features."""
    X = np.asarray(problem.data.X, float)[:, :2]
    return X[:N_PAIRS], X[N_PAIRS : 2 * N_PAIRS]


def integral_reference(problem: Problem[Groups]) -> Values:
    """Integrate x out on a grid: joint, P(k | Q, Y), mean and covariance of x."""
    c, mu, W, B = (np.asarray(a) for a in leading(problem.params))
    Q, Y = some_pairs(problem)
    mass = np.zeros((len(Q), len(c)))
    d = mu.shape[1]
    mean, cov = np.zeros((*mass.shape, d)), np.zeros((*mass.shape, d, d))
    for k in range(len(c)):
        L = np.linalg.cholesky(B[k])
        ratio = np.linalg.eigvalsh(np.linalg.solve(L, np.linalg.solve(L, W[k]).T))
        step = min(0.5 * float(np.sqrt(ratio[0] / (2 + ratio[0]))), 0.2)
        # Given k and points far from μ_k, x is far from it as well.
        points = np.linalg.solve(L, (np.concatenate([Q, Y]) - mu[k]).T).T
        low, high = points.min(0).clip(max=0) - REACH, points.max(0).clip(min=0) + REACH
        axes = [np.arange(a, b, step) for a, b in zip(low, high, strict=True)]
        t = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, d)
        x = mu[k] + t @ L.T
        cell = step**d * np.prod(np.diag(L))
        prior = normal.logpdf(x, mu[k], B[k]) + np.log(c[k])
        for n in range(len(Q)):
            log_f = prior + sum(normal.logpdf(x, p[n], W[k]) for p in (Q, Y))
            f = np.exp(log_f) * cell
            mass[n, k] = f.sum()
            mean[n, k] = f @ x / mass[n, k]
            off = x - mean[n, k]
            cov[n, k] = (off * f[:, None]).T @ off / mass[n, k]
    joint = mass.sum(1)
    return {
        "log Pr(Q, Y)": np.log(joint),
        "P(k | Q, Y)": mass / joint[:, None],
        "E[x | Q, Y, k]": mean,
        "Cov[x | Q, Y, k]": cov,
    }


def integral_estimate(problem: Problem[Groups]) -> Values:
    """Return the values of ``integral_reference`` by the closed forms."""
    params = leading(problem.params)
    Q, Y = some_pairs(problem)
    parts = [representative(params, np.stack(pair)) for pair in zip(Q, Y, strict=True)]
    return {
        "log Pr(Q, Y)": to_metric(params).log_joint(Q, Y),
        "P(k | Q, Y)": np.stack([np.exp(p.log_component) for p in parts]),
        "E[x | Q, Y, k]": np.stack([p.mean for p in parts]),
        "Cov[x | Q, Y, k]": np.stack([p.covariance for p in parts]),
    }


def _with(problem: Problem[Groups], **wrong: ArrayLike) -> Values:
    return {**integral_estimate(problem), **wrong}


def eq3_for_eq2(problem: Problem[Groups]) -> Values:
    """Negative control: use the covariance of EQ-3 for the mean of Q and Y."""
    c, mu, W, B = leading(problem.params)
    S = W + B
    share = np.trace(np.linalg.solve(S, W), axis1=1, axis2=2).mean() / mu.shape[1]
    mixture = MixtureParams(c, mu, S)
    joint = log_joint_small_alpha(mixture, float(share), *some_pairs(problem))
    return _with(problem, **{"log Pr(Q, Y)": joint})


def printed_constant(problem: Problem[Groups]) -> Values:
    """Use the printed η (erratum Y3): larger by α^{-d} (1-α)^{-d/2}."""
    right = integral_estimate(problem)
    _, mu, W, B = leading(problem.params)
    d = mu.shape[1]
    a = np.trace(np.linalg.solve(W + B, W), axis1=1, axis2=2).mean() / d
    extra = -d * np.log(a) - d / 2 * np.log1p(-a)
    return _with(problem, **{"log Pr(Q, Y)": right["log Pr(Q, Y)"] + extra})


def one_instance(problem: Problem[Groups]) -> Values:
    """Use the covariance for one instance instead of two."""
    params = leading(problem.params)
    cov = [representative(params, q[None]).covariance for q in some_pairs(problem)[0]]
    return _with(problem, **{"Cov[x | Q, Y, k]": np.stack(cov)})


CHECKS = (
    by_quadrature(
        "EQ-2 and the posterior of the representative are integrals over it",
        reference=integral_reference,
        estimate=integral_estimate,
        controls={
            "EQ-3 instead of EQ-2": eq3_for_eq2,
            "the printed constant (erratum Y3)": printed_constant,
            "posterior for one instance": one_instance,
        },
    ),
)
