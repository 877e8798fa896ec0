"""``NUTS``: several chains, run in blocks of the compiled kernel."""

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import numpyro
from jaxtyping import Float
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
    Call,
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
from probmetric.typing import no_type_check


@no_type_check
@dataclass(frozen=True)
class NUTS:
    """The No-U-Turn sampler. Its draws are exact up to Monte Carlo error.

    Parameters
    ----------
    n_warmup : int, optional
        Number of warm-up iterations, which tune the sampler and are not stored.
        Default: 300 if the chains start from a Gaussian approximation of the posterior,
        otherwise 1000.
    target_accept : float in (0, 1), default=0.8
        Target of the mean acceptance probability. If draws diverge, use a larger value
        (0.95), which makes the steps smaller.
    max_tree_depth : int, default=10
        Maximum tree depth. An iteration uses at most 2^depth - 1 gradients. Increase it
        if a warning names the tree depth.
    adapt_mass : bool, default=True
        Whether warm-up adapts the scales of the parameters (the mass matrix). If the
        chains start from a Gaussian approximation, its covariance sets the initial
        scales. Without ``dense_mass``, only its variances are used.
    dense_mass : bool, default=False
        Whether to use correlations of the parameters too, by a dense instead of a
        diagonal mass matrix. If the posterior is nearly Gaussian, a dense matrix
        without adaptation is faster. If the posterior is curved, as with triplets, it
        is slower and draws may diverge.
    thin : int, default=1
        Number of iterations per draw. Only the last iteration is stored.
    block_size : int, default=100
        Number of draws in each compiled call and in each checkpoint file.
    vectorized : bool, default=False
        Whether to run the chains in parallel by ``vmap``. On a CPU this is usually
        slower.
    checkpoint : path, optional
        Folder for finished blocks, with which a stopped run can be resumed.
    resume : bool, default=False
        Whether to continue from the blocks in ``checkpoint``. The draws are the same as
        in an uninterrupted run.

    Examples
    --------
    >>> NUTS(target_accept=0.95) == NUTS(target_accept=0.95)
    True
    """

    n_warmup: int | None = None
    target_accept: float = 0.8
    max_tree_depth: int = 10
    dense_mass: bool = False
    adapt_mass: bool = True
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
        for name in ("dense_mass", "adapt_mass", "vectorized", "resume"):
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
        """Draw from a posterior, without the checks of ``sample``.

        Define the functions in ``posterior.target`` once, at module level. New
        functions are compiled again.

        - If ``posterior.start`` is a Gaussian, chains start at draws from it with twice
          its standard deviation. Only a sampler with ``dense_mass=True`` uses its
          correlations.
        - If it is a position, chains start at random on (-2, 2) in each coordinate.

        Raises ValueError in three cases:

        - The Gaussian is singular.
        - No starting point of a chain has a finite density and gradient.
        - The folder ``checkpoint`` contains draws of another run.
        """
        n_draws, n_chains = counts(n_draws, n_chains, 4)
        target, data, start = posterior
        gaussian = isinstance(start, Gaussian)
        if gaussian:
            factor = np.asarray(start.factor)
            _check_factor(factor)
            if not self.dense_mass:
                start = start._replace(factor=np.diag(np.linalg.norm(factor, axis=1)))
        n_warmup = self.n_warmup or (300 if gaussian else 1000)
        settings = Settings(
            n_warmup,
            self.target_accept,
            self.max_tree_depth,
            self.dense_mass and self.adapt_mass,
            self.adapt_mass,
            self.thin,
        )
        size = self.block_size
        folder = check_folder(self.checkpoint, self.resume)
        with jax.enable_x64(is_double(dtype)):
            data, start = cast(data, dtype), cast(start, dtype)
            name = getattr(target.log_density, "__qualname__", "?")
            name = data.name if isinstance(data, Call) else name
            inputs = {"data": data, "start": start}
            if gaussian:
                target, data = whitened(target), (start, data)
            state = init(target, settings, n_chains, np.int64(seed), start, data)
            _check_start(state)

            def advance(
                state: HMCState, n: int, _: int
            ) -> tuple[HMCState, Arrays, Arrays]:
                return block(target, settings, size, state, n, data, self.vectorized)

            # The density reveals a changed model with the same name. Six of its digits
            # are equal on all machines.
            energy = [f"{-e:.6g}" for e in np.asarray(state.potential_energy)]
            values, statistics = run_blocks(
                advance,
                state,
                plan_blocks(-(-n_warmup // self.thin), n_draws, size),
                folder=folder,
                resume=self.resume,
                run=describe(
                    inputs,
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
                ),
                label="nuts",
                progress=progress,
            )
        attributes = {"method": "nuts", "seed": seed, "n_parameters": _size(start)}
        return as_draws(values, statistics, {**attributes, **settings._asdict()})


def _check_factor(factor: Float[np.ndarray, "k m"]) -> None:
    """Raise ValueError for a singular factor; ``_check_start`` checks for NaN."""
    k, square = len(factor), factor.ndim == 2 and not np.ptp(factor.shape)
    flat = False
    if square and np.isfinite(factor).all():
        size = np.abs(factor).max(1, keepdims=True)  # Makes the check scale-free.
        rows = factor / np.where(size > 0, size, 1.0)
        flat = bool(np.linalg.cond(rows, 1) * k * np.finfo(float).eps > 1)
    if flat or not square:
        raise ValueError(
            "start: the covariance must have full rank, got a "
            f"{'singular ' if flat else ''}factor of shape {factor.shape}. Pass a "
            "Gaussian with a factor of full rank."
        )


def _check_start(state: HMCState) -> None:
    good = np.isfinite(np.asarray(state.potential_energy))
    for leaf in jax.tree.leaves(state.z_grad):
        good &= np.isfinite(leaf).reshape(len(good), -1).all(1)
    if not good.all():
        raise ValueError(
            "start: the log density and its gradient must be finite for each chain, "
            f"got NaN or infinity for {int((~good).sum())} of {good.size} chains. Use "
            "another start, or check the data for NaN and infinity."
        )


def _size(start: Start) -> int:
    mean = start.mean if isinstance(start, Gaussian) else start
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(mean))
