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

    ``log_prob`` is η · weight · log p(class), NaN for a code beyond the last class;
    ``sample`` is that of a plain categorical.
    """

    arg_constraints = {  # noqa: RUF012  NumPyro's own class attribute
        "log_p": constraints.real_vector,
        "weight": constraints.nonnegative,
        "learning_rate": constraints.nonnegative,
    }
    support: Any = constraints.nonnegative_integer
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
        super().__init__(batch_shape=jnp.shape(log_p)[:-1], validate_args=validate_args)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw a class code."""
        shape = sample_shape + self.batch_shape
        return jax.random.categorical(key, self.log_p, shape=shape)

    @validate_sample
    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return η · weight · log p(value)."""
        picked = jnp.take_along_axis(self.log_p, value[..., None], -1)[..., 0]
        return self.learning_rate * self.weight * picked
