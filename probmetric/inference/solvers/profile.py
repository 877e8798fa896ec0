"""The marginal density of one number ω ≥ 0, by the mode of all else at each ω.

Of a hierarchical model the joint mode says nothing about the spread ω; its marginal
density, all else integrated out by Laplace's method, does. ``Profile`` remembers the
modes and starts each at the nearest that is known; ``climb`` finds the largest density,
``on_grid`` tabulates it around there, and ``drawn_on_grid`` draws ω and all else by it.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from probmetric.inference.solvers.result import Fit, Result


@runtime_checkable
class ModeAt(Protocol):
    """The mode at one ω: where it is, and the log density of ω there."""

    @property
    def at(self) -> dict[str, Any]:
        """The position."""
        ...

    @property
    def log_density(self) -> float:
        """Of ω; -inf where no mode was found."""
        ...


class Profile[M: ModeAt]:
    """The log density of ω, each value started at the mode nearest to it so far.

    Parameters
    ----------
    begin : dict
        Where the first starts.
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
            near = min(self.modes, key=lambda known: abs(known - spread), default=None)
            begin = self.begin if near is None else self.modes[near].at
            self.modes[spread] = self.mode_at(spread, begin)
        return self.modes[spread]

    def best(self) -> float:
        """Return the ω of the largest density among those tried."""
        return max(self.modes, key=lambda spread: self.modes[spread].log_density)


def climb[M: ModeAt](
    profile: Profile[M], first: float, bounds: tuple[float, float]
) -> M:
    """Return the mode at the ω of largest density: 0, or between ``bounds``."""
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
    """Raise where a solver ended at what is no mode; one cut short gets its warning.

    Parameters
    ----------
    log_density : float
        At the best ω, -inf where no mode was found.
    fit : Fit
        How the solver ended there.

    Raises
    ------
    ValueError
        Naming the points.
    """
    if log_density == -np.inf and int(fit.result) == Result.CONVERGED:
        raise ValueError(
            "X: expected points whose posterior has a mode, got none (where the solver "
            "ended minus the Hessian is not positive definite): look for a point far "
            "from all others, or raise regularization"
        )


def on_grid[M: ModeAt](
    profile: Profile[M], at: float, scale: float, largest: float, n: int, drop: float
) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"], tuple[M, ...]]:
    """Return n equally far ω around ``at``, the probability of their cells, the modes.

    Parameters
    ----------
    profile : Profile
    at : float
        The ω of largest density.
    scale : float
        Of steps: a tenth of it is the first.
    largest : float
        Where the grid ends at the latest.
    n : int
        Points; 1 is ``at`` alone, as known.
    drop : float
        It ends where the log density is this much lower than at ``at``, or at 0.
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
    """Return n draws (1, n, ...) of ω, as ``spread``, and of all else given it.

    Parameters
    ----------
    grid, probability, modes
        As of ``on_grid``. ω is uniform within its cell.
    at_mode : callable
        ``at_mode(mode, ω of the grid, ω drawn (m,), rng) -> values`` (m, ...) by name.
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
