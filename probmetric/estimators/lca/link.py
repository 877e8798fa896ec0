"""Calibrate P(same) of a label-built fit on pairs that the fit has not seen.

The learned map is good for neighbours; its own exp(-(b + D/2)) states .7 where 1.0 is
observed, as prior and learning rate are chosen for neighbours and a design of nearest
pairs is steeper than any exponential. So the map stays and the link is fitted again,
cross-fitted: the recipe runs on four of five stratified folds, its prior as chosen, and
the points of the fifth give pairs *held out*: chosen as the fit chooses its own, each
with points of the four (``pairs="nearest"``, "impostors"), or all pairs among
themselves ("all"). Links of these (D, y):

    log-logistic   logistic regression of y on log D, γ ≥ 0 (``inference.lca.link``)
    isotonic       the decreasing function of least squared error

Both have Platt's targets, so that separable pairs give a finite slope and no
probability is 0 or 1. Folds are fixed: a link is a function of the fit. Classes of two
members are never held out, as a class needs two in the four folds. Of more than
``MOST_POINTS_HELD_OUT`` points the first folds that hold so many are used: two numbers
need no more.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist
from sklearn.isotonic import IsotonicRegression

from probmetric.data.hash import canonical_order
from probmetric.data.pairs import nearer, smallest
from probmetric.estimators.lca.tuning import unlearned
from probmetric.inference.lca.link import log_logistic, odds_of, platt_targets
from probmetric.inference.lca.recipe import (
    Fitted,
    Recipe,
    as_fitted,
    build,
    fit_labelled,
    prior_for,
    within_reach,
)
from probmetric.metric.link import AnyLink, IsotonicLink
from probmetric.models.lca import to_metric
from probmetric.neighbors.strength import deal

N_FOLDS = 5
SMALLEST = 3
"""Members of a class of which one may be held out: the fit needs two."""

MOST_POINTS_HELD_OUT = 1000
"""Points held out, after which no further fold is fitted."""


class HeldOut(NamedTuple):
    """Squared distances of held-out pairs, in units of the link, and their labels."""

    squared: Float[np.ndarray, "N"]
    y: Int[np.ndarray, "N"]


def folds(
    Z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "n"]:
    """Return each point's fold, 0..4, balanced by class; -1 is never held out."""
    fold, large = np.full(len(codes), -1), np.bincount(codes)[codes] >= SMALLEST
    if large.any():
        fold[large] = deal(Z[large], codes[large], N_FOLDS, 0)
    return fold


def held_out_pairs(
    Z: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    recipe: Recipe,
    lam: float,
    design: str,
) -> HeldOut:
    """Return pairs of points held out of standardised, labelled ones, by ``design``.

    Parameters
    ----------
    recipe, lam
        Of the fit, λ as it was chosen; inf is no learning.
    design : {"nearest", "impostors", "all"}
        Those of the recipe, or "all": pairs that are chosen given y alone.
    """
    order = canonical_order(Z, codes)  # By which neighbors break ties.
    Z, codes = Z[order], codes[order]
    fold, found, left = folds(Z, codes), [], MOST_POINTS_HELD_OUT
    for k in range(N_FOLDS):
        held = np.flatnonzero(fold == k)[:left]
        if not len(held):
            continue
        rest = np.flatnonzero(fold != k)
        factor = _learned(Z[rest], codes[rest], recipe, lam)
        found.append(_pairs(Z, codes, held, rest, recipe, factor, design))
        left -= len(held)
    if not found:
        return HeldOut(np.empty(0), np.empty(0, int))
    return HeldOut(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _learned(Z: np.ndarray, codes: np.ndarray, recipe: Recipe, lam: float) -> Any:
    """Return the factor that the recipe learns, in units of the link."""
    recipe = within_reach(recipe, codes)
    if np.isinf(lam):
        pairs = build(Z, codes, recipe)
        fitted = unlearned(pairs, prior_for(pairs, recipe, lam, codes), recipe)
    else:
        fitted = fit_labelled(Z, codes, recipe, lam)
    return np.asarray(to_metric(fitted.fit.params).factor)


def _pairs(
    Z: np.ndarray,
    codes: np.ndarray,
    held: np.ndarray,
    rest: np.ndarray,
    recipe: Recipe,
    factor: np.ndarray,
    design: str,
) -> HeldOut:
    """Return the pairs of one fold."""
    V = Z @ factor.T
    if design == "all":
        i, j = np.triu_indices(len(held), 1)
        D = cdist(V[held], V[held], "sqeuclidean")[i, j]
        return HeldOut(D, (codes[held[i]] == codes[held[j]]).astype(int))
    # Neighbours are found as by the fit: under the map after a refresh.
    by = V if design == "nearest" and recipe.n_refresh else Z
    squared, y = [], []
    for code in np.unique(codes[held]):
        q = held[codes[held] == code]
        same, other = (rest[(codes[rest] == code) == s] for s in (True, False))
        near, target = _nearest(by, V, q, same, recipe.n_targets)
        if design == "nearest":
            _, wrong = _nearest(by, V, q, other, recipe.n_impostors)
        else:
            found, wrong = _nearest(by, V, q, other, recipe.max_impostors or len(other))
            wrong = np.where(nearer(found, near[:, -1:]), wrong, np.nan)
            target = target[np.isfinite(wrong).any(1)]
            wrong = wrong[np.isfinite(wrong)]
        for value, D in ((1, target), (0, wrong)):
            squared.append(D.ravel())
            y.append(np.full(D.size, value))
    return HeldOut(np.concatenate(squared), np.concatenate(y))


def _nearest(
    by: np.ndarray, V: np.ndarray, q: np.ndarray, of: np.ndarray, k: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances of queries to their k nearest: under ``by``, and under V."""
    k = min(3 if k is None else k, len(of))
    D = cdist(by[q], by[of], "sqeuclidean")
    chosen = smallest(D, k)
    found = cdist(V[q], V[of], "sqeuclidean")
    return np.take_along_axis(D, chosen, 1), np.take_along_axis(found, chosen, 1)


def isotonic(
    squared: Float[np.ndarray, "N"], y: Int[np.ndarray, "N"], design: str
) -> IsotonicLink:
    """Fit a decreasing P(same) to pairs of both labels."""
    fit = IsotonicRegression(increasing=False).fit(squared, platt_targets(y))
    knots = np.asarray(fit.X_thresholds_), np.asarray(fit.y_thresholds_)
    return IsotonicLink(*knots, odds_of(y), design)


FITS = {"calibrated": log_logistic, "isotonic": isotonic}


class Asked(NamedTuple):
    """What a label-built fit was asked for: the kind of link, its pairs, the recipe."""

    kind: str
    pairs: str
    recipe: Recipe


def asked(
    estimator: Any, recipe: Recipe, *, labelled: bool, weighted: bool = False
) -> Asked | None:
    """Return the link to calibrate, or None where the model's own stays.

    Points with weights count as pairs given: held-out pairs would count all alike.

    Raises
    ------
    ValueError
        For a link that has no held-out pairs to be calibrated on.
    """
    kind, pairs = estimator.link, estimator.link_pairs
    if weighted and kind in FITS:
        raise ValueError(
            "link: expected 'auto' or 'model' with sample_weight, as held-out pairs "
            f"count points alike, got {kind!r}"
        )
    labelled = labelled and not weighted
    if not labelled and kind in FITS:
        raise ValueError(
            "link: expected 'auto' or 'model' for pairs given, which are not split "
            f"into held-out ones, got {kind!r}"
        )
    model = kind == "model" or not labelled or recipe.per_anchor
    if model and pairs != "fitted":
        raise ValueError(
            "link_pairs: expected 'fitted' for the model's link, which has no pairs "
            f"but those of the fit, got {pairs!r}"
        )
    if model:
        return None
    kind = "calibrated" if kind == "auto" else kind
    return Asked(kind, recipe.pairs if pairs == "fitted" else pairs, recipe)


def calibrate(asked: Asked, fitted: Fitted, codes: np.ndarray) -> AnyLink | None:
    """Return the link of a fit on held-out pairs; warn and return None without them."""
    recipe = as_fitted(asked.recipe, fitted)
    Z, lam = np.asarray(fitted.pairs.X), float(fitted.prior.lam)
    pairs = held_out_pairs(Z, codes, recipe, lam, asked.pairs)
    if 0 < pairs.y.sum() < len(pairs.y):
        return FITS[asked.kind](*pairs, asked.pairs)
    warnings.warn(
        "LCA: P(same) stays the model's, not calibrated: expected held-out pairs of "
        f"both labels, got {len(pairs.y)} of one or none (the largest class has "
        f"{np.bincount(codes).max()} members; a point is held out of {SMALLEST} or "
        "more)",
        stacklevel=3,
    )
    return None
