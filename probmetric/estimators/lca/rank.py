"""Choose the number of rows p of the map of ``LCA`` by held-out points.

The loss of a point is minus the log of the soft votes for its class, under a map that
was learned without it (``neighbors.strength``, Eq. 1 there with one standard error
instead of a half): the smallest p whose mean loss is at most one standard error of the
paired differences above the minimum. Maps without a point come

* from folds ("cv"): the whole recipe is run on all folds but one, of points that are
  standardized together;
* from refits ("loo"): the map of all points is refitted without each point (for more
  than 100, without each of 50 groups), on the remaining pairs of the fit. The effect of
  the point on other pairs, on the prior and on λ by evidence is neglected.

Under the default prior mean p < d rows are shrunk to principal axes and p = d to c I:
the losses compare these priors too. The standard error is over points. It does not
include the sampling of training data.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.estimators.lca.settings import refuse_rank
from probmetric.estimators.lca.tuning import fit_labels
from probmetric.inference.choose import choose_strength
from probmetric.inference.lca.jackknife import leave_out
from probmetric.inference.lca.recipe import (
    Recipe,
    choose_power,
    is_auto,
    within_reach,
)
from probmetric.neighbors.strength import (
    Chosen,
    map_losses,
    some_voters,
    strongest,
)
from probmetric.neighbors.votes import BANDWIDTHS
from probmetric.posterior.jackknife import groups_of
from probmetric.progress import progress_bar

RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of rows to try, if below d; d is always tried."""

SMALLEST = 3
"""Smallest class with held-out points: the fit needs two of the others."""

TOLERANCE = 1.0
"""Standard errors by which fewer rows may be worse."""


class RankChoice(NamedTuple):
    """A number of rows, its mean held-out loss in nats per point, and a standard error.

    ``standard_error`` refers to the loss minus the smallest loss, and is 0 for the
    best. If no linear map can be evaluated, the loss is infinite and the error is NaN.
    """

    n_components: int
    loss: float
    standard_error: float


def choose_rank(
    estimator: Any,
    recipe: Recipe,
    lam: float | str,
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    w: Float[np.ndarray, "n"] | None,
) -> tuple[Recipe, list[RankChoice]]:
    """Return the recipe with the chosen number of rows; the choices, fewest first.

    A given number does not change the recipe. For λ "cv" the rule of "auto" is used.
    """
    method, sizes = estimator.n_components, np.bincount(codes)
    smallest = int(sizes[sizes > 1].min())
    if not isinstance(method, str):
        return recipe, []
    if w is not None:
        refuse_rank(estimator, "sample_weight")
    if method == "cv" and smallest < SMALLEST:
        raise ValueError(
            f"n_components='cv' requires {SMALLEST} rows in each class, got a class "
            f"with {smallest}. Use 'loo'"
        )
    d = X.shape[1]
    ranks = (*(p for p in RANKS if p < d), d)
    lam = "auto" if lam == "cv" else lam
    recipes = [recipe._replace(n_components=p) for p in ranks]
    choose = _by_folds if method == "cv" else _by_refits
    chosen = choose(X, codes, recipes, lam)
    table = map(RankChoice, ranks, chosen.losses.tolist(), chosen.errors.tolist())
    return recipe._replace(n_components=int(chosen.strength)), list(table)


def _by_folds(
    X: np.ndarray, codes: np.ndarray, recipes: list[Recipe], lam: float | str
) -> Chosen:
    ranks = [recipe.n_components for recipe in recipes]

    def learn(rows: np.ndarray) -> list[np.ndarray]:
        A, a = X[rows], codes[rows]
        common = within_reach(recipes[0], a)
        if is_auto(common.prior_mean):  # The choice does not depend on the rank.
            common = common._replace(prior_mean=choose_power(A, a))
        fits = (fit_labels(A, a, common._replace(n_components=p), lam) for p in ranks)
        return [fitted.fit.params.W for fitted, _ in fits]

    return choose_strength(
        learn, X, codes, ranks, tolerance=TOLERANCE, name="n_components"
    )


def _by_refits(
    X: np.ndarray, codes: np.ndarray, recipes: list[Recipe], lam: float | str
) -> Chosen:
    if is_auto(mean := recipes[0].prior_mean):
        mean = choose_power(X, codes)
    recipes = [recipe._replace(prior_mean=mean) for recipe in recipes]
    group, voters = groups_of(codes, X=X), some_voters(X, codes)
    losses = np.full((len(recipes), len(BANDWIDTHS), len(X)), np.inf)
    bar = progress_bar(recipes, "choose n_components", None, "map")
    for loss, recipe in zip(losses, bar, strict=True):
        fitted = fit_labels(X, codes, recipe, lam)[0]
        try:
            maps = np.asarray(leave_out(fitted, group).W)
        except RuntimeError as error:
            warnings.warn(
                f"LCA: n_components={recipe.n_components} was not considered, because "
                f"leave-one-out fits did not converge ({error}). Increase max_iter",
                stacklevel=4,
            )
            continue
        for g, W in enumerate(maps):
            out, rest = np.flatnonzero(group == g), voters[group[voters] != g]
            loss[:, out] = map_losses(W, X[rest], codes[rest], X[out], codes[out])
    ranks = [recipe.n_components for recipe in recipes]
    return strongest(losses, ranks, TOLERANCE)
