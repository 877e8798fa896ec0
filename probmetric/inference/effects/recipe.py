"""Fit LCA with an effect to users' data: pairs inside groups, or distinct points.

The prior of the common map and the learning rate are the same as in ``lca.recipe``. The
pairs are not refreshed after the fit, unlike in ``lca.recipe``.

* Groups: pairs are made inside each group. W₀ = cI and c are computed from the pairs
  of all groups, so the spread ω is relative to one Euclidean metric.
* Points: members of different pairs are the same point if they have equal labels or,
  without labels, equal features.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Shaped

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.inputs import codes_of
from probmetric.inference.effects.fit import Prior, best_mode
from probmetric.inference.lca.recipe import Recipe, build, prior_for, rate_for
from probmetric.inference.solvers.result import Fit
from probmetric.models.hierarchical_lca import HierarchicalLCAPrior
from probmetric.models.point_effects import PointEffectsPrior
from probmetric.typing import ArrayLike

TOL = 1e-9
"""Default gain of an iteration, in nats, at which L-BFGS stops."""


class Fitted(NamedTuple):
    """A fit with its pairs, prior and settings, in standardized units.

    ``known`` is True if ω was not fitted, because ω was passed or there is one group.
    ``n_groups`` is None for point effects. ``gap`` estimates, in nats, how far the log
    density is below its maximum.
    """

    fit: Fit
    pairs: Pairs
    prior: Prior
    learning_rate: float
    known: bool
    n_groups: int | None = None
    gap: float | None = None


def pairs_in_groups(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    groups: Int[np.ndarray, "n"],
    recipe: Recipe,
    labels: Sequence[object] | None = None,
) -> Pairs:
    """Return pairs inside each group (``anchor``); ``labels`` are for messages."""
    blocks: list[Pairs] = []
    for group in range(int(groups.max()) + 1):
        rows = np.flatnonzero(groups == group)
        classes = np.unique(codes[rows], return_inverse=True)[1]
        sizes = np.bincount(classes)
        if len(sizes) < 2 or sizes.min() < 2:
            label = group if labels is None else labels[group]
            raise ValueError(
                "groups: each group must have at least 2 classes with 2 or more "
                f"rows, got class sizes {sizes.tolist()} in group {label!r}. Remove "
                "this group."
            )
        made = build(Labeled(X[rows], classes), recipe)
        i, j = rows[np.asarray(made.i)], rows[np.asarray(made.j)]
        blocks.append(Pairs(X, i, j, made.y, anchor=np.full(len(i), group)))
    i, j, y, anchor = (
        np.concatenate([np.asarray(getattr(block, name)) for block in blocks])
        for name in ("i", "j", "y", "anchor")
    )
    return Pairs(X, i, j, y, anchor=anchor)


def merged(
    pairs: Pairs, labels: ArrayLike | None = None
) -> tuple[Pairs, Shaped[np.ndarray, "n"] | None]:
    """Return pairs with each distinct point once in X, and the point labels.

    Without labels (N, 2), points with equal features are the same point.
    """
    X, i, j = np.asarray(pairs.X), np.asarray(pairs.i), np.asarray(pairs.j)
    if labels is None:
        rows, place = np.unique(X, axis=0, return_inverse=True)
        place = np.ravel(place)
        return pairs._replace(X=rows, i=place[i], j=place[j]), None
    shape = np.shape(labels)
    if shape != (len(i), 2):
        raise ValueError(
            f"points must be labels of shape ({len(i)}, 2), two for each pair, got "
            f"{shape}."
        )
    names, codes = codes_of(np.ravel(np.asarray(labels)), "points")
    ends = np.stack([i, j], 1).ravel()
    rows = X[ends[np.unique(codes, return_index=True)[1]]]
    different = np.flatnonzero(np.any(X[ends] != rows[codes], 1))
    if len(different):
        raise ValueError(
            "points: points with the same label must have the same features, got "
            f"different features for {names.tolist()[codes[different[0]]]!r}."
        )
    i, j = codes.reshape(-1, 2).T
    return pairs._replace(X=rows, i=i, j=j), names


def fit_recipe(
    pairs: Pairs,
    recipe: Recipe,
    lam: float,
    *,
    spread_scale: float,
    spread: float | None,
    n_groups: int | None = None,
) -> Fitted:
    """Fit hierarchical LCA to pairs in groups, or point effects, in float64.

    With one group and no ``spread``, ω is 0, because one group does not determine ω.
    """
    if spread is None and n_groups == 1:
        spread = 0.0
    kind = PointEffectsPrior if n_groups is None else HierarchicalLCAPrior
    prior = kind(prior_for(pairs, recipe, lam), np.asarray(spread_scale))
    rate = rate_for(pairs, recipe)
    with jax.enable_x64(True):
        fit, mode = best_mode(
            pairs,
            prior,
            n_groups=n_groups,
            learning_rate=rate,
            spread=spread,
            max_steps=recipe.max_iter,
            tol=TOL if recipe.tol is None else recipe.tol,
        )
    return Fitted(fit, pairs, prior, rate, spread is not None, n_groups, mode.gap)
