"""The settings of ``LCA``, checked, and users' pairs, standardised.

What is done with them is ``probmetric.inference.lca.recipe``.
"""

from typing import Any

import numpy as np

from probmetric.arguments import check_choice, check_number
from probmetric.data.containers import Pairs
from probmetric.data.inputs import points
from probmetric.data.scaling import Scaler, fit_scaler
from probmetric.inference.lca.recipe import Recipe

__all__ = ["recipe_of", "standardized"]

FINITE = float(np.finfo(float).max)


def recipe_of(estimator: Any, d: int) -> tuple[Recipe, float | str]:
    """Check an estimator's settings against d features; return them, and λ.

    Raises
    ------
    ValueError
        Naming the setting.
    """
    e = estimator
    check_choice("pairs", e.pairs, ("nearest", "impostors", "all"))
    check_choice("solver", e.solver, ("lbfgs", "squarem", "em", "full_em"))
    p = d
    if e.n_components is not None:
        p = int(check_number("n_components", e.n_components, 1, d, whole=True))
    lam = e.regularization
    if isinstance(lam, str):
        check_choice("regularization", lam, ("auto", "cv", "evidence"))
    else:
        check_number("regularization", lam, 0, FINITE, open_low=True)
    rate = e.learning_rate
    if isinstance(rate, str):
        check_choice("learning_rate", rate, ("auto",))
    else:
        check_number("learning_rate", rate, 0, FINITE, open_low=True)
    counts: dict[str, Any] = {
        name: None if given is None else int(check_number(name, given, 1, whole=True))
        for name in ("n_targets", "n_impostors", "max_impostors")
        for given in (getattr(e, name),)
    }
    if e.tol is not None:
        check_number("tol", e.tol, 0, open_low=True)
    if e.per_anchor and (lam in ("cv", "evidence") or e.pairs == "all"):
        raise ValueError(
            "per_anchor: expected False with pairs='all' and with regularization='cv' "
            "or 'evidence', got True"
        )
    return Recipe(
        pairs=e.pairs,
        **counts,
        n_components=p,
        prior_mean=_prior_mean(e.prior_mean, p, d),
        learning_rate=None if isinstance(rate, str) else float(rate),
        n_refresh=check_number("n_refresh", e.n_refresh, 0, whole=True),
        per_anchor=bool(e.per_anchor),
        solver=e.solver,
        max_iter=check_number("max_iter", e.max_iter, 1, whole=True),
        tol=e.tol,
    ), lam if isinstance(lam, str) else float(lam)


def _prior_mean(given: Any, p: int, d: int) -> Any:
    if isinstance(given, str):
        check_choice("prior_mean", given, ("auto", "identity", "pca"))
        return given
    mean = points(given, "prior_mean")
    if mean.shape != (p, d) or np.linalg.matrix_rank(mean) < p:
        raise ValueError(
            f"prior_mean: expected shape ({p}, {d}) and full rank (EM never raises the "
            f"rank of W), got {mean.shape}, rank {np.linalg.matrix_rank(mean)}"
        )
    return mean


def standardized(given: Pairs, *, standardize: bool) -> tuple[Pairs, Scaler]:
    """Standardise users' pairs, and leave out points that no pair refers to.

    Points count as often as pairs use them: both forms of pairs give the same fit.
    """
    ends = np.concatenate([given.X[given.i], given.X[given.j]])
    scaler = fit_scaler(np.asarray(ends), standardize=standardize)
    used, place = np.unique(np.append(given.i, given.j), return_inverse=True)
    i, j = np.split(place, 2)
    Z = (np.asarray(given.X)[used] - scaler.mean) / scaler.scale
    return given._replace(X=Z, i=i, j=j), scaler
