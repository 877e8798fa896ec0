"""Normal mixtures within the classes, an extension that the paper mentions.

Given the labels, each class is a mixture,

    x | y = c ~ Σ_m ω_cm N(μ_cm, Σ_cm).                                            (1)

The mode of the model ``gaussian_mixture_classes`` in (π, ω, μ, Σ) therefore separates
by class. In each class it is the mode of the normal mixture of ``mixture.em`` with the
prior

    ω_c ~ Dirichlet(β),  Σ_cm ~ IW(ν, Ψ),  μ_cm | Σ_cm ~ N(m, Σ_cm/κ),             (2)

computed by EM from k-means++ starts, and π_c = (α + n_c - 1)/Σ(α + n - 1). Local
metrics use the Hessians of mixtures (maths 2.7),

    H̄_c = Σ_m r_cm (g_m g_mᵀ - Σ_cm⁻¹),   g_m = -Σ_cm⁻¹(x - μ_cm),                 (3)

where r_cm are the responsibilities at x. Only the mode is available. The components
have no order, and draws or a Laplace approximation would need an order.

The default prior is that of Fraley and Raftery, based on the pooled within-class
covariance S_W: κ = 0.01, ν = d + 2 and Ψ = S_W/k^(2/d). This Ψ is the covariance of one
of k equal components that tile a class.
"""

import numpy as np
from scipy.special import gammaln

from probmetric.data.containers import Labeled, Points, weights
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.fit import fit as fit_mixture
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior
from probmetric.precision import numpy_in_numpy_out


@numpy_in_numpy_out
def mixture_prior(prior: NIWPrior, n_components: int) -> NIWPrior:
    """Compute Fraley and Raftery's prior of components from a prior of classes."""
    d = len(prior.mean)
    Psi = prior.Psi / (prior.nu - d - 1) / n_components ** (2 / d)
    return NIWPrior(prior.mean, Psi, 0.01, d + 2.0, prior.alpha)


def fit_mixtures(
    data: Labeled,
    prior: NIWPrior,
    *,
    n_classes: int,
    n_components: int,
    concentration: float | int = 1.0,
    n_starts: int = 4,
    seed: int = 0,
) -> Fit:
    """Fit the mode with a mixture in every class, by EM; NaN is integrated out.

    ``prior`` is the prior of every component, and ``concentration`` is β of the
    component weights. The objective is the log joint density in (π, ω, μ, Σ). The
    result code is the worst of the classes.
    """
    if data.y is None:
        raise ValueError("data.y must be class codes, got None.")
    X, y, w = np.asarray(data.X), np.asarray(data.y), np.asarray(weights(data))
    members = np.bincount(y, minlength=n_classes)
    if members.min() < n_components:
        raise ValueError(
            f"n_components must be at most {members.min()}, the size of the smallest "
            f"class, got {n_components}."
        )
    plain = prior.mean, prior.kappa, prior.nu, prior.Psi
    # The split of a component's covariance, and its prior, are not used here.
    shared = TwoStagePrior(concentration, *plain, prior.nu, prior.Psi)
    fits = [
        fit_mixture(
            Points(X[y == c], w[y == c]),
            n_components=n_components,
            prior=shared,
            n_starts=n_starts,
            seed=seed,
        )
        for c in range(n_classes)
    ]
    n = np.array([w[y == c].sum() for c in range(n_classes)])
    pi = (prior.alpha + n - 1) / np.sum(prior.alpha + n - 1)
    parts: list[TwoStageParams] = [f.params for f in fits]
    params = GaussianClassesParams(
        pi,
        np.stack([p.means for p in parts]),
        np.stack([np.linalg.cholesky(p.within + p.between) for p in parts]),
        np.stack([p.weights for p in parts]),
    )
    # Zero if α + n = 1: an empty class under a flat prior.
    labels = np.sum((prior.alpha + n - 1) * np.log(np.where(pi > 0, pi, 1.0)))
    alpha = np.full(n_classes, float(prior.alpha))
    dirichlet = gammaln(alpha.sum()) - gammaln(alpha).sum()
    worst = max(fits, key=lambda f: int(f.result))
    objective = np.asarray(sum(float(f.objective) for f in fits) + labels + dirichlet)
    return worst._replace(params=params, objective=objective, trace=objective[None])
