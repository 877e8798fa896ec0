"""Where the true value of a quantity stands among its draws, counted as they come."""

from typing import Any, NamedTuple

import jax.numpy as jnp

__all__ = ["Tally", "count", "nothing", "settle"]


class Tally(NamedTuple):
    """Of the draws of a quantity: how many lie below and at the truth, and the ends."""

    below: Any
    equal: Any
    low: Any
    high: Any


def nothing(truth: Any) -> Tally:
    """Return the tally of no draws."""
    count, value = jnp.zeros(jnp.shape(truth), int), jnp.asarray(truth, float)
    return Tally(
        count, count, jnp.full_like(value, jnp.inf), jnp.full_like(value, -jnp.inf)
    )


def count(value: Any, truth: Any, tally: Tally) -> Tally:
    """Add a draw."""
    return Tally(
        tally.below + (value < truth),
        tally.equal + (value == truth),
        jnp.minimum(tally.low, value),
        jnp.maximum(tally.high, value),
    )


def settle(split: Any, truth: Any, tally: Tally) -> tuple[Any, Any, Any]:
    """Return the rank, whether draws were one number, and whether it was the truth."""
    # In single precision the product can round up to equal + 1.
    share = jnp.floor(split * (tally.equal + 1)).astype(int)
    rank = tally.below + jnp.minimum(share, tally.equal)
    # As ``compare``: a thousand roundings.
    rounding = 1e3 * jnp.finfo(tally.low.dtype).eps * jnp.abs(truth)
    right = jnp.abs(tally.low - truth) <= rounding
    return rank, tally.low == tally.high, right
