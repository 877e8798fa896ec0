"""Parameters and additive statistics of the normal mixture, of points and of groups."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from probmetric.typing import Array

__all__ = ["GroupStats", "MixtureParams", "MixtureStats", "zero_stats"]


class MixtureParams(NamedTuple):
    """Weights c (k,), means μ (k, d), covariances S = B + W (k, d, d)."""

    weights: Float[Array, "k"]
    means: Float[Array, "k d"]
    covariances: Float[Array, "k d d"]


class MixtureStats(NamedTuple):
    """Sums over rows: log likelihood, R (k,), and f (k, d), F (k, d, d) about a centre.

    Those of disjoint sets of rows under the same parameters add up.
    """

    log_likelihood: Float[Array, ""]
    mass: Float[Array, "k"]
    first: Float[Array, "k d"]
    second: Float[Array, "k d d"]


class GroupStats(NamedTuple):
    """The sums of Eq. (3) of ``two_stage.groups``; of disjoint groups they add up."""

    log_likelihood: Float[Array, ""]
    mass: Float[Array, "k"]
    instances: Float[Array, "k"]
    first: Float[Array, "k d"]
    between: Float[Array, "k d d"]
    within: Float[Array, "k d d"]


def zero_stats(k: int, d: int, dtype: Any) -> MixtureStats:
    """Return the statistics of no rows."""
    shapes = (), (k,), (k, d), (k, d, d)
    return MixtureStats(*[jnp.zeros(shape, dtype) for shape in shapes])
