"""The default fit of LCA from a sample of anchors and their nearest of *all* rows.

Nearest pairs of n points cost O(n²). This fit therefore draws A of the points as
anchors, within each class (``rows``). Each anchor is paired with its neighbors among
all rows: the k nearest of its class and the m nearest of the other classes. These pairs
are a sample of the pairs of the full fit, and the error of the estimate decreases as
1/√A. Subsampling the *rows* instead is not supported, because neighbors would be
farther. Larger distances change P(same) and make the metric less accurate.

The ratio of prior and likelihood is the same as in the full fit.
``regularization="auto"`` is λ(n) A/n, and the learning rate is A/N for N pairs.

The standard error of M due to the sampling of anchors uses random groups. The anchors
of each class are divided into G groups by their hash. Each group is fitted like the
whole sample, with separate pairs and refresh. With M_g the estimate from group g and M̄
the mean over groups,

    se² = (1 - A/n) Σ_g (M_g - M̄)² / (G (G - 1)),   of G - 1 degrees of freedom.    (1)

A sandwich estimate from the scores of the pairs would be too small, because it treats
the map of the refresh as known. For the coverage of Eq. (1) see Benchmarks: anchors.
With ``n_anchors="auto"``, the number of anchors doubles until ‖se‖ is below ``AGREE``
times ‖M‖.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from probmetric.data.containers import Pairs
from probmetric.data.padding import host_weights
from probmetric.inference.lca.anchors.pairs import paired
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
"""Default number of anchors for data on disk, or all rows if there are fewer."""

FIRST = 1000
"""Initial number of anchors for ``n_anchors="auto"``."""

AGREE = 0.05
"""Relative standard error of M at which ``n_anchors="auto"`` stops."""

GROUPS = 8
"""Number of groups of anchors for the standard error."""


class Anchored(NamedTuple):
    """A fit from a sample of anchors, which are a share A/n of the points.

    ``error`` (d, d) is the standard error of M, Eq. (1), in standardized units, and
    ``relative`` is ‖error‖/‖M‖.
    """

    fitted: Fitted
    anchors: Anchors
    share: float
    error: Float[np.ndarray, "d d"]
    relative: float


def fit_anchors(
    reader: Reader, recipe: Recipe, lam: float | str, n_anchors: int | str, seed: int
) -> Anchored:
    """Fit LCA from anchors.

    ``n_anchors="auto"`` doubles the number of anchors until the error is small.
    ``lam="auto"`` is the default λ of a fit to all rows, times A/n.
    """
    n = int(reader.counts.sum())
    if not isinstance(n_anchors, str):
        return _fit(reader, recipe, lam, int(n_anchors), seed)
    A = FIRST
    while True:
        found = _fit(reader, recipe, lam, min(A, n), seed)
        if found.relative <= AGREE or A >= min(n, DEFAULT):
            return found
        A = min(2 * A, DEFAULT)


def _fit(
    reader: Reader, recipe: Recipe, lam: float | str, n_anchors: int, seed: int
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
    [pairs] = paired(reader, anchors, k, m, first)
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
        made = paired(reader, anchors, k, m, designs)
        fits = [solved(p, f.params) for p, f in zip(made, fits, strict=True)]
        pairs, steps = made[0], steps + int(fits[0].n_steps)
    rate = recipe.learning_rate or _rate(pairs, anchors)
    mean = mean_of(recipe, reader.n_features)
    asked = recipe.n_refresh, max(1, steps), mean
    fitted = Fitted(fits[0], pairs, prior, rate, *asked)
    M, *groups = (_matrix(fit.params) for fit in fits)
    error = np.sqrt((1 - share) * np.var(groups, 0, ddof=1) / len(groups))
    relative = float(np.linalg.norm(error) / np.linalg.norm(M))
    return Anchored(fitted, anchors, share, error, relative)


def _matrix(params: LCAParams) -> Float[np.ndarray, "d d"]:
    L = np.asarray(to_metric(params).factor)
    return L.T @ L


def _of(pairs: Pairs, which: np.ndarray) -> Pairs:
    used = np.isin(np.asarray(pairs.anchor), which)
    i, j, y, w, anchor = (
        np.asarray(v)[used]
        for v in (pairs.i, pairs.j, pairs.y, host_weights(pairs), pairs.anchor)
    )
    return pairs._replace(i=i, j=j, y=y, w=w, anchor=anchor)


def _rate(pairs: Pairs, anchors: Anchors) -> float:
    """Return the learning rate at which the pairs have the weight of A observations."""
    return len(anchors.row) / float(np.sum(host_weights(pairs)))


def _prior(reader: Reader, pairs: Pairs, recipe: Recipe, lam: float) -> Any:
    mean = mean_of(recipe, reader.n_features)
    if not isinstance(mean, str) or mean != "pca":
        return prior_for(pairs, recipe, lam)
    V = np.linalg.eigh(reader.scatter)[1][:, ::-1][:, : recipe.n_components].T
    prior = prior_for(pairs, recipe._replace(prior_mean="identity"), lam)
    W0, c = scaled_axes(V, pairs)
    return prior._replace(mean=np.asarray(W0), c=np.asarray(c))
