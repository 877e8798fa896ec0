"""How many rows p the map of ``LCA`` should have: what points left out say of each p.

A point's loss is minus the log of the soft votes for its own class, under a map that
was learned without it (``neighbors.strength``, whose Eq. 1 chooses, with one standard
error in the place of the half): the smallest p whose mean loss is at most a standard
error of the paired differences above the least. Maps learned without a point come

* from folds ("cv"): the whole recipe is run on all folds but one, of points that were
  standardised together;
* from refits ("loo"): the map of all points is refitted without each point (of more
  than 100, without each of 50 groups), on the pairs of the fit that are left. That the
  point took part in the choice of the other pairs, in the prior and in λ by evidence is
  neglected.

Under the default prior mean p < d rows are shrunk to principal axes and p = d to c I:
the losses compare these priors too. Points are the units of the standard error. It
says nothing of how far other training data would have led.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.estimators.lca.link import SMALLEST
from probmetric.estimators.lca.settings import refuse_rank
from probmetric.estimators.lca.tuning import fit_labels
from probmetric.inference.choose import choose_strength
from probmetric.inference.lca.jackknife import leave_out
from probmetric.inference.lca.recipe import Recipe, within_reach
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
"""Numbers of rows that are tried, where below d; d always is."""

TOLERANCE = 1.0
"""Standard errors that fewer rows may be worse by."""


class RankChoice(NamedTuple):
    """A number of rows, its mean held-out loss in nats a point, and the gap's error.

    ``standard_error`` is that of the loss minus the least of all losses, 0 for the best
    itself. Without a map that can be judged the loss is infinite, its error NaN.
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
    """Return the recipe with a number of rows, and what that was chosen among.

    Parameters
    ----------
    estimator : LCA
    recipe : Recipe
        That of all d rows where the number is to be chosen.
    lam : float or str
        λ as asked for; the rule's own in the place of "cv", whose folds follow.
    X, codes, w
        Standardised points, their classes 0..c-1, and weights.

    Returns
    -------
    Recipe, list of RankChoice
        From one row up. As given, and an empty list, where the number was given.

    Raises
    ------
    ValueError
        With weights, and for "cv" with a class of two members.
    """
    how, sizes = estimator.n_components, np.bincount(codes)
    smallest = int(sizes[sizes > 1].min())
    if not isinstance(how, str):
        return recipe, []
    if w is not None:
        refuse_rank(estimator, "sample_weight")
    if how == "cv" and smallest < SMALLEST:
        raise ValueError(
            f"n_components: expected {SMALLEST} members or more in each class for "
            f"'cv', got a class of {smallest}; 'loo' takes it"
        )
    d = X.shape[1]
    ranks = (*(p for p in RANKS if p < d), d)
    lam = "auto" if lam == "cv" else lam
    recipes = [recipe._replace(n_components=p) for p in ranks]
    if how == "cv":
        found = _by_folds(X, codes, recipes, lam)
    else:
        found = _by_refits(X, codes, recipes, lam)
    table = map(RankChoice, ranks, found.losses.tolist(), found.errors.tolist())
    return recipe._replace(n_components=int(found.strength)), list(table)


def _by_folds(
    X: np.ndarray, codes: np.ndarray, recipes: list[Recipe], lam: float | str
) -> Chosen:
    ranks = [recipe.n_components for recipe in recipes]

    def learn(rows: np.ndarray) -> list[np.ndarray]:
        A, a = X[rows], codes[rows]
        fits = (fit_labels(A, a, within_reach(one, a), lam) for one in recipes)
        return [fitted.fit.params.W for fitted, _ in fits]

    return choose_strength(
        learn, X, codes, ranks, tolerance=TOLERANCE, name="n_components"
    )


def _by_refits(
    X: np.ndarray, codes: np.ndarray, recipes: list[Recipe], lam: float | str
) -> Chosen:
    group, voters = groups_of(codes, X=X), some_voters(X, codes)
    losses = np.full((len(recipes), len(BANDWIDTHS), len(X)), np.inf)
    bar = progress_bar(recipes, "choose n_components", None, "map")
    for lost, recipe in zip(losses, bar, strict=True):
        fitted = fit_labels(X, codes, recipe, lam)[0]
        try:
            maps = np.asarray(leave_out(fitted, group).W)
        except RuntimeError as error:
            warnings.warn(
                f"LCA: n_components={recipe.n_components} was not among the choices, "
                f"as refits without a point did not converge ({error})",
                stacklevel=4,
            )
            continue
        for g, W in enumerate(maps):
            out, kept = np.flatnonzero(group == g), voters[group[voters] != g]
            lost[:, out] = map_losses(W, X[kept], codes[kept], X[out], codes[out])
    ranks = [recipe.n_components for recipe in recipes]
    return strongest(losses, ranks, TOLERANCE)
