"""The jackknife of LCA: refits without a group of points, and links on pairs held out.

A refit gives the points of one group the weight zero, so that every pair with one of
them is gone, and goes on from the fit to all (``bootstrap``, which keeps the prior).

These refits also make held-out pairs: point i with every point j of another group,
under the fit without the group of i. P(same) is calibrated on them by the log-logistic
link (``link``). For the spread of its (a, γ) each replicate k repeats this without the
pairs of group k and under the fits without the group of i *and* group k. That fit is
taken as L_(i) + L_(k) - L, exact to first order, in place of g²/2 more refits.
"""

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.padding import bucket, pad_pairs
from probmetric.inference.lca.bootstrap import bootstrap, check_results
from probmetric.inference.lca.link import log_logistic
from probmetric.inference.lca.recipe import Fitted
from probmetric.metric.link import AT_RANDOM, LogLogisticLink
from probmetric.models.lca import LCAParams

MOST_PAIRS_HELD_OUT = 10_000
"""Held-out pairs that a link is fitted to; of more, so many at random."""

FEW = 50
"""Refits are made in multiples of it."""


def leave_out(fitted: Fitted, group: Int[np.ndarray, "n"]) -> LCAParams:
    """Return the refits without each group of points, a leading axis of g.

    Raises
    ------
    RuntimeError
        Where a refit did not converge.
    """
    n, g = len(group), int(group.max()) + 1
    # Few shapes, few compilations; what is added weighs one, and costs a step.
    u = np.ones((-(-g // FEW) * FEW, bucket(n)))
    u[:g, :n] = group != np.arange(g)[:, None]
    found = bootstrap(
        pad_pairs(fitted.pairs),
        fitted.prior,
        fitted.fit.params,
        u,
        learning_rate=fitted.learning_rate,
    )
    check_results("jackknife", np.asarray(found.result)[:g], 0)
    return LCAParams(*(a[:g] for a in found.params))


def held_out_links(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    group: Int[np.ndarray, "n"],
    factor: Float[np.ndarray, "p d"],
    left_out: Float[np.ndarray, "g p d"],
    most: int = MOST_PAIRS_HELD_OUT,
) -> list[LogLogisticLink]:
    """Return links on held-out pairs: that of the fit, then one a group left out.

    Parameters
    ----------
    X, codes
        The labelled points, in the units of the factors.
    group
        The group of each point.
    factor, left_out
        The maps L of the fit and of its refits, rotated onto it.
    most
        Pairs that are taken; of more, so many at random.
    """
    i, j = np.nonzero(group[:, None] != group[None])
    if len(i) > most:
        kept = np.random.default_rng(0).choice(len(i), most, replace=False)
        i, j = i[kept], j[kept]
    same = codes[i] == codes[j]
    V = X @ factor.T
    moved = X @ left_out.transpose(0, 2, 1) - V
    own = V[i] - V[j] + moved[group[i], i] - moved[group[i], j]
    links = [log_logistic(np.sum(own**2, 1), same, AT_RANDOM)]
    for k, by in enumerate(moved):
        rest = (group[i] != k) & (group[j] != k)
        D = np.sum((own + by[i] - by[j])[rest] ** 2, 1)
        links.append(log_logistic(D, same[rest], AT_RANDOM, links[0]))
    return links
