"""``nuts``: several chains, block after block of the compiled kernel."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from probmetric.arguments import check_counts, check_within_0_1
from probmetric.inference.sampling.checkpoint import (
    check_folder,
    describe,
    plan_blocks,
    run_blocks,
)
from probmetric.inference.sampling.kernel import Settings, block, init
from probmetric.inference.sampling.target import (
    Draws,
    Gaussian,
    Target,
    cast,
    is_double,
)
from probmetric.inference.sampling.warnings import warn_of_trouble

__all__ = ["nuts"]


def nuts(
    target: Target,
    data: Any,
    *,
    start: Any,
    seed: int,
    n_chains: int = 4,
    n_draws: int = 1000,
    n_warmup: int | None = None,
    target_accept: float = 0.8,
    max_tree_depth: int = 10,
    dense_mass: bool | None = None,
    adapt_mass: bool | None = None,
    thin: int = 1,
    block_size: int = 100,
    vectorized: bool = False,
    dtype: str = "float64",
    progress: bool | None = None,
    warn: bool = True,
    checkpoint: "str | Path | None" = None,
    resume: bool = False,
) -> Draws:
    """Sample a target by the No-U-Turn sampler.

    Parameters
    ----------
    target : Target
        Module-level functions: the compiled kernel is kept for the same target.
    data : pytree of arrays
        Passed to the target.
    start : Gaussian, or pytree of arrays
        The Laplace approximation of a closed form: chains start from draws of it
        with twice its sd, and its covariance is the inverse mass matrix. Or a
        position, read for its shapes alone: chains then start uniform on (-2, 2).
    seed : int
        The same seed gives the same draws on the same machine.
    n_chains, n_draws : int, defaults 4 and 1000
        Draws are per chain.
    n_warmup : int, optional
        Iterations thrown away. Default 300 with a Gaussian start, whose mass matrix
        is kept so that only the step size has to be learned; 1000 otherwise.
    target_accept : float in (0, 1), default=0.8
        Mean acceptance that the step size is adapted to.
    max_tree_depth : int, default=10
        At most 2^depth - 1 gradients an iteration.
    dense_mass, adapt_mass : bool, optional
        Full mass matrix (default: with a Gaussian start); adapt it in warm-up
        (default: without one).
    thin : int, default=1
        Iterations per draw.
    block_size : int, default=100
        Draws a compiled call.
    vectorized : bool, default=False
        Chains side by side. On a CPU one after the other was faster by a third to a
        half, as no chain waits for the longest tree.
    dtype : {"float64", "float32"}, default="float64"
        Precision.
    progress : bool, optional
        Default: in terminals and notebooks.
    warn : bool, default=True
        Warn (``SamplingWarning``) of divergences, R-hat and effective sample size.
    checkpoint : path, optional
        Folder in which every finished block is kept, one file each.
    resume : bool, default=False
        Go on from the blocks in ``checkpoint``, to the draws that the run would have
        given had it not been stopped.

    Returns
    -------
    Draws

    Raises
    ------
    ValueError
        Sizes below 1, no starting point of finite density, or a checkpoint that
        holds blocks of another run (or of any, without ``resume``), or that another
        run is writing to.
    """
    gaussian = isinstance(start, Gaussian)
    if n_warmup is None:
        n_warmup = 300 if gaussian else 1000
    check_counts(n_chains=n_chains, n_draws=n_draws, n_warmup=n_warmup, thin=thin)
    check_counts(block_size=block_size, max_tree_depth=max_tree_depth)
    check_within_0_1(target_accept=target_accept)
    settings = Settings(
        n_warmup,
        target_accept,
        max_tree_depth,
        gaussian if dense_mass is None else dense_mass,
        not gaussian if adapt_mass is None else adapt_mass,
        thin,
    )
    folder = check_folder(checkpoint, resume)
    with jax.enable_x64(is_double(dtype)):
        data, start = cast(data, dtype), cast(start, dtype)
        keys = jax.random.split(jax.random.key(seed), n_chains)
        state = init(target, settings, keys, start, data)
        _check_start(state)

        def advance(state: Any, n: int, _: int) -> tuple[Any, Any, Any]:
            return block(target, settings, block_size, state, n, data, vectorized)

        # What is done with a model of the same name that was changed in between is
        # seen in its density; six digits are the same on every machine.
        energy = [f"{-e:.6g}" for e in np.asarray(state.potential_energy)]
        values, statistics = run_blocks(
            advance,
            state,
            plan_blocks(-(-n_warmup // thin), n_draws, block_size),
            folder=folder,
            resume=resume,
            run=describe(
                {"data": data, "start": start},
                model=getattr(target.log_density, "__qualname__", "?"),
                seed=seed,
                n_chains=n_chains,
                n_draws=n_draws,
                block_size=block_size,
                dtype=dtype,
                vectorized=vectorized,
                **settings._asdict(),
                **{"log density at the start": energy},
            ),
            label="nuts",
            progress=progress,
        )
    if warn:
        warn_of_trouble(values, statistics)
    attributes = {"method": "nuts", "seed": seed, "n_parameters": _size(start)}
    return Draws(values, statistics, {**attributes, **settings._asdict()})


def _check_start(state: Any) -> None:
    gradient = jax.vmap(lambda g: ravel_pytree(g)[0])(state.z_grad)
    good = np.isfinite(np.asarray(state.potential_energy))
    good &= np.all(np.isfinite(np.asarray(gradient)), -1)
    if not good.all():
        raise ValueError(
            "start: expected a point of finite density and gradient for every chain, "
            f"found none for {int((~good).sum())} of {good.size}: give a better start, "
            "or look for NaN and inf in the data"
        )


def _size(start: Any) -> int:
    mean = start.mean if isinstance(start, Gaussian) else start
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(mean))
