"""Latent Coincidence Analysis (LCA): the coincidence of noisy images of two points.

The model of one pair (x, x') of points in R^d, with a linear map W (p, d), a noise
variance σ² > 0 and a squared scale κ² > 0:

1.  z ~ N(Wx, σ² I_p)  and  z' ~ N(Wx', σ² I_p), independent;
2.  y = 1 ("they coincide") with probability exp(-‖z - z'‖² / (2κ²)).

Integrating out z and z' gives the marginal form, with δ = x - x' and τ² = κ² + 2σ²:

    log P(y=1 | x, x') = -t,    t = b + ‖Wδ‖² / (2τ²),                            (1)
    b = (p/2) log(1 + 2σ²/κ²),  σ² = κ² (e^{2b/p} - 1)/2.                         (2)

If a pair is judged m times (``Pairs.trials``), the number y of *same* is binomial:

    log p(y) = log C(m, y) - y t + (m - y) log(1 - e^{-t}).                          (3)

LCA is thus a binomial regression with a log link on the squared distance δᵀ WᵀW δ. The
parameters (W, σ, κ) are identified only up to a common factor, so we set κ = 1. M =
WᵀW/τ² and b are identified. W is identified only up to rotation.

The prior is on W and b. b is used instead of σ², because e^{-b} is P(same) of identical
points for every p, whereas b grows like pσ². Densities and modes are in (W, log b), so
Eq. (2) for σ² needs no Jacobian.

References
----------
Der and Saul, "Latent Coincidence Analysis: A Hidden Variable Model for Distance
Metric Learning", NIPS 2012.
"""

# NumPyro declares keys that may be None and complex values.
# pyright: reportIncompatibleMethodOverride=false

from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jaxtyping import Float
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from probmetric.data.containers import Pairs, checked_rows, refuse_trials, weights
from probmetric.metric import Link, Mahalanobis
from probmetric.models._sample import sample, sample_log_b
from probmetric.models.distributions import drawn
from probmetric.precision import numpy_in_numpy_out, on_host, one_program
from probmetric.typing import Array, Numeric

__all__ = [
    "Coincidence",
    "LCAParams",
    "LCAPrior",
    "lca",
    "mirrored",
    "simulate",
    "to_metric",
]


class LCAParams(NamedTuple):
    """Parameters of LCA: linear map W (p, d), log σ² () and κ² ().

    σ² is the variance of the latent noise. κ² is the squared scale of coincidence, and
    is 1 in fits.
    """

    W: Float[Array, "p d"]
    log_sigma2: Float[Array, ""]
    kappa2: Float[Array, "..."] | float = 1.0


class LCAPrior(NamedTuple):
    """Normal prior of the linear map W (p, d), and gamma prior of the intercept b.

    An entry of W is normal around ``mean`` with standard deviation ``c``/√``lam``.
    ``lam`` is the strength of the prior. b has the gamma distribution with shape
    ``b_shape`` and rate ``b_rate``. P(same) of identical points is e^{-b}. By default,
    this probability is uniform on (0, 1). With ``b_rate=r`` it is Beta(r, 1).

    ``lam=0`` is a flat prior of W, and ``b_shape=b_rate=0`` is a flat prior of log b.
    With both flat priors, the fit is maximum likelihood. With equal ``lam``, the prior
    is weaker for larger p: if ``mean`` is cI, the prior mean of ‖Wδ‖² is
    (1 + p/lam) c²‖δ‖² for a difference δ of two points.

    Estimators set ``mean`` and ``c`` from the labeled pairs, which uses the data twice.
    For simulations from the prior, set ``mean`` and ``c`` without the data.
    """

    mean: Float[Array, "p d"]
    c: Float[Array, ""] | float = 1.0
    lam: Float[Array, ""] | float = 10.0
    b_shape: Float[Array, ""] | float = 1.0
    b_rate: Float[Array, ""] | float = 1.0

    @property
    def width(self) -> Numeric:
        """Prior standard deviation of an entry of W if ``lam`` is 1."""
        return self.c


@numpy_in_numpy_out
@one_program
def log1mexp(t: Float[Array, "*n"] | float) -> Float[Array, "*n"]:
    """Return log(1 - e^{-t}) for t > 0, with finite gradients (maths A4)."""
    ln2 = jnp.log(jnp.asarray(2.0, jnp.result_type(t)))
    near = jnp.log(-jnp.expm1(-jnp.minimum(t, ln2)))
    far = jnp.log1p(-jnp.exp(-jnp.maximum(t, ln2)))
    return jnp.where(t < ln2, near, far)


def _namespace(*values: Numeric) -> ModuleType:
    """Return ``jax.numpy`` if a value is a JAX array, otherwise NumPy."""
    return jnp if any(isinstance(v, jax.Array) for v in values) else np


def log_sigma2_of(
    log_b: Float[Array, "..."] | float,
    p: int,
    kappa2: Float[Array, "..."] | float = 1.0,
) -> Float[Array, "..."]:
    """Return log σ² from log b (Eq. 2), without overflow of e^{2b/p}."""
    xp = _namespace(log_b, kappa2)
    beta = 2 * xp.exp(log_b) / p
    return xp.asarray(beta + xp.log(-0.5 * xp.expm1(-beta)) + xp.log(kappa2))


def log_b_of(
    log_sigma2: Float[Array, "..."] | float,
    p: int,
    kappa2: Float[Array, "..."] | float = 1.0,
) -> Float[Array, "..."]:
    """Return log b from log σ² (Eq. 2)."""
    xp = _namespace(log_sigma2, kappa2)
    return xp.asarray(xp.log(0.5 * p * xp.log1p(2 * xp.exp(log_sigma2) / kappa2)))


@numpy_in_numpy_out
def coincidence_exponent(
    squared: Float[Array, "..."] | float,
    sigma2: Float[Array, "..."] | float,
    kappa2: Float[Array, "..."] | float,
    p: int,
) -> Float[Array, "..."]:
    """Return t = -log P(y=1 | x, x') from ‖Wδ‖² (Eq. 1)."""
    intercept = 0.5 * p * jnp.log1p(2 * sigma2 / kappa2)
    return intercept + squared / (2 * (kappa2 + 2 * sigma2))


def weakest_axis(
    W: Float[Array, "p d"], mean: Float[Array, "p d"]
) -> Float[Array, " p"]:
    """Return u (p,), the axis of WW₀ᵀ along which W is closest to its mirror image.

    Any other axis is valid too, but chains then mix less well.
    With H = I - 2uuᵀ, the log prior density at HW is lower than at W by 2λ/c² uᵀWW₀ᵀu.
    """
    C = W @ mean.T
    return _namespace(C).linalg.eigh((C + C.T) / 2)[1][:, 0]


def mirrored(prior: LCAPrior, W: Float[Array, "p d"]) -> dist.Distribution:
    """Return a symmetric prior of W, so that MCMC chains agree on the metric.

    Use it to sample ``lca`` with other samplers. ``pm.sample`` uses it automatically.

    The prior is ½ p(W) + ½ p(HW). W (p, d) is the linear map, p the density under
    ``prior``, and H a reflection. W and HW have the same likelihood, but different
    prior densities. The posterior under ``prior`` therefore has two modes with
    different metrics. If W has fewer rows than columns, no sampler moves between them.
    The symmetric prior gives *the same posterior distribution* of the metric and of b.
    Its two modes are mirror images, so chains at either mode agree.

    Parameters
    ----------
    prior : LCAPrior
        Prior of W with ``lam`` > 0. The prior of b is the default.
    W : array of shape (p, d)
        Posterior mode of W. H reflects W along the axis on which W is closest to its
        mirror image.

    Returns
    -------
    Distribution
        Pass it to ``lca`` as ``prior``.

    Examples
    --------
    >>> mirrored(LCAPrior(np.eye(2, 3)), np.eye(2, 3)).event_shape
    (2, 3)
    """
    mean = jnp.asarray(prior.mean)
    u = jnp.asarray(weakest_axis(jnp.asarray(W), mean))
    means = jnp.stack([mean, mean - 2 * jnp.outer(u, u @ mean)])
    each = dist.Normal(means, prior.width / jnp.sqrt(prior.lam)).to_event(2)
    return dist.MixtureSameFamily(dist.Categorical(jnp.full(2, 0.5)), each)


class Coincidence(dist.Distribution):
    """Distribution of a pair label y, given log P(y=1), weight and learning rate.

    Parameters
    ----------
    log_p : array
        log P(y = 1), at most 0. The log is used because P underflows for distant
        points.
    weight : array or float, default=1
        Data weight of the pair, ≥ 0. Weight 0 removes the pair from the likelihood.
    learning_rate : float, default=1
        Power of the likelihood. Use 1 for independent pairs, and about n/N for N pairs
        made from the labels of n points. ``sample``, ``mean`` and ``variance`` ignore
        the weight and the learning rate.

    Examples
    --------
    >>> y = Coincidence(np.log(0.25), weight=2.0)
    >>> round(float(y.mean), 4), round(float(np.exp(y.log_prob(1))), 4)
    (0.25, 0.0625)
    """

    arg_constraints = {  # noqa: RUF012  NumPyro's own class attribute
        "log_p": constraints.less_than_eq(0.0),
        "weight": constraints.nonnegative,
        "learning_rate": constraints.nonnegative,
    }
    support, has_enumerate_support = constraints.boolean, True  # pyright: ignore
    pytree_data_fields = ("log_p", "weight", "learning_rate")

    def __init__(
        self,
        log_p: Numeric,
        weight: Numeric = 1.0,
        learning_rate: Numeric = 1.0,
        *,
        validate_args: bool | None = None,
    ):
        self.log_p, self.weight, self.learning_rate = log_p, weight, learning_rate
        shape = jnp.broadcast_shapes(
            jnp.shape(log_p), jnp.shape(weight), jnp.shape(learning_rate)
        )
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw y in {0, 1}."""
        shape = sample_shape + self.batch_shape
        # log U < log P stays accurate when P underflows.
        exponential = jax.random.exponential(key, shape, jnp.result_type(self.log_p))
        return (-exponential < self.log_p).astype(jnp.int32)

    @validate_sample
    def log_prob(self, value: Numeric, intermediates: object = None) -> Array:
        """Return learning_rate · weight · log P(value), or 0 if the weight is 0."""
        y, power = value == 1, self.learning_rate * self.weight
        bad = (power == 0) & jnp.where(y, jnp.isneginf(self.log_p), self.log_p == 0)
        # Zero times infinity is NaN, and log P(y=0) is infinite at t = 0.
        log_p = jnp.where(bad, -1.0, self.log_p)
        return power * jnp.where(y, log_p, log1mexp(jnp.where(y, 1.0, -log_p)))

    def enumerate_support(self, expand: bool = True) -> Array:
        """Return 0 and 1 along a new leading axis."""
        values = jnp.arange(2).reshape((2,) + (1,) * len(self.batch_shape))
        return jnp.broadcast_to(values, (2, *self.batch_shape)) if expand else values

    @property
    def mean(self) -> Array:
        """P(y = 1)."""
        return jnp.broadcast_to(jnp.exp(self.log_p), self.batch_shape)

    @property
    def variance(self) -> Array:
        """P(y = 1) P(y = 0)."""
        return self.mean * -jnp.expm1(self.log_p)


class Judgments(dist.Distribution):
    """Distribution of the number y of *same* among ``trials`` judgments (Eq. 3).

    y is the sum of ``trials`` independent labels. For the other parameters see
    ``Coincidence``.
    """

    arg_constraints = {  # noqa: RUF012  NumPyro's own class attribute
        "log_p": constraints.less_than_eq(0.0),
        "trials": constraints.nonnegative_integer,
        "weight": constraints.nonnegative,
        "learning_rate": constraints.nonnegative,
    }
    pytree_data_fields = ("log_p", "trials", "weight", "learning_rate")

    def __init__(
        self,
        log_p: Numeric,
        trials: Numeric,
        weight: Numeric = 1.0,
        learning_rate: Numeric = 1.0,
        *,
        validate_args: bool | None = None,
    ):
        self.log_p, self.trials = log_p, trials
        self.weight, self.learning_rate = weight, learning_rate
        shape = jnp.broadcast_shapes(
            *map(jnp.shape, (log_p, trials, weight, learning_rate))
        )
        super().__init__(batch_shape=shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)  # pyright: ignore[reportArgumentType]
    def support(self) -> constraints.Constraint:
        """Whole numbers 0..m."""
        return constraints.integer_interval(0, self.trials)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw y in 0..m."""
        shape = sample_shape + self.batch_shape
        trials, log_p = (jnp.broadcast_to(a, shape) for a in (self.trials, self.log_p))
        return dist.Binomial(trials, jnp.exp(log_p)).sample(key).astype(jnp.int32)

    @validate_sample
    def log_prob(self, value: Numeric, intermediates: object = None) -> Array:
        """Return η · weight · log P(value); 0 for a removed pair."""
        power, other = self.learning_rate * self.weight, self.trials - value
        same = Coincidence(self.log_p, power * value, validate_args=False)
        rest = Coincidence(self.log_p, power * other, validate_args=False)
        ways = gammaln(self.trials + 1.0) - gammaln(value + 1.0) - gammaln(other + 1.0)
        return power * ways + same.log_prob(1) + rest.log_prob(0)

    @property
    def mean(self) -> Array:
        """Return m P(same)."""
        return jnp.broadcast_to(self.trials * jnp.exp(self.log_p), self.batch_shape)

    @property
    def variance(self) -> Array:
        """Return m P(same) P(different)."""
        return self.mean * -jnp.expm1(self.log_p)


def observation(
    log_p: Array,
    pairs: Pairs,
    learning_rate: Numeric = 1.0,
    chosen: Array | slice = slice(None),
) -> Coincidence | Judgments:
    """Return the distribution of y: labels, or counts if the pairs have trials."""
    w = weights(pairs)[chosen]
    if pairs.trials is None:
        return Coincidence(log_p, w, learning_rate)
    return Judgments(log_p, pairs.trials[chosen], w, learning_rate)


def _sample_W(prior: "LCAPrior | dist.Distribution") -> Array:
    if isinstance(prior, dist.Distribution):
        return sample("W", prior)
    lam = prior.lam
    if isinstance(lam, dist.Distribution):
        lam = sample("lam", lam)
    elif not isinstance(lam, jax.Array) and lam == 0:
        flat = dist.ImproperUniform(constraints.real, (), prior.mean.shape)
        return sample("W", flat)
    scale = prior.width / jnp.sqrt(lam)
    return sample("W", dist.Normal(prior.mean, scale).to_event(2))


def sample_common(
    prior: "LCAPrior | dist.Distribution",
) -> tuple[Array, Array, Array]:
    """Sample W and log b, with M and b; return W, log b and σ²."""
    W = _sample_W(prior)
    hyper = prior if isinstance(prior, LCAPrior) else LCAPrior(mean=W)
    log_b = sample_log_b(hyper.b_shape, hyper.b_rate)
    sigma2 = jnp.exp(log_sigma2_of(log_b, W.shape[0]))
    numpyro.deterministic("M", W.T @ W / (1 + 2 * sigma2))
    numpyro.deterministic("b", jnp.exp(log_b))
    return W, log_b, sigma2


def lca(
    pairs: Pairs,
    prior: "LCAPrior | dist.Distribution",
    *,
    learning_rate: Numeric = 1.0,
    latent: bool = False,
    batch: int | None = None,
) -> None:
    """Define the generative model of pair labels (NumPyro).

    The named variables (NumPyro sites) are:

    * ``W`` (p, d), the linear map.
    * ``log_b`` (), where b is -log P(same) of identical points.
    * ``y``, the labels.
    * ``lam``, if ``prior.lam`` is a Distribution.
    * ``z`` and ``z_prime``, the noisy images of both points, with ``latent``.
    * Computed from the others: the variance ``sigma2`` of the noise, the matrix ``M``
      (d, d) = WᵀW/(1 + 2σ²) of the metric, and ``b``.

    Parameters
    ----------
    pairs : Pairs
        The distribution of y is ``Coincidence``, or binomial if there are ``trials``.
    prior : LCAPrior or Distribution
        ``lam`` of an LCAPrior can be a Distribution. A Distribution of (p, d) matrices
        is used as the prior of W, with the default prior of log b.
    latent : bool, default=False
        Whether the noisy images are sampled, instead of integrated out. Counts are then
        not supported, because all judgments of a pair would share its images.
    batch : int, optional
        Number of pairs in a random subsample, for SVI. Do not use ``batch`` with MCMC,
        which would use the same subsample in all iterations.

    Raises
    ------
    ValueError
        If ``latent`` and the pairs have counts.

    Examples
    --------
    >>> from numpyro.infer import Predictive
    >>> i, prior = jnp.array([0]), LCAPrior(jnp.eye(2))
    >>> pairs = Pairs(jnp.eye(2), i, i + 1, y=None)
    >>> Predictive(lca, num_samples=3)(jax.random.key(0), pairs, prior)["M"].shape
    (3, 2, 2)
    """
    if latent:
        refuse_trials(pairs, "the latent form")
    # Some handlers trace plate indices, and NumPy arrays cannot be indexed by them.
    pairs = jax.tree.map(jnp.asarray, pairs)
    W, _, sigma2 = sample_common(prior)
    numpyro.deterministic("sigma2", sigma2)
    with numpyro.plate("pair", len(pairs.i), subsample_size=batch) as chosen:
        a, b = pairs.X[pairs.i[chosen]], pairs.X[pairs.j[chosen]]
        if latent:
            sd = jnp.sqrt(sigma2)
            z = sample("z", dist.Normal(a @ W.T, sd).to_event(1))
            z_prime = sample("z_prime", dist.Normal(b @ W.T, sd).to_event(1))
            log_p = -0.5 * jnp.sum((z - z_prime) ** 2, -1)
        else:
            squared = jnp.sum((jnp.subtract(a, b) @ W.T) ** 2, -1)
            log_p = -coincidence_exponent(squared, sigma2, 1.0, W.shape[0])
        sample(
            "y",
            observation(log_p, pairs, learning_rate, chosen),
            obs=None if pairs.y is None else pairs.y[chosen],
        )


lca.closed_form = (  # pyright: ignore[reportFunctionMemberAccess]
    "probmetric.inference.lca.target:closed_form"
)


@numpy_in_numpy_out
def simulate(key: jax.Array, params: LCAParams, pairs: Pairs) -> Pairs:
    """Simulate labels (or counts) for the same pairs, with the same data weights.

    Examples
    --------
    >>> import numpy as np
    >>> X, i, j = np.array([[0.0], [9.0]]), np.array([0, 0]), np.array([0, 1])
    >>> near_one = LCAParams(np.eye(1), np.log(1e-12))  # P(same): 1 and e^{-40.5}
    >>> simulate(jax.random.key(0), near_one, Pairs(X, i, j, None)).y.tolist()
    [1, 0]
    """
    pairs = checked_rows(pairs)
    rows = pairs.X[pairs.i], pairs.X[pairs.j]
    log_p = on_host(_log_probability(params, *rows))
    return pairs._replace(y=drawn(observation(log_p, pairs), key))


@one_program
def _log_probability(params: LCAParams, A: Array, B: Array) -> Array:
    squared = jnp.sum((jnp.subtract(A, B) @ params.W.T) ** 2, -1)
    sigma2, kappa2 = jnp.exp(params.log_sigma2), jnp.asarray(params.kappa2)
    return -coincidence_exponent(squared, sigma2, kappa2, params.W.shape[0])


@numpy_in_numpy_out
def identified(params: LCAParams) -> dict[str, Array]:
    """Return the quantities that the data determine: M (d, d) and b ()."""
    xp = _namespace(*params)
    W, sigma2 = params.W, xp.exp(params.log_sigma2)
    return {
        "M": W.T @ W / (params.kappa2 + 2 * sigma2),
        "b": 0.5 * W.shape[0] * xp.log1p(2 * sigma2 / params.kappa2),
    }


@numpy_in_numpy_out
def to_metric(params: LCAParams) -> Mahalanobis:
    """Return the learned metric, with P(same).

    Its linear map is W/√(κ² + 2σ²), with the parameters W, σ² and κ².

    Examples
    --------
    >>> to_metric(LCAParams(2 * np.eye(1), np.log(1.5))).factor.round(4).tolist()
    [[1.0]]
    """
    (W, log_sigma2, kappa2), xp = params, _namespace(*params)
    with np.errstate(over="ignore"):
        sigma2, b = xp.exp(log_sigma2), xp.asarray(identified(params)["b"])
    return Mahalanobis(W / xp.sqrt(kappa2 + 2 * sigma2), Link(b, xp.full_like(b, 0.5)))
