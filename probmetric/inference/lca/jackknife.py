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

from probmetric.data.hash import canonical_order
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

    Parameters
    ----------
    fitted : Fitted
        Of ``fit_labelled``; not per anchor.
    group : int array of shape (n,)
        The group of each point, 0..g-1.

    Returns
    -------
    LCAParams
        W (g, p, d), log σ² (g,), κ² (g,).

    Raises
    ------
    RuntimeError
        Where a refit did not converge.

    Examples
    --------
    What is left without the first group mirrors what is left without the second:

    >>> import numpy as np
    >>> from probmetric.inference import lca
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> fitted = lca.fit_labelled(X, y, lca.Recipe(1, pairs="all"), lam=10.0)
    >>> refits = lca.leave_out(fitted, np.array([0, 1, 0, 1]))
    >>> W = refits.W.ravel()
    >>> len(W), round(float(abs(W[0] - W[1])), 6)
    (2, 0.0)
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
        The group of each point, of three or more.
    factor, left_out
        The maps L of the fit and of its refits, rotated onto it.
    most
        Pairs that are taken; of more, so many at random.

    Raises
    ------
    ValueError
        For fewer than three groups.

    Examples
    --------
    P(same) at distances 1 and 4 of two classes 4 apart, where every refit is the fit:

    >>> import numpy as np
    >>> from probmetric.inference import lca
    >>> X = np.array([[0.0], [1.0], [2.0], [4.0], [5.0], [6.0]])
    >>> y, group = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2])
    >>> links = lca.held_out_links(X, y, group, np.eye(1), np.ones((3, 1, 1)))
    >>> len(links), links[0].probability(np.array([1.0, 16.0])).round(2).tolist()
    (4, [0.94, 0.1])
    """
    if len(left_out) < 3:
        raise ValueError(
            "group: expected three groups or more, since without one of two no pair "
            f"of groups is left, got {len(left_out)}"
        )
    order = canonical_order(X, codes)  # Some pairs are drawn by their place.
    X, codes, group = X[order], codes[order], group[order]
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
