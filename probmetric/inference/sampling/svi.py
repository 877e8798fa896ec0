"""``SVI``: independent draws of a variational guide, with their k-hat.

The guide is any of NumPyro's automatic ones, fitted by Adam on the evidence lower
bound, in blocks of one compiled update. A guide is an approximation: on LCA only
normalising flows came below a k-hat of 0.7. It is here for speed and for large data
(``batch``), never as a reference.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

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
    Draws,
    Gaussian,
    Kwargs,
    Model,
    Posterior,
    Seed,
    Static,
    Target,
    Tree,
    as_draws,
    cast,
    counts,
    fill_arguments,
    is_double,
    named_parts,
    report,
    site_densities,
    split_arguments,
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
"""Guides with a density. AutoDelta has none; see ``Laplace``."""

N_BLOCKS = 20


def target_model(target: Target, prototype: PyTree) -> Callable[[PyTree], None]:
    """Write a target as a NumPyro model of ``data`` with one flat latent site.

    The same object for the same target and shapes, so that fits share compilations.
    """
    leaves, tree = jax.tree.flatten(prototype)
    return _target_model(target, tree, tuple((a.shape, a.dtype) for a in leaves))


@lru_cache(maxsize=64)
def _target_model(
    target: Target, tree: Tree, shapes: tuple[tuple[tuple[int, ...], np.dtype], ...]
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
    """NumPyro's evidence lower bound, its terms added in the order of the sites.

    NumPyro adds them in that of a set of names, another one in each process: no
    compilation cache holds the program, and the sum may differ by rounding.
    """

    def loss(
        self,
        rng_key: jax.Array,
        param_map: Arrays,
        model: Model,
        guide: Model,
        *args: Any,
        **kwargs: Any,
    ) -> jax.Array:
        """Return minus the bound, as ``Trace_ELBO`` estimates it from the same key."""

        def one(key: jax.Array) -> jax.Array:
            for_model, for_guide = jax.random.split(key)
            seeded = numpyro.handlers.seed(guide, for_guide)
            log_q, drawn = compute_log_probs(seeded, args, kwargs, param_map)
            seeded = numpyro.handlers.seed(model, for_model)
            replayed = numpyro.handlers.replay(seeded, drawn)
            log_p, _ = compute_log_probs(replayed, args, kwargs, param_map)
            none = jnp.array(0.0)
            return sum(log_q.values(), none) - sum(log_p.values(), none)

        if self.num_particles == 1:
            return one(rng_key)
        return jnp.mean(jax.vmap(one)(jax.random.split(rng_key, self.num_particles)))


class _Problem(NamedTuple):
    """What the compiled programs of a fit share: all but the arrays."""

    model: Model
    settings: "SVI"
    tree: Tree
    static: Static


class _Engine(NamedTuple):
    """NumPyro's engine in its first state, the other keys, the model's arguments."""

    engine: infer.SVI
    state: SVIState
    keys: jax.Array
    args: Args
    kwargs: dict[str, dict[str, PyTree]]


def _engine(by: _Problem, seed: Seed, data: list[Array]) -> _Engine:
    """Make the engine anew in each program, as it and its guide keep traced values."""
    args, kwargs = fill_arguments(by.tree, by.static, data)
    keys = jax.random.split(jax.random.key(seed), 4)
    guide = getattr(infer.autoguide, by.settings.guide)(by.model)
    optimiser = numpyro.optim.Adam(by.settings.step_size)
    loss = Bound(num_particles=by.settings.n_particles)
    engine = infer.SVI(by.model, guide, optimiser, loss)
    state = engine.init(keys[0], *args, **kwargs["own"])
    return _Engine(engine, state, keys[1:], args, kwargs)


@partial(jax.jit, static_argnames="by", compiler_options=COMPILED_SOONEST)
def _begin(by: _Problem, seed: Seed, data: list[Array]) -> SVIState:
    """Return the state before the first step."""
    return _engine(by, seed, data).state


@partial(jax.jit, static_argnames=("by", "size"))
def _advance(
    by: _Problem, size: int, seed: Seed, state: SVIState, data: list[Array]
) -> tuple[SVIState, Float[Array, "t"]]:
    """Make ``size`` steps; return the state and the loss of each."""
    engine, _, _, args, kwargs = _engine(by, seed, data)

    def step(state: SVIState, _: None) -> tuple[SVIState, Array]:
        return engine.update(state, *args, **kwargs["own"])

    return jax.lax.scan(step, state, None, length=size)


@partial(jax.jit, static_argnames=("by", "n_draws"))
def _finish(
    by: _Problem, n_draws: int, seed: Seed, state: SVIState, data: list[Array]
) -> tuple[Arrays, Scalar]:
    """Return draws of the sites and deterministics, and log p - log q of others."""
    engine, _, keys, args, kwargs = _engine(by, seed, data)
    full, params = kwargs["full"], engine.get_params(state)
    latent = engine.guide.sample_posterior(keys[0], params, sample_shape=(n_draws,))
    names = _deterministic(by.model, latent, args, full)
    predictive = infer.Predictive(by.model, latent, return_sites=names)
    rest = predictive(keys[1], *args, **full)

    def log_weight(key: jax.Array) -> Scalar:
        return -Bound().loss(key, params, by.model, engine.guide, *args, **full)

    weights = jax.vmap(log_weight)(jax.random.split(keys[2], n_draws))
    if latent.pop("position", None) is None:
        one = partial(site_densities, by.model, args, full)
        rest = {**rest, **jax.vmap(lambda sites: named_parts(*one(sites)))(latent)}
    return {**latent, **rest}, weights


@dataclass(frozen=True)
class SVI:
    """Independent draws of a variational guide: an approximation, with its k-hat.

    Parameters
    ----------
    guide : str, default="AutoMultivariateNormal"
        One of NumPyro's with a density: "AutoNormal", "AutoDiagonalNormal",
        "AutoMultivariateNormal", "AutoLowRankMultivariateNormal", "AutoIAFNormal",
        "AutoBNAFNormal".
    n_steps : int, default=3000
        Steps of Adam, at least 20.
    step_size : float, default=0.01
        Of Adam, in unconstrained units.
    n_particles : int, default=4
        Draws per estimate of the evidence lower bound.

    Raises
    ------
    ValueError
        Naming the setting.

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
        """Fit a guide to a target and draw from it.

        Parameters
        ----------
        posterior : Posterior
            From a Gaussian start the guide is fitted in coordinates that it whitens;
            of a position the shapes are read.
        seed : int
            The same seed gives the same draws.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 1.
            Their product, at least 100, is drawn, in one chain.
        dtype : {"float64", "float32"}, default="float64"
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Returns
        -------
        Draws
            As ``draw_model``.
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
        """Fit a guide to a NumPyro model, site by site, and draw from it.

        Parameters
        ----------
        model : callable
            ``model(*args, **kwargs)``.
        args, kwargs : tuple, dict
            Its arguments; ``kwargs`` may ask for a subsample (``batch``).
        full_kwargs : dict, optional
            ``kwargs`` without the subsample, under which draws and k-hat are
            evaluated.
        seed, dtype, progress
            As in ``draw``.
        n_draws : int, default=4000
            Independent draws, at least 100.

        Returns
        -------
        Draws
            One chain; ``attributes`` hold khat, guide and elbo (mean over the last
            twentieth of the steps).

        Raises
        ------
        ValueError
            Fewer than 100 draws (k-hat needs a tail), or a bound that became NaN.
        """
        n_draws = check_number("n_draws", n_draws, 100, whole=True)
        full_kwargs = kwargs if full_kwargs is None else full_kwargs
        # Traced parameters cannot be checked, but trying to compiles a dozen programs.
        unchecked = numpyro.validation_enabled(False)
        with jax.enable_x64(is_double(dtype)), unchecked:
            given = args, {"own": kwargs, "full": full_kwargs}
            tree, static, data = split_arguments(*cast(given, dtype))
            by, key = _Problem(model, self, tree, static), np.int64(seed)
            state = _begin(by, key, data)
            size = -(-self.n_steps // N_BLOCKS)
            losses = np.full(size, np.nan)
            for _ in progress_bar(range(N_BLOCKS), "svi", progress, "block"):
                state, losses = _advance(by, size, key, state, data)
            if not np.isfinite(losses).all():
                raise ValueError(
                    "step_size: expected one for which the evidence lower bound stays "
                    f"finite, got {self.step_size}: lower it, or look for NaN in the "
                    "data"
                )
            drawn, log_weight = _finish(by, n_draws, key, state, data)
            values = {name: np.asarray(v)[None] for name, v in drawn.items()}
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


def _deterministic(
    model: Model, latent: Mapping[str, Array], args: Args, kwargs: Kwargs
) -> list[str]:
    # An improper site cannot be sampled, so the trace runs at the first draw.
    fixed = numpyro.handlers.substitute(
        model, data={k: v[0] for k, v in latent.items()}
    )
    seeded = numpyro.handlers.seed(fixed, jax.random.key(0))
    sites = numpyro.handlers.trace(seeded).get_trace(*args, **kwargs)
    return [name for name, site in sites.items() if site["type"] == "deterministic"]
