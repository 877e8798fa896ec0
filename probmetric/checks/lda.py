"""The checks of LDA, and problems to run them on."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import xarray as xr
from scipy.linalg import eigh
from scipy.spatial.distance import pdist

from probmetric.checks.check import Problem, Values, by_algebra, by_sampling
from probmetric.checks.problems import OF_CLASSES, correlated, fitted, standardised
from probmetric.checks.sides import as_dataset, inverse, one_distance, sampled
from probmetric.data.containers import Labelled
from probmetric.data.scaling import Scaler
from probmetric.inference.gaussian_classes import posterior as gaussian_classes
from probmetric.inference.lda import (
    class_moments,
    discriminants,
    fit,
    leading,
    sample,
    shrinkage_prior,
    whitening,
)
from probmetric.inference.sampling.metrics import joined
from probmetric.inference.solvers.result import Fit
from probmetric.models.gaussian_classes import NIWPrior
from probmetric.models.lda import model, to_metric

invariants = OF_CLASSES


def toy(seed: int) -> Problem[Labelled]:
    """Simulate points of 3 unequal classes in d = 4 under a correlated covariance.

    They are weighted, and the prior pulls every moment.
    """
    X, y = correlated(seed, 20)
    kept = np.flatnonzero((y > 0) | (np.arange(len(y)) % 3 > 0))
    data = Labelled(X[kept], y[kept], 0.5 + 0.5 * (kept % 4))
    prior = NIWPrior(0.2 + np.arange(4) / 10, 2 * np.eye(4) + 0.3, 0.4, 7.0, 1.7)
    return fitted(fit_problem, f"simulated, seed {seed}", data, prior)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Labelled]:
    """Fit a standardised data set under a prior of one point.

    It is the weakest that the estimator chooses among: errors show the most.
    """
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
        counts = np.asarray(post.alpha) - 1
        return {
            "Sigma_W": np.asarray(post.Psi[0] / (post.nu[0] - d - 1)),
            "means": np.asarray(post.mean),
            "weights at the mode": counts / counts.sum(),
        }


def _covariance_without_prior(problem: Problem[Labelled]) -> Values:
    flat = shrinkage_prior(np.eye(len(problem.prior.mean)), 0.0)
    weights, mean, within = class_moments(problem.data, flat)
    return {"Sigma_W": within, "means": mean, "weights at the mode": weights}


def _fitted_moments(problem: Problem[Labelled]) -> Values:
    p = problem.params
    return {"Sigma_W": p.within, "means": p.mean, "weights at the mode": p.weights}


def _by_eigenvalues(problem: Problem[Labelled]) -> Values:
    """Solve Σ_B u = λ Σ_W u as it stands; take a prior worth six points."""
    p = problem.params
    off = p.mean - p.weights @ p.mean
    values = eigh((off * p.weights[:, None]).T @ off, p.within, eigvals_only=True)
    k, d = len(p.eigenvalues), len(p.within)
    return {
        "λ": values[::-1][:k],
        "Σλ": values[::-1][:k].sum(),
        "λ₁": values[-1:],
        "inverse of Sigma_W": inverse(p.within),
        "prior mean of Sigma_W": 3 * np.eye(d),
    }


def _eigenvalues(problem: Problem[Labelled], weighted: bool = True) -> Values:
    """Return the same of the package; of equally likely classes, if asked."""
    p = problem.params
    if not weighted:
        equal = np.full_like(p.weights, 1 / len(p.weights))
        values, _ = discriminants(equal, p.mean, p.within, len(p.eigenvalues))
        p = p._replace(eigenvalues=values)
    d, root = len(p.within), whitening(p.within)
    prior = shrinkage_prior(3 * np.eye(d), 6.0)
    return {
        "λ": p.eigenvalues,
        "Σλ": fit_problem(problem).objective,
        "λ₁": leading(p, 1).eigenvalues,
        "inverse of Sigma_W": root.T @ root,
        "prior mean of Sigma_W": prior.Psi / (prior.nu - d - 1),
    }


def _few(problem: Problem[Labelled]) -> tuple[Labelled, NIWPrior]:
    """Return three features, and a prior of them that is proper, for NUTS."""
    prior, data = problem.prior, problem.data
    kappa = max(float(prior.kappa), 0.1)
    nu = float(prior.nu) - len(prior.mean) + 3
    few = prior._replace(mean=prior.mean[:3], Psi=prior.Psi[:3, :3], kappa=kappa, nu=nu)
    return data._replace(X=np.asarray(data.X)[:, :3]), few


def _functionals(draws: dict[str, np.ndarray], n_classes: int) -> xr.Dataset:
    """Return the metrics of LDA and RCA at draws, by Σ_B u = λ Σ_W u as it stands."""
    weights, mean, within = (draws[k] for k in ("weights", "mean", "covariance"))
    off = mean - np.einsum("skc,skci->ski", weights, mean)[:, :, None]
    between = np.einsum("skc,skci,skcj->skij", weights, off, off)
    values, vectors = np.linalg.eig(np.linalg.solve(within, between))
    order = np.argsort(-np.real(values))[..., None, : min(n_classes - 1, 3)]
    U = np.take_along_axis(np.real(vectors), order, -1)
    size = np.einsum("skia,skij,skja->ska", U, within, U)
    lda, rca = np.einsum("skia,ska,skja->skij", U, 1 / size, U), inverse(within)
    i, j = np.tril_indices(3)
    return as_dataset({"LDA's M": lda[..., i, j], "RCA's M": rca[..., i, j]})


def _nuts(problem: Problem[Labelled]) -> xr.Dataset:
    """Sample the NumPyro model: entries of LDA's and RCA's M."""
    args, c = _few(problem), len(problem.params.weights)
    drawn = sampled(model, args, {"n_classes": c}, seed=1, n_draws=1500).values
    chol = np.asarray(drawn["chol"])[:, :, 0]
    covariance = chol @ np.swapaxes(chol, -1, -2)
    return _functionals({**drawn, "covariance": covariance}, c)


def _exact(problem: Problem[Labelled], nu: float = 0.0) -> xr.Dataset:
    """Draw the same by ``sample``; wrong by ``nu`` added to the degrees of freedom."""
    (data, prior), c = _few(problem), len(problem.params.weights)
    prior = prior._replace(nu=prior.nu + nu)
    unscaled = Scaler(np.zeros(3), np.ones(3))
    k = min(c - 1, 3)
    tree = sample(data, prior, unscaled, n_components=k, n_draws=1500, seed=2)
    drawn, (i, j) = joined(tree), np.tril_indices(3)
    rca = inverse(drawn["covariance"][:, 0])
    # Independent draws are as many chains as one likes.
    each = {"LDA's M": drawn["M"][:, i, j], "RCA's M": rca[:, i, j]}
    return as_dataset({n: v.reshape(4, -1, v.shape[1]) for n, v in each.items()})


def _fewer(problem: Problem[Labelled]) -> xr.Dataset:
    return _exact(problem, nu=-float(len(problem.params.weights)))


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
        estimate=_fitted_moments,
        controls={"prior left out": _covariance_without_prior},
    ),
    by_algebra(
        "eigenvalues are those of Σ_B against Σ_W",
        reference=_by_eigenvalues,
        estimate=_eigenvalues,
        controls={"classes equally likely": partial(_eigenvalues, weighted=False)},
    ),
    one_distance(lambda problem: to_metric(problem.params)),
    by_sampling(
        "exact draws of the metric are NUTS's",
        reference=_nuts,
        estimate=_exact,
        controls={"ν of flat means, less by a class each": _fewer},
    ),
)
