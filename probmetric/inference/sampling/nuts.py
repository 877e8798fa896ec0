"""``NUTS``: several chains, block after block of the compiled kernel."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
from jaxtyping import Float, Int
from numpyro.infer.hmc import HMCState

from probmetric.arguments import check_bool, check_within_0_1, store_counts
from probmetric.inference.sampling.checkpoint import (
    check_folder,
    describe,
    plan_blocks,
    run_blocks,
)
from probmetric.inference.sampling.kernel import Settings, block, init
from probmetric.inference.sampling.target import (
    Arrays,
    Draws,
    Gaussian,
    Posterior,
    Start,
    as_draws,
    cast,
    counts,
    is_double,
    whitened,
)
from probmetric.processes.distributed import gather, together
from probmetric.typing import no_type_check


@no_type_check
@dataclass(frozen=True)
class NUTS:
    """The No-U-Turn sampler: exact up to Monte Carlo error.

    Parameters
    ----------
    n_warmup : int, optional
        Iterations thrown away. Default 300 with a Gaussian start, in whose coordinates
        the posterior is nearly round; 1000 otherwise.
    target_accept : float in (0, 1), default=0.8
        Mean acceptance that the step size is adapted to.
    max_tree_depth : int, default=10
        At most 2^depth - 1 gradients an iteration.
    adapt_mass : bool, optional
        Adapt the mass matrix in warm-up. Default: yes; but a Gaussian start's
        covariance, the first inverse, is kept where there are fewer than ten iterations
        a parameter.
    dense_mass : bool, optional
        Adapt a full one (default: with a Gaussian start) or a diagonal, of the
        coordinates ``factor`` whitens where the start is Gaussian.
    thin : int, default=1
        Iterations per draw.
    block_size : int, default=100
        Draws a compiled call, and a file of the checkpoint.
    vectorized : bool, default=False
        Chains side by side. On a CPU one after the other was faster when tried, as
        no chain waits for the longest tree.
    checkpoint : path, optional
        Folder in which every finished block is kept, one file each; of several
        processes a folder in it each.
    resume : bool, default=False
        Go on from the blocks in ``checkpoint``, to the draws that the run would have
        given had it not been stopped.

    Raises
    ------
    ValueError
        Naming the setting.

    Notes
    -----
    Within ``pm.distributed()`` every process runs its share of the chains, which are
    gathered at the end: the draws of one process. All have to hold the same data.

    Examples
    --------
    >>> NUTS(target_accept=0.95) == NUTS(target_accept=0.95)
    True
    """

    n_warmup: int | None = None
    target_accept: float = 0.8
    max_tree_depth: int = 10
    dense_mass: bool | None = None
    adapt_mass: bool | None = None
    thin: int = 1
    block_size: int = 100
    vectorized: bool = False
    checkpoint: str | Path | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.n_warmup is not None:
            store_counts(self, "n_warmup")
        store_counts(self, "max_tree_depth", "thin", "block_size")
        check_within_0_1(target_accept=self.target_accept)
        for name in ("dense_mass", "adapt_mass"):
            if getattr(self, name) is not None:
                check_bool(name, getattr(self, name))
        for name in ("vectorized", "resume"):
            check_bool(name, getattr(self, name))

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
        """Draw from a posterior; the draws are judged by ``warn_of_trouble``.

        Parameters
        ----------
        posterior : Posterior
            Its target holds module-level functions: the compiled kernel is kept for
            the same target. From a Gaussian start chains begin at draws of it with
            twice its sd, and its covariance is the first inverse mass matrix. A
            position is read for its shapes alone: chains begin uniform on (-2, 2).
        seed : int
            The same seed gives the same draws on the same machine.
        n_draws : int, default=1000
        n_chains : int, optional
            Default: 4.
            Draws are per chain.
        dtype : {"float64", "float32"}, default="float64"
        progress : bool, optional
            Default: a bar in terminals and notebooks, elsewhere a line every 10 s.

        Raises
        ------
        ValueError
            Sizes below 1, no starting point of finite density, or a checkpoint that
            holds blocks of another run (or of any, without ``resume``), or that
            another run is writing to.
        """
        n_draws, n_chains = counts(n_draws, n_chains, 4)
        target, data, start = posterior
        gaussian = isinstance(start, Gaussian)
        if gaussian:
            _check_factor(np.asarray(start.factor))
        n_warmup = self.n_warmup or (300 if gaussian else 1000)
        dense, adapt = self.dense_mass, self.adapt_mass
        if adapt is None:
            adapt = not gaussian or n_warmup >= 10 * len(start.factor)
        if dense is None:
            dense = gaussian
        settings = Settings(
            n_warmup,
            self.target_accept,
            self.max_tree_depth,
            dense and adapt,
            adapt,
            self.thin,
        )
        size = self.block_size
        mine, shared = _chains(n_chains)
        folder = check_folder(_folder(self.checkpoint), self.resume)
        with jax.enable_x64(is_double(dtype)):
            data, start = cast(data, dtype), cast(start, dtype)
            name = getattr(target.log_density, "__qualname__", "?")
            given = {"data": data, "start": start}
            if gaussian:
                target, data = whitened(target), (start, data)
            state = init(target, settings, n_chains, np.int64(seed), start, data)
            _check_start(state)

            def advance(
                state: HMCState, n: int, _: int
            ) -> tuple[HMCState, Arrays, Arrays]:
                return block(target, settings, size, state, n, data, self.vectorized)

            # What is done with a model of the same name that was changed in between
            # is seen in its density; six digits are the same on every machine.
            energy = [f"{-e:.6g}" for e in np.asarray(state.potential_energy)]
            if shared:
                state = jax.tree.map(lambda leaf: leaf[mine], state)
            values, statistics = run_blocks(
                advance,
                state,
                plan_blocks(-(-n_warmup // self.thin), n_draws, size),
                folder=folder,
                resume=self.resume,
                run=describe(
                    given,
                    model=name,
                    **({"coordinates": "whitened"} if gaussian else {}),
                    seed=seed,
                    n_chains=n_chains,
                    n_draws=n_draws,
                    block_size=size,
                    dtype=dtype,
                    vectorized=self.vectorized,
                    **settings._asdict(),
                    **{"log density at the start": energy},
                    **({"chains of this process": mine.tolist()} if shared else {}),
                ),
                label="nuts",
                progress=progress if together().rank == 0 else False,
            )
        values, statistics = _gathered((values, statistics), n_chains, energy)
        attributes = {"method": "nuts", "seed": seed, "n_parameters": _size(start)}
        return as_draws(values, statistics, {**attributes, **settings._asdict()})


def _chains(n_chains: int) -> tuple[Int[np.ndarray, "m"], bool]:
    """Return the chains of this process, and whether there are other processes.

    Each has as many; the last chain is run more than once where they do not divide.
    """
    rank, size = together()
    each = -(-n_chains // size)
    chains = rank * each + np.arange(each)
    return np.minimum(chains, n_chains - 1), size > 1


def _folder(checkpoint: str | Path | None) -> str | Path | None:
    """Return where the blocks of this process are kept."""
    rank, size = together()
    if checkpoint is None or size == 1:
        return checkpoint
    return Path(checkpoint) / f"process_{rank}"


def _gathered(kept: Any, n_chains: int, energy: list[str]) -> Any:
    """Return the draws of all chains, in their order; a gather at the end."""
    if together().size == 1:
        return kept
    agree = np.array([float(e) for e in energy])
    every = gather(kept, agree)
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:n_chains], every)


def _check_factor(factor: Float[np.ndarray, "k m"]) -> None:
    """Refuse what chains could not move along; ``_check_start`` refuses NaN."""
    k, square = len(factor), factor.ndim == 2 and not np.ptp(factor.shape)
    flat = False
    if square and np.isfinite(factor).all():
        size = np.abs(factor).max(1, keepdims=True)  # Units are no matter.
        rows = factor / np.where(size > 0, size, 1.0)
        flat = bool(np.linalg.cond(rows, 1) * k * np.finfo(float).eps > 1)
    if flat or not square:
        raise ValueError(
            "start: expected a Gaussian that leaves no direction out, got a "
            f"{'singular ' if flat else ''}factor of shape {factor.shape}"
        )


def _check_start(state: HMCState) -> None:
    good = np.isfinite(np.asarray(state.potential_energy))
    for leaf in jax.tree.leaves(state.z_grad):
        good &= np.isfinite(leaf).reshape(len(good), -1).all(1)
    if not good.all():
        raise ValueError(
            "start: expected a point of finite density and gradient for every chain, "
            f"found none for {int((~good).sum())} of {good.size}: give a better start, "
            "or look for NaN and inf in the data"
        )


def _size(start: Start) -> int:
    mean = start.mean if isinstance(start, Gaussian) else start
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(mean))
