"""The bootstrap of LCA in blocks of one compiled program, stored and resumed like NUTS.

The program makes its own weights, draw k from the seed and k alone: neither the number
of draws nor the size of a block nor a stop in between changes a draw.
"""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probmetric.data.containers import Pairs
from probmetric.inference.lca.bootstrap import dirichlet_weights, gather, refit
from probmetric.inference.lca.target import TARGET
from probmetric.inference.sampling.checkpoint import (
    check_folder,
    describe,
    plan_blocks,
    run_blocks,
)
from probmetric.inference.sampling.target import Draws
from probmetric.inference.solvers.result import REMEDY, Result
from probmetric.models.lca import LCAParams, LCAPrior
from probmetric.precision import numpy_in_numpy_out

__all__ = ["bootstrap_draws", "memory_of_a_refit", "needed_memory"]


@numpy_in_numpy_out
def bootstrap_draws(
    pairs: Pairs,
    prior: LCAPrior,
    start: LCAParams,
    *,
    seed: int,
    n_draws: int,
    n_points: int | None = None,
    learning_rate: int | float = 1.0,
    batch: int = 1,
    block_size: int = 50,
    max_steps: int = 500,
    tol: int | float = 1e-6,
    progress: bool | None = None,
    checkpoint: "str | Path | None" = None,
    resume: bool = False,
) -> Draws:
    """Draw M, b and log σ² by refits under Dirichlet weights.

    Parameters
    ----------
    pairs, prior, start, learning_rate, max_steps, tol
        As for ``bootstrap``.
    seed : int
        The same seed gives the same draws on the same machine, draw k whatever
        ``n_draws`` and ``block_size`` are.
    n_draws : int
    n_points : int, optional
        Points beyond it are padding and weigh one. Default: all are points.
    batch : int, default=1
        Refits side by side (``vmap``). Each waits for the slowest of its batch, and
        memory is batch times ``memory_of_a_refit`` beside data and draws: for
        accelerators.
    block_size : int, default=50
        Draws a compiled call, and a file of the checkpoint.
    progress : bool, optional
        Default: in terminals and notebooks.
    checkpoint : path, optional
        Folder in which every finished block is kept, one file each.
    resume : bool, default=False
        Go on from the blocks in ``checkpoint``, to the draws that the run would have
        given had it not been stopped.

    Returns
    -------
    Draws
        One chain.

    Raises
    ------
    ValueError
        Sizes below 1, or a checkpoint that holds blocks of another run (or of any,
        without ``resume``), or that another run is writing to.
    RuntimeError
        A refit that did not converge; the blocks before it stand.
    """
    for name, size in (
        ("n_draws", n_draws),
        ("batch", batch),
        ("block_size", block_size),
    ):
        if size < 1:
            raise ValueError(f"{name}: wanted at least 1, got {size}")
    folder = check_folder(checkpoint, resume)
    shared = gather(pairs, prior, learning_rate, start)
    n = np.asarray(len(pairs.X) if n_points is None else n_points)
    key = jax.random.key(seed)

    def advance(_: Any, n_block: int, index: int) -> tuple[Any, Any, Any]:
        first, count = np.asarray(index * block_size), np.asarray(n_block)
        values, results = _block(
            shared,
            key,
            n,
            first,
            count,
            tol,
            len(pairs.X),
            block_size,
            batch,
            max_steps,
        )
        _check(np.asarray(results)[:n_block], index * block_size)
        return (), jax.tree.map(lambda a: np.asarray(a)[None], values), {}

    values, _ = run_blocks(
        advance,
        (),
        plan_blocks(0, n_draws, block_size),
        folder=folder,
        resume=resume,
        run=describe(
            shared._asdict(),
            model="lca bootstrap",
            seed=seed,
            n_draws=n_draws,
            n_points=int(n),
            batch=batch,
            block_size=block_size,
            max_steps=max_steps,
            tol=tol,
        ),
        label="bootstrap",
        progress=progress,
    )
    return Draws(values, {}, {"method": "bootstrap", "seed": seed})


def needed_memory(
    pairs: Pairs,
    prior: LCAPrior,
    start: LCAParams,
    *,
    batch: int = 1,
    block_size: int = 50,
    max_steps: int = 500,
) -> int:
    """Return the bytes that a block's compiled program works in, as XLA counts them.

    Beside its arguments (the data, once) and its result (``block_size`` draws).
    """
    with jax.enable_x64(np.asarray(pairs.X).dtype == np.float64):
        shared = gather(pairs, prior, 1.0, start)
        key, zero, n = jax.random.key(0), np.asarray(0), len(pairs.X)
        lowered = _block.lower(
            shared, key, zero, zero, zero, 1e-6, n, block_size, batch, max_steps
        )
        used: Any = lowered.compile().memory_analysis()
        return int(used.temp_size_in_bytes)


def memory_of_a_refit(N: int, n: int, p: int, d: int, max_steps: int) -> int:
    """Return a bound, in bytes, of what one refit of N pairs of n points works in."""
    return 8 * (N * (2 * p + d + 8) + 4 * n + 64 * d * (p + d) + 4 * max_steps)


def _check(results: np.ndarray, first: int) -> None:
    for code in (Result.NONFINITE, Result.DECREASED, Result.MAX_STEPS):
        if np.any(results == code):
            raise RuntimeError(
                f"bootstrap: {code.name} in {int(np.sum(results == code))} of the "
                f"{len(results)} refits from draw {first} on; {REMEDY[code]}"
            )


@partial(jax.jit, static_argnums=(6, 7, 8, 9))
def _block(
    shared: Any,
    key: Any,
    n: Any,
    first: Any,
    count: Any,
    tol: Any,
    n_padded: int,
    size: int,
    batch: int,
    max_steps: int,
) -> tuple[dict[str, Any], Any]:
    """Make draws first, …, first + count - 1 in arrays with room for ``size``."""
    dtype = shared.learning_rate.dtype

    def one(k: Any) -> tuple[dict[str, Any], Any]:
        u = dirichlet_weights(jax.random.fold_in(key, k), n, n_padded, dtype)
        fit = refit(shared, u, tol, max_steps)
        return TARGET.functionals(fit.params, None), fit.result

    def some(k: Any, room: Any) -> Any:
        at = k * batch
        which = first + at + jnp.arange(batch)
        # A batch of one is no vmap: its loop then carries no masks.
        rows = jax.vmap(one)(which) if batch > 1 else jax.lax.map(one, which)

        def write(r: Any, row: Any) -> Any:
            return jax.lax.dynamic_update_slice_in_dim(r, row, at, 0)

        return jax.tree.map(write, room, rows)

    n_batches = -(-size // batch)
    shapes = jax.eval_shape(one, first)
    room = jax.tree.map(
        lambda s: jnp.zeros((n_batches * batch, *s.shape), s.dtype), shapes
    )
    return jax.lax.fori_loop(0, -(-count // batch), some, room)
