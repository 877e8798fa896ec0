"""The settings of ``LCA`` that hang on each other or on the data, checked.

What is done with them is ``probmetric.inference.lca.recipe``.
"""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from probmetric.arguments import check_choice, check_number
from probmetric.data.inputs import points
from probmetric.estimators._settings import Matrix
from probmetric.inference.lca.recipe import WITHIN, Recipe
from probmetric.typing import ArrayLike

type PriorMean = Matrix | Literal["auto", "identity", "pca", "half_within", "within"]


def n_rows(n_components: Any, d: int) -> int:
    """Return the number of rows of a map of d features, d by default."""
    if n_components is None:
        return d
    return check_number("n_components", n_components, 1, d, whole=True)


def recipe_of(estimator: Any, d: int) -> tuple[Recipe, float | str]:
    """Return an estimator's settings for d features, and λ.

    A number of rows that is yet to be chosen (``rank``) is d here.

    Raises
    ------
    ValueError
        Naming the setting.
    """
    e = estimator
    refuse_rank(e)
    lam, rate = e.regularization, e.learning_rate
    p = d if e.n_components in ("cv", "loo") else n_rows(e.n_components, d)
    if e.per_anchor and (lam in ("cv", "evidence") or e.pairs == "all"):
        raise ValueError(
            "per_anchor: expected False with pairs='all' and with regularization='cv' "
            "or 'evidence', got True"
        )
    counts: dict[str, Any] = {
        name: None if (given := getattr(e, name)) is None else int(given)
        for name in ("n_targets", "n_impostors", "max_impostors")
    }
    return Recipe(
        pairs=e.pairs,
        **counts,
        n_components=p,
        prior_mean=_prior_mean(e.prior_mean, p, d),
        learning_rate=None if isinstance(rate, str) else float(rate),
        n_refresh=e.n_refresh,
        per_anchor=bool(e.per_anchor),
        solver=e.solver,
        max_iter=e.max_iter,
        tol=e.tol,
    ), lam if isinstance(lam, str) else float(lam)


def refuse_rank(estimator: Any, given: str = "") -> None:
    """Raise for what a number of rows that is yet to be chosen does not go with.

    ``given`` names what came in the place of, or with, labelled points.

    Raises
    ------
    ValueError
        Naming it, or the setting.
    """
    e = estimator
    if e.n_components not in ("cv", "loo"):
        return
    for wrong, what in (
        (given, given),
        (e.n_anchors is not None, "n_anchors"),
        (e.per_anchor, "per_anchor"),
        (not isinstance(e.prior_mean, str), "a matrix as prior_mean"),
    ):
        if wrong:
            raise ValueError(
                f"n_components: expected a whole number or None with {what}, got "
                f"{e.n_components!r}, which learns again from labelled points"
            )


def _prior_mean(given: ArrayLike, p: int, d: int) -> Float[np.ndarray, "p d"] | str:
    if isinstance(given, str):
        check_choice("prior_mean", given, ("auto", "identity", "pca", *WITHIN))
        return given
    mean = points(given, "prior_mean")
    if mean.shape != (p, d) or np.linalg.matrix_rank(mean) < p:
        raise ValueError(
            f"prior_mean: expected shape ({p}, {d}) and full rank (EM never raises the "
            f"rank of W), got {mean.shape}, rank {np.linalg.matrix_rank(mean)}"
        )
    return mean
