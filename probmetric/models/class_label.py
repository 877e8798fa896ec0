"""The observed class of a point as a Distribution with weight and learning rate."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.util import validate_sample

__all__ = ["ClassLabel"]


class ClassLabel(dist.Distribution):
    """The class of a point, given log p(c), a data weight and a learning rate.

    ``log_prob`` is η · weight · log p(class), NaN for a code that is no class, 0 for a
    point of weight zero; ``sample``, ``mean`` and ``variance`` are those of a plain
    categorical, the moments those of the code as a number.
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
