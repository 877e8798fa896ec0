"""The No-U-Turn sampler as blocks of one compiled kernel.

``block(state, data) -> (state, draws)`` is a pure function. Its state includes
position, step size, mass matrix, keys and iteration. A run can therefore be stopped
between blocks, stored, and continued to the same draws. Warm-up uses the same kernel.
The data are arguments, so a refit with equal shapes compiles nothing. NumPyro gets a
position as one vector, with its density and gradient if these are known.

NumPyro's ``sample_kernel`` reads settings that ``init_kernel`` stores in a closure that
both share. ``jax.eval_shape`` runs ``init_kernel`` only for this side effect.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree
from numpyro.infer.hmc import HMCState, hmc
from numpyro.infer.util import ParamInfo

from probmetric.compilation import COMPILED_SOONEST
from probmetric.inference.sampling.target import (
    Arrays,
    Gaussian,
    Seed,
    Start,
    Target,
    report,
)
from probmetric.typing import Array, Scalar

type _Moved = tuple[HMCState, tuple[Arrays, Arrays]]
"""A state, and functionals and statistics of the draws that led to this state."""

type _Summed = tuple[HMCState, jax.Array, jax.Array, jax.Array]
"""A state; leapfrog steps, in total and of the largest tree; True if one diverged."""

N_CANDIDATES = 16
"""Starting points tried per chain; the first with finite density is used."""

OVERDISPERSED = 2.0
"""Standard deviation of starting points, relative to the Gaussian start."""


class Settings(NamedTuple):
    """Static settings of the kernel.

    ``n_warmup`` iterations adapt the step size to ``target_accept`` and, if
    ``adapt_mass``, the mass matrix (dense if ``dense``). Every ``thin``-th iteration is
    a draw.
    """

    n_warmup: int
    target_accept: float = 0.8
    max_tree_depth: int = 10
    dense: bool = False
    adapt_mass: bool = True
    thin: int = 1


def kernel(
    target: Target, settings: Settings, unravel: Callable[[jax.Array], PyTree]
) -> tuple[Callable[..., HMCState], Callable[..., HMCState]]:
    """Return NumPyro's (init, sample) as functions of arrays only.

    Positions are vectors, which ``unravel`` converts to positions of the target. In the
    same program, ``init(key, position, data) -> state`` must be traced before
    ``sample(state, (data,)) -> state``. A ``ParamInfo`` is a position with its
    potential energy and gradient.
    """

    def potential(data: PyTree) -> Callable[[jax.Array], Scalar]:
        return lambda position: -target.log_density(unravel(position), data)

    init_kernel, sample_kernel = hmc(potential_fn_gen=potential, algo="NUTS")

    def init_one(key: jax.Array, position: Array | ParamInfo, data: PyTree) -> HMCState:
        return init_kernel(
            position,
            settings.n_warmup,
            adapt_mass_matrix=settings.adapt_mass,
            dense_mass=settings.dense,
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            model_args=(data,),
            rng_key=key,
        )

    return init_one, sample_kernel


def _map_positions(change: Callable[[PyTree], PyTree], state: HMCState) -> HMCState:
    return state._replace(z=change(state.z), z_grad=change(state.z_grad))


def _ravel(position: PyTree) -> Array:
    return ravel_pytree(position)[0]


def _first(start: Start, key: jax.Array) -> Array:
    """Draw a starting point: from the widened Gaussian, or uniform on (-2, 2)."""
    if isinstance(start, Gaussian):
        shape, dtype = start.factor.shape[1:], start.factor.dtype
        return OVERDISPERSED * jax.random.normal(key, shape, dtype)
    flat = _ravel(start)
    return jax.random.uniform(key, flat.shape, flat.dtype, -2, 2)


@partial(
    jax.jit,
    static_argnames=("target", "settings", "n_chains"),
    compiler_options=COMPILED_SOONEST,
)
def init(
    target: Target,
    settings: Settings,
    n_chains: int,
    seed: Seed,
    start: Start,
    data: PyTree,
) -> HMCState:
    """Return the initial state of all chains, with a leading axis of chains.

    With a Gaussian start (and a ``whitened`` target), chains start at over-dispersed
    draws from the Gaussian. If ``start`` is a position, only its shapes are used. The
    potential energy of a chain is not finite if no starting point of the chain has a
    finite density and gradient.
    """
    noise = isinstance(start, Gaussian)
    _, unravel = ravel_pytree(jnp.diagonal(start.factor) if noise else start)
    init_one, _ = kernel(target, settings, unravel)

    def start_chain(key: jax.Array) -> HMCState:
        keys = jax.random.split(key, N_CANDIDATES + 1)
        points = jax.vmap(partial(_first, start))(keys[1:])
        value, gradient = jax.lax.map(
            jax.value_and_grad(lambda p: target.log_density(unravel(p), data)), points
        )
        good = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient), -1)
        first = jnp.argmax(good)
        point = ParamInfo(points[first], -value[first], -gradient[first])
        state = init_one(keys[0], point, data)
        return _map_positions(unravel, state)

    return jax.lax.map(start_chain, jax.random.split(jax.random.key(seed), n_chains))


@partial(jax.jit, static_argnames=("target", "settings", "size", "vectorized"))
def block(
    target: Target,
    settings: Settings,
    size: int,
    state: HMCState,
    n_draws: jax.Array,
    data: PyTree,
    vectorized: bool = False,
) -> tuple[HMCState, Arrays, Arrays]:
    """Advance every chain by ``n_draws`` draws of ``settings.thin`` iterations.

    Returns the state, the functionals and the statistics (ArviZ's names). The arrays
    have ``size`` draws and are zero from ``n_draws`` on, because the last block can be
    shorter. n_steps counts leapfrog steps (gradients) per draw. tree_depth is the
    maximum over its iterations. ``vectorized`` runs the chains by ``vmap``,
    and all chains wait for the longest tree.
    """
    shape = jax.tree.map(lambda leaf: leaf[0], state.z)
    _, unravel = ravel_pytree(shape)
    init_one, sample_kernel = kernel(target, settings, unravel)

    def again(_: jax.Array, carry: _Summed) -> _Summed:
        state, steps, most, diverging = carry
        state = sample_kernel(state, (data,))
        most = jnp.maximum(most, state.num_steps)
        return state, steps + state.num_steps, most, diverging | state.diverging

    def initial(state: HMCState) -> _Summed:
        zero = jnp.zeros_like(state.num_steps)
        return state, zero, zero, jnp.zeros_like(state.diverging)

    def row(moved: _Summed) -> tuple[Arrays, Arrays]:
        state, steps, most, diverging = moved
        # A tree of depth m has 2^m - 1 steps; an incomplete doubling does not count.
        depth = 31 - jax.lax.clz(most.astype(jnp.int32) + 1)
        statistics = {
            "n_steps": steps,
            "tree_depth": depth,
            "reached_max_treedepth": depth >= settings.max_tree_depth,
            "acceptance_rate": state.accept_prob,
            "energy": state.energy,
            "lp": -state.potential_energy,
            "step_size": state.adapt_state.step_size,
            "diverging": diverging,
        }
        return report(target, unravel(state.z), data), statistics

    def advance(state: HMCState) -> _Moved:
        state = _map_positions(_ravel, state)
        point = ParamInfo(state.z, state.potential_energy, state.z_grad)
        jax.eval_shape(init_one, state.rng_key, point, data)
        shapes = jax.eval_shape(lambda state: row(initial(state)), state)
        rows = jax.tree.map(lambda s: jnp.zeros((size, *s.shape), s.dtype), shapes)

        def write(i: jax.Array, carry: _Moved) -> _Moved:
            state, rows = carry
            moved = jax.lax.fori_loop(0, settings.thin, again, initial(state))
            rows = jax.tree.map(lambda r, v: r.at[i].set(v), rows, row(moved))
            return moved[0], rows

        state, rows = jax.lax.fori_loop(0, n_draws, write, (state, rows))
        return _map_positions(unravel, state), rows

    state, (draws, statistics) = (
        jax.vmap(advance)(state) if vectorized else jax.lax.map(advance, state)
    )
    return state, draws, statistics
