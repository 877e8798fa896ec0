"""Mixtures of normals within the classes: the extension that the paper names.

Given the labels the classes are mixtures of their own,

    x | y = c ~ Σ_m ω_cm N(μ_cm, Σ_cm),                                            (1)

so that the mode of the model ``gaussian_mixture_classes`` in (π, ω, μ, Σ) is, class by
class, that of the normal mixture of ``mixture.em`` with the prior

    ω_c ~ Dirichlet(β),  Σ_cm ~ IW(ν, Ψ),  μ_cm | Σ_cm ~ N(m, Σ_cm/κ),             (2)

found by EM from k-means++ starts, and π_c = (α + n_c - 1)/Σ(α + n - 1). Local metrics
follow from the Hessians of mixtures (maths 2.7),

    H̄_c = Σ_m r_cm (g_m g_mᵀ - Σ_cm⁻¹),   g_m = -Σ_cm⁻¹(x - μ_cm),                 (3)

r_cm the responsibilities at x. A mode only: the components have no order, and a Laplace
approximation or draws would have to say which one is meant.

The default prior is Fraley and Raftery's, about the pooled within-class covariance: κ =
.01, ν = d + 2, and Ψ that covariance over k^(2/d), its size if k components tiled a
class.
"""

from typing import Any

import numpy as np
from scipy.special import gammaln

from probmetric.data.containers import Labelled, Points, weights
from probmetric.inference.solvers.result import Fit
from probmetric.inference.two_stage.fit import fit as fit_mixture
from probmetric.models.gaussian_classes import GaussianClassesParams, NIWPrior
from probmetric.models.two_stage import TwoStagePrior
from probmetric.precision import numpy_in_numpy_out


@numpy_in_numpy_out
def mixture_prior(prior: NIWPrior, n_components: int) -> NIWPrior:
    """Return the prior of components from that of whole classes (module's last lines).

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
    """Return a mode of the model with a mixture in every class, by EM.

    Parameters
    ----------
    data : Labelled
        NaN entries are integrated out.
    prior : NIWPrior
        Of every component, and α of the classes.
    n_classes, n_components : int
    concentration : float, default 1
        β of the weights within a class.
    n_starts : int, default 4
        k-means++ starts a class, of which the best local optimum is kept.
    seed : int, default 0

    Returns
    -------
    Fit
        ``GaussianClassesParams`` with ``mix``, and the log joint density there, in
        (π, ω, μ, Σ), constants included. The result is that of the worst class.

    Raises
    ------
    ValueError
        For a class of fewer points than components.

    Examples
    --------
    The first class has two halves on either side of the second:

    >>> import numpy as np
    >>> from probmetric.data import Labelled
    >>> from probmetric.inference import gaussian_classes
    >>> from probmetric.models.gaussian_classes import NIWPrior
    >>> X = np.array([[-6.0], [-5.0], [5.0], [6.0], [-1.0], [0.0], [0.0], [1.0]])
    >>> data, how = Labelled(X, np.arange(8) // 4), {"n_classes": 2, "n_components": 2}
    >>> prior = NIWPrior(np.zeros(1), np.eye(1), kappa=0.01, nu=3.0)
    >>> params = gaussian_classes.fit_mixtures(data, prior, **how).params
    >>> sorted(params.mean[0].ravel().round(1).tolist())
    [-5.5, 5.5]
    """
    if data.y is None:
        raise ValueError("data.y: expected class codes, got None")
    X, y, w = np.asarray(data.X), np.asarray(data.y), np.asarray(weights(data))
    members = np.bincount(y, minlength=n_classes)
    if members.min() < n_components:
        raise ValueError(
            f"n_components: expected at most {members.min()}, the points of the "
            f"smallest class, got {n_components}"
        )
    plain = prior.mean, prior.kappa, prior.nu, prior.Psi
    # The split of a component's covariance, and so its prior, plays no part here.
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
    parts: list[Any] = [f.params for f in fits]
    params = GaussianClassesParams(
        pi,
        np.stack([p.means for p in parts]),
        np.stack([np.linalg.cholesky(p.within + p.between) for p in parts]),
        np.stack([p.weights for p in parts]),
    )
    # Zero where α + n = 1: an empty class under a flat prior.
    labels = np.sum((prior.alpha + n - 1) * np.log(np.where(pi > 0, pi, 1.0)))
    alpha = np.full(n_classes, float(prior.alpha))
    dirichlet = gammaln(alpha.sum()) - gammaln(alpha).sum()
    worst = max(fits, key=lambda f: int(f.result))
    objective = np.asarray(sum(float(f.objective) for f in fits) + labels + dirichlet)
    return worst._replace(params=params, objective=objective, trace=objective[None])
