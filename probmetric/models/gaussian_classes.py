"""Gaussian classes: the generative story behind GLML, LDA and QDA.

The story of one point x in R^d with class y in 0..C-1:

1.  class weights  π ~ Dirichlet(α);
2.  per class (or once, or per feature) a covariance Σ_c and a mean μ_c,
        NIW:  Σ_c ~ IW(ν, Ψ),  μ_c | Σ_c ~ N(m, Σ_c/κ);                           (1)
        LKJ:  Σ_c = diag(τ) Ω diag(τ),  Ω ~ LKJ(ζ),  τ ~ LogNormal(log s, v²),
              μ_c ~ N(m, diag(s_m²));                                             (2)
3.  y ~ Cat(π) and x | y ~ N(μ_y, Σ_y). Missing entries of x are integrated out.   (3)

``covariance``: "full" one Σ_c a class (QDA), "tied" one for all (LDA), "diagonal"
features independent within a class; Eq. (1) then holds feature by feature, with ν the
degrees of freedom of one feature and the diagonal of Ψ. IW(ν, Ψ) has mean
Ψ/(ν - d - 1).

The extension that the paper names: a class is a mixture of k normals,

    x | y ~ Σ_m ω_ym N(μ_ym, Σ_ym),  ω_y ~ Dirichlet(β).                           (4)

References
----------
Noh, Zhang and Lee, "Generative Local Metric Learning for Nearest Neighbor
Classification", NIPS 2010. Their Σ̂ + αI is replaced by the prior (1), which has units.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float

from probmetric.data.containers import Labelled, weights
from probmetric.densities.classes import ClassDensities
from probmetric.metric import LocalMahalanobis
from probmetric.metric.local import Rule, local_metric
from probmetric.models.class_label import ClassLabel
from probmetric.models.class_normal import ClassNormal
from probmetric.models.gaussian_classes_priors import (
    Covariance,
    LKJPrior,
    NIWPrior,
    sample_covariances,
)
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

__all__ = [
    "GaussianClassesParams",
    "gaussian_classes",
    "gaussian_mixture_classes",
    "simulate",
    "to_densities",
    "to_metric",
]


class GaussianClassesParams(NamedTuple):
    """Parameters: weights (c,), mean (c, d), chol (c, d, d) or (1, d, d) when tied.

    ``chol`` holds lower Cholesky factors of the covariances. For mixtures within the
    classes ``mix`` is (c, k), mean (c, k, d) and chol (c, k, d, d).
    """

    weights: Float[Array, "*s c"]
    mean: Float[Array, "*s c d"]
    chol: Float[Array, "*s _c d d"]
    mix: Float[Array, "*s c k"] | None = None


def _sample_instances(
    data: Labelled, pi: Any, log_prob_x: Any, learning_rate: Any
) -> None:
    with numpyro.plate("point", len(data.X)):
        w = weights(data)
        log_pi = jnp.broadcast_to(jnp.log(pi), (len(data.X), len(pi)))
        label = ClassLabel(log_pi, w, learning_rate)
        y = numpyro.sample("y", label, obs=data.y)
        numpyro.sample("x", log_prob_x(y, w), obs=None if data.y is None else data.X)


def gaussian_classes(
    data: Labelled,
    prior: NIWPrior | LKJPrior,
    *,
    n_classes: int,
    covariance: Covariance = "full",
    learning_rate: Any = 1.0,
    missing: bool = False,
) -> None:
    """Write the generative model of labelled points (NumPyro).

    Sites: ``weights`` (c,), ``mean`` (c, d), ``chol`` (c or 1, d, d) [NIW, diagonal:
    ``variance`` (c, d); LKJ: ``tau`` and ``correlation_chol``; ``chol`` is then
    deterministic], ``y`` (n,) and ``x`` (n, d).

    Parameters
    ----------
    data : Labelled
        ``y=None`` simulates classes and as many points as X has rows. Data weights
        enter the observations' own distributions.
    prior : NIWPrior or LKJPrior
    n_classes : int
        C ≥ 2.
    covariance : {"full", "tied", "diagonal"}
    learning_rate : float, default=1
        Power η on the likelihood.
    missing : bool, default=False
        Integrate NaN entries of X out (n d³ more work); they give NaN otherwise.
    """
    alpha = jnp.full(n_classes, prior.alpha, data.X.dtype)
    pi = numpyro.sample("weights", dist.Dirichlet(alpha))
    mean, chol = sample_covariances(prior, shape=(n_classes,), covariance=covariance)

    def instance(y: Any, w: Any) -> Any:
        return ClassNormal(mean, chol, y, w, learning_rate, missing=missing)

    _sample_instances(data, pi, instance, learning_rate)


def gaussian_mixture_classes(
    data: Labelled,
    prior: NIWPrior | LKJPrior,
    *,
    n_classes: int,
    n_components: int,
    concentration: float | int = 1.0,
    covariance: Covariance = "full",
) -> None:
    """Write the model with a mixture of normals in every class (Eq. 4).

    Sites as ``gaussian_classes``, with a component axis after that of the classes, and
    ``mix`` (c, k). The component of a point is summed out. The order of components is
    not identified: judge draws by label-invariant functionals only.

    Raises
    ------
    ValueError
        For data weights: the mixture's own Distribution has none.
    """
    if data.w is not None:
        raise ValueError("w: wanted None with mixtures within classes, got weights")
    alpha = jnp.full(n_classes, prior.alpha, data.X.dtype)
    pi = numpyro.sample("weights", dist.Dirichlet(alpha))
    beta = jnp.full((n_classes, n_components), concentration, data.X.dtype)
    mix: Any = numpyro.sample("mix", dist.Dirichlet(beta).to_event(1))
    shape = (n_classes, n_components)
    mean, chol = sample_covariances(prior, shape=shape, covariance=covariance)
    chol = jnp.broadcast_to(chol, (*shape, *chol.shape[-2:]))

    def instance(y: Any, _: Any) -> Any:
        return dist.MixtureSameFamily(
            dist.Categorical(mix[y]),
            dist.MultivariateNormal(mean[y], scale_tril=chol[y]),
        )

    _sample_instances(data, pi, instance, 1.0)


@numpy_in_numpy_out
def simulate(key: Any, params: GaussianClassesParams, data: Labelled) -> Labelled:
    """Draw as many classes and points as ``data`` has; data weights stay."""
    key_y, key_m, key_x = jax.random.split(key, 3)
    n = len(data.X)
    y = jax.random.categorical(key_y, jnp.log(params.weights), shape=(n,))
    chol = params.chol
    if params.mix is None:
        mean = params.mean[y]
        chol = jnp.broadcast_to(chol, (len(params.mean), *chol.shape[-2:]))[y]
    else:
        m = jax.random.categorical(key_m, jnp.log(params.mix)[y])
        mean = params.mean[y, m]
        chol = jnp.broadcast_to(chol, (*params.mean.shape, chol.shape[-1]))[y, m]
    noise = jax.random.normal(key_x, mean.shape, mean.dtype)
    return data._replace(X=mean + jnp.einsum("nij,nj->ni", chol, noise), y=y)


@numpy_in_numpy_out
def to_densities(params: GaussianClassesParams) -> ClassDensities:
    """Return the class densities, in which local metrics are computed."""
    mean, chol, mix = jnp.asarray(params.mean), jnp.asarray(params.chol), params.mix
    if mix is None:
        mean, chol, mix = (
            mean[:, None],
            chol[:, None],
            jnp.ones((len(mean), 1), mean.dtype),
        )
    return ClassDensities(
        log_prior=jnp.log(params.weights),
        log_mix=jnp.log(mix),
        loc=mean,
        factor=jnp.broadcast_to(chol, (*mean.shape, mean.shape[-1])),
        inv_df=jnp.zeros(mean.shape[:2], mean.dtype),
    )


@numpy_in_numpy_out
def to_metric(
    params: GaussianClassesParams,
    *,
    rule: Rule = "min_norm",
    gamma: float | int = 0.0,
    frame: Literal["pooled", "identity"] = "pooled",
) -> LocalMahalanobis:
    """Return GLML's local metric of known class densities.

    Parameters
    ----------
    params : GaussianClassesParams
    rule, gamma
        As ``LocalMahalanobis``.
    frame : {"pooled", "identity"}
        Where the rule applies: after whitening by the pooled within-class covariance,
        or in the features as they are (the paper).
    """
    return local_metric(to_densities(params), rule=rule, gamma=gamma, frame=frame)
