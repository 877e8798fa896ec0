"""Calibrate P(same) of a fit to labels on held-out pairs.

The map is learned for neighbors. P(same) of its model, exp(-(b + D/2)), is not
calibrated: prior and learning rate are chosen for neighbors, and nearest pairs are
separated more sharply than any exponential. The map is therefore fixed, and the link is
cross-fitted. The recipe is run on four of five stratified folds with the chosen prior,
and the points of the fifth give *held-out* pairs: chosen as in the fit, each with
points of the four (``pairs="nearest"``, "impostors"), or all pairs within the fold
("all"). Links of these (D, y):

    log-logistic   logistic regression of y on log D, γ ≥ 0 (``inference.lca.link``)
    isotonic       the decreasing function of smallest squared error

Both use Platt's targets: separable pairs give a finite slope, and no probability is 0
or 1. Folds are fixed: a link is a function of the fit. Classes of two members are never
held out, because the four folds need two. The first folds that have
``MOST_POINTS_HELD_OUT`` points are enough for two parameters.
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
    fit_labeled,
    prior_for,
    within_reach,
)
from probmetric.metric.link import AnyLink, IsotonicLink
from probmetric.models.lca import to_metric
from probmetric.neighbors.strength import deal

N_FOLDS = 5
SMALLEST = 3
"""Smallest class with held-out points: the fit needs two of the others."""

MOST_POINTS_HELD_OUT = 1000
"""Number of held-out points after which no other fold is fitted."""


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
    """Return held-out pairs of standardized, labeled points.

    ``design`` is the design of the recipe, or "all" for pairs that are chosen
    independently of distance. If λ is infinite, nothing is learned.
    """
    order = canonical_order(Z, codes)  # Breaks ties of neighbors.
    Z, codes = Z[order], codes[order]
    fold, pairs, left = folds(Z, codes), list[HeldOut](), MOST_POINTS_HELD_OUT
    for k in range(N_FOLDS):
        out = np.flatnonzero(fold == k)[:left]
        if not len(out):
            continue
        rest = np.flatnonzero(fold != k)
        factor = _learned(Z[rest], codes[rest], recipe, lam)
        pairs.append(_pairs(Z, codes, out, rest, recipe, factor, design))
        left -= len(out)
    if not pairs:
        return HeldOut(np.empty(0), np.empty(0, int))
    return HeldOut(*(np.concatenate(values) for values in zip(*pairs, strict=True)))


def _learned(
    Z: np.ndarray, codes: np.ndarray, recipe: Recipe, lam: float
) -> Float[np.ndarray, "p d"]:
    """Return the factor that the recipe learns, in units of the link."""
    recipe = within_reach(recipe, codes)
    if np.isinf(lam):
        pairs = build(Z, codes, recipe)
        fitted = unlearned(pairs, prior_for(pairs, recipe, lam, codes), recipe)
    else:
        fitted = fit_labeled(Z, codes, recipe, lam)
    return np.asarray(to_metric(fitted.fit.params).factor)


def _pairs(
    Z: np.ndarray,
    codes: np.ndarray,
    out: np.ndarray,
    rest: np.ndarray,
    recipe: Recipe,
    factor: np.ndarray,
    design: str,
) -> HeldOut:
    V = Z @ factor.T
    if design == "all":
        i, j = np.triu_indices(len(out), 1)
        D = cdist(V[out], V[out], "sqeuclidean")[i, j]
        return HeldOut(D, (codes[out[i]] == codes[out[j]]).astype(int))
    # As in the fit: neighbors under the map after a refresh.
    by = V if design == "nearest" and recipe.n_refresh else Z
    squared, y = [], []
    for code in np.unique(codes[out]):
        q = out[codes[out] == code]
        same, other = (rest[(codes[rest] == code) == s] for s in (True, False))
        near, target = _nearest(by, V, q, same, recipe.n_targets)
        if design == "nearest":
            _, wrong = _nearest(by, V, q, other, recipe.n_impostors)
        else:
            most = recipe.max_impostors or len(other)
            impostors, wrong = _nearest(by, V, q, other, most)
            wrong = np.where(nearer(impostors, near[:, -1:]), wrong, np.nan)
            target = target[np.isfinite(wrong).any(1)]
            wrong = wrong[np.isfinite(wrong)]
        for value, D in ((1, target), (0, wrong)):
            squared.append(D.ravel())
            y.append(np.full(D.size, value))
    return HeldOut(np.concatenate(squared), np.concatenate(y))


def _nearest(
    by: np.ndarray, V: np.ndarray, q: np.ndarray, of: np.ndarray, k: int | None
) -> tuple[np.ndarray, np.ndarray]:
    k = min(3 if k is None else k, len(of))
    D = cdist(by[q], by[of], "sqeuclidean")
    chosen = smallest(D, k)
    under_V = cdist(V[q], V[of], "sqeuclidean")
    return np.take_along_axis(D, chosen, 1), np.take_along_axis(under_V, chosen, 1)


def isotonic(
    squared: Float[np.ndarray, "N"], y: Int[np.ndarray, "N"], design: str
) -> IsotonicLink:
    """Fit a decreasing P(same) to pairs of both labels."""
    fit = IsotonicRegression(increasing=False).fit(squared, platt_targets(y))
    knots = np.asarray(fit.X_thresholds_), np.asarray(fit.y_thresholds_)
    return IsotonicLink(*knots, odds_of(y), design)


FITS = {"calibrated": log_logistic, "isotonic": isotonic}


class Asked(NamedTuple):
    """A link to calibrate lazily: its kind, its pairs and the recipe of the fit."""

    kind: str
    pairs: str
    recipe: Recipe


def link_for(
    estimator: Any, recipe: Recipe, *, labeled: bool, weighted: bool = False
) -> Asked | None:
    """Return the link to calibrate, or None to use the model's.

    Weighted points have no held-out pairs, because folds ignore the weights.
    """
    kind, pairs = estimator.link, estimator.link_pairs
    if kind in FITS and (weighted or not labeled):
        why = (
            "with sample_weight, because held-out pairs count points alike"
            if weighted
            else "for given pairs, which are not split into held-out ones"
        )
        raise ValueError(f"link must be 'auto' or 'model' {why}, got {kind!r}")
    model = kind == "model" or not labeled or weighted or recipe.per_anchor
    if model and pairs != "fitted":
        raise ValueError(
            "link_pairs must be 'fitted' for the model's link, which only has the "
            f"pairs of the fit, got {pairs!r}"
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
        f"LCA: {len(pairs.y)} held-out pairs have one label or none (the largest class "
        f"has {np.bincount(codes).max()} members; a point is held out of {SMALLEST} or "
        "more). P(same) is the model's, not calibrated. Add rows, or set link='model'",
        stacklevel=3,
    )
    return None
