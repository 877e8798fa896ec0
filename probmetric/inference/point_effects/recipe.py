"""Fit LCA with point effects to users' data: which points are one, prior, rate.

Prior of the map and learning rate are those of ``lca.recipe``, without its refresh.
Points of pairs are one where their labels are or, without labels, their features.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Shaped

from probmetric.data.containers import Pairs
from probmetric.data.inputs import codes_of
from probmetric.inference.lca.recipe import Recipe, prior_for, rate_for
from probmetric.inference.point_effects.fit import best_mode
from probmetric.inference.solvers.result import Fit
from probmetric.models.point_effects import PointEffectsPrior
from probmetric.typing import ArrayLike


class Fitted(NamedTuple):
    """A fit and the problem that it solved, in standardised units.

    ``known``: whether ω was given. ``gap``: the certificate of the mode, in nats.
    """

    fit: Fit
    pairs: Pairs
    prior: PointEffectsPrior
    learning_rate: float
    known: bool
    gap: float


def merged(
    pairs: Pairs, labels: ArrayLike | None = None
) -> tuple[Pairs, Shaped[np.ndarray, "n"] | None]:
    """Return pairs of points that are each there once, and the labels of these.

    Parameters
    ----------
    pairs : Pairs
    labels : array-like of shape (N, 2), optional
        Of the two points of each pair. Default: points of equal features are one.

    Raises
    ------
    ValueError
        Labels of another shape, or of one point with different features.
    """
    X, i, j = np.asarray(pairs.X), np.asarray(pairs.i), np.asarray(pairs.j)
    if labels is None:
        rows, place = np.unique(X, axis=0, return_inverse=True)
        place = np.ravel(place)
        return pairs._replace(X=rows, i=place[i], j=place[j]), None
    shape = np.shape(labels)
    if shape != (len(i), 2):
        raise ValueError(
            f"points: expected labels of shape ({len(i)}, 2), two a pair, got {shape}"
        )
    known, codes = codes_of(np.ravel(np.asarray(labels)), "points")
    ends = np.stack([i, j], 1).ravel()
    first = np.unique(codes, return_index=True)[1]
    rows = X[ends[first]]
    other = np.flatnonzero(np.any(X[ends] != rows[codes], 1))
    if len(other):
        raise ValueError(
            "points: expected the same features wherever a label stands, got different "
            f"ones for {known.tolist()[codes[other[0]]]!r}"
        )
    i, j = codes.reshape(-1, 2).T
    return pairs._replace(X=rows, i=i, j=j), known


def fit_recipe(
    pairs: Pairs,
    recipe: Recipe,
    lam: float,
    *,
    spread_scale: float,
    spread: float | None,
) -> Fitted:
    """Fit pairs, in float64; options as the estimator has them."""
    common = prior_for(pairs, recipe, lam)
    prior = PointEffectsPrior(common, np.asarray(spread_scale))
    rate = rate_for(pairs, recipe)
    options: Any = {"learning_rate": rate, "spread": spread}
    with jax.enable_x64(True):
        found, mode = best_mode(
            pairs,
            prior,
            max_steps=recipe.max_iter,
            tol=1e-5 if recipe.tol is None else recipe.tol,
            **options,
        )
    return Fitted(found, pairs, prior, rate, spread is not None, mode.gap)
