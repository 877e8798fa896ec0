"""The marginal density of one parameter ω ≥ 0, by Laplace's method at each ω.

The joint mode of a hierarchical model does not estimate the spread ω. Its marginal
density does, with the other parameters integrated out by Laplace's method. ``Profile``
caches the modes and starts each at the nearest cached mode. ``climb`` finds the ω with
the highest density, ``on_grid`` tabulates the density around it, and ``drawn_on_grid``
draws ω and the other parameters.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from probmetric.inference.solvers.result import Fit, Result


@runtime_checkable
class ModeAt(Protocol):
    """The mode at one ω: its position, and the log density of ω."""

    @property
    def at(self) -> dict[str, Any]:
        """The position."""
        ...

    @property
    def log_density(self) -> float:
        """The log density of ω; -inf if there is no mode."""
        ...


class Profile[M: ModeAt]:
    """The log density of ω, with cached modes as warm starts.

    Parameters
    ----------
    begin : dict
        Start for the first ω.
    mode_at : callable
        ``mode_at(ω, position) -> mode``.
    """

    def __init__(
        self, begin: dict[str, Any], mode_at: Callable[[float, dict[str, Any]], M]
    ) -> None:
        self.begin, self.mode_at = begin, mode_at
        self.modes: dict[float, M] = {}

    def __call__(self, spread: float) -> M:
        """Return the mode at one ω."""
        if spread not in self.modes:
            near = min(self.modes, key=lambda other: abs(other - spread), default=None)
            begin = self.begin if near is None else self.modes[near].at
            self.modes[spread] = self.mode_at(spread, begin)
        return self.modes[spread]

    def best(self) -> float:
        """Return the ω with the highest density so far."""
        return max(self.modes, key=lambda spread: self.modes[spread].log_density)


def climb[M: ModeAt](
    profile: Profile[M], first: float, bounds: tuple[float, float]
) -> M:
    """Return the mode at the ω with the highest density: 0, or between ``bounds``."""
    for spread in (first, 0.0):
        profile(spread)
    minimize_scalar(
        lambda log: -profile(float(np.exp(log))).log_density,
        bounds=np.log(bounds),
        method="bounded",
        options={"xatol": 1e-3, "maxiter": 40},
    )
    return profile(profile.best())


def check_mode(log_density: float, fit: Fit) -> None:
    """Raise ValueError if the solver converged to a point that is not a mode.

    ``log_density`` is the density at the best ω, -inf without a mode.
    """
    if log_density == -np.inf and int(fit.result) == Result.CONVERGED:
        raise ValueError(
            "X must be points whose posterior has a mode, got a solution where minus "
            "the Hessian is not positive definite. Look for outliers, or raise "
            "regularization."
        )


def on_grid[M: ModeAt](
    profile: Profile[M], at: float, scale: float, largest: float, n: int, drop: float
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"], tuple[M, ...]]:
    """Return a grid of n values of ω, the probabilities of their cells, and the modes.

    Parameters
    ----------
    profile : Profile
    at : float
        The ω with the highest density.
    scale : float
        The first step of the search for the upper end is scale / 10.
    largest : float
        Upper limit of the grid.
    n : int
        Number of points; the only point of a grid with n = 1 is ``at``.
    drop : float
        The grid ends where the log density is lower than at ``at`` by this, or at 0.
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
    """Return n draws (1, n, ...) of ω (``spread``), and of the parameters given ω.

    Parameters
    ----------
    grid, probability, modes
        The result of ``on_grid``. ω is uniform within its cell.
    at_mode : callable
        ``at_mode(mode, grid ω, drawn ω (m,), rng) -> values`` (m, ...) by name.
    n, seed : int
    """
    rng = np.random.default_rng(seed)
    cell = np.sort(rng.choice(len(grid), n, p=probability))
    size = grid[1] - grid[0] if len(grid) > 1 else 0.0
    spread = grid[cell] + size * rng.uniform(-0.5, 0.5, n)
    parts = [
        at_mode(modes[k], float(grid[k]), spread[cell == k], rng)
        for k in np.unique(cell)
    ]
    values = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    values["spread"] = spread
    order = rng.permutation(n)
    return {name: value[order][None] for name, value in values.items()}
