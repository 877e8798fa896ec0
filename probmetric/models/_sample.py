"""NumPyro sites that several models share."""

from collections.abc import Callable
from typing import cast

import jax
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.distributions.transforms import ExpTransform

from probmetric.typing import Array, Numeric

# The declared return type of NumPyro's function includes Python numbers.
sample = cast("Callable[..., Array]", numpyro.sample)


def sample_log_b(shape: Numeric, rate: Numeric) -> Array:
    """Sample log b with b ~ Gamma(shape, rate), or with a flat prior if shape is 0."""
    if not isinstance(shape, jax.Array) and shape == 0:
        return sample("log_b", dist.ImproperUniform(constraints.real, (), ()))
    log, b = ExpTransform().inv, dist.Gamma(shape, rate)
    return sample("log_b", dist.TransformedDistribution(b, log))
