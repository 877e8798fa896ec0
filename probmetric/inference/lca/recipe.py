"""The default fit of LCA to labeled points: pairs, prior, learning rate, refresh.

Points are standardized. Each point is an anchor: it is paired with its k nearest points
of its class and its m nearest points of the other classes. With more than 32,000
points, only a stratified sample of the points are anchors (``most_anchors``). The N
pairs have the weight of n observations (learning rate n/N), because pairs share points.
The prior is centered at W₀ ∝ S^(-g/2), where S is the covariance within classes and g
is chosen by folds (``choose_power``). Under W₀ the median squared distance of the
same-class pairs is 1. The prior standard deviation is c/√λ with c = ‖W₀‖/√p. After the
first fit, the pairs are made again under the learned metric, and the fit continues (one
refresh).
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Labeled, Pairs, arrays_of
from probmetric.data.padding import host_weights, pad_pairs
from probmetric.data.pairs import all_pairs, from_rows, impostor_pairs, nearest_pairs
from probmetric.inference.choose import choose_strength
from probmetric.inference.lca.fit import (
    fit,
    scaled_identity,
    scaled_pca,
    scaled_within,
    whitened,
)
from probmetric.inference.lca.mode import span
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAParams, LCAPrior
from probmetric.typing import Array

WITHIN = {"half_within": 0.5, "within": 1.0}
"""Prior means of labeled points by name: g of ``scaled_within``."""

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Grid of g for ``choose_power``. The first value, g = 0, is W₀ = cI."""

FEWEST_ANCHORS, SEARCHED = 10_000, 32_000**2
"""Minimum number of anchors of many points; number of distances to search."""

FEW = 30
"""Below this number of points only g = 0 and ¼ are tried, because folds are noisy."""


class Recipe(NamedTuple):
    """The validated settings of ``LCA`` for a fit.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> recipe = Recipe(n_components=1, pairs="all")
    >>> len(fit_labeled(Labeled(X, y), recipe, lam=10.0).pairs.y)
    6
    """

    n_components: int
    pairs: str = "nearest"
    n_targets: int | None = None
    n_impostors: int | None = None
    max_impostors: int | None = None
    prior_mean: str | float | np.ndarray = "auto"
    learning_rate: float | None = None
    n_refresh: int = 1
    solver: str = "lbfgs"
    max_iter: int = 500
    tol: float | None = None


class Fitted(NamedTuple):
    """A fit with its pairs, prior and settings, in standardized units."""

    fit: Fit
    pairs: Pairs
    prior: LCAPrior
    learning_rate: float
    n_refresh: int
    n_iter: int
    prior_mean: str | float | np.ndarray | None = None
    groups: Int[np.ndarray, "n"] | None = None


def auto_regularization(n_effective: int | float) -> float:
    """Return the default λ = 10 · max(1, n/1000), in pseudo-points."""
    return 10.0 * max(1.0, n_effective / 1000)


def build(data: Labeled, recipe: Recipe, factor: Array | None = None) -> Pairs:
    """Build the pairs of a recipe, with neighbors under the linear map ``factor``.

    No pair has two points of the same group. The weights of points do not affect which
    pairs are chosen. The weight of a pair is the product of the weights of its points.
    """
    made, w = _unweighted(data, recipe, factor), data.w
    return made if w is None else made._replace(w=w[made.i] * w[made.j])


def _unweighted(data: Labeled, recipe: Recipe, factor: Array | None) -> Pairs:
    X, codes, _, groups = arrays_of(data)
    sizes = _sizes(data)
    if recipe.pairs == "all":
        made = all_pairs(X, codes)
        if groups is None:
            return made
        apart = np.flatnonzero(groups[made.i] != groups[made.j])
        i, j = made.i[apart], made.j[apart]
        return Pairs(X, i, j, (codes[i] == codes[j]).astype(int))
    if recipe.pairs == "nearest":
        k, m = neighbors_of(recipe, sizes)
        most = most_anchors(len(X))
        make = partial(nearest_pairs, k=k, m=m, factor=factor, n_anchors=most)
        return from_rows(make, X, codes, groups)
    n_targets = _neighbors("n_targets", recipe.n_targets, int(sizes.max()) - 1)
    impostors = partial(impostor_pairs, k=n_targets, max_impostors=recipe.max_impostors)
    return from_rows(impostors, X, codes)


def most_anchors(n: int) -> int:
    """Return the number of anchors of nearest pairs: all points up to 32,000."""
    return min(n, max(FEWEST_ANCHORS, SEARCHED // n))


def anchor_share(recipe: Recipe, n: int) -> float:
    """Return the fraction of n points that anchor pairs."""
    if recipe.pairs != "nearest":
        return 1.0
    return most_anchors(n) / n


def _sizes(data: Labeled) -> Int[np.ndarray, "c"]:
    """Return the number of points, or of groups, of each class."""
    _, codes, _, groups = arrays_of(data)
    if groups is not None:
        codes = np.unique(np.stack([codes, groups]), axis=1)[0]
    return np.bincount(codes)


def within_reach(recipe: Recipe, data: Labeled) -> Recipe:
    """Return a recipe whose numbers of neighbors do not exceed the available points."""
    sizes = _sizes(data)[np.unique(np.asarray(data.y))]
    most = {"n_targets": sizes.max() - 1, "n_impostors": sizes.sum() - sizes.min()}
    fewer = {
        name: min(number, int(limit))
        for name, limit in most.items()
        if (number := getattr(recipe, name)) is not None
    }
    return recipe._replace(**fewer)


def neighbors_of(recipe: Recipe, sizes: Int[np.ndarray, "c"]) -> tuple[int, int]:
    """Return the number of neighbors in the same class and in other classes."""
    n_targets = _neighbors("n_targets", recipe.n_targets, int(sizes.max()) - 1)
    most = int(sizes.sum() - sizes.min())
    return n_targets, _neighbors("n_impostors", recipe.n_impostors, most)


def _neighbors(name: str, value: int | None, most: int) -> int:
    """Return a number of neighbors: 3 by default, or all if there are fewer."""
    if value is None:
        value = max(1, min(3, most))
    if value > most:
        raise ValueError(
            f"{name} must be a whole number in [1, {most}] for these classes, got "
            f"{value}."
        )
    return value


def choose_power(data: Labeled) -> float:
    """Choose g of the prior mean W₀ ∝ S^(-g/2) by cross-validation.

    The loss is the log loss of soft votes of neighbors under the metric W₀ᵀW₀, without
    a fit of LCA. By Eq. (1) of ``neighbors.strength``, the result is the smallest g
    whose loss is within half a standard error of the best. A group is in one fold.
    """
    X, codes, _, groups = arrays_of(data)
    n = len(X) if groups is None else len(np.unique(groups))
    powers = POWERS if n >= FEW else POWERS[:2]

    def learn(rows: Int[np.ndarray, "l"]) -> Iterator[np.ndarray]:
        return whitened(X, rows, codes, powers, groups)

    return choose_strength(
        learn, X, codes, powers, name="prior_mean", images=True, groups=groups
    ).strength


def is_auto(mean: str | float | np.ndarray) -> bool:
    """Check whether cross-validation chooses the prior mean."""
    return isinstance(mean, str) and mean == "auto"


def mean_of(recipe: Recipe, d: int) -> Float[np.ndarray, "p d"] | str | float:
    """Return the prior mean as matrix, power or name, without "auto" and g = 0."""
    mean = recipe.prior_mean
    if is_auto(mean) or (np.ndim(mean) == 0 and mean == 0.0):
        return "identity" if recipe.n_components == d else "pca"
    return mean


def prior_for(
    pairs: Pairs, recipe: Recipe, lam: float, data: Labeled | None = None
) -> LCAPrior:
    """Return the prior W ~ N(W₀, c²/λ), b ~ Exponential(1).

    W₀ and c are computed from the pairs of the fit (empirical Bayes). If W₀ is based on
    the within-class covariance, the ``data`` are also used.

    Raises
    ------
    ValueError
        If W₀ is based on the within-class covariance and ``data`` is None.
    """
    d = pairs.X.shape[1]
    p, mean = recipe.n_components, mean_of(recipe, d)
    if np.ndim(mean):
        # c is the scale of W₀: c for cI, and for c times orthonormal rows.
        W0, c = mean, float(np.linalg.norm(mean) / np.sqrt(p))
    elif mean in WITHIN or not isinstance(mean, str):
        if data is None:
            raise ValueError(
                "prior_mean must be 'auto', 'identity', 'pca' or a matrix for pairs "
                f"(their points have no classes), got {mean!r}."
            )
        power = WITHIN[mean] if isinstance(mean, str) else float(mean)
        _, codes, _, groups = arrays_of(data)
        W0, c = scaled_within(pairs, codes, power, p, groups)
    elif mean == "identity":
        W0, c = scaled_identity(pairs, p)
    else:
        W0, c = scaled_pca(pairs, p)
    return LCAPrior(mean=np.asarray(W0, float), c=np.asarray(c), lam=np.asarray(lam))


def n_observations(data: Labeled) -> float:
    """Return the number of points or groups, or the sum of their (mean) weights."""
    each = np.ones(len(data.X)) if data.w is None else data.w
    if data.groups is not None:
        each = each / np.bincount(data.groups)[data.groups]
    return float(np.sum(each))


def rate_for(pairs: Pairs, recipe: Recipe, data: Labeled | None = None) -> float:
    """Return the learning rate; the default is n/N for n anchors and N pairs."""
    if recipe.learning_rate is not None:
        return recipe.learning_rate
    n = len(pairs.X)
    weight = (n if data is None else n_observations(data)) * anchor_share(recipe, n)
    return weight / float(np.sum(host_weights(pairs)))


def solve(
    pairs: Pairs,
    prior: LCAPrior,
    recipe: Recipe,
    learning_rate: float,
    init: LCAParams | None = None,
) -> Fit:
    """Fit LCA to pairs in float64.

    With fewer points than features, W - W₀ is zero outside the span of the points. The
    fit then has one column for each of the r < n dimensions of this span, and ``init``
    must be a fit with the same W₀. Shapes are padded for the solvers that JAX compiles.
    """
    X, W0 = np.asarray(pairs.X), np.asarray(prior.mean)
    axes = span(X).T
    if len(X) < X.shape[1]:
        pairs = pairs._replace(X=(X - X.mean(0)) @ axes.T)
        prior = prior._replace(mean=W0 @ axes.T)
        init = init and init._replace(W=init.W @ axes.T)
    with jax.enable_x64(True):
        found = fit(
            pairs if recipe.solver == "lbfgs" else pad_pairs(pairs),
            prior,
            init=init,
            solver=recipe.solver,  # pyright: ignore[reportArgumentType]
            learning_rate=learning_rate,
            max_steps=recipe.max_iter,
            tol=recipe.tol,
        )
    if len(axes) == len(axes.T):
        return found
    W = W0 + (np.asarray(found.params.W) - prior.mean) @ axes
    # Add the prior density of the entries of W₀ outside the span.
    constant = (W0.size - prior.mean.size) * log_density_at_mean(prior)
    return found._replace(
        params=found.params._replace(W=W),
        objective=found.objective + constant,
        trace=found.trace + constant,
    )


def log_density_at_mean(prior: LCAPrior) -> float:
    """Return the log prior density of one entry of W at its mean, 0 if it is flat."""
    precision = float(prior.lam) / float(prior.width) ** 2
    return 0.5 * float(np.log(precision / (2 * np.pi))) if precision else 0.0


def fit_labeled(data: Labeled, recipe: Recipe, lam: float) -> Fitted:
    """Fit LCA with all passes of the recipe at one λ.

    The prior is computed from the first pairs, which use the Euclidean metric, and does
    not change. A refresh starts at the previous fit. Only ``pairs="nearest"`` is
    refreshed. With ``pairs="all"`` a refresh has no effect, and with impostors it makes
    the metric worse. The weight of a pair is the product of the weights of its points.
    """
    X, _, _, groups = arrays_of(data)
    pairs = build(data, recipe)
    prior = prior_for(pairs, recipe, lam * anchor_share(recipe, len(X)), data)
    rate = rate_for(pairs, recipe, data)
    fit = solve(pairs, prior, recipe, rate)
    steps = int(fit.n_steps)
    n_refresh = recipe.n_refresh if recipe.pairs == "nearest" else 0
    for _ in range(n_refresh):
        pairs = build(data, recipe, fit.params.W)
        fit = solve(pairs, prior, recipe, rate, fit.params)
        steps += int(fit.n_steps)
    mean = mean_of(recipe, X.shape[1])
    steps = max(1, steps)
    return Fitted(fit, pairs, prior, rate, n_refresh, steps, mean, groups)


def as_fitted(recipe: Recipe, fitted: Fitted) -> Recipe:
    """Return a recipe with the same components, refreshes and prior mean as a fit."""
    mean = recipe.prior_mean if fitted.prior_mean is None else fitted.prior_mean
    return recipe._replace(
        n_components=len(fitted.fit.params.W),
        n_refresh=fitted.n_refresh,
        prior_mean=mean,
    )


def refitted(
    fitted: Fitted,
    recipe: Recipe,
    *,
    learning_rate: float | None = None,
    lam: float | None = None,
) -> Fitted:
    """Refit the same pairs with another learning rate or λ; None keeps the value."""
    rate = fitted.learning_rate if learning_rate is None else learning_rate
    prior = fitted.prior
    if lam is not None:
        prior = prior._replace(lam=np.asarray(lam))
    if rate == fitted.learning_rate and float(prior.lam) == float(fitted.prior.lam):
        return fitted
    fit = solve(fitted.pairs, prior, recipe, rate, fitted.fit.params)
    return fitted._replace(fit=fit, prior=prior, learning_rate=rate)
