"""Simulation-based calibration (SBC): ranks of true values among posterior draws.

Each simulation draws parameters from the prior, data from the model, and draws from the
posterior under test. If the sampler, the density and the simulator belong to one model,
the rank of the true value among the draws is uniform for every quantity. All
simulations run in one compiled program, ``n_simulations`` fits of NUTS one after the
other.

Ties with the true value are broken at random, so ranks of discrete quantities are
uniform, too. A quantity that does not vary has no rank. It is right if it always equals
the true value.

The log likelihood is always among the ranked quantities. Without it a "posterior" that
ignores the data (the prior itself) passes: its ranks of parameters are uniform too.

References
----------
Talts et al., "Validating Bayesian inference algorithms with simulation-based
calibration", arXiv 1804.06788. Modrák et al., "Simulation-based calibration checking
for Bayesian computation: the choice of test quantities", Bayesian Analysis 2023.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Int, PyTree
from numpyro.distributions import biject_to
from numpyro.infer.hmc import HMCState
from numpyro.infer.util import constrain_fn

from probmetric.arguments import check_counts
from probmetric.checks.uniformity import Ranks
from probmetric.inference.sampling.kernel import Settings, kernel
from probmetric.inference.sampling.target import (
    Args,
    Arrays,
    Kwargs,
    Model,
    Static,
    Target,
    Tree,
    cast,
    fill_arguments,
    is_double,
    model_target,
    split_arguments,
)
from probmetric.progress import progress_bar
from probmetric.typing import Array, Scalar

LOG_LIKELIHOOD = "log_likelihood"


class Story(NamedTuple):
    """Simulator and log likelihood of a model, as module-level pure functions.

    Attributes
    ----------
    simulate : callable
        ``simulate(key, data) -> (position, data)`` draws a position from the prior, and
        data given this position, in the form that the target uses. Constants in
        ``data`` (inputs, sizes) are copied.
    log_likelihood : callable
        ``log_likelihood(position, data) -> scalar`` of the *right* model, even if the
        target under test is wrong.

    Examples
    --------
    A mean μ ~ N(0, 1) and two observations N(μ, 1):

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from probmetric.checks import Story
    >>> def simulate(key, x):
    ...     mu, noise = jnp.split(jax.random.normal(key, (3,)), [1])
    ...     return mu[0], mu + noise
    >>> def log_likelihood(mu, x):
    ...     return -0.5 * jnp.sum((x - mu) ** 2)
    >>> story = Story(simulate, log_likelihood)
    >>> mu, x = story.simulate(jax.random.key(0), None)
    >>> mu.shape, x.shape, float(story.log_likelihood(0.0, jnp.array([1.0, 2.0])))
    ((), (2,), -2.5)
    """

    simulate: Callable[[jax.Array, PyTree], tuple[PyTree, PyTree]]
    log_likelihood: Callable[[PyTree, PyTree], Scalar]


class _Ranked(NamedTuple):
    """Ranks of a quantity's entries, whether draws are constant, and whether right."""

    rank: Int[Array, "..."]
    constant: Bool[Array, "..."]
    right: Bool[Array, "..."]


def _rank(split: Array, truth: Array, draws: Array) -> _Ranked:
    """Rank a true value among its draws."""
    below, equal = jnp.sum(draws < truth, 0), jnp.sum(draws == truth, 0)
    low, high = (jnp.asarray(end, float) for end in (draws.min(0), draws.max(0)))
    # In single precision the product can round up to equal + 1.
    share = jnp.floor(split * (equal + 1)).astype(int)
    # As ``compare``: a thousand roundings.
    rounding = 1e3 * jnp.finfo(low.dtype).eps * jnp.abs(truth)
    right = jnp.abs(low - truth) <= rounding
    return _Ranked(below + jnp.minimum(share, equal), low == high, right)


def _quantities(
    target: Target, story: Story, position: PyTree, data: PyTree
) -> dict[str, Scalar]:
    values = target.functionals(position, data)
    return {**values, LOG_LIKELIHOOD: story.log_likelihood(position, data)}


@partial(jax.jit, static_argnames=("target", "story", "settings", "n_draws"))
def _ranks(
    target: Target,
    story: Story,
    settings: Settings,
    n_draws: int,
    keys: jax.Array,
    data: PyTree,
) -> dict[str, _Ranked]:
    """Simulate, fit and rank, once per key."""

    def one(key: jax.Array) -> dict[str, _Ranked]:
        key_world, key_start, key_fit = jax.random.split(key, 3)
        truth, simulated = story.simulate(key_world, data)
        # Start at another draw from the prior, which has the right scale.
        start, _ = story.simulate(key_start, data)
        flat, unravel = ravel_pytree(start)
        init, step = kernel(target, settings, unravel)
        state = init(key_fit, flat, simulated)

        def advance(_: jax.Array, state: HMCState) -> HMCState:
            return step(state, (simulated,))

        def draw(state: HMCState, n: jax.Array) -> tuple[HMCState, dict[str, Scalar]]:
            state = jax.lax.fori_loop(0, n, advance, state)
            return state, _quantities(target, story, unravel(state.z), simulated)

        # Warm up before the first draw: a separate loop would be compiled as well.
        n = jnp.full(n_draws, settings.thin).at[0].add(settings.n_warmup)
        draws = jax.lax.scan(draw, state, n)[1]
        values = _quantities(target, story, truth, simulated)
        split = jax.random.uniform(jax.random.fold_in(key, 3))
        return jax.tree.map(partial(_rank, split), values, draws)

    return jax.lax.map(one, keys)


def sbc(
    target: Target,
    story: Story,
    data: PyTree,
    *,
    seed: int,
    n_simulations: int = 400,
    n_draws: int = 99,
    thin: int = 5,
    n_warmup: int = 200,
    target_accept: float = 0.8,
    dense_mass: bool = False,
    chunk: int = 50,
    dtype: str = "float64",
    progress: bool | None = None,
) -> Ranks:
    """Rank true values among NUTS draws for simulated data sets.

    Parameters
    ----------
    target : Target
        Posterior under test. A wrong posterior shows that SBC can fail.
    story : Story
        Simulator and log likelihood of the model.
    data : pytree of arrays
        Data that all simulations share.
    seed : int
        The same seed gives the same ranks.
    n_simulations : int, default=400
        Number of simulations. 400 detect a common shift of a quarter of a posterior sd
        among ten quantities.
    n_draws : int, default=99
        Draws per simulation; ranks are 0..n_draws.
    thin : int, default=5
        Iterations per draw. Ranks among correlated draws are not uniform.
    n_warmup : int, default=200
        Warm-up iterations.
    target_accept, dense_mass : optional
        Settings of ``NUTS``.
    chunk : int, default=50
        Simulations per compiled call.
    dtype : {"float64", "float32"}, default="float64"
        Precision.
    progress : bool, optional
        Whether to show progress. Default: a bar in terminals and notebooks, elsewhere a
        line every 10 s.

    Returns
    -------
    Ranks
        Ranks of every entry of every functional, and of ``log_likelihood``. An entry is
        left out if another entry has the same ranks in every simulation (the other half
        of a symmetric matrix). ``constants`` lists entries that do not vary, and
        whether they are right. Test the ranks with ``uniformity``.

    Raises
    ------
    ValueError
        If a size is below 1.
        If a functional has the name ``log_likelihood``.

    Examples
    --------
    Four short simulations show the call. A verdict requires hundreds of simulations.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from probmetric.checks import Story, sbc
    >>> from probmetric.inference.sampling import Target
    >>> def simulate(key, x):  # μ ~ N(0, 1), x ~ N(μ, 1)
    ...     mu, noise = jax.random.normal(key, (2,), x.dtype)
    ...     return mu, mu + noise
    >>> def log_likelihood(mu, x):
    ...     return -0.5 * (x - mu) ** 2
    >>> def log_density(mu, x):
    ...     return log_likelihood(mu, x) - 0.5 * mu**2
    >>> target = Target(log_density, lambda mu, x: {"mu": mu})
    >>> few = {"n_simulations": 4, "n_draws": 9, "thin": 1, "n_warmup": 5}
    >>> story = Story(simulate, log_likelihood)
    >>> ranks = sbc(target, story, jnp.array(0.0), seed=0, **few)
    >>> sorted(ranks.ranks), ranks.ranks["mu"].shape, int(ranks.ranks["mu"].max()) <= 9
    (['log_likelihood', 'mu'], (4,), True)
    """
    n_simulations, n_draws, thin, n_warmup, chunk = check_counts(
        n_simulations=n_simulations,
        n_draws=n_draws,
        thin=thin,
        n_warmup=n_warmup,
        chunk=chunk,
    )
    settings = Settings(n_warmup, target_accept, dense=dense_mass, thin=thin)
    chunk = min(chunk, n_simulations)
    n_chunks = -(-n_simulations // chunk)
    blocks: list[dict[str, _Ranked]] = []
    with jax.enable_x64(is_double(dtype)):
        data = cast(data, dtype)
        keys = jax.random.split(jax.random.key(seed), n_chunks * chunk)
        for k in progress_bar(range(n_chunks), "simulations", progress, "block"):
            some = keys[k * chunk : (k + 1) * chunk]
            ranks = _ranks(target, story, settings, n_draws, some, data)
            blocks.append(jax.tree.map(np.asarray, ranks))
    stacked = jax.tree.map(lambda *a: np.concatenate(a)[:n_simulations], *blocks)
    return _distinct(stacked, n_draws)


def _distinct(ranked: Mapping[str, _Ranked], n_draws: int) -> Ranks:
    """Name every entry; drop exact repetitions of an earlier one."""
    rows: Arrays = {}
    constants: dict[str, bool] = {}
    rank_rows: set[tuple[bytes, bool | None]] = set()
    for name, (ranks, constant, right) in ranked.items():
        for at in np.ndindex(ranks.shape[1:]):
            column = (slice(None), *at)
            row = ranks[column]
            same = bool(right[column].all()) if constant[column].all() else None
            if (row.tobytes(), same) in rank_rows and name != LOG_LIKELIHOOD:
                continue
            rank_rows.add((row.tobytes(), same))
            index = f"[{', '.join(map(str, at))}]" if at else ""
            rows[f"{name}{index}"] = row
            if same is not None:
                constants[f"{name}{index}"] = same
    return Ranks(rows, n_draws, constants)


def model_story[D](
    model: Model,
    data: D,
    observe: Callable[[D, Mapping[str, Array]], D],
    *,
    prior: PyTree = None,
    options: Kwargs | None = None,
    dtype: str = "float64",
) -> tuple[Target, Story, list[Array]]:
    """Return the target, the story and the data of a NumPyro model for ``sbc``.

    Parameters
    ----------
    model : callable
        NumPyro model ``model(data, prior, **options)``, or ``model(data, **options)``
        if ``prior`` is None.
    data : pytree of arrays
        Data without observations (``y=None``), which the model simulates.
    observe : callable
        Module-level function ``observe(data, sites) -> data`` that stores the simulated
        values of sites as observations, such as ``lambda pairs, sites:
        pairs._replace(y=sites["y"])``.
    prior, options : optional
        Arguments of the model.
    dtype : {"float64", "float32"}, default="float64"
        Precision.

    Returns
    -------
    target, story, data
        First three arguments of ``sbc``.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> import numpyro
    >>> import numpyro.distributions as dist
    >>> from probmetric.checks import model_story
    >>> from probmetric.data import Labeled
    >>> def model(data):
    ...     mu = numpyro.sample("mu", dist.Normal(0, 1))
    ...     law = dist.Bernoulli(logits=mu * data.X[:, 0])
    ...     with numpyro.plate("point", len(data.X)):
    ...         numpyro.sample("y", law, obs=data.y)
    >>> def observe(data, sites):
    ...     return data._replace(y=sites["y"])
    >>> data = Labeled(np.ones((5, 1)), None)  # Without labels: they are simulated.
    >>> target, story, arrays = model_story(model, data, observe, dtype="float32")
    >>> position, simulated = story.simulate(jax.random.key(0), arrays)
    >>> sorted(position), [array.shape for array in simulated]
    (['mu'], [(5, 1), (5,)])
    """
    with jax.enable_x64(is_double(dtype)):
        args = (cast(data, dtype), *(() if prior is None else (cast(prior, dtype),)))
        kwargs = cast(dict(options or {}), dtype)
        tree, static, arrays = split_arguments(args, kwargs)

        @jax.jit
        def drawn(key: jax.Array, arrays: list[Array]) -> Arrays:
            return sample_sites(model, key, *fill_arguments(tree, static, arrays))

        sites = drawn(jax.random.key(0), arrays)
        example = (observe(args[0], sites), *args[1:])
        target, _, prototype = model_target(model, example, kwargs)
        full_tree, full_static, _ = split_arguments(example, kwargs)
    worlds = (tree, static, full_tree, full_static)
    return target, _cached_story(model, observe, worlds, tuple(prototype)), arrays


def sample_sites(model: Model, key: jax.Array, args: Args, kwargs: Kwargs) -> Arrays:
    """Draw every sample site of a NumPyro model: parameters and data.

    True values must not come from the sampler under test, because an error that true
    values and posterior draws share cancels in the ranks.
    """
    return {name: s["value"] for name, s in traced(model, key, args, kwargs).items()}


def traced(
    model: Model, key: jax.Array, args: Args, kwargs: Kwargs
) -> dict[str, dict[str, Any]]:
    """Run a NumPyro model; return NumPyro's messages of its sample sites."""
    seeded = numpyro.handlers.seed(model, key)
    trace = numpyro.handlers.trace(seeded).get_trace(*args, **kwargs)
    return {name: s for name, s in trace.items() if s["type"] == "sample"}


@lru_cache(maxsize=64)
def _cached_story(
    model: Model,
    observe: Callable[[PyTree, Mapping[str, Array]], PyTree],
    worlds: tuple[Tree, Static, Tree, Static],
    latent: tuple[str, ...],
) -> Story:
    tree, static, full_tree, full_static = worlds

    def simulate(key: jax.Array, data: list[Array]) -> tuple[Arrays, list[Array]]:
        args, kwargs = fill_arguments(tree, static, data)
        trace = traced(model, key, args, kwargs)
        sites = {name: site["value"] for name, site in trace.items()}
        position = {
            name: biject_to(trace[name]["fn"].support).inv(sites[name])
            for name in latent
        }
        full = (observe(args[0], sites), *args[1:])
        return position, split_arguments(full, kwargs)[2]

    def log_likelihood(position: Mapping[str, Array], data: list[Array]) -> Scalar:
        args, kwargs = fill_arguments(full_tree, full_static, data)
        values = constrain_fn(model, args, kwargs, position)
        fixed = numpyro.handlers.substitute(model, values)
        trace = numpyro.handlers.trace(fixed).get_trace(*args, **kwargs)
        return sum(
            jnp.sum(site["fn"].log_prob(site["value"]))
            for site in trace.values()
            if site["type"] == "sample" and site["is_observed"]
        )

    return Story(simulate, log_likelihood)
