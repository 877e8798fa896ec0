"""Draws of the prior, predictions, and log likelihoods of any NumPyro model.

Each function runs the model in one compiled program. Observed NumPyro sites are sampled
by ``numpyro.handlers.uncondition``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from numpyro import handlers, infer

from probmetric.compilation import COMPILED_SOONEST
from probmetric.inference.sampling.target import (
    Arrays,
    Call,
    Seed,
)
from probmetric.typing import Array

BATCH = 100
"""Draws per batch; larger batches take more memory and are not faster."""


def plain(call: Call) -> Call:
    """Return the model with learning rate 1 and data weights (``w``) 1."""
    data, kwargs = call.args[0], call.kwargs
    if getattr(data, "w", None) is not None and hasattr(data, "_replace"):
        data = data._replace(w=jax.tree.map(np.ones_like, data.w))
    rate = {k: v for k, v in kwargs.items() if k == "learning_rate"}
    ones = jax.tree.map(lambda v: 1.0 if np.ndim(v) == 0 else np.ones_like(v), rate)
    return Call(call.model, (data, *call.args[1:]), {**kwargs, **ones})


def prior_draws(call: Call, n: int, *, seed: int) -> dict[str, np.ndarray]:
    """Return n prior draws (1, n, ...) of every NumPyro site, also observed sites."""
    draws = _prior(call, n, np.int64(seed))
    return {name: np.asarray(value)[None] for name, value in draws.items()}


def predictions(
    call: Call, sites: Mapping[str, np.ndarray], names: Sequence[str], *, seed: int
) -> dict[str, np.ndarray]:
    """Return new observations of the sites ``names`` under every draw."""
    shape = next(iter(sites.values())).shape[:2]
    flat = {k: np.reshape(v, (-1, *np.shape(v)[2:])) for k, v in sites.items()}
    new = _predictive(call, tuple(names), np.int64(seed), flat)
    return {k: np.asarray(v).reshape(*shape, *v.shape[1:]) for k, v in new.items()}


def log_likelihoods(
    call: Call, sites: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the log likelihood of each observation and draw, by NumPyro site."""
    return jax.device_get(_log_likelihood(call, dict(sites)))


class Free(handlers.uncondition):
    """Handler that samples observed sites with the shape of the observations."""

    def process_message(self, msg: dict[str, Any]) -> None:
        """Expand an observed site to the batch shape of its value; uncondition it."""
        if msg["type"] == "sample" and msg["is_observed"]:
            fn, value = msg["fn"], msg["value"]
            batch = np.shape(value)[: np.ndim(value) - fn.event_dim]
            msg["fn"] = fn.expand(np.broadcast_shapes(fn.batch_shape, batch))
        super().process_message(msg)


def _values(
    call: Call, key: jax.Array, substitutes: dict[str, jax.Array] | None = None
) -> Arrays:
    free = handlers.substitute(Free(call.model), data=substitutes or {})
    seeded = handlers.seed(free, key)
    sites = handlers.trace(seeded).get_trace(*call.args, **call.kwargs)
    kinds = ("sample", "deterministic")
    return {name: s["value"] for name, s in sites.items() if s["type"] in kinds}


@partial(jax.jit, static_argnames="n", compiler_options=COMPILED_SOONEST)
def _prior(call: Call, n: int, seed: Seed) -> Arrays:
    keys = jax.random.split(jax.random.key(seed), n)
    return jax.lax.map(partial(_values, call), keys, batch_size=min(n, BATCH))


@partial(jax.jit, static_argnames="names")
def _predictive(
    call: Call, names: tuple[str, ...], seed: Seed, draws: Arrays
) -> Arrays:
    n = len(next(iter(draws.values())))

    def draw(keyed: tuple[jax.Array, dict[str, jax.Array]]) -> Arrays:
        values = _values(call, *keyed)
        return {name: values[name] for name in names}

    keys = jax.random.split(jax.random.key(seed), n)
    return jax.lax.map(draw, (keys, draws), batch_size=min(n, BATCH))


@jax.jit
def _log_likelihood(call: Call, draws: Mapping[str, Array]) -> Arrays:
    kwargs = dict(call.kwargs)
    return infer.log_likelihood(call.model, draws, *call.args, batch_ndims=2, **kwargs)
