"""Parameters and additive statistics of the normal mixture, for points and for groups.

The module also contains two steps of all E-steps: the restriction of a row to its known
component, and responsibilities.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from probmetric.typing import Array


class MixtureParams(NamedTuple):
    """Mixture weights c, means μ and covariances S = B + W."""

    weights: Float[Array, "k"]
    means: Float[Array, "k d"]
    covariances: Float[Array, "k d d"]


class MixtureStats(NamedTuple):
    """Sums over rows: log likelihood, R, centered f and F; disjoint rows add up."""

    log_likelihood: Float[Array, ""]
    mass: Float[Array, "k"]
    first: Float[Array, "k d"]
    second: Float[Array, "k d d"]


class GroupStats(NamedTuple):
    """Sums over groups, Eq. (3) of ``two_stage.groups``; disjoint groups add up."""

    log_likelihood: Float[Array, ""]
    mass: Float[Array, "k"]
    instances: Float[Array, "k"]
    first: Float[Array, "k d"]
    between: Float[Array, "k d d"]
    within: Float[Array, "k d d"]


def zero_stats(k: int, d: int, dtype: np.dtype) -> MixtureStats:
    """Make the statistics of no rows."""
    shapes = (), (k,), (k, d), (k, d, d)
    return MixtureStats(*[jnp.zeros(shape, dtype) for shape in shapes])


def only_known(
    log_p: Float[Array, "*n k"], known: Int[Array, "*n"] | None
) -> Float[Array, "*n k"]:
    """Set log p to -inf for all components but the known component of a row."""
    if known is None:
        return log_p
    named = jnp.asarray(known)[..., None]
    allowed = (named < 0) | (named == jnp.arange(log_p.shape[-1]))
    return jnp.where(allowed, log_p, -jnp.inf)


def responsibilities(
    log_p: Float[Array, "*n k"], w: Float[Array, "*n"]
) -> tuple[Float[Array, ""], Float[Array, "*n k"]]:
    """Compute the log likelihood Σ w log p(x) and w P(k | x) from log c_k p(x | k)."""
    top = jnp.max(log_p, -1)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    p = jnp.exp(log_p - top[..., None])  # Most of the cost.
    sums = jnp.sum(p, -1)
    return jnp.sum(w * (top + jnp.log(sums))), (w / sums)[..., None] * p
