"""The checks of LDA, and problems to run them on."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from scipy.spatial.distance import pdist

from probmetric.checks.check import Check, Problem
from probmetric.data.containers import Labelled
from probmetric.inference.gaussian_classes import posterior as gaussian_classes
from probmetric.inference.lda import class_moments, fit, shrinkage_prior
from probmetric.inference.solvers.result import Fit
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.models.lda import LDAParams

__all__ = ["CHECKS", "fit_problem", "from_labels", "invariants", "toy"]


def toy(seed: int) -> Problem:
    """Simulate 60 points of 3 classes in d = 4 under a correlated covariance."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 20)
    root = np.eye(4) + 0.4 * rng.normal(size=(4, 4))
    X = 2 * rng.normal(size=(3, 4))[y] + rng.normal(size=(60, 4)) @ root.T
    prior = NIWPrior(np.zeros(4), 2 * np.eye(4), 0.1, 7.0)
    return _fitted(f"simulated, seed {seed}", Labelled(X, y), prior)


def from_labels(X: np.ndarray, y: np.ndarray, *, name: str = "data") -> Problem:
    """Fit the estimator's default to a standardised data set."""
    Z = np.asarray(X, float)
    scale = Z.std(0)
    Z = (Z - Z.mean(0)) / np.where(scale > 0, scale, 1.0)
    codes = np.unique(np.asarray(y), return_inverse=True)[1]
    return _fitted(name, Labelled(Z, codes), shrinkage_prior(np.eye(Z.shape[1]), 1.0))


def fit_problem(problem: Problem) -> Fit:
    """Fit a problem with every direction there is."""
    return fit(_labelled(problem), problem.prior)


def _fitted(name: str, data: Labelled, prior: NIWPrior) -> Problem:
    problem = Problem(name, None, data, prior)
    return problem._replace(params=fit_problem(problem).params)


def _labelled(problem: Problem) -> Labelled:
    data: Any = problem.data
    return data


def _permute(problem: Problem) -> Problem:
    data = _labelled(problem)
    order = np.random.default_rng(1).permutation(len(data.X))
    return problem._replace(data=Labelled(data.X[order], np.asarray(data.y)[order]))


def _relabel(problem: Problem) -> Problem:
    data = _labelled(problem)
    codes = np.asarray(data.y)
    return problem._replace(data=data._replace(y=codes.max() - codes))


invariants: Mapping[str, Any] = {
    "points permuted": _permute,
    "classes renumbered": _relabel,
}


def orthonormal(factor: np.ndarray) -> np.ndarray:
    """Return the notes' wrong form of the directions (erratum P5)."""
    return np.linalg.qr(np.asarray(factor).T)[0].T


def _mean_distances(factor: Any, params: LDAParams) -> dict[str, Any]:
    return {"distance": pdist(np.asarray(params.mean) @ np.asarray(factor).T)}


def _mean_distances_by_solving(problem: Problem) -> dict[str, Any]:
    mean, within = problem.params.mean, problem.params.within
    a, b = np.triu_indices(len(mean), 1)
    delta = mean[a] - mean[b]
    squared = np.sum(delta * np.linalg.solve(within, delta.T).T, 1)
    return {"distance": np.sqrt(squared)}


def _spread(factor: Any, problem: Problem) -> dict[str, Any]:
    L = np.asarray(factor)
    return {"L Sigma_W L'": L @ problem.params.within @ L.T}


def _posterior_covariance(problem: Problem) -> dict[str, Any]:
    """E[Σ | data] from the conjugate posterior of the tied model."""
    data = _labelled(problem)
    n_classes = int(np.asarray(data.y).max()) + 1
    with jax.enable_x64(True):
        post = gaussian_classes.posterior(
            gaussian_classes.statistics(data, n_classes),
            problem.prior,
            covariance="tied",
        )
        d = post.mean.shape[1]
        return {"Sigma_W": np.asarray(post.Psi[0] / (post.nu[0] - d - 1))}


def _covariance_without_prior(problem: Problem) -> dict[str, Any]:
    flat = shrinkage_prior(np.eye(len(problem.prior.mean)), 0.0)
    return {"Sigma_W": class_moments(_labelled(problem), flat)[2]}


CHECKS = (
    Check(
        "class means are as far apart as under the inverse covariance",
        "exact",
        reference=_mean_distances_by_solving,
        estimate=lambda p: _mean_distances(p.params.factor, p.params),
        controls={
            "orthonormal directions (erratum P5)": lambda p: _mean_distances(
                orthonormal(p.params.factor), p.params
            )
        },
        rtol=1e-8,
    ),
    Check(
        "directions are whitened",
        "exact",
        reference=lambda p: {"L Sigma_W L'": np.eye(len(p.params.factor))},
        estimate=lambda p: _spread(p.params.factor, p),
        controls={
            "orthonormal directions (erratum P5)": lambda p: _spread(
                orthonormal(p.params.factor), p
            )
        },
        rtol=1e-9,
    ),
    Check(
        "the covariance is the posterior mean of the tied Gaussian model",
        "exact",
        reference=_posterior_covariance,
        estimate=lambda p: {"Sigma_W": p.params.within},
        controls={"prior left out": _covariance_without_prior},
        rtol=1e-9,
    ),
)
