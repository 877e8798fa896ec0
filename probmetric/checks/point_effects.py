"""Claims about LCA with point effects, and problems to check them on."""

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.integrate import quad

from probmetric.checks.check import Problem, Values, by_quadrature
from probmetric.checks.claims import Sites, hessian, prior_times
from probmetric.checks.effects import SPREADS, effect_claims, fit_problem, points
from probmetric.checks.problems import (
    COMMON,
    MEAN,
    OF_PAIRS,
    answered,
    fitted,
    principal,
    random_pairs,
    renumbered,
)
from probmetric.checks.sides import as_dataset
from probmetric.data.containers import Labeled, Pairs
from probmetric.inference.effects.fit import MAX_PARAMETERS, POINTS
from probmetric.inference.effects.points import derivatives, rows_of
from probmetric.inference.lca.recipe import Recipe, build, prior_for, rate_for
from probmetric.models.lca import LCAPrior
from probmetric.models.point_effects import (
    PointEffectsParams,
    PointEffectsPrior,
    identified,
    intercept_of_new,
    point_effects,
    simulate,
)

N_COMPONENTS, N_POINTS = 3, 400
"""Principal components, and the most points, of a data set."""


def toy(seed: int) -> Problem[Pairs]:
    """Simulate 400 weighted pairs of 30 points in d = 3, ω = 0.8; fit them at p = 2."""
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 30, 400)
    W = MEAN + 0.2 * rng.normal(size=(2, 3))
    effects = 0.8 * rng.normal(size=30)
    truth = PointEffectsParams(W, np.array(-0.6), np.array(0.8), effects)
    pairs = answered(simulate, seed, truth, pairs)
    prior, options = PointEffectsPrior(COMMON, 0.7), {"learning_rate": 0.8}
    return fitted(fit_problem, f"simulated, seed {seed}", pairs, prior, **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit leading principal components of at most 400 labeled points."""
    assert N_POINTS < MAX_PARAMETERS
    if len(X) > N_POINTS:
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[:N_POINTS])
        X, y = X[rows], y[rows]
        sizes = np.bincount(np.unique(y, return_inverse=True)[1])
        common = np.unique(y)[sizes > 1]
        X, y = X[np.isin(y, common)], y[np.isin(y, common)]
    Z, codes = principal(X, y, N_COMPONENTS)
    recipe = Recipe(n_components=Z.shape[1])
    pairs = build(Labeled(Z, codes), recipe)._replace(anchor=None)
    prior = PointEffectsPrior(prior_for(pairs, recipe, 10.0))
    rate = rate_for(pairs, recipe)
    return fitted(fit_problem, "data", pairs, prior, learning_rate=rate)


invariants = {**OF_PAIRS, "order of the points": renumbered}
"""Changes of a problem that must not change the metric."""


def _curvature(problem: Problem[Pairs], at: Sites) -> np.ndarray:
    """Return minus the Hessian of the log joint density given ω."""
    rows = rows_of(problem.data, problem.options["learning_rate"])
    return derivatives(at, rows, problem.prior)[1]


def _new_by_quadrature(problem: Problem[Pairs]) -> Values:
    """Integrate e^{-b_i/2} over the effect of a new point."""
    b = float(identified(problem.params)["b"])

    def integrand(z: float, spread: float) -> float:
        return np.exp(-0.5 * b * np.exp(spread * z) - z**2 / 2) / np.sqrt(2 * np.pi)

    accurate: Any = {"epsabs": 1e-13, "epsrel": 1e-12, "limit": 200}
    means = [quad(integrand, -12, 12, (spread,), **accurate)[0] for spread in SPREADS]
    return {"b of new points": -2 * np.log(means)}


def _new(problem: Problem[Pairs], typical: bool = False) -> Values:
    """Return the closed form for a new point; wrong: for a typical point."""
    spreads = (0.0 if typical else 1.0) * np.array(SPREADS)
    b = float(identified(problem.params)["b"]) + 0 * spreads
    return {"b of new points": np.asarray(intercept_of_new(b, spreads))}


def _shown(pairs: Pairs, values: dict[str, Any]) -> xr.Dataset:
    """Return distances of five pairs, log b, log b of three points, and the spread."""
    delta = np.asarray(pairs.X)[pairs.i[:5]] - np.asarray(pairs.X)[pairs.j[:5]]
    squared = np.einsum("pk,cskl,pl->csp", delta, values["M"], delta)
    shown = {
        "distance": np.sqrt(squared),
        "log b": np.log(values["b"]),
        "log b of points": np.log(values["b_point"][..., :3]),
    }
    return as_dataset({**shown, "spread": values["spread"]})


def _world() -> tuple[Pairs, PointEffectsPrior]:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(15, 2))
    i = np.arange(120) % 15
    j = (i + rng.integers(1, 15, 120)) % 15
    common = LCAPrior(0.8 * np.eye(2), c=0.8, lam=5.0)
    return Pairs(X, i, j, np.zeros(120, int)), PointEffectsPrior(common, 1.0)


CHECKS = (
    *effect_claims(
        point_effects,
        POINTS,
        _shown,
        _world,
        n_draws=2000,
        slow=True,
        n_simulations=600,
    ),
    hessian(
        point_effects,
        points,
        _curvature,
        ("W", "log_b", "z"),
        wrong={"another prior width": prior_times(lam=1.01)},
    ),
    by_quadrature(
        "P(same) of new points is the integral over their effects",
        reference=_new_by_quadrature,
        estimate=_new,
        controls={"for typical points": partial(_new, typical=True)},
    ),
)
