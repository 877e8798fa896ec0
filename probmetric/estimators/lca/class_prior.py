"""Choose the prior of ``LCAClassifier`` by the loss of held-out classes.

Class c has a linear map W_c, which is learned from few points. The prior of W_c is

    W_c ~ N(k W₀, (k c)²/λ),                                                       (1)

with W₀ ∝ S^(-g/2), where S is the covariance within classes and g is chosen as in
``LCA``. The scale c = ‖W₀‖/√p is common to all classes. If g = 0 (W₀ = cI, or scaled
axes if p < d), 1/c² is the median squared distance of a point from the mean of the
*other* members of its class. (Distances to a mean that includes the point are smaller.
They would give too large a c for small classes.) k is the scale of the scores. As k
increases, P_c of points of other classes decreases faster than P_c of a typical member.

For each (k, λ) the loss is the mean of -log(P_c / Σ P) over held-out points, where c is
the class of the point. The best k at λ = 30 is chosen first, then the best λ at this k.
At λ = 10⁶ nothing is learned, because W_c is then kW₀. Points are then classified by
the nearest class mean, except for differences in b_c.

Folds are stratified. There are at most five folds, and at most as many as the members
of the smallest class with two or more. With 300 points or more, there are two folds,
and at most 1000 points are used. Ties are broken by the order of the grids. If no class
has two members, k = 2 and λ = 30. ``solver``, ``tol`` and ``max_iter`` apply to the
final fits of the classes, and not to the fits in folds.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_softmax

from probmetric.data.containers import Labeled, Pairs
from probmetric.data.hash import first_best
from probmetric.inference.lca.fit import scaled_axes, within_axes
from probmetric.inference.lca.mode import Pooled, maximize, pool
from probmetric.inference.lca.recipe import (
    Recipe,
    choose_power,
    is_auto,
    prior_for,
    solve,
)
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAPrior, log_b_of
from probmetric.neighbors.strength import ONCE, folds, some_voters
from probmetric.progress import progress_bar
from probmetric.typing import Scalar

SCALES = (2.0, 2.0**1.5, 4.0, 2.0**0.5)
"""Grid of k."""

STRENGTHS = (1e6, 100.0, 30.0, 10.0)
"""Grid of λ. With the first value nothing is learned."""

MIDDLE = 30.0
MOST_FOLDS = 5
TOLERANCE, MOST_STEPS = 1e-3, 100
"""Limits of the fits in folds: smallest gain of a step in nats, and number of steps."""

type Scale = float | Literal["cv"]


class ClassPrior(NamedTuple):
    """Prior of Eq. (1): W₀ (p, d), the scale c, k and λ."""

    mean: Float[np.ndarray, "p d"]
    c: float
    k: float
    lam: float

    def of_class(self) -> LCAPrior:
        """Return Eq. (1) as the prior of the NumPyro model."""
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
    """Pair the class mean, which becomes the last point, with every point."""
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
) -> Class:
    """Fit one class. If ``prior`` is a number, it is λ of a prior set from pairs."""
    mean = Z[member].mean(0)
    pairs = class_pairs(Z, mean, member)
    if isinstance(prior, ClassPrior):
        model_prior = prior.of_class()
    else:
        model_prior = prior_for(pairs, recipe, prior)
    # Each pair has another point: the n pairs count as n observations.
    fit = solve(pairs, model_prior, recipe, 1.0)
    W = np.asarray(fit.params.W)
    b = np.exp(log_b_of(np.asarray(fit.params.log_sigma2), len(W)))
    return Class(mean, _factor(W, b), float(b), fit)


def _factor(W: np.ndarray, b: Scalar) -> np.ndarray:
    """Return W/√(1 + 2σ²), computed in NumPy from b = (p/2) log(1 + 2σ²)."""
    return W * np.exp(-b / W.shape[-2])


def common_centre(
    Z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n"], recipe: Recipe
) -> tuple[Float[np.ndarray, "p d"], float]:
    """Return W₀ and c of Eq. (1). Raise if all points within each class are equal."""
    apart = np.zeros_like(Z)
    for code in np.unique(codes):
        rows = Z[codes == code]
        # x minus the mean of the others is n/(n-1) times x minus the mean of all.
        apart[codes == code] = (rows - rows.mean(0)) * len(rows) / max(len(rows) - 1, 1)
    everyone = class_pairs(Z, Z.mean(0), np.ones(len(Z), bool))
    pairs = class_pairs(apart, np.zeros(Z.shape[1]), np.ones(len(Z), bool))
    auto = is_auto(recipe.prior_mean)
    if (power := choose_power(Labeled(Z, codes)) if auto else 0.0) > 0:
        axes = within_axes(Z, codes, power, recipe.n_components)
        W0 = np.asarray(scaled_axes(axes, pairs)[0])
        return W0, float(np.linalg.norm(W0) / np.sqrt(len(W0)))
    first = prior_for(everyone, recipe._replace(prior_mean="auto"), 1.0)
    axes = np.asarray(first.mean) / float(first.c)
    W0, c = scaled_axes(axes, pairs)
    return np.asarray(W0), c


def choose_prior(
    Z: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    recipe: Recipe,
    scale: Scale,
    lam: float | Literal["cv"],
) -> ClassPrior:
    """Return the prior of Eq. (1). "cv" as ``scale`` chooses k, as ``lam`` λ."""
    W0, c = common_centre(Z, codes, recipe)
    k = scale if not isinstance(scale, str) else SCALES[0]
    base = ClassPrior(W0, c, k, lam if not isinstance(lam, str) else MIDDLE)
    rows = some_voters(Z, codes)
    Z, codes = Z[rows], codes[rows]
    if np.bincount(codes).max() < 2:
        return base
    losses: dict[tuple[object, ...], float] = {}  # (k, MIDDLE) is in both grids.
    for name, grid, value in (("k", SCALES, scale), ("lam", STRENGTHS, lam)):
        if isinstance(value, str):
            tried = [base._replace(**{name: number}) for number in grid]
            new = [prior for prior in tried if prior[2:] not in losses]
            values = held_out(Z, codes, new).tolist()
            losses |= zip((prior[2:] for prior in new), values, strict=True)
            scores = -np.array([losses[prior[2:]] for prior in tried])
            base = tried[first_best(scores)]
    return base


def held_out(
    Z: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    priors: list[ClassPrior],
) -> Float[np.ndarray, "q"]:
    """Return the mean held-out loss of each prior, or 0 without held-out points."""
    members = np.bincount(codes)
    most = MOST_FOLDS if len(Z) < ONCE else 2
    n_folds = int(min(most, *members[members > 1]))
    losses, scored = np.zeros(len(priors)), 0
    every = list(folds(Z, codes, n_folds, 1))
    for fold in progress_bar(every, "choose the prior", None, "fold"):
        rows, own = Z[fold.learned], codes[fold.learned]
        present = np.unique(own)
        out = fold.asked[np.isin(codes[fold.asked], present)]
        scored += len(out)
        scores = np.empty((len(priors), len(out), len(present)))
        for j, code in enumerate(present):
            mean = rows[own == code].mean(0)
            pairs = pool(class_pairs(rows, mean, own == code))
            for q, (W, b) in enumerate(_along(pairs, priors)):
                gaps = (Z[out] - mean) @ _factor(W, b).T
                scores[q, :, j] = -(b + 0.5 * np.sum(gaps**2, 1))
        true = np.searchsorted(present, codes[out])
        log_p = log_softmax(scores, axis=2)[:, np.arange(len(out)), true]
        losses -= log_p.sum(1)
    losses = losses / max(scored, 1)
    return np.where(np.isfinite(losses), losses, np.inf)


def _along(
    pairs: Pooled, priors: list[ClassPrior]
) -> Iterator[tuple[Float[np.ndarray, "p d"], float]]:
    mean, log_b = priors[0].of_class().mean, np.log(0.3)
    p, d = mean.shape
    W = mean
    for prior in map(ClassPrior.of_class, priors):
        if p < d:
            W, log_b = mean, np.log(0.3)
        start = {"W": W + (prior.mean - mean), "log_b": log_b}
        end = maximize(
            pairs, prior, 1.0, start, max_steps=MOST_STEPS, tol=TOLERANCE
        ).params
        mean, W, log_b = prior.mean, end.W, log_b_of(end.log_sigma2, p)
        yield W, float(np.exp(log_b))
