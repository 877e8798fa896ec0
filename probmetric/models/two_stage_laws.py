"""Laws of the instances of one source, batched over components, as distributions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Bool, Float
from numpyro.distributions import constraints

from probmetric.models.class_normal import PARTLY_REAL
from probmetric.precision import numpy_in_numpy_out
from probmetric.typing import Array

__all__ = ["Observed", "Weighted", "group_moments", "instance_moments", "normal"]

LOG_2PI = 1.8378770664093453


@numpy_in_numpy_out
def group_moments(params: Any, n: int) -> tuple[Any, Any]:
    """Return mean (k, n·d) and covariance of n instances given the component."""
    ones, eye = jnp.ones((n, n)), jnp.eye(n)
    cov = jax.vmap(lambda B, W: jnp.kron(ones, B) + jnp.kron(eye, W))(
        params.between, params.within
    )
    return jnp.tile(params.means, (1, n)), cov


@numpy_in_numpy_out
def instance_moments(
    x: Float[Array, "... d"], within: Float[Array, "k d d"], n: int
) -> tuple[Any, Any]:
    """Return those of n instances given the representative x and the component."""
    cov = jax.vmap(lambda W: jnp.kron(jnp.eye(n), W))(within)
    return jnp.tile(x, n)[..., None, :], cov


def normal(
    loc: Any, cov: Any, seen: Bool[Array, "G nd"] | None = None
) -> dist.MultivariateNormal:
    """Return N(loc, cov), with the unseen entries made independent N(0, 1)."""
    if seen is not None:
        both = seen[:, None, :, None] & seen[:, None, None, :]
        loc = jnp.where(seen[:, None], loc, 0.0)
        cov = jnp.where(both, cov, jnp.eye(cov.shape[-1]))
    # NumPyro's own broadcasting of a batched loc against batched covariances fails.
    batch: Any = jnp.broadcast_shapes(loc.shape[:-1], cov.shape[:-2])
    loc = jnp.broadcast_to(loc, (*batch, loc.shape[-1]))
    cov = jnp.broadcast_to(cov, (*batch, *cov.shape[-2:]))
    return dist.MultivariateNormal(loc, covariance_matrix=cov)


class Observed(dist.Distribution):
    """A law of which only the entries ``seen`` were observed; the others are NaN.

    ``base_dist`` takes unseen entries as independent N(0, 1) ones (``normal``), whose
    density at 0 is divided out: a density of the seen entries alone. ``sample``,
    ``mean`` and ``variance`` are those of ``base_dist``, unseen entries N(0, 1).
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
        """Draw from the base law."""
        return self.base_dist.expand(self.batch_shape).sample(key, sample_shape)

    @property
    def mean(self) -> Any:
        """The mean of the base law."""
        return self.base_dist.expand(self.batch_shape).mean

    @property
    def variance(self) -> Any:
        """The variance of the base law."""
        return self.base_dist.expand(self.batch_shape).variance

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return the log density of the entries that were observed."""
        unseen = 0.5 * LOG_2PI * jnp.sum(~self.seen, -1)
        return self.base_dist.log_prob(jnp.where(self.seen, value, 0.0)) + unseen


class Weighted(dist.Distribution):
    """A distribution whose log density is multiplied by ``weight`` ≥ 0.

    Zero removes it. The power of a density does not integrate to one, and has no
    moments of its own: ``sample``, ``mean`` and ``variance`` ignore the weight.
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
