"""Claims about hierarchical LCA, and problems to check them on."""

from typing import Any

import numpy as np
import xarray as xr

from probmetric.checks.check import Problem
from probmetric.checks.effects import effect_claims, fit_problem
from probmetric.checks.problems import (
    COMMON,
    MEAN,
    OF_PAIRS,
    answered,
    fitted,
    principal,
    random_pairs,
    renamed,
)
from probmetric.checks.sides import as_dataset
from probmetric.data.containers import Pairs
from probmetric.inference.effects.fit import GROUPS
from probmetric.inference.effects.recipe import pairs_in_groups
from probmetric.inference.lca.recipe import Recipe, prior_for, rate_for
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
    """Simulate 4 groups of weighted pairs in d = 3, ω = 0.5, and fit them at p = 2."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(4), [60, 90, 120, 50])
    pairs = random_pairs(rng, 80, len(group))._replace(anchor=group)
    W = rng.normal(size=(2, 3)) * 0.4 + MEAN
    W_groups = W + 0.5 * 0.8 * rng.normal(size=(4, 2, 3))
    truth = HierarchicalLCAParams(W, W_groups, np.array(-1.5), np.array(0.5))
    prior = HierarchicalLCAPrior(COMMON, 0.7)
    options: Any = {"learning_rate": 0.8, "n_groups": 4}
    pairs = answered(simulate, seed, truth, pairs)
    return fitted(fit_problem, f"simulated, seed {seed}", pairs, prior, **options)


def from_labels(X: np.ndarray, y: np.ndarray) -> Problem[Pairs]:
    """Fit leading principal components of labeled data, divided into 3 groups."""
    X, codes = principal(X, y, N_COMPONENTS)
    group = np.empty(len(X), int)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        group[rows] = np.arange(len(rows)) % 3
    recipe = Recipe(n_components=X.shape[1])
    pairs = pairs_in_groups(X, codes, group, recipe)
    prior = HierarchicalLCAPrior(prior_for(pairs, recipe, 10.0))
    options: Any = {"learning_rate": rate_for(pairs, recipe), "n_groups": 3}
    return fitted(fit_problem, "data", pairs, prior, **options)


invariants = {**OF_PAIRS, "names of the groups": renamed}
"""Changes of a problem that must not change the common metric."""


def _shown(pairs: Pairs, values: dict[str, Any]) -> xr.Dataset:
    """Return distances of pairs in their groups, log b and the spread."""
    anchor, X = np.asarray(pairs.anchor), np.asarray(pairs.X)
    rows = np.concatenate([np.flatnonzero(anchor == g)[:2] for g in range(3)])
    delta = X[pairs.i[rows]] - X[pairs.j[rows]]
    M = values["M_group"][:, :, anchor[rows]]
    squared = np.einsum("pk,cspkl,pl->csp", delta, M, delta)
    shown = {"distance": np.sqrt(squared), "log b": np.log(values["b"])}
    return as_dataset({**shown, "spread": values["spread"]})


def _world() -> tuple[Pairs, HierarchicalLCAPrior]:
    pairs = random_pairs(np.random.default_rng(6), 80, 160, 2)
    pairs = pairs._replace(y=np.zeros(160, int), anchor=np.arange(160) % 4)
    common = LCAPrior(0.8 * np.eye(2), c=0.8, lam=5.0)
    return pairs, HierarchicalLCAPrior(common, 0.5)


CHECKS = effect_claims(
    hierarchical_lca,
    GROUPS,
    _shown,
    _world,
    n_draws=3000,
    slow=False,
    options={"n_groups": 4},
    n_simulations=800,
)
