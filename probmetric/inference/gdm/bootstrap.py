"""Refits of the generalized dissimilarity model under weights on sites.

Pairs share sites, so the sites are the sampling units. A refit gives site i the weight
u_i and pair (i, j) the product w u_i u_j. The prior and the knots do not change.

In the Bayesian bootstrap (Rubin 1981; on sites Woolley and others 2017), u =
n·Dirichlet(1, …, 1). In the jackknife, u is 0 for the sites of one group and 1 for the
other sites. ``posterior.jackknife`` computes variance and limits of each curve s_f(x).

If no site is in two pairs, pairs are the sampling units. The two sites of a pair are
then left out together. The weight of a pair is one entry of N·Dirichlet(1, …, 1), and
each of its sites has the square root of this weight. If sites were left out one by one,
each pair would be left out twice, which doubles the variance.

A refit is a convex problem. From the fit, it takes about five Newton steps of O(N q²).
"""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Pairs
from probmetric.inference.gdm.fit import climb
from probmetric.inference.gdm.likelihood import precisions, rows_of, to_beta, to_params
from probmetric.inference.solvers.result import REMEDY, Result
from probmetric.models.gdm import GDMParams, GDMPrior


def units_of(pairs: Pairs) -> Int[np.ndarray, "n"]:
    """Return the unit of each site: the site, or its pair if none is shared."""
    i, j = np.unique(np.sort([pairs.i, pairs.j], 0), axis=1)
    unit, ends = np.arange(len(pairs.X)), np.append(i, j)
    if len(np.unique(ends)) == len(ends):
        unit[j] = i
    return np.unique(unit, return_inverse=True)[1]


def site_weights(n: int, replicate: int, seed: int = 0) -> Float[np.ndarray, "n"]:
    """Return weights n·Dirichlet(1, …, 1) of n sites for one seed and replicate."""
    u = np.random.default_rng([seed, replicate]).exponential(size=n)
    return u / u.mean()


def refits(
    pairs: Pairs,
    prior: GDMPrior,
    params: GDMParams,
    u: Iterable[Float[np.ndarray, "n"]],
    *,
    learning_rate: float = 1.0,
) -> GDMParams:
    """Refit under weights u ≥ 0 on sites; RuntimeError if a refit does not converge."""
    rows = rows_of(pairs._replace(X=np.asarray(pairs.X, float)), params)
    precision, start = precisions(prior), to_beta(params)
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    betas: list[np.ndarray] = []
    for weight in u:
        of_pair = learning_rate * weight[i] * weight[j]
        positive = of_pair > 0
        weighted = rows._replace(
            Z=rows.Z[positive],
            shared=(of_pair * rows.shared)[positive],
            other=(of_pair * rows.other)[positive],
        )
        beta, result, trace, _ = climb(weighted, precision, start)
        if result != Result.CONVERGED:
            raise RuntimeError(
                f"Refit {len(betas)} did not converge ({result.name} after "
                f"{len(trace)} steps): {REMEDY[result]}."
            )
        betas.append(beta)
    return to_params(np.stack(betas), params)


def leave_out(
    pairs: Pairs,
    prior: GDMPrior,
    params: GDMParams,
    group: Int[np.ndarray, "n"],
    *,
    learning_rate: float = 1.0,
) -> GDMParams:
    """Refit without each group 0..g-1 of sites, with a leading axis of groups."""
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    for k in range(int(group.max()) + 1):
        if not np.any((group[i] != k) & (group[j] != k)):
            raise ValueError(
                "pairs: pairs must remain if a group of sites is left out, got none "
                f"without group {k}. Add sites or pairs."
            )
    u = (group != np.arange(int(group.max()) + 1)[:, None]).astype(float)
    return refits(pairs, prior, params, u, learning_rate=learning_rate)
