"""The checks of hierarchical LCA, and problems to run them on.

Density, modes and Laplace's density of the spread stand against NumPyro's own density,
its gradient and its dense Hessian; draws against NUTS on the NumPyro model; and the
whole against worlds simulated by it (SBC).
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

from probmetric.checks.check import (
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
from probmetric.inference.effects.draws import group_laplace_draws
from probmetric.inference.effects.fit import (
    GROUPS,
    group_data,
    mode_at,
    posterior_on_grid,
)
from probmetric.inference.effects.fit import fit_groups as fit
from probmetric.inference.effects.groups import log_joint, position, stacked
from probmetric.inference.effects.profile import log_half_normal
from probmetric.inference.effects.recipe import pairs_in_groups
from probmetric.inference.effects.target import GROUP_TARGET, start
from probmetric.inference.lca.recipe import Recipe, prior_for, rate_for
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Posterior, cast, model_target
from probmetric.inference.solvers.result import Fit
from probmetric.models.hierarchical_lca import (
    HierarchicalLCAParams,
    HierarchicalLCAPrior,
    hierarchical_lca,
    simulate,
)
from probmetric.models.lca import LCAPrior

type Sites = dict[str, Any]


N_COMPONENTS = 3
"""Principal components kept of a data set."""


def toy(seed: int) -> Problem[Pairs]:
    """Simulate 4 groups of unequal numbers of pairs in d = 3, and fit them at p = 2.

    Maps differ by ω = .5. Nothing is its own neutral element: weights from 1/2 to 2, a
    learning rate of 0.8, b ~ Gamma(1.5, 0.7), a half-normal scale of 0.7.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3)) * [1.0, 1.3, 0.7]
    group = np.repeat(np.arange(4), [60, 90, 120, 50])
    i = rng.integers(0, 80, len(group))
    j = (i + rng.integers(1, 80, len(group))) % 80
    mean = np.array([[0.8, 0.0, 0.3], [-0.2, 0.7, 0.0]])
    W = rng.normal(size=(2, 3)) * 0.4 + mean
    W_groups = W + 0.5 * 0.8 * rng.normal(size=(4, 2, 3))
    truth = HierarchicalLCAParams(W, W_groups, np.array(-1.5), np.array(0.5))
    unlabelled = Pairs(X, i, j, None, anchor=group)
    with jax.enable_x64(True):
        y = np.asarray(simulate(jax.random.key(seed), truth, unlabelled).y)
    common = LCAPrior(mean, c=0.8, lam=2.0, b_shape=1.5, b_rate=0.7)
    prior = HierarchicalLCAPrior(common, 0.7)
    w = 0.5 + 0.75 * (np.arange(len(group)) % 3)
    options: Any = {"learning_rate": 0.8, "n_groups": 4}
    pairs = Pairs(X, i, j, y, w, anchor=group)
    return fitted(fit_problem, f"simulated, seed {seed}", pairs, prior, **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit the estimator's recipe to a labelled data set, dealt out into 3 groups.

    Standardised, its leading principal components: a fit takes (p d)³ for each group.
    """
    Z, codes = standardised(X, y)
    X = Z @ np.linalg.svd(Z, full_matrices=False)[2][:N_COMPONENTS].T
    group = np.empty(len(X), int)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        group[rows] = np.arange(len(rows)) % 3
    recipe = Recipe(n_components=X.shape[1])
    pairs = pairs_in_groups(X, codes, group, recipe)
    prior = HierarchicalLCAPrior(prior_for(pairs, recipe, 10.0))
    options: Any = {"learning_rate": rate_for(pairs, recipe), "n_groups": 3}
    return fitted(fit_problem, "data", pairs, prior, **options)


def fit_problem(problem: Problem[Pairs]) -> Fit:
    """Fit a problem: its spread, then the maps."""
    return fit(problem.data, problem.prior, **problem.options)


def _renamed(problem: Problem[Pairs]) -> Problem[Pairs]:
    """Give the groups each other's codes."""
    anchor = np.asarray(problem.data.anchor)
    return replace(problem, data=problem.data._replace(anchor=anchor.max() - anchor))


invariants = {**OF_PAIRS, "names of the groups": _renamed}
"""Changes of a problem that must leave the common metric as it was."""


def _sites(problem: Problem[Pairs]) -> Sites:
    """Return the fit by the names of its sites; E = 0 where the spread is."""
    at = position(problem.params, problem.prior)
    spread = float(problem.params.spread) or 0.05
    return {**jax.tree.map(jnp.asarray, at), "spread": jnp.asarray(spread)}


def _numpyro(problem: Problem[Pairs]) -> Any:
    return density_of(hierarchical_lca, (problem.data, problem.prior), problem.options)


def _at_three_points(problem: Problem[Pairs], density: Any) -> Values:
    """Tabulate a density and its gradient around the fit."""
    rng, at, found = np.random.default_rng(0), _sites(problem), []
    for size in (0.0, 0.3, 1.0):
        moved = {k: v + size * rng.normal(size=v.shape) for k, v in at.items()}
        moved["spread"] = at["spread"] * np.exp(size * rng.normal())
        found.append(density(moved))
    slopes = {f"gradient in {k}": [s[k] for _, s in found] for k in at}
    return {"log density": [value for value, _ in found], **slopes}


def density_reference(problem: Problem[Pairs]) -> Values:
    """Evaluate the NumPyro density at three points."""
    return _at_three_points(problem, _numpyro(problem))


def density_estimate(
    problem: Problem[Pairs], lam: float = 1.0, same: float = 1.0, mixed: bool = False
) -> Values:
    """Evaluate the stacked density there; wrong λ, pairs forgotten, or groups mixed."""
    pairs, prior, options = problem.data, problem.prior, problem.options
    if mixed:
        pairs = _renamed(problem).data
    stats = stacked(pairs, options["n_groups"])
    stats = stats._replace(n_same=same * stats.n_same)
    prior = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    rate = options["learning_rate"]
    return _at_three_points(
        problem, lambda at: _stacked_density(at, stats, prior, rate)
    )


@jax.jit
@jax.value_and_grad
def _stacked_density(sites: Sites, stats: Any, prior: Any, rate: Any) -> Any:
    on_spread = log_half_normal(sites["spread"], prior.spread)
    return log_joint(sites, stats, prior, rate) + on_spread


def mode_slope(
    problem: Problem[Pairs], lam: float = 1.0, pooled: bool = False
) -> Values:
    """Differentiate NumPyro's density in (W, log b, E) where the fit ends."""
    prior = problem.prior
    wrong = prior._replace(common=prior.common._replace(lam=lam * prior.common.lam))
    found = fit(problem.data, wrong, **problem.options)
    sites = _sites(replace(problem, params=found.params))
    if pooled:
        sites["E"] = 0 * sites["E"]
    if float(found.params.spread) == 0:
        sites["spread"] = 0 * sites["spread"]
    _, slope = _numpyro(problem)(sites)
    n = float(np.sum(stacked(problem.data).n)) * problem.options["learning_rate"]
    names = ("W", "log_b", "E")
    return {f"gradient in {k}": np.asarray(slope[k]) / n for k in names}


SPREADS = (0.1, 0.4, 0.9)


def _mode(problem: Problem[Pairs], spread: float) -> Any:
    data = group_data(problem.data, problem.prior, **problem.options)
    begin = position(problem.params, data[1])
    return mode_at(GROUPS, spread, begin, data)


def dense_evidence(problem: Problem[Pairs]) -> Values:
    """Apply Laplace's method to NumPyro's density, by its dense Hessian."""
    density, found = _numpyro(problem), list[float]()
    unravel = ravel_pytree(position(problem.params, problem.prior))[1]

    def value(x: Any, spread: Any) -> Any:
        return density({**unravel(x), "spread": spread})[0]

    both = jax.jit(lambda *at: (value(*at), jax.hessian(value)(*at)))
    for spread in SPREADS:
        flat, _ = ravel_pytree(_mode(problem, spread).at)
        reached, H = both(flat, jnp.asarray(spread))
        constant = 0.5 * len(flat) * np.log(2 * np.pi)
        determinant = np.linalg.slogdet(-np.asarray(H))[1]
        found.append(float(reached) + constant - determinant / 2)
    return {"log density of ω": found}


def evidence(problem: Problem[Pairs], wrong: str = "") -> Values:
    """Return the same by the arrow; without its coupling, or without determinant."""
    found: list[float] = []
    for spread in SPREADS:
        mode = _mode(problem, spread)
        value, factors = mode.log_density, mode.factors
        shared = np.log(np.diag(factors.shared)).sum()
        if wrong == "determinant":
            value += factors.log_determinant / 2
        if wrong == "shared":
            value += shared
        found.append(value)
    return {"log density of ω": found}


def score_of_spread(problem: Problem[Pairs], factor: float = 1.0) -> Values:
    """Differentiate that density at the fitted ω, in its posterior sd; 0 at an end.

    By central differences, h = 1 % of ω.
    """
    spread = factor * float(fit_problem(problem).params.spread)
    if spread == 0:
        return {"score of ω": 0.0}
    h = 0.01 * spread
    low, here, high = (
        _mode(problem, spread + k * h).log_density for k in (-1.0, 0.0, 1.0)
    )
    curvature = -(high - 2 * here + low) / h**2
    return {"score of ω": (high - low) / (2 * h) / np.sqrt(abs(curvature))}


def _summaries(problem: Problem[Pairs], values: Any, attrs: Any = None) -> xr.Dataset:
    """Return distances of pairs in their groups, log b and the spread."""
    pairs = problem.data
    rows = [np.flatnonzero(np.asarray(pairs.anchor) == g)[:2] for g in range(3)]
    rows = np.concatenate(rows)
    delta = np.asarray(pairs.X)[pairs.i[rows]] - np.asarray(pairs.X)[pairs.j[rows]]
    M = values["M_group"][:, :, np.asarray(pairs.anchor)[rows]]
    squared = np.einsum("pk,cspkl,pl->csp", delta, M, delta)
    shown = {"distance": np.sqrt(squared), "log b": np.log(values["b"])}
    return as_dataset({**shown, "spread": values["spread"]}, attrs)


def _posterior(problem: Problem[Pairs], lam: float = 1.0) -> tuple[Posterior, Any]:
    common = problem.prior.common
    prior = problem.prior._replace(common=common._replace(lam=lam * common.lam))
    data = group_data(problem.data, prior, **problem.options)
    found = posterior_on_grid(GROUPS, problem.params, data)
    return Posterior(GROUP_TARGET, data, start(found)), found


def nuts_reference(
    problem: Problem[Pairs], n_draws: int = 3000, n_warmup: int = 500
) -> xr.Dataset:
    """Sample the NumPyro model, told nothing of where its posterior lies."""
    draws = sampled(
        hierarchical_lca,
        (problem.data, problem.prior),
        dict(problem.options),
        seed=3,
        n_draws=n_draws,
        sampler=NUTS(n_warmup=n_warmup),
    )
    return _summaries(problem, draws.values)


def target_estimate(
    problem: Problem[Pairs], lam: float = 1.0, n_draws: int = 2500
) -> xr.Dataset:
    """Sample the stacked target from Laplace's start."""
    sampler = NUTS(n_warmup=600)
    with jax.enable_x64(True):
        posterior, _ = _posterior(problem, lam)
        draws = sampler.draw(posterior, seed=4, n_draws=n_draws, progress=False)
    return _summaries(problem, draws.values)


def laplace_estimate(problem: Problem[Pairs], spread: float = 1.0) -> xr.Dataset:
    """Draw from the grid of ω and the Gaussians at its modes."""
    with jax.enable_x64(True):
        _, found = _posterior(problem)
    if spread != 1.0:
        wider = tuple(
            mode._replace(
                factors=mode.factors._replace(
                    shared=mode.factors.shared / spread,
                    blocks=mode.factors.blocks / spread,
                )
            )
            for mode in found.modes
        )
        found = found._replace(modes=wider)
    values = group_laplace_draws(found, float(problem.prior.common.width), 4000, seed=5)
    return _summaries(problem, values, {"method": "laplace", "khat": float("nan")})


def _world() -> tuple[Pairs, HierarchicalLCAPrior]:
    """Return 160 pairs of 80 points in d = 2 in 4 groups, without labels."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 2))
    i = rng.integers(0, 80, 160)
    j = (i + rng.integers(1, 80, 160)) % 80
    common = LCAPrior(0.8 * np.eye(2), c=0.8, lam=5.0)
    pairs = Pairs(X, i, j, None, anchor=np.arange(160) % 4)
    return pairs, HierarchicalLCAPrior(common, 0.5)


def _observe(pairs: Pairs, sites: Any) -> Pairs:
    return pairs._replace(y=sites["y"])


def one_group(pairs: Pairs, prior: HierarchicalLCAPrior, *, n_groups: int) -> None:
    """Write a wrong model: pairs of all groups under the map of the first."""
    anchor = jnp.zeros_like(jnp.asarray(pairs.anchor))
    hierarchical_lca(pairs._replace(anchor=anchor), prior, n_groups=n_groups)


def calibrate(
    problem: Problem[Pairs],
    model: Callable[..., None] = hierarchical_lca,
    n_simulations: int = 800,
) -> Ranks:
    """Rank true values among draws of ``model``, in worlds made by hierarchical LCA."""
    del problem
    pairs, prior = _world()
    options: Any = {"n_groups": 4}
    target, story, data = model_story(
        hierarchical_lca, pairs, _observe, prior=prior, options=options
    )
    if model is not hierarchical_lca:
        with jax.enable_x64(True):
            labelled = pairs._replace(y=np.zeros(len(pairs.i), np.int32))
            args = cast((labelled, prior), "float64")
            target = model_target(model, args, options)[0]
    return sbc(
        target, story, data, seed=11, n_simulations=n_simulations, progress=False
    )


CHECKS = (
    by_gradient(
        "stacked log joint is the NumPyro density, value and gradient",
        reference=density_reference,
        estimate=density_estimate,
        controls={
            "another prior width": partial(density_estimate, lam=1.01),
            "y=1 pairs forgotten in the normaliser": partial(
                density_estimate, same=0.0
            ),
            "pairs given to other groups": partial(density_estimate, mixed=True),
        },
    ),
    by_gradient(
        "the fit is a mode of the NumPyro density given the spread",
        reference=zero,
        estimate=mode_slope,
        controls={
            "λ a tenth too large": partial(mode_slope, lam=1.1),
            "groups pooled altogether": partial(mode_slope, pooled=True),
        },
        atol=1e-8,
    ),
    by_gradient(
        "Laplace's density of the spread is that of NumPyro's dense Hessian",
        reference=dense_evidence,
        estimate=evidence,
        controls={
            "no determinant, as a joint mode has it": partial(
                evidence, wrong="determinant"
            ),
            "determinant of the groups alone": partial(evidence, wrong="shared"),
        },
        rtol=1e-8,
    ),
    by_gradient(
        "the spread is a mode of its density, in posterior sd",
        reference=zero,
        estimate=score_of_spread,
        controls={"ω a fifth too large": partial(score_of_spread, factor=1.2)},
        atol=0.02,
    ),
    by_sampling(
        "draws of the stacked target are those of the NumPyro model",
        reference=nuts_reference,
        estimate=target_estimate,
        controls={
            "common prior a third as wide": partial(
                target_estimate, lam=9.0, n_draws=750
            )
        },
        # ω mixes least: 1,000 effective draws are asked; of 4 × 2500 it had 1,438 to
        # 1,951, and 1,672 of the reference's 4 × 3000. The wrong claim is 10
        # Monte Carlo errors off, and 4 reject it.
        tol=0.25,
        slow=True,  # Beside the other models' tests in one command it decides nothing.
    ),
    near_sampling(
        "Laplace's distances, b and spread are near NUTS's",
        # 400 effective draws are needed; of 4 × 2000, ω had 1,069.
        reference=partial(nuts_reference, n_draws=2000),
        estimate=laplace_estimate,
        controls={"four times too wide": partial(laplace_estimate, spread=4.0)},
        bound=1.0,
    ),
    by_sbc(
        "posterior is calibrated over simulated worlds, the spread included",
        estimate=calibrate,
        controls={
            "groups ignored": partial(calibrate, model=one_group, n_simulations=100)
        },
        slow=True,
    ),
)
