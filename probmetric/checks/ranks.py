"""Simulation-based calibration (SBC): ranks of true values among posterior draws.

Each simulation draws parameters from the prior, data from the model, and draws from the
posterior under test. If the sampler, the density and the simulator belong to one model,
the rank of the true value among the draws is uniform for every quantity. All
simulations run in one compiled program, ``n_simulations`` fits of NUTS one after the
other.

Ties with the true value are broken at random, so ranks of discrete quantities are also
uniform. A quantity whose draws do not vary has no rank. The quantity is right if its
draws always equal the true value.

The log likelihood is always among the ranked quantities. Without it a "posterior" that
ignores the data (the prior itself) passes: its ranks of parameters are uniform too.

``simulation`` prepares a NumPyro model. The model simulates parameters and observations
x, in the shapes of its data. Then NUTS draws parameters from the density with position
u and prior p(u),

    log p(u) + η log p(x' | u),                                                    (1)

with η = 1 and x' = x for the posterior. Three wrong posteriors run in the same compiled
program. SBC must reject them:

*posterior = prior*      η = 0: the data are ignored;
*η = 2*                  the data count twice;
*shuffled observations*  x' is x with its rows permuted. This control is left out if the
                         log likelihood does not change (exchangeable rows).

References
----------
Talts et al., "Validating Bayesian inference algorithms with simulation-based
calibration", arXiv 1804.06788. Modrák et al., "Simulation-based calibration checking
for Bayesian computation: the choice of test quantities", Bayesian Analysis 2023.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Int, PyTree
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.infer.hmc import HMCState
from numpyro.primitives import Messenger

from probmetric.arguments import check_counts
from probmetric.checks.uniformity import Ranks
from probmetric.compilation import COMPILED_SOONEST
from probmetric.inference.sampling.kernel import Settings, kernel
from probmetric.inference.sampling.predictive import Free
from probmetric.inference.sampling.target import (
    MODEL,
    Args,
    Arrays,
    Call,
    Kwargs,
    Model,
    Target,
    call_of,
    cast,
    is_double,
    model_target,
)
from probmetric.progress import progress_bar
from probmetric.typing import Array, Scalar

LOG_LIKELIHOOD = "log_likelihood"


class Story(NamedTuple):
    """Simulator and log likelihood of a model, as module-level pure functions.

    ``simulate(key, data) -> (position, data)`` draws a position from the prior, and
    data given this position. Constants in ``data`` (inputs, sizes) are copied.
    ``log_likelihood(position, data)`` is of the *right* model, even if the target under
    test is wrong.
    """

    simulate: Callable[[jax.Array, PyTree], tuple[PyTree, PyTree]]
    log_likelihood: Callable[[PyTree, PyTree], Scalar]


class _Ranked(NamedTuple):
    """Ranks of a quantity's entries, whether draws are constant, and whether right."""

    rank: Int[Array, "..."]
    constant: Bool[Array, "..."]
    right: Bool[Array, "..."]


def _rank(split: Array, truth: Array, draws: Array) -> _Ranked:
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

    Every entry of every functional and ``log_likelihood`` are ranked. An entry is left
    out if another entry has the same ranks in every simulation (the other half of a
    symmetric matrix). 400 simulations detect a common shift of a quarter of a posterior
    sd among ten quantities. ``thin`` iterations per draw reduce the correlation of
    draws, because ranks among correlated draws are not uniform. ``chunk`` is the number
    of simulations per call.
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
    """Name every entry, and drop entries with the same ranks as an earlier entry."""
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


def sample_sites(model: Model, key: jax.Array, args: Args, kwargs: Kwargs) -> Arrays:
    """Draw all sample sites of a NumPyro model, not with the sampler under test."""
    return {name: s["value"] for name, s in traced(model, key, args, kwargs).items()}


def traced(
    model: Callable[..., object], key: jax.Array, args: Args, kwargs: Kwargs
) -> dict[str, dict[str, Any]]:
    """Run a NumPyro model; return NumPyro's messages of its sample sites."""
    seeded = handlers.seed(model, key)
    trace = handlers.trace(seeded).get_trace(*args, **kwargs)
    return {name: s for name, s in trace.items() if s["type"] == "sample"}


SHUFFLED = "shuffled observations"
CONTROLS: Mapping[str, tuple[float, bool]] = {
    "posterior = prior": (0.0, False),
    "η = 2": (2.0, False),
    SHUFFLED: (1.0, True),
}
"""Wrong posteriors by name: η of Eq. (1), and whether rows are permuted."""


class World(NamedTuple):
    """Simulated data and settings of the posterior under test (Eq. 1)."""

    call: Call
    observed: Arrays
    power: Scalar
    shuffled: Array


class Simulation(NamedTuple):
    """Simulations of a model, and the target to rank. Call the object for ranks."""

    target: Target
    story: Story
    world: World
    dtype: str

    def __call__(self, wrong: str = "", **settings: Any) -> Ranks:
        """Return the ranks of the posterior, or of a wrong posterior by name."""
        power, shuffled = CONTROLS.get(wrong, (1.0, False))
        world = self.world._replace(
            power=np.asarray(power), shuffled=np.asarray(shuffled)
        )
        return sbc(self.target, self.story, world, dtype=self.dtype, **settings)

    def rows_matter(self) -> bool:
        """Return whether the log likelihood changes if observations are shuffled."""
        story, world = self.story, self.world

        @partial(jax.jit, compiler_options=COMPILED_SOONEST)
        def likelihood(seed: Array, world: World) -> Scalar:
            key, elsewhere = jax.random.split(jax.random.key(seed))
            at = story.simulate(elsewhere, world)[0]
            return story.log_likelihood(at, story.simulate(key, world)[1])

        shuffled = world._replace(shuffled=np.asarray(True))
        with jax.enable_x64(is_double(self.dtype)):
            for seed in range(3):
                at = np.asarray(seed)
                both = [float(likelihood(at, w)) for w in (world, shuffled)]
                if not np.isclose(*both, rtol=1e-5, atol=0):
                    return True
        return False


def simulation(
    model: Model,
    data: PyTree,
    args: Sequence[PyTree],
    kwargs: Kwargs,
    identified: Sequence[str] | None = None,
    dtype: str = "float64",
) -> Simulation:
    """Check that a model can simulate, and prepare its simulations."""
    arguments = call_of(model, data, args, kwargs)
    with jax.enable_x64(is_double(dtype)):
        _, call, shapes = model_target(model, *cast((arguments, dict(kwargs)), dtype))
        key = jax.random.key(0)
        kinds: dict[str, type] = {}

        def drawn(key: jax.Array, call: Call) -> Arrays:
            sites = traced(Free(call.model), key, call.args, call.kwargs)
            kinds.update({name: type(site["fn"]) for name, site in sites.items()})
            return {name: site["value"] for name, site in sites.items()}

        # Shapes are enough, and compile nothing.
        sites = jax.eval_shape(drawn, key, call)
        for name, kind in kinds.items():
            if issubclass(kind, dist.Unit):
                raise ValueError(
                    "model: observations must be simulated from distributions, got "
                    f"numpyro.factor({name!r}, ...). Write it as a Distribution with "
                    "numpyro.sample(..., obs=...)."
                )
        latent = tuple(sorted(shapes))
        observed: Arrays = {
            name: np.zeros(site.shape, site.dtype)
            for name, site in sites.items()
            if name not in shapes
        }
        one = np.asarray(1.0)
        world = cast(World(call, observed, one, np.asarray(False)), dtype)
        every, story = _cached(latent, None)
        values = jax.eval_shape(
            lambda key, world: every.functionals(story.simulate(key, world)[0], world),
            key,
            world,
        )
        unknown = [name for name in identified or () if name not in values]
        if unknown:
            raise ValueError(
                f"identified must only contain names of {sorted(values)}, got {unknown}"
            )
        keep = None if identified is None else tuple(identified)
        target = _cached(latent, keep)[0]
        return Simulation(target, story, world, dtype)


class _Powered(Messenger):
    def __init__(self, fn: Model, power: Scalar) -> None:
        super().__init__(fn)
        self.power = power

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "sample" and msg["is_observed"]:
            scale = msg["scale"]
            msg["scale"] = self.power if scale is None else scale * self.power


def _permuted(key: jax.Array, shuffled: Array, value: Array) -> Array:
    if jnp.ndim(value) == 0:
        return value
    return jnp.where(shuffled, jax.random.permutation(key, value), value)


@lru_cache(maxsize=64)
def _cached(
    latent: tuple[str, ...], keep: tuple[str, ...] | None
) -> tuple[Target, Story]:
    """Return the density of Eq. (1) and its simulator, cached per compiled program."""

    def conditioned(world: World) -> Call:
        observed: Any = dict(world.observed)
        model: Any = handlers.condition(world.call.model, data=observed)
        return replace(world.call, model=model)

    def log_density(position: Arrays, world: World) -> Scalar:
        call = conditioned(world)
        powered: Any = _Powered(call.model, world.power)
        return MODEL.log_density(position, replace(call, model=powered))

    def functionals(position: Arrays, world: World) -> Arrays:
        sites = MODEL.functionals(position, conditioned(world))
        return {k: v for k, v in sites.items() if keep is None or k in keep}

    def simulate(key: jax.Array, world: World) -> tuple[Arrays, World]:
        draw, permute = jax.random.split(key)
        call = world.call
        sites = traced(Free(call.model), draw, call.args, call.kwargs)
        position = {
            name: dist.biject_to(sites[name]["fn"].support).inv(sites[name]["value"])
            for name in latent
        }
        # One key: sites that are observed together keep their rows together.
        observed = {
            name: _permuted(permute, world.shuffled, site["value"])
            for name, site in sites.items()
            if name not in latent
        }
        return position, world._replace(observed=observed)

    def log_likelihood(position: Arrays, world: World) -> Scalar:
        assert MODEL.parts is not None
        return jnp.asarray(MODEL.parts(position, conditioned(world))[1])

    return Target(log_density, functionals), Story(simulate, log_likelihood)
