"""Claims about hierarchical LCA, and problems to check them on.

Density, modes and Laplace's density of the spread are compared with NumPyro's density,
its gradient and its Hessian; draws with NUTS; and ranks by simulation (SBC).
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from probmetric.checks.check import Problem, near_sampling
from probmetric.checks.claims import (
    Sites,
    around,
    calibrated,
    density,
    mode,
    nuts,
    nuts_draws,
    prior_times,
    spread_claims,
)
from probmetric.checks.problems import OF_PAIRS, fitted, standardized
from probmetric.checks.sides import as_dataset
from probmetric.data.containers import Pairs
from probmetric.inference.effects.arrow import Arrow
from probmetric.inference.effects.draws import laplace_draws, start
from probmetric.inference.effects.fit import (
    GROUPS,
    Mode,
    SpreadPosterior,
    data_of,
    fit,
    mode_at,
    spread_posterior,
)
from probmetric.inference.effects.groups import (
    GroupData,
    log_joint,
    position,
    stacked,
)
from probmetric.inference.effects.profile import log_half_normal
from probmetric.inference.effects.recipe import pairs_in_groups
from probmetric.inference.effects.target import GROUP_TARGET
from probmetric.inference.lca.recipe import Recipe, prior_for, rate_for
from probmetric.inference.sampling.nuts import NUTS
from probmetric.inference.sampling.target import Draws, Posterior
from probmetric.inference.solvers.result import Fit
from probmetric.models.hierarchical_lca import (
    HierarchicalLCAParams,
    HierarchicalLCAPrior,
    hierarchical_lca,
    simulate,
)
from probmetric.models.lca import LCAPrior

N_COMPONENTS = 3
"""Principal components of a data set that are used."""


def toy(seed: int) -> Problem[Pairs]:
    """Simulate 4 groups of pairs in d = 3 with ω = 0.5, and fit them at p = 2.

    No setting is neutral: weights 1/2 to 2, learning rate 0.8, b ~ Gamma(1.5, 0.7).
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
    unlabeled = Pairs(X, i, j, None, anchor=group)
    with jax.enable_x64(True):
        y = np.asarray(simulate(jax.random.key(seed), truth, unlabeled).y)
    common = LCAPrior(mean, c=0.8, lam=2.0, b_shape=1.5, b_rate=0.7)
    prior = HierarchicalLCAPrior(common, 0.7)
    w = 0.5 + 0.75 * (np.arange(len(group)) % 3)
    options: Any = {"learning_rate": 0.8, "n_groups": 4}
    pairs = Pairs(X, i, j, y, w, anchor=group)
    return fitted(fit_problem, f"simulated, seed {seed}", pairs, prior, **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit leading principal components of labeled data, divided into 3 groups."""
    Z, codes = standardized(X, y)
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
    """Give the groups other codes: the last becomes 0."""
    anchor = np.asarray(problem.data.anchor)
    return replace(problem, data=problem.data._replace(anchor=anchor.max() - anchor))


invariants = {**OF_PAIRS, "names of the groups": _renamed}
"""Changes of a problem that must leave the common metric as it was."""


def _sites(problem: Problem[Pairs]) -> Sites:
    spread = float(problem.params.spread) or 0.05
    return {**position(problem.params, problem.prior), "spread": spread}


def _closed(problem: Problem[Pairs]) -> Any:
    stats = stacked(problem.data, problem.options["n_groups"])
    return _density, (stats, problem.prior, problem.options["learning_rate"])


def _density(sites: Sites, stats: Any, prior: Any, rate: Any) -> Any:
    on_spread = log_half_normal(sites["spread"], prior.spread)
    return log_joint(sites, stats, prior, rate) + on_spread


def _end(problem: Problem[Pairs], pooled: bool = False) -> Sites:
    """Return the sites where the fit ends; wrong: all groups at the common map."""
    params = fit_problem(problem).params
    at = {**position(params, problem.prior), "spread": params.spread}
    return {**at, "E": 0 * at["E"]} if pooled else at


def _problem(problem: Problem[Pairs]) -> GroupData:
    return data_of(problem.data, problem.prior, **problem.options)[1]


def _mode(problem: Problem[Pairs], spread: float) -> Mode:
    data = _problem(problem)
    return mode_at(GROUPS, spread, position(problem.params, data[1]), data)


def _summary(problem: Problem[Pairs], drawn: Draws) -> xr.Dataset:
    """Return distances of pairs in their groups, log b and the spread."""
    pairs, values = problem.data, drawn.values
    rows = [np.flatnonzero(np.asarray(pairs.anchor) == g)[:2] for g in range(3)]
    rows = np.concatenate(rows)
    delta = np.asarray(pairs.X)[pairs.i[rows]] - np.asarray(pairs.X)[pairs.j[rows]]
    M = values["M_group"][:, :, np.asarray(pairs.anchor)[rows]]
    squared = np.einsum("pk,cspkl,pl->csp", delta, M, delta)
    shown = {"distance": np.sqrt(squared), "log b": np.log(values["b"])}
    return as_dataset({**shown, "spread": values["spread"]}, drawn.attributes)


def _grid(problem: Problem[Pairs]) -> SpreadPosterior:
    return spread_posterior(
        problem.params, problem.data, problem.prior, **problem.options
    )


def _posterior(problem: Problem[Pairs]) -> Posterior:
    return Posterior(GROUP_TARGET, _problem(problem), start(_grid(problem)))


def _stretched(mode: Mode, wide: float) -> Mode:
    assert isinstance(mode.factors, Arrow)
    shared, blocks, coupling = mode.factors
    return mode._replace(factors=Arrow(shared / wide, blocks / wide, coupling))


def _laplace(problem: Problem[Pairs], wide: float = 1.0) -> xr.Dataset:
    """Draw from the grid of ω and the Gaussians at its modes; ``wide`` stretches."""
    with jax.enable_x64(True):
        grid = _grid(problem)
    modes = tuple(_stretched(mode, wide) for mode in grid.modes)
    grid = grid._replace(modes=modes)
    values = laplace_draws(grid, problem.prior, 4000, seed=5)
    return _summary(problem, Draws(values, {}, {"khat": float("nan")}))


def _world() -> tuple[Pairs, HierarchicalLCAPrior]:
    """Return 160 pairs of 80 points in d = 2 in 4 groups, without labels."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 2))
    i = rng.integers(0, 80, 160)
    j = (i + rng.integers(1, 80, 160)) % 80
    common = LCAPrior(0.8 * np.eye(2), c=0.8, lam=5.0)
    pairs = Pairs(X, i, j, None, anchor=np.arange(160) % 4)
    return pairs, HierarchicalLCAPrior(common, 0.5)


def one_group(pairs: Pairs, prior: HierarchicalLCAPrior, *, n_groups: int) -> None:
    """Negative control: the model with all pairs in the first group."""
    anchor = jnp.zeros_like(jnp.asarray(pairs.anchor))
    hierarchical_lca(pairs._replace(anchor=anchor), prior, n_groups=n_groups)


def _half_log_determinant(at: Any) -> float:
    return at.factors.log_determinant / 2


def _coupling(at: Any) -> float:
    return float(np.log(np.diag(at.factors.shared)).sum())


LAPLACE = "Laplace's distances, b and spread are near NUTS draws"

CHECKS = (
    density(
        hierarchical_lca,
        lambda p: around(_sites(p), positive=("spread",)),
        _closed,
        wrong={
            "another prior width": prior_times(lam=1.01),
            "pairs given to other groups": _renamed,
        },
    ),
    mode(
        hierarchical_lca,
        _end,
        names=("W", "log_b", "E"),
        wrong={
            "λ a tenth too large": prior_times(lam=1.1),
            "groups pooled completely": {"pooled": True},
        },
        atol=1e-8,
    ),
    *spread_claims(
        hierarchical_lca,
        _mode,
        fit_problem,
        ("W", "log_b", "E"),
        wrong={
            "no determinant, as at a joint mode": _half_log_determinant,
            "determinant of the groups only": _coupling,
        },
    ),
    nuts(
        nuts_draws(hierarchical_lca, _summary, n_draws=3000),
        _summary,
        _posterior,
        sampler=NUTS(n_warmup=600),
        # ω mixes slowest: 1,000 effective draws are needed, the least seen is 1,438.
        n_draws=2500,
        wrong={"common prior a third as wide": prior_times(lam=9.0)},
    ),
    near_sampling(
        LAPLACE,
        reference=nuts_draws(hierarchical_lca, _summary, n_draws=2000),
        estimate=_laplace,
        controls={"four times too wide": partial(_laplace, wide=4.0)},
        bound=1.0,
    ),
    calibrated(
        hierarchical_lca,
        _world,
        options={"n_groups": 4},
        n_simulations=800,
        wrong={"groups ignored": one_group},
    ),
)
