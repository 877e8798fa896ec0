"""The checks of LCA with point effects, and problems to run them on.

Density, derivatives, modes and Laplace's density of the spread stand against NumPyro's
own density; P(same) of new points and the densities of left-out points against draws of
effects; draws against NUTS on the NumPyro model; the whole against simulated worlds.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from scipy.integrate import quad

from probmetric.checks.check import (
    Check,
    Problem,
    Values,
    by_gradient,
    by_sampling,
    by_sbc,
    near_sampling,
    zero,
)
from probmetric.checks.problems import OF_PAIRS, fitted, standardised
from probmetric.checks.sbc import model_story, sbc
from probmetric.checks.sides import as_dataset, density_of, sampled
from probmetric.checks.uniformity import Ranks
from probmetric.data.containers import Pairs
from probmetric.inference.lca.recipe import Recipe, build, prior_for, rate_for
from probmetric.inference.point_effects.draws import laplace_draws
from probmetric.inference.point_effects.fit import (
    MAX_PARAMETERS,
    fit,
    mode_at,
    spread_posterior,
)
from probmetric.inference.point_effects.left_out import point_log_likelihood
from probmetric.inference.point_effects.likelihood import (
    derivatives,
    log_joint,
    log_prior_of_spread,
    position,
    rows_of,
)
from probmetric.inference.point_effects.target import TARGET, start
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Posterior, cast, model_target
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAPrior
from probmetric.models.point_effects import (
    PointEffectsParams,
    PointEffectsPrior,
    identified,
    intercept_of_new,
    point_effects,
    simulate,
)

type Sites = dict[str, Any]

N_COMPONENTS, N_POINTS = 3, 400
"""Principal components, and points at most, kept of a data set."""


def toy(seed: int) -> Problem[Pairs]:
    """Simulate 400 pairs of 30 points in d = 3, ω = .8, and fit them at p = 2.

    Nothing is its own neutral element: weights from 1/2 to 2, a learning rate of 0.8,
    b ~ Gamma(1.5, 0.7), a half-normal scale of 0.7.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3)) * [1.0, 1.3, 0.7]
    i = rng.integers(0, 30, 400)
    j = (i + rng.integers(1, 30, 400)) % 30
    mean = np.array([[0.8, 0.0, 0.3], [-0.2, 0.7, 0.0]])
    W = mean + 0.2 * rng.normal(size=(2, 3))
    effects = 0.8 * rng.normal(size=30)
    truth = PointEffectsParams(W, np.array(-0.6), np.array(0.8), effects)
    with jax.enable_x64(True):
        y = np.asarray(simulate(jax.random.key(seed), truth, Pairs(X, i, j, None)).y)
    common = LCAPrior(mean, c=0.8, lam=2.0, b_shape=1.5, b_rate=0.7)
    pairs = Pairs(X, i, j, y, 0.5 + 0.75 * (np.arange(400) % 3))
    prior, options = PointEffectsPrior(common, 0.7), {"learning_rate": 0.8}
    return fitted(fit_problem, f"simulated, seed {seed}", pairs, prior, **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit the estimator's recipe to a labelled data set, at most 400 of its points.

    Standardised, its leading principal components: a fit takes (n + p d)³.
    """
    assert N_POINTS < MAX_PARAMETERS
    if len(X) > N_POINTS:
        kept = np.sort(np.random.default_rng(0).permutation(len(X))[:N_POINTS])
        X, y = X[kept], y[kept]
        sizes = np.bincount(np.unique(y, return_inverse=True)[1])
        common = np.unique(y)[sizes > 1]
        X, y = X[np.isin(y, common)], y[np.isin(y, common)]
    Z, codes = standardised(X, y)
    Z = Z @ np.linalg.svd(Z, full_matrices=False)[2][:N_COMPONENTS].T
    recipe = Recipe(n_components=Z.shape[1])
    pairs = build(Z, codes, recipe)._replace(anchor=None)
    prior = PointEffectsPrior(prior_for(pairs, recipe, 10.0))
    rate = rate_for(pairs, recipe)
    return fitted(fit_problem, "data", pairs, prior, learning_rate=rate)


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem: its spread, then the rest."""
    return fit(problem.data, problem.prior, **problem.options)


def _renumbered(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Put the points in another order."""
    pairs, X = problem.data, np.asarray(problem.data.X)
    place = np.random.default_rng(2).permutation(len(X))
    i, j = (place[np.asarray(k)] for k in (pairs.i, pairs.j))
    moved = pairs._replace(X=X[np.argsort(place)], i=i, j=j)
    return replace(problem, data=moved)


invariants = {**OF_PAIRS, "order of the points": _renumbered}
"""Changes of a problem that must leave the metric as it was."""


def _sites(problem: Problem[Pairs]) -> Sites:
    """Return the fit by the names of its sites; z = 0 where the spread is."""
    at = jax.tree.map(jnp.asarray, position(problem.params))
    return {**at, "spread": jnp.asarray(float(problem.params.spread) or 0.05)}


def _numpyro(problem: Problem[Pairs]) -> Any:
    return density_of(point_effects, (problem.data, problem.prior), problem.options)


def _points(problem: Problem[Pairs]) -> list[Sites]:
    """Return three positions: the fit, and around it."""
    rng, at, found = np.random.default_rng(0), _sites(problem), []
    for size in (0.0, 0.3, 1.0):
        moved = {k: v + size * rng.normal(size=v.shape) for k, v in at.items()}
        moved["spread"] = at["spread"] * np.exp(size * rng.normal())
        found.append(moved)
    return found


def _tabulated(problem: Problem[Pairs], density: Any) -> Values:
    found = [density(at) for at in _points(problem)]
    slopes = {f"gradient in {k}": [s[k] for _, s in found] for k in _sites(problem)}
    return {"log density": [value for value, _ in found], **slopes}


def density_reference(problem: Problem[Pairs]) -> Values:
    """Evaluate the NumPyro density and its derivative at three positions."""
    return _tabulated(problem, _numpyro(problem))


def density_estimate(
    problem: Problem[Pairs], lam: float = 1.0, normal: float = 1.0
) -> Values:
    """Evaluate the closed form there; wrong in λ, or in the prior of the effects."""
    prior, rate = problem.prior, problem.options["learning_rate"]
    prior = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    rows = rows_of(problem.data, rate)

    def value(sites: Sites) -> Any:
        extra = 0.5 * (1 - normal) * jnp.sum(sites["z"] ** 2)
        on_spread = log_prior_of_spread(sites["spread"], prior)
        return log_joint(sites, rows, prior) + on_spread + extra

    return _tabulated(problem, jax.jit(jax.value_and_grad(value)))


NAMES = ("W", "log_b", "z")


def _flat(problem: Problem[Pairs], at: Sites) -> tuple[Any, Any]:
    """Return NumPyro's density as a function of (W, log b, z), and where it is."""
    flat, unravel = ravel_pytree({k: at[k] for k in NAMES})
    density = _numpyro(problem)

    def value(x: Any) -> Any:
        return density({**unravel(x), "spread": at["spread"]})[0]

    return value, flat


def hessian_reference(problem: Problem[Pairs]) -> Values:
    """Differentiate NumPyro's density twice at three positions."""
    gradients, hessians = [], []
    for at in _points(problem):
        value, flat = _flat(problem, at)
        gradients.append(jax.grad(value)(flat))
        hessians.append(-np.asarray(jax.hessian(value)(flat)))
    return {"gradient": gradients, "minus Hessian": hessians}


def hessian_estimate(
    problem: Problem[Pairs], lam: float = 1.0, alone: bool = False
) -> Values:
    """Return both in closed form; wrong in λ, or with points that are not shared."""
    prior, rate = problem.prior, problem.options["learning_rate"]
    prior = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    rows = rows_of(problem.data, rate)
    found = [derivatives(at, rows, prior) for at in _points(problem)]
    gradients, hessians = ([each[k] for each in found] for k in (0, 1))
    if alone:  # Curvature between points left out.
        m = problem.params.W.size + 1
        for H in hessians:
            H[m:, m:] = np.diag(np.diag(H[m:, m:]))
    return {"gradient": gradients, "minus Hessian": hessians}


def mode_slope(problem: Problem[Pairs], lam: float = 1.0) -> Values:
    """Differentiate NumPyro's density in (W, log b, z) where the fit ends."""
    prior = problem.prior
    wrong = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    found = fit(problem.data, wrong, **problem.options)
    sites = _sites(replace(problem, params=found.params))
    if float(found.params.spread) == 0:
        sites["spread"] = 0 * sites["spread"]
    _, slope = _numpyro(problem)(sites)
    n = len(problem.data.i) * problem.options["learning_rate"]
    return {f"gradient in {k}": np.asarray(slope[k]) / n for k in NAMES}


SPREADS = (0.1, 0.4, 0.9)


def _mode(problem: Problem[Pairs], spread: float) -> Any:
    prior = jax.tree.map(lambda v: np.asarray(v, float), problem.prior)
    rows = rows_of(problem.data, problem.options["learning_rate"])
    return mode_at(spread, position(problem.params), rows, prior)


def dense_evidence(problem: Problem[Pairs]) -> Values:
    """Apply Laplace's method to NumPyro's density, by its Hessian."""
    found: list[float] = []
    for spread in SPREADS:
        at = jax.tree.map(jnp.asarray, _mode(problem, spread).at)
        value, flat = _flat(problem, {**at, "spread": jnp.asarray(spread)})
        H = -np.asarray(jax.hessian(value)(flat))
        constant = 0.5 * len(flat) * np.log(2 * np.pi)
        found.append(float(value(flat)) + constant - np.linalg.slogdet(H)[1] / 2)
    return {"log density of ω": found}


def evidence(problem: Problem[Pairs], joint: bool = False) -> Values:
    """Return the same of the fit; without the determinant, as a joint mode has it."""
    found: list[float] = []
    for spread in SPREADS:
        mode = _mode(problem, spread)
        extra = np.log(np.diag(mode.factor)).sum() if joint else 0.0
        found.append(mode.log_density + extra)
    return {"log density of ω": found}


def score_of_spread(problem: Problem[Pairs], factor: float = 1.0) -> Values:
    """Differentiate that density at the fitted ω, in its posterior sd; 0 at an end.

    By central differences, h = 1 % of ω.
    """
    spread = factor * float(fit_problem(problem).params.spread)
    if factor != 1.0:
        spread = max(spread, 0.5)
    if spread == 0:
        return {"score of ω": 0.0}
    h = 0.01 * spread
    low, here, high = (
        _mode(problem, spread + k * h).log_density for k in (-1.0, 0.0, 1.0)
    )
    curvature = -(high - 2 * here + low) / h**2
    return {"score of ω": (high - low) / (2 * h) / np.sqrt(abs(curvature))}


def _new_by_quadrature(problem: Problem[Pairs]) -> Values:
    """Integrate e^{-b_i/2} over the effect of a new point by SciPy's quad."""
    b = float(identified(problem.params)["b"])
    found: list[float] = []
    for spread in SPREADS:

        def density(z: float, spread: float = spread) -> float:
            h = 0.5 * b * np.exp(spread * z)
            return np.exp(-h - z**2 / 2) / np.sqrt(2 * np.pi)

        mean = quad(density, -12, 12, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
        found.append(-2 * np.log(mean))
    return {"b of new points": found}


def _new(problem: Problem[Pairs], typical: bool = False) -> Values:
    """Return it as the model does; of a typical point instead."""
    b = float(identified(problem.params)["b"])
    spreads = 0 * np.array(SPREADS) if typical else np.array(SPREADS)
    return {"b of new points": np.asarray(intercept_of_new(b + 0 * spreads, spreads))}


def _one_draw(problem: Problem[Pairs]) -> dict[str, np.ndarray]:
    found = identified(problem.params)
    spread = np.array(max(float(found["spread"]), 0.5))
    values = {**found, "spread": spread}
    return {k: np.asarray(v)[None, None] for k, v in values.items()}


def _left_out_by_quadrature(problem: Problem[Pairs]) -> Values:
    """Integrate the density of all pairs of three points over the effect of each."""
    values, pairs = _one_draw(problem), problem.data
    b, spread, b_point = (values[k][0, 0] for k in ("b", "spread", "b_point"))
    delta = np.asarray(pairs.X)[pairs.i] - np.asarray(pairs.X)[pairs.j]
    half = 0.5 * np.einsum("nd,de,ne->n", delta, values["M"][0, 0], delta)
    found: list[float] = []
    for point in range(3):
        own = (np.asarray(pairs.i) == point) | (np.asarray(pairs.j) == point)
        other = np.where(np.asarray(pairs.i) == point, pairs.j, pairs.i)[own]
        rest, same = half[own] + 0.5 * b_point[other], np.asarray(pairs.y)[own] == 1

        def log_density(z: Any, rest: Any = rest, same: Any = same) -> Any:
            t = rest + 0.5 * b * np.exp(spread * z)
            return np.where(same, -t, np.log(-np.expm1(-t))).sum() - z**2 / 2

        top = max(log_density(z) for z in np.linspace(-6, 6, 601))

        def density(z: float, at: Any = log_density, top: float = top) -> float:
            return float(np.exp(at(z) - top))

        area = quad(density, -12, 12, points=[-3, -1, 0, 1, 3], limit=400)[0]
        found.append(top + np.log(area) - 0.5 * np.log(2 * np.pi))
    return {"log density of a point's pairs": found}


def _left_out(problem: Problem[Pairs], known: bool = False) -> Values:
    """Return it as ``left_out`` does; with the effect taken as known, ω = 0."""
    values = _one_draw(problem)
    if known:
        values["spread"] = 0 * values["spread"]
    found = point_log_likelihood(values, rows_of(problem.data))
    return {"log density of a point's pairs": found[0, 0, :3]}


def _summaries(problem: Problem[Pairs], values: Any, attrs: Any = None) -> xr.Dataset:
    """Return distances of five pairs, log b, log b of three points, and the spread."""
    pairs = problem.data
    delta = np.asarray(pairs.X)[pairs.i[:5]] - np.asarray(pairs.X)[pairs.j[:5]]
    squared = np.einsum("pk,cskl,pl->csp", delta, values["M"], delta)
    shown = {
        "distance": np.sqrt(squared),
        "log b": np.log(values["b"]),
        "log b of points": np.log(values["b_point"][..., :3]),
    }
    return as_dataset({**shown, "spread": values["spread"]}, attrs)


def _posterior(problem: Problem[Pairs], lam: float = 1.0) -> tuple[Posterior, Any]:
    rows = rows_of(problem.data, problem.options["learning_rate"])
    prior = jax.tree.map(lambda v: np.asarray(v, float), problem.prior)
    prior = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    found = spread_posterior(problem.params, rows, prior)
    return Posterior(TARGET, (rows, prior), start(found)), found


def nuts_reference(problem: Problem[Pairs]) -> xr.Dataset:
    """Sample the NumPyro model, told nothing of where its posterior lies."""
    args = (problem.data, problem.prior)
    draws = sampled(point_effects, args, dict(problem.options), seed=3, n_draws=3000)
    return _summaries(problem, draws.values)


def target_estimate(problem: Problem[Pairs], lam: float = 1.0) -> xr.Dataset:
    """Sample the closed form from Laplace's start; wrong in λ."""
    with jax.enable_x64(True):
        posterior, _ = _posterior(problem, lam)
        draws = NUTS().draw(posterior, seed=4, n_draws=4000, progress=False)
    return _summaries(problem, draws.values)


def laplace_estimate(problem: Problem[Pairs], wide: float = 1.0) -> xr.Dataset:
    """Draw from the grid of ω and the Gaussians at its modes; too wide, if asked."""
    with jax.enable_x64(True):
        _, found = _posterior(problem)
        modes = tuple(m._replace(factor=m.factor / wide) for m in found.modes)
        values = laplace_draws(found._replace(modes=modes), 4000, seed=5)
    return _summaries(problem, values, {"method": "laplace", "khat": float("nan")})


def _world() -> tuple[Pairs, PointEffectsPrior]:
    """Return 120 pairs of 15 points in d = 2, without labels."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(15, 2))
    i = np.arange(120) % 15
    j = (i + rng.integers(1, 15, 120)) % 15
    common = LCAPrior(0.8 * np.eye(2), c=0.8, lam=5.0)
    return Pairs(X, i, j, None), PointEffectsPrior(common, 1.0)


def _observe(pairs: Pairs, sites: Any) -> Pairs:
    return pairs._replace(y=sites["y"])


def overconfident(pairs: Pairs, prior: PointEffectsPrior) -> None:
    """Write a wrong model: each label counts twice."""
    point_effects(pairs, prior, learning_rate=2.0)


def calibrate(
    problem: Problem[Pairs],
    model: Callable[..., None] = point_effects,
    n_simulations: int = 600,
) -> Ranks:
    """Rank true values among draws of ``model``, in worlds made by the story."""
    del problem
    pairs, prior = _world()
    target, story, data = model_story(point_effects, pairs, _observe, prior=prior)
    if model is not point_effects:
        with jax.enable_x64(True):
            labelled = pairs._replace(y=np.zeros(len(pairs.i), np.int32))
            args = cast((labelled, prior), "float64")
            target = model_target(model, args, {})[0]
    return sbc(
        target, story, data, seed=11, n_simulations=n_simulations, progress=False
    )


CHECKS: tuple[Check, ...] = (
    by_gradient(
        "log joint is the NumPyro density, value and gradient",
        reference=density_reference,
        estimate=density_estimate,
        controls={
            "another prior width": partial(density_estimate, lam=1.01),
            "effects of variance 1/2": partial(density_estimate, normal=2.0),
        },
    ),
    by_gradient(
        "gradient and Hessian are those of the NumPyro density",
        reference=hessian_reference,
        estimate=hessian_estimate,
        controls={
            "another prior width": partial(hessian_estimate, lam=1.01),
            "no curvature between points": partial(hessian_estimate, alone=True),
        },
    ),
    by_gradient(
        "the fit is a mode of the NumPyro density given the spread",
        reference=zero,
        estimate=mode_slope,
        controls={
            "λ a tenth too large": partial(mode_slope, lam=1.1),
        },
        atol=1e-8,
    ),
    by_gradient(
        "Laplace's density of the spread is that of NumPyro's Hessian",
        reference=dense_evidence,
        estimate=evidence,
        controls={
            "no determinant, as a joint mode has it": partial(evidence, joint=True)
        },
        rtol=1e-8,
    ),
    by_gradient(
        "the spread is a mode of its density, in posterior sd",
        reference=zero,
        estimate=score_of_spread,
        controls={"ω half too large": partial(score_of_spread, factor=1.5)},
        atol=0.02,
    ),
    Check(
        "P(same) of new points is integrated over their effects",
        "exact",
        reference=_new_by_quadrature,
        estimate=_new,
        controls={"that of typical points": partial(_new, typical=True)},
        rtol=1e-9,
        layer="quadrature",
    ),
    Check(
        "pairs of a left-out point are integrated over its effect",
        "exact",
        reference=_left_out_by_quadrature,
        estimate=_left_out,
        controls={"its effect left out as well": partial(_left_out, known=True)},
        rtol=1e-7,
        layer="quadrature",
    ),
    by_sampling(
        "draws of the closed form are those of the NumPyro model",
        reference=nuts_reference,
        estimate=target_estimate,
        controls={"prior a third as wide": partial(target_estimate, lam=9.0)},
        tol=0.25,  # ω mixes least.
        slow=True,
    ),
    near_sampling(
        "Laplace's distances, b and spread are near NUTS's",
        reference=nuts_reference,
        estimate=laplace_estimate,
        controls={"four times too wide": partial(laplace_estimate, wide=4.0)},
        bound=1.0,
        slow=True,
    ),
    by_sbc(
        "posterior is calibrated over simulated worlds, the spread included",
        estimate=calibrate,
        controls={
            "labels count twice": partial(
                calibrate, model=overconfident, n_simulations=100
            )
        },
        slow=True,
    ),
)
