"""Draws of the prior, predictions, and log likelihoods, of any NumPyro model.

All run the model itself, one compiled program each: with its observations let go
(``numpyro.handlers.uncondition``) it draws what it explains.
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
"""Draws side by side; more take memory and no less time."""


def plain(args: Args, kwargs: Kwargs) -> tuple[Args, dict[str, Any]]:
    """Return a model's arguments with learning rate and data weights of one.

    The rate is the argument ``learning_rate``, weights are the field ``w`` of the data,
    where a model has them; both keep their shapes.
    """
    data = args[0]
    if getattr(data, "w", None) is not None and hasattr(data, "_replace"):
        data = data._replace(w=jax.tree.map(np.ones_like, data.w))
    rate = {k: v for k, v in kwargs.items() if k == "learning_rate"}
    ones = jax.tree.map(lambda v: 1.0 if np.ndim(v) == 0 else np.ones_like(v), rate)
    return (data, *args[1:]), {**kwargs, **ones}


def prior_draws(
    model: Model, args: Args, kwargs: Kwargs, n: int, *, seed: int
) -> dict[str, np.ndarray]:
    """Return n draws (1, n, ...) of every site and deterministic, observed ones too."""
    tree, static, data = split_arguments(args, kwargs)
    found = _prior(model, tree, static, n, np.int64(seed), data)
    return {name: np.asarray(value)[None] for name, value in found.items()}


def predictions(
    model: Model,
    args: Args,
    kwargs: Kwargs,
    sites: Mapping[str, np.ndarray],
    names: Sequence[str],
    *,
    seed: int,
) -> dict[str, np.ndarray]:
    """Return new observations under every draw, by the observed site's name.

    Parameters
    ----------
    sites : mapping of str to array of shape (n_chains, n_draws, ...)
        Draws of the latent sites.
    names : sequence of str
        The observed sites.
    """
    tree, static, data = split_arguments(args, kwargs)
    shape = next(iter(sites.values())).shape[:2]
    flat = {k: np.reshape(v, (-1, *np.shape(v)[2:])) for k, v in sites.items()}
    found = _predictive(model, tree, static, tuple(names), np.int64(seed), data, flat)
    return {k: np.asarray(v).reshape(*shape, *v.shape[1:]) for k, v in found.items()}


def log_likelihoods(
    model: Model, args: Args, kwargs: Kwargs, sites: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return that of every observation under every draw, by site."""
    tree, static, data = split_arguments(args, kwargs)
    return jax.device_get(_log_likelihood(model, tree, static, data, dict(sites)))


class Free(handlers.uncondition):
    """Let observations go, which keep the shape that only they gave."""

    def process_message(self, msg: Any) -> None:
        """Expand an observed site to its value's batch shape, then let it go."""
        if msg["type"] == "sample" and msg["is_observed"]:
            fn, value = msg["fn"], msg["value"]
            batch = np.shape(value)[: np.ndim(value) - fn.event_dim]
            msg["fn"] = fn.expand(np.broadcast_shapes(fn.batch_shape, batch))
        super().process_message(msg)


def _values(
    model: Model, key: Any, args: Args, kwargs: Kwargs, given: Any = None
) -> Arrays:
    """Return all that the model draws, some sites being given."""
    free: Any = handlers.substitute(Free(model), data=given or {})
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

    def one(key: Any) -> Arrays:
        return _values(model, key, args, kwargs)

    return jax.lax.map(one, keys, batch_size=min(n, BATCH))


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

    def one(given: tuple[Any, Arrays]) -> Arrays:
        key, sites = given
        values = _values(model, key, args, kwargs, sites)
        return {name: values[name] for name in names}

    keys = jax.random.split(jax.random.key(seed), n)
    return jax.lax.map(one, (keys, draws), batch_size=min(n, BATCH))


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
