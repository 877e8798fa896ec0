"""Model choice: leave-one-out where units are independent, held-out votes elsewhere.

``loo`` is ArviZ's PSIS-LOO after a check: it estimates Σ_i log p(y_i | y_-i) from
draws of one posterior, which means something only if the draws are of *the* posterior
(not tempered, not an approximation, no bootstrap) and if leaving out one unit leaves
the others what they were. Pairs that share points fail the second: the left-out pair
is mostly known from the others. Whatever fails raises an error with the reason.

``held_out`` is for every learner of a metric from labels: the log probability that
soft votes, averaged over draws where there are draws, give to points that neither the
metric nor the votes have seen.
"""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from probmetric.data.inputs import class_codes
from probmetric.inference.sampling.units import LIKELIHOOD, PSEUDO, no_unit
from probmetric.neighbors import KNeighborsClassifier

__all__ = ["held_out", "loo"]


def loo(draws: xr.DataTree, *, var_name: str | None = None) -> Any:
    """Return the expected log predictive density of a unit left out (PSIS-LOO).

    Parameters
    ----------
    draws : DataTree
        Of ``sample(..., method="nuts", log_likelihood=True)``, the package's or an
        estimator's.
    var_name : str, optional
        Which observed site, where there are several.

    Returns
    -------
    arviz.ELPDData
        With pointwise values and ``pareto_k``: above .7 the estimate of that unit
        cannot be trusted, and ArviZ warns. Models of the same data are compared by
        ``az.compare({"p = 1": loo(a), "p = 2": loo(b)})``.

    Raises
    ------
    ValueError
        Where leave-one-out is not valid: no log likelihood stored; draws of an
        approximation or of the bootstrap; a learning rate or data weights other than
        one; pairs that share points, as all pairs built from labels do.

    References
    ----------
    Vehtari, Gelman, Gabry, "Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC", Statistics and Computing 27, 2017.
    """
    import arviz as az

    _refuse_invalid(draws)
    return az.loo(draws, pointwise=True, var_name=var_name)


def _refuse_invalid(draws: xr.DataTree) -> None:
    if not {LIKELIHOOD, PSEUDO} & set(draws.children):
        raise ValueError(
            "draws: expected a group log_likelihood (sample with log_likelihood=True), "
            f"got {sorted(draws.children)}"
        )
    reason = no_unit(draws)
    if reason is not None:
        raise ValueError(reason)
    method = draws.attrs.get("method", "nuts")
    if method != "nuts":
        raise ValueError(
            "draws: expected draws of the posterior itself (method='nuts'), got "
            f"{method!r}, whose draws PSIS would reweight from the wrong density"
        )


def held_out(
    candidates: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    n_neighbors: int = 5,
    n_folds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare learners by the log score of soft votes on points left out.

    In each of ``n_folds`` stratified folds a candidate is fitted on the rest, and its
    ``posterior_metric("prediction")``, or ``get_metric()`` where it has none, drives
    a ``KNeighborsClassifier`` of the same points: votes are averaged over draws.

    Parameters
    ----------
    candidates : mapping of str to estimator
        Unfitted, of labelled points, with ``get_metric``; they are cloned.
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
    n_neighbors : int, default=5
    n_folds : int, default=5
        At most the size of the smallest class.
    seed : int, default=0
        Of the folds, which all candidates share.

    Returns
    -------
    DataFrame
        Indexed by candidate, best first: ``elpd``, the sum of log scores over points;
        ``se`` of it; ``elpd_diff`` to the best, ≥ 0, and ``dse``, its standard error
        over points. Points of one fold share a fit, so that both errors are somewhat
        too small.

    Raises
    ------
    ValueError
        No candidates; one that learns no metric; a class smaller than ``n_folds``.
    """
    if not candidates:
        raise ValueError("candidates: expected at least one, got none")
    lacking = [name for name, one in candidates.items() if not _learns_a_metric(one)]
    if lacking:
        raise ValueError(
            "candidates: expected learners of one metric (get_metric()), got "
            f"{', '.join(lacking)}"
        )
    classes, codes = class_codes(y)
    smallest = int(np.bincount(codes).min())
    if not 2 <= n_folds <= smallest:
        raise ValueError(
            f"n_folds: expected 2 to {smallest}, the size of the smallest class, got "
            f"{n_folds}"
        )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    splits = list(folds.split(X, codes))
    scores = {
        name: _scores(one, X, classes[codes], codes, splits, n_neighbors)
        for name, one in candidates.items()
    }
    return _table(scores)


def _scores(
    candidate: Any, X: Any, y: Any, codes: Any, splits: Any, n_neighbors: int
) -> Float[np.ndarray, "n"]:
    """Return the log probability of each point's class when it is left out."""
    found = np.empty(len(codes))
    for train, test in splits:
        learner: Any = clone(candidate)
        fitted = learner.fit(_rows(X, train), y[train])
        votes = KNeighborsClassifier(_metric(fitted), n_neighbors)
        votes.fit(_rows(X, train), y[train])
        P = votes.predict_proba(_rows(X, test))
        # All classes are in every training part, so that codes are P's columns.
        found[test] = np.log(P[np.arange(len(test)), codes[test]])
    return found


def _rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]


def _learns_a_metric(candidate: Any) -> bool:
    """Say whether ``get_metric()`` needs no argument, such as a class."""
    make = getattr(candidate, "get_metric", None)
    return make is not None and all(
        own.default is not own.empty for own in signature(make).parameters.values()
    )


def _metric(fitted: Any) -> Any:
    """Return draws for prediction where the learner can make them by itself."""
    make = getattr(fitted, "posterior_metric", None)
    if make is None or next(iter(signature(make).parameters)) != "purpose":
        return fitted.get_metric()
    return make("prediction")


def _table(scores: Mapping[str, Float[np.ndarray, "n"]]) -> pd.DataFrame:
    order = sorted(scores, key=lambda name: -scores[name].sum())
    best = scores[order[0]]
    n = len(best)
    rows = [
        {
            "elpd": scores[name].sum(),
            "se": np.sqrt(n) * scores[name].std(ddof=1),
            "elpd_diff": (best - scores[name]).sum(),
            "dse": np.sqrt(n) * (best - scores[name]).std(ddof=1),
        }
        for name in order
    ]
    return pd.DataFrame(rows, index=pd.Index(order, name="candidate"))
