"""Fit hierarchical LCA: the spread by its marginal density, then the mode given it.

``fit`` climbs log p(ω) + log p(y | ω) of Eq. (2) of ``hierarchical_lca.evidence`` over
ω ≥ 0: at 0, and by Brent's method between the ends of ``bounds``; each of its values is
Eq. (1) of ``hierarchical_lca.likelihood`` climbed in (W, log b, E) by L-BFGS and then
Newton's method, from the mode nearest in ω. What is returned is the mode of
(W, log b, E) at that ω: stationary in them, and in ω of the marginal density.

``spread_posterior`` tabulates the marginal density of ω around it, with the modes:
intervals of ω, and draws, stand on that.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Pairs
from probmetric.inference.hierarchical_lca.evidence import (
    Arrow,
    arrow,
    gradient,
    log_evidence,
    root,
)
from probmetric.inference.hierarchical_lca.likelihood import (
    log_prior_of_spread,
    objective,
    stacked,
    to_params,
)
from probmetric.inference.lca.fit import check_prior
from probmetric.inference.lca.statistics import Statistics
from probmetric.inference.solvers.lbfgs import lbfgs, value_at
from probmetric.inference.solvers.profile import Profile, check_mode, climb, on_grid
from probmetric.inference.solvers.result import Fit, Result
from probmetric.models.hierarchical_lca import (
    HierarchicalLCAParams,
    HierarchicalLCAPrior,
)
from probmetric.models.lca import log_b_of
from probmetric.precision import native_arrays
from probmetric.typing import Array

LARGEST = 8.0
"""Largest spread looked at, in scales of its prior or units of c, the less."""

N_GRID = 17
"""Points of the grid of ω."""

N_NEWTON, CLOSE = 6, 1e-14
"""Most Newton steps after L-BFGS, and the gap in nats at which they stop."""


class Mode(NamedTuple):
    """The mode at one ω.

    Attributes
    ----------
    at : dict
        Position {W, log_b, E}.
    params : HierarchicalLCAParams
    log_density : float
        log p(ω) + log p(y | ω), -inf where no mode was found.
    factors : Arrow, or None where no mode was found
    gap : float
        ½ gᵀH⁻¹g: the nats by which the mode of the quadratic at ``at`` is higher.
    fit : Fit
        Of the solver.
    """

    at: dict[str, Any]
    params: HierarchicalLCAParams
    log_density: float
    factors: Arrow | None
    gap: float
    fit: Fit


class SpreadPosterior(NamedTuple):
    """The posterior of ω on a grid: ω (k,), probability of its cell (k,), modes."""

    spread: Float[np.ndarray, "k"]
    probability: Float[np.ndarray, "k"]
    modes: tuple[Mode, ...]


def _arrays(prior: HierarchicalLCAPrior, dtype: Any) -> HierarchicalLCAPrior:
    return jax.tree.map(lambda v: np.asarray(v, dtype), prior)


def bounds(scale: float) -> tuple[float, float]:
    """Return the least ω > 0 and the largest looked at, in units of c.

    They follow the scale of the prior down, but not up: a vague prior is no reason to
    look where ω has no meaning.
    """
    return min(0.01 * scale, 0.005), LARGEST * min(scale, 1.0)


def start_of(prior: HierarchicalLCAPrior, n_groups: int) -> dict[str, Any]:
    """Return the prior mean, b = .3 and E = 0."""
    W = np.asarray(prior.common.mean)
    log_b = np.asarray(np.log(0.3), W.dtype)
    return {"W": W, "log_b": log_b, "E": np.zeros((n_groups, *W.shape), W.dtype)}


def mode_at(
    spread: float,
    begin: dict[str, Any],
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    learning_rate: float = 1.0,
    *,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> Mode:
    """Return the mode of (W, log b, E) given ω, and the log density of ω there."""
    dtype = np.asarray(begin["W"]).dtype
    omega = np.asarray(spread, dtype)
    data = (stats, prior, np.asarray(learning_rate, dtype), omega)
    found = lbfgs(objective, begin, data, max_steps=max_steps, tol=tol)
    at: dict[str, Any] = jax.tree.map(np.asarray, found.params)
    factors, gap, best = None, np.inf, at
    for _ in range(N_NEWTON):
        params = jax.tree.map(np.asarray, _params({**at, "spread": omega}, prior))
        try:
            here = arrow(params, stats, prior, learning_rate)
        except ValueError:  # Not a mode: the solver stopped on its way.
            break
        R = root(here)
        slope = R.T @ gradient(params, at["E"], stats, prior, learning_rate)
        left = 0.5 * float(slope @ slope)
        if not left < gap:
            break
        factors, gap, best = here, left, at
        if gap < CLOSE:
            break
        at = _moved(at, R @ slope)
    params = jax.tree.map(np.asarray, _params({**best, "spread": omega}, prior))
    if factors is None:
        return Mode(best, params, -np.inf, None, gap, found)
    value = log_evidence(value_at(objective, best, data), factors)
    value += float(log_prior_of_spread(float(spread), prior))
    return Mode(best, params, value, factors, gap, found)


_params = jax.jit(to_params)


def _moved(at: dict[str, Any], step: Float[Array, "k"]) -> dict[str, Any]:
    """Return a position moved by a step in the order (W, log b, E)."""
    W, E = at["W"], at["E"]
    m = W.size
    return {
        "W": W + step[:m].reshape(W.shape),
        "log_b": at["log_b"] + step[m],
        "E": E + step[m + 1 :].reshape(E.shape),
    }


def fit_stacked(
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    *,
    learning_rate: float = 1.0,
    spread: float | None = None,
    begin: dict[str, Any] | None = None,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> Fit:
    """Return ``fit`` of statistics that are stacked already."""
    check_prior(prior.common)
    if not np.all(np.asarray(prior.common.lam) > 0):
        raise ValueError(
            f"prior.common.lam: expected a number > 0, got {prior.common.lam}: around "
            "a common map of flat prior the spread has no marginal density"
        )
    prior = _arrays(prior, stats.T.dtype)
    begin = start_of(prior, len(stats.n)) if begin is None else begin
    limits: Any = {"max_steps": max_steps, "tol": tol}
    problem = (stats, prior, float(learning_rate))
    profile = Profile(begin, lambda at, near: mode_at(at, near, *problem, **limits))
    if spread is not None:
        last = profile(float(spread))
    else:
        scale = float(prior.spread)
        last = climb(profile, 0.25 * min(scale, 1.0), bounds(scale))
    check_mode(last.log_density, last.fit)
    result = last.fit.result if last.factors else np.asarray(int(Result.MAX_STEPS))
    steps = sum(int(mode.fit.n_steps) for mode in profile.modes.values())
    evaluations = sum(int(mode.fit.n_evaluations) for mode in profile.modes.values())
    return last.fit._replace(
        params=last.params,
        objective=np.asarray(last.log_density),
        result=result,
        n_steps=np.asarray(steps),
        n_evaluations=np.asarray(evaluations),
    )


@native_arrays
def fit(
    pairs: Pairs,
    prior: HierarchicalLCAPrior,
    *,
    n_groups: int | None = None,
    learning_rate: float = 1.0,
    spread: float | None = None,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> Fit:
    """Fit the spread by its marginal density, and the maps and b given it.

    Parameters
    ----------
    pairs : Pairs
        Labelled pairs, ``anchor`` the group of each, 0..G-1.
    prior : HierarchicalLCAPrior
        Proper: lam > 0.
    n_groups : int, optional
        G. Default: one more than the largest code.
    learning_rate : float, default=1
        Power on the likelihood.
    spread : float >= 0, optional
        ω, when it is known; 0 is LCA. Default: it is learned.
    max_steps : int, default=500
        Most iterations of L-BFGS at one ω.
    tol : float, default=1e-6
        Its relative gradient.

    Returns
    -------
    Fit
        ``objective`` is log p(ω, y) with all else integrated out by Laplace's method;
        ``result`` is that of the mode returned, steps are summed over all ω tried. Each
        mode, and that in ω, is a local one.

    Raises
    ------
    ValueError
        Pairs without labels or groups, a prior that is flat or centred at zero, or no
        mode.

    Examples
    --------
    With a spread of 0 both groups have the common map, which is that of LCA:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import hierarchical_lca, lca
    >>> from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
    >>> from probmetric.models.lca import LCAPrior
    >>> i, j, y = np.array([0, 0, 3, 3]), np.array([1, 2, 4, 5]), np.array([1, 0, 1, 0])
    >>> X = np.array([[0.0], [1.0], [2.0], [0.0], [1.0], [3.0]])
    >>> group = np.array([0, 0, 1, 1])
    >>> pairs, prior = Pairs(X, i, j, y, anchor=group), LCAPrior(np.eye(1))
    >>> found = hierarchical_lca.fit(pairs, HierarchicalLCAPrior(prior), spread=0.0)
    >>> W = lca.fit(pairs, prior).params.W
    >>> found.params.W_groups.ravel().round(2).tolist(), W.ravel().round(2).tolist()
    ([1.01, 1.01], [1.01])
    """
    with jax.enable_x64(np.asarray(pairs.X).dtype == np.float64):
        return fit_stacked(
            stacked(pairs, n_groups),
            prior,
            learning_rate=learning_rate,
            spread=spread,
            max_steps=max_steps,
            tol=tol,
        )


def position(
    params: HierarchicalLCAParams, prior: HierarchicalLCAPrior
) -> dict[str, Any]:
    """Return parameters as a position {W, log_b, E}; E is 0 where ω is."""
    W, W_groups = np.asarray(params.W), np.asarray(params.W_groups)
    step = float(params.spread) * float(prior.common.width)
    E = (W_groups - W) / step if step else np.zeros_like(W_groups)
    log_b = log_b_of(np.asarray(params.log_sigma2), len(W))
    return {"W": W, "log_b": np.asarray(log_b, W.dtype), "E": E}


def _check_found(modes: tuple[Mode, ...]) -> None:
    if all(mode.factors is None for mode in modes):
        raise ValueError(
            "params: expected a fit with modes around its spread, got none: raise "
            "max_iter, or set a stronger prior"
        )


def spread_posterior(
    params: HierarchicalLCAParams,
    stats: Statistics,
    prior: HierarchicalLCAPrior,
    learning_rate: float = 1.0,
    *,
    n_grid: int = N_GRID,
    drop: float = 8.0,
) -> SpreadPosterior:
    """Return the posterior of ω on a grid, with the mode of all else at each point.

    Parameters
    ----------
    params : HierarchicalLCAParams
        The fit.
    stats, prior, learning_rate
        Its problem, stacked.
    n_grid : int, default=17
        Points, equally far apart; 1 is the fit's ω alone, as known.
    drop : float, default=8
        The grid ends where the log density is this much lower than at the fit, or at
        ω = 0.
    """
    prior = _arrays(prior, stats.T.dtype)
    problem = (stats, prior, float(learning_rate))
    begin = position(params, prior)
    profile = Profile(begin, lambda at, near: mode_at(at, near, *problem))
    scale = min(float(prior.spread), 1.0)
    found = on_grid(
        profile, float(params.spread), scale, 2 * LARGEST * scale, n_grid, drop
    )
    _check_found(found[2])
    return SpreadPosterior(*found)
