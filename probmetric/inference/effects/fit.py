"""Fit LCA with a random effect: the spread ω by its marginal density, then the mode.

With θ = (W, log b, effect) and H minus the Hessian of log p(y, θ | ω) at the mode θ̂,
Laplace's approximation of the marginal likelihood of ω is

    log p(y | ω) ≈ log p(y, θ̂ | ω) + ½ q log 2π - ½ log|H|,    q numbers in θ.      (1)

The fit maximizes log p(ω) + log p(y | ω) over ω ≥ 0. It compares ω = 0 with the best ω
> 0 from Brent's method. The mode at each ω is found by L-BFGS and then Newton's method,
starting at the nearest mode so far. The result is the mode θ̂ at the best ω. The
certificate of the mode is ½ gᵀH⁻¹g, with g the gradient at θ̂: the difference in nats
between the maximum of the local quadratic model and the value at θ̂.

``Effect`` has the functions that differ between group maps and point intercepts. The
type of the prior selects the model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from probmetric.data.containers import Pairs
from probmetric.inference.effects import groups, points
from probmetric.inference.effects.arrow import arrow, gradient
from probmetric.inference.effects.groups import GroupData, stacked
from probmetric.inference.effects.points import PointData, derivatives, rows_of
from probmetric.inference.effects.profile import (
    Profile,
    check_mode,
    climb,
    log_half_normal,
    on_grid,
)
from probmetric.inference.lca.fit import check_prior
from probmetric.inference.sampling.target import Arrays
from probmetric.inference.solvers.lbfgs import lbfgs, value_at
from probmetric.inference.solvers.result import Fit, Result
from probmetric.models.hierarchical_lca import (
    HierarchicalLCAParams,
    HierarchicalLCAPrior,
)
from probmetric.models.point_effects import PointEffectsParams, PointEffectsPrior
from probmetric.precision import native_arrays
from probmetric.typing import Array, Scalar

type Params = HierarchicalLCAParams | PointEffectsParams
type Prior = HierarchicalLCAPrior | PointEffectsPrior

N_GRID = 17
"""Number of grid points of ω."""

CLOSE = 1e-14
"""Gap in nats at which Newton's method stops."""

MAX_PARAMETERS = 5_000
"""Largest number p·d + 1 + n of parameters of point effects (a Hessian of 200 MB)."""


@runtime_checkable
class Factors(Protocol):
    """Log determinant, inverse root and Newton's step of minus the Hessian H."""

    @property
    def log_determinant(self) -> float:
        """Log determinant of H."""
        ...

    @property
    def root(self) -> Float[np.ndarray, "q q"]:
        """Square root R of the covariance, RRᵀ = H⁻¹."""
        ...

    def newton(
        self, gradient: Float[np.ndarray, "q"]
    ) -> tuple[Float[np.ndarray, "q"], float]:
        """Return Newton's step H⁻¹g and the predicted gain ½ gᵀH⁻¹g."""
        ...


class Dense(NamedTuple):
    """Factors from the lower Cholesky factor of a dense H."""

    lower: Float[np.ndarray, "q q"]

    @property
    def log_determinant(self) -> float:
        """Log determinant of H."""
        return 2 * float(np.log(np.diag(self.lower)).sum())

    @property
    def root(self) -> Float[np.ndarray, "q q"]:
        """Square root R of the covariance, with RRᵀ = H⁻¹."""
        return solve_triangular(
            self.lower, np.eye(len(self.lower)), lower=True, trans=1
        )

    def newton(
        self, gradient: Float[np.ndarray, "q"]
    ) -> tuple[Float[np.ndarray, "q"], float]:
        """Return Newton's step H⁻¹g and the predicted gain ½ gᵀH⁻¹g."""
        slope = solve_triangular(self.lower, gradient, lower=True)
        step = solve_triangular(self.lower, slope, lower=True, trans=1)
        return step, 0.5 * float(slope @ slope)


class Mode(NamedTuple):
    """The posterior mode of (W, log b, effect) given a value of ω.

    ``at`` is {W, log_b, E or z}, and ``log_density`` is log p(ω) + log p(y | ω).
    ``gap`` estimates, in nats, how far the log density is below its maximum. If the
    search did not end at a mode, ``log_density`` is -inf and ``factors`` is None.
    """

    at: Arrays
    params: Params
    log_density: float
    factors: Factors | None
    gap: float
    fit: Fit


class SpreadPosterior(NamedTuple):
    """The posterior of ω on a grid: ω (k,), cell probabilities (k,), and modes."""

    spread: Float[np.ndarray, "k"]
    probability: Float[np.ndarray, "k"]
    modes: tuple[Mode, ...]


@dataclass(frozen=True)
class Effect[D: (GroupData, PointData), P: Params]:
    """Functions that differ between effects on maps (groups) and intercepts (points).

    ``name`` is the NumPyro site of the effect, "E" or "z". ``expand`` takes a position
    (with ω as ``spread``) and the data, and returns the gradient and the factors of H.
    It returns None if H is not positive definite. ``n_newton`` is the maximum number of
    Newton steps after L-BFGS. ``bounds`` are the smallest ω > 0 and the largest ω of
    the search if the prior scale is at least 1. A smaller scale reduces the bounds. A
    larger scale does not change them, so that a vague prior does not extend the search.
    """

    name: str
    objective: Callable[[Arrays, tuple[D, Array]], Scalar]
    to_params: Callable[[Arrays, D], P]
    position: Callable[[P, D], Arrays]
    expand: Callable[[Arrays, D], tuple[Float[np.ndarray, "q"], Factors] | None]
    n_newton: int
    bounds: tuple[float, float]


_group_params = jax.jit(groups.to_params)


def _host_group_params(at: Arrays, data: GroupData) -> HierarchicalLCAParams:
    return jax.tree.map(np.asarray, _group_params(at, data[1]))


def _expand_groups(
    at: Arrays, data: GroupData
) -> tuple[Float[np.ndarray, "q"], Factors] | None:
    params = _host_group_params(at, data)
    factors = arrow(params, *data)
    if factors is None:
        return None
    return gradient(params, np.asarray(at["E"]), *data), factors


def _expand_points(
    at: Arrays, data: PointData
) -> tuple[Float[np.ndarray, "q"], Factors] | None:
    slope, H = derivatives(at, *data)
    try:
        return slope, Dense(cholesky(H, lower=True))
    except LinAlgError:
        return None


GROUPS = Effect(
    name="E",
    objective=groups.objective,
    to_params=_host_group_params,
    position=lambda params, data: groups.position(params, data[1]),
    expand=_expand_groups,
    n_newton=6,
    bounds=(0.005, 8.0),
)

POINTS = Effect(
    name="z",
    objective=points.objective,
    to_params=lambda at, data: jax.tree.map(np.asarray, points.to_params(at)),
    position=lambda params, data: points.position(params),
    expand=_expand_points,
    n_newton=8,
    bounds=(0.01, 4.0),
)


def mode_at[D: (GroupData, PointData), P: Params](
    effect: Effect[D, P],
    spread: float,
    begin: Arrays,
    data: D,
    *,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> Mode:
    """Return the mode of (W, log b, effect) given ω, with the log density of ω."""
    omega = np.asarray(spread, np.asarray(begin["W"]).dtype)
    fit = lbfgs(effect.objective, begin, (data, omega), max_steps=max_steps, tol=tol)
    at = jax.tree.map(np.asarray, fit.params)
    factors, gap, best = None, np.inf, at
    for _ in range(effect.n_newton):
        expansion = effect.expand({**at, "spread": omega}, data)
        if expansion is None:  # The solver stopped before it reached a mode.
            break
        step, gain = expansion[1].newton(expansion[0])
        if not gain < gap:
            break
        factors, gap, best = expansion[1], gain, at
        if gap < CLOSE:
            break
        at = _moved(at, step, effect.name)
    params = effect.to_params({**best, "spread": omega}, data)
    if factors is None:
        return Mode(best, params, -np.inf, None, gap, fit)
    q = sum(np.size(v) for v in best.values())
    value = value_at(effect.objective, best, (data, omega))
    value += 0.5 * q * np.log(2 * np.pi) - factors.log_determinant / 2  # Eq. (1)
    value += float(log_half_normal(float(spread), data[1].spread))
    return Mode(best, params, value, factors, gap, fit)


def _moved(at: Arrays, step: Float[np.ndarray, "q"], name: str) -> Arrays:
    """Return a position moved by a step in the order (W, log b, effect)."""
    W, effect, m = at["W"], at[name], at["W"].size
    return {
        "W": (W + step[:m].reshape(W.shape)).astype(W.dtype),
        "log_b": np.asarray(at["log_b"] + step[m], W.dtype),
        name: (effect + step[m + 1 :].reshape(effect.shape)).astype(W.dtype),
    }


def data_of(
    pairs: Pairs, prior: Prior, learning_rate: float = 1.0, n_groups: int | None = None
) -> tuple[Effect[Any, Any], Any]:
    """Return the ``Effect`` of a proper prior, and the data of its objective."""
    check_prior(prior.common)
    if not np.all(np.asarray(prior.common.lam) > 0):
        raise ValueError(
            f"prior.common.lam must be > 0, got {prior.common.lam}. With lam = 0 the "
            "spread cannot be estimated."
        )
    if isinstance(prior, HierarchicalLCAPrior):
        stats = stacked(pairs, n_groups)
        dtype = stats.T.dtype
        rate = np.asarray(learning_rate, dtype)
        return GROUPS, (stats, _as_arrays(prior, dtype), rate)
    size = np.size(prior.common.mean) + 1 + len(pairs.X)
    if size > MAX_PARAMETERS:
        raise ValueError(
            f"pairs: the model must have at most {MAX_PARAMETERS} parameters "
            "(components times features, plus 1, plus one for each point), got "
            f"{size}. Use fewer points or components."
        )
    rows = rows_of(pairs, learning_rate)
    return POINTS, (rows, _as_arrays(prior, rows.delta.dtype))


def _as_arrays[P](prior: P, dtype: np.dtype) -> P:
    return jax.tree.map(lambda v: np.asarray(v, dtype), prior)


def fit(
    pairs: Pairs,
    prior: Prior,
    *,
    n_groups: int | None = None,
    learning_rate: float = 1.0,
    spread: float | None = None,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> Fit:
    """Fit LCA with a random effect, by empirical Bayes.

    The fit maximizes the marginal posterior density of ω, the spread of the effect. The
    other parameters then maximize their posterior density given this ω.

    Parameters
    ----------
    pairs : Pairs
        Labeled pairs. For groups, ``anchor`` is the group 0..G-1 of each pair. For
        point effects, each row of X is a point and has one effect.
    prior : HierarchicalLCAPrior or PointEffectsPrior
        A proper prior, lam > 0. Its type selects the model.
    n_groups : int, optional
        Number of groups G. Default: the largest code plus one.
    learning_rate : float, default=1
        Power on the likelihood.
    spread : float >= 0, optional
        Fixed value of ω. 0 is LCA without the effect. Default: ω is fitted.
    max_steps : int, default=500
        Maximum number of L-BFGS iterations at one ω.
    tol : float, default=1e-6
        L-BFGS stops if an iteration increases the log density by less than ``tol``
        nats.

    Returns
    -------
    Fit
        ``objective`` is log p(ω, y), with the other parameters integrated out by
        Laplace's method. ``result`` is the solver's result at the returned mode.
        ``n_steps`` is summed over all evaluated ω. The fitted ω and the other
        parameters are local modes.

    Raises
    ------
    ValueError
        If the pairs have no labels or no groups, a point is paired with itself, the
        prior is flat or centered at zero, point effects have more than 5000 parameters,
        or the density has no mode.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import effects
    >>> from probmetric.models.lca import LCAPrior
    >>> from probmetric.models.point_effects import PointEffectsPrior
    >>> i, j, y = np.array([[0, 0, 1, 3, 3], [1, 2, 2, 1, 2], [1, 0, 0, 1, 0]])
    >>> pairs = Pairs(np.zeros((4, 1)), i, j, y)
    >>> prior = PointEffectsPrior(LCAPrior(np.eye(1)))
    >>> params = effects.fit(pairs, prior, spread=1.0).params
    >>> int(params.effects.argmax())  # No pair of point 2 was called the same.
    2
    >>> len(effects.spread_posterior(params, pairs, prior, n_grid=5).modes)
    5
    """
    return best_mode(
        pairs,
        prior,
        n_groups=n_groups,
        learning_rate=learning_rate,
        spread=spread,
        max_steps=max_steps,
        tol=tol,
    )[0]


@native_arrays
def best_mode(
    pairs: Pairs,
    prior: Prior,
    *,
    n_groups: int | None = None,
    learning_rate: float = 1.0,
    spread: float | None = None,
    max_steps: int = 500,
    tol: float = 1e-6,
) -> tuple[Fit, Mode]:
    """Return the result of ``fit``, and the mode with its certificate."""
    with jax.enable_x64(np.asarray(pairs.X).dtype == np.float64):
        effect, data = data_of(pairs, prior, learning_rate, n_groups)
        common, scale = data[1].common, float(data[1].spread)
        W = np.asarray(common.mean)
        shape = (len(data[0].n), *W.shape) if effect is GROUPS else (len(pairs.X),)
        begin: Arrays = {
            "W": W,
            "log_b": np.asarray(np.log(0.3), W.dtype),
            effect.name: np.zeros(shape, W.dtype),
        }
        profile = Profile(
            begin,
            lambda omega, near: mode_at(
                effect, omega, near, data, max_steps=max_steps, tol=tol
            ),
        )
        if spread is not None:
            mode = profile(float(spread))
        else:
            smallest, largest = effect.bounds
            bounds = min(0.01 * scale, smallest), largest * min(scale, 1.0)
            mode = climb(profile, 0.25 * min(scale, 1.0), bounds)
    check_mode(mode.log_density, mode.fit)
    fits = [tried.fit for tried in profile.modes.values()]
    result = mode.fit._replace(
        params=mode.params,
        objective=np.asarray(mode.log_density),
        n_steps=np.asarray(sum(int(fit.n_steps) for fit in fits)),
        n_evaluations=np.asarray(sum(int(fit.n_evaluations) for fit in fits)),
    )
    if mode.factors is None:
        result = result._replace(result=np.asarray(int(Result.MAX_STEPS)))
    return result, mode


def spread_posterior(
    params: Params,
    pairs: Pairs,
    prior: Prior,
    *,
    n_groups: int | None = None,
    learning_rate: float = 1.0,
    n_grid: int = N_GRID,
    drop: float = 8.0,
) -> SpreadPosterior:
    """Compute the posterior of the spread ω of the random effect, on a grid.

    The grid is near the fitted ω. At each grid point, the other parameters have their
    mode.

    Parameters
    ----------
    params : HierarchicalLCAParams or PointEffectsParams
        The fit.
    pairs, prior, n_groups, learning_rate
        Data, prior and options of the fit.
    n_grid : int, default=17
        Number of equally spaced grid points. With 1, the grid is only the fitted ω.
    drop : float, default=8
        The grid extends from the fitted ω to both sides, until the log density is
        ``drop`` nats lower or ω = 0.

    Raises
    ------
    ValueError
        If the search for the other parameters converges at no grid point.
    """
    with jax.enable_x64(np.asarray(params.W).dtype == np.float64):
        effect, data = data_of(pairs, prior, learning_rate, n_groups)
        spread, scale = float(params.spread), min(float(data[1].spread), 1.0)
        begin = effect.position(params, data)
        profile = Profile(begin, lambda at, near: mode_at(effect, at, near, data))
        largest = 2 * effect.bounds[1] * scale
        posterior = SpreadPosterior(
            *on_grid(profile, spread, scale, largest, n_grid, drop)
        )
    if all(mode.factors is None for mode in posterior.modes):
        raise ValueError(
            "Draws are not available, because the fit did not converge for any value "
            "of the spread. Increase max_iter, or set a stronger prior."
        )
    return posterior
