"""NumPyro distributions of observations: weighted, tempered, partly missing.

``ClassLabel``     class of a point, with data weight w and learning rate η:
                   η w log p(c).
``ClassNormal``    a point given its class, η w log N(x; μ_y, Σ_y); missing entries are
                   integrated out on request.
``normal``, ``Observed``
                   a normal distribution with some entries missing (NaN).
``Weighted``       any distribution, its log density multiplied by a weight.
"""

# NumPyro declares keys that may be None and complex values.
# pyright: reportIncompatibleMethodOverride=false

from typing import cast

import jax
import jax.numpy as jnp
from jaxtyping import Bool
from numpyro import distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from probmetric.densities.gaussian import (
    LOG_2PI,
    log_normal,
    log_normal_seen,
    restricted,
)
from probmetric.typing import Array, Numeric

__all__ = ["ClassLabel", "ClassNormal", "Observed", "Weighted"]


def drawn(distribution: dist.Distribution, key: jax.Array) -> jax.Array:
    """Draw one sample. The program is compiled once for each type and shape."""
    return _drawn(distribution, key)


@jax.jit
def _drawn(distribution: dist.Distribution, key: jax.Array) -> jax.Array:
    return cast("jax.Array", distribution.sample(key))


class ClassLabel(dist.Distribution):
    """The class of a point, given log p(c), data weight and power of the likelihood.

    ``log_prob`` is learning_rate · weight · log p(class). It is 0 for a point of weight
    zero, and NaN for an unknown class code. ``sample``, ``mean`` and ``variance``
    ignore the weight and the learning rate. The mean and the variance treat the class
    code as a number.

    Examples
    --------
    >>> import numpy as np
    >>> label = ClassLabel(np.log([0.25, 0.75]), weight=2.0)
    >>> round(float(np.exp(label.log_prob(1))), 4), round(float(label.mean), 4)
    (0.5625, 0.75)
    """

    arg_constraints = {  # noqa: RUF012  NumPyro's own class attribute
        "log_p": constraints.real_vector,
        "weight": constraints.nonnegative,
        "learning_rate": constraints.nonnegative,
    }
    support = constraints.nonnegative_integer  # pyright: ignore
    has_enumerate_support = True
    pytree_data_fields = ("log_p", "weight", "learning_rate")

    def __init__(
        self,
        log_p: Array,
        weight: Numeric = 1.0,
        learning_rate: Numeric = 1.0,
        *,
        validate_args: bool | None = None,
    ):
        self.log_p, self.weight, self.learning_rate = log_p, weight, learning_rate
        shape = jnp.broadcast_shapes(
            jnp.shape(log_p)[:-1], jnp.shape(weight), jnp.shape(learning_rate)
        )
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw a class code."""
        shape = sample_shape + self.batch_shape
        return jax.random.categorical(key, self.log_p, shape=shape)

    @validate_sample
    def log_prob(self, value: Numeric, intermediates: object = None) -> Array:
        """Return learning_rate · weight · log p(value)."""
        power, value = self.learning_rate * self.weight, jnp.asarray(value)
        shape = jnp.broadcast_shapes(jnp.shape(value), self.batch_shape)
        log_p = jnp.broadcast_to(self.log_p, shape + jnp.shape(self.log_p)[-1:])
        codes = jnp.broadcast_to(value, shape)[..., None]
        picked = jnp.take_along_axis(log_p, codes, -1)[..., 0]
        picked = jnp.where(value < 0, jnp.nan, picked)  # -1 would be the last class.
        return power * jnp.where((power == 0) & jnp.isneginf(picked), 0.0, picked)

    def enumerate_support(self, expand: bool = True) -> Array:
        """Return all class codes along a new leading axis."""
        codes = jnp.arange(jnp.shape(self.log_p)[-1])
        values = codes.reshape(codes.shape + (1,) * len(self.batch_shape))
        shape = codes.shape + self.batch_shape
        return jnp.broadcast_to(values, shape) if expand else values

    @property
    def mean(self) -> Array:
        """Mean class code: Σ c p(c)."""
        return self._moment(1)

    @property
    def variance(self) -> Array:
        """Variance of the class code: Σ (c - mean)² p(c)."""
        return self._moment(2) - self._moment(1) ** 2

    def _moment(self, power: int) -> Array:
        p = jax.nn.softmax(self.log_p, -1)  # As ``sample`` reads it.
        codes = jnp.arange(p.shape[-1])
        return jnp.broadcast_to(jnp.sum(p * codes**power, -1), self.batch_shape)


class _PartlyReal(constraints.Constraint):
    """Real vectors with NaN where an entry is missing."""

    event_dim = 1

    def __call__(self, x: Array) -> Array:
        return ~jnp.any(jnp.isinf(x), -1)

    def tree_flatten(self) -> tuple[tuple[()], tuple[tuple[()], dict[str, object]]]:
        return (), ((), {})


PARTLY_REAL = _PartlyReal()
"""Support of vectors that may have missing entries."""


class ClassNormal(dist.Distribution):
    """Normal distribution of points x given their class codes y.

    x has mean ``loc[y]`` and covariance ``chol[y] chol[y]ᵀ``. ``sample``, ``mean`` and
    ``variance`` ignore weights and missing entries.

    Parameters
    ----------
    loc : array of shape (c, d)
    chol : array of shape (c, d, d), or (1, d, d) if the classes share it
        Lower Cholesky factors of the covariances.
    y : array of int
        Class codes, of any shape.
    weight, learning_rate : array or float, default=1
        Data weight ≥ 0 of each point, and power of the likelihood. Weight zero removes
        a point, even if it has NaN.
    missing : bool, default=False
        If True, NaN entries of x are integrated out exactly, with one Cholesky factor
        for each point (cost n d³). If False, NaN entries make the density NaN.

    Examples
    --------
    >>> import numpy as np
    >>> loc, tied, y = np.array([[0.0], [5.0]]), np.ones((1, 1, 1)), np.array([1])
    >>> point = ClassNormal(loc, tied, y, weight=2.0)
    >>> round(float(point.log_prob(np.array([[5.0]]))[0]), 4)  # 2 · -½ log 2π
    -1.8379
    """

    arg_constraints = {  # noqa: RUF012  NumPyro's own class attribute
        "loc": constraints.independent(constraints.real, 2),
        "chol": constraints.independent(constraints.lower_cholesky, 1),
        "weight": constraints.nonnegative,
        "learning_rate": constraints.nonnegative,
    }
    pytree_data_fields = ("loc", "chol", "y", "weight", "learning_rate")
    pytree_aux_fields = ("missing",)

    def __init__(
        self,
        loc: Array,
        chol: Array,
        y: Array,
        weight: Numeric = 1.0,
        learning_rate: Numeric = 1.0,
        *,
        missing: bool = False,
        validate_args: bool | None = None,
    ):
        # NumPy arrays cannot be indexed by traced class codes.
        self.loc, self.chol, self.y = jnp.asarray(loc), jnp.asarray(chol), y
        self.weight, self.learning_rate, self.missing = weight, learning_rate, missing
        super().__init__(
            batch_shape=jnp.broadcast_shapes(
                jnp.shape(y), jnp.shape(weight), jnp.shape(learning_rate)
            ),
            event_shape=jnp.shape(loc)[-1:],
            validate_args=validate_args,
        )

    @constraints.dependent_property(is_discrete=False, event_dim=1)  # pyright: ignore[reportArgumentType]
    def support(self) -> constraints.Constraint:
        """Real vectors; NaN entries are allowed if ``missing``."""
        return PARTLY_REAL if self.missing else constraints.real_vector

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draw points without missing entries."""
        shape = sample_shape + self.batch_shape + self.event_shape
        noise = jax.random.normal(key, shape, jnp.result_type(self.loc))
        return self.loc[self.y] + jnp.einsum("...ij,...j->...i", self._factors(), noise)

    @property
    def mean(self) -> Array:
        """Mean of each point: the location of its class."""
        return jnp.broadcast_to(self.loc[self.y], self.batch_shape + self.event_shape)

    @property
    def variance(self) -> Array:
        """Variance of each point: the diagonal of the covariance of its class."""
        diagonal = jnp.sum(self._factors() ** 2, -1)
        return jnp.broadcast_to(diagonal, self.batch_shape + self.event_shape)

    def _factors(self) -> Array:
        shape = self.loc.shape + self.loc.shape[-1:]
        return jnp.broadcast_to(self.chol, shape)[self.y]

    @validate_sample
    def log_prob(self, value: Numeric, intermediates: object = None) -> Array:
        """Return learning_rate · weight · log density of x.

        With ``missing``, it is the density of the entries that are not NaN.
        """
        power, value = self.learning_rate * self.weight, jnp.asarray(value)
        shape = jnp.broadcast_shapes(jnp.shape(value)[:-1], self.batch_shape)
        value = jnp.broadcast_to(value, shape + self.event_shape)
        y = jnp.broadcast_to(self.y, shape)
        # Zero times NaN would be NaN, and so would its gradient.
        removed = jnp.broadcast_to(power == 0, shape)[..., None] & ~jnp.isfinite(value)
        value = jnp.where(removed, self.loc[y], value)
        density = self._partly if self.missing else self._whole
        plain = density(value.reshape(-1, *self.event_shape), jnp.ravel(y))
        return power * plain.reshape(shape)

    def _whole(self, value: Array, y: Array) -> Array:
        delta = value - self.loc[y]
        # One solve per class for all points, instead of n factors of size d².
        each = jax.vmap(lambda L: log_normal(L, delta))(self.chol)
        return each[0 if len(self.chol) == 1 else y, jnp.arange(len(y))]

    def _partly(self, value: Array, y: Array) -> Array:
        cov = self.chol @ jnp.swapaxes(self.chol, -1, -2)
        cov = jnp.broadcast_to(cov, self.loc.shape + value.shape[-1:])
        each = jax.vmap(lambda x, y: log_normal_seen(x, self.loc[y], cov[y]))
        return each(value, y)


def normal(
    loc: Array, cov: Array, seen: Bool[Array, "G nd"] | None = None
) -> dist.MultivariateNormal:
    """Return N(loc, cov), with unobserved entries replaced by independent N(0, 1)."""
    loc, cov = jnp.asarray(loc), jnp.asarray(cov)
    if seen is not None:
        loc = jnp.where(seen[:, None], loc, 0.0)
        cov = restricted(cov, seen[:, None])
    # NumPyro does not broadcast a batched loc against batched covariances.
    batch = jnp.broadcast_shapes(loc.shape[:-1], cov.shape[:-2])
    loc = jnp.broadcast_to(loc, (*batch, loc.shape[-1]))
    cov = jnp.broadcast_to(cov, (*batch, *cov.shape[-2:]))
    return dist.MultivariateNormal(loc, covariance_matrix=cov)


class _Reweighted(dist.Distribution):
    """Draws and moments of ``base_dist``, with a changed log density."""

    pytree_data_fields = ("base_dist",)

    def __init__(
        self,
        base_dist: dist.Distribution,
        batch_shape: tuple[int, ...],
        *,
        validate_args: bool | None = None,
    ):
        self.base_dist = base_dist
        shape = jnp.broadcast_shapes(base_dist.batch_shape, batch_shape)
        super().__init__(shape, base_dist.event_shape, validate_args=validate_args)

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> Array:
        draws = self.base_dist.expand(self.batch_shape).sample(key, sample_shape)
        return cast("jax.Array", draws)

    @property
    def mean(self) -> Array:
        return self.base_dist.expand(self.batch_shape).mean

    @property
    def variance(self) -> Array:
        return self.base_dist.expand(self.batch_shape).variance


class Observed(_Reweighted):
    """Marginal distribution of observed entries, if all others are NaN.

    ``seen`` is True for the observed entries. In ``base_dist`` the other entries must
    be independent of all entries, with distribution N(0, 1). ``log_prob`` sets them to
    0 and divides by their density.

    Examples
    --------
    >>> import numpy as np
    >>> seen = np.array([[True, False]])
    >>> x = Observed(normal(np.ones((1, 2)), np.eye(2)[None], seen), seen[0])
    >>> round(float(x.log_prob(np.array([1.0, np.nan]))[0, 0]), 4)  # -½ log 2π
    -0.9189
    """

    arg_constraints = {"seen": constraints.boolean}  # noqa: RUF012  NumPyro's own
    pytree_data_fields = ("seen",)

    def __init__(
        self,
        base_dist: dist.Distribution,
        seen: Array,
        *,
        validate_args: bool | None = None,
    ):
        self.seen = seen
        super().__init__(base_dist, jnp.shape(seen)[:-1], validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """Real vectors; unobserved entries can be NaN."""
        return PARTLY_REAL

    def log_prob(self, value: Array, intermediates: object = None) -> Array:
        """Return the log density of the observed entries."""
        missing = 0.5 * LOG_2PI * jnp.sum(~self.seen, -1)
        return self.base_dist.log_prob(jnp.where(self.seen, value, 0.0)) + missing


class Weighted(_Reweighted):
    """A distribution whose log density is multiplied by ``weight`` ≥ 0.

    Weight zero removes the observation. ``sample``, ``mean`` and ``variance`` ignore
    the weight, because a power of a density has no moments.

    Examples
    --------
    >>> twice = Weighted(dist.Normal(0.0, 1.0), 2.0)
    >>> round(float(twice.log_prob(0.0)), 4)  # -log 2π
    -1.8379
    """

    arg_constraints = {"weight": constraints.nonnegative}  # noqa: RUF012  NumPyro's own
    pytree_data_fields = ("weight",)

    def __init__(
        self,
        base_dist: dist.Distribution,
        weight: Numeric,
        *,
        validate_args: bool | None = None,
    ):
        self.weight = weight
        super().__init__(base_dist, jnp.shape(weight), validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint | None:
        """The support of the base distribution."""
        return self.base_dist.support

    def log_prob(self, value: Numeric, intermediates: object = None) -> Array:
        """Return weight · log density; 0 for a removed observation."""
        plain = self.base_dist.log_prob(value)
        removed = (self.weight == 0) & ~jnp.isfinite(plain)
        return self.weight * jnp.where(removed, 0.0, plain)
