"""The prior of ``LCAClassifier`` that predicts held-out classes best.

Class c has a map W_c of its own, and few points to learn it from. Its prior is

    W_c ~ N(k W₀, (k c)²/λ),    W₀ = cI (scaled axes where p < d),                 (1)

with c common to all classes: 1/c² is the median squared distance of a point from the
mean of the *other* members of its class, as a new point has it. (An own c, from the
distances to a mean that the point is part of, is too large for a class of few members,
by √2 and more for two.) k is the scale of the scores: as P_c(x) = e^{-t}, t = b + D/2,
P of a typical member falls with k, and so does that of other classes' points, faster.

For each (k, λ) the loss is the mean of -log(P_c / Σ P) of points left out, c their own
class: first the k of least loss at λ = 30, then the λ of least loss at that k. Not to
learn is among them: at λ = 10⁶ W_c is kW₀, and the class is that of the nearest mean,
but for b_c. c is made of all points, once.

Folds are stratified, five at most and no more than the smallest class of two or more
has members; from 300 points on two, and of more than 1000 points 1000 are used. Fits of
folds end at a gradient of 1e-4. Of equal losses the first of the grids is taken. Where
no class has two members among the points used, none could be predicted and nothing is
chosen: k = 2 and λ = 30.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax

from probmetric.data.containers import Pairs
from probmetric.inference.lca.fit import scaled_axes
from probmetric.inference.lca.recipe import Recipe, prior_for, solve
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAParams, LCAPrior, to_metric
from probmetric.neighbors.strength import ONCE, folds, some_voters

SCALES = (2.0, 2.0**1.5, 4.0, 2.0**0.5)
"""Grid of k."""

STRENGTHS = (1e6, 100.0, 30.0, 10.0)
"""Grid of λ; the first leaves nothing to learn."""

MIDDLE = 30.0
MOST_FOLDS = 5
TOLERANCE, MOST_STEPS = 1e-4, 100
"""Of the fits of folds."""

type Scale = float | Literal["cv"]


class ClassPrior(NamedTuple):
    """W₀ (p, d) and c of Eq. (1), and the k and λ in use."""

    mean: Float[np.ndarray, "p d"]
    c: float
    k: float
    lam: float

    def of_class(self) -> LCAPrior:
        """Return Eq. (1), as the NumPyro model takes it."""
        return LCAPrior(
            mean=self.k * self.mean,
            c=np.asarray(self.k * self.c),
            lam=np.asarray(self.lam),
        )


class Class(NamedTuple):
    """A fitted class: mean, map L, b and σ² of ``LCAClassifier``'s Eq. (1)."""

    mean: Float[np.ndarray, "d"]
    factor: Float[np.ndarray, "p d"]
    b: float
    fit: Fit


def class_pairs(
    Z: Float[np.ndarray, "n d"], mean: Float[np.ndarray, "d"], member: np.ndarray
) -> Pairs:
    """Pair the class mean, put last, with every point."""
    n = len(Z)
    return Pairs(
        np.concatenate([Z, mean[None]]),
        np.full(n, n),
        np.arange(n),
        member.astype(int),
    )


def fit_class(
    Z: Float[np.ndarray, "n d"],
    member: np.ndarray,
    recipe: Recipe,
    prior: ClassPrior | float,
    start: LCAParams | None = None,
) -> Class:
    """Fit one class; a number is λ of a prior that the class sets by its own pairs."""
    mean = Z[member].mean(0)
    pairs = class_pairs(Z, mean, member)
    if isinstance(prior, ClassPrior):
        given = prior.of_class()
    else:
        given = prior_for(pairs, recipe, prior)
    # Each pair has a point of its own: the n pairs count as n observations.
    fit = solve(pairs, given, recipe, 1.0, start)
    metric = to_metric(fit.params)
    b = 0.0 if metric.link is None else float(metric.link.b)
    return Class(mean, np.asarray(metric.factor), b, fit)


def common_centre(
    Z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"], recipe: Recipe
) -> tuple[Float[np.ndarray, "p d"], float]:
    """Return W₀ and c of Eq. (1).

    Raises
    ------
    ValueError
        Where the points of every class coincide.
    """
    apart = np.zeros_like(Z)
    for code in np.unique(codes):
        own = Z[codes == code]
        # x minus the mean of the others is n/(n-1) times x minus the mean of all.
        apart[codes == code] = (own - own.mean(0)) * len(own) / max(len(own) - 1, 1)
    everyone = class_pairs(Z, Z.mean(0), np.ones(len(Z), bool))
    first = prior_for(everyone, recipe, 1.0)
    axes = np.asarray(first.mean) / float(first.c)
    pairs = class_pairs(apart, np.zeros(Z.shape[1]), np.ones(len(Z), bool))
    W0, c = scaled_axes(axes, pairs)
    return np.asarray(W0), c


def choose_prior(
    Z: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    recipe: Recipe,
    scale: Scale,
    lam: float | Literal["cv"],
) -> ClassPrior:
    """Return the prior of Eq. (1); ``"cv"`` of either number is chosen.

    Parameters
    ----------
    Z : array of shape (n, d)
        Standardised points.
    codes : array of shape (n,)
        Classes 0..c-1.
    recipe : Recipe
    scale : float or "cv"
        k.
    lam : float or "cv"
        λ.
    """
    W0, c = common_centre(Z, codes, recipe)
    k = scale if not isinstance(scale, str) else SCALES[0]
    base = ClassPrior(W0, c, k, lam if not isinstance(lam, str) else MIDDLE)
    rows = some_voters(Z, codes)
    Z, codes = Z[rows], codes[rows]
    if np.bincount(codes).max() < 2:
        return base
    if isinstance(scale, str):
        tried = [base._replace(k=k) for k in SCALES]
        base = tried[int(np.argmin(held_out(Z, codes, recipe, tried)))]
    if isinstance(lam, str):
        tried = [base._replace(lam=lam) for lam in STRENGTHS]
        base = tried[int(np.argmin(held_out(Z, codes, recipe, tried)))]
    return base


def held_out(
    Z: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    recipe: Recipe,
    priors: list[ClassPrior],
) -> Float[np.ndarray, "q"]:
    """Return the mean loss of points left out, under each prior; of none 0."""
    quick = recipe._replace(
        tol=TOLERANCE if recipe.solver == "lbfgs" else recipe.tol,
        max_iter=min(recipe.max_iter, MOST_STEPS),
    )
    members = np.bincount(codes)
    most = MOST_FOLDS if len(Z) < ONCE else 2
    n_folds = int(min(most, *members[members > 1]))
    losses, scored = np.zeros(len(priors)), 0
    for fold in folds(Z, codes, n_folds, 1):
        X, y = Z[fold.learned], codes[fold.learned]
        present = np.unique(y)
        asked = fold.asked[np.isin(codes[fold.asked], present)]
        scored += len(asked)
        scores = np.empty((len(priors), len(asked), len(present)))
        for j, code in enumerate(present):
            start = None
            for q, prior in enumerate(priors):
                found = fit_class(X, y == code, quick, prior, start)
                start = found.fit.params
                gaps = (Z[asked] - found.mean) @ found.factor.T
                scores[q, :, j] = -(found.b + 0.5 * np.sum(gaps**2, 1))
        own = np.searchsorted(present, codes[asked])
        log_p = log_softmax(scores, axis=2)[:, np.arange(len(asked)), own]
        losses -= log_p.sum(1)
    losses = losses / max(scored, 1)
    return np.where(np.isfinite(losses), losses, np.inf)
