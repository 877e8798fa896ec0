"""The jackknife of LCA: refits without a group of points, and links on held-out pairs.

In a refit the points of one group have weight zero, which removes every pair with a
point of the group. The refit starts at the fit to all points (``bootstrap``). The prior
does not change, unless its mean was chosen by folds: then it is chosen again.

The refits also provide held-out pairs: point i with every point j of another group,
under the fit without the group of i. P(same) is calibrated on the held-out pairs by the
log-logistic link (``link``). For the variance of its (a, γ), each replicate k repeats
this without the pairs of group k, under the fits without the group of i *and* group k.
That fit is approximated by L_(i) + L_(k) - L, exact to first order, instead of g²/2
more refits.
"""

import jax
import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Pairs
from probmetric.data.hash import canonical_order
from probmetric.data.padding import bucket, pad_pairs
from probmetric.inference.lca.bootstrap import bootstrap, check_results
from probmetric.inference.lca.fit import scaled_axes, scaled_within
from probmetric.inference.lca.link import log_logistic
from probmetric.inference.lca.recipe import Fitted, choose_power
from probmetric.inference.solvers.result import Fit
from probmetric.metric.link import AT_RANDOM, LogLogisticLink
from probmetric.models.lca import LCAParams, LCAPrior

MOST_PAIRS_HELD_OUT = 10_000
"""Largest number of held-out pairs for a link; a random subset if there are more."""

FEW = 50
"""The number of refits is padded to a multiple of it."""


def leave_out(
    fitted: Fitted,
    group: Int[np.ndarray, "n"],
    codes: Int[np.ndarray, "n"] | None = None,
) -> LCAParams:
    """Refit without each group of points; W is (g, p, d), log σ² and κ² are (g,).

    With ``codes``, the prior mean is chosen again without each group. Raises
    RuntimeError if a refit does not converge.
    """
    n, g = len(group), int(group.max()) + 1
    # Few shapes, few compilations. Added refits have unit weights and cost one step.
    size = -(-g // FEW) * FEW if codes is None else g
    u = np.ones((size, bucket(n)))
    u[:g, :n] = group != np.arange(g)[:, None]
    pairs = pad_pairs(fitted.pairs)

    def refits(prior: LCAPrior, u: Float[np.ndarray, "s n"]) -> Fit:
        start, rate = fitted.fit.params, fitted.learning_rate
        return bootstrap(pairs, prior, start, u, learning_rate=rate)

    if codes is None:
        made = refits(fitted.prior, u)
    else:
        priors = (_prior_without(fitted, group == k, codes) for k in range(g))
        fits = [refits(prior, row[None]) for prior, row in zip(priors, u, strict=True)]
        made = jax.tree.map(lambda *a: np.concatenate(a), *fits)
    check_results("jackknife", np.asarray(made.result)[:g], 0)
    return LCAParams(*(a[:g] for a in made.params))


def _prior_without(
    fitted: Fitted, out: np.ndarray, codes: Int[np.ndarray, "n"]
) -> LCAPrior:
    """Choose the prior mean again, from the other points, at the scale of the fit."""
    pairs, row = fitted.pairs, np.cumsum(~out) - 1
    rest = ~(out[pairs.i] | out[pairs.j])
    same = np.asarray(pairs.y)[rest]
    if not same.any():
        return fitted.prior
    X, codes = np.asarray(pairs.X)[~out], codes[~out]
    others = Pairs(X, row[pairs.i[rest]], row[pairs.j[rest]], same)
    mean = np.asarray(fitted.prior.mean)
    W0, c = scaled_within(others, codes, choose_power(X, codes), len(mean))
    scale = scaled_axes(mean, others)[1]  # Pairs were refreshed since it was set.
    return fitted.prior._replace(mean=W0 / scale, c=np.asarray(c / scale))


def held_out_links(
    X: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n"],
    group: Int[np.ndarray, "n"],
    factor: Float[np.ndarray, "p d"],
    left_out: Float[np.ndarray, "g p d"],
    most: int = MOST_PAIRS_HELD_OUT,
) -> list[LogLogisticLink]:
    """Fit links to held-out pairs: one for the fit, then one for each omitted group.

    ``factor`` and ``left_out`` are the linear maps of the fit and of the refits,
    rotated to match it. At most ``most`` pairs are used, chosen at random.
    """
    if len(left_out) < 3:
        raise ValueError(
            f"group must have at least 3 groups, got {len(left_out)}. Use more groups: "
            "two are left out together."
        )
    order = canonical_order(X, codes)  # The random subset depends on the order.
    X, codes, group = X[order], codes[order], group[order]
    i, j = np.nonzero(group[:, None] != group[None])
    if len(i) > most:
        subset = np.random.default_rng(0).choice(len(i), most, replace=False)
        i, j = i[subset], j[subset]
    same = codes[i] == codes[j]
    V = X @ factor.T
    moved = X @ left_out.transpose(0, 2, 1) - V
    held_out = V[i] - V[j] + moved[group[i], i] - moved[group[i], j]
    links = [log_logistic(np.sum(held_out**2, 1), same, AT_RANDOM)]
    for k, shift in enumerate(moved):
        rest = (group[i] != k) & (group[j] != k)
        D = np.sum((held_out + shift[i] - shift[j])[rest] ** 2, 1)
        links.append(log_logistic(D, same[rest], AT_RANDOM, links[0]))
    return links
