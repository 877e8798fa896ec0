"""Fit hierarchical LCA to users' data: pairs inside groups, prior, learning rate.

Pairs, prior of the common map and learning rate are those of ``lca.recipe``, without
its refresh. Pairs are made inside each group; W₀ = cI and c are set from the pairs of
all groups together, so that the spread ω is relative to one Euclidean metric.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Pairs
from probmetric.inference.hierarchical_lca.fit import fit
from probmetric.inference.lca.recipe import Recipe, build, prior_for, rate_for
from probmetric.inference.solvers.result import Fit
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior


class Fitted(NamedTuple):
    """A fit and the problem that it solved, in standardised units.

    ``known``: whether ω was given, or is 0 as there is one group.
    """

    fit: Fit
    pairs: Pairs
    prior: HierarchicalLCAPrior
    learning_rate: float
    n_groups: int
    known: bool = False


def pairs_in_groups(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    groups: Int[np.ndarray, "n"],
    recipe: Recipe,
    labels: Sequence[Any] | None = None,
) -> Pairs:
    """Return the pairs of a recipe inside each group, ``anchor`` their group.

    ``labels`` are what errors call the groups, by default their codes.

    Raises
    ------
    ValueError
        For a group of one class, or in which a class has one member.
    """
    parts: list[Pairs] = []
    for group in range(int(groups.max()) + 1):
        rows = np.flatnonzero(groups == group)
        own = np.unique(codes[rows], return_inverse=True)[1]
        sizes = np.bincount(own)
        if len(sizes) < 2 or sizes.min() < 2:
            label = group if labels is None else labels[group]
            raise ValueError(
                "groups: expected at least 2 classes of at least 2 members in each "
                f"group, got class sizes {sizes.tolist()} in group {label!r}"
            )
        made = build(X[rows], own, recipe)
        i, j = rows[np.asarray(made.i)], rows[np.asarray(made.j)]
        parts.append(Pairs(X, i, j, made.y, anchor=np.full(len(i), group)))
    i, j, y, anchor = (
        np.concatenate([np.asarray(getattr(part, name)) for part in parts])
        for name in ("i", "j", "y", "anchor")
    )
    return Pairs(X, i, j, y, anchor=anchor)


def fit_recipe(
    pairs: Pairs,
    recipe: Recipe,
    lam: float,
    *,
    spread_scale: float,
    spread: float | None,
    n_groups: int,
) -> Fitted:
    """Fit pairs in groups, in float64; options as the estimator has them.

    One group says nothing of ω, which is 0 there unless it is given.
    """
    if spread is None and n_groups == 1:
        spread = 0.0
    common = prior_for(pairs, recipe, lam)
    prior = HierarchicalLCAPrior(common, np.asarray(spread_scale))
    rate = rate_for(pairs, recipe)
    with jax.enable_x64(True):
        found = fit(
            pairs,
            prior,
            n_groups=n_groups,
            learning_rate=rate,
            spread=spread,
            max_steps=recipe.max_iter,
            tol=1e-5 if recipe.tol is None else recipe.tol,
        )
    return Fitted(found, pairs, prior, rate, n_groups, spread is not None)
