"""Refits of the generalized dissimilarity model under weights on sites.

Pairs share sites, so the sites are the sampling units. A refit gives site i the weight
u_i and pair (i, j) the product w u_i u_j. The prior and the knots do not change.

Bayesian bootstrap (Rubin 1981; on sites Woolley and others 2017): u = n·Dirichlet(1, …,
1). Jackknife: u is 0 for the sites of one group and 1 for the others; variance and
limits are computed by ``posterior.jackknife``, with g_k = s_f(x) at each x.

If no site is in two pairs, pairs are the sampling units. Both sites of a pair are then
left out together. The weight of a pair is one entry of N·Dirichlet(1, …, 1), and each
of its sites has the square root. With separate sites, each pair would be left out
twice, which doubles the variance.

A refit is a convex problem. It starts at the fit and takes about five Newton steps of
O(N q²).
"""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Int

from probmetric.data.containers import Pairs
from probmetric.inference.gdm.fit import climb
from probmetric.inference.gdm.likelihood import precisions, rows_of, to_beta
from probmetric.inference.solvers.result import REMEDY, Result
from probmetric.models.gdm import GDMParams, GDMPrior


def units_of(pairs: Pairs) -> Int[np.ndarray, "n"]:
    """Return the sampling unit of each site, numbered 0, 1, ...

    The sampling unit is the site. If no site is in two different pairs, the unit is the
    pair.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference.gdm.bootstrap import units_of
    >>> X, i = np.arange(4.0)[:, None], np.array([0, 1])
    >>> units_of(Pairs(X, i, np.array([2, 3]), None)).tolist()
    [0, 1, 0, 1]
    >>> twice = Pairs(X, np.array([0, 1, 2]), np.array([2, 3, 0]), None)
    >>> units_of(twice).tolist()
    [0, 1, 0, 1]
    >>> units_of(Pairs(X, i, np.array([2, 2]), None)).tolist()
    [0, 1, 2, 3]
    """
    i, j = np.unique(np.sort([pairs.i, pairs.j], 0), axis=1)
    unit, ends = np.arange(len(pairs.X)), np.append(i, j)
    if len(np.unique(ends)) == len(ends):
        unit[j] = i
    return np.unique(unit, return_inverse=True)[1]


def site_weights(n: int, replicate: int, seed: int = 0) -> Float[np.ndarray, "n"]:
    """Return the weights of n sites in one replicate of the Bayesian bootstrap.

    The weights are n·Dirichlet(1, …, 1) and depend only on the seed and the replicate.

    Examples
    --------
    >>> from probmetric.inference.gdm import site_weights
    >>> u = site_weights(50, replicate=3)
    >>> round(float(u.mean()), 6), bool((u > 0).all())
    (1.0, True)
    """
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
    """Refit the model under weights on sites.

    Parameters
    ----------
    pairs : Pairs
        Pairs in which each site is one point.
    prior, params, learning_rate
        The prior, the fit and its learning rate.
    u : iterable of arrays of shape (n,)
        Weights of the sites, ≥ 0, for each replicate.

    Returns
    -------
    GDMParams
        b (s,), theta (s, d, k), knots (d, k).

    Raises
    ------
    RuntimeError
        If a refit does not converge.

    Examples
    --------
    Without the third site there are no data in the second half of the range. The curve
    is then flat in this half, as at the mode of the prior:

    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import gdm
    >>> from probmetric.models.gdm import GDMPrior
    >>> i, j, y = np.array([[0, 0, 0], [0, 1, 2], [500, 184, 68]])
    >>> trials = np.full(3, 1000)
    >>> pairs = Pairs(np.array([[0.0], [1.0], [2.0]]), i, j, y, trials=trials)
    >>> prior = GDMPrior(gdm.knots_for(pairs.X), scale=10.0)
    >>> params = gdm.fit(pairs, prior).params
    >>> refits = gdm.refits(pairs, prior, params, [np.ones(3), np.array([1, 1, 0])])
    >>> bool(np.allclose(refits.theta[0], params.theta, atol=1e-6))
    True
    >>> refits.theta[1, 0, -1].round(6)
    np.float64(0.0)
    """
    rows = rows_of(pairs._replace(X=np.asarray(pairs.X, float)), params.knots)
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
                f"refit {len(betas)}: {result.name} after {len(trace)} steps. "
                f"{REMEDY[result]}"
            )
        betas.append(beta)
    beta = np.stack(betas)
    theta = beta[:, 1:].reshape(len(beta), *np.shape(params.knots))
    return GDMParams(beta[:, 0], theta, np.asarray(params.knots))


def leave_out(
    pairs: Pairs,
    prior: GDMPrior,
    params: GDMParams,
    group: Int[np.ndarray, "n"],
    *,
    learning_rate: float = 1.0,
) -> GDMParams:
    """Refit without each group of sites.

    Parameters
    ----------
    pairs, prior, params, learning_rate
        See ``refits``.
    group : int array of shape (n,)
        The group of each site, 0..g-1.

    Returns
    -------
    GDMParams
        The refits, with a leading axis of groups; see ``refits``.

    Raises
    ------
    ValueError
        If no pair remains without one of the groups.

    Examples
    --------
    >>> import numpy as np
    >>> from probmetric.data import Pairs
    >>> from probmetric.inference import gdm
    >>> from probmetric.models.gdm import GDMPrior
    >>> i, j, y = np.array([[0, 0, 1, 1], [1, 2, 2, 3], [5, 2, 6, 3]])
    >>> trials = np.full(4, 10)
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> pairs = Pairs(X, i, j, y, trials=trials)
    >>> prior = GDMPrior(gdm.knots_for(pairs.X))
    >>> params = gdm.fit(pairs, prior).params
    >>> gdm.leave_out(pairs, prior, params, np.arange(4)).theta.shape
    (4, 1, 3)
    """
    i, j = np.asarray(pairs.i), np.asarray(pairs.j)
    for k in range(int(group.max()) + 1):
        if not np.any((group[i] != k) & (group[j] != k)):
            raise ValueError(
                "pairs must remain if a group of sites is left out, got no pairs "
                f"without group {k}."
            )
    u = (group != np.arange(int(group.max()) + 1)[:, None]).astype(float)
    return refits(pairs, prior, params, u, learning_rate=learning_rate)
