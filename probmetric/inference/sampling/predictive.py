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
    Args,
    Arrays,
    Kwargs,
    Model,
    Seed,
    Static,
    Tree,
    fill_arguments,
    split_arguments,
)
from probmetric.typing import Array

BATCH = 100
"""Draws per batch; larger batches take more memory and the same time."""


def plain(args: Args, kwargs: Kwargs) -> tuple[Args, dict[str, Any]]:
    """Return a model's arguments with learning rate and data weights (``w``) 1."""
    data = args[0]
    if getattr(data, "w", None) is not None and hasattr(data, "_replace"):
        data = data._replace(w=jax.tree.map(np.ones_like, data.w))
    rate = {k: v for k, v in kwargs.items() if k == "learning_rate"}
    ones = jax.tree.map(lambda v: 1.0 if np.ndim(v) == 0 else np.ones_like(v), rate)
    return (data, *args[1:]), {**kwargs, **ones}


def prior_draws(
    model: Model, args: Args, kwargs: Kwargs, n: int, *, seed: int
) -> dict[str, np.ndarray]:
    """Return n prior draws (1, n, ...) of every NumPyro site, also the observed."""
    tree, static, data = split_arguments(args, kwargs)
    draws = _prior(model, tree, static, n, np.int64(seed), data)
    return {name: np.asarray(value)[None] for name, value in draws.items()}


def predictions(
    model: Model,
    args: Args,
    kwargs: Kwargs,
    sites: Mapping[str, np.ndarray],
    names: Sequence[str],
    *,
    seed: int,
) -> dict[str, np.ndarray]:
    """Return new observations of the sites ``names`` under every draw."""
    tree, static, data = split_arguments(args, kwargs)
    shape = next(iter(sites.values())).shape[:2]
    flat = {k: np.reshape(v, (-1, *np.shape(v)[2:])) for k, v in sites.items()}
    new = _predictive(model, tree, static, tuple(names), np.int64(seed), data, flat)
    return {k: np.asarray(v).reshape(*shape, *v.shape[1:]) for k, v in new.items()}


def log_likelihoods(
    model: Model, args: Args, kwargs: Kwargs, sites: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the log likelihood of each observation and draw, by NumPyro site."""
    tree, static, data = split_arguments(args, kwargs)
    return jax.device_get(_log_likelihood(model, tree, static, data, dict(sites)))


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
    model: Model,
    key: jax.Array,
    args: Args,
    kwargs: Kwargs,
    substitutes: dict[str, jax.Array] | None = None,
) -> Arrays:
    free = handlers.substitute(Free(model), data=substitutes or {})
    sites = handlers.trace(handlers.seed(free, key)).get_trace(*args, **kwargs)
    kinds = ("sample", "deterministic")
    return {name: s["value"] for name, s in sites.items() if s["type"] in kinds}


@partial(
    jax.jit,
    static_argnames=("model", "tree", "static", "n"),
    compiler_options=COMPILED_SOONEST,
)
def _prior(
    model: Model, tree: Tree, static: Static, n: int, seed: Seed, data: list[Array]
) -> Arrays:
    args, kwargs = fill_arguments(tree, static, data)
    keys = jax.random.split(jax.random.key(seed), n)

    def draw(key: jax.Array) -> Arrays:
        return _values(model, key, args, kwargs)

    return jax.lax.map(draw, keys, batch_size=min(n, BATCH))


@partial(jax.jit, static_argnames=("model", "tree", "static", "names"))
def _predictive(
    model: Model,
    tree: Tree,
    static: Static,
    names: tuple[str, ...],
    seed: Seed,
    data: list[Array],
    draws: Arrays,
) -> Arrays:
    args, kwargs = fill_arguments(tree, static, data)
    n = len(next(iter(draws.values())))

    def draw(keyed: tuple[jax.Array, dict[str, jax.Array]]) -> Arrays:
        key, sites = keyed
        values = _values(model, key, args, kwargs, sites)
        return {name: values[name] for name in names}

    keys = jax.random.split(jax.random.key(seed), n)
    return jax.lax.map(draw, (keys, draws), batch_size=min(n, BATCH))


@partial(jax.jit, static_argnames=("model", "tree", "static"))
def _log_likelihood(
    model: Model,
    tree: Tree,
    static: Static,
    data: list[Array],
    draws: Mapping[str, Array],
) -> Arrays:
    args, kwargs = fill_arguments(tree, static, data)
    return infer.log_likelihood(model, draws, *args, batch_ndims=2, **kwargs)
