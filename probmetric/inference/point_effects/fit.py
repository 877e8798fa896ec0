"""Fit LCA with point effects: the spread by its marginal density, the rest given it.

At the mode θ̂ of Eq. (1) of ``point_effects.likelihood`` given ω, q numbers with minus
Hessian H, Laplace's approximation of the marginal likelihood of ω is

    log p(y | ω) ≈ log p(y, θ̂ | ω) + ½ q log 2π - ½ log|H|.                        (1)

``fit`` climbs log p(ω) + log p(y | ω) over ω ≥ 0, at 0 and by Brent's method elsewhere;
each value is a mode, climbed by L-BFGS and then Newton's method. What is returned is
the mode at the best ω. Its certificate is ½ gᵀH⁻¹g, g the gradient: the nats by which
the mode of the quadratic there is higher.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from probmetric.data.containers import Pairs
from probmetric.inference.lca.fit import check_prior
from probmetric.inference.point_effects.likelihood import (
    Rows,
    derivatives,
    log_prior_of_spread,
    objective,
    position,
    rows_of,
    to_params,
)
from probmetric.inference.solvers.lbfgs import lbfgs, value_at
from probmetric.inference.solvers.profile import Profile, check_mode, climb, on_grid
from probmetric.inference.solvers.result import Fit, Result
from probmetric.models.point_effects import PointEffectsParams, PointEffectsPrior
from probmetric.precision import native_arrays

LARGEST = 4.0
"""Largest spread looked at, in scales of its prior, or 1 where that is less."""

N_GRID = 17
"""Points of the grid of ω."""

N_NEWTON, CLOSE = 8, 1e-14
"""Most Newton steps after L-BFGS, and the gap in nats at which they stop."""

MAX_PARAMETERS = 5_000
"""p·d + 1 + n up to which there is a fit: matrices of 200 MB, factored often."""


class Mode(NamedTuple):
    """The mode at one ω.

    Attributes
    ----------
    at : dict
        Position {W, log_b, z}.
    params : PointEffectsParams
    log_density : float
        log p(ω) + log p(y | ω), -inf where no mode was found.
    factor : array of shape (q, q), or None where no mode was found
        Lower Cholesky factor of minus the Hessian in (W, log b, z).
    gap : float
        ½ gᵀH⁻¹g in nats.
    fit : Fit
        Of the solver.
    """

    at: dict[str, Any]
    params: PointEffectsParams
    log_density: float
    factor: Float[np.ndarray, "q q"] | None
    gap: float
    fit: Fit

    @property
    def root(self) -> Float[np.ndarray, "q q"]:
        """Return R, RRᵀ = H⁻¹."""
        assert self.factor is not None
        return solve_triangular(
            self.factor, np.eye(len(self.factor)), lower=True, trans=1
        )


class SpreadPosterior(NamedTuple):
    """The posterior of ω on a grid: ω (k,), probability of its cell (k,), modes."""

    spread: Float[np.ndarray, "k"]
    probability: Float[np.ndarray, "k"]
    modes: tuple[Mode, ...]


def mode_at(
    spread: float,
    begin: dict[str, Any],
    rows: Rows,
    prior: PointEffectsPrior,
    *,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> Mode:
    """Return the mode of (W, log b, z) given ω, and the log density of ω there."""
    dtype = np.asarray(begin["W"]).dtype
    omega = np.asarray(spread, dtype)
    found = lbfgs(objective, begin, (rows, prior, omega), max_steps=max_steps, tol=tol)
    at: dict[str, Any] = jax.tree.map(np.asarray, found.params)
    factor, gap, best = None, np.inf, at
    for _ in range(N_NEWTON):
        slope, H = derivatives({**at, "spread": spread}, rows, prior)
        try:
            L = cholesky(H, lower=True)
        except LinAlgError:  # Not a mode: the solver stopped on its way.
            break
        step = solve_triangular(L, slope, lower=True)
        left = 0.5 * float(step @ step)
        if not left < gap:
            break
        factor, gap, best = L, left, at
        if gap < CLOSE:
            break
        at = _moved(at, solve_triangular(L, step, lower=True, trans=1))
    params = jax.tree.map(np.asarray, to_params({**best, "spread": omega}))
    if factor is None:
        return Mode(best, params, -np.inf, None, gap, found)
    value = value_at(objective, best, (rows, prior, omega))
    value += 0.5 * len(factor) * np.log(2 * np.pi)  # Eq. (1)
    value -= float(np.log(np.diag(factor)).sum())
    value += float(log_prior_of_spread(float(spread), prior))
    return Mode(best, params, value, factor, gap, found)


def _moved(at: dict[str, Any], step: Float[np.ndarray, "q"]) -> dict[str, Any]:
    W, m = at["W"], at["W"].size
    return {
        "W": (W + step[:m].reshape(W.shape)).astype(W.dtype),
        "log_b": np.asarray(at["log_b"] + step[m], W.dtype),
        "z": (at["z"] + step[m + 1 :]).astype(W.dtype),
    }


def start_of(prior: PointEffectsPrior, n: int) -> dict[str, Any]:
    """Return the prior mean, b = .3 and z = 0."""
    W = np.asarray(prior.common.mean)
    return {
        "W": W,
        "log_b": np.asarray(np.log(0.3), W.dtype),
        "z": np.zeros(n, W.dtype),
    }


def _arrays(prior: PointEffectsPrior, dtype: Any) -> PointEffectsPrior:
    return jax.tree.map(lambda v: np.asarray(v, dtype), prior)


def _check(pairs: Pairs, prior: PointEffectsPrior) -> None:
    check_prior(prior.common)
    if not np.all(np.asarray(prior.common.lam) > 0):
        raise ValueError(
            f"prior.common.lam: expected a number > 0, got {prior.common.lam}: under a "
            "flat prior of the map the spread has no marginal density"
        )
    size = np.size(prior.common.mean) + 1 + len(pairs.X)
    if size > MAX_PARAMETERS:
        raise ValueError(
            f"pairs: expected at most {MAX_PARAMETERS} parameters (p·d + 1 and one a "
            f"point) for second derivatives, got {size}: fewer points or components"
        )


def fit(
    pairs: Pairs,
    prior: PointEffectsPrior,
    *,
    learning_rate: float = 1.0,
    spread: float | None = None,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> Fit:
    """Fit the spread by its marginal density, and the map, b and the effects given it.

    Parameters
    ----------
    pairs : Pairs
        Labelled pairs; rows of X are the points that have effects.
    prior : PointEffectsPrior
        Proper: lam > 0.
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
        Pairs without labels, or of one point; a prior that is flat or centred at zero;
        more than 5000 parameters; or no mode.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import point_effects
    >>> from probmetric.models.lca import LCAPrior
    >>> from probmetric.models.point_effects import PointEffectsPrior
    >>> i, j, y = np.array([[0, 0, 1, 3, 3], [1, 2, 2, 1, 2], [1, 0, 0, 1, 0]])
    >>> pairs = Pairs(np.zeros((4, 1)), i, j, y)
    >>> prior = PointEffectsPrior(LCAPrior(np.eye(1)))
    >>> u = point_effects.fit(pairs, prior, spread=1.0).params.effects
    >>> int(u.argmax())  # No pair of point 2 was called the same.
    2
    """
    return best_mode(
        pairs,
        prior,
        learning_rate=learning_rate,
        spread=spread,
        max_steps=max_steps,
        tol=tol,
    )[0]


@native_arrays
def best_mode(
    pairs: Pairs,
    prior: PointEffectsPrior,
    *,
    learning_rate: float = 1.0,
    spread: float | None = None,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> tuple[Fit, Mode]:
    """Return ``fit``, and its mode with the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import point_effects
    >>> from probmetric.models.lca import LCAPrior
    >>> from probmetric.models.point_effects import PointEffectsPrior
    >>> i, j, y = np.array([[0, 0, 1, 3, 3], [1, 2, 2, 1, 2], [1, 0, 0, 1, 0]])
    >>> pairs = Pairs(np.zeros((4, 1)), i, j, y)
    >>> prior = PointEffectsPrior(LCAPrior(np.eye(1)))
    >>> found, mode = point_effects.best_mode(pairs, prior, spread=1.0)
    >>> mode.gap < 1e-9, mode.params is found.params
    (True, True)
    """
    _check(pairs, prior)
    dtype = np.asarray(pairs.X).dtype
    with jax.enable_x64(dtype == np.float64):
        rows, prior = rows_of(pairs, learning_rate), _arrays(prior, dtype)
        profile = Profile(
            start_of(prior, len(pairs.X)),
            lambda at, near: mode_at(
                at, near, rows, prior, max_steps=max_steps, tol=tol
            ),
        )
        if spread is not None:
            last = profile(float(spread))
        else:
            scale = min(float(prior.spread), 1.0)
            last = climb(profile, 0.25 * scale, (0.01 * scale, LARGEST * scale))
    check_mode(last.log_density, last.fit)
    code = last.fit.result
    result = code if last.factor is not None else np.asarray(int(Result.MAX_STEPS))
    modes = profile.modes.values()
    found = last.fit._replace(
        params=last.params,
        objective=np.asarray(last.log_density),
        result=result,
        n_steps=np.asarray(sum(int(mode.fit.n_steps) for mode in modes)),
        n_evaluations=np.asarray(sum(int(mode.fit.n_evaluations) for mode in modes)),
    )
    return found, last


def spread_posterior(
    params: PointEffectsParams,
    rows: Rows,
    prior: PointEffectsPrior,
    *,
    n_grid: int = N_GRID,
    drop: float = 8.0,
) -> SpreadPosterior:
    """Return the posterior of ω on a grid, with the mode of all else at each point.

    Parameters
    ----------
    params : PointEffectsParams
        The fit.
    rows, prior
        Its problem.
    n_grid : int, default=17
        Points, equally far apart; 1 is the fit's ω alone, as known.
    drop : float, default=8
        The grid ends where the log density is this much lower than at the fit, or at
        ω = 0.

    Raises
    ------
    ValueError
        Where no mode is found at any of them.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import point_effects
    >>> from probmetric.models.lca import LCAPrior
    >>> from probmetric.models.point_effects import PointEffectsPrior
    >>> i, j, y = np.array([[0, 0, 1, 3, 3], [1, 2, 2, 1, 2], [1, 0, 0, 1, 0]])
    >>> pairs = Pairs(np.zeros((4, 1)), i, j, y)
    >>> prior = PointEffectsPrior(LCAPrior(np.eye(1)))
    >>> fit = point_effects.fit(pairs, prior, spread=1.0)
    >>> problem = fit.params, point_effects.rows_of(pairs), prior
    >>> found = point_effects.spread_posterior(*problem, n_grid=5)
    >>> round(float(found.probability.sum()), 6), len(found.modes)
    (1.0, 5)
    >>> known = point_effects.spread_posterior(*problem, n_grid=1).modes[0]
    >>> bool(abs(known.log_density - fit.objective) < 1e-9)
    True
    """
    dtype = rows.delta.dtype
    with jax.enable_x64(dtype == np.float64):
        prior, at = _arrays(prior, dtype), float(params.spread)
        scale = min(float(prior.spread), 1.0)
        profile = Profile(
            position(params), lambda at, near: mode_at(at, near, rows, prior)
        )
        found = on_grid(profile, at, scale, 2 * LARGEST * scale, n_grid, drop)
    if all(mode.factor is None for mode in found[2]):
        raise ValueError(
            "params: expected a fit with modes around its spread, got none: raise "
            "max_iter, or set a stronger prior"
        )
    return SpreadPosterior(*found)
