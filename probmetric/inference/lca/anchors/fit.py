"""The default fit of LCA from a sample of anchors, each with its nearest of *all* rows.

Nearest pairs of n points cost O(n²). A of the points are drawn as anchors; only these
look for partners, but among all rows: the k nearest of their class and the m nearest of
the others are exact (``lists`` finds most of them), so that the pairs are a sample of
the pairs of the full fit, and the estimate falls towards it as 1/√A. To thin the *rows*
and pair what is left is another thing: neighbours of a thinned set are farther, by
(n/n')^(1/d), and the fit is of another design, with another P(same) (60 000 rows, d =
8, 8000 kept: the shape of M off by .14-.19 where 8000 anchors are off by .05-.06, its
scale by .6 where theirs is .98 to .99). It is not offered.

Anchors are drawn within each class (``rows``). The prior keeps the proportion to the
likelihood that it has in the full fit: "auto" is λ(n) A/n, and the learning rate is
A/N.

Standard error of M from the drawing of anchors, by random groups. The anchors of each
class are dealt into G groups by their hash. Each group is fitted as the whole is, with
the refresh and pairs of its own, its weights times the ratio that gives the prior the
same proportion. With M_g of the groups and M̄ their mean,

    se² = (1 - A/n) Σ_g (M_g - M̄)² / (G (G - 1)),   of G - 1 degrees of freedom.    (1)

The scores of the pairs alone (a sandwich) do not do: they leave out that the refresh
finds pairs under a map that has errors too, and covered .67 where .90 was nominal, with
errors 1.5 times theirs. Nominal 90 % of Eq. (1) covered what
``benchmarks/results/anchors.md`` says. With ``n_anchors="auto"`` anchors are doubled
until ‖se‖ is below ``AGREE`` times ‖M‖.

P(same) is calibrated on the pairs of each half of the anchors under the fit to the
other half.

A pass reads every row once, in any number of processes; what is kept of it is gathered
and has the same bits on each (``neighbors.stream``). The solver runs in each of them on
all pairs, which are 2A(k + m) rows at most.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Pairs
from probmetric.data.padding import host_weights
from probmetric.inference.lca.anchors.pairs import Search, found_exactly, paired
from probmetric.inference.lca.anchors.rows import Anchors, Design, Reader, draw_anchors
from probmetric.inference.lca.fit import scaled_axes
from probmetric.inference.lca.recipe import (
    Fitted,
    Recipe,
    auto_regularization,
    mean_of,
    neighbors_of,
    prior_for,
    solve,
)
from probmetric.inference.solvers.result import Fit
from probmetric.models.lca import LCAParams, to_metric

DEFAULT = 100_000
"""Anchors of a source, where no number is given: all rows if they are fewer."""

FIRST = 1000
"""Anchors that ``n_anchors="auto"`` begins with."""

AGREE = 0.05
"""Relative standard error of M below which "auto" stops."""

GROUPS = 8
"""Groups of anchors of which the standard error is made."""


class Anchored(NamedTuple):
    """A fit from anchors.

    Attributes
    ----------
    fitted : Fitted
    anchors : Anchors
    share : float
        A/n.
    error : array (d, d)
        Standard error of M, Eq. (1), in standardised units.
    relative : float
        ‖se‖ / ‖M‖.
    squared, y : arrays
        Squared distances of each half's pairs under the map of the other, in units of
        the link, and their labels.
    recall : float
        Share of the partners that were found: 1 of exact ones.
    """

    fitted: Fitted
    anchors: Anchors
    share: float
    error: Float[np.ndarray, "d d"]
    relative: float
    squared: Float[np.ndarray, "N"]
    y: Int[np.ndarray, "N"]
    recall: float


def fit_anchors(
    reader: Reader,
    recipe: Recipe,
    lam: float | str,
    n_anchors: int | str,
    seed: int,
    search: Search = found_exactly,
) -> Anchored:
    """Run all passes of the recipe with anchors; "auto" doubles them till they agree.

    Parameters
    ----------
    reader : Reader
    recipe : Recipe
        Of nearest pairs.
    lam : float or "auto"
        "auto" is that of the fit of all rows, times A/n.
    n_anchors : int or "auto"
    seed : int
    search : Search
        How partners are found: ``found_exactly``, or ``found_in_lists``.
    """
    n = int(reader.counts.sum())
    if not isinstance(n_anchors, str):
        return _fit(reader, recipe, lam, int(n_anchors), seed, search)
    A = FIRST
    while True:
        found = _fit(reader, recipe, lam, min(A, n), seed, search)
        if found.relative <= AGREE or A >= min(n, DEFAULT):
            return found
        A = min(2 * A, DEFAULT)


def _fit(
    reader: Reader,
    recipe: Recipe,
    lam: float | str,
    n_anchors: int,
    seed: int,
    search: Search,
) -> Anchored:
    n, d = int(reader.counts.sum()), reader.n_features
    anchors = draw_anchors(reader, n_anchors, seed)
    share = len(anchors.row) / n
    if isinstance(lam, str):
        lam = auto_regularization(n) * share
    k, m = neighbors_of(recipe, reader.counts)
    whole = np.arange(len(anchors.row))
    parts = [whole, *(whole[anchors.place % GROUPS == g] for g in range(GROUPS))]
    parts = [part for part in parts if len(part)]
    first = [Design(whole, np.eye(d))]
    [pairs], recall = paired(reader, anchors, k, m, first, search)
    prior = _prior(reader, pairs, recipe, lam)

    def solved(pairs: Pairs, start: LCAParams | None) -> Fit:
        rate = recipe.learning_rate or _rate(pairs, anchors)
        return solve(pairs, prior, recipe, rate, start)

    fits = [solved(pairs, None)]
    steps = int(fits[0].n_steps)
    fits += [solved(_of(pairs, part), fits[0].params) for part in parts[1:]]
    for _ in range(recipe.n_refresh):
        maps = [np.asarray(fit.params.W, float) for fit in fits]
        designs = [Design(*both) for both in zip(parts, maps, strict=True)]
        made, share_found = paired(reader, anchors, k, m, designs, search)
        recall = min(recall, share_found)
        fits = [solved(p, f.params) for p, f in zip(made, fits, strict=True)]
        pairs, steps = made[0], steps + int(fits[0].n_steps)
    rate = recipe.learning_rate or _rate(pairs, anchors)
    mean = mean_of(recipe, reader.n_features)
    asked = recipe.n_refresh, max(1, steps), mean
    fitted = Fitted(fits[0], pairs, prior, rate, *asked)
    M, *groups = (_matrix(fit.params) for fit in fits)
    error = np.sqrt((1 - share) * np.var(groups, 0, ddof=1) / len(groups))
    relative = float(np.linalg.norm(error) / np.linalg.norm(M))
    squared, y = _held_out(fitted, anchors, recipe)
    return Anchored(fitted, anchors, share, error, relative, squared, y, recall)


def _matrix(params: LCAParams) -> Float[np.ndarray, "d d"]:
    """Return M, in units of the link."""
    L = np.asarray(to_metric(params).factor)
    return L.T @ L


def _of(pairs: Pairs, which: np.ndarray) -> Pairs:
    """Return the pairs of some anchors."""
    used = np.isin(np.asarray(pairs.anchor), which)
    i, j, y, w, anchor = (
        np.asarray(v)[used]
        for v in (pairs.i, pairs.j, pairs.y, host_weights(pairs), pairs.anchor)
    )
    return pairs._replace(i=i, j=j, y=y, w=w, anchor=anchor)


def _rate(pairs: Pairs, anchors: Anchors) -> float:
    """Return the learning rate at which pairs, of all anchors or some, count as A."""
    return len(anchors.row) / float(np.sum(host_weights(pairs)))


def _prior(reader: Reader, pairs: Pairs, recipe: Recipe, lam: float) -> Any:
    """Return ``prior_for`` the pairs, principal axes being those of all rows."""
    mean = mean_of(recipe, reader.n_features)
    if not isinstance(mean, str) or mean != "pca" or reader.scatter is None:
        return prior_for(pairs, recipe, lam)
    V = np.linalg.eigh(reader.scatter)[1][:, ::-1][:, : recipe.n_components].T
    prior = prior_for(pairs, recipe._replace(prior_mean="identity"), lam)
    W0, c = scaled_axes(V, pairs)
    return prior._replace(mean=np.asarray(W0), c=np.asarray(c))


def _held_out(
    fitted: Fitted, anchors: Anchors, recipe: Recipe
) -> tuple[np.ndarray, np.ndarray]:
    """Return squares of the pairs of each half under the other half's fit; labels."""
    pairs = fitted.pairs
    half = anchors.place[np.asarray(pairs.anchor)] % 2
    delta = np.asarray(pairs.X)[pairs.i] - np.asarray(pairs.X)[pairs.j]
    squared = np.empty(len(half))
    for h in (0, 1):
        mine = _of(pairs, np.flatnonzero(anchors.place % 2 == h))
        rate = recipe.learning_rate or _rate(mine, anchors)
        fit = solve(mine, fitted.prior, recipe, rate, fitted.fit.params)
        L = np.asarray(to_metric(fit.params).factor)
        squared[half != h] = np.sum((delta[half != h] @ L.T) ** 2, 1)
    return squared, np.asarray(pairs.y)
