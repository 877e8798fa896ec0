"""Choose the number of rows p of the map of ``LCA`` by held-out points.

The loss of a held-out point is minus the log of the soft votes for its class, under a
map that was learned without this point. The rule chooses the smallest p whose mean loss
is at most one standard error of the paired differences above the minimum. (This is Eq.
1 of ``neighbors.strength``, with one standard error instead of a half.) The standard
error is over points, and does not include the sampling of training data. The default
prior shrinks to principal axes if p < d, and to c I if p = d. The losses therefore
compare these priors too.
"""

from typing import Any, NamedTuple

import numpy as np

from probmetric.data.containers import Labeled, arrays_of
from probmetric.estimators.lca.settings import refuse_rank
from probmetric.estimators.lca.tuning import fit_labels
from probmetric.inference.choose import choose_strength
from probmetric.inference.lca.recipe import (
    Recipe,
    choose_power,
    is_auto,
    within_reach,
)

RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of rows to try, if below d; d is always tried."""

SMALLEST = 3
"""Smallest number of rows of a class: one is held out, and the fit needs two."""

TOLERANCE = 1.0
"""Largest difference from the smallest loss, in standard errors."""


class RankChoice(NamedTuple):
    """A number of rows, its mean held-out loss in nats per point, and a standard error.

    ``standard_error`` is of the difference between the loss and the smallest loss.
    """

    n_components: int
    loss: float
    standard_error: float


def choose_rank(
    estimator: Any,
    recipe: Recipe,
    lam: float | str,
    data: Labeled,
) -> tuple[Recipe, list[RankChoice]]:
    """Return the recipe with the chosen number of rows, and all choices."""
    if not isinstance(estimator.n_components, str):
        return recipe, []
    if data.w is not None:
        refuse_rank(estimator, "sample_weight is set")
    X, codes = arrays_of(data)[:2]
    sizes = np.bincount(codes)
    smallest = int(sizes[sizes > 1].min())
    if smallest < SMALLEST:
        raise ValueError(
            f"n_components='cv' requires at least {SMALLEST} rows in each class, got "
            f"a class with {smallest}. Set n_components to a number."
        )
    d = X.shape[1]
    ranks = (*(p for p in RANKS if p < d), d)
    lam = "auto" if lam == "cv" else lam

    def learn(rows: np.ndarray) -> list[np.ndarray]:
        part = Labeled(X[rows], codes[rows])
        common = within_reach(recipe, part)
        if is_auto(common.prior_mean):  # The choice does not depend on the rank.
            common = common._replace(prior_mean=choose_power(part))
        fits = (fit_labels(part, common._replace(n_components=p), lam) for p in ranks)
        return [fitted.fit.params.W for fitted, _ in fits]

    chosen = choose_strength(
        learn, X, codes, ranks, tolerance=TOLERANCE, name="n_components"
    )
    table = map(RankChoice, ranks, chosen.losses.tolist(), chosen.errors.tolist())
    return recipe._replace(n_components=int(chosen.strength)), list(table)
