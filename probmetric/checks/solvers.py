"""Iterations that learners share, against their definitions in NumPy.

A fit ends at the same place by many ways, so that no check of fits sees a wrong step.
Here whole runs are compared: the points passed, the evaluations and how it ended.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from probmetric.checks.check import Problem, Values, by_algebra
from probmetric.inference.two_stage.proportional import best_root, proportional_m_step
from probmetric.typing import Array

N_SWEEPS = 300


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function crosses zero, to all digits."""
    found: Any = brentq(function, low, high, xtol=1e-15)
    return float(found)


def _cubics() -> np.ndarray:
    """Return cubics with three roots in (0, 1), with fewer, and of lower degree."""
    rng = np.random.default_rng(4)
    inside = [np.poly(r) for r in rng.uniform(0.05, 0.95, (12, 3))]
    mixed = [np.poly(r) for r in rng.uniform(-2, 2, (12, 3))]
    signed = [-c for c in inside[:6] + mixed[:6]]
    lower = [np.append(0.0, np.poly(r)) for r in rng.uniform(0.1, 0.9, (3, 2))]
    return np.array([*inside, *mixed, *signed, *lower])


def _moments() -> tuple[Array, ...]:
    rng = np.random.default_rng(5)
    G = rng.normal(size=(2, 2, 3, 6))
    between, within = (a @ np.swapaxes(a, -1, -2) for a in G)
    mass = np.array([9.0, 14.0])
    return 4 * between, 9 * within, mass, 2.5 * mass


def roots_by_hand(problem: Problem[Any]) -> Values:
    """Take roots by eigenvalues (NumPy), and the M-step of (Σ, α) by its profile."""
    best: list[float] = []
    for cubic in _cubics():
        every = np.roots(cubic)
        real = every.real[np.abs(every.imag) < 1e-9]
        real = real[(real > 0) & (real < 1)]
        heights = np.polyval(np.polyint(cubic), real)
        best.append(real[np.argmax(heights)] if len(real) else -1.0)
    found: dict[str, Any] = {"best roots": best}
    between, within, R, N = _moments()
    d = 3
    for name, prior in (("", None), (", prior", problem.prior)):
        pull, extra, a, b = 0.0, 0.0, 1.0, 1.0
        if prior is not None:
            pull, extra = 2.0 * np.eye(d), prior.df + d + 2
            a, b = prior.alpha_a, prior.alpha_b

        def covariances(t: float, pull: Any = pull, extra: float = extra) -> np.ndarray:
            total = between / (1 - t) + within / t + pull
            return total / (R + N + extra)[:, None, None]

        def fall(t: float, extra: float = extra, a: float = a, b: float = b) -> float:
            S = covariances(t)
            logs = np.linalg.slogdet(S)[1] @ (R + N + extra)
            share = d * N.sum() * np.log(t) + d * R.sum() * np.log1p(-t)
            return float(
                (logs + share) / 2 - (a - 1) * np.log(t) - (b - 1) * np.log1p(-t)
            )

        grid = np.linspace(0.001, 0.999, 999)
        t = grid[np.argmin([fall(t) for t in grid])]
        # The slope has all the digits that a search for the least leaves out.
        t = root(partial(_slope, fall), t - 2e-3, t + 2e-3)
        found[f"α{name}"], found[f"Σ{name}"] = t, covariances(t)
    return found


def _slope(function: Callable[[float], float], t: float) -> float:
    return (function(t + 1e-5) - function(t - 1e-5)) / 2e-5


def roots(problem: Problem[Any], sweeps: int = N_SWEEPS) -> Values:
    """Return the same of the package; after fewer sweeps, if asked."""

    def one(cubic: Array) -> Array:
        whole = jnp.concatenate([cubic / jnp.array([4, 3, 2, 1.0]), jnp.zeros(1)])
        return best_root(cubic, 0.0, 1.0, lambda t: jnp.polyval(whole, t))

    best = np.asarray(jax.jit(jax.vmap(one))(_cubics()))
    found: dict[str, Any] = {"best roots": np.where(np.isnan(best), -1.0, best)}
    for name, prior in (("", None), (", prior", problem.prior)):
        pull = 0.0 if prior is None else jnp.tile(2.0 * jnp.eye(3), (2, 1, 1))
        options: Any = {"prior": prior, "pull": pull, "sweeps": sweeps}
        moments = [jnp.asarray(a) for a in _moments()]
        B, W, R, N = moments
        S, alpha = proportional_m_step(B, W, R, N, 0.5, **options)
        found[f"α{name}"], found[f"Σ{name}"] = alpha, S
    return found


ROOTS = by_algebra(
    "roots, and the M-step of W = αΣ, are the best there are",
    reference=roots_by_hand,
    estimate=roots,
    controls={"one sweep for many": partial(roots, sweeps=1)},
    rtol=1e-6,
)
