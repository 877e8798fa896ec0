"""``svi``: independent draws of a variational guide, with their k-hat.

The guide is any of NumPyro's automatic ones, fitted by Adam on the evidence lower
bound, in blocks of one compiled update. A guide is an approximation: on LCA only
normalising flows came below a k-hat of 0.7. It is here for speed and for large data
(``batch``), never as a reference.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from numpyro.distributions import constraints
from numpyro.infer import SVI, Predictive, Trace_ELBO, autoguide, psis_diagnostic

from probmetric.inference.sampling.target import (
    Draws,
    Target,
    cast,
    fill_arguments,
    is_double,
    split_arguments,
)
from probmetric.progress import progress_bar

__all__ = ["GUIDES", "svi", "target_model"]

GUIDES = (
    "AutoBNAFNormal",
    "AutoDiagonalNormal",
    "AutoIAFNormal",
    "AutoLowRankMultivariateNormal",
    "AutoMultivariateNormal",
    "AutoNormal",
)
"""Guides with a density. AutoDelta has none; for Laplace use ``method='laplace'``."""

N_BLOCKS = 20


def target_model(target: Target, prototype: Any) -> Callable[[Any], None]:
    """Write a target as a NumPyro model of ``data`` with one flat latent site.

    The same object for the same target and shapes, so that fits share compilations.
    """
    leaves, tree = jax.tree.flatten(prototype)
    return _target_model(target, tree, tuple((a.shape, a.dtype) for a in leaves))


@lru_cache(maxsize=64)
def _target_model(target: Target, tree: Any, shapes: Any) -> Callable[[Any], None]:
    leaves = [jnp.zeros(shape, dtype) for shape, dtype in shapes]
    flat, unravel = ravel_pytree(jax.tree.unflatten(tree, leaves))

    def model(data: Any) -> None:
        flat_prior = dist.ImproperUniform(constraints.real, (), flat.shape)
        position: Any = unravel(jnp.asarray(numpyro.sample("position", flat_prior)))
        numpyro.factor("log_density", target.log_density(position, data))
        for name, value in target.functionals(position, data).items():
            numpyro.deterministic(name, value)

    return model


@dataclass(frozen=True)
class _Engine:
    """NumPyro's engine, equal to one of the same settings: one compiled update."""

    model: Any
    guide: str
    step_size: float | int
    n_particles: int
    engine: Any = field(compare=False)


@partial(jax.jit, static_argnames=("by", "tree", "static", "size"))
def _advance(
    by: _Engine, tree: Any, static: Any, size: int, state: Any, data: Any
) -> tuple[Any, Any]:
    """Make ``size`` steps; return the state and the loss of each."""
    args, kwargs = fill_arguments(tree, static, data)
    return jax.lax.scan(
        lambda s, _: by.engine.update(s, *args, **kwargs), state, None, length=size
    )


def svi(
    model: Callable[..., None],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    seed: int,
    full_kwargs: dict[str, Any] | None = None,
    guide: str = "AutoMultivariateNormal",
    n_steps: int = 3000,
    step_size: float = 0.01,
    n_particles: int = 4,
    n_draws: int = 4000,
    dtype: str = "float64",
    progress: bool | None = None,
) -> Draws:
    """Fit a guide to a NumPyro model and draw from it.

    Parameters
    ----------
    model : callable
        ``model(*args, **kwargs)``.
    args, kwargs : tuple, dict
        Its arguments; ``kwargs`` may ask for a subsample (``batch``).
    seed : int
        The same seed gives the same draws.
    full_kwargs : dict, optional
        ``kwargs`` without the subsample, under which draws and k-hat are evaluated.
    guide : str, default="AutoMultivariateNormal"
        One of ``GUIDES``.
    n_steps : int, default=3000
        Steps of Adam.
    step_size : float, default=0.01
        Of Adam, in unconstrained units.
    n_particles : int, default=4
        Draws per estimate of the evidence lower bound.
    n_draws : int, default=4000
        Independent draws, in one chain.
    dtype : {"float64", "float32"}, default="float64"
        Precision.
    progress : bool, optional
        Default: in terminals and notebooks.

    Returns
    -------
    Draws
        One chain; ``attributes`` hold khat, guide and elbo (mean over the last
        twentieth of the steps).

    Raises
    ------
    ValueError
        An unknown guide, sizes too small, or a bound that became NaN.
    """
    if guide not in GUIDES:
        raise ValueError(f"guide: expected one of {GUIDES}, got {guide!r}")
    for name, size, least in (
        ("n_steps", n_steps, N_BLOCKS),
        ("n_draws", n_draws, 100),
    ):
        if size < least:
            raise ValueError(f"{name}: expected at least {least}, got {size}")
    full_kwargs = kwargs if full_kwargs is None else full_kwargs
    with jax.enable_x64(is_double(dtype)):
        args, kwargs = cast(args, dtype), cast(kwargs, dtype)
        full: dict[str, Any] = cast(full_kwargs, dtype)
        keys = jax.random.split(jax.random.key(seed), 4)
        fitted = getattr(autoguide, guide)(model)
        optimiser = numpyro.optim.Adam(step_size)
        loss = Trace_ELBO(num_particles=n_particles)
        engine = SVI(model, fitted, optimiser, loss)
        state = engine.init(keys[0], *args, **kwargs)
        size = -(-n_steps // N_BLOCKS)
        by = _Engine(model, guide, step_size, n_particles, engine)
        tree, static, data = split_arguments(args, kwargs)
        losses = jnp.full(size, jnp.nan)
        for _ in progress_bar(range(N_BLOCKS), "svi", progress):
            state, losses = _advance(by, tree, static, size, state, data)
        if not bool(jnp.all(jnp.isfinite(losses))):
            raise ValueError(
                "step_size: expected one for which the evidence lower bound stays "
                f"finite, got {step_size}: lower it, or look for NaN in the data"
            )
        params = engine.get_params(state)
        latent = fitted.sample_posterior(keys[1], params, sample_shape=(n_draws,))
        rest = Predictive(
            model, latent, return_sites=_deterministic(model, latent, args, full)
        )(keys[2], *args, **full)
        khat = psis_diagnostic(
            keys[3], params, model, fitted, *args, num_particles=n_draws, **full
        )
        latent.pop("position", None)
        values = {k: np.asarray(v)[None] for k, v in {**latent, **rest}.items()}
    attributes = {
        "method": "svi",
        "seed": seed,
        "guide": guide,
        "n_steps": size * N_BLOCKS,
        "step_size": step_size,
        "khat": float(khat),
        "elbo": -float(jnp.mean(losses)),
    }
    return Draws(values, {}, attributes)


def _deterministic(model: Any, latent: Any, args: Any, kwargs: Any) -> list[str]:
    # An improper site cannot be sampled, so the trace runs at the first draw.
    fixed = numpyro.handlers.substitute(
        model, data={k: v[0] for k, v in latent.items()}
    )
    seeded = numpyro.handlers.seed(fixed, jax.random.key(0))
    sites = numpyro.handlers.trace(seeded).get_trace(*args, **kwargs)
    return [name for name, site in sites.items() if site["type"] == "deterministic"]
