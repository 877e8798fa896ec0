"""Gaussian classes: the generative model behind GLML, LDA and QDA.

The model of one point x in R^d with class y in 0..C-1:

1.  class weights  π ~ Dirichlet(α);
2.  per class (or shared, or per feature) a covariance Σ_c and a mean μ_c,
        Σ_c ~ IW(ν, Ψ),  μ_c | Σ_c ~ N(m, Σ_c/κ);                                  (1)
3.  y ~ Cat(π) and x | y ~ N(μ_y, Σ_y). Missing entries of x are integrated out.   (2)

``covariance="full"`` is one Σ_c per class (QDA), and "tied" is one Σ for all classes
(LDA). "diagonal" is independent features within a class. Eq. (1) then applies to each
feature separately, with ν degrees of freedom per feature and the diagonal of Ψ. The
mean of the inverse Wishart distribution IW(ν, Ψ) is Ψ/(ν - d - 1).

References
----------
Noh, Zhang and Lee, "Generative Local Metric Learning for Nearest Neighbor
Classification", NIPS 2010. The prior in Eq. (1), which scales with the units of the
features, replaces their Σ̂ + αI.
"""

from functools import partial
from types import ModuleType
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float

from probmetric.data.containers import Labeled, weights
from probmetric.densities.classes import ClassDensities
from probmetric.metric import LocalMahalanobis
from probmetric.metric.local import Rule, local_metric
from probmetric.models._sample import sample
from probmetric.models.distributions import ClassLabel, ClassNormal
from probmetric.precision import host_or_program, numpy_in_numpy_out
from probmetric.typing import Array, Numeric

__all__ = [
    "GaussianClassesParams",
    "NIWPrior",
    "gaussian_classes",
    "simulate",
    "to_densities",
    "to_metric",
]

type Covariance = Literal["full", "tied", "diagonal"]


class NIWPrior(NamedTuple):
    """Normal-inverse-Wishart prior of each class, and Dirichlet prior of the weights.

    The covariance Σ of a class has the inverse Wishart prior IW(ν, Ψ). Given Σ, the
    class mean has the prior N(m, Σ/κ).

    Attributes
    ----------
    mean, Psi : arrays of shape (d,) and (d, d)
        Prior mean m of a class mean, and positive definite scale matrix Ψ of the prior
        of a class covariance.
    kappa : float
        κ > 0. The prior mean has the weight of κ points.
    nu : float
        Degrees of freedom ν > d - 1 (for "diagonal": ν > 0).
    alpha : float
        Dirichlet concentration of every class, > 0.
    """

    mean: Float[Array, "d"]
    Psi: Float[Array, "d d"]
    kappa: Float[Array, ""] | float
    nu: Float[Array, ""] | float
    alpha: Float[Array, ""] | float = 1.0


def _sample_moments(
    prior: NIWPrior, n_classes: int, covariance: Covariance
) -> tuple[Array, Array]:
    d, n_chol = len(prior.mean), 1 if covariance == "tied" else n_classes
    if covariance == "diagonal":
        inverse_gamma = dist.InverseGamma(prior.nu / 2, jnp.diagonal(prior.Psi) / 2)
        variance = sample("variance", inverse_gamma.expand((n_chol, d)).to_event(2))
        chol = jnp.sqrt(variance)[..., None] * jnp.eye(d, dtype=variance.dtype)
        chol = jnp.asarray(numpyro.deterministic("chol", chol))
    else:
        wishart = dist.InverseWishartCholesky(
            prior.nu, scale_tril=jnp.linalg.cholesky(prior.Psi)
        )
        chol = sample("chol", wishart.expand((n_chol,)).to_event(1))
    tril = jnp.broadcast_to(chol, (n_classes, d, d)) / jnp.sqrt(prior.kappa)
    normal = dist.MultivariateNormal(prior.mean, scale_tril=tril)
    return sample("mean", normal.to_event(1)), chol


class GaussianClassesParams(NamedTuple):
    """Class weights (c,), means (c, d), and Cholesky factors of covariances.

    ``chol`` has shape (c, d, d), or (1, d, d) if all classes share one covariance. The
    factors are lower triangular.
    """

    weights: Float[Array, "*s c"]
    mean: Float[Array, "*s c d"]
    chol: Float[Array, "*s _c d d"]


def gaussian_classes(
    data: Labeled,
    prior: NIWPrior,
    *,
    n_classes: int,
    covariance: Covariance = "full",
    learning_rate: Numeric = 1.0,
    missing: bool = False,
) -> None:
    """Define the generative model of labeled points (NumPyro).

    The named variables (NumPyro sites) are:

    * ``weights`` (c,) and ``mean`` (c, d), weights and means of the classes.
    * ``chol`` (c or 1, d, d), Cholesky factors of the covariances. For a diagonal
      covariance, ``chol`` is computed from ``variance`` (c, d).
    * ``y`` (n,) and ``x`` (n, d), the classes and the points.

    Parameters
    ----------
    data : Labeled
        If ``y`` is None, classes and points are simulated, one for each row of X.
    prior : NIWPrior
    n_classes : int
        Number C ≥ 2 of classes.
    covariance : {"full", "tied", "diagonal"}
        One covariance matrix for each class (default), one for all classes, or
        independent features within a class.
    missing : bool, default=False
        Whether X has missing entries (NaN), which are then integrated out (additional
        cost n d³). By default, NaN entries make the density NaN.

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> prior = NIWPrior(jnp.zeros(1), jnp.eye(1), kappa=1.0, nu=2.0)
    >>> sample, data = Predictive(gaussian_classes, num_samples=3), jnp.zeros((5, 1))
    >>> sample(jax.random.key(0), Labeled(data, None), prior, n_classes=2)["x"].shape
    (3, 5, 1)
    """
    alpha = jnp.full(n_classes, prior.alpha, data.X.dtype)
    pi = sample("weights", dist.Dirichlet(alpha))
    mean, chol = _sample_moments(prior, n_classes, covariance)
    with numpyro.plate("point", len(data.X)):
        w = weights(data)
        log_pi = jnp.broadcast_to(jnp.log(pi), (len(data.X), len(pi)))
        y = sample("y", ClassLabel(log_pi, w, learning_rate), obs=data.y)
        point = ClassNormal(mean, chol, y, w, learning_rate, missing=missing)
        sample("x", point, obs=None if data.y is None else data.X)


@numpy_in_numpy_out
def simulate(key: jax.Array, params: GaussianClassesParams, data: Labeled) -> Labeled:
    """Simulate a class and a point for each row, with the same data weights.

    Examples
    --------
    >>> mean, chol = jnp.array([[-9.0], [9.0]]), jnp.ones((1, 1, 1))
    >>> params = GaussianClassesParams(jnp.array([0.5, 0.5]), mean, chol)
    >>> drawn = simulate(jax.random.key(0), params, Labeled(jnp.zeros((5, 1)), None))
    >>> bool(((drawn.X[:, 0] > 0) == (drawn.y == 1)).all())
    True
    """
    X, y = _instances(key, params, len(data.X))
    return data._replace(X=X, y=y)


@partial(jax.jit, static_argnames="n")
def _instances(
    key: jax.Array, params: GaussianClassesParams, n: int
) -> tuple[Array, Array]:
    key_y, _, key_x = jax.random.split(key, 3)
    y = jax.random.categorical(key_y, jnp.log(params.weights), shape=(n,))
    mean, shape = params.mean[y], (len(params.mean), *params.chol.shape[-2:])
    chol = jnp.broadcast_to(params.chol, shape)[y]
    noise = jax.random.normal(key_x, mean.shape, mean.dtype)
    return mean + jnp.einsum("nij,nj->ni", chol, noise), y


@numpy_in_numpy_out
def to_densities(params: GaussianClassesParams) -> ClassDensities:
    """Return the densities of the classes, with which local metrics are computed.

    Examples
    --------
    >>> mean, tied = jnp.array([[-9.0], [9.0]]), jnp.ones((1, 1, 1))
    >>> params = GaussianClassesParams(jnp.array([0.5, 0.5]), mean, tied)
    >>> to_densities(params).loc.ravel().tolist()
    [-9.0, 9.0]
    """
    return _densities(params)


def _densities_of(xp: ModuleType, params: GaussianClassesParams) -> ClassDensities:
    mean, chol = xp.asarray(params.mean)[:, None], xp.asarray(params.chol)[:, None]
    return ClassDensities(
        log_prior=xp.log(params.weights),
        log_mix=xp.zeros(mean.shape[:2], mean.dtype),
        loc=mean,
        factor=xp.broadcast_to(chol, (*mean.shape, mean.shape[-1])),
        inv_df=xp.zeros(mean.shape[:2], mean.dtype),
    )


_densities = host_or_program(_densities_of)


@numpy_in_numpy_out
@jax.jit(static_argnames=("rule", "frame"))
def to_metric(
    params: GaussianClassesParams,
    *,
    rule: Rule = "min_norm",
    gamma: Float[Array, ""] | float | int = 0.0,
    frame: Literal["pooled", "identity"] = "pooled",
) -> LocalMahalanobis:
    """Return the local metric of GLML (Noh, Zhang and Lee 2010) for these classes.

    Parameters
    ----------
    params : GaussianClassesParams
    rule, gamma
        See ``LocalMahalanobis``.
    frame : {"pooled", "identity"}
        "pooled" applies the rule after whitening by the pooled covariance within
        classes. "identity" applies the rule to the original features, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> mean, tied = np.array([[-1.0, 0.0], [1.0, 0.0]]), np.eye(2)[None]
    >>> metric = to_metric(GaussianClassesParams(np.array([0.5, 0.5]), mean, tied))
    >>> A = metric.matrix_at(np.array([[1.0, 0.0]]))[0]  # Determinant 1
    >>> A.diagonal().round(1).tolist()
    [10.0, 0.1]
    """
    return local_metric(to_densities(params), rule=rule, gamma=gamma, frame=frame)
