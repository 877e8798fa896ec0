"""The two-stage normal mixture: component, source representative, instances.

The model of one source i with n_i instances in R^d:

1.  a component k ~ Categorical(c);
2.  a representative x_i | k ~ N(μ_k, B_k), the C process ("between");
3.  instances X_ij | x_i, k ~ N(x_i, W_k), j = 1..n_i, the I process ("within").

Yianilos' case is *proportional*: W_k = α Σ_k and B_k = (1 - α) Σ_k with one α in (0, 1]
(erratum Y1 of seed 002). With *free* W_k and B_k, the model is a mixture of
two-covariance (PLDA) models. Marginally, one instance follows an ordinary normal
mixture with covariances S_k = B_k + W_k. Single instances therefore identify neither α
nor W_k and B_k. Use groups (or pairs with a common source), or a prior. Integrating out
x_i,
    X_i1, …, X_in | k ~ N(1 ⊗ μ_k, 1 1ᵀ ⊗ B_k + I ⊗ W_k).                        (1)

The order of components is not identified. Report only quantities that do not depend on
it, such as the deterministic sites. For display, ``inference.two_stage.draws.relabel``
orders components.

References
----------
Yianilos, "Metric learning via normal mixtures", NEC Research Institute, 1995.
"""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float, Int
from numpyro.distributions import constraints

from probmetric.data.containers import Groups, Pairs, Points
from probmetric.data.groups import Stacks, as_groups, stack
from probmetric.linalg import psd_factor
from probmetric.metric import PairSimilarity
from probmetric.metric.pair_similarity import Score
from probmetric.models._sample import sample
from probmetric.models.distributions import Observed, Weighted, normal
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array, Numeric

__all__ = ["TwoStageParams", "TwoStagePrior", "simulate", "to_metric", "two_stage"]

type Covariance = Literal["free", "proportional"]


class TwoStageParams(NamedTuple):
    """Weights (k,), means (k, d) and covariances (k, d, d) of k components.

    ``between`` is the covariance of the true values of sources, and ``within`` of the
    noise of repeated measurements of one source.
    """

    weights: Float[Array, "k"]
    means: Float[Array, "k d"]
    within: Float[Array, "k d d"]
    between: Float[Array, "k d d"]


class TwoStagePrior(NamedTuple):
    """Conjugate prior of every component.

    Component k has the weight c_k, the mean μ_k, and covariances B_k between and W_k
    within sources. The weights have the prior Dirichlet(concentration).

    * For ``covariance="free"``: B_k ~ InverseWishart(df, scale), W_k ~
      InverseWishart(within_df, within_scale), μ_k ~ N(mean, B_k/strength).
    * For "proportional", and for single instances, W_k = αΣ_k and B_k = (1 - α)Σ_k:
      Σ_k ~ InverseWishart(df, scale), μ_k ~ N(mean, Σ_k/strength), α ~ Beta(alpha_a,
      alpha_b).

    ``scale`` prevents a component from collapsing on one point. For a flat prior, pass
    None instead of a ``TwoStagePrior``.
    """

    concentration: Float[Array, ""] | float
    mean: Float[Array, "d"]
    strength: Float[Array, ""] | float
    df: Float[Array, ""] | float
    scale: Float[Array, "d d"]
    within_df: Float[Array, ""] | float
    within_scale: Float[Array, "d d"]
    alpha_a: Float[Array, ""] | float = 2.0
    alpha_b: Float[Array, ""] | float = 2.0


@numpy_in_numpy_out
@jax.jit
def proportional(
    weights: Float[Array, "k"],
    means: Float[Array, "k d"],
    covariances: Float[Array, "k d d"],
    alpha: Float[Array, "..."] | float,
) -> TwoStageParams:
    """Return W = αΣ and B = (1 - α)Σ; α in (0, 1], common or per component (k,)."""
    a = jnp.broadcast_to(jnp.asarray(alpha), weights.shape)[:, None, None]
    return TwoStageParams(weights, means, a * covariances, (1 - a) * covariances)


def _sample_matrices(
    name: str, prior: tuple[Numeric, Array] | None, k: int, d: int
) -> Array:
    """Sample k covariance matrices, InverseWishart(df, scale) or with a flat prior."""
    if prior is None:
        flat = dist.ImproperUniform(constraints.positive_definite, (k,), (d, d))
        return sample(name, flat.to_event(1))
    df, scale = prior
    wishart = dist.InverseWishart(df, scale_matrix=scale)
    return sample(name, wishart.expand((k,)).to_event(1))


def _sample_params(
    prior: TwoStagePrior | None,
    k: int,
    d: int,
    covariance: Covariance,
    alpha: Numeric | None,
) -> TwoStageParams:
    p = prior
    weights = sample(
        "weights",
        dist.ImproperUniform(constraints.simplex, (), (k,))
        if p is None
        else dist.Dirichlet(jnp.full(k, p.concentration)),
    )
    if covariance == "free":
        spread = _sample_matrices("between", p and (p.df, p.scale), k, d)
        within_prior = p and (p.within_df, p.within_scale)
        within = _sample_matrices("within", within_prior, k, d)
    else:
        spread = _sample_matrices("covariances", p and (p.df, p.scale), k, d)
        if alpha is None:
            flat = dist.Uniform(0.0, 1.0)
            alpha = sample(
                "alpha", flat if p is None else dist.Beta(p.alpha_a, p.alpha_b)
            )
        within = alpha * spread
    means = sample(
        "means",
        dist.ImproperUniform(constraints.real_matrix, (), (k, d))
        if p is None
        else dist.MultivariateNormal(
            p.mean, covariance_matrix=spread / p.strength
        ).to_event(1),
    )
    between = spread if covariance == "free" else spread - within
    return TwoStageParams(weights, means, within, between)


@numpy_in_numpy_out
def group_moments(params: TwoStageParams, n: int) -> tuple[Array, Array]:
    """Return mean (k, n·d) and covariance (k, n·d, n·d) of n instances, Eq. (1)."""
    ones, eye = jnp.ones((n, n)), jnp.eye(n)
    cov = jax.vmap(lambda B, W: jnp.kron(ones, B) + jnp.kron(eye, W))(
        params.between, params.within
    )
    return jnp.tile(params.means, (1, n)), cov


@numpy_in_numpy_out
def instance_moments(
    x: Float[Array, "... d"], within: Float[Array, "k d d"], n: int
) -> tuple[Array, Array]:
    """Return mean and covariance of n instances, given representative and component."""
    cov = jax.vmap(lambda W: jnp.kron(jnp.eye(n), W))(within)
    return jnp.tile(x, n)[..., None, :], cov


def two_stage(
    data: Points | Pairs | Groups | Stacks,
    prior: TwoStagePrior | None,
    *,
    n_components: int,
    covariance: Covariance = "free",
    alpha: float | None = None,
    latent: bool = False,
    learning_rate: Numeric = 1.0,
    observe: bool = True,
) -> None:
    """Define the generative model of instances grouped by source (NumPyro).

    Instances are repeated measurements of a source. The named variables (NumPyro sites)
    are:

    * ``weights`` (k,) and ``means`` (k, d) of the components;
    * ``within`` and ``between`` (k, d, d), the covariances within and between sources,
      if ``covariance="free"``;
    * ``covariances`` (k, d, d) and ``alpha`` (), if "proportional";
    * ``x_n`` (G_n, n·d) for every group size n: the instances of a group in one row;
    * ``representative_n`` (G_n, d) for every group size n, if ``latent``: the true
      value of each source;
    * ``mean``, ``within_average`` and ``covariance_total``: computed from the others,
      and independent of the order of components.

    Parameters
    ----------
    data : Points, Pairs, Groups or Stacks
        NaN entries are assumed missing at random, and are integrated out. Inside
        ``jit``, pass ``two_stage.prepare(data)``, because array shapes depend on group
        sizes.
    prior : TwoStagePrior or None
        None is a flat prior (maximum likelihood).
    n_components : int
        Number k ≥ 1 of components.
    covariance : {"free", "proportional"}, default="free"
        Whether the covariances within and between sources are independent parameters,
        or proportional to each other.
    alpha : float, optional
        Fraction of the variance that is within sources. By default it is sampled. Only
        for "proportional".
    latent : bool, default=False
        Whether the true value of each source is sampled. By default it is integrated
        out. The component of a source is always summed out.
    observe : bool, default=True
        If False, simulate instances in groups of the same sizes.

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> data, I = Groups(jnp.zeros((2, 1)), jnp.array([0, 0])), jnp.eye(1)
    >>> prior = TwoStagePrior(1.0, jnp.zeros(1), 1.0, 4.0, I, 4.0, I)
    >>> sample, data = Predictive(two_stage, num_samples=3), two_stage.prepare(data)
    >>> sample(jax.random.key(0), data, prior, n_components=2)["means"].shape
    (3, 2, 1)
    """
    stacks = stack(data)
    d = stacks.X[0].shape[-1]
    params = _sample_params(prior, n_components, d, covariance, alpha)
    for name, value in invariant(params).items():
        numpyro.deterministic(name, value)
    masks = stacks.seen if stacks.seen and observe else (None,) * len(stacks.X)
    for X, w, mask in zip(stacks.X, stacks.w, masks, strict=True):
        groups, n, _ = X.shape
        with numpyro.plate(f"source_{n}", groups):
            mixing = dist.CategoricalProbs(params.weights)
            moments = group_moments(params, n)
            if latent:
                C = dist.MultivariateNormal(params.means, params.between)
                x = sample(f"representative_{n}", dist.MixtureSameFamily(mixing, C))
                logits = jnp.log(params.weights) + C.log_prob(x[..., None, :])
                mixing = dist.CategoricalLogits(logits)
                moments = instance_moments(x, params.within, n)
            observed = X.reshape(groups, n * d) if observe else None
            mask = None if mask is None else mask.reshape(groups, n * d)
            base = dist.MixtureSameFamily(mixing, normal(*moments, mask))
            base = base if mask is None else Observed(base, mask)
            sample(f"x_{n}", Weighted(base, learning_rate * w), obs=observed)


two_stage.prepare = stack  # pyright: ignore[reportFunctionMemberAccess]


@numpy_in_numpy_out
def invariant(params: TwoStageParams) -> dict[str, Array]:
    """Return quantities that do not depend on the order of the components.

    ``mean`` Σ c_k μ_k (d,), ``within_average`` Σ c_k W_k (d, d) and
    ``covariance_total`` (d, d), the covariance of one instance.
    """
    c, mean = params.weights, params.weights @ params.means
    off = params.means - mean
    within = jnp.einsum("k,kij->ij", c, params.within)
    between = jnp.einsum("k,kij->ij", c, params.between)
    total = within + between + jnp.einsum("k,ki,kj->ij", c, off, off)
    return {"mean": mean, "within_average": within, "covariance_total": total}


@numpy_in_numpy_out
def simulate(
    key: jax.Array, params: TwoStageParams, data: Points | Pairs | Groups
) -> Points | Pairs | Groups:
    """Simulate instances in the same groups, with the same data weights.

    Examples
    --------
    >>> one, groups = np.ones((1, 1, 1)), Groups(np.zeros((3, 1)), np.array([0, 0, 1]))
    >>> params = TwoStageParams(np.ones(1), np.zeros((1, 1)), 0 * one, between=one)
    >>> a, b, c = simulate(jax.random.key(0), params, groups).X[:, 0]
    >>> bool(a == b), bool(a == c)  # Without W, instances of one source are equal.
    (True, False)
    """
    groups = as_groups(data)
    codes = np.unique(np.asarray(groups.group), return_inverse=True)[1]
    X = _instances(key, params, codes, groups.X, int(codes.max()) + 1)
    if isinstance(data, Pairs):
        rows = np.arange(len(X)).reshape(-1, 2)
        return data._replace(X=X, i=rows[:, 0], j=rows[:, 1])
    return data._replace(X=X)


@partial(jax.jit, static_argnames="G")
def _instances(
    key: jax.Array,
    params: TwoStageParams,
    codes: Int[Array, "n"],
    X: Float[Array, "n d"],
    G: int,
) -> Float[Array, "n d"]:
    n, d = X.shape
    key_k, key_x, key_i = jax.random.split(key, 3)
    k = jax.random.categorical(key_k, jnp.log(params.weights), shape=(G,))
    roots = [jax.vmap(psd_factor)(A) for A in (params.between, params.within)]
    noise = (
        jax.random.normal(key_x, (G, d), X.dtype),
        jax.random.normal(key_i, (n, d), X.dtype),
    )
    x = params.means[k] + jnp.einsum("gi,gij->gj", noise[0], roots[0][k])
    return x[codes] + jnp.einsum("ni,nij->nj", noise[1], roots[1][k[codes]])


def to_metric(params: TwoStageParams, *, score: Score = "log_ratio") -> PairSimilarity:
    """Return a similarity of two items: the evidence that they have the same source.

    Examples
    --------
    >>> one = np.ones((1, 1, 1))
    >>> metric = to_metric(TwoStageParams(np.ones(1), np.zeros((1, 1)), one, 9 * one))
    >>> ratio = -metric.pairwise(np.array([[3.0]]), np.array([[3.0], [-3.0]]))[0]
    >>> ratio.round(2).tolist()  # log Pr(Q, Y)/(Pr(Q) Pr(Y)): same source, different
    [1.26, -7.27]
    """
    means, within = params.means, params.within
    with np.errstate(divide="ignore"):  # A component may have weight zero.
        log_weights = numpy_in_numpy_out(jnp.log)(params.weights)
    return PairSimilarity(log_weights, means, params.between, within, score=score)
