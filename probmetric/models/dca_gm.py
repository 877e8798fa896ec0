"""DCA-GM: the class of a point, given a discriminative projection of the point.

"Discriminative component analysis by Gaussian mixtures". The model of one point x in
R^d with class c in 0..C-1, projection A (p, d), y = Ax:

1.  a class is a mixture of Gaussians in the projection, with one covariance per class
    or per component: p(y, c) = Σ_k α_c β_ck N(y; μ_ck, L_ck L_ckᵀ);                 (1)
2.  the class is drawn from p(c|y) = p(y, c) / Σ_c' p(y, c').                        (2)

α are the weights of the classes, and β_c the weights of the components of class c. A
component has mean μ_ck and covariance L_ck L_ckᵀ. Only the class is modeled, not the
density of x. The priors are proper:

    A ~ N(A0, c²/λ) entry by entry (here c is a scale; A0 = 0 in the paper);
    alpha_logit, beta_logit ~ N(0, s_w²),  α = softmax, β_c = softmax over components;
    mu ~ N(0, s_μ²),  log_diag, off_diag ~ N(0, s_L²),  L has diagonal exp(log_diag).

These NumPyro sites are unconstrained. The posterior mode, the L-BFGS optimum and the
center of Laplace's approximation are therefore the same point.

Only the priors determine the scale of y. With only a penalty on the norm of A there is
no optimum, because (εA, εμ, ε²LLᵀ) gives the same p(c|x) for every ε > 0 (an erratum of
the paper). The order of the components is not identified, and neither is a rotation of
y if A0 = 0. Eqs. (4) and (5) of ``inference.dca_gm.likelihood`` are other changes of
the parameters that do not change p(c|x). Report only p(c|x) and its Fisher information
matrix, which are identified.

References
----------
Peltonen, Goldberger and Kaski, "Fast Discriminative Component Analysis for Comparing
Examples", NIPS 2006 workshop on learning to compare examples.
"""

from types import ModuleType
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.special
from jaxtyping import Bool, Float

from probmetric.data.containers import Labeled, weights
from probmetric.linalg import cholesky_of, root_of, solve_lower
from probmetric.metric import Mahalanobis
from probmetric.metric.class_distribution import (
    ClassDistribution,
    class_log_joint,
    pooled,
)
from probmetric.metric.fisher import LocalFisher, mean_fisher
from probmetric.models._sample import sample
from probmetric.models.distributions import ClassLabel
from probmetric.precision import host_or_program, numpy_in_numpy_out, one_program
from probmetric.typing import Array, Numeric

__all__ = ["DCAGMParams", "DCAGMPrior", "dca_gm", "simulate", "to_metric"]

type MetricKind = Literal[
    "average_fisher", "subspace", "local_fisher", "hellinger", "jensen_shannon"
]


class DCAGMParams(NamedTuple):
    """Parameters of DCA-GM with c classes of k components in p dimensions.

    ``A`` (p, d) is the projection, and ``log_alpha`` (c,) the log weights of classes.
    ``log_beta`` (c, k) are the log weights of components within a class, -inf for a
    missing component. ``mu`` (c, k, p) are the means. ``chol`` has the Cholesky factors
    of the covariances, of shape (c, 1, p, p) with one covariance per class, or (c, k,
    p, p). ``fisher`` (p, p) is the Fisher information matrix of the class probabilities
    in the projection, averaged over the training points, or None before a fit.
    """

    A: Float[Array, "p d"]
    log_alpha: Float[Array, "c"]
    log_beta: Float[Array, "c k"]
    mu: Float[Array, "c k p"]
    chol: Float[Array, "c _k p p"]
    fisher: Float[Array, "p p"] | None = None


class DCAGMSites(NamedTuple):
    """The unconstrained NumPyro sites, with q = 1 or k and r = p(p-1)/2."""

    A: Float[Array, "p d"]
    alpha_logit: Float[Array, "c"]
    beta_logit: Float[Array, "c k"]
    mu: Float[Array, "c k p"]
    log_diag: Float[Array, "c q p"]
    off_diag: Float[Array, "c q r"]


class DCAGMPrior(NamedTuple):
    """Normal priors of DCA-GM, and a mask of the components of each class.

    An entry of the projection A has its prior mean in ``mean``, and the prior standard
    deviation ``c``/√``lam``. ``present`` (c, k) is True if a class has a component.
    Other prior standard deviations are ``weight_scale`` for logits of weights,
    ``mu_scale`` for means, and ``chol_scale`` for entries of Cholesky factors (for the
    logs of diagonal entries).
    """

    mean: Float[Array, "p d"]
    present: Bool[Array, "c k"]
    c: Float[Array, ""] | float = 1.0
    lam: Float[Array, ""] | float = 1.0
    weight_scale: Float[Array, ""] | float = 1.0
    mu_scale: Float[Array, ""] | float = 3.0
    chol_scale: Float[Array, ""] | float = 0.5


@numpy_in_numpy_out
def log_weight(params: DCAGMParams) -> Float[Array, "c k"]:
    """Return log α_c β_ck."""
    return params.log_alpha[:, None] + params.log_beta


@numpy_in_numpy_out
def constrain(sites: DCAGMSites, present: Bool[Array, "c k"]) -> DCAGMParams:
    """Map the named variables of the model (NumPyro sites) to parameters."""
    return _constrained(sites, present)


def _params_of(
    xp: ModuleType, sites: DCAGMSites, present: Bool[Array, "c k"]
) -> DCAGMParams:
    p = sites.mu.shape[-1]
    at = np.zeros((p, p), int)  # 0, or 1 + the index of an entry below the diagonal.
    at[np.tril_indices(p, -1)] = 1 + np.arange(p * (p - 1) // 2)
    below = xp.pad(sites.off_diag, [(0, 0), (0, 0), (1, 0)])[..., at]
    diagonal = xp.exp(sites.log_diag)[..., None] * xp.eye(p, dtype=sites.A.dtype)
    log_softmax = jax.nn.log_softmax if xp is jnp else scipy.special.log_softmax
    return DCAGMParams(
        A=sites.A,
        log_alpha=log_softmax(sites.alpha_logit, axis=-1),
        log_beta=log_softmax(xp.where(present, sites.beta_logit, -xp.inf), axis=-1),
        mu=sites.mu,
        chol=diagonal + below,
    )


_constrained = host_or_program(_params_of)


@numpy_in_numpy_out
def unconstrain(params: DCAGMParams) -> DCAGMSites:
    """Map parameters to named variables, with centered logits (highest prior)."""
    return _unconstrained(params)


def _sites_of(xp: ModuleType, params: DCAGMParams) -> DCAGMSites:
    i, j = np.tril_indices(params.mu.shape[-1], -1)
    present = xp.isfinite(params.log_beta)
    logit = xp.where(present, params.log_beta, 0)
    n_present = xp.sum(present, 1, keepdims=True, dtype=logit.dtype)
    mean = xp.sum(logit, 1, keepdims=True) / n_present
    return DCAGMSites(
        A=params.A,
        alpha_logit=params.log_alpha - xp.mean(params.log_alpha),
        beta_logit=xp.where(present, logit - mean, 0),
        mu=params.mu,
        log_diag=xp.log(xp.diagonal(params.chol, axis1=-2, axis2=-1)),
        off_diag=params.chol[..., i, j],
    )


_unconstrained = host_or_program(_sites_of)


def dca_gm(
    data: Labeled,
    prior: DCAGMPrior,
    *,
    covariance: str = "class",
    learning_rate: Numeric = 1.0,
    batch: int | None = None,
) -> None:
    """Define the generative model of class labels (NumPyro).

    The named variables (NumPyro sites) are:

    * ``A``, the projection.
    * ``alpha_logit`` and ``beta_logit``, logits of class and component weights.
    * ``mu``, the means, and ``log_diag`` and ``off_diag``, the Cholesky factors.
    * ``y`` (n,), the classes.
    * ``J`` (d, d), without ``batch``: the Fisher information matrix of the class
      probabilities, averaged over the points.

    Parameters
    ----------
    data : Labeled
    prior : DCAGMPrior
        The shape of ``prior.present`` sets the number of classes and components.
    covariance : {"class", "component"}, default="class"
        One covariance per class (as in the paper), or one per component (its footnote
        1).
    batch : int, optional
        Number of points in a random subsample. Use it with SVI only, not with MCMC.

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> prior = DCAGMPrior(jnp.zeros((1, 2)), jnp.ones((2, 1), bool))
    >>> data = Labeled(jnp.ones((5, 2)), None)
    >>> Predictive(dca_gm, num_samples=3)(jax.random.key(0), data, prior)["y"].shape
    (3, 5)
    """
    (c, k), p = prior.present.shape, prior.mean.shape[0]
    q, r = (k if covariance == "component" else 1), p * (p - 1) // 2

    def site(name: str, loc: Array, scale: Numeric, *shape: int) -> Array:
        normal = dist.Normal(jnp.broadcast_to(loc, shape), scale)
        return sample(name, normal.to_event(len(shape)))

    zero = jnp.zeros((), data.X.dtype)
    A_scale = prior.c / jnp.sqrt(prior.lam)
    sites = DCAGMSites(
        A=site("A", prior.mean, A_scale, *prior.mean.shape),
        alpha_logit=site("alpha_logit", zero, prior.weight_scale, c),
        beta_logit=site("beta_logit", zero, prior.weight_scale, c, k),
        mu=site("mu", zero, prior.mu_scale, c, k, p),
        log_diag=site("log_diag", zero, prior.chol_scale, c, q, p),
        # In one dimension L has no off-diagonal; NumPyro does not support empty sites.
        off_diag=site("off_diag", zero, prior.chol_scale, c, q, r)
        if r
        else jnp.zeros((c, q, 0), data.X.dtype),
    )
    params = constrain(sites, prior.present)
    theta = (log_weight(params), params.mu, params.chol)
    if batch is None:
        J_y = mean_fisher(data.X @ params.A.T, *theta, weights(data))
        numpyro.deterministic("J", params.A.T @ J_y @ params.A)
    with numpyro.plate("point", len(data.X), subsample_size=batch) as chosen:
        joint = class_log_joint(data.X[chosen] @ params.A.T, *theta)
        log_p = jax.nn.log_softmax(joint, axis=-1)
        label = ClassLabel(log_p, weights(data)[chosen], learning_rate)
        sample("y", label, obs=None if data.y is None else data.y[chosen])


@numpy_in_numpy_out
def simulate(key: jax.Array, params: DCAGMParams, data: Labeled) -> Labeled:
    """Simulate classes for the same points, with the same data weights.

    Examples
    --------
    >>> mu, one = np.array([[[-1.0]], [[1.0]]]), np.ones((2, 1, 1, 1))
    >>> half, zero = np.log([0.5, 0.5]), np.zeros((2, 1))
    >>> params = DCAGMParams(np.eye(1, 2), half, zero, mu, one)
    >>> data = Labeled(np.array([[-30.0, 0.0], [30.0, 0.0]]), None)
    >>> simulate(jax.random.key(0), params, data).y.tolist()  # log odds are 2x: ±60
    [0, 1]
    """
    return data._replace(y=_drawn(key, params, data.X))


@one_program
def _drawn(key: jax.Array, params: DCAGMParams, X: Float[Array, "n d"]) -> Array:
    theta = (log_weight(params), params.mu, params.chol)
    joint = class_log_joint(jnp.asarray(X) @ params.A.T, *theta)
    return jax.random.categorical(key, joint)


@numpy_in_numpy_out
def to_metric(
    params: DCAGMParams,
    X: Float[Array, "n d"] | None = None,
    *,
    kind: MetricKind = "average_fisher",
) -> Mahalanobis | LocalFisher | ClassDistribution:
    """Return the learned metric.

    J (d, d) is the Fisher information matrix of p(c|x), the class probabilities at x.
    All kinds except "subspace" depend only on p(c|x).

    Parameters
    ----------
    params : DCAGMParams
    X : array of shape (n, d), optional
        Points over which "average_fisher" averages J. Default: the points of the fit
        (``params.fisher``).
    kind : str
        - "average_fisher": Mahalanobis metric whose matrix is the average of J. It does
          not depend on the normalization of A.
        - "subspace": Euclidean distance after the projection A, normalized so that the
          pooled covariance within components is the identity. The paper does not
          specify the normalization of A, on which its accuracies depend.
        - "local_fisher": Mahalanobis metric of J at the query.
        - "hellinger", "jensen_shannon": divergences between the class probabilities of
          two points.

    Notes
    -----
    J is 0 at points where one class has probability 1. If J is nearly 0 at all points
    (trace below 1e-8 in the coordinates of "subspace"), "average_fisher" returns the
    metric of "subspace".

    Examples
    --------
    >>> mu, one = np.array([[[-1.0]], [[1.0]]]), np.ones((2, 1, 1, 1))
    >>> half, zero = np.log([0.5, 0.5]), np.zeros((2, 1))
    >>> params = DCAGMParams(np.eye(1, 2), half, zero, mu, one)
    >>> J = to_metric(params, np.zeros((1, 2))).matrix
    >>> J.diagonal().round(4).tolist()  # p(1 - p) (d log odds/dx)² = ¼ · 2², and 0
    [1.0, 0.0]
    """
    if X is not None and kind == "average_fisher":
        return _metric_over(params, X)
    return _metric(params, kind=kind)


@jax.jit
def _metric_over(
    params: DCAGMParams, X: Float[Array, "n d"]
) -> Mahalanobis | LocalFisher | ClassDistribution:
    theta = (log_weight(params), params.mu, params.chol)
    fisher = mean_fisher(X @ params.A.T, *theta)
    return _metric_of(jnp, params._replace(fisher=fisher), kind="average_fisher")


def _metric_of(
    xp: ModuleType, params: DCAGMParams, *, kind: MetricKind
) -> Mahalanobis | LocalFisher | ClassDistribution:
    weight = params.log_alpha[:, None] + params.log_beta
    theta = (weight, params.mu, params.chol)
    if kind == "local_fisher":
        return LocalFisher(params.A, *theta)
    if kind in ("hellinger", "jensen_shannon"):
        return ClassDistribution(params.A, *theta, kind)
    half = cholesky_of(xp, pooled(xp, *theta[::2]))
    whitened = solve_lower(xp, half, params.A)
    if kind == "subspace":
        return Mahalanobis(whitened)
    if kind != "average_fisher":
        raise ValueError(
            f"kind must be one of {get_args(MetricKind.__value__)}, got {kind!r}"
        )
    if params.fisher is None:
        raise ValueError(
            "X is required if params.fisher is None, got X=None. Pass the points over "
            "which the metric is averaged"
        )
    in_whitened = half.T @ params.fisher @ half
    factor = root_of(xp, in_whitened) @ whitened
    return Mahalanobis(xp.where(xp.trace(in_whitened) > 1e-8, factor, whitened))


_metric = host_or_program(_metric_of, static=("kind",))
