"""``SVI``: independent draws from a variational guide, with a k-hat.

The guide is one of NumPyro's automatic guides, fitted by Adam on the evidence lower
bound, in unconstrained coordinates and in blocks of one compiled update. A guide is an
approximation. For LCA, only normalizing flows have a k-hat below 0.7.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, PyTree
from numpyro import infer
from numpyro.distributions import constraints
from numpyro.infer.svi import SVIState
from numpyro.infer.util import compute_log_probs

from probmetric.arguments import check_choice, check_number, store_counts
from probmetric.compilation import COMPILED_SOONEST
from probmetric.inference.sampling.laplace import pareto_khat
from probmetric.inference.sampling.target import (
    Args,
    Arrays,
    Call,
    Draws,
    Gaussian,
    Kwargs,
    Model,
    Posterior,
    Seed,
    Target,
    as_draws,
    cast,
    counts,
    is_double,
    named_parts,
    report,
    site_densities,
    whitened,
)
from probmetric.progress import progress_bar
from probmetric.typing import Array, Scalar

GUIDES = (
    "AutoBNAFNormal",
    "AutoDiagonalNormal",
    "AutoIAFNormal",
    "AutoLowRankMultivariateNormal",
    "AutoMultivariateNormal",
    "AutoNormal",
)
"""Guides with a density. AutoDelta has no density; use ``Laplace`` instead."""

N_BLOCKS = 20


def target_model(target: Target, prototype: PyTree) -> Callable[[PyTree], None]:
    """Convert a target to a (cached) NumPyro model with one flat latent site."""
    leaves, tree = jax.tree.flatten(prototype)
    return _target_model(target, tree, tuple((a.shape, a.dtype) for a in leaves))


@lru_cache(maxsize=64)
def _target_model(
    target: Target, tree: Hashable, shapes: tuple[tuple[tuple[int, ...], np.dtype], ...]
) -> Callable[[PyTree], None]:
    def model(data: PyTree) -> None:
        leaves = [jnp.zeros(shape, dtype) for shape, dtype in shapes]
        flat, unravel = ravel_pytree(jax.tree.unflatten(tree, leaves))
        flat_prior = dist.ImproperUniform(constraints.real, (), flat.shape)
        position = unravel(jnp.asarray(numpyro.sample("position", flat_prior)))
        numpyro.factor("log_density", target.log_density(position, data))
        for name, value in report(target, position, data).items():
            numpyro.deterministic(name, value)

    return model


class Bound(infer.Trace_ELBO):
    """NumPyro's evidence lower bound, with terms added in the order of the sites.

    NumPyro adds the terms in the order of a set, which differs between processes.
    """

    def loss(
        self,
        rng_key: jax.Array,
        param_map: Arrays,
        model: Model,
        guide: Model,
        *args: PyTree,
        **kwargs: PyTree,
    ) -> jax.Array:
        """Return minus the bound, equal to ``Trace_ELBO`` for the same key."""

        def estimate(key: jax.Array) -> jax.Array:
            for_model, for_guide = jax.random.split(key)
            seeded = numpyro.handlers.seed(guide, for_guide)
            log_q, trace = compute_log_probs(seeded, args, kwargs, param_map)
            seeded = numpyro.handlers.seed(model, for_model)
            replayed = numpyro.handlers.replay(seeded, trace)
            log_p, _ = compute_log_probs(replayed, args, kwargs, param_map)
            zero = jnp.array(0.0)
            return sum(log_q.values(), zero) - sum(log_p.values(), zero)

        if self.num_particles == 1:
            return estimate(rng_key)
        keys = jax.random.split(rng_key, self.num_particles)
        return jnp.mean(jax.vmap(estimate)(keys))


class _Engine(NamedTuple):
    engine: infer.SVI
    state: SVIState
    keys: jax.Array


def _engine(settings: "SVI", call: Call, seed: Seed) -> _Engine:
    keys = jax.random.split(jax.random.key(seed), 4)
    guide = getattr(infer.autoguide, settings.guide)(call.model)
    optimizer = numpyro.optim.Adam(settings.step_size)
    loss = Bound(num_particles=settings.n_particles)
    engine = infer.SVI(call.model, guide, optimizer, loss)
    state = engine.init(keys[0], *call.args, **call.kwargs)
    return _Engine(engine, state, keys[1:])


@partial(jax.jit, static_argnames="settings", compiler_options=COMPILED_SOONEST)
def _begin(settings: "SVI", call: Call, seed: Seed) -> SVIState:
    return _engine(settings, call, seed).state


@partial(jax.jit, static_argnames=("settings", "size"))
def _advance(
    settings: "SVI", size: int, call: Call, seed: Seed, state: SVIState
) -> tuple[SVIState, Float[Array, "t"]]:
    engine = _engine(settings, call, seed).engine

    def step(state: SVIState, _: None) -> tuple[SVIState, Array]:
        return engine.update(state, *call.args, **call.kwargs)

    return jax.lax.scan(step, state, None, length=size)


@partial(jax.jit, static_argnames=("settings", "n_draws"))
def _finish(
    settings: "SVI", n_draws: int, call: Call, full: Call, seed: Seed, state: SVIState
) -> tuple[Arrays, Scalar]:
    """Return draws of all sites, and log p - log q of further draws (for k-hat)."""
    engine, _, keys = _engine(settings, call, seed)
    params, model = engine.get_params(state), full.model
    latent = engine.guide.sample_posterior(keys[0], params, sample_shape=(n_draws,))
    names = _deterministic(full, latent)
    predictive = infer.Predictive(model, latent, return_sites=names)
    rest = predictive(keys[1], *full.args, **full.kwargs)

    def log_weight(key: jax.Array) -> Scalar:
        loss = Bound().loss
        return -loss(key, params, model, engine.guide, *full.args, **full.kwargs)

    def densities(sites: Arrays) -> Arrays:
        return named_parts(*site_densities(full, sites))

    weights = jax.vmap(log_weight)(jax.random.split(keys[2], n_draws))
    if latent.pop("position", None) is None:
        rest = {**rest, **jax.vmap(densities)(latent)}
    return {**latent, **rest}, weights


@dataclass(frozen=True)
class SVI:
    """Independent draws from a variational approximation of the posterior.

    The approximating distribution is called a *guide*, and is fitted by stochastic
    optimization. Use it for speed and for large data (``batch`` of ``sample``), not as
    a reference.

    Parameters
    ----------
    guide : str, default="AutoMultivariateNormal"
        Name of one of NumPyro's automatic guides, in ``svi.GUIDES``.
    n_steps : int, default=3000
        Number of steps of the optimizer Adam, at least 20.
    step_size : float, default=0.01
        Step size of Adam. Decrease it if the fit fails.
    n_particles : int, default=4
        Number of draws per step, with which the objective (the evidence lower bound) is
        estimated.

    Examples
    --------
    >>> SVI("AutoNormal", n_steps=1000).guide
    'AutoNormal'
    """

    guide: str = "AutoMultivariateNormal"
    n_steps: int = 3000
    step_size: float | int = 0.01
    n_particles: int = 4

    def __post_init__(self) -> None:
        check_choice("guide", self.guide, GUIDES)
        store_counts(self, "n_steps", low=N_BLOCKS)
        check_number("step_size", self.step_size, 0, open_low=True)
        store_counts(self, "n_particles")

    def draw(
        self,
        posterior: Posterior,
        *,
        seed: int,
        n_draws: int = 1000,
        n_chains: int | None = None,
        dtype: str = "float64",
        progress: bool | None = None,
    ) -> Draws:
        """Fit a guide (an approximation) to a target, and draw from the guide.

        The draws are in one chain. Their number, ``n_chains * n_draws``, must be at
        least 100. If ``posterior.start`` is a Gaussian, parameters are standardized by
        its mean and covariance. Otherwise only the shapes of its arrays are used.
        """
        n_draws, n_chains = counts(n_draws, n_chains)
        target, data, start = posterior
        with jax.enable_x64(is_double(dtype)):
            start = cast(start, dtype)
            if isinstance(start, Gaussian):
                target, data = whitened(target), (start, data)
                start = np.zeros(start.factor.shape[1], dtype)
            model, total = target_model(target, start), n_draws * n_chains
        return self.draw_model(
            model, (data,), {}, seed=seed, n_draws=total, dtype=dtype, progress=progress
        )

    def draw_model(
        self,
        model: Model,
        args: Args,
        kwargs: Kwargs,
        *,
        full_kwargs: Kwargs | None = None,
        seed: int,
        n_draws: int = 4000,
        dtype: str = "float64",
        progress: bool | None = None,
    ) -> Draws:
        """Fit a guide (an approximation) to a NumPyro model, and draw from the guide.

        ``kwargs`` may contain a subsample size (``batch``) for the fit. ``full_kwargs``
        are used for the draws and for k-hat, a diagnostic of the guide: below 0.7 is
        reliable. The attributes include k-hat, the guide and the objective (the
        evidence lower bound, mean over the last 5% of the steps). Raises ValueError if
        the objective is not finite, or for fewer than 100 draws.
        """
        n_draws = check_number("n_draws", n_draws, 100, whole=True)
        full_kwargs = kwargs if full_kwargs is None else full_kwargs
        # NumPyro cannot validate traced parameters, but would compile for it.
        unchecked = numpyro.validation_enabled(False)
        with jax.enable_x64(is_double(dtype)), unchecked:
            batch = cast(Call(model, args, kwargs), dtype)
            full = replace(batch, kwargs=cast(full_kwargs, dtype))
            key = np.int64(seed)
            state = _begin(self, batch, key)
            size = -(-self.n_steps // N_BLOCKS)
            losses = np.full(size, np.nan)
            for _ in progress_bar(range(N_BLOCKS), "svi", progress, "block"):
                state, losses = _advance(self, size, batch, key, state)
            if not np.isfinite(losses).all():
                raise ValueError(
                    "the evidence lower bound became NaN or infinite with "
                    f"step_size={self.step_size}. Decrease step_size, or check the "
                    "data for NaN."
                )
            draws, log_weight = _finish(self, n_draws, batch, full, key, state)
            values = {name: np.asarray(v)[None] for name, v in draws.items()}
        attributes = {
            "method": "svi",
            "seed": seed,
            "guide": self.guide,
            "n_steps": size * N_BLOCKS,
            "step_size": self.step_size,
            "khat": pareto_khat(np.asarray(log_weight)),
            "elbo": -float(np.asarray(losses).mean()),
        }
        return as_draws(values, {}, attributes)


def _deterministic(call: Call, latent: Mapping[str, Array]) -> list[str]:
    # An improper site cannot be sampled, so trace the model at the first draw.
    fixed = numpyro.handlers.substitute(
        call.model, data={k: v[0] for k, v in latent.items()}
    )
    seeded = numpyro.handlers.seed(fixed, jax.random.key(0))
    sites = numpyro.handlers.trace(seeded).get_trace(*call.args, **call.kwargs)
    return [name for name, site in sites.items() if site["type"] == "deterministic"]
