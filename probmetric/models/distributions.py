"""NumPyro distributions of observations: weighted, tempered, partly missing.

``ClassLabel``     class of a point, with data weight w and learning rate η:
                   η w log p(c).
``ClassNormal``    a point given its class, η w log N(x; μ_y, Σ_y), missing entries
                   integrated out on request.
``group_moments``, ``instance_moments``
                   of the n instances of one source, given the component k:
                   N(1 ⊗ μ_k, 1 1ᵀ ⊗ B_k + I ⊗ W_k), and given the representative x
                   too: N(1 ⊗ x, I ⊗ W_k).
``normal``, ``Observed``
                   a normal distribution of which some entries are missing (NaN).
``Weighted``       any distribution, its log density multiplied by a weight.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float
from numpyro import distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

from probmetric.densities.gaussian import (
    LOG_2PI,
    log_normal,
    log_normal_seen,
    restricted,
)
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array


def drawn(distribution: dist.Distribution, key: Any) -> Any:
    """Return a draw of the distribution, by one program for all of its kind and shape.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from probmetric.models.distributions import ClassLabel, drawn
    >>> int(drawn(ClassLabel(np.log([1e-30, 1.0])), jax.random.key(0)))
    1
    """
    return _drawn(distribution, key)


@jax.jit
def _drawn(distribution: Any, key: Any) -> Any:
    return distribution.sample(key)


class ClassLabel(dist.Distribution):
    """The class of a point, given log p(c), a data weight and a learning rate.

    ``log_prob`` is η · weight · log p(class), NaN for a code that is no class, 0 for a
    point of weight zero; ``sample``, ``mean`` and ``variance`` are those of a plain
    categorical, the moments those of the code as a number.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.models.distributions import ClassLabel
    >>> label = ClassLabel(np.log([0.25, 0.75]), weight=2.0)
    >>> round(float(np.exp(label.log_prob(1))), 4)  # .75²
    0.5625
    >>> round(float(label.mean), 4)
    0.75
    """

    arg_constraints = {  # noqa: RUF012  NumPyro's own class attribute
        "log_p": constraints.real_vector,
        "weight": constraints.nonnegative,
        "learning_rate": constraints.nonnegative,
    }
    support: Any = constraints.nonnegative_integer
    has_enumerate_support = True
    pytree_data_fields = ("log_p", "weight", "learning_rate")

    def __init__(
        self,
        log_p: Any,
        weight: Any = 1.0,
        learning_rate: Any = 1.0,
        *,
        validate_args: bool | None = None,
    ):
        self.log_p, self.weight, self.learning_rate = log_p, weight, learning_rate
        shape = jnp.broadcast_shapes(
            jnp.shape(log_p)[:-1], jnp.shape(weight), jnp.shape(learning_rate)
        )
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw a class code."""
        shape = sample_shape + self.batch_shape
        return jax.random.categorical(key, self.log_p, shape=shape)

    @validate_sample
    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return η · weight · log p(value)."""
        power, value = self.learning_rate * self.weight, jnp.asarray(value)
        shape = jnp.broadcast_shapes(jnp.shape(value), self.batch_shape)
        log_p = jnp.broadcast_to(self.log_p, shape + jnp.shape(self.log_p)[-1:])
        codes = jnp.broadcast_to(value, shape)[..., None]
        picked = jnp.take_along_axis(log_p, codes, -1)[..., 0]
        picked = jnp.where(value < 0, jnp.nan, picked)  # -1 would be the last class.
        return power * jnp.where((power == 0) & jnp.isneginf(picked), 0.0, picked)

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return the class codes, before the axes of the batch."""
        codes = jnp.arange(jnp.shape(self.log_p)[-1])
        values = codes.reshape(codes.shape + (1,) * len(self.batch_shape))
        shape = codes.shape + self.batch_shape
        return jnp.broadcast_to(values, shape) if expand else values

    @property
    def mean(self) -> Any:
        """Σ c p(c)."""
        return self._moment(1)

    @property
    def variance(self) -> Any:
        """Σ (c - mean)² p(c)."""
        return self._moment(2) - self._moment(1) ** 2

    def _moment(self, power: int) -> Any:
        p = jax.nn.softmax(self.log_p, -1)  # As ``sample`` reads it.
        codes = jnp.arange(p.shape[-1])
        return jnp.broadcast_to(jnp.sum(p * codes**power, -1), self.batch_shape)


class _PartlyReal(constraints.Constraint):
    """Real vectors with NaN where an entry is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.models.distributions import PARTLY_REAL
    >>> PARTLY_REAL(np.array([[0.0, np.nan], [0.0, np.inf]])).tolist()
    [True, False]
    """

    event_dim = 1

    def __call__(self, x: Any) -> Any:
        return ~jnp.any(jnp.isinf(x), -1)

    def tree_flatten(self) -> Any:
        return (), ((), {})


PARTLY_REAL = _PartlyReal()
"""The support of vectors of which entries may be missing."""


class ClassNormal(dist.Distribution):
    """x ~ N(loc[y], chol[y] chol[y]ᵀ) for given class codes y.

    Parameters
    ----------
    loc : array of shape (c, d)
    chol : array of shape (c, d, d), or (1, d, d) where the classes share it
        Lower Cholesky factors of the covariances.
    y : array of int, of any shape, usually (n,)
        Class codes.
    weight : array or float, default=1
        Data weight of each point, ≥ 0; zero removes it, NaN or not.
    learning_rate : float, default=1
        Power η on the likelihood.
    missing : bool, default=False
        NaN entries of x are integrated out exactly: the density is that of the
        entries that are there, by one Cholesky factor a point (n d³). Otherwise a
        NaN gives NaN.

    Notes
    -----
    ``log_prob`` is η · weight · log density; ``sample`` draws whole points from the
    plain normal, whose moments ``mean`` and ``variance`` are.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.models.distributions import ClassNormal
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
        loc: Any,
        chol: Any,
        y: Any,
        weight: Any = 1.0,
        learning_rate: Any = 1.0,
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
    def support(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Real vectors; NaN belongs to them where it stands for a missing entry."""
        return PARTLY_REAL if self.missing else constraints.real_vector

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw whole points."""
        shape = sample_shape + self.batch_shape + self.event_shape
        noise = jax.random.normal(key, shape, jnp.result_type(self.loc))
        return self.loc[self.y] + jnp.einsum("...ij,...j->...i", self._own(), noise)

    @property
    def mean(self) -> Any:
        """The class's loc."""
        return jnp.broadcast_to(self.loc[self.y], self.batch_shape + self.event_shape)

    @property
    def variance(self) -> Any:
        """The diagonal of the class's covariance."""
        diagonal = jnp.sum(self._own() ** 2, -1)
        return jnp.broadcast_to(diagonal, self.batch_shape + self.event_shape)

    def _own(self) -> Any:
        """Return each point's Cholesky factor."""
        shape = self.loc.shape + self.loc.shape[-1:]
        return jnp.broadcast_to(self.chol, shape)[self.y]

    @validate_sample
    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return η · weight · log density of the entries that are there."""
        power, value = self.learning_rate * self.weight, jnp.asarray(value)
        shape = jnp.broadcast_shapes(jnp.shape(value)[:-1], self.batch_shape)
        value = jnp.broadcast_to(value, shape + self.event_shape)
        y = jnp.broadcast_to(self.y, shape)
        # Zero times NaN would be NaN, and so would its gradient.
        gone = jnp.broadcast_to(power == 0, shape)[..., None] & ~jnp.isfinite(value)
        value = jnp.where(gone, self.loc[y], value)
        density = self._partly if self.missing else self._whole
        plain = density(value.reshape(-1, *self.event_shape), jnp.ravel(y))
        return power * plain.reshape(shape)

    def _whole(self, value: Any, y: Any) -> Any:
        delta = value - self.loc[y]
        # One solve a class for all points, then each point's own: no n · d² factors.
        each = jax.vmap(lambda L: log_normal(L, delta))(self.chol)
        return each[0 if len(self.chol) == 1 else y, jnp.arange(len(y))]

    def _partly(self, value: Any, y: Any) -> Any:
        cov = self.chol @ jnp.swapaxes(self.chol, -1, -2)
        cov = jnp.broadcast_to(cov, self.loc.shape + value.shape[-1:])
        each = jax.vmap(lambda x, y: log_normal_seen(x, self.loc[y], cov[y]))
        return each(value, y)


@numpy_in_numpy_out
def group_moments(params: Any, n: int) -> tuple[Any, Any]:
    """Return mean (k, n·d) and covariance of n instances given the component.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.models.distributions import group_moments
    >>> from probmetric.models.two_stage import TwoStageParams
    >>> B, W = 3 * np.ones((1, 1, 1)), np.ones((1, 1, 1))
    >>> mean, cov = group_moments(TwoStageParams(np.ones(1), np.zeros((1, 1)), W, B), 2)
    >>> cov.tolist()  # What two instances share is B.
    [[[4.0, 3.0], [3.0, 4.0]]]
    """
    ones, eye = jnp.ones((n, n)), jnp.eye(n)
    cov = jax.vmap(lambda B, W: jnp.kron(ones, B) + jnp.kron(eye, W))(
        params.between, params.within
    )
    return jnp.tile(params.means, (1, n)), cov


@numpy_in_numpy_out
def instance_moments(
    x: Float[Array, "... d"], within: Float[Array, "k d d"], n: int
) -> tuple[Any, Any]:
    """Return those of n instances given the representative x and the component.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.models.distributions import instance_moments
    >>> mean, cov = instance_moments(np.array([7.0]), 2 * np.ones((1, 1, 1)), 2)
    >>> mean.tolist(), cov.tolist()  # Independent, given the representative.
    ([[7.0, 7.0]], [[[2.0, 0.0], [0.0, 2.0]]])
    """
    cov = jax.vmap(lambda W: jnp.kron(jnp.eye(n), W))(within)
    return jnp.tile(x, n)[..., None, :], cov


def normal(
    loc: Any, cov: Any, seen: Bool[Array, "G nd"] | None = None
) -> dist.MultivariateNormal:
    """Return N(loc, cov), with the unseen entries made independent N(0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.models.distributions import normal
    >>> cov, seen = np.array([[[4.0, 2.0], [2.0, 4.0]]]), np.array([[True, False]])
    >>> normal(np.ones((1, 2)), cov, seen).covariance_matrix.tolist()
    [[[[4.0, 0.0], [0.0, 1.0]]]]
    """
    loc, cov = jnp.asarray(loc), jnp.asarray(cov)
    if seen is not None:
        loc = jnp.where(seen[:, None], loc, 0.0)
        cov = restricted(cov, seen[:, None])
    # NumPyro's own broadcasting of a batched loc against batched covariances fails.
    batch: Any = jnp.broadcast_shapes(loc.shape[:-1], cov.shape[:-2])
    loc = jnp.broadcast_to(loc, (*batch, loc.shape[-1]))
    cov = jnp.broadcast_to(cov, (*batch, *cov.shape[-2:]))
    return dist.MultivariateNormal(loc, covariance_matrix=cov)


class Observed(dist.Distribution):
    """A distribution of which only the entries ``seen`` are observed (else NaN).

    ``base_dist`` takes unseen entries as independent N(0, 1) ones (``normal``), whose
    density at 0 is divided out: a density of the seen entries alone. ``sample``,
    ``mean`` and ``variance`` are those of ``base_dist``, unseen entries N(0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.models.distributions import Observed, normal
    >>> seen = np.array([[True, False]])
    >>> x = Observed(normal(np.ones((1, 2)), np.eye(2)[None], seen), seen[0])
    >>> round(float(x.log_prob(np.array([1.0, np.nan]))[0, 0]), 4)  # -½ log 2π
    -0.9189
    """

    arg_constraints = {"seen": constraints.boolean}  # noqa: RUF012  NumPyro's own
    pytree_data_fields = ("base_dist", "seen")

    def __init__(self, base_dist: Any, seen: Any, *, validate_args: Any = None):
        self.base_dist, self.seen = base_dist, seen
        shape: Any = jnp.broadcast_shapes(base_dist.batch_shape, jnp.shape(seen)[:-1])
        super().__init__(shape, base_dist.event_shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Real vectors, and NaN for an entry that was not observed."""
        return PARTLY_REAL

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw from the base distribution."""
        return self.base_dist.expand(self.batch_shape).sample(key, sample_shape)

    @property
    def mean(self) -> Any:
        """The mean of the base distribution."""
        return self.base_dist.expand(self.batch_shape).mean

    @property
    def variance(self) -> Any:
        """The variance of the base distribution."""
        return self.base_dist.expand(self.batch_shape).variance

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return the log density of the entries that were observed."""
        unseen = 0.5 * LOG_2PI * jnp.sum(~self.seen, -1)
        return self.base_dist.log_prob(jnp.where(self.seen, value, 0.0)) + unseen


class Weighted(dist.Distribution):
    """A distribution whose log density is multiplied by ``weight`` ≥ 0.

    Zero removes it. The power of a density does not integrate to one, and has no
    moments of its own: ``sample``, ``mean`` and ``variance`` ignore the weight.

    Examples
    --------
    >>> import numpyro.distributions as dist
    >>> from probmetric.models.distributions import Weighted
    >>> twice = Weighted(dist.Normal(0.0, 1.0), 2.0)
    >>> round(float(twice.log_prob(0.0)), 4)  # -log 2π
    -1.8379
    """

    arg_constraints = {"weight": constraints.nonnegative}  # noqa: RUF012  NumPyro's own
    pytree_data_fields = ("base_dist", "weight")

    def __init__(self, base_dist: Any, weight: Any, *, validate_args: Any = None):
        self.base_dist, self.weight = base_dist, weight
        shape: Any = jnp.broadcast_shapes(base_dist.batch_shape, jnp.shape(weight))
        super().__init__(shape, base_dist.event_shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """The support of the distribution that is weighted."""
        return self.base_dist.support

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw from the distribution that is weighted."""
        return self.base_dist.expand(self.batch_shape).sample(key, sample_shape)

    @property
    def mean(self) -> Any:
        """The mean of the distribution that is weighted."""
        return self.base_dist.expand(self.batch_shape).mean

    @property
    def variance(self) -> Any:
        """The variance of the distribution that is weighted."""
        return self.base_dist.expand(self.batch_shape).variance

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return weight · log density; 0 for what is removed."""
        plain = self.base_dist.log_prob(value)
        gone = (self.weight == 0) & ~jnp.isfinite(plain)
        return self.weight * jnp.where(gone, 0.0, plain)
