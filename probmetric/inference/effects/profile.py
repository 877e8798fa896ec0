"""The marginal density of one parameter ω ≥ 0, by Laplace's method.

The joint mode of a hierarchical model does not estimate its spread ω, but the marginal
density of ω does. Laplace's method integrates out the other parameters. ``Profile``
caches modes and starts each search at the nearest cached mode. ``climb`` maximizes the
density of ω, ``on_grid`` computes it on a grid near the maximum, and ``drawn_on_grid``
draws ω from the grid.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from probmetric.inference.sampling.target import Arrays
from probmetric.inference.solvers.result import Fit, Result
from probmetric.typing import Scalar


def log_half_normal(spread: Scalar, scale: Scalar) -> Scalar:
    """Return the log density of ω ≥ 0 under HalfNormal(scale)."""
    xp = np if isinstance(spread, float | np.ndarray) else jnp
    return 0.5 * np.log(2 / np.pi) - xp.log(scale) - 0.5 * (spread / scale) ** 2


@runtime_checkable
class ModeAt(Protocol):
    """The mode given ω, and the log density of ω (-inf if there is no mode)."""

    @property
    def at(self) -> Arrays:
        """Position of the mode."""
        ...

    @property
    def log_density(self) -> float:
        """Log density of ω."""
        ...


class Profile[M: ModeAt]:
    """Log density of ω; each search starts at the nearest cached mode."""

    def __init__(self, begin: Arrays, mode_at: Callable[[float, Arrays], M]) -> None:
        self.begin, self.mode_at = begin, mode_at
        self.modes: dict[float, M] = {}

    def __call__(self, spread: float) -> M:
        """Return the mode at one ω."""
        if spread not in self.modes:
            near = min(self.modes, key=lambda other: abs(other - spread), default=None)
            begin = self.begin if near is None else self.modes[near].at
            self.modes[spread] = self.mode_at(spread, begin)
        return self.modes[spread]


def climb[M: ModeAt](
    profile: Profile[M], first: float, bounds: tuple[float, float]
) -> M:
    """Maximize the density of ω, at 0 or within ``bounds``; return the mode there."""
    for spread in (first, 0.0):
        profile(spread)
    minimize_scalar(
        lambda log: -profile(float(np.exp(log))).log_density,
        bounds=np.log(bounds),
        method="bounded",
        options={"xatol": 1e-3, "maxiter": 40},
    )
    return max(profile.modes.values(), key=lambda mode: mode.log_density)


def check_mode(log_density: float, fit: Fit) -> None:
    """Raise if a solver converged to a point that is not a mode."""
    if log_density == -np.inf and int(fit.result) == Result.CONVERGED:
        raise ValueError(
            "X: the fit did not end at a maximum of the posterior, because the "
            "Hessian is not negative definite. Remove points far from all others, or "
            "increase regularization."
        )


def on_grid[M: ModeAt](
    profile: Profile[M], at: float, scale: float, largest: float, n: int, drop: float
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"], tuple[M, ...]]:
    """Return n equally spaced values of ω near ``at``, their probabilities and modes.

    The grid ends where the log density is ``drop`` lower than at ``at``, or at 0. The
    search for the upper end starts with a step of ``scale``/10 and stops beyond
    ``largest``. With n = 1, the grid is only ``at``, with probability 1.
    """
    if n == 1:
        return np.array([at]), np.ones(1), (profile(at),)
    lowest = profile(at).log_density - drop
    low, high, width = 0.0, at + 0.1 * scale, 0.1 * scale
    while profile(high).log_density > lowest and high < largest:
        width *= 1.5
        high += width
    if at > 0 and profile(0.0).log_density < lowest:
        low, inside = 0.0, at
        for _ in range(5):
            middle = (low + inside) / 2
            if profile(middle).log_density < lowest:
                low = middle
            else:
                inside = middle
    edge = (high - low) / n / 2
    grid = np.linspace(low + edge, high - edge, n)
    modes = tuple(profile(float(spread)) for spread in grid)
    log_density = np.array([mode.log_density for mode in modes])
    best = log_density.max()
    probability = np.exp(log_density - best) if np.isfinite(best) else np.ones(n)
    return grid, probability / probability.sum(), modes


def drawn_on_grid[M](
    grid: Float[np.ndarray, "k"],
    probability: Float[np.ndarray, "k"],
    modes: tuple[M, ...],
    at_mode: Callable[
        [M, float, Float[np.ndarray, "m"], np.random.Generator], dict[str, np.ndarray]
    ],
    n: int,
    seed: int,
) -> dict[str, np.ndarray]:
    """Return n draws (1, n, ...) of ω, named ``spread``, and of quantities given ω.

    ``at_mode(mode, ω of the cell, ω drawn (m,), rng)`` returns values (m, ...) by name.
    ω is uniform within a grid cell.
    """
    rng = np.random.default_rng(seed)
    cell = np.sort(rng.choice(len(grid), n, p=probability))
    size = grid[1] - grid[0] if len(grid) > 1 else 0.0
    spread = grid[cell] + size * rng.uniform(-0.5, 0.5, n)
    blocks = [
        at_mode(modes[k], float(grid[k]), spread[cell == k], rng)
        for k in np.unique(cell)
    ]
    values = {k: np.concatenate([block[k] for block in blocks]) for k in blocks[0]}
    values["spread"] = spread
    order = rng.permutation(n)
    return {name: value[order][None] for name, value in values.items()}
