"""The checks of LDA, and problems to run them on."""

from dataclasses import replace

import jax
import numpy as np
from scipy.spatial.distance import pdist

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.checks.problems import OF_CLASSES, correlated, fitted, standardised
from probmetric.data.containers import Labelled
from probmetric.inference.gaussian_classes import posterior as gaussian_classes
from probmetric.inference.lda import class_moments, fit, shrinkage_prior
from probmetric.inference.solvers.result import Fit
from probmetric.models.gaussian_classes import NIWPrior

invariants = OF_CLASSES


def toy(seed: int) -> Problem[Labelled]:
    """Simulate 60 points of 3 classes in d = 4 under a correlated covariance."""
    prior = NIWPrior(np.zeros(4), 2 * np.eye(4), 0.1, 7.0)
    return fitted(
        fit_problem, f"simulated, seed {seed}", Labelled(*correlated(seed, 20)), prior
    )


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Labelled]:
    """Fit the estimator's default to a standardised data set."""
    data = Labelled(*standardised(X, y))
    prior = shrinkage_prior(np.eye(data.X.shape[1]), 1.0)
    return fitted(fit_problem, "data", data, prior)


def fit_problem(problem: Problem[Labelled]) -> Fit:
    """Fit a problem with every direction there is."""
    return fit(problem.data, problem.prior)


def _orthonormal(problem: Problem[Labelled]) -> Problem[Labelled]:
    """Take the notes' wrong form of the directions (erratum P5)."""
    wrong = np.linalg.qr(problem.params.factor.T)[0].T
    return replace(problem, params=problem.params._replace(factor=wrong))


def _mean_distances(problem: Problem[Labelled]) -> Values:
    return {"distance": pdist(problem.params.mean @ problem.params.factor.T)}


def _mean_distances_by_solving(problem: Problem[Labelled]) -> Values:
    mean, within = problem.params.mean, problem.params.within
    a, b = np.triu_indices(len(mean), 1)
    delta = mean[a] - mean[b]
    squared = np.sum(delta * np.linalg.solve(within, delta.T).T, 1)
    return {"distance": np.sqrt(squared)}


def _spread(problem: Problem[Labelled]) -> Values:
    L = problem.params.factor
    return {"L Sigma_W L'": L @ problem.params.within @ L.T}


def _posterior_covariance(problem: Problem[Labelled]) -> Values:
    """E[Σ | data] from the conjugate posterior of the tied model."""
    data = problem.data
    n_classes = int(np.asarray(data.y).max()) + 1
    with jax.enable_x64(True):
        post = gaussian_classes.posterior(
            gaussian_classes.statistics(data, n_classes),
            problem.prior,
            covariance="tied",
        )
        d = post.mean.shape[1]
        return {"Sigma_W": np.asarray(post.Psi[0] / (post.nu[0] - d - 1))}


def _covariance_without_prior(problem: Problem[Labelled]) -> Values:
    flat = shrinkage_prior(np.eye(len(problem.prior.mean)), 0.0)
    return {"Sigma_W": class_moments(problem.data, flat)[2]}


CHECKS = (
    by_algebra(
        "class means are as far apart as under the inverse covariance",
        reference=_mean_distances_by_solving,
        estimate=_mean_distances,
        controls={
            "orthonormal directions (erratum P5)": lambda p: _mean_distances(
                _orthonormal(p)
            )
        },
        rtol=1e-8,
    ),
    by_algebra(
        "directions are whitened",
        reference=lambda p: {"L Sigma_W L'": np.eye(len(p.params.factor))},
        estimate=_spread,
        controls={
            "orthonormal directions (erratum P5)": lambda p: _spread(_orthonormal(p))
        },
    ),
    by_algebra(
        "the covariance is the posterior mean of the tied Gaussian model",
        reference=_posterior_covariance,
        estimate=lambda p: {"Sigma_W": p.params.within},
        controls={"prior left out": _covariance_without_prior},
    ),
)
