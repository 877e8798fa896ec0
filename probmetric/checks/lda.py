"""Claims about LDA, and problems to check them on."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import xarray as xr
from scipy.spatial.distance import pdist

from probmetric.checks.check import Problem, Values, by_algebra, by_sampling
from probmetric.checks.problems import OF_CLASSES, correlated, fitted, standardized
from probmetric.checks.sides import as_dataset, inverse, sampled
from probmetric.data.containers import Labeled
from probmetric.data.scaling import Scaler
from probmetric.inference.gaussian_classes import posterior as gaussian_classes
from probmetric.inference.lda import (
    class_moments,
    fit,
    sample,
    shrinkage_prior,
)
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.solvers.result import Fit
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.models.lda import model

invariants = OF_CLASSES


def toy(seed: int) -> Problem[Labeled]:
    """Simulate weighted points of 3 unequal classes in d = 4, and a proper prior."""
    X, y = correlated(seed, 20)
    rows = np.flatnonzero((y > 0) | (np.arange(len(y)) % 3 > 0))
    data = Labeled(X[rows], y[rows], 0.5 + 0.5 * (rows % 4))
    prior = NIWPrior(0.2 + np.arange(4) / 10, 2 * np.eye(4) + 0.3, 0.4, 7.0, 1.7)
    return fitted(fit_problem, f"simulated, seed {seed}", data, prior)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Labeled]:
    """Fit standardized data under the weakest prior of the estimator (one point)."""
    data = Labeled(*standardized(X, y))
    prior = shrinkage_prior(np.eye(data.X.shape[1]), 1.0)
    return fitted(fit_problem, "data", data, prior)


def fit_problem(problem: Problem[Labeled]) -> Fit:
    """Fit a problem with the maximum number of directions."""
    return fit(problem.data, problem.prior)


def _orthonormal(problem: Problem[Labeled]) -> Problem[Labeled]:
    """Orthonormalize the directions, as the notes do (erratum P5)."""
    wrong = np.linalg.qr(problem.params.factor.T)[0].T
    return replace(problem, params=problem.params._replace(factor=wrong))


def _geometry(problem: Problem[Labeled]) -> Values:
    p = problem.params
    return {
        "distances of class means": pdist(p.mean @ p.factor.T),
        "L Sigma_W L'": p.factor @ p.within @ p.factor.T,
    }


def _geometry_by_solving(problem: Problem[Labeled]) -> Values:
    mean, within = problem.params.mean, problem.params.within
    a, b = np.triu_indices(len(mean), 1)
    delta = mean[a] - mean[b]
    squared = np.sum(delta * np.linalg.solve(within, delta.T).T, 1)
    white = np.eye(len(problem.params.factor))
    return {"distances of class means": np.sqrt(squared), "L Sigma_W L'": white}


def _tied_posterior(problem: Problem[Labeled]) -> Values:
    """Return E[Σ | data] and the rest from the conjugate posterior of the model."""
    data = problem.data
    with jax.enable_x64(True):
        stats = gaussian_classes.statistics(data, int(np.asarray(data.y).max()) + 1)
        post = gaussian_classes.posterior(stats, problem.prior, covariance="tied")
        d, counts = post.mean.shape[1], np.asarray(post.alpha) - 1
        return {
            "Sigma_W": np.asarray(post.Psi[0] / (post.nu[0] - d - 1)),
            "means": np.asarray(post.mean),
            "weights at the mode": counts / counts.sum(),
        }


def _moments(problem: Problem[Labeled]) -> Values:
    p = problem.params
    return {"Sigma_W": p.within, "means": p.mean, "weights at the mode": p.weights}


def _moments_without_prior(problem: Problem[Labeled]) -> Values:
    flat = shrinkage_prior(np.eye(len(problem.prior.mean)), 0.0)
    weights, mean, within = class_moments(problem.data, flat)
    return {"Sigma_W": within, "means": mean, "weights at the mode": weights}


def _few(problem: Problem[Labeled]) -> tuple[Labeled, NIWPrior]:
    prior, data = problem.prior, problem.data
    kappa = max(float(prior.kappa), 0.1)
    nu = float(prior.nu) - len(prior.mean) + 3
    few = prior._replace(mean=prior.mean[:3], Psi=prior.Psi[:3, :3], kappa=kappa, nu=nu)
    return data._replace(X=np.asarray(data.X)[:, :3]), few


def _nuts(problem: Problem[Labeled]) -> xr.Dataset:
    """Sample the NumPyro model; solve Σ_B u = λ Σ_W u at every draw."""
    args, c = _few(problem), len(problem.params.weights)
    drawn = sampled(model, args, {"n_classes": c}, seed=1, n_draws=1500).values
    weights, mean, chol = (np.asarray(drawn[k]) for k in ("weights", "mean", "chol"))
    chol = chol[:, :, 0]
    within = chol @ np.swapaxes(chol, -1, -2)
    off = mean - np.einsum("skc,skci->ski", weights, mean)[:, :, None]
    between = np.einsum("skc,skci,skcj->skij", weights, off, off)
    values, vectors = np.linalg.eig(np.linalg.solve(within, between))
    order = np.argsort(-np.real(values))[..., None, : min(c - 1, 3)]
    U = np.take_along_axis(np.real(vectors), order, -1)
    size = np.einsum("skia,skij,skja->ska", U, within, U)
    lda, rca = np.einsum("skia,ska,skja->skij", U, 1 / size, U), inverse(within)
    i, j = np.tril_indices(3)
    return as_dataset({"LDA's M": lda[..., i, j], "RCA's M": rca[..., i, j]})


def _exact(problem: Problem[Labeled], per_class: float = 0.0) -> xr.Dataset:
    (data, prior), c = _few(problem), len(problem.params.weights)
    prior = prior._replace(nu=prior.nu + per_class * c)
    unscaled = Scaler(np.zeros(3), np.ones(3))
    k = min(c - 1, 3)
    tree = sample(data, prior, unscaled, n_components=k, n_draws=6000, seed=2)
    drawn, (i, j) = joined(tree), np.tril_indices(3)
    rca = inverse(drawn["covariance"][:, 0])
    each = {"LDA's M": drawn["M"][:, i, j], "RCA's M": rca[:, i, j]}
    # Independent draws may be cut into any number of chains.
    return as_dataset({n: v.reshape(4, -1, v.shape[1]) for n, v in each.items()})


CHECKS = (
    by_algebra(
        "directions whiten the classes and keep the Mahalanobis distances of the means",
        reference=_geometry_by_solving,
        estimate=_geometry,
        controls={
            "orthonormal directions (erratum P5)": lambda p: _geometry(_orthonormal(p))
        },
        rtol=1e-8,
    ),
    by_algebra(
        "the covariance is the posterior mean of the tied Gaussian model",
        reference=_tied_posterior,
        estimate=_moments,
        controls={"prior left out": _moments_without_prior},
    ),
    by_sampling(
        "closed-form draws of the metric equal NUTS draws",
        reference=_nuts,
        estimate=_exact,
        controls={
            "ν of flat means, one less per class": partial(_exact, per_class=-1.0)
        },
    ),
)
