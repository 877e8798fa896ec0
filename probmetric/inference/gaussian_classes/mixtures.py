"""Mixtures of normals within the classes, an extension that the paper mentions.

Given the labels, each class is a mixture,

    x | y = c ~ Σ_m ω_cm N(μ_cm, Σ_cm).                                            (1)

The mode of the model ``gaussian_mixture_classes`` in (π, ω, μ, Σ) is therefore, class
by class, that of the normal mixture of ``mixture.em`` with the prior

    ω_c ~ Dirichlet(β),  Σ_cm ~ IW(ν, Ψ),  μ_cm | Σ_cm ~ N(m, Σ_cm/κ),             (2)

by EM from k-means++ starts, and π_c = (α + n_c - 1)/Σ(α + n - 1). Local metrics use the
Hessians of mixtures (maths 2.7),

    H̄_c = Σ_m r_cm (g_m g_mᵀ - Σ_cm⁻¹),   g_m = -Σ_cm⁻¹(x - μ_cm),                 (3)

r_cm the responsibilities at x. Only the mode is available: the components have no
order, and draws or a Laplace approximation would need one.

The default prior is Fraley and Raftery's, about the pooled within-class covariance:
κ = 0.01, ν = d + 2, and Ψ that covariance over k^(2/d), its size if k components tiled
a class.
"""

import numpy as np
from scipy.special import gammaln

from probmetric.data.containers import Labelled, Points, weights
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.fit import fit as fit_mixture
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior
from probmetric.models.two_stage import TwoStageParams, TwoStagePrior
from probmetric.precision import numpy_in_numpy_out


@numpy_in_numpy_out
def mixture_prior(prior: NIWPrior, n_components: int) -> NIWPrior:
    """Make the prior of components from that of whole classes (see the module).

    Parameters
    ----------
    prior : NIWPrior
        With ν > d + 1; E Σ = Ψ/(ν - d - 1) is the pooled within-class covariance.
    n_components : int

    Examples
    --------
    In one dimension two components that tile a class have half its width:

    >>> import numpy as np
    >>> from probmetric.inference import gaussian_classes
    >>> from probmetric.models.gaussian_classes import NIWPrior
    >>> whole = NIWPrior(np.zeros(1), np.array([[16.0]]), kappa=1.0, nu=6.0)
    >>> (whole.Psi / (whole.nu - 2)).tolist()
    [[4.0]]
    >>> two = gaussian_classes.mixture_prior(whole, 2)
    >>> (two.Psi / (two.nu - 2)).tolist()  # ¼ of the variance
    [[1.0]]
    """
    d = len(prior.mean)
    Psi = prior.Psi / (prior.nu - d - 1) / n_components ** (2 / d)
    return NIWPrior(prior.mean, Psi, 0.01, d + 2.0, prior.alpha)


def fit_mixtures(
    data: Labelled,
    prior: NIWPrior,
    *,
    n_classes: int,
    n_components: int,
    concentration: float | int = 1.0,
    n_starts: int = 4,
    seed: int = 0,
) -> Fit:
    """Find a mode of the model with a mixture in every class, by EM.

    Parameters
    ----------
    data : Labelled
        NaN entries are integrated out.
    prior : NIWPrior
        Of every component, with α of the classes.
    n_classes, n_components : int
    concentration : float, default=1
        β of the weights within a class.
    n_starts : int, default=4
        Number of k-means++ starts per class; the best local optimum is returned.
    seed : int, default=0

    Returns
    -------
    Fit
        ``GaussianClassesParams`` with ``mix``, and their log joint density in (π, ω, μ,
        Σ), constants included. The result code is that of the worst class.

    Raises
    ------
    ValueError
        For a class with fewer points than components.

    Examples
    --------
    The first class has two halves on either side of the second:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import gaussian_classes
    >>> from probmetric.models.gaussian_classes import NIWPrior
    >>> X = np.array([[-6.0], [-5.0], [5.0], [6.0], [-1.0], [0.0], [0.0], [1.0]])
    >>> data = Labelled(X, np.arange(8) // 4)
    >>> prior = NIWPrior(np.zeros(1), np.eye(1), kappa=0.01, nu=3.0)
    >>> fit = gaussian_classes.fit_mixtures(data, prior, n_classes=2, n_components=2)
    >>> sorted(fit.params.mean[0].ravel().round(1).tolist())
    [-5.5, 5.5]
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
