"""Checks of settings of ``LCA`` that depend on each other or on the data.

``probmetric.inference.lca.recipe`` uses the checked settings.
"""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from probmetric.arguments import check_choice, check_number
from probmetric.data.inputs import points
from probmetric.estimators._settings import Matrix, Share
from probmetric.inference.lca.recipe import WITHIN, Recipe

type PriorMean = (
    Matrix | Share | Literal["auto", "identity", "pca", "half_within", "within"]
)


def n_rows(n_components: object, d: int) -> int:
    """Return the number of rows of a linear map of d features. Default: d."""
    if n_components is None:
        return d
    return check_number("n_components", n_components, 1, d, whole=True)


def base_recipe(estimator: Any, p: int) -> Recipe:
    """Return the settings of pairs for a linear map with p rows."""
    n_targets, n_impostors = estimator.n_targets, estimator.n_impostors
    rate = estimator.learning_rate
    return Recipe(
        n_components=p,
        pairs=estimator.pairs,
        n_targets=None if n_targets is None else int(n_targets),
        n_impostors=None if n_impostors is None else int(n_impostors),
        learning_rate=None if isinstance(rate, str) else float(rate),
    )


def recipe_of(estimator: Any, d: int) -> tuple[Recipe, float | str]:
    """Return the settings of an estimator for d features, and λ."""
    e = estimator
    refuse_rank(e)
    lam = e.regularization
    p = d if isinstance(e.n_components, str) else n_rows(e.n_components, d)
    return base_recipe(e, p)._replace(
        max_impostors=None if e.max_impostors is None else int(e.max_impostors),
        prior_mean=_prior_mean(e.prior_mean, p, d),
        n_refresh=e.n_refresh,
        solver=e.solver,
        max_iter=e.max_iter,
        tol=e.tol,
    ), lam if isinstance(lam, str) else float(lam)


def refuse_rank(estimator: Any, data: str = "") -> None:
    """Raise if settings or ``data`` do not support ``n_components="cv"``."""
    e = estimator
    if not isinstance(e.n_components, str):
        return
    for wrong, what in (
        (data, data),
        (e.n_anchors is not None, "n_anchors is set"),
        (np.ndim(e.prior_mean) > 0, "prior_mean is a matrix"),
    ):
        if wrong:
            raise ValueError(
                f"n_components must be an integer or None if {what}, got "
                f"{e.n_components!r}"
            )


def refuse_groups(groups: object, what: str) -> None:
    """Raise if groups are set in a case ``what`` that does not support groups."""
    if groups is not None:
        raise ValueError(f"groups must be None if {what}, got groups. Omit groups.")


def check_groups(
    estimator: Any, codes: Int[np.ndarray, "n"], groups: Int[np.ndarray, "n"]
) -> None:
    """Raise if the settings do not support groups, or no class has two groups."""
    e = estimator
    for wrong, what in (
        (e.pairs == "impostors", "pairs='impostors'"),
        (e.n_anchors is not None, "n_anchors is set"),
        (isinstance(e.n_components, str), f"n_components={e.n_components!r}"),
    ):
        refuse_groups(groups if wrong else None, what)
    if np.bincount(np.unique(np.stack([codes, groups]), axis=1)[0]).max() < 2:
        raise ValueError(
            "groups: at least one class must have rows in two groups, got one group "
            "in each class. Omit groups."
        )


def _prior_mean(
    mean: Matrix | float | str, p: int, d: int
) -> Float[np.ndarray, "p d"] | float | str:
    if isinstance(mean, str):
        check_choice("prior_mean", mean, ("auto", "identity", "pca", *WITHIN))
        return mean
    if np.ndim(mean) == 0:
        return float(check_number("prior_mean", mean, 0, 1))
    W0 = points(mean, "prior_mean")
    if W0.shape != (p, d) or np.linalg.matrix_rank(W0) < p:
        raise ValueError(
            f"prior_mean must have shape ({p}, {d}) and full rank, got shape "
            f"{W0.shape} and rank {np.linalg.matrix_rank(W0)}"
        )
    return W0
